/* test_policy.c - the first match decides, no match denies, and no spelling slips past */
#include "policy_asked.h"

static void nothing_is_allowed_without_a_rule(void **state)
{
	(void)state;
	struct kh_decision zeroed = { 0 };
	assert_false(zeroed.allow);
	struct fixture f = policy_of("version: 1\ntenants: { a: { rules: [] } }\n");
	assert_false(allows(&f, "GET", "https://example.com/"));
	struct kh_decision decision = ask(&f, 7, "GET", "https://example.com/");
	assert_false(decision.allow); /* a tenant that is not there */
	fini(&f);
}

static void the_first_match_decides(void **state)
{
	(void)state;
	struct fixture f = policy_of("version: 1\n"
				     "tenants:\n"
				     "  a:\n"
				     "    rules:\n"
				     "      - allow: \"GET https://h.example/admin/status\"\n"
				     "      - deny: \"* https://h.example/admin/**\"\n"
				     "      - allow: \"GET,POST https://h.example/**\"\n");
	assert_true(allows(&f, "GET", "https://h.example/admin/status"));
	assert_false(allows(&f, "POST", "https://h.example/admin/status"));
	assert_false(allows(&f, "GET", "https://h.example/admin/x"));
	assert_true(allows(&f, "POST", "https://h.example/x"));
	assert_false(allows(&f, "PUT", "https://h.example/x"));
	assert_false(allows(&f, "get", "https://h.example/x"));
	assert_false(allows(&f, "HEAD", "https://h.example/x"));
	struct kh_decision decision = ask(&f, 0, "GET", "https://h.example/admin/x");
	assert_string_equal(decision.rule->text, "* https://h.example/admin/**");
	assert_int_equal(decision.rule->where.line, 6);
	fini(&f);
}

static void scheme_host_and_port_must_all_be_those_of_the_rule(void **state)
{
	(void)state;
	struct fixture f = policy_of("version: 1\n"
				     "tenants:\n"
				     "  a:\n"
				     "    rules:\n"
				     "      - allow: \"https://h.example\"\n"
				     "      - allow: \"https://*.s.example:8443\"\n"
				     "      - allow: \"http://[127.0.0.0/8]:8080/x/*\"\n");
	assert_true(allows(&f, "GET", "https://H.example/any/thing"));
	assert_false(allows(&f, "GET", "http://h.example/"));
	assert_false(allows(&f, "GET", "http://h.example:443/"));
	assert_false(allows(&f, "GET", "https://h.example:444/"));
	assert_false(allows(&f, "GET", "https://x.h.example/"));
	assert_false(allows(&f, "GET", "https://h.example.evil.test/"));
	assert_true(allows(&f, "GET", "https://a.s.example:8443/"));
	assert_false(allows(&f, "GET", "https://a.s.example/"));
	assert_false(allows(&f, "GET", "https://s.example:8443/"));
	assert_true(allows(&f, "GET", "http://127.9.9.9:8080/x/y"));
	assert_false(allows(&f, "GET", "http://127.9.9.9:8080/x/y/z"));
	fini(&f);
}

static void a_tenant_has_its_own_rules_only(void **state)
{
	(void)state;
	struct fixture f = policy_of("version: 1\n"
				     "tenants:\n"
				     "  a: { rules: [ { allow: \"https://a.example\" } ] }\n"
				     "  b: { rules: [ { allow: \"https://b.example\" } ] }\n");
	assert_true(ask(&f, 0, "GET", "https://a.example/").allow);
	assert_false(ask(&f, 0, "GET", "https://b.example/").allow);
	assert_true(ask(&f, 1, "GET", "https://b.example/").allow);
	assert_false(ask(&f, 1, "GET", "https://a.example/").allow);
	fini(&f);
}

static void the_site_is_a_ceiling(void **state)
{
	(void)state;
	struct fixture f = policy_of("version: 1\n"
				     "site:\n"
				     "  rules:\n"
				     "    - deny: \"* https://*.bad.example\"\n"
				     "    - allow: \"GET https://**\"\n"
				     "tenants:\n"
				     "  a: { rules: [ { allow: \"https://**\" } ] }\n"
				     "  b: { rules: [ { allow: \"https://x.example\" } ] }\n");
	assert_true(ask(&f, 0, "GET", "https://x.example/").allow);
	assert_false(ask(&f, 0, "POST", "https://x.example/").allow);
	assert_true(ask(&f, 0, "POST", "https://x.example/").list == KH_LIST_SITE);
	struct kh_decision decision = ask(&f, 0, "GET", "https://x.bad.example/");
	assert_false(decision.allow);
	assert_int_equal(decision.list, KH_LIST_SITE);
	assert_int_equal(decision.reason, KH_ERR_DENIED_BY_RULE);
	decision = ask(&f, 1, "GET", "https://y.example/");
	assert_false(decision.allow); /* the ceiling opens nothing by itself */
	assert_int_equal(decision.list, KH_LIST_TENANT);
	assert_int_equal(decision.reason, KH_ERR_NO_RULE);
	fini(&f);
}

static void both_readings_of_an_encoded_slash_must_be_allowed(void **state)
{
	(void)state;
	struct fixture f = policy_of(
		"version: 1\n"
		"credentials:\n"
		"  c: { value: { env: C }, header: { x: \"{}\" }, hosts: [ h.example ] }\n"
		"tenants:\n"
		"  a:\n"
		"    rules:\n"
		"      - deny: \"* https://h.example/p/private/**\"\n"
		"      - allow: \"GET https://h.example/p/*\"\n"
		"      - allow: \"GET https://h.example/q/*\"\n"
		"      - allow: \"GET https://h.example/q/*/*\"\n"
		"      - { allow: \"GET https://h.example/r/*\", credential: c }\n"
		"      - allow: \"GET https://h.example/r/**\"\n"
		"      - { allow: \"GET https://h.example/s/*\", client_auth: pass }\n"
		"      - allow: \"GET https://h.example/s/**\"\n"
		"      - { allow: \"GET https://h.example/t/**\", credential: c }\n"
		"      - { allow: \"GET https://h.example/u/*\", websocket: false }\n"
		"      - allow: \"GET https://h.example/u/**\"\n");
	assert_true(allows(&f, "GET", "https://h.example/p/x"));
	assert_false(allows(&f, "GET", "https://h.example/p/x%2Fy"));
	assert_false(allows(&f, "GET", "https://h.example/p/private%2fkeys"));
	assert_int_equal(ask(&f, 0, "GET", "https://h.example/p/private%2fkeys").reason,
			 KH_ERR_DENIED_BY_RULE);
	assert_true(allows(&f, "GET", "https://h.example/q/@scope%2Fpkg"));
	assert_false(allows(&f, "GET", "https://h.example/q/a%2Fb%2Fc"));
	assert_false(allows(&f, "GET", "https://h.example/q/a%5Cb%5Cc"));
	/* Allowed in both readings, but not with the same credential or the same client_auth. */
	assert_true(allows(&f, "GET", "https://h.example/r/x"));
	assert_true(allows(&f, "GET", "https://h.example/r/x/y"));
	assert_false(allows(&f, "GET", "https://h.example/r/x%2Fy"));
	assert_false(allows(&f, "GET", "https://h.example/s/x%2Fy"));
	assert_true(allows(&f, "GET", "https://h.example/t/x%2Fy"));
	assert_false(allows(&f, "GET", "https://h.example/u/x%2Fy"));
	fini(&f);
}

static void a_websocket_is_refused_by_either_list(void **state)
{
	(void)state;
	struct fixture f =
		policy_of("version: 1\n"
			  "site:\n"
			  "  rules:\n"
			  "    - { allow: \"https://h.example/site/**\", websocket: false }\n"
			  "    - allow: \"https://h.example\"\n"
			  "tenants:\n"
			  "  a:\n"
			  "    rules:\n"
			  "      - { allow: \"https://h.example/own/**\", websocket: false }\n"
			  "      - { allow: \"GET https://h.example/site/**\", websocket: true }\n"
			  "      - allow: \"GET https://h.example/**\"\n");
	assert_true(ask(&f, 0, "GET", "https://h.example/x").websocket);
	assert_true(allows(&f, "GET", "https://h.example/own/x"));
	assert_false(ask(&f, 0, "GET", "https://h.example/own/x").websocket);
	assert_true(allows(&f, "GET", "https://h.example/site/x"));
	assert_false(ask(&f, 0, "GET", "https://h.example/site/x").websocket);
	assert_false(ask(&f, 0, "POST", "https://h.example/x").websocket);
	fini(&f);
}

static void no_spelling_of_a_path_slips_past_a_denial(void **state)
{
	(void)state;
	struct fixture f = policy_of("version: 1\n"
				     "tenants:\n"
				     "  a:\n"
				     "    rules:\n"
				     "      - deny: \"* https://h.example/admin/**\"\n"
				     "      - deny: \"* https://h.example/m/*:run\"\n"
				     "      - deny: \"* https://h.example/e%3Aq\"\n"
				     "      - deny: \"* https://h.example/a%20b\"\n"
				     "      - allow: \"https://h.example/**\"\n");
	static const char *const denied[] = {
		"/admin/",	"/admin/x",	  "//admin/x",	    "/admin//x",     "///admin///x",
		"/%61dmin/x",	"/%61%64min/x",	  "/admin%2Fx",	    "/%2Fadmin/x",   "/admin%5Cx",
		"/m/x:run",	"/m/x%3Arun",	  "/m/x%3arun",	    "//m//x:run",    "/m/%3A:run",
		"/admin;v=1/x", "/;/admin/x",	  "/admin%3Bv/x",   "/m/x:run;v",    "/a%20b;x",
		"/a+b",		"/a%2Bb",	  "//a+b",	    "/a+b;x",	     "/A+B/",
		"/e:q",		"/e%3Aq",	  "/e%3aq",	    "/a%20b",	     "/%5Cadmin/x",
		"//x/admin/x",	"//x:1//admin/x", "//x@y/admin/x",  "/%2Fx/admin/x", "///admin/x",
		"///x/admin/x", "////x//admin/x", "//%2Fx/admin/x",
	};
	for (size_t i = 0; i < sizeof(denied) / sizeof(denied[0]); i++) {
		char url[128];
		(void)snprintf(url, sizeof(url), "https://h.example%s", denied[i]);
		if (allows(&f, "GET", url))
			fail_msg("%s slips past", url);
	}
	assert_true(allows(&f, "GET", "https://h.example/admin"));
	assert_true(allows(&f, "GET", "https://h.example/administrator/x"));
	assert_true(allows(&f, "GET", "https://h.example/m/x:runner"));
	assert_true(allows(&f, "GET", "https://h.example/ab"));
	assert_true(allows(&f, "GET", "https://h.example//x/y/admin/x"));
	assert_true(allows(&f, "GET", "https://h.example//"));
	assert_true(allows(&f, "GET", "https://h.example/administrator;admin/x"));
	fini(&f);
}

static void an_allowance_takes_the_exact_spelling_only(void **state)
{
	(void)state;
	struct fixture f =
		policy_of("version: 1\n"
			  "tenants:\n"
			  "  a: { rules: [ { allow: \"https://h.example/a:b/c\" } ] }\n");
	assert_true(allows(&f, "GET", "https://h.example/a:b/c"));
	assert_true(allows(&f, "GET", "https://h.example/%61:b/c"));
	assert_false(allows(&f, "GET", "https://h.example/a%3Ab/c"));
	assert_false(allows(&f, "GET", "https://h.example//a:b/c"));
	assert_false(allows(&f, "GET", "https://h.example/a:b//c"));
	assert_false(allows(&f, "GET", "https://h.example/a:b/c/"));
	fini(&f);
}

static void a_policy_over_a_broken_configuration_is_refused(void **state)
{
	(void)state;
	struct fixture f =
		policy_of("version: 1\n"
			  "tenants: { a: { rules: [ { allow: \"https://h.example\" } ] } }\n");
	struct kh_rule *rule = &f.config->tenants[0].rules.list[0];
	rule->n_credentials = 1; /* there is none */
	assert_null(kh_policy_compile(f.config, NULL));
	rule->n_credentials = 0;
	enum kh_host_match match = rule->host.match;
	rule->host.match = KH_MATCH_NOTHING;
	assert_null(kh_policy_compile(f.config, NULL));
	rule->host.match = match;
	fini(&f);
}

static void a_policy_lives_as_long_as_somebody_holds_it(void **state)
{
	(void)state;
	struct fixture f =
		policy_of("version: 1\n"
			  "tenants: { a: { rules: [ { allow: \"https://h.example\" } ] } }\n");
	struct kh_policy *second = kh_policy_ref(f.policy);
	kh_policy_unref(f.policy);
	f.policy = second;
	assert_true(allows(&f, "GET", "https://h.example/"));
	kh_policy_unref(NULL);
	fini(&f);
}

static void what_is_only_observed_goes_through_and_is_marked(void **state)
{
	(void)state;
	struct fixture f = policy_of(
		"version: 1\n"
		"site:\n"
		"  rules:\n"
		"    - { deny: \"https://no.example\" }\n"
		"    - { deny: \"https://soon.example\", mode: observe }\n"
		"    - { allow: \"https://**\" }\n"
		"tenants:\n"
		"  trial: { mode: observe, rules: [ { deny: \"https://bad.example\" },"
		" { allow: \"GET https://good.example\" },"
		" { allow: \"https://pin.example\", tls: passthrough } ] }\n"
		"  firm: { rules: [ { deny: \"https://good.example/x\", mode: observe },"
		" { allow: \"https://good.example\" }, { allow: \"https://soon.example\" } ] }\n");
	static const struct {
		uint16_t tenant;
		const char *method, *url;
		bool allow;
		enum kh_err_code would;
	} cases[] = {
		{ 0, "GET", "https://good.example/", true, KH_ERR_NONE },
		{ 0, "PUT", "https://good.example/", true, KH_ERR_NO_RULE },
		{ 0, "GET", "https://other.example/", true, KH_ERR_NO_RULE },
		{ 0, "GET", "https://bad.example/", true, KH_ERR_DENIED_BY_RULE },
		{ 0, "GET", "https://no.example/", false, KH_ERR_NONE },
		{ 0, "GET", "http://good.example/", false, KH_ERR_NONE },
		{ 0, "GET", "https://pin.example/", false, KH_ERR_NONE },
		{ 1, "GET", "https://good.example/", true, KH_ERR_NONE },
		{ 1, "GET", "https://good.example/x", true, KH_ERR_DENIED_BY_RULE },
		{ 1, "GET", "https://soon.example/x", true, KH_ERR_DENIED_BY_RULE },
		{ 1, "GET", "https://other.example/", false, KH_ERR_NONE },
		{ 2, "GET", "https://good.example/", false, KH_ERR_NONE },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kh_decision d = ask(&f, cases[i].tenant, cases[i].method, cases[i].url);
		if (d.allow != cases[i].allow || d.would != cases[i].would)
			fail_msg("%u: %s %s", cases[i].tenant, cases[i].method, cases[i].url);
		/* Nothing goes in where nothing but the mode lets it through. */
		if (d.would != KH_ERR_NONE && cases[i].tenant == 0)
			assert_true(d.rule == kh_policy_observing(f.policy, 0) &&
				    d.rule->n_credentials == 0);
		assert_int_equal(d.bare, d.would != KH_ERR_NONE && cases[i].tenant == 0);
	}
	assert_null(kh_policy_observing(f.policy, 1));
	assert_null(kh_policy_observing(f.policy, 2));
	struct kh_host host;
	assert_true(kh_host_parse(&host, KH_SLICE("other.example"), NULL));
	assert_true(kh_policy_knows_host(f.policy, 0, NULL, KH_SCHEME_HTTPS, &host, 443));
	assert_false(kh_policy_knows_host(f.policy, 1, NULL, KH_SCHEME_HTTPS, &host, 443));
	fini(&f);
}

/* A number that is no tenant's is one of another configuration: nothing may be said of it. */
static void a_tenant_that_is_not_there_is_denied_every_address_and_field(void **state)
{
	struct fixture f = policy_of(
		"version: 1\n"
		"tenants: { a: { mode: observe, rules: [ { allow: \"https://h.example\" } ] } }\n");
	const struct kh_request_view view = { .method = KH_SLICE("GET"),
					      .scheme = KH_SCHEME_HTTPS,
					      .port = 443,
					      .path = KH_SLICE("/"),
					      .host = &(struct kh_host){ .kind = KH_HOST_NAME } };
	const struct kh_decision allowed = { .allow = true };
	struct kh_decision decision = { .reason = KH_ERR_NONE };
	struct kh_host addr;
	uint64_t steps = 0;
	(void)state;
	assert_true(kh_host_parse(&addr, KH_SLICE("192.0.2.1"), NULL));
	for (int unread = 0; unread < 2; unread++) {
		assert_false(kh_policy_denies_address(f.policy, 0, NULL, &view, unread, &allowed,
						      &addr, &steps, &decision));
		for (uint32_t tenant = 1; tenant <= UINT16_MAX; tenant *= 5) {
			assert_true(kh_policy_denies_address(f.policy, (uint16_t)tenant, NULL,
							     &view, unread, &allowed, &addr, &steps,
							     &decision));
			assert_false(decision.allow);
			assert_int_equal(decision.reason, KH_ERR_NO_RULE);
		}
	}
	assert_false(kh_policy_looks_at_field(f.policy, 0, NULL, &view, KH_SLICE("x-a"), &steps));
	assert_true(kh_policy_looks_at_field(f.policy, 1, NULL, &view, KH_SLICE("x-a"), &steps));
	assert_true(kh_policy_looks_at_field(f.policy, UINT16_MAX, NULL, &view, KH_SLICE("x-a"),
					     &steps));
	fini(&f);
}

#define OBSERVING \
	"version: 1\n" \
	"credentials: { c: { value: { env: C }, header: { x-key: \"{}\" }, hosts: [ h.example ] " \
	"} }\n" \
	"site: { rules: [ { deny: \"https://h.example/s\", mode: observe }, { allow: " \
	"\"https://**\" } ] }\n" \
	"tenants:\n"

/* A credential goes where the rules, had they been enforced, would have let it go; of rules that
 * observe by themselves, in a tenant that is enforced, as if they were not there. */
static void what_a_tenant_only_observes_is_bare_and_what_a_rule_does_is_not(void **state)
{
	(void)state;
	struct fixture f = policy_of(
		OBSERVING
		"  a: { mode: observe, rules: [ { deny: \"https://h.example/*\", mode: observe },"
		" { allow: \"https://h.example\", credential: c } ] }\n"
		"  b: { rules: [ { deny: \"https://h.example/*\", mode: observe },"
		" { allow: \"https://h.example\", credential: c } ] }\n"
		"  c: { mode: observe, rules: [ { allow: \"https://h.example\", credential: c } ] "
		"}\n");
	static const struct {
		uint16_t tenant;
		const char *url;
		bool bare;
		enum kh_list list;
	} cases[] = {
		{ 0, "https://h.example/x", true, KH_LIST_TENANT },
		{ 0, "https://h.example/s", true,
		  KH_LIST_TENANT }, /* of both, the one that holds more */
		{ 1, "https://h.example/x", false, KH_LIST_TENANT },
		{ 1, "https://h.example/s", false, KH_LIST_SITE },
		{ 2, "https://h.example/s", false,
		  KH_LIST_SITE }, /* the site's is not the tenant's */
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kh_decision d = ask(&f, cases[i].tenant, "GET", cases[i].url);
		if (!d.allow || d.would != KH_ERR_DENIED_BY_RULE || d.bare != cases[i].bare ||
		    d.would_list != cases[i].list || d.rule->n_credentials != 1)
			fail_msg("%u: %s", cases[i].tenant, cases[i].url);
		assert_int_equal(kh_decision_passes_auth(&d), cases[i].bare);
	}
	fini(&f);
}

static void what_refuses_behind_the_rules_is_marked_and_bare_at_once(void **state)
{
	(void)state;
	struct fixture f = policy_of(
		OBSERVING "  a: { mode: observe, rules: [ { allow: \"https://h.example\", "
			  "credential: c } ] }\n"
			  "  b: { rules: [ { allow: \"https://h.example\", credential: c } ] }\n");
	struct kh_decision d = ask(&f, 1, "GET", "https://h.example/x"), before = d;
	assert_false(kh_decision_observe(f.policy, 1, KH_ERR_CLIENT_AUTH, d.rule, &d));
	assert_true(d.would == KH_ERR_NONE && !d.bare && d.rule == before.rule);
	d = ask(&f, 0, "GET", "https://h.example/s"); /* marked, by the site's rule */
	before = d;
	assert_true(kh_decision_observe(f.policy, 0, KH_ERR_PLACEHOLDER_MISSING, d.rule, &d));
	assert_true(d.allow && d.bare && d.would == KH_ERR_PLACEHOLDER_MISSING &&
		    d.would_list == KH_LIST_TENANT && d.would_rule == before.rule);
	/* What the rule says of the connection, of limits and of places stays. */
	assert_true(d.rule == before.rule);
	assert_true(kh_decision_observe(f.policy, 0, KH_ERR_CLIENT_AUTH, d.rule, &d));
	assert_int_equal(d.would, KH_ERR_PLACEHOLDER_MISSING); /* the first counts */
	fini(&f);
}

static void a_denial_by_address_that_is_only_observed_is_told(void **state)
{
	(void)state;
	struct fixture f = policy_of("version: 1\n"
				     "site: { rules: [ { deny: \"https://[10.2.0.0/16]\" }, { "
				     "deny: \"https://[10.3.0.0/16]\", mode: observe },"
				     " { allow: \"https://**\" } ] }\n"
				     "tenants:\n"
				     "  a: { mode: observe, rules: [ { allow: "
				     "\"https://[10.0.0.1]\" }, { deny: \"https://[10.0.0.0/8]\" },"
				     " { allow: \"https://h.example\" } ] }\n"
				     "  b: { rules: [ { allow: \"https://[10.0.0.1]\" }, { deny: "
				     "\"https://[10.0.0.0/8]\", mode: observe },"
				     " { allow: \"https://h.example\" }, { deny: "
				     "\"https://[192.0.2.0/24]\", mode: observe } ] }\n");
	static const struct {
		uint16_t tenant;
		const char *addr;
		bool denied, would, bare;
	} cases[] = {
		{ 0, "10.1.1.1", false, true, true },
		{ 0, "10.0.0.1", false, false, false },
		{ 0, "192.0.2.1", false, false, false },
		{ 0, "10.2.0.1", true, false, false },
		{ 0, "10.3.0.1", false, true, true },
		{ 1, "10.1.1.1", false, true, false },
		{ 1, "10.0.0.1", false, false, false },
		{ 1, "10.2.0.1", true, false, false },
		{ 1, "10.3.0.1", false, true, false },
		{ 1, "192.0.2.1", false, false, false },
		{ 1, "64:ff9b::a01:101", false, true, false },
	};
	struct kh_host host, addr;
	assert_true(kh_host_parse(&host, KH_SLICE("h.example"), NULL));
	const struct kh_request_view view = { .method = KH_SLICE("GET"),
					      .scheme = KH_SCHEME_HTTPS,
					      .host = &host,
					      .port = 443,
					      .path = KH_SLICE("/") };
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kh_decision d = ask(&f, cases[i].tenant, "GET", "https://h.example/"), there;
		assert_true(kh_host_parse(&addr, kh_slice_str(cases[i].addr), NULL));
		uint64_t steps = 0;
		bool denied = kh_policy_denies_address(f.policy, cases[i].tenant, NULL, &view,
						       false, &d, &addr, &steps, &there);
		if (denied != cases[i].denied || there.bare != cases[i].bare ||
		    (there.would == KH_ERR_DENIED_BY_RULE) != cases[i].would ||
		    (there.would_rule != NULL) != cases[i].would)
			fail_msg("%u: %s", cases[i].tenant, cases[i].addr);
	}
	fini(&f);
}

/* ---- what a person may be asked about ---- */

static const char asked_yaml[] =
	"version: 1\n"
	"listen: [ { unix: /nowhere/s, tenant: t, narrow: [ { allow: \"https://n.example\" } ] } "
	"]\n"
	"site: { rules: [ { deny: \"https://site.example\" }, { allow: \"https://**\" },"
	" { deny: \"https://[10.0.0.0/8]\" } ] }\n"
	"tenants: { t: { rules: [ { deny: \"https://denied.example\" },"
	" { deny: \"https://[203.0.113.0/24]\" }, { allow: \"https://h.example/a\" } ] } }\n";

static struct kh_request_view asked_view(const struct kh_host *host)
{
	return (struct kh_request_view){ .method = KH_SLICE("GET"),
					 .scheme = KH_SCHEME_HTTPS,
					 .host = host,
					 .port = 443,
					 .path = KH_SLICE("/b") };
}

static void a_person_is_asked_only_where_no_rule_says_anything(void **state)
{
	static const struct {
		const char *host;
		bool asked;
	} cases[] = {
		{ "h.example", true },	     { "new.example", true },	{ "denied.example", false },
		{ "DENIED.example", false }, { "site.example", false }, { "203.0.113.7", false },
		{ "2001:db8::1", false }, /* it is read as the address that it may carry, too */
	};
	struct fixture f = policy_of(asked_yaml);
	struct kh_host host;
	struct kh_decision d;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (!kh_host_parse(&host, kh_slice_str(cases[i].host), NULL))
			fail_msg("%s", cases[i].host);
		const struct kh_request_view view = asked_view(&host);
		kh_policy_decide(f.policy, 0, NULL, &view, &d);
		assert_false(d.allow);
		if (kh_policy_may_ask(f.policy, 0, NULL, &view, &d) != cases[i].asked)
			fail_msg("%s", cases[i].host);
		assert_false(kh_policy_may_ask(f.policy, 1, NULL, &view, &d));
		assert_int_equal(kh_policy_take_answer(f.policy, 0, NULL, &view, &d),
				 cases[i].asked);
		assert_int_equal(d.allow, cases[i].asked);
		/* It is answered once. */
		assert_false(kh_policy_take_answer(f.policy, 0, NULL, &view, &d));
	}
	fini(&f);
}

static void whatever_has_another_reading_is_not_asked_about(void **state)
{
	static const struct kh_overrides overrides = { .path = true };
	static const struct kh_path_cuts cuts = { .n = 1 };
	static const struct kh_decision zeroed;
	struct fixture f = policy_of(asked_yaml);
	struct kh_host host;
	struct kh_decision d;

	(void)state;
	assert_true(kh_host_parse(&host, KH_SLICE("new.example"), NULL));
	const struct kh_request_view plain = asked_view(&host);
	kh_policy_decide(f.policy, 0, NULL, &plain, &d);
	assert_true(kh_policy_may_ask(f.policy, 0, NULL, &plain, &d));
	assert_false(kh_policy_may_ask(f.policy, 0, NULL, &plain, &zeroed));
	const struct kh_narrowing *narrowing = kh_policy_narrowing(f.policy, 0);
	assert_non_null(narrowing);
	assert_false(kh_policy_may_ask(f.policy, 0, narrowing, &plain, &d));
	struct kh_request_view views[8];
	for (size_t i = 0; i < 8; i++)
		views[i] = plain;
	views[0].path_slashed = KH_SLICE("/b/c");
	views[1].path_decoded = KH_SLICE("/b c");
	views[2].path_cuts = &cuts;
	views[3].overrides = &overrides;
	views[4].host = NULL;
	views[5].scheme = KH_SCHEME_NONE;
	views[6].model_state = KH_MODEL_NONE;
	views[7].model_state = KH_MODEL_NAMED;
	for (size_t i = 0; i < 8; i++)
		assert_false(kh_policy_may_ask(f.policy, 0, NULL, &views[i], &d));
	fini(&f);
}

/* What its name resolves to is still a matter of the rules, and no credential goes in. */
static void an_answer_opens_no_address_and_sets_no_credential(void **state)
{
	struct fixture f = policy_of(asked_yaml);
	struct kh_host host, addr;
	struct kh_decision d, there;
	uint64_t steps = 0;

	(void)state;
	assert_true(kh_host_parse(&host, KH_SLICE("new.example"), NULL));
	const struct kh_request_view view = asked_view(&host);
	kh_policy_decide(f.policy, 0, NULL, &view, &d);
	assert_true(kh_policy_take_answer(f.policy, 0, NULL, &view, &d));
	assert_int_equal(d.rule->n_credentials, 0);
	assert_false(kh_decision_passes_auth(&d));
	assert_false(d.bare);
	assert_false(d.websocket);
	assert_non_null(d.site_rule);
	assert_true(kh_host_parse(&addr, KH_SLICE("203.0.113.9"), NULL));
	assert_true(kh_policy_denies_address(f.policy, 0, NULL, &view, false, &d, &addr, &steps,
					     &there));
	assert_true(kh_host_parse(&addr, KH_SLICE("198.51.100.9"), NULL));
	assert_false(kh_policy_denies_address(f.policy, 0, NULL, &view, false, &d, &addr, &steps,
					      &there));
	fini(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_only_observed_goes_through_and_is_marked),
		cmocka_unit_test(what_a_tenant_only_observes_is_bare_and_what_a_rule_does_is_not),
		cmocka_unit_test(what_refuses_behind_the_rules_is_marked_and_bare_at_once),
		cmocka_unit_test(a_denial_by_address_that_is_only_observed_is_told),
		cmocka_unit_test(nothing_is_allowed_without_a_rule),
		cmocka_unit_test(a_person_is_asked_only_where_no_rule_says_anything),
		cmocka_unit_test(whatever_has_another_reading_is_not_asked_about),
		cmocka_unit_test(an_answer_opens_no_address_and_sets_no_credential),
		cmocka_unit_test(the_first_match_decides),
		cmocka_unit_test(scheme_host_and_port_must_all_be_those_of_the_rule),
		cmocka_unit_test(a_tenant_has_its_own_rules_only),
		cmocka_unit_test(a_tenant_that_is_not_there_is_denied_every_address_and_field),
		cmocka_unit_test(the_site_is_a_ceiling),
		cmocka_unit_test(both_readings_of_an_encoded_slash_must_be_allowed),
		cmocka_unit_test(a_websocket_is_refused_by_either_list),
		cmocka_unit_test(no_spelling_of_a_path_slips_past_a_denial),
		cmocka_unit_test(an_allowance_takes_the_exact_spelling_only),
		cmocka_unit_test(a_policy_over_a_broken_configuration_is_refused),
		cmocka_unit_test(a_policy_lives_as_long_as_somebody_holds_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
