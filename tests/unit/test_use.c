/* test_use.c - a preset as it is written on a command line */
#include "unit.h"

#include <string.h>

#include <keyhole/config/config.h>

static struct kh_diagnostics diags;

static struct kh_config *use(const char *text)
{
	const char *presets[] = { text };
	kh_diagnostics_fini(&diags);
	diags = (struct kh_diagnostics){ 0 };
	return kh_config_from_presets(presets, 1, "policies", &diags);
}

static bool has_rule(const char *text, bool allow, const char *rule)
{
	struct kh_config *config = use(text);
	bool found = false;
	assert_non_null(config);
	const struct kh_rules *rules = &config->tenants[0].rules;
	for (size_t i = 0; i < rules->count; i++)
		found = found ||
			(rules->list[i].allow == allow && strcmp(rules->list[i].text, rule) == 0);
	kh_config_free(config);
	return found;
}

#define PUSH(repo) "POST https://github.com/" repo "/git-receive-pack"

static void test_parameters_are_those_of_a_file(void **state)
{
	(void)state;
	assert_true(has_rule("github", false, PUSH("*/*.git")) ||
		    has_rule("github", false, "https://github.com/*/*/git-receive-pack"));
	assert_true(has_rule("github:repos=org/app,push=true", true, PUSH("org/app")));
	assert_false(has_rule("github:repos=org/app,push=false", true, PUSH("org/app")));
	assert_false(has_rule("github:repos=org/app", true, PUSH("org/app")));
	assert_true(
		has_rule("{ github: { repos: [ org/app ], push: true } }", true, PUSH("org/app")));
	assert_true(has_rule(" github : repos = org/app , push = true ", true, PUSH("org/app")));
}

static void test_a_key_that_comes_again_makes_a_list(void **state)
{
	static const char text[] = "github:repos=org/app,push=true,repos=org/lib";
	(void)state;
	assert_true(has_rule(text, true, PUSH("org/app")));
	assert_true(has_rule(text, true, PUSH("org/lib")));
	assert_false(has_rule(text, true, PUSH("*/*")));
}

static void test_what_is_wrong_is_said(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "github:push", "a parameter is KEY=VALUE" },
		{ "github:=x", "a parameter is KEY=VALUE" },
		{ "github:push=maybe", "expected true or false" },
		{ "github:repo=x", "did you mean \"repos\"" },
		{ "githb:push=true", "did you mean \"github\"" },
		{ "github:repos=a'b", "github.repos" },
		{ "github:repos=org/app} , { npm: {", "a parameter is KEY=VALUE" },
		{ "github:repos=a} }", "github.repos" },
		{ "npm:x=y", "no parameter" },
		{ "../npm:x=y", "no path" },
		{ "{ github: true }", "expected { PRESET" },
		{ "{ github: {}, npm: {} }", "expected { PRESET" },
		{ "{ github: [", "YAML" },
		{ "azure-openai", "needs the parameter \"resources\"" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kh_config *config = use(cases[i].text);
		if (config)
			print_message("%s is taken\n", cases[i].text);
		assert_null(config);
		assert_true(diags.errors > 0);
		bool said = false;
		for (size_t j = 0; j < diags.count; j++)
			said = said || strstr(diags.list[j].text, cases[i].says);
		if (!said)
			print_message("%s: %s\n", cases[i].text, diags.list[0].text);
		assert_true(said);
	}
}

static int end(void **state)
{
	(void)state;
	kh_diagnostics_fini(&diags);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parameters_are_those_of_a_file),
		cmocka_unit_test(test_a_key_that_comes_again_makes_a_list),
		cmocka_unit_test(test_what_is_wrong_is_said),
	};
	return cmocka_run_group_tests(tests, NULL, end);
}
