/* test_git_words.c - the paths that a value of git's configuration may name, however it is spelt */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <keyhole/base/buf.h>

#include "sandbox/git_words.h"

static void list(void *arg, const char *word, unsigned how)
{
	assert_true(kh_buf_printf(arg, "%s%s\n", word, how & KH_GIT_WORD_PART ? "/" : ""));
}

/* Is `word` one of the readings? */
static bool names(const char *value, const char *word, bool *is_unknown)
{
	struct kh_buf out;
	struct kh_git_words words = { .home = "/home/u", .each = list, .arg = &out };
	kh_buf_init(&out, 64 * 1024);
	assert_true(kh_buf_append_str(&out, "\n"));
	kh_git_words_each(&words, value);
	assert_false(words.failed);
	*is_unknown = words.is_unknown;
	char line[256];
	(void)snprintf(line, sizeof(line), "\n%s\n", word);
	bool found = strstr(kh_buf_cstr(&out), line) != NULL;
	kh_buf_fini(&out);
	return found;
}

static void test_each_plausible_reading_of_a_command_is_given(void **state)
{
	(void)state;
	static const struct {
		const char *value, *word;
		bool is_unknown;
	} cases[] = {
		{ "a/b", "a/b", false },
		{ "!a/b", "a/b", false },
		{ "'a b/c' d", "a b/c", false },
		{ "a\\ b/c", "a b/c", false },
		{ "x \"a/b c\"", "a/b c", false },
		{ "\"$PWD\"/a", "./a", false },
		{ "${PWD}/a", "./a", false },
		{ "$PWDX/a", "a", true },
		{ "$(pwd)/a", "./a", false },
		{ "`pwd`/a", "./a", false },
		{ "$HOME/a", "/home/u/a", false },
		{ "x ~/a", "/home/u/a", false },
		{ "x --file=~/a", "/home/u/a", false },
		{ "x ~root/a", "/root/a", false },
		{ "$(git rev-parse --show-toplevel)/a", "./a", false },
		{ "$(git -C . rev-parse --show-toplevel)/a/b", "a/b", true },
		{ "$(git rev-parse --git-dir)/a", ".git/a", false },
		{ "sh -c 'cd x && \"./a b\" y'", "./a b", false },
		{ "sh -c \"sh -c 'sh \\\"a b\\\"'\"", "a b", false },
		{ "perl -Ia/b -Mx", "a/b", false },
		{ "X=a:b/c y", "b/c", false },
		{ "x @a/b", "a/b", false },
		{ "x a/*.sh", "a/", true },
		{ "x a/$B/c", "a/", true },
		{ "x a/{b,c}", "a/", true },
		{ "x 'a/*'", "a/*", false },
		{ "a/b|c/d", "c/d", false },
		{ "x \"$LOCAL\" \"${REMOTE}\" $1 $@", "x", false },
		{ "$(a/b c/d) e", "c/d", true },
		{ "x `a/b`", "a/b", true },
		{ "unended 'a b", "a b", false },
		{ "unended $(a/b", "a/b", true },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool is_unknown = false;
		if (!names(cases[i].value, cases[i].word, &is_unknown))
			fail_msg("%s: no %s", cases[i].value, cases[i].word);
		if (is_unknown != cases[i].is_unknown)
			fail_msg("%s: unknown: %d", cases[i].value, is_unknown);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_plausible_reading_of_a_command_is_given),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
