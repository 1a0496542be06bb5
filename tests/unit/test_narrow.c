/* test_narrow.c - a sandbox's own list takes away and never gives */
#include "config_text.h"

#include <stdio.h>
#include <stdlib.h>

#include <keyhole/policy/policy.h>

static const char both[] =
	"version: 1\n"
	"credentials: { c: { value: { env: C }, header: { x: \"{}\" }, hosts: [ api.example ] } }\n"
	"tenants:\n"
	"  a:\n"
	"    rules:\n"
	"      - { allow: \"POST https://api.example/v1/**\", credential: c }\n"
	"      - { allow: \"https://pass.example\", tls: passthrough }\n"
	"      - { allow: \"https://open.example\", client_auth: pass }\n"
	"      - allow: \"tcp://raw.example:22\"\n"
	"      - allow: \"tcp://raw.example:23\"\n"
	"  o: { mode: observe, rules: [ { allow: \"https://open.example\" } ] }\n"
	"listen:\n"
	"  - { unix: /s/0/s, tenant: a }\n"
	"  - unix: /s/1/s\n"
	"    tenant: a\n"
	"    sandbox: one\n"
	"    narrow:\n"
	"      - deny: \"https://api.example/v1/admin/**\"\n"
	"      - allow: \"https://api.example/**\"\n"
	"      - allow: \"https://other.example\"\n"
	"      - { allow: \"GET https://open.example\", websocket: false }\n"
	"      - allow: \"tcp://raw.example:22\"\n"
	"  - { unix: /s/2/s, tenant: a, sandbox: two, narrow: [] }\n"
	"  - { unix: /s/3/s, tenant: o, sandbox: three, narrow: [ { allow: \"GET https://**\" } ] "
	"}\n"
	"  - { unix: /s/4/s, tenant: a, sandbox: four, narrow: [ { allow: \"https://**\" } ] }\n";

enum { NONE, ONE, NOTHING, OBSERVED, ALL };

/* As the worker has it. */
static struct fixture decoded_policy_of(const char *yaml)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_buf bytes;
	struct kh_config *read = config_of(yaml);
	kh_buf_init(&bytes, 1024 * 1024);
	assert_true(kh_config_encode(read, &bytes));
	kh_config_free(read);
	struct kh_config *config = kh_config_decode(kh_buf_view(&bytes), &err);
	assert_non_null(config);
	kh_buf_fini(&bytes);
	return fixture_of(config);
}

static struct kh_decision ask(const struct fixture *f, const struct kh_narrowing *narrowing,
			      uint16_t tenant, const char *method, const char *name,
			      const char *path)
{
	struct kh_host host;
	assert_true(kh_host_parse(&host, kh_slice_str(name), NULL));
	struct kh_request_view view = { .method = kh_slice_str(method),
					.scheme = KH_SCHEME_HTTPS,
					.host = &host,
					.port = 443,
					.path = kh_slice_str(path) };
	struct kh_decision decision, explained;
	kh_policy_decide(f->policy, tenant, narrowing, &view, &decision);
	kh_policy_explain(f->policy, tenant, narrowing, &view, NULL, NULL, &explained);
	assert_true(decision.allow == explained.allow && decision.reason == explained.reason &&
		    decision.rule == explained.rule && decision.list == explained.list &&
		    decision.websocket == explained.websocket &&
		    decision.would == explained.would &&
		    decision.would_rule == explained.would_rule &&
		    decision.would_list == explained.would_list &&
		    decision.narrow_rule == explained.narrow_rule);
	return decision;
}

static struct kh_decision ask_at(const struct fixture *f, size_t listener, const char *method,
				 const char *name, const char *path)
{
	return ask(f, kh_policy_narrowing(f->policy, listener),
		   f->config->listeners[listener].tenant, method, name, path);
}

static void what_both_allow_is_allowed_by_the_tenants_rule(void **state)
{
	(void)state;
	struct fixture f = decoded_policy_of(both);
	struct kh_decision d = ask_at(&f, ONE, "POST", "api.example", "/v1/x");
	assert_true(d.allow);
	assert_int_equal(d.list, KH_LIST_TENANT);
	assert_int_equal(d.rule->n_credentials, 1);
	d = ask_at(&f, ONE, "GET", "open.example", "/");
	assert_true(d.allow && d.rule->client_auth_pass);
	assert_false(d.websocket); /* the narrowing's word */
	assert_true(ask_at(&f, NONE, "GET", "open.example", "/").websocket);
	fini(&f);
}

static void it_takes_away_and_never_gives(void **state)
{
	(void)state;
	struct fixture f = decoded_policy_of(both);
	struct kh_decision d = ask_at(&f, ONE, "POST", "api.example", "/v1/admin/x");
	assert_false(d.allow);
	assert_int_equal(d.list, KH_LIST_SANDBOX);
	assert_int_equal(d.reason, KH_ERR_DENIED_BY_RULE);
	assert_string_equal(d.rule->text, "https://api.example/v1/admin/**");
	assert_true(ask_at(&f, NONE, "POST", "api.example", "/v1/admin/x").allow);
	d = ask_at(&f, ONE, "POST", "open.example", "/");
	assert_false(d.allow);
	assert_int_equal(d.list, KH_LIST_SANDBOX);
	assert_int_equal(d.reason, KH_ERR_NO_RULE);
	assert_null(d.rule);
	/* It allows these, and the tenant does not. */
	d = ask_at(&f, ONE, "GET", "api.example", "/v1/x");
	assert_false(d.allow);
	assert_int_equal(d.list, KH_LIST_TENANT);
	assert_false(ask_at(&f, ONE, "GET", "other.example", "/").allow);
	assert_false(ask_at(&f, ALL, "GET", "other.example", "/").allow);
	assert_true(ask_at(&f, ALL, "POST", "api.example", "/v1/x").allow);
	fini(&f);
}

static void an_empty_one_leaves_nothing(void **state)
{
	(void)state;
	struct fixture f = decoded_policy_of(both);
	assert_non_null(kh_policy_narrowing(f.policy, NOTHING));
	assert_null(kh_policy_narrowing(f.policy, NONE));
	assert_null(kh_policy_narrowing(f.policy, 99));
	struct kh_decision d = ask_at(&f, NOTHING, "POST", "api.example", "/v1/x");
	assert_false(d.allow);
	assert_int_equal(d.list, KH_LIST_SANDBOX);
	fini(&f);
}

static void what_a_tenant_only_observes_it_enforces(void **state)
{
	(void)state;
	struct fixture f = decoded_policy_of(both);
	struct kh_decision d = ask_at(&f, OBSERVED, "GET", "not.example", "/");
	assert_true(d.allow);
	assert_int_equal(d.would, KH_ERR_NO_RULE);
	d = ask_at(&f, OBSERVED, "POST", "not.example", "/");
	assert_false(d.allow);
	assert_int_equal(d.list, KH_LIST_SANDBOX);
	assert_int_equal(d.would, KH_ERR_NONE);
	fini(&f);
}

static const char bounded[] =
	"version: 1\n"
	"site: { rules: [ { allow: \"https://**\", max_body: 3KiB, websocket: false } ] }\n"
	"tenants:\n"
	"  a:\n"
	"    rules:\n"
	"      - { allow: \"https://two.example\", max_body: 2KiB }\n"
	"      - { allow: \"https://five.example\", max_body: 5KiB }\n"
	"      - { allow: \"https://none.example/a/**\" }\n"
	"      - { allow: \"https://none.example/**\", max_body: 1KiB }\n"
	"listen:\n"
	"  - { unix: /s/0/s }\n"
	"  - { unix: /s/1/s, sandbox: one, narrow: [ { allow: \"https://**\", max_body: 1KiB } ] "
	"}\n";

/* What announces nothing is only known to be too large when it is. */
static void the_smallest_body_that_any_list_allows_is_the_one_that_holds(void **state)
{
	(void)state;
	struct fixture f = decoded_policy_of(bounded);
	static const struct {
		size_t listener;
		const char *host;
		uint64_t most;
	} cases[] = { { 0, "two.example", 2048 },
		      { 0, "five.example", 3072 },
		      { 1, "two.example", 1024 },
		      { 1, "five.example", 1024 } };
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kh_decision d = ask_at(&f, cases[i].listener, "POST", cases[i].host, "/");
		assert_true(d.allow);
		assert_int_equal(kh_decision_max_body(&d)->more->max_body, cases[i].most);
		enum kh_list list;
		assert_ptr_equal(kh_decision_no_websocket(&d, &list), d.site_rule);
		assert_int_equal(list, KH_LIST_SITE);
	}
	fini(&f);
	f = decoded_policy_of(both);
	struct kh_decision d = ask_at(&f, ONE, "GET", "open.example", "/");
	enum kh_list list;
	assert_null(kh_decision_max_body(&d));
	assert_string_equal(kh_decision_no_websocket(&d, &list)->text, "GET https://open.example");
	assert_int_equal(list, KH_LIST_SANDBOX);
	fini(&f);
}

/* A %2F leaves two rules; which of their bounds would hold? */
static void two_readings_with_two_bounds_are_no_permission(void **state)
{
	(void)state;
	struct fixture f = decoded_policy_of(bounded);
	struct kh_host host;
	assert_true(kh_host_parse(&host, KH_SLICE("none.example"), NULL));
	struct kh_request_view view = { .method = KH_SLICE("POST"),
					.scheme = KH_SCHEME_HTTPS,
					.host = &host,
					.port = 443,
					.path = KH_SLICE("/a%2Fb"),
					.path_slashed = KH_SLICE("/a/b") };
	struct kh_decision d;
	kh_policy_decide(f.policy, 0, NULL, &view, &d);
	assert_false(d.allow);
	view.path = KH_SLICE("/c%2Fb");
	view.path_slashed = KH_SLICE("/c/b");
	kh_policy_decide(f.policy, 0, NULL, &view, &d);
	assert_true(d.allow);
	fini(&f);
}

static enum kh_tunnel_kind tunnel(const struct fixture *f, size_t listener, const char *name,
				  uint16_t port, struct kh_decision *out)
{
	struct kh_host host;
	assert_true(kh_host_parse(&host, kh_slice_str(name), NULL));
	return kh_policy_tunnel(f->policy, f->config->listeners[listener].tenant,
				kh_policy_narrowing(f->policy, listener), &host, port, out);
}

static void tunnels_that_nobody_reads_pass_it_too(void **state)
{
	(void)state;
	struct fixture f = decoded_policy_of(both);
	struct kh_decision d;
	assert_int_equal(tunnel(&f, NONE, "raw.example", 23, &d), KH_TUNNEL_RAW);
	assert_int_equal(tunnel(&f, ONE, "raw.example", 22, &d), KH_TUNNEL_RAW);
	assert_int_equal(tunnel(&f, ONE, "raw.example", 23, &d), KH_TUNNEL_DENIED);
	assert_int_equal(d.list, KH_LIST_SANDBOX);
	assert_int_equal(d.reason, KH_ERR_NO_RULE);
	assert_int_equal(tunnel(&f, ALL, "raw.example", 22, &d), KH_TUNNEL_DENIED);
	assert_int_equal(tunnel(&f, ALL, "pass.example", 443, &d), KH_TUNNEL_PASS);
	assert_int_equal(tunnel(&f, ONE, "pass.example", 443, &d), KH_TUNNEL_DENIED);
	assert_int_equal(tunnel(&f, NOTHING, "pass.example", 443, &d), KH_TUNNEL_DENIED);
	/* Methods are not seen in one: a rule for some does not cover it. */
	assert_int_equal(tunnel(&f, OBSERVED, "pass.example", 443, &d), KH_TUNNEL_READ);
	fini(&f);
}

/* Such a rule changes nothing, and what would be if it were enforced is said. */
static void a_rule_that_observes_leaves_a_tunnel_as_it_is(void **state)
{
	(void)state;
	struct fixture f =
		decoded_policy_of("version: 1\n"
				  "site:\n"
				  "  rules:\n"
				  "    - { deny: \"tcp://raw.example:22\", mode: observe }\n"
				  "    - { deny: \"https://pass.example\", mode: observe }\n"
				  "    - { allow: \"tcp://raw.example:22\" }\n"
				  "    - { allow: \"tcp://own.example:22\" }\n"
				  "    - { allow: \"https://**\" }\n"
				  "tenants:\n"
				  "  a:\n"
				  "    rules:\n"
				  "      - { deny: \"tcp://own.example:22\", mode: observe }\n"
				  "      - { deny: \"https://mine.example/x\", mode: observe }\n"
				  "      - { deny: \"https://read.example\", mode: observe }\n"
				  "      - { allow: \"tcp://own.example:22\" }\n"
				  "      - { allow: \"tcp://raw.example:22\" }\n"
				  "      - { allow: \"https://pass.example\", tls: passthrough }\n"
				  "      - { allow: \"https://mine.example\", tls: passthrough }\n"
				  "      - { allow: \"https://free.example\", tls: passthrough }\n"
				  "      - { allow: \"https://read.example\" }\n"
				  "listen:\n"
				  "  - { unix: /s/0/s }\n");
	static const struct {
		const char *host;
		uint16_t port;
		enum kh_tunnel_kind kind;
		const char *would; /* NULL: nothing */
		enum kh_list list;
	} cases[] = {
		{ "raw.example", 22, KH_TUNNEL_RAW, "tcp://raw.example:22", KH_LIST_SITE },
		{ "own.example", 22, KH_TUNNEL_RAW, "tcp://own.example:22", KH_LIST_TENANT },
		{ "pass.example", 443, KH_TUNNEL_PASS, "https://pass.example", KH_LIST_SITE },
		{ "mine.example", 443, KH_TUNNEL_PASS, "https://mine.example/x", KH_LIST_TENANT },
		{ "free.example", 443, KH_TUNNEL_PASS, NULL, KH_LIST_TENANT },
		{ "read.example", 443, KH_TUNNEL_READ, NULL, KH_LIST_TENANT },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kh_decision d;
		assert_int_equal(tunnel(&f, NONE, cases[i].host, cases[i].port, &d), cases[i].kind);
		assert_int_equal(d.allow, cases[i].kind != KH_TUNNEL_READ);
		assert_int_equal(d.would, cases[i].would ? KH_ERR_DENIED_BY_RULE : KH_ERR_NONE);
		if (!cases[i].would)
			continue;
		assert_string_equal(d.would_rule->text, cases[i].would);
		assert_int_equal(d.would_list, cases[i].list);
	}
	fini(&f);
}

static void hosts_are_known_where_all_lists_know_them(void **state)
{
	(void)state;
	struct fixture f = decoded_policy_of(both);
	struct kh_host open, pass;
	assert_true(kh_host_parse(&open, KH_SLICE("open.example"), NULL));
	assert_true(kh_host_parse(&pass, KH_SLICE("pass.example"), NULL));
	const struct kh_narrowing *one = kh_policy_narrowing(f.policy, ONE);
	const struct kh_narrowing *nothing = kh_policy_narrowing(f.policy, NOTHING);
	assert_true(kh_policy_knows_host(f.policy, 0, one, KH_SCHEME_HTTPS, &open, 443));
	assert_false(kh_policy_knows_host(f.policy, 0, one, KH_SCHEME_HTTPS, &pass, 443));
	assert_false(kh_policy_knows_host(f.policy, 0, nothing, KH_SCHEME_HTTPS, &open, 443));
	const char *texts[4];
	bool more;
	assert_int_equal(kh_policy_nearby(f.policy, 0, one, &open, texts, 4, &more), 1);
	assert_string_equal(texts[0], "GET https://open.example");
	assert_int_equal(kh_policy_nearby(f.policy, 0, nothing, &open, texts, 4, &more), 0);
	fini(&f);
}

/* For a sandbox that is made while the daemon runs. */
static void one_stands_in_a_file_of_its_own_and_outlives_it(void **state)
{
	(void)state;
	struct fixture f = decoded_policy_of(both);
	struct kh_diagnostics diags = { 0 };
	struct kh_rules rules, back;
	struct kh_err err = KH_ERR_INIT;
	struct kh_buf bytes;
	assert_true(kh_narrow_parse("rules.yaml",
				    KH_SLICE("narrow:\n"
					     "  - { use: anthropic }\n"
					     "  - allow: \"POST https://api.example/v1/a\"\n"),
				    "policies", &rules, &diags));
	assert_int_equal(diags.count, 0);
	kh_diagnostics_fini(&diags);
	for (size_t i = 0; i < rules.count; i++) {
		assert_int_equal(rules.list[i].n_credentials, 0);
		assert_int_equal(rules.list[i].where.file, KH_NO_FILE);
	}
	kh_buf_init(&bytes, 65536);
	assert_true(kh_snapshot_encode_narrow(&rules, &bytes));
	for (size_t cut = 0; cut < kh_buf_len(&bytes); cut++)
		assert_false(kh_snapshot_decode_narrow(kh_slice_sub(kh_buf_view(&bytes), 0, cut),
						       &back, NULL));
	assert_true(kh_snapshot_decode_narrow(kh_buf_view(&bytes), &back, &err));
	assert_int_equal(back.count, rules.count);
	kh_buf_fini(&bytes);
	kh_rules_fini(&rules);
	struct kh_narrowing *made = kh_narrowing_new(&back, &err);
	assert_non_null(made);
	assert_int_equal(back.count, 0);
	struct kh_narrowing *held = kh_narrowing_ref(made);
	kh_narrowing_unref(made);
	assert_true(ask(&f, held, 0, "POST", "api.example", "/v1/a").allow);
	assert_false(ask(&f, held, 0, "POST", "api.example", "/v1/b").allow);
	assert_false(ask(&f, held, 0, "POST", "api.anthropic.com", "/v1/messages").allow);
	/* The policy may be another one by now. */
	struct fixture next = decoded_policy_of(both);
	fini(&f);
	assert_true(ask(&next, held, 0, "POST", "api.example", "/v1/a").allow);
	kh_narrowing_unref(held);
	fini(&next);
}

static void refuses(const char *yaml, const char *says)
{
	struct kh_diagnostics diags = { 0 };
	struct kh_rules rules;
	bool found = false;
	if (kh_narrow_parse("rules.yaml", kh_slice_str(yaml), "policies", &rules, &diags))
		fail_msg("accepted: %s", yaml);
	assert_int_equal(rules.count, 0);
	for (size_t i = 0; i < diags.count; i++) {
		found = found || strstr(diags.list[i].text, says);
		assert_int_equal(diags.list[i].where.file, 0);
		assert_true(diags.list[i].where.line > 0 && diags.list[i].where.column > 0);
	}
	if (!found)
		fail_msg("%s: said \"%s\"", yaml, diags.list[0].text);
	kh_diagnostics_fini(&diags);
}

static void a_file_that_would_widen_is_refused_whole(void **state)
{
	(void)state;
	refuses("narrow: [ { allow: \"https://a.example\", credential: c } ]\n",
		"a narrowing only takes away");
	refuses("narrow: [ { allow: \"https://a.example\", client_auth: pass } ]\n",
		"a narrowing only takes away");
	refuses("narrow: [ { allow: \"https://a.example\", tls: passthrough } ]\n",
		"a narrowing only takes away");
	refuses("narrow: [ { deny: \"https://a.example\", mode: observe } ]\n",
		"a narrowing only takes away");
	refuses("narrow: [ { allow: \"https://a.example\", allow_addresses: [ 10.0.0.0/8 ] } ]\n",
		"unknown key");
	refuses("narrow: []\nallow_addresses: [ 10.0.0.0/8 ]\n", "unknown key");
	refuses("narrow: []\ntenant: b\n", "unknown key");
	refuses("rules: []\n", "expected a map with the key \"narrow\"");
	refuses("- allow: \"https://a.example\"\n", "expected a map");
	refuses("narrow: { allow: \"https://a.example\" }\n", "expected a list of rules");
	refuses("narrow:\n", "expected a list of rules");
	refuses("narrow: [ { use: no-such-preset } ]\n", "no preset is called");
	refuses("narrow: [ { use: ../x } ]\n", "preset");
	refuses("", "empty");
}

/* Whoever else makes rules than the reader of files. */
static void rules_that_bring_something_are_not_compiled(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct kh_err err = KH_ERR_INIT;
		struct kh_rules rules = { .list = calloc(1, sizeof(struct kh_rule)), .count = 1 };
		assert_non_null(rules.list);
		assert_true(kh_rule_parse(rules.list, KH_SLICE("https://a.example"), NULL));
		rules.list->allow = true;
		rules.list->n_credentials = i == 0;
		rules.list->client_auth_pass = i == 1;
		rules.list->passthrough = i == 2;
		if (i == 3)
			rules.list->more = calloc(1, sizeof(*rules.list->more));
		if (rules.list->more)
			rules.list->more->observe = true;
		struct kh_buf bytes;
		struct kh_rules back;
		kh_buf_init(&bytes, 65536);
		assert_true(kh_snapshot_encode_narrow(&rules, &bytes));
		assert_false(kh_snapshot_decode_narrow(kh_buf_view(&bytes), &back, NULL));
		kh_buf_fini(&bytes);
		assert_null(kh_narrowing_new(&rules, &err));
		assert_int_equal(err.code, KH_ERR_CONFIG);
		assert_null(rules.list);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_both_allow_is_allowed_by_the_tenants_rule),
		cmocka_unit_test(it_takes_away_and_never_gives),
		cmocka_unit_test(an_empty_one_leaves_nothing),
		cmocka_unit_test(what_a_tenant_only_observes_it_enforces),
		cmocka_unit_test(tunnels_that_nobody_reads_pass_it_too),
		cmocka_unit_test(a_rule_that_observes_leaves_a_tunnel_as_it_is),
		cmocka_unit_test(the_smallest_body_that_any_list_allows_is_the_one_that_holds),
		cmocka_unit_test(two_readings_with_two_bounds_are_no_permission),
		cmocka_unit_test(hosts_are_known_where_all_lists_know_them),
		cmocka_unit_test(one_stands_in_a_file_of_its_own_and_outlives_it),
		cmocka_unit_test(a_file_that_would_widen_is_refused_whole),
		cmocka_unit_test(rules_that_bring_something_are_not_compiled),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
