/* test_git_config.c - git's configuration is read as git reads it, and judged by a list of what is
 * harmless */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sandbox/git_config.h"

static bool list(void *arg, const struct kh_git_config_entry *e)
{
	return kh_buf_printf(arg, "%s|%s|%s|%s\n", e->section, e->subsection ? e->subsection : "-",
			     e->name, e->value ? e->value : "-");
}

static void test_a_file_is_read_as_git_reads_it(void **state)
{
	(void)state;
	/* Each with what `git config --file F --list -z` of git 2.39 says. */
	static const struct {
		const char *file, *read;
	} cases[] = {
		{ "[core]\n\tbare = false\n", "core|-|bare|false\n" },
		{ "[CoRe]BARE=x", "core|-|bare|x\n" },
		{ "\xef\xbb\xbf[a]b=c\r\nd\r\n", "a|-|b|c\na|-|d|-\n" },
		{ "[a \"B\\\"c\\d\"] k = v ; comment\n", "a|B\"cd|k|v\n" },
		{ "[A.B] k = v\n", "a|b|k|v\n" },
		{ "[a] k = \"x ; y\" z # w\n", "a|-|k|x ; y z\n" },
		{ "[a] k = x \\\n y\n", "a|-|k|x  y\n" },
		{ "[a] k = \\\"q\\\" \\\\ \\t|\n", "a|-|k|\"q\" \\ \t|\n" },
		{ "[a] k =\n[b] k\n; [c] k\n", "a|-|k|\nb|-|k|-\n" },
		{ "# x\n[core] hooksPath = \".hooks\"# of ours\n", "core|-|hookspath|.hooks\n" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kh_buf out;
		kh_buf_init(&out, 4096);
		assert_true(kh_git_config_read(kh_slice_str(cases[i].file), list, &out));
		assert_string_equal(kh_buf_cstr(&out), cases[i].read);
		kh_buf_fini(&out);
	}
}

static void test_what_git_refuses_is_refused(void **state)
{
	(void)state;
	static const char *const files[] = {
		"[a\nb]k=v", "[a \"b\n\"]k=v", "[a b]k=v", "[a]k=\"v\n",   "[a]k=\\x",
		"[a]1=v",    "[a]k v=w",       "[a",	   "[a \"b\"x]k=v"
	};
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct kh_buf out;
		kh_buf_init(&out, 4096);
		assert_false(kh_git_config_read(kh_slice_str(files[i]), list, &out));
		kh_buf_fini(&out);
	}
	struct kh_buf out;
	kh_buf_init(&out, 4096);
	assert_false(kh_git_config_read(KH_SLICE("[a]k=v\0w\n"), list, &out));
	kh_buf_fini(&out);
}

static bool judge(void *arg, const struct kh_git_config_entry *e)
{
	*(bool *)arg = kh_git_config_is_harmless(e);
	return true;
}

static bool is_harmless(const char *file)
{
	bool harmless = false;
	assert_true(kh_git_config_read(kh_slice_str(file), judge, &harmless));
	return harmless;
}

static void test_the_list_is_one_of_what_is_harmless(void **state)
{
	(void)state;
	static const char *const good[] = {
		"[core]bare",
		"[core]filemode=true",
		"[core]repositoryformatversion=1",
		"[extensions]objectformat=sha256",
		"[extensions]refstorage=reftable",
		"[remote \"o\"]url=https://example.com/x",
		"[remote \"o\"]url=git@example.com:x/y.git",
		"[remote \"o\"]url=../x",
		"[remote \"o\"]fetch=+refs/heads/*:refs/remotes/o/*",
		"[remote \"o\"]fetch=refs/tags/*:refs/tags/*",
		"[remote \"o\"]fetch=main",
		"[branch \"m\"]remote=.",
		"[branch \"m\"]merge=refs/heads/m",
		"[user]name=Somebody; else",
		"[submodule \"s\"]url=https://example.com/s",
		"[submodule \"lib/s.x\"]url=https://example.com/s",
		"[branch \"fix/a..b\"]merge=refs/heads/m",
	};
	static const char *const bad[] = {
		"[core]fsmonitor=x",
		"[core]fsmonitor",
		"[core]hooksPath=/dev/null",
		"[core \"x\"]bare=true",
		"[core]bare=!x",
		"[core]repositoryformatversion=$(x)",
		"[core]repositoryformatversion=2",
		"[extensions]objectformat=bogus",
		"[extensions]refstorage=bogus",
		"[core]worktree=..",
		"[core]sshCommand=x",
		"[filter \"x\"]clean=cat",
		"[diff]external=x",
		"[include]path=x",
		"[includeIf \"onbranch:x\"]path=x",
		"[remote \"o\"]url=ext::sh -c x",
		"[remote \"o\"]url=-x",
		"[remote \"o\"]url=ssh://-oProxyCommand=x",
		"[remote \"o\"]url=zz://x",
		"[remote \"o\"]url",
		"[remote \"o\"]uploadpack=x",
		"[remote \"o\"]vcs=x",
		"[branch \"m\"]remote=ext::x",
		"[branch \"m\"]mergeoptions=--strategy=x",
		"[submodule \"s\"]update=!x",
		"[alias]x=!y",
		"[gpg]program=x",
		"[anything]else=1",
		"[remote \"o\"]mirror=true",
		"[remote \"o\"]url=file://x/home/a",
		"[remote \"o\"]url=file:///w/%2e%2e/a",
		"[remote \"o\"]pushurl=https://example.com/x",
		"[remote \"o\"]fetch=+refs/*:refs/*",
		"[remote \"o\"]fetch=+refs/heads/*:refs/heads/*",
		"[remote \"--upload-pack=x\"]url=.",
		"[remote \"ext::x\"]url=.",
		"[remote \"\"]url=.",
		"[remote \"a\tb\"]url=.",
		"[submodule \"../x\"]url=https://example.com/s",
		"[submodule \"a/..\"]url=https://example.com/s",
		"[branch \"-x\"]merge=refs/heads/m",
	};
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (!is_harmless(good[i]))
			fail_msg("%s is harmless", good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (is_harmless(bad[i]))
			fail_msg("%s is not harmless", bad[i]);
}

static bool count(void *arg, const struct kh_git_config_entry *e)
{
	(void)e;
	++*(size_t *)arg;
	return true;
}

static void test_more_variables_than_are_read_are_known_to_be_too_many(void **state)
{
	(void)state;
	static const char one[] = "[user]name=x\n";
	struct kh_buf file;
	size_t n = 0;
	kh_buf_init(&file, 1024 * 1024);
	for (size_t i = 0; i < 19999; i++)
		assert_true(kh_buf_append_str(&file, one));
	assert_false(kh_git_config_is_beyond(kh_buf_view(&file)));
	for (size_t i = 0; i < 2; i++)
		assert_true(kh_buf_append_str(&file, one));
	assert_true(kh_git_config_is_beyond(kh_buf_view(&file)));
	assert_false(kh_git_config_read(kh_buf_view(&file), count, &n));
	assert_int_equal(n, 20000);
	assert_true(kh_git_config_is_beyond(kh_slice_of("[a]\0", 4)));
	kh_buf_fini(&file);
}

static bool note_local(void *arg, const struct kh_git_config_entry *e)
{
	const char *path = kh_git_config_local(e);
	return kh_buf_append_str(arg, path ? path : "-");
}

static void test_a_repository_of_this_host_is_told_from_one_elsewhere(void **state)
{
	(void)state;
	static const struct {
		const char *file, *path;
	} cases[] = {
		{ "[remote \"o\"]url=https://example.com/x", "-" },
		{ "[remote \"o\"]url=git@example.com:x/y", "-" },
		{ "[remote \"o\"]url=/home/a/x", "/home/a/x" },
		{ "[remote \"o\"]url=../x", "../x" },
		{ "[remote \"o\"]url=x/a:b", "x/a:b" },
		{ "[remote \"o\"]url=x", "x" },
		{ "[remote \"o\"]url=file:///home/a", "/home/a" },
		{ "[submodule \"o\"]url=/home/a", "/home/a" },
		{ "[branch \"b\"]remote=origin", "origin" },
		{ "[branch \"b\"]remote=.", "." },
		{ "[branch \"b\"]remote=/home/a", "/home/a" },
		{ "[branch \"b\"]description=/home/a", "-" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kh_buf out;
		kh_buf_init(&out, 4096);
		assert_true(kh_git_config_read(kh_slice_str(cases[i].file), note_local, &out));
		assert_string_equal(kh_buf_cstr(&out), cases[i].path);
		kh_buf_fini(&out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_file_is_read_as_git_reads_it),
		cmocka_unit_test(test_what_git_refuses_is_refused),
		cmocka_unit_test(test_the_list_is_one_of_what_is_harmless),
		cmocka_unit_test(test_a_repository_of_this_host_is_told_from_one_elsewhere),
		cmocka_unit_test(test_more_variables_than_are_read_are_known_to_be_too_many),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
