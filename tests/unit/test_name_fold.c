/* test_name_fold.c - a name that a file system may take for a protected one is one */
#include "unit.h"

#include <stdio.h>

#include "sandbox/concern.h"
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

/* Whatever VFAT, exFAT, NTFS or a share of Windows ignores at the end of a name. */
static void a_name_with_an_end_that_does_not_count_is_the_same(void **state)
{
	static const char *const ends[] = { ".",  " ",	 "..",	    " . .",   "::$INDEX_ALLOCATION",
					    ":x", ". :", " ..:a.b", ":.git:x" };
	static const char *const names[] = { ".git",	 "hooks",     "config",	 "HEAD",
					     ".envrc",	 ".mcp.json", ".VSCODE", ".g\xe2\x80\x8cit",
					     "commondir" };
	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		for (size_t k = 0; k < sizeof(ends) / sizeof(ends[0]); k++) {
			char whole[64], room[KH_NAME_FOLD_ROOM], plain[KH_NAME_FOLD_ROOM];
			(void)snprintf(whole, sizeof(whole), "%s%s", names[i], ends[k]);
			assert_string_equal(kh_name_fold(whole, room),
					    kh_name_fold(names[i], plain));
			assert_int_equal(kh_protected_is_name(whole),
					 kh_protected_is_name(names[i]));
			assert_int_equal(kh_concern_is_dot_git(whole),
					 kh_concern_is_dot_git(names[i]));
			enum kh_change_bar bar, wanted;
			(void)kh_review_bar_group(whole, &bar);
			(void)kh_review_bar_group(names[i], &wanted);
			assert_int_equal(bar, wanted);
			assert_int_equal(kh_review_bar_link_stays("a", whole),
					 kh_review_bar_link_stays("a", names[i]));
			assert_int_equal(kh_git_is_part(whole), kh_git_is_part(names[i]));
		}
}

static void the_short_name_of_a_git_folder_is_its_name(void **state)
{
	static const char *const names[] = { "git~1", "GIT~1", "Git~1.", "git~1:x",
					     "G\xe2\x80\x8cIT~1 " };
	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		enum kh_change_bar bar;
		assert_true(kh_concern_is_dot_git(names[i]));
		assert_int_equal(kh_review_bar_group(names[i], &bar), strlen(names[i]));
		assert_int_equal(bar, KH_BAR_GIT);
		assert_false(kh_review_bar_link_stays("a", names[i]));
	}
	assert_false(kh_concern_is_dot_git("git~2"));
	assert_false(kh_concern_is_dot_git("git"));
}

static void what_only_windows_can_tell_is_taken_over_only_where_it_is_named(void **state)
{
	static const struct {
		const char *name;
		enum kh_change_bar bar;
	} rows[] = {
		{ "VSCODE~1", KH_BAR_PROTECTED },   { "MCP~1.JSO", KH_BAR_PROTECTED },
		{ "a/ENVRC~12", KH_BAR_PROTECTED }, { "x~1 ", KH_BAR_PROTECTED },
		{ "a\\.vscode", KH_BAR_PROTECTED }, { "x~", KH_BAR_NONE },
		{ "a.~1~", KH_BAR_NONE },	    { "longname~1", KH_BAR_NONE },
		{ "a~1.json", KH_BAR_NONE },	    { "x~1y", KH_BAR_NONE },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(kh_review_bar_of(-1, rows[i].name, S_IFREG, NULL), rows[i].bar);
	assert_false(kh_review_bar_link_stays("a/b", ".. /x"));
	assert_false(kh_review_bar_link_stays("a/b", "c/... /x"));
	assert_true(kh_review_bar_link_stays("a/b", "../x"));
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
		cmocka_unit_test(a_name_with_an_end_that_does_not_count_is_the_same),
		cmocka_unit_test(the_short_name_of_a_git_folder_is_its_name),
		cmocka_unit_test(what_only_windows_can_tell_is_taken_over_only_where_it_is_named),
		cmocka_unit_test(the_longest_name_has_room),
		cmocka_unit_test(a_part_of_a_git_folder_that_is_too_long_to_be_looked_at_is_one),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
