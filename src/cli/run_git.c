/* run_git.c - the name and e-mail address for commits made in the sandbox */
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/program.h>
#include <keyhole/base/slice.h>

#include "run_internal.h"

enum { PATIENCE_MS = 1000, ANSWER_BYTES = 4096 };

/* git reads its own settings with these and gets nothing else of ours, the keys least of all. */
static const char *const passed[] = { "HOME", "PATH", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL",
				      "GIT_CONFIG_SYSTEM" };
enum { N_PASSED = sizeof(passed) / sizeof(passed[0]) };

void kh_run_git_ask(struct kh_run_git *git)
{
	static char word[][16] = { "git", "config", "-z", "--get-regexp" };
	static char pattern[] = "^user\\.(name|email)$";
	char *argv[] = { word[0], word[1], word[2], word[3], pattern, NULL };
	char *environment[N_PASSED + 1] = { NULL };
	size_t n = 0;
	*git = (struct kh_run_git){ .name = NULL };
	const char *name = getenv("GIT_AUTHOR_NAME"), *email = getenv("GIT_AUTHOR_EMAIL");
	git->name = name ? strdup(name) : NULL;
	git->email = email ? strdup(email) : NULL;
	if (git->name && git->email)
		return;
	kh_auto_free char *program = kh_program_find("git");
	for (size_t i = 0; i < N_PASSED; i++) {
		const char *value = getenv(passed[i]);
		if (value && (environment[n] = kh_strf("%s=%s", passed[i], value)))
			n++;
	}
	const struct kh_child_spec spec = {
		.program = program,
		.argv = argv,
		.environment = environment,
		/* Not the caller's: the workspace's own settings are seen there anyway. */
		.folder = "/",
		.input = -1,
		.most_ms = PATIENCE_MS,
		.end_when_full = true,
	};
	git->asked = program && kh_child_start(&git->child, &spec);
	while (n > 0)
		free(environment[--n]);
}

/* "user.name\nvalue\0user.email\nvalue\0"; the last one of a name counts. */
static void take(struct kh_run_git *git, struct kh_slice answer)
{
	for (size_t at = 0; at < answer.len;) {
		size_t end = kh_slice_find(answer, '\0', at);
		struct kh_slice entry = kh_slice_sub(answer, at, end);
		size_t line = kh_slice_find(entry, '\n', 0);
		struct kh_slice key = kh_slice_sub(entry, 0, line);
		struct kh_slice value = kh_slice_sub(entry, line + 1, entry.len);
		char **slot = kh_slice_eq(key, KH_SLICE("user.name"))	 ? &git->name
			      : kh_slice_eq(key, KH_SLICE("user.email")) ? &git->email
									 : NULL;
		const char *given =
			slot == &git->name ? getenv("GIT_AUTHOR_NAME") : getenv("GIT_AUTHOR_EMAIL");
		if (slot && !given && value.len > 0) {
			free(*slot);
			*slot = kh_slice_dup(value);
		}
		at = end + 1;
	}
}

void kh_run_git_answer(struct kh_run_git *git)
{
	struct kh_buf answer kh_cleanup(kh_buf_fini);
	struct kh_child_result result;
	kh_buf_init(&answer, ANSWER_BYTES);
	if (!git->asked)
		return;
	git->asked = false;
	(void)kh_child_finish(&git->child, &answer, NULL, &result);
	if (result.end == KH_CHILD_ENDED && !result.cut)
		take(git, kh_buf_view(&answer));
}

void kh_run_git_fini(struct kh_run_git *git)
{
	kh_run_git_answer(git);
	free(git->name);
	free(git->email);
	*git = (struct kh_run_git){ .name = NULL };
}
