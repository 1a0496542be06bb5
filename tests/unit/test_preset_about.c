/* test_preset_about.c - what a preset says of itself */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/config/config.h>

static struct kh_preset_about about;
static struct kh_diagnostics diags;

static bool read(const char *name)
{
	kh_diagnostics_fini(&diags);
	return kh_preset_about(name, "policies", &about, &diags);
}

static void test_description_parameters_and_variables_are_those_of_the_file(void **state)
{
	(void)state;
	assert_true(read("anthropic"));
	assert_string_equal(about.name, "anthropic");
	assert_string_equal(about.path, "policies/anthropic.yaml");
	assert_string_equal(about.description,
			    "Anthropic's Messages API and Claude Code, without its telemetry");
	assert_int_equal(about.n_parameters, 2);
	assert_string_equal(about.parameters[0].name, "claude_code");
	assert_string_equal(about.parameters[0].type, "boolean");
	assert_string_equal(about.parameters[0].fallback, "true");
	assert_int_equal(about.n_variables, 3);
	assert_string_equal(about.variables[0], "ANTHROPIC_API_KEY");
	kh_preset_about_fini(&about);
	assert_true(read("pypi"));
	assert_int_equal(about.n_parameters + about.n_variables, 0);
	kh_preset_about_fini(&about);
}

static void
test_lists_are_shown_as_a_use_says_them_and_what_must_be_set_has_no_default(void **state)
{
	(void)state;
	assert_true(read("ghcr"));
	assert_string_equal(about.parameters[0].fallback, "*/*,*/*/*");
	kh_preset_about_fini(&about);
	assert_true(read("azure-openai"));
	assert_string_equal(about.parameters[0].name, "resources");
	assert_null(about.parameters[0].fallback);
	kh_preset_about_fini(&about);
}

static void test_a_variable_stands_there_once_and_a_secret_key_goes_with_its_id(void **state)
{
	(void)state;
	assert_true(read("gitlab"));
	assert_int_equal(about.n_variables, 1);
	kh_preset_about_fini(&about);
	assert_true(read("bedrock"));
	bool id = false;
	for (size_t i = 0; i < about.n_variables; i++)
		id = id || strcmp(about.variables[i], "AWS_ACCESS_KEY_ID") == 0;
	assert_true(id);
	kh_preset_about_fini(&about);
}

static void test_each_preset_can_be_read_and_describes_itself(void **state)
{
	size_t n = 0;
	char **names = kh_preset_names("policies", &n);
	(void)state;
	assert_true(n > 20);
	for (size_t i = 0; i < n; i++) {
		assert_true(read(names[i]));
		assert_true(about.description[0] != '\0');
		kh_preset_about_fini(&about);
		free(names[i]);
	}
	free(names);
}

static void test_what_is_none_is_said_with_the_nearest(void **state)
{
	static const struct {
		const char *name, *says;
	} cases[] = {
		{ "nmp", "no preset is called \"nmp\" (did you mean \"npm\"?)" },
		{ "../policies/npm", "a name is small letters" },
		{ "", "a name is small letters" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_false(read(cases[i].name));
		assert_int_equal(diags.count, 1);
		assert_non_null(strstr(diags.list[0].text, cases[i].says));
		assert_null(about.name);
	}
	kh_diagnostics_fini(&diags);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_description_parameters_and_variables_are_those_of_the_file),
		cmocka_unit_test(
			test_lists_are_shown_as_a_use_says_them_and_what_must_be_set_has_no_default),
		cmocka_unit_test(
			test_a_variable_stands_there_once_and_a_secret_key_goes_with_its_id),
		cmocka_unit_test(test_each_preset_can_be_read_and_describes_itself),
		cmocka_unit_test(test_what_is_none_is_said_with_the_nearest),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
