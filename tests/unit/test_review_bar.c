/* test_review_bar.c - what is never applied from a review, whatever it is called */
#include "unit.h"

#include <keyhole/base/limits.h>

#include "sandbox/review_internal.h"

static char workspace[] = "/home/work";
static const struct kh_review review = { .workspace = workspace };

/* A path of so many names. */
static const char *path(int names)
{
	static char text[2 * 512];

	for (int i = 0; i < names; i++)
		memcpy(text + 2 * i, "d/", 2);
	text[2 * names - 1] = '\0';
	return text;
}

static void no_folder_is_applied_that_a_survey_can_not_look_into(void **state)
{
	(void)state;
	assert_false(kh_review_bar_is_too_deep(&review, "d", true));
	assert_false(kh_review_bar_is_too_deep(&review, path(KH_LIMIT_SURVEY_DEPTH - 1), true));
	assert_true(kh_review_bar_is_too_deep(&review, path(KH_LIMIT_SURVEY_DEPTH), true));
	assert_true(kh_review_bar_is_too_deep(&review, path(300), true));
}

static void a_file_is_as_deep_as_its_folder(void **state)
{
	(void)state;
	assert_false(kh_review_bar_is_too_deep(&review, "f", false));
	assert_false(kh_review_bar_is_too_deep(&review, path(KH_LIMIT_SURVEY_DEPTH), false));
	assert_true(kh_review_bar_is_too_deep(&review, path(KH_LIMIT_SURVEY_DEPTH + 1), false));
}

static void no_folder_is_applied_with_a_path_that_a_survey_does_not_note(void **state)
{
	static char text[KH_LIMIT_SURVEY_PATH_BYTES + 1];
	size_t most = KH_LIMIT_SURVEY_PATH_BYTES - strlen(workspace) - 2;

	(void)state;
	memset(text, 'x', most);
	assert_false(kh_review_bar_is_too_deep(&review, text, true));
	text[most] = 'x';
	assert_true(kh_review_bar_is_too_deep(&review, text, true));
	assert_false(kh_review_bar_is_too_deep(&review, text, false));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_folder_is_applied_that_a_survey_can_not_look_into),
		cmocka_unit_test(a_file_is_as_deep_as_its_folder),
		cmocka_unit_test(no_folder_is_applied_with_a_path_that_a_survey_does_not_note),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
