/* test_policy.c - the first match decides, no match denies, and no spelling slips past */
#include "config_text.h"

#include <stdio.h>
#include <stdlib.h>

#include <keyhole/path.h>
#include <keyhole/policy.h>

#include "policy/policy_internal.h"

/* Asks for "METHOD URL", the path through the same normaliser as a request's. */
static struct kh_decision ask(const struct fixture *f, uint16_t tenant, const char *method,
			      const char *url)
{
	struct kh_request_view view = { .method = kh_slice_str(method) };
	struct kh_decision decision;
	struct kh_host host;
	struct kh_buf store;
	bool tls = strncmp(url, "https://", 8) == 0;
	struct kh_slice rest = kh_slice_str(url + (tls ? 8 : 7));
	size_t slash = kh_slice_find(rest, '/', 0);
	struct kh_slice authority = kh_slice_sub(rest, 0, slash);
	size_t colon = kh_slice_find(authority, ':', 0);
	uint64_t port = tls ? 443 : 80;

	if (colon < authority.len)
		assert_true(
			kh_slice_to_u64(kh_slice_sub(authority, colon + 1, authority.len), &port));
	assert_true(kh_host_parse(&host, kh_slice_sub(authority, 0, colon), NULL));
	view.scheme = tls ? KH_SCHEME_HTTPS : KH_SCHEME_HTTP;
	view.host = &host;
	view.port = (uint16_t)port;
	kh_buf_init(&store, 65536);
	assert_true(kh_path_normalise(kh_slice_sub(rest, slash, rest.len), &store, NULL));
	size_t len = kh_buf_len(&store);
	bool differs;
	assert_true(kh_path_slashed(kh_buf_view(&store), &store, &differs));
	view.path = kh_slice_sub(kh_buf_view(&store), 0, len);
	if (differs)
		view.path_slashed = kh_slice_sub(kh_buf_view(&store), len, kh_buf_len(&store));
	kh_policy_decide(f->policy, tenant, NULL, &view, &decision);
	kh_buf_fini(&store);
	return decision;
}

static bool allows(const struct fixture *f, const char *method, const char *url)
{
	struct kh_decision decision = ask(f, 0, method, url);
	/* What a decision says of itself always fits together. */
	assert_int_equal(decision.allow, decision.reason == KH_ERR_NONE);
	if (decision.allow)
		assert_true(decision.rule && decision.rule->allow);
	if (decision.reason == KH_ERR_DENIED_BY_RULE)
		assert_true(decision.rule && !decision.rule->allow);
	if (decision.reason == KH_ERR_NO_RULE)
		assert_null(decision.rule);
	return decision.allow;
}

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
		"/admin/",	"/admin/x",	  "//admin/x",	   "/admin//x",	    "///admin///x",
		"/%61dmin/x",	"/%61%64min/x",	  "/admin%2Fx",	   "/%2Fadmin/x",   "/admin%5Cx",
		"/m/x:run",	"/m/x%3Arun",	  "/m/x%3arun",	   "//m//x:run",    "/m/%3A:run",
		"/admin;v=1/x", "/;/admin/x",	  "/admin%3Bv/x",  "/m/x:run;v",    "/a%20b;x",
		"/e:q",		"/e%3Aq",	  "/e%3aq",	   "/a%20b",	    "/%5Cadmin/x",
		"//x/admin/x",	"//x:1//admin/x", "//x@y/admin/x", "/%2Fx/admin/x", "///admin/x",
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
	assert_true(allows(&f, "GET", "https://h.example/a+b"));
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

/* ---- patterns against a matcher that is slow and obvious ---- */

static bool slow_match(const char *pattern, const char *path)
{
	if (pattern[0] == '*' && pattern[1] == '*')
		return slow_match(pattern + 2, path) || (*path && slow_match(pattern, path + 1));
	if (pattern[0] == '*')
		return slow_match(pattern + 1, path) ||
		       (*path && *path != '/' && slow_match(pattern, path + 1));
	if (!*pattern || !*path)
		return !*pattern && !*path;
	return *pattern == *path && slow_match(pattern + 1, path + 1);
}

/* What a lenient reader sees, in letters of its own: stars of a pattern stay '*'. */
static void leniently(const char *text, bool pattern, bool parameters, char *out)
{
	char last = '\0';
	for (; *text; text++) {
		if (!parameters && *text == ';') {
			while (text[1] && text[1] != '/')
				text++;
			continue;
		}
		char c = *text;
		if (strncmp(text, "%2A", 3) == 0 || (c == '*' && !pattern))
			c = '\1';
		if (strncmp(text, "%3A", 3) == 0)
			c = ':';
		if (*text == '%')
			text += 2;
		if (c != '/' || last != '/')
			*out++ = c;
		last = c;
	}
	*out = '\0';
}

static uint32_t next_random(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

static void random_text(uint32_t *seed, const char *const *words, unsigned n, char *out)
{
	unsigned len = next_random(seed) % 11;
	out[0] = '\0';
	char *at = out;
	at += snprintf(at, 4, "/");
	for (unsigned i = 0; i < len; i++)
		at += snprintf(at, 8, "%s", words[next_random(seed) % n]);
}

static void patterns_match_as_the_obvious_matcher_does(void **state)
{
	(void)state;
	static const char *const pattern_words[] = { "a", "b", "/", "*", "*", "**", "a/", "/*" };
	static const char *const path_words[] = { "a", "b", "/", "a", "b", "aa", "a/", "/b" };
	uint32_t seed = 0x9e3779b9;
	unsigned hits = 0;
	for (unsigned i = 0; i < 200000; i++) {
		char pattern[128], path[128];
		random_text(&seed, pattern_words, 8, pattern);
		random_text(&seed, path_words, 8, path);
		if (strstr(pattern, "***"))
			continue; /* refused by the grammar */
		bool due = slow_match(pattern, path);
		if (kh_path_matches(kh_slice_str(pattern), kh_slice_str(path)) != due)
			fail_msg("%s on %s: should be %d", pattern, path, due);
		hits += due;
	}
	assert_true(hits > 5000);
}

static void denials_match_as_the_obvious_lenient_matcher_does(void **state)
{
	(void)state;
	static const char *const pattern_words[] = { "a", ":", "/", "*", "**", "%3A", "%2A", ";" };
	static const char *const path_words[] = { "a", ":", "/", "//", ";", "%3A", "%2A", "a/" };
	uint32_t seed = 0x2545f491;
	unsigned hits = 0, wider = 0;
	for (unsigned i = 0; i < 200000; i++) {
		char pattern[128], path[128], plain_pattern[128], plain_path[128], bare_path[128];
		random_text(&seed, pattern_words, 8, pattern);
		random_text(&seed, path_words, 8, path);
		leniently(pattern, true, true, plain_pattern);
		leniently(path, false, true, plain_path);
		leniently(path, false, false, bare_path);
		if (strstr(pattern, "***"))
			continue;
		bool strict = slow_match(pattern, path);
		bool due = strict || slow_match(plain_pattern, plain_path) ||
			   slow_match(plain_pattern, bare_path);
		if (strncmp(path, "//", 2) == 0) { /* an authority, and a path behind it */
			const char *behind = strchr(path + 2, '/');
			leniently(behind ? behind : "/", false, true, plain_path);
			leniently(behind ? behind : "/", false, false, bare_path);
			due = due || slow_match(plain_pattern, plain_path) ||
			      slow_match(plain_pattern, bare_path);
		}
		if (kh_path_matches_leniently(kh_slice_str(pattern), kh_slice_str(path)) != due)
			fail_msg("%s on %s: should be %d", pattern, path, due);
		hits += due;
		wider += due && !strict;
	}
	assert_true(hits > 5000);
	assert_true(wider > 1000);
}

static void a_long_path_against_many_stars_is_quick(void **state)
{
	(void)state;
	enum { LONG = 64 * 1024 };
	char *path = malloc(LONG + 1);
	assert_non_null(path);
	static const char *const patterns[] = { "/**a*a*a*a*a*a*b/c", "/*a*a*a*a*a*a*b",
						"/**a**a**a**a**b",   "/**a*b/**a*b/c",
						"/**/a*b/**/a*b/c",   "/**aaaaaaaaaaaaaaaab" };
	for (unsigned slashes = 0; slashes < 3; slashes++) {
		memset(path, 'a', LONG);
		path[0] = '/';
		path[LONG] = '\0';
		/* None; one near the end; every second byte. */
		if (slashes == 1)
			path[LONG - 10] = '/';
		for (unsigned i = 0; slashes == 2 && i < LONG; i += 2)
			path[i] = '/';
		if (slashes == 1)
			path[LONG / 2] = ';';
		for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
			for (unsigned n = 0; n < 3; n++)
				assert_false(kh_path_matches_leniently(kh_slice_str(patterns[i]),
								       kh_slice_of(path, LONG)));
	}
	free(path);
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
	}
	assert_null(kh_policy_observing(f.policy, 1));
	assert_null(kh_policy_observing(f.policy, 2));
	struct kh_host host;
	assert_true(kh_host_parse(&host, KH_SLICE("other.example"), NULL));
	assert_true(kh_policy_knows_host(f.policy, 0, NULL, KH_SCHEME_HTTPS, &host, 443));
	assert_false(kh_policy_knows_host(f.policy, 1, NULL, KH_SCHEME_HTTPS, &host, 443));
	fini(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_only_observed_goes_through_and_is_marked),
		cmocka_unit_test(nothing_is_allowed_without_a_rule),
		cmocka_unit_test(the_first_match_decides),
		cmocka_unit_test(scheme_host_and_port_must_all_be_those_of_the_rule),
		cmocka_unit_test(a_tenant_has_its_own_rules_only),
		cmocka_unit_test(the_site_is_a_ceiling),
		cmocka_unit_test(both_readings_of_an_encoded_slash_must_be_allowed),
		cmocka_unit_test(a_websocket_is_refused_by_either_list),
		cmocka_unit_test(no_spelling_of_a_path_slips_past_a_denial),
		cmocka_unit_test(an_allowance_takes_the_exact_spelling_only),
		cmocka_unit_test(a_host_is_known_where_something_may_be_allowed),
		cmocka_unit_test(what_is_allowed_nearby_is_that_of_the_same_host_first),
		cmocka_unit_test(a_tunnel_is_what_the_first_rule_at_its_authority_says),
		cmocka_unit_test(the_site_is_a_ceiling_for_tunnels),
		cmocka_unit_test(a_policy_over_a_broken_configuration_is_refused),
		cmocka_unit_test(a_policy_lives_as_long_as_somebody_holds_it),
		cmocka_unit_test(patterns_match_as_the_obvious_matcher_does),
		cmocka_unit_test(denials_match_as_the_obvious_lenient_matcher_does),
		cmocka_unit_test(a_long_path_against_many_stars_is_quick),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
