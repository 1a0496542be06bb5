/* run_git.c - the name and address that commits made in the sandbox bear */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <keyhole/cleanup.h>
#include <keyhole/clock.h>
#include <keyhole/file.h>
#include <keyhole/slice.h>

#include "run_internal.h"

enum { PATIENCE_MS = 1000, ANSWER_BYTES = 4096 };

/* git reads its own settings with these and gets nothing else of ours, the keys least of all. */
static const char *const passed[] = { "HOME", "PATH", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL",
				      "GIT_CONFIG_SYSTEM" };
enum { N_PASSED = sizeof(passed) / sizeof(passed[0]) };

static _Noreturn void become_git(int out)
{
	static char word[][16] = { "git", "config", "-z", "--get-regexp" };
	static char pattern[] = "^user\\.(name|email)$";
	char *argv[] = { word[0], word[1], word[2], word[3], pattern, NULL };
	char *env[N_PASSED + 1] = { NULL };
	size_t n = 0;
	for (size_t i = 0; i < N_PASSED; i++) {
		const char *value = getenv(passed[i]);
		if (value && (env[n] = kh_strf("%s=%s", passed[i], value)))
			n++;
	}
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	/* Not in the caller's folder: the workspace's own settings are seen there anyway. */
	if (null >= 0 && chdir("/") == 0 && dup2(null, STDIN_FILENO) >= 0 &&
	    dup2(out, STDOUT_FILENO) >= 0 && dup2(null, STDERR_FILENO) >= 0)
		execvpe("git", argv, env);
	_exit(127);
}

void kh_run_git_ask(struct kh_run_git *git)
{
	*git = (struct kh_run_git){ .fd = -1, .pid = -1 };
	const char *name = getenv("GIT_AUTHOR_NAME"), *email = getenv("GIT_AUTHOR_EMAIL");
	git->name = name ? strdup(name) : NULL;
	git->email = email ? strdup(email) : NULL;
	int out[2];
	if ((git->name && git->email) || pipe2(out, O_CLOEXEC) != 0)
		return;
	git->pid = fork();
	if (git->pid == 0)
		become_git(out[1]);
	close(out[1]);
	git->fd = out[0];
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
	if (git->fd < 0)
		return;
	char answer[ANSWER_BYTES];
	size_t len = 0;
	uint64_t end = kh_clock_mono_ms() + PATIENCE_MS;
	bool whole = false;
	while (!whole && len < sizeof(answer)) {
		uint64_t now = kh_clock_mono_ms();
		struct pollfd p = { .fd = git->fd, .events = POLLIN };
		if (now >= end || (poll(&p, 1, (int)(end - now)) <= 0 && errno != EINTR))
			break;
		ssize_t n = read(git->fd, answer + len, sizeof(answer) - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		len += (size_t)n;
		whole = n == 0;
	}
	if (!whole)
		kill(git->pid, SIGKILL);
	while (waitpid(git->pid, NULL, 0) < 0 && errno == EINTR)
		;
	close(kh_steal_fd(&git->fd));
	if (whole)
		take(git, kh_slice_of(answer, len));
}

void kh_run_git_fini(struct kh_run_git *git)
{
	kh_run_git_answer(git);
	free(git->name);
	free(git->email);
	*git = (struct kh_run_git){ .fd = -1, .pid = -1 };
}
