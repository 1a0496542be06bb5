/*
 * fuzz_snapshot.c - the decoder of what the keeper hands to the worker
 *
 * What is taken makes a policy, and goes out again as the same bytes would come in.
 */
#include <stdint.h>
#include <stdlib.h>

#include <keyhole/policy/policy.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SNAPSHOT_BYTES = 16 * 1024 * 1024 };

static void require(bool condition)
{
	if (!condition)
		abort();
}

static void decide(const struct kh_config *config)
{
	struct kh_policy *policy = kh_policy_compile(config, NULL);
	require(policy != NULL);
	struct kh_host host;
	require(kh_host_parse(&host, KH_SLICE("api.example.com"), NULL));
	struct kh_request_view view = { .method = KH_SLICE("GET"),
					.scheme = KH_SCHEME_HTTPS,
					.host = &host,
					.port = 443,
					.path = KH_SLICE("/v1/a%2Fb"),
					.path_slashed = KH_SLICE("/v1/a/b") };
	struct kh_decision decision;
	kh_policy_decide(policy, 0, NULL, &view, &decision);
	require(!decision.allow || (decision.rule && decision.rule->allow));
	kh_policy_unref(policy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kh_config *config = kh_config_decode(kh_slice_of(data, size), NULL);
	if (!config)
		return 0;
	decide(config);
	struct kh_buf bytes;
	kh_buf_init(&bytes, SNAPSHOT_BYTES);
	if (kh_config_encode(config, &bytes)) {
		struct kh_config *again = kh_config_decode(kh_buf_view(&bytes), NULL);
		require(again != NULL);
		kh_config_free(again);
	}
	kh_buf_fini(&bytes);
	kh_config_free(config);
	return 0;
}
