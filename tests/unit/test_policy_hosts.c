/* test_policy_hosts.c - tunnels, hosts where something may be allowed, and what is allowed nearby
 */
#include "policy_asked.h"

static void a_host_is_known_where_something_may_be_allowed(void **state)
{
	(void)state;
	struct fixture f =
		policy_of("version: 1\n"
			  "site: { rules: [ { deny: \"https://no.example\" },"
			  " { allow: \"https://**\" }, { allow: \"http://p.example\" } ] }\n"
			  "tenants:\n"
			  "  a:\n"
			  "    rules:\n"
			  "      - deny: \"https://off.example\"\n"
			  "      - deny: \"https://far.example/**\"\n"
			  "      - deny: \"POST https://half.example\"\n"
			  "      - deny: \"https://half.example/admin/**\"\n"
			  "      - allow: \"GET https://**\"\n"
			  "      - allow: \"GET http://**\"\n");
	static const struct {
		const char *host;
		enum kh_scheme scheme;
		uint16_t port;
		bool known;
	} cases[] = {
		{ "x.example", KH_SCHEME_HTTPS, 443, true },
		{ "x.example", KH_SCHEME_HTTPS, 444, false },
		{ "x.example", KH_SCHEME_HTTP, 80, false },
		{ "p.example", KH_SCHEME_HTTP, 80, true },
		{ "no.example", KH_SCHEME_HTTPS, 443, false },
		{ "off.example", KH_SCHEME_HTTPS, 443, false },
		{ "far.example", KH_SCHEME_HTTPS, 443, false },
		{ "half.example", KH_SCHEME_HTTPS, 443, true },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kh_host host;
		assert_true(kh_host_parse(&host, kh_slice_str(cases[i].host), NULL));
		if (kh_policy_knows_host(f.policy, 0, NULL, cases[i].scheme, &host,
					 cases[i].port) != cases[i].known)
			fail_msg("%s:%u", cases[i].host, cases[i].port);
		assert_false(kh_policy_knows_host(f.policy, 1, NULL, cases[i].scheme, &host,
						  cases[i].port));
	}
	fini(&f);
}

static void what_is_allowed_nearby_is_that_of_the_same_host_first(void **state)
{
	(void)state;
	struct fixture f = policy_of("version: 1\n"
				     "tenants:\n"
				     "  a:\n"
				     "    rules:\n"
				     "      - allow: \"GET https://a.example/1\"\n"
				     "      - deny: \"https://b.example/no\"\n"
				     "      - allow: \"GET https://b.example/2\"\n"
				     "      - allow: \"GET https://b.example/3\"\n"
				     "  none: { rules: [] }\n");
	const char *texts[2];
	struct kh_host host;
	bool more;
	assert_true(kh_host_parse(&host, KH_SLICE("b.example"), NULL));
	assert_int_equal(kh_policy_nearby(f.policy, 0, NULL, &host, texts, 2, &more), 2);
	assert_string_equal(texts[0], "GET https://b.example/2");
	assert_string_equal(texts[1], "GET https://b.example/3");
	assert_false(more);
	assert_int_equal(kh_policy_nearby(f.policy, 0, NULL, &host, texts, 1, &more), 1);
	assert_true(more);
	assert_int_equal(kh_policy_nearby(f.policy, 0, NULL, &host, texts, 0, &more), 0);
	assert_true(more);
	assert_true(kh_host_parse(&host, KH_SLICE("c.example"), NULL));
	assert_int_equal(kh_policy_nearby(f.policy, 0, NULL, &host, texts, 2, &more), 2);
	assert_string_equal(texts[0], "GET https://a.example/1");
	assert_string_equal(texts[1], "GET https://b.example/2");
	assert_true(more);
	const char *each[4];
	assert_int_equal(kh_policy_nearby(f.policy, 0, NULL, &host, each, 4, &more), 2);
	assert_true(more);
	assert_int_equal(kh_policy_nearby(f.policy, 1, NULL, &host, texts, 2, &more), 0);
	assert_false(more);
	assert_int_equal(kh_policy_nearby(f.policy, 9, NULL, &host, texts, 2, &more), 0);
	fini(&f);
}

static void what_a_denial_hides_is_not_allowed_nearby(void **state)
{
	(void)state;
	struct fixture f = policy_of("version: 1\n"
				     "site:\n"
				     "  rules:\n"
				     "  - deny: \"https://site.example/no/**\"\n"
				     "  - deny: \"https://shut.example\"\n"
				     "  - allow: \"https://**\"\n"
				     "tenants:\n"
				     "  a:\n"
				     "    rules:\n"
				     "      - allow: \"GET https://b.example/no/but\"\n"
				     "      - deny: \"https://b.example/no/**\"\n"
				     "      - allow: \"GET https://b.example/no/1\"\n"
				     "      - allow: \"GET https://b.example/NO/2\"\n"
				     "      - allow: \"GET https://b.example/**\"\n"
				     "      - allow: \"GET https://site.example/no/1\"\n"
				     "      - allow: \"GET https://site.example/yes\"\n"
				     "      - deny: \"https://*.gone.example\"\n"
				     "      - allow: \"https://a.gone.example\"\n"
				     "      - allow: \"POST https://shut.example/x\"\n");
	static const struct {
		const char *host, *texts[3];
		bool more;
	} cases[] = {
		{ "b.example",
		  { "GET https://b.example/no/but", "GET https://b.example/**" },
		  false },
		{ "site.example", { "GET https://site.example/yes" }, false },
		/* Nothing is left there: a rule of each other host. */
		{ "a.gone.example",
		  { "GET https://b.example/no/but", "GET https://site.example/yes" },
		  true },
		{ "shut.example",
		  { "GET https://b.example/no/but", "GET https://site.example/yes" },
		  true },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *texts[4];
		struct kh_host host;
		bool more;
		assert_true(kh_host_parse(&host, kh_slice_str(cases[i].host), NULL));
		size_t n = kh_policy_nearby(f.policy, 0, NULL, &host, texts, 4, &more), k = 0;
		for (; cases[i].texts[k]; k++) {
			assert_true(k < n);
			assert_string_equal(texts[k], cases[i].texts[k]);
		}
		assert_int_equal(n, k);
		assert_int_equal(more, cases[i].more);
	}
	fini(&f);
}

static enum kh_tunnel_kind tunnel(const struct fixture *f, const char *name, uint16_t port,
				  struct kh_decision *decision)
{
	struct kh_host host;

	assert_true(kh_host_parse(&host, kh_slice_str(name), NULL));
	enum kh_tunnel_kind kind = kh_policy_tunnel(f->policy, 0, NULL, &host, port, decision);
	assert_int_equal(decision->allow, kind == KH_TUNNEL_PASS || kind == KH_TUNNEL_RAW);
	assert_int_equal(decision->allow, decision->reason == KH_ERR_NONE && decision->rule);
	return kind;
}

static void a_tunnel_is_what_the_first_rule_at_its_authority_says(void **state)
{
	(void)state;
	struct fixture f = policy_of(
		"version: 1\n"
		"tenants: { a: { rules: [\n"
		"  { allow: \"tcp://raw.test:22\" }, { allow: \"https://raw.test:22\" },\n"
		"  { allow: \"GET https://read.test:22/x\" }, { allow: \"tcp://read.test:22\" },\n"
		"  { deny: \"https://refused.test:22\" }, { allow: \"tcp://refused.test:22\" },\n"
		"  { deny: \"tcp://no.test:22\" }, { allow: \"tcp://no.test:22\" },\n"
		"  { deny: \"tcp://both.test:22\" }, { allow: \"http://both.test:22\" },\n"
		"  { allow: \"https://pin.test\", tls: passthrough }, { allow: "
		"\"https://pin.test/x\" },\n"
		"  { allow: \"https://decrypt.test\" }, { allow: \"https://decrypt.test\", tls: "
		"passthrough },\n"
		"  { allow: \"https://as.test\", tls: intercept },\n"
		"  { allow: \"tcp://[192.0.2.0/24]:5432\" } ] } }\n");
	struct kh_decision d;

	assert_int_equal(tunnel(&f, "raw.test", 22, &d), KH_TUNNEL_RAW);
	assert_string_equal(d.rule->text, "tcp://raw.test:22");
	assert_int_equal(tunnel(&f, "raw.test", 23, &d), KH_TUNNEL_READ);
	assert_int_equal(tunnel(&f, "read.test", 22, &d), KH_TUNNEL_READ);
	assert_int_equal(tunnel(&f, "refused.test", 22, &d), KH_TUNNEL_READ);
	assert_int_equal(tunnel(&f, "no.test", 22, &d), KH_TUNNEL_DENIED);
	assert_string_equal(d.rule->text, "tcp://no.test:22");
	assert_int_equal(d.reason, KH_ERR_DENIED_BY_RULE);
	assert_int_equal(tunnel(&f, "both.test", 22, &d), KH_TUNNEL_READ);
	assert_int_equal(tunnel(&f, "pin.test", 443, &d), KH_TUNNEL_PASS);
	assert_int_equal(tunnel(&f, "decrypt.test", 443, &d), KH_TUNNEL_READ);
	assert_int_equal(tunnel(&f, "as.test", 443, &d), KH_TUNNEL_READ);
	assert_int_equal(tunnel(&f, "unknown.test", 443, &d), KH_TUNNEL_READ);
	assert_int_equal(tunnel(&f, "192.0.2.9", 5432, &d), KH_TUNNEL_RAW);
	/* What passes undecrypted is never a request that was read; nothing over tcp is one. */
	assert_int_equal(ask(&f, 0, "GET", "https://pin.test/").reason, KH_ERR_TUNNEL_ONLY);
	assert_false(ask(&f, 0, "GET", "https://pin.test/x").allow);
	assert_true(allows(&f, "GET", "https://decrypt.test/"));
	assert_false(allows(&f, "GET", "http://raw.test:23/"));
	fini(&f);
}

static void the_site_is_a_ceiling_for_tunnels(void **state)
{
	(void)state;
	struct fixture f = policy_of(
		"version: 1\n"
		"site: { rules: [ { allow: \"tcp://**:22\" }, { deny: \"tcp://b.test:23\" },\n"
		"  { allow: \"GET https://some.test\" }, { deny: \"https://path.test/admin/**\" "
		"},\n"
		"  { allow: \"https://**\" } ] }\n"
		"tenants: { a: { rules: [\n"
		"  { allow: \"tcp://**:22\" }, { allow: \"tcp://**:23\" },\n"
		"  { allow: \"https://**\", tls: passthrough } ] } }\n");
	struct kh_decision d;

	assert_int_equal(tunnel(&f, "a.test", 22, &d), KH_TUNNEL_RAW);
	assert_int_equal(tunnel(&f, "a.test", 23, &d), KH_TUNNEL_DENIED);
	assert_true(d.list == KH_LIST_SITE && !d.rule && d.reason == KH_ERR_NO_RULE);
	assert_int_equal(tunnel(&f, "b.test", 23, &d), KH_TUNNEL_DENIED);
	assert_true(d.list == KH_LIST_SITE && d.reason == KH_ERR_DENIED_BY_RULE);
	assert_int_equal(tunnel(&f, "any.test", 443, &d), KH_TUNNEL_PASS);
	/* Methods and paths that nobody sees can't be held to. */
	assert_int_equal(tunnel(&f, "some.test", 443, &d), KH_TUNNEL_DENIED);
	assert_int_equal(tunnel(&f, "path.test", 443, &d), KH_TUNNEL_DENIED);
	fini(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_host_is_known_where_something_may_be_allowed),
		cmocka_unit_test(what_is_allowed_nearby_is_that_of_the_same_host_first),
		cmocka_unit_test(what_a_denial_hides_is_not_allowed_nearby),
		cmocka_unit_test(a_tunnel_is_what_the_first_rule_at_its_authority_says),
		cmocka_unit_test(the_site_is_a_ceiling_for_tunnels),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
