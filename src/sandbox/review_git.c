/*
 * review_git.c - runs the host's git on a workspace's own repository, never on an agent's files
 *
 * git gets the path of the repository, so it does not search for one. It runs as the repository's
 * owner, reads only the repository's own configuration, starts no hook or other program, and never
 * prompts. What it reads may be an agent's objects, which are small on disk and as large in memory
 * as the agent likes. So it gets a bounded amount of memory and processor time.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/sandbox/child.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/program.h>

#include "engine.h"
#include "review_git.h"

static const char *const settings[] = {
	"-c", "core.hooksPath=/dev/null",
	"-c", "core.fsmonitor=false",
	"-c", "core.alternateRefsCommand=true",
	"-c", "gc.auto=0",
	"-c", "maintenance.auto=false",
	"-c", "core.pager=cat",
	"-c", "pack.threads=2",
	"-c", "core.bigFileThreshold=32m",
};
/* By the descriptor that is held: who may write to the folder above can't send git elsewhere, nor
 * have it run as somebody else. */
#define HELD 3
#define TEXT_OF(number) #number
#define DIR_BY(number) "/proc/self/fd/" TEXT_OF(number)

enum { N_SETTINGS = sizeof(settings) / sizeof(settings[0]), WORDS_MOST = 36 };

static bool become_owner(void *arg)
{
	const struct kh_host_git *git = arg;
	if (!kh_child_bound(KH_LIMIT_REVIEW_GIT_MEMORY_BYTES, KH_LIMIT_REVIEW_GIT_CPU_SECONDS) ||
	    dup2(git->held, HELD) < 0 || fcntl(HELD, F_SETFD, 0) != 0)
		return false;
	if (geteuid() != 0 || git->uid == 0)
		return true;
	return setgroups(0, NULL) == 0 && setresgid(git->gid, git->gid, git->gid) == 0 &&
	       setresuid(git->uid, git->uid, git->uid) == 0 && setuid(0) != 0;
}

const char *kh_host_git_said(struct kh_slice said)
{
	char line[KH_ESC_MAX_BYTES + 1]; /* one more than is shown, so that kh_esc marks the cut */
	size_t n = 0;
	bool ended = false;
	for (size_t i = 0; i < said.len && n < sizeof(line); i++) {
		bool blank = said.ptr[i] == '\n' || said.ptr[i] == '\r';
		if (!blank && ended && n > 0 && n + 2 < sizeof(line)) {
			line[n++] = ';';
			line[n++] = ' ';
		}
		ended = blank;
		if (!blank)
			line[n++] = said.ptr[i];
	}
	return kh_esc(kh_slice_of(line, n));
}

static bool is_want_of_memory(struct kh_slice said)
{
	static const char *const words[] = { "ut of memory", "annot allocate memory" };
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (said.len && memmem(said.ptr, said.len, words[i], strlen(words[i])))
			return true;
	return false;
}

static bool explain(const char *word, const struct kh_child_result *result, struct kh_slice said,
		    struct kh_err *err)
{
	if (result->end == KH_CHILD_LATE)
		return kh_err_set(err, KH_ERR_SYSTEM, "git %s: took too long and was ended", word);
	if (result->status < 0)
		return kh_err_set(err, KH_ERR_SYSTEM,
				  "git %s was ended by a signal: it gets %d seconds of processor "
				  "time for what an agent made (look at the commits in a sandbox; "
				  "--no-commits leaves them out)",
				  word, KH_LIMIT_REVIEW_GIT_CPU_SECONDS);
	if (is_want_of_memory(said))
		return kh_err_set(err, KH_ERR_SYSTEM,
				  "git %s needs more than %d MiB of memory, which is all that it "
				  "gets for what an agent made (look at the commits in a sandbox; "
				  "--no-commits leaves them out)",
				  word, KH_LIMIT_REVIEW_GIT_MEMORY_BYTES >> 20);
	return kh_err_set(err, KH_ERR_SYSTEM, "git %s: %s", word, kh_host_git_said(said));
}

bool kh_host_git(const struct kh_host_git *git, const char *const *args, int in,
		 struct kh_buf *said, struct kh_err *err)
{
	char *words[WORDS_MOST] = { (char *)(uintptr_t) "git" };
	size_t n = 1;
	for (size_t i = 0; i < N_SETTINGS; i++)
		words[n++] = (char *)(uintptr_t)settings[i];
	for (; *args && n + 1 < WORDS_MOST; args++)
		words[n++] = (char *)(uintptr_t)*args;
	kh_auto_free char *dir = kh_strf("GIT_DIR=%s", git->dir);
	const struct kh_review_objects *objects = git->objects;
	char *const environment[] = {
		dir,
		(char *)(uintptr_t) "PATH=/usr/local/bin:/usr/bin:/bin",
		(char *)(uintptr_t) "HOME=/nonexistent",
		(char *)(uintptr_t) "GIT_CONFIG_NOSYSTEM=1",
		(char *)(uintptr_t) "GIT_CONFIG_GLOBAL=/dev/null",
		(char *)(uintptr_t) "GIT_ATTR_NOSYSTEM=1",
		(char *)(uintptr_t) "GIT_NO_LAZY_FETCH=1",
		(char *)(uintptr_t) "GIT_NO_REPLACE_OBJECTS=1",
		(char *)(uintptr_t) "GIT_OPTIONAL_LOCKS=0",
		(char *)(uintptr_t) "GIT_TERMINAL_PROMPT=0",
		(char *)(uintptr_t) "LC_ALL=C",
		objects ? objects->own : NULL,
		objects ? objects->known : NULL,
		objects ? objects->quarantine : NULL,
		NULL,
	};
	const struct kh_child_spec spec = {
		.program = git->program,
		.argv = words,
		.environment = environment,
		.folder = "/",
		.input = in,
		.complaints = KH_CHILD_TOGETHER,
		.prepare = become_owner,
		.arg = (void *)(uintptr_t)git,
		.most_ms = KH_LIMIT_REVIEW_BUNDLE_MS,
	};
	struct kh_child_result result;
	if (!dir)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "git: no memory");
	(void)kh_child_run(&spec, said, NULL, &result);
	if (result.end == KH_CHILD_NOT_STARTED)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "git: a process");
	if (result.cut)
		return kh_err_set(err, KH_ERR_SYSTEM, "git %s says more than is read of it",
				  words[1 + N_SETTINGS]);
	return result.status == 0 ||
	       explain(words[1 + N_SETTINGS], &result, kh_buf_view(said), err);
}

/* git writes there, through links that the repository may hold (its logs): only as its owner, and
 * as root where nobody else could have put it there. */
static bool may_run(int folder, const struct stat *repository, struct kh_err *err)
{
	struct stat above;
	uid_t uid = repository->st_uid;
	if (fstat(folder, &above) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "the workspace");
	if (geteuid() == 0 ? uid != 0 || above.st_uid == 0 : uid == geteuid())
		return true;
	return kh_err_set(err, KH_ERR_SYSTEM,
			  "git is not run: the repository belongs to uid %u and its folder to uid "
			  "%u (apply as their owner; --no-commits does without)",
			  (unsigned)uid, (unsigned)above.st_uid);
}

bool kh_host_git_open(struct kh_host_git *git, int folder, struct kh_err *err)
{
	struct stat st;
	*git = (struct kh_host_git){ .held = -1 };
	kh_auto_close int held =
		kh_review_beneath_open(folder, ".git", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (held < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EXDEV))
		return true;
	if (held < 0 || fstat(held, &st) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, ".git");
	if (!may_run(folder, &st, err))
		return false;
	git->uid = st.st_uid;
	git->gid = st.st_gid;
	git->program = kh_program_find("git");
	git->dir = DIR_BY(HELD);
	git->held = kh_steal_fd(&held);
	return git->program || kh_err_set(err, KH_ERR_SYSTEM,
					  "git is not on the PATH, which takes commits over "
					  "(`apt install git`; --no-commits does without)");
}

void kh_host_git_fini(struct kh_host_git *git)
{
	free(git->program);
	if (git->dir && git->held >= 0)
		(void)close(git->held);
	*git = (struct kh_host_git){ .held = -1 };
}
