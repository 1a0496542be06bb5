/* test_git_state.c - the state of an operation in progress is harmless in git's own form only */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sandbox/git_state.h"

struct one {
	const char *folder, *name, *text; /* folder NULL: the git folder itself */
};

static bool is_harmless(const struct one *c)
{
	struct kh_slice text = kh_slice_str(c->text);
	return c->folder ? kh_git_state_is_harmless(c->folder, c->name, text)
			 : kh_git_state_is_harmless_at_top(c->name, text);
}

static void what_git_writes_itself_is_harmless(void **state)
{
	(void)state;
	static const struct one cases[] = {
		{ "rebase-merge", "msgnum", "2\n" },
		{ "rebase-merge", "end", "12" },
		{ "rebase-merge", "interactive", "" },
		{ "rebase-merge", "head-name", "refs/heads/fix(it)/a\n" },
		{ "rebase-merge", "head-name", "detached HEAD\n" },
		{ "rebase-merge", "onto", "0123456789abcdef0123456789abcdef01234567\n" },
		{ "rebase-merge", "author-script",
		  "GIT_AUTHOR_NAME='O'\\''Neill'\nGIT_AUTHOR_EMAIL='a@b'\n"
		  "GIT_AUTHOR_DATE='@1 +0000'\n" },
		{ "rebase-merge", "message", "$(anything)\n" },
		{ "rebase-merge", "git-rebase-todo",
		  "# Rebase\n\npick 12 x\n  fixup -C 13 exec\nupdate-ref refs/heads/x\nmerge -C a "
		  "b\n" },
		{ "rebase-merge", "strategy", "ort\n" },
		{ "rebase-merge", "strategy_opts", " '--ours'" },
		{ "rebase-merge", "gpg_sign_opt", "-SA Name <a@b.test>\n" },
		{ "rebase-merge", "allow_rerere_autoupdate", "--rerere-autoupdate\n" },
		{ "rebase-apply", "next", "1\n" },
		{ "rebase-apply", "last", "2\n" },
		{ "rebase-apply", "0001", "From: $(anything)\n" },
		{ "rebase-apply", "apply-opt", "\n" },
		{ "rebase-apply", "keep", "t\n" },
		{ "sequencer", "todo", "pick 12 x\nrevert 13 y\n" },
		{ "sequencer", "opts", "[options]\n\tedit = true\n\tstrategy = ort\n" },
		{ NULL, "BISECT_START", "main\n" },
		{ NULL, "BISECT_TERMS", "bad\ngood\n" },
		{ NULL, "MERGE_MODE", "no-ff" },
		{ NULL, "MERGE_MSG", "$(anything)" },
		{ NULL, "HEAD", "ref: refs/heads/main\n" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!is_harmless(&cases[i]))
			fail_msg("%s %s", cases[i].name, cases[i].text);
}

static void what_git_or_a_prompt_would_act_on_is_harmful(void **state)
{
	(void)state;
	static const struct one cases[] = {
		{ "rebase-merge", "msgnum", "$(id)" },
		{ "rebase-merge", "end", "1\n`id`" },
		{ "rebase-merge", "end", "1 \n" },
		{ "rebase-merge", "end", "" },
		{ "rebase-apply", "next", "1$(id)\n" },
		{ "rebase-apply", "last", "-1\n" },
		{ "rebase-merge", "head-name", "refs/heads/$(id)\n" },
		{ "rebase-merge", "head-name", "--exec=id\n" },
		{ "rebase-merge", "refs-to-delete", "refs/heads/a\n-x\n" },
		{ "rebase-merge", "onto", "--exec=id\n" },
		{ "rebase-merge", "interactive", "x" },
		{ "rebase-merge", "git-rebase-todo", "pick 12 x\nexec id\n" },
		{ "rebase-merge", "git-rebase-todo", "pick 12 x\n \tx id\n" },
		{ "rebase-merge", "git-rebase-todo", "something id\n" },
		{ "rebase-merge", "git-rebase-todo.backup", "x id" },
		{ "rebase-merge", "git-rebase-todo.other", "pick 12 x\n" },
		{ "rebase-merge", "author-script",
		  "GIT_AUTHOR_NAME='a';id\nGIT_AUTHOR_EMAIL='a'\nGIT_AUTHOR_DATE='a'\n" },
		{ "rebase-merge", "author-script",
		  "GIT_AUTHOR_NAME=$(id)\nGIT_AUTHOR_EMAIL='a'\nGIT_AUTHOR_DATE='a'\n" },
		{ "rebase-merge", "author-script",
		  "GIT_AUTHOR_NAME='a'\nGIT_AUTHOR_EMAIL='a'\nGIT_AUTHOR_DATE='a'\nid\n" },
		{ "rebase-merge", "strategy", "x/../evil.sh" },
		{ "rebase-merge", "strategy", "" },
		{ "rebase-merge", "strategy_opts", "'--ours' $(id)" },
		{ "rebase-merge", "what-git-may-know-one-day", "" },
		{ "rebase-apply", "apply-opt", " '--build-fake-ancestor=/home/a/.profile'\n" },
		{ "rebase-apply", "apply-opt", "--unsafe-paths" },
		{ "rebase-apply", "012", "" },
		{ "sequencer", "opts", "[options]\n\tprogram = evil\n" },
		{ "sequencer", "todo", "pick 12 x\nx id\n" },
		{ NULL, "BISECT_START", "--orphan=x\n" },
		{ NULL, "bisect_terms", "$(id)" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (is_harmless(&cases[i]))
			fail_msg("%s %s", cases[i].name, cases[i].text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_git_writes_itself_is_harmless),
		cmocka_unit_test(what_git_or_a_prompt_would_act_on_is_harmful),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
