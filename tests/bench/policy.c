/*
 * policy.c - many tenants with many rules: how long they take to load, what they weigh, and how
 * long a decision takes
 *
 *	policy [TENANTS [RULES [DECISIONS]]]	10000 tenants, 100 rules each, 1000000 decisions
 *
 * Each tenant has a credential, which half of its rules name, and a sandbox with a narrowing.
 * One JSON object on standard output. Each decision is timed by itself, for a tenant and a request
 * that are drawn at random, so that little of what it looks at is in a cache. Of the requests about
 * half meet an exact host, a quarter a wildcard, an eighth an address range, the rest nothing.
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <keyhole/policy/policy.h>

enum { YAML_BYTES = 256 * 1024 * 1024, SNAPSHOT_BYTES = 512 * 1024 * 1024 };

static uint64_t random_state = 0x9e3779b97f4a7c15u;

static uint32_t any(uint32_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 33) % below;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* What is on the heap now, mappings of its own included. */
static size_t heap_bytes(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

static bool put_rule(struct kh_buf *out, unsigned tenant, unsigned n)
{
	switch (n % 8) {
	case 0:
		return kh_buf_printf(
			out, "      - deny: \"* https://*.t%u.example.com/admin/**\"\n", tenant);
	case 1:
	case 2:
		return kh_buf_printf(out,
				     "      - allow: \"GET https://*.z%u.t%u.example.com/v1/**\"\n",
				     n, tenant);
	case 3:
		return kh_buf_printf(out, "      - allow: \"GET https://[10.%u.%u.0/24]/\"\n",
				     n % 256, tenant % 256);
	default:
		return kh_buf_printf(
			out,
			"      - { allow: \"GET,POST https://h%u.t%u.example.com/v1/*\", "
			"credential: c%u }\n",
			n, tenant, tenant);
	}
}

static bool put_config(struct kh_buf *out, unsigned tenants, unsigned rules)
{
	bool ok = kh_buf_append_str(out, "version: 1\nsite:\n  rules:\n"
					 "      - deny: \"* https://*.onion.example.org\"\n"
					 "      - allow: \"https://**\"\ncredentials:\n");
	for (unsigned t = 0; ok && t < tenants; t++)
		ok = kh_buf_printf(out,
				   "  c%u: { value: { env: K%u }, header: { x-api-key: \"{}\" }, "
				   "hosts: [ \"*.t%u.example.com\" ] }\n",
				   t, t, t);
	ok = ok && kh_buf_append_str(out, "tenants:\n");
	for (unsigned t = 0; ok && t < tenants; t++) {
		ok = kh_buf_printf(out, "  t%u:\n    rules:\n", t);
		for (unsigned r = 0; ok && r < rules; r++)
			ok = put_rule(out, t, r);
	}
	ok = ok && kh_buf_append_str(out, "listen:\n");
	for (unsigned t = 0; ok && t < tenants; t++)
		ok = kh_buf_printf(
			out,
			"  - { unix: /sockets/%u/s, tenant: t%u, sandbox: s%u, narrow: [ { "
			"deny: \"https://**/admin/**\" }, { allow: \"https://**\" } ] }\n",
			t, t, t);
	return ok;
}

/* A request that concerns rule `n` of the tenant, or none. */
static bool draw_host(struct kh_host *host, unsigned tenant, unsigned n)
{
	char text[128];

	if (n % 8 == 0)
		(void)snprintf(text, sizeof(text), "www%u.nowhere.example.net", n);
	else if (n % 8 <= 2)
		(void)snprintf(text, sizeof(text), "a.z%u.t%u.example.com", n, tenant);
	else if (n % 8 == 3)
		(void)snprintf(text, sizeof(text), "10.%u.%u.7", n % 256, tenant % 256);
	else
		(void)snprintf(text, sizeof(text), "h%u.t%u.example.com", n, tenant);
	return kh_host_parse(host, kh_slice_str(text), NULL);
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

struct outcome {
	uint32_t p50, p99, p999;
	double mean;
	unsigned allowed;
	size_t allocated;
};

static bool decide(const struct kh_policy *policy, unsigned tenants, unsigned rules, unsigned n,
		   struct outcome *out)
{
	uint32_t *took = calloc(n, sizeof(*took));
	uint64_t sum = 0, clock_ns = UINT64_MAX;

	if (!took)
		return false;
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t start = now_ns(), end = now_ns();
		if (end - start < clock_ns)
			clock_ns = end - start;
	}
	size_t before = heap_bytes();
	for (unsigned i = 0; i < n; i++) {
		unsigned tenant = any(tenants), rule = any(rules);
		struct kh_host host;
		struct kh_decision decision;
		struct kh_request_view view = { .method = KH_SLICE("GET"),
						.scheme = KH_SCHEME_HTTPS,
						.host = &host,
						.port = 443,
						.path = rule % 8 == 3 ? KH_SLICE("/")
								      : KH_SLICE("/v1/messages") };
		if (!draw_host(&host, tenant, rule))
			break;
		uint64_t start = now_ns();
		kh_policy_decide(policy, (uint16_t)tenant, kh_policy_narrowing(policy, tenant),
				 &view, &decision);
		uint64_t each = now_ns() - start;
		took[i] = (uint32_t)(each > clock_ns ? each - clock_ns : 0);
		sum += took[i];
		out->allowed += decision.allow;
	}
	out->allocated = heap_bytes() - before;
	qsort(took, n, sizeof(*took), compare);
	out->p50 = took[n / 2];
	out->p99 = took[(uint64_t)n * 99 / 100];
	out->p999 = took[(uint64_t)n * 999 / 1000];
	out->mean = (double)sum / n;
	free(took);
	return true;
}

static double seconds_since(uint64_t start)
{
	return (double)(now_ns() - start) / 1e9;
}

int main(int argc, char **argv)
{
	unsigned tenants = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 10000;
	unsigned rules = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 100;
	unsigned decisions = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 1000000;
	struct kh_buf yaml, bytes;
	struct kh_diagnostics diags = { 0 };
	struct kh_err err = KH_ERR_INIT;
	struct outcome outcome = { 0 };

	if (tenants == 0 || tenants > UINT16_MAX || rules == 0 || decisions < 1000)
		return 2;
	kh_buf_init(&yaml, YAML_BYTES);
	kh_buf_init(&bytes, SNAPSHOT_BYTES);
	if (!put_config(&yaml, tenants, rules))
		return 1;
	uint64_t start = now_ns();
	struct kh_config *read = kh_config_parse("bench", kh_buf_view(&yaml), NULL, NULL, &diags);
	double parse_s = seconds_since(start);
	if (!read) {
		fprintf(stderr, "%s\n", diags.count ? diags.list[0].text : "no configuration");
		return 1;
	}
	start = now_ns();
	bool ok = kh_config_encode(read, &bytes);
	double encode_s = seconds_since(start);
	size_t yaml_bytes = kh_buf_len(&yaml), snapshot_bytes = kh_buf_len(&bytes);
	kh_config_free(read);
	kh_buf_fini(&yaml);
	kh_diagnostics_fini(&diags);
	/* As the worker has it. */
	start = now_ns();
	struct kh_config *config = ok ? kh_config_decode(kh_buf_view(&bytes), &err) : NULL;
	double decode_s = seconds_since(start);
	kh_buf_fini(&bytes);
	start = now_ns();
	struct kh_policy *policy = config ? kh_policy_compile(config, &err) : NULL;
	double compile_s = seconds_since(start);
	if (!policy || !decide(policy, tenants, rules, decisions, &outcome)) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	struct kh_policy_size size = kh_policy_size(policy);
	size_t whole = heap_bytes();
	kh_policy_unref(policy);
	kh_config_free(config);
	whole -= heap_bytes();
	printf("{\"rules\":%zu,\"yaml_bytes\":%zu,\"parse_seconds\":%.3f,\"encode_seconds\":%.3f,"
	       "\"snapshot_bytes\":%zu,\"decode_seconds\":%.3f,\"compile_seconds\":%.3f,"
	       "\"rule_bytes\":%.0f,\"index_rule_bytes\":%.0f,\"decisions\":%u,\"allowed\":%u,"
	       "\"mean_ns\":%.0f,\"p50_ns\":%" PRIu32 ",\"p99_ns\":%" PRIu32 ",\"p999_ns\":%" PRIu32
	       ",\"allocated_bytes\":%zu}\n",
	       size.rules, yaml_bytes, parse_s, encode_s, snapshot_bytes, decode_s, compile_s,
	       (double)whole / (double)size.rules, (double)size.bytes / (double)size.rules,
	       decisions, outcome.allowed, outcome.mean, outcome.p50, outcome.p99, outcome.p999,
	       outcome.allocated);
	return outcome.allocated == 0 ? 0 : 1;
}
