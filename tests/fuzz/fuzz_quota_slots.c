/*
 * fuzz_quota_slots.c - what is used of limits, as a file and as another process offers it
 *
 * The first byte says which of the two the rest is; a file's hash is made to fit, so that what
 * stands behind it is read. Whatever comes of it, a configuration's limits have slots, and what is
 * written back can be read.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <fcntl.h>

#include <openssl/evp.h>

#include <keyhole/policy/quota_slots.h>
#include <keyhole/policy/quota.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NOW = 1000 * 1000, BYTES = 1024 * 1024, HASH_BYTES = 32 };

static void require(bool what)
{
	if (!what)
		abort();
}

static struct kh_config *config_of(void)
{
	static const char yaml[] = "version: 1\ntenants: { a: { limits: { requests: [ 5/s, 600/h "
				   "], bytes_up: 1MiB/day, "
				   "concurrency: 4 }, rules: [] } }\n";
	struct kh_diagnostics diags = { 0 };
	struct kh_config *config =
		kh_config_parse("k", kh_slice_of(yaml, sizeof(yaml) - 1), NULL, "policies", &diags);
	kh_diagnostics_fini(&diags);
	require(config != NULL);
	return config;
}

static void use(struct kh_quota_slots *quota_slots)
{
	struct kh_config *config = config_of();
	struct kh_buf out;
	if (kh_quota_slots_assign(quota_slots, config, NOW, NULL)) {
		const struct kh_limits *limits = config->tenants[0].limits;
		for (size_t i = 0; i < limits->n_rates; i++)
			require(limits->rates[i].slot >= KH_QUOTA_LEDGER_FIRST_SLOT &&
				limits->rates[i].slot < kh_quota_slots_slots(quota_slots));
		kh_buf_init(&out, BYTES);
		if (kh_quota_slots_write(quota_slots, NOW, NOW, &out)) {
			struct kh_quota_slots *again = kh_quota_slots_new(NULL);
			require(again &&
				kh_quota_slots_read(again, kh_buf_view(&out), NOW, NOW, NULL));
			kh_quota_slots_free(again);
		}
		kh_buf_fini(&out);
	}
	kh_quota_slots_end_worker(quota_slots, 0, true, NOW);
	kh_config_free(config);
}

static void as_file(const uint8_t *data, size_t size)
{
	struct kh_quota_slots *quota_slots = kh_quota_slots_new(NULL);
	uint8_t *bytes = malloc(size + EVP_MAX_MD_SIZE);
	require(quota_slots && bytes);
	memcpy(bytes, data, size);
	require(EVP_Digest(data, size, bytes + size, NULL, EVP_sha256(), NULL) == 1);
	(void)kh_quota_slots_read(quota_slots, kh_slice_of(bytes, size + HASH_BYTES), NOW, NOW,
				  NULL);
	use(quota_slots);
	kh_quota_slots_free(quota_slots);
	free(bytes);
}

static void as_offer(const uint8_t *data, size_t size)
{
	struct kh_quota_slots *old = kh_quota_slots_new(NULL);
	require(old != NULL);
	int fd = fcntl(kh_quota_slots_fd(old), F_DUPFD_CLOEXEC, 3);
	struct kh_quota_slots *quota_slots = kh_quota_slots_take(fd, kh_slice_of(data, size), NULL);
	if (quota_slots)
		use(quota_slots);
	kh_quota_slots_free(quota_slots);
	kh_quota_slots_free(old);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	if (data[0] & 1)
		as_offer(data + 1, size - 1);
	else
		as_file(data + 1, size - 1);
	return 0;
}
