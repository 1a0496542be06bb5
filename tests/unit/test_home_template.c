/* test_home_template.c - how the places of files for the home are filled */
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include <keyhole/config/home_template.h>

static const char *placeholder(const char *variable, void *arg)
{
	return strcmp(variable, "A_KEY") == 0 ? arg : NULL;
}

static void filled(const char *content, const char *expected)
{
	char value[] = "sk-\"123456";
	char *text = kh_home_template_fill(content, "/w \"x\"", placeholder, value);
	if (expected)
		assert_string_equal(text, expected);
	else
		assert_null(text);
	free(text);
}

static void places_are_filled_as_the_inside_of_a_json_string(void **state)
{
	(void)state;
	filled("no place", "no place");
	filled("{ \"${workspace}\": 1 }", "{ \"/w \\\"x\\\"\": 1 }");
	filled("<${A_KEY}>", "<sk-\\\"123456>");
	filled("<${A_KEY:-4}>", "<3456>");
	filled("<${A_KEY:-400}>", "<sk-\\\"123456>");
	filled("<${NO_KEY}${A_KEY:4}>", "<>");
	filled("$${A_KEY} $ {", "${A_KEY} $ {");
	filled("${A_KEY", NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(places_are_filled_as_the_inside_of_a_json_string),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
