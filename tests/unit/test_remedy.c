/* test_remedy.c - what would allow a request that the rules refuse */
#include "config_text.h"

#include <stdio.h>
#include <string.h>

#include <keyhole/exchange/remedy.h>

static struct kh_remedies *all;

/* What `--use` would take; "" where no preset allows it. */
static const char *use_for(const char *text)
{
	struct kh_dry_run question;
	struct kh_err err = KH_ERR_INIT;
	kh_dry_run_init(&question);
	if (!kh_dry_run_ask_text(&question, kh_slice_str(text), &err))
		fail_msg("%s: %s", text, err.text);
	const struct kh_remedy *found = kh_remedies_find(all, &question);
	kh_dry_run_fini(&question);
	return found ? found->use : "";
}

static int begin(void **state)
{
	(void)state;
	all = kh_remedies_new("policies", NULL);
	return all ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	kh_remedies_free(all);
	return 0;
}

static void test_a_preset_that_allows_it_is_found(void **state)
{
	static const struct {
		const char *request, *use;
	} cases[] = {
		{ "GET https://registry.npmjs.org/left-pad", "npm" },
		{ "GET https://pypi.org/simple/requests/", "pypi" },
		{ "POST https://api.anthropic.com/v1/messages", "anthropic" },
		{ "POST https://api.openai.com/v1/chat/completions", "openai" },
		{ "GET https://github.com/org/app.git/info/refs?service=git-upload-pack",
		  "github" },
		/* A journal has no query. */
		{ "GET https://github.com/org/app.git/info/refs", "github" },
		{ "POST https://github.com/org/app.git/git-upload-pack", "github" },
		/* With one of its booleans the other way round. */
		{ "POST https://github.com/org/app.git/git-receive-pack", "github:push=true" },
		{ "GET https://static.rust-lang.org/dist/channel-rust-stable.toml",
		  "crates:rustup=true" },
		{ "PUT https://registry.npmjs.org/left-pad", "" },
		{ "GET https://unknown.example/", "" },
		{ "GET https://registry.npmjs.org.evil.example/left-pad", "" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (strcmp(use_for(cases[i].request), cases[i].use) != 0)
			fail_msg("%s: \"%s\"", cases[i].request, use_for(cases[i].request));
}

static void test_the_variables_of_its_keys_are_named(void **state)
{
	struct kh_dry_run question;
	(void)state;
	kh_dry_run_init(&question);
	assert_true(kh_dry_run_ask_text(
		&question, KH_SLICE("POST https://api.openai.com/v1/responses"), NULL));
	const struct kh_remedy *found = kh_remedies_find(all, &question);
	kh_dry_run_fini(&question);
	assert_non_null(found);
	assert_string_equal(found->preset, "openai");
	assert_null(found->parameter);
	assert_string_equal(found->variables, "OPENAI_API_KEY, CODEX_API_KEY");
	assert_string_equal(found->narrows, "");
}

/* Somebody who pastes it opens all repositories, unless it says which. */
static void test_a_preset_that_can_be_narrowed_says_by_what(void **state)
{
	struct kh_dry_run question;
	(void)state;
	kh_dry_run_init(&question);
	assert_true(kh_dry_run_ask_text(
		&question, KH_SLICE("POST https://github.com/a/b.git/git-receive-pack"), NULL));
	const struct kh_remedy *found = kh_remedies_find(all, &question);
	kh_dry_run_fini(&question);
	assert_non_null(found);
	assert_string_equal(found->parameter, "push=true");
	assert_string_equal(found->narrows, "repos");
}

/* In front of these rules the words may open nothing that they leave out. */
static void test_words_keep_what_the_rules_have_narrowed(void **state)
{
	static const struct {
		const char *uses[2], *request, *use;
	} cases[] = {
		{ { "github:repos=a/b" },
		  "POST https://github.com/a/b/git-receive-pack",
		  "github:repos=a/b,push=true" },
		{ { "github:repos=a/b" }, "POST https://github.com/evil/x/git-receive-pack", "" },
		{ { "github:repos=a/b" }, "GET https://github.com/evil/x/info/refs", "" },
		{ { "{ github: { push: false, repos: [ a/b, 'c/*' ], api: false } }" },
		  "POST https://github.com/c/d/git-receive-pack",
		  "github:repos=a/b,repos=c/*,api=false,push=true" },
		{ { "github:repos=a/b", "github:repos=c/d,token=true" },
		  "POST https://github.com/c/d/git-receive-pack",
		  "github:repos=c/d,token=true,push=true" },
		/* Whoever narrows it once means it. */
		{ { "github:push=false", "github:repos=a/b,push=true" },
		  "POST https://github.com/evil/x/git-receive-pack",
		  "" },
		{ { "github" },
		  "POST https://github.com/a/b/git-receive-pack",
		  "github:push=true" },
		{ { "github:repos=a/b" }, "GET https://registry.npmjs.org/left-pad", "npm" },
	};
	struct kh_remedies *before = all;
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kh_diagnostics diags = { 0 };
		struct kh_config *config = kh_config_from_presets(
			cases[i].uses, cases[i].uses[1] ? 2 : 1, "policies", &diags);
		kh_diagnostics_fini(&diags);
		assert_non_null(config);
		all = kh_remedies_new("policies", &config->tenants[0].rules);
		if (strcmp(use_for(cases[i].request), cases[i].use) != 0)
			fail_msg("%s %s: \"%s\"", cases[i].uses[0], cases[i].request,
				 use_for(cases[i].request));
		kh_remedies_free(all);
		kh_config_free(config);
	}
	all = before;
}

static void test_a_folder_without_presets_has_none(void **state)
{
	struct kh_remedies *before = all;
	(void)state;
	all = kh_remedies_new("tests/unit", NULL);
	assert_string_equal(use_for("GET https://registry.npmjs.org/left-pad"), "");
	kh_remedies_free(all);
	all = before;
}

/* ---- rules ---- */

static const char *rule(const char *methods, const char *scheme, const char *host, uint16_t port,
			const char *path)
{
	static char text[1024];
	struct kh_buf out;
	kh_buf_init(&out, sizeof(text));
	bool ok = kh_remedy_rule(&out, methods, scheme, host, port, path);
	assert_true(ok || kh_buf_len(&out) == 0);
	(void)snprintf(text, sizeof(text), "%s", ok ? kh_buf_cstr(&out) : "");
	kh_buf_fini(&out);
	return text;
}

static void test_a_rule_says_what_was_asked(void **state)
{
	(void)state;
	assert_string_equal(rule("GET", "https", "a.test", 443, "/v1/*"),
			    "GET https://a.test/v1/*");
	assert_string_equal(rule("GET,HEAD", "http", "a.test", 8080, "/**"),
			    "GET,HEAD http://a.test:8080/**");
	assert_string_equal(rule("GET", "https", "::1", 443, "/"), "GET https://[::1]/");
	assert_string_equal(rule("CONNECT", "tcp", "a.test", 22, NULL), "tcp://a.test:22");
}

static void test_what_could_be_read_as_more_is_no_rule(void **state)
{
	(void)state;
	assert_string_equal(rule("G'T", "https", "a.test", 443, "/"), "");
	assert_string_equal(rule("GET;x", "https", "a.test", 443, "/"), "");
	assert_string_equal(rule("FROB", "https", "a.test", 443, "/"), "");
	assert_string_equal(rule("get", "https", "a.test", 443, "/"), "");
	assert_string_equal(rule("GET", "https", "**", 443, "/"), "");
	assert_string_equal(rule("GET", "https", "*.a.test", 443, "/"), "");
	assert_string_equal(rule("GET", "https", "a.test", 443, "/'"), "");
	assert_string_equal(rule("GET", "https", "a.test", 443, "/\"x\""), "");
	assert_string_equal(rule("GET", "https", "a.test", 443, "/x y"), "");
	assert_string_equal(rule("GET", "https", "a.test", 443, "/x?y"), "");
	assert_string_equal(rule("GET", "", "a.test", 443, "/x"), "");
	assert_string_equal(rule("CONNECT", "tcp", "a.test", 0, NULL), "");
}

static void test_the_rule_allows_what_was_refused(void **state)
{
	struct fixture f = policy_of("version: 1\ntenants: { a: { rules: [] } }\n");
	struct kh_diagnostics diags = { 0 };
	struct kh_dry_run q;
	struct kh_outcome outcome;
	(void)state;
	kh_dry_run_init(&q);
	assert_true(kh_dry_run_ask_text(&q, KH_SLICE("POST https://a.test:8443/v1/7/x?k=v"), NULL));
	kh_dry_run_answer(&q, f.config, f.policy, 0, NULL, &outcome);
	assert_false(outcome.allow);
	assert_true(kh_config_allow(f.config, 0, rule("POST", "https", "a.test", 8443, "/v1/*/x"),
				    &diags));
	kh_policy_unref(f.policy);
	f.policy = kh_policy_compile(f.config, NULL);
	kh_dry_run_answer(&q, f.config, f.policy, 0, NULL, &outcome);
	assert_true(outcome.allow);
	kh_dry_run_fini(&q);
	kh_diagnostics_fini(&diags);
	fini(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_preset_that_allows_it_is_found, begin, end),
		cmocka_unit_test_setup_teardown(test_the_variables_of_its_keys_are_named, begin,
						end),
		cmocka_unit_test_setup_teardown(test_a_preset_that_can_be_narrowed_says_by_what,
						begin, end),
		cmocka_unit_test(test_words_keep_what_the_rules_have_narrowed),
		cmocka_unit_test_setup_teardown(test_a_folder_without_presets_has_none, begin, end),
		cmocka_unit_test(test_a_rule_says_what_was_asked),
		cmocka_unit_test(test_what_could_be_read_as_more_is_no_rule),
		cmocka_unit_test(test_the_rule_allows_what_was_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
