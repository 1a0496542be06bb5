/* test_name_fold.c - a name that a file system may take for a protected one is one */
#include "unit.h"

#include "sandbox/name_fold.h"
#include "sandbox/protected.h"
#include "sandbox/review_internal.h"

static void letters_that_fold_to_ascii_are_ascii(void **state)
{
	(void)state;
	char room[KH_NAME_FOLD_ROOM];
	assert_string_equal(kh_name_fold("HOOK\xc5\xbf", room), "hooks");
	assert_string_equal(kh_name_fold("con\xef\xac\x81g", room), "config");
	assert_string_equal(kh_name_fold("\xe2\x84\xaa\xc3\x9f\xef\xac\x84", room), "kssffl");
	assert_string_equal(kh_name_fold("caf\xc3\xa9", room), "caf\xc3\xa9");
	assert_string_equal(kh_name_fold("\xff\xfe", room), "\xff\xfe");
	assert_string_equal(kh_name_fold("", room), "");
}

static void what_shows_nothing_is_left_out(void **state)
{
	(void)state;
	assert_true(kh_name_fold_is(".g\xe2\x80\x8cit", ".git"));
	assert_true(kh_name_fold_is("\xef\xbb\xbfHEAD\xc2\xad", "head"));
	assert_false(kh_name_fold_is("\xc3\xa9.git", ".git"));
	/* A control in ASCII is a character of its own. */
	assert_false(kh_name_fold_is("\x01.git", ".git"));
}

static void a_name_that_may_be_taken_for_a_protected_one_is_protected(void **state)
{
	(void)state;
	assert_true(kh_protected_is_name(".v\xc5\xbf"
					 "code"));
	assert_true(kh_protected_is_name(".VSCODE"));
	assert_true(kh_protected_is_name("x.code-work\xc5\xbfpace"));
	assert_false(kh_protected_is_name(".v\xc3\xa9scode"));
}

static void the_longest_name_has_room(void **state)
{
	(void)state;
	char name[300], room[KH_NAME_FOLD_ROOM];
	memset(name, 'a', sizeof(name));
	name[255] = '\0';
	assert_string_equal(kh_name_fold(name, room), name);
	name[255] = 'a';
	name[299] = '\0';
	assert_true(strlen(kh_name_fold(name, room)) < KH_NAME_FOLD_ROOM);
}

/* 100 invisible characters of three bytes each: a folder of NTFS may have such a name. */
static void a_part_of_a_git_folder_that_is_too_long_to_be_looked_at_is_one(void **state)
{
	(void)state;
	char name[4 + 100 * 3 + 8] = "";
	for (int i = 0; i < 100; i++)
		memcpy(name + (size_t)i * 3, "\xe2\x80\x8c", 3);
	memcpy(name + 300, "HEAD/x", 7);
	assert_true(kh_git_is_part(name));
	assert_true(kh_git_is_part("HEAD"));
	assert_true(kh_git_is_part("hooks/x"));
	assert_false(kh_git_is_part("src/hooks"));
	memset(name, 'x', 255);
	name[255] = '\0';
	assert_false(kh_git_is_part(name));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(letters_that_fold_to_ascii_are_ascii),
		cmocka_unit_test(what_shows_nothing_is_left_out),
		cmocka_unit_test(a_name_that_may_be_taken_for_a_protected_one_is_protected),
		cmocka_unit_test(the_longest_name_has_room),
		cmocka_unit_test(a_part_of_a_git_folder_that_is_too_long_to_be_looked_at_is_one),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
