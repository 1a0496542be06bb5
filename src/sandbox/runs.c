/* runs.c - which runs are in which workspace, kept outside of them */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/lock_file.h>
#include <keyhole/base/log.h>
#include <keyhole/sandbox/workspace.h>

#include "runs.h"
#include "sandbox_internal.h"

enum { STUBS_BYTES = 1024 * 1024, BEFORE_BYTES = 256 * 1024 * 1024 };

char *kh_workspace_state(void)
{
	if (geteuid() == 0) {
		const char *given = getenv("STATE_DIRECTORY");
		return strdup(given && given[0] == '/' ? given : "/var/lib/keyhole");
	}
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	if (state && state[0] == '/')
		return kh_strf("%s/keyhole", state);
	return home && home[0] == '/' ? kh_strf("%s/.local/state/keyhole", home) : NULL;
}

void kh_run_record_init(struct kh_run_record *record)
{
	*record = (struct kh_run_record){ .alive = -1, .lock = -1, .stubs = -1 };
	kh_buf_init(&record->others, STUBS_BYTES);
}

static void record_fini(struct kh_run_record *record)
{
	const int fds[] = { record->alive, record->lock, record->stubs };
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	free(record->state);
	free(record->id);
	free(record->path);
	free(record->workspace);
	kh_buf_fini(&record->others);
	kh_run_record_init(record);
}

/* ---- the lock ---- */

static int take_lock(const char *state, uint64_t wait_ms, struct kh_err *err)
{
	kh_auto_free char *path = kh_strf("%s/workspaces/lock", state);
	kh_auto_close int fd = path ? kh_lock_file_open(path, err) : -1;
	if (!path)
		kh_err_set(err, KH_ERR_NO_MEMORY, "a run's record: no memory");
	if (fd < 0)
		return -1;
	uint64_t end = kh_clock_mono_ms() + wait_ms;
	while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
		struct timespec pause = { .tv_nsec = 5 * 1000 * 1000 };
		if ((errno != EWOULDBLOCK && errno != EINTR) || kh_clock_mono_ms() >= end) {
			kh_err_sys(err, KH_ERR_SYSTEM, errno,
				   "%s (does another keyhole survey a large workspace?)", path);
			return -1;
		}
		(void)nanosleep(&pause, NULL);
	}
	return kh_steal_fd(&fd);
}

/* ---- other runs ---- */

struct other {
	char *path, *id, *workspace;
	bool live;
};

struct others {
	struct other *list;
	size_t n;
};

static void kh_other_runs_fini(struct others *others)
{
	for (size_t i = 0; i < others->n; i++) {
		free(others->list[i].path);
		free(others->list[i].id);
		free(others->list[i].workspace);
	}
	free(others->list);
}

static bool read_small(const char *folder, const char *name, size_t most, struct kh_buf *out)
{
	kh_auto_free char *path = kh_strf("%s/%s", folder, name);
	kh_buf_init(out, most);
	return path && kh_file_read_private(path, out, NULL);
}

static unsigned long long start_of(pid_t pid)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, 4096);
	const char *all = kh_file_read(path, &text, NULL) ? kh_buf_cstr(&text) : NULL;
	const char *end = all ? strrchr(all, ')') : NULL;
	unsigned long long start = 0;
	char state = 'Z';
	if (!end ||
	    sscanf(end,
		   ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d "
		   "%llu",
		   &state, &start) != 2 ||
	    state == 'Z' || state == 'X')
		return 0;
	return start;
}

static bool init_lives(const char *folder)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	int pid = 0;
	unsigned long long start = 0;
	if (!read_small(folder, "init", 256, &text) ||
	    sscanf(kh_buf_cstr(&text), "%d %llu", &pid, &start) != 2)
		return false;
	return start != 0 && start_of(pid) == start;
}

static bool is_live(const char *folder)
{
	kh_auto_free char *path = kh_strf("%s/alive", folder);
	kh_auto_close int fd = path ? open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0)
		return true;
	return init_lives(folder);
}

static bool add_other(struct others *others, const char *folder, const char *id)
{
	struct other *list = reallocarray(others->list, others->n + 1, sizeof(*list));
	if (!list)
		return false;
	others->list = list;
	struct kh_buf text kh_cleanup(kh_buf_fini);
	bool known = read_small(folder, "workspace", KH_LIMIT_SURVEY_PATH_BYTES + 256, &text);
	struct other one = { strdup(folder), strdup(id),
			     strdup(known && kh_buf_cstr(&text) ? kh_buf_cstr(&text) : ""),
			     is_live(folder) };
	list[others->n++] = one;
	return one.path && one.id && one.workspace;
}

/* All runs but this one. */
static bool kh_other_runs_find(const char *state, const char *but, struct others *others,
			       struct kh_err *err)
{
	kh_auto_free char *all = kh_strf("%s/workspaces", state);
	DIR *dir = all ? opendir(all) : NULL;
	if (!dir)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", all ? all : state);
	bool ok = true;
	const struct dirent *entry;
	while (ok && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || strcmp(entry->d_name, "lock") == 0 ||
		    (but && strcmp(entry->d_name, but) == 0))
			continue;
		kh_auto_free char *folder = kh_strf("%s/%s", all, entry->d_name);
		ok = folder && add_other(others, folder, entry->d_name);
	}
	closedir(dir);
	return ok || kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
}

static bool is_in(const char *path, const char *folder)
{
	size_t len = strlen(folder);
	return len > 0 && strncmp(path, folder, len) == 0 && (path[len] == '/' || !path[len]);
}

static bool overlap(const char *a, const char *b)
{
	return is_in(a, b) || is_in(b, a);
}

static bool is_shared(const struct others *others, const char *workspace)
{
	for (size_t i = 0; i < others->n; i++)
		if (others->list[i].live && overlap(others->list[i].workspace, workspace))
			return true;
	return false;
}

/* ---- the end of a run ---- */

static void remove_stubs(const char *folder)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	if (!read_small(folder, "stubs", STUBS_BYTES, &text))
		return;
	struct kh_slice paths = kh_buf_view(&text);
	/* The inner ones were made after the outer ones. */
	for (size_t end = paths.len; end > 0;) {
		size_t start = end - 1;
		while (start > 0 && paths.ptr[start - 1] != '\0')
			start--;
		if (paths.ptr[end - 1] == '\0' && paths.ptr[start] == '/')
			kh_mountpoint_remove(paths.ptr + start);
		end = start;
	}
}

static void remove_record(const char *folder)
{
	static const char *const names[] = { "stubs", "before",	   "reads", "init",
					     "place", "workspace", "alive" };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		kh_auto_free char *path = kh_strf("%s/%s", folder, names[i]);
		if (path)
			(void)unlink(path);
	}
	(void)rmdir(folder);
}

/*
 * Is it still the folder in which that run was, with no link on the way? The agent of a run in a
 * folder above can put another one in its place, and what we do there we do as the host.
 */
static bool is_in_place(const struct other *run)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	unsigned long long dev = 0, ino = 0;
	struct stat st;
	kh_auto_free char *resolved = realpath(run->workspace, NULL);
	bool there = resolved && stat(resolved, &st) == 0;
	if (there && strcmp(resolved, run->workspace) == 0 &&
	    read_small(run->path, "place", 64, &text) &&
	    sscanf(kh_buf_cstr(&text), "%llu %llu", &dev, &ino) == 2 &&
	    dev == (unsigned long long)st.st_dev && ino == (unsigned long long)st.st_ino)
		return true;
	kh_log_warn("%s is %s: what a sandbox left in it is only looked for where another sandbox "
		    "had the folder around it. If you moved it yourself, look through it before "
		    "you use git or an editor there",
		    kh_esc_str(run->workspace),
		    there ? "not the folder any more that a sandbox had" : "gone");
	return false;
}

static bool finish(const char *state, const struct other *run)
{
	struct kh_buf before kh_cleanup(kh_buf_fini), reads kh_cleanup(kh_buf_fini);
	(void)read_small(run->path, "reads", KH_LIMIT_SURVEY_FILE_BYTES, &reads);
	/* Without it nothing had been started yet. */
	if (read_small(run->path, "before", BEFORE_BYTES, &before) && is_in_place(run) &&
	    !kh_survey_after(state, run->id, run->workspace, kh_buf_view(&before),
			     kh_buf_view(&reads)))
		return false;
	remove_record(run->path);
	return true;
}

/* Each run that has ended, unless a live one shares its workspace. */
static bool sweep(const char *state, const char *but, struct kh_err *err)
{
	struct others others kh_cleanup(kh_other_runs_fini) = { 0 };
	if (!kh_other_runs_find(state, but, &others, err))
		return false;
	bool all = true;
	/* First all stubs: they are not to be taken for the agent's. */
	for (size_t i = 0; i < others.n; i++)
		if (!others.list[i].live && !is_shared(&others, others.list[i].workspace))
			remove_stubs(others.list[i].path);
	for (size_t i = 0; i < others.n; i++)
		if (!others.list[i].live && !is_shared(&others, others.list[i].workspace))
			all = finish(state, &others.list[i]) && all;
	return all || kh_err_set(err, KH_ERR_SYSTEM,
				 "not all that was left in a workspace could be seen to (above)");
}

static bool sweep_within(const char *state, uint64_t wait_ms, struct kh_err *err)
{
	kh_auto_free char *folder = kh_strf("%s/workspaces", state);
	struct stat st;
	if (!folder)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
	if (lstat(folder, &st) != 0)
		return true; /* nothing has ever run */
	kh_auto_close int lock = take_lock(state, wait_ms, err);
	return lock >= 0 && sweep(state, NULL, err);
}

bool kh_workspace_survey(const char *state, struct kh_err *err)
{
	return sweep_within(state, KH_LIMIT_WORKSPACE_LOCK_MS, err);
}

bool kh_workspace_is_unsurveyed(const char *state)
{
	enum { WAIT_MS = 1000 };
	struct others others kh_cleanup(kh_other_runs_fini) = { 0 };
	kh_auto_free char *folder = kh_strf("%s/workspaces", state);
	if (!folder || access(folder, F_OK) != 0)
		return false;
	/* A run that ends holds it while it looks through its own. */
	kh_auto_close int lock = take_lock(state, WAIT_MS, NULL);
	if (lock < 0 || !kh_other_runs_find(state, NULL, &others, NULL))
		return false;
	bool found = false;
	for (size_t i = 0; !found && i < others.n; i++) {
		kh_auto_free char *before = kh_strf("%s/before", others.list[i].path);
		found = !others.list[i].live && before && access(before, F_OK) == 0;
	}
	return found;
}

void kh_run_records_lock(const char *state)
{
	struct kh_err err = KH_ERR_INIT;
	if (state)
		(void)sweep_within(state, 0, &err);
}

/* ---- of this run ---- */

static int open_own(const struct kh_run_record *record, const char *name)
{
	kh_auto_free char *path = kh_strf("%s/%s", record->path, name);
	return path ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600) : -1;
}

static bool register_run(struct kh_run_record *record, struct kh_err *err)
{
	record->path = kh_strf("%s/workspaces/XXXXXX", record->state);
	if (!record->path || !mkdtemp(record->path) ||
	    !(record->id = strdup(strrchr(record->path, '/') + 1)))
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s/workspaces", record->state);
	record->alive = open_own(record, "alive");
	record->stubs = open_own(record, "stubs");
	kh_auto_close int workspace = open_own(record, "workspace");
	kh_auto_close int place = open_own(record, "place");
	struct stat st;
	char text[64];
	if (record->alive < 0 || record->stubs < 0 || workspace < 0 || place < 0 ||
	    flock(record->alive, LOCK_EX | LOCK_NB) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", record->path);
	if (stat(record->workspace, &st) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(record->workspace));
	snprintf(text, sizeof(text), "%llu %llu\n", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino);
	return kh_file_write_all(place, kh_slice_str(text), err) &&
	       kh_file_write_all(workspace, kh_slice_str(record->workspace), err);
}

bool kh_run_record_begin(struct kh_run_record *record, const char *state, const char *workspace,
			 struct kh_err *err)
{
	kh_auto_free char *folder = state ? kh_strf("%s/workspaces", state) : NULL;
	if (!state)
		return kh_err_set(err, KH_ERR_SYSTEM,
				  "--workspace: there is no folder in which keyhole can note what "
				  "was in it (set HOME or XDG_STATE_HOME)");
	record->state = strdup(state);
	record->workspace = realpath(workspace, NULL);
	if (!record->workspace)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "--workspace %s",
				  kh_esc_str(workspace));
	if (!folder || !record->state)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
	if (!kh_file_mkdirs(folder, 0700, err))
		return kh_err_wrap(err, "the notes on workspaces (XDG_STATE_HOME names another "
					"place)");
	/* What a run before could not finish has been said, and is not this run's fault. */
	struct kh_err left = KH_ERR_INIT;
	if (!kh_run_record_lock(record, err))
		return false;
	(void)sweep(state, NULL, &left);
	bool ok = register_run(record, err);
	kh_run_record_unlock(record);
	return ok;
}

bool kh_run_record_lock(struct kh_run_record *record, struct kh_err *err)
{
	record->lock = take_lock(record->state, KH_LIMIT_WORKSPACE_LOCK_MS, err);
	if (record->lock < 0)
		return false;
	struct others others kh_cleanup(kh_other_runs_fini) = { 0 };
	kh_buf_clear(&record->others);
	if (!kh_other_runs_find(record->state, record->id, &others, err))
		return false;
	for (size_t i = 0; i < others.n; i++) {
		struct kh_buf text kh_cleanup(kh_buf_fini);
		if (read_small(others.list[i].path, "stubs", STUBS_BYTES, &text) &&
		    !kh_buf_append_slice(&record->others, kh_buf_view(&text)))
			return kh_err_set(err, KH_ERR_NO_MEMORY, "too many runs at a time");
	}
	return true;
}

void kh_run_record_unlock(struct kh_run_record *record)
{
	if (record->lock >= 0)
		close(kh_steal_fd(&record->lock));
}

bool kh_run_record_is_stub(const struct kh_run_record *record, const char *path)
{
	struct kh_slice all = kh_buf_view(&record->others);
	for (size_t at = 0; at < all.len;) {
		size_t end = kh_slice_find(all, '\0', at);
		if (kh_slice_eq(kh_slice_sub(all, at, end), kh_slice_str(path)))
			return true;
		at = end + 1;
	}
	return false;
}

bool kh_run_record_stub(const struct kh_run_record *record, const char *path, struct kh_err *err)
{
	return kh_file_write_all(record->stubs, kh_slice_of(path, strlen(path) + 1), err) ||
	       kh_err_wrap(err, "the list of what is put into the workspace");
}

bool kh_run_record_before(const struct kh_run_record *record, struct kh_slice digests,
			  struct kh_slice reads, struct kh_err *err)
{
	kh_auto_free char *list = kh_strf("%s/reads", record->path);
	if (list && !kh_file_write(list, reads, 0600, err))
		return false;
	/* Whole or not at all, since it says that there is something to survey. */
	kh_auto_free char *path = kh_strf("%s/before", record->path);
	return path && list ? kh_file_write(path, digests, 0600, err)
			    : kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
}

void kh_run_record_started(const struct kh_run_record *record, pid_t init)
{
	if (!record->path || init <= 0)
		return;
	char text[64];
	snprintf(text, sizeof(text), "%d %llu\n", (int)init, start_of(init));
	kh_auto_close int fd = open_own(record, "init");
	if (fd >= 0)
		(void)kh_file_write_all(fd, kh_slice_str(text), NULL);
}

static void end_now(struct kh_run_record *record, bool gone)
{
	struct kh_err err = KH_ERR_INIT;
	bool surveyed = true;
	struct others others kh_cleanup(kh_other_runs_fini) = { 0 };
	if (!gone) {
		kh_log_error(
			"a process of the sandbox may still be in %s: it was not surveyed. Use "
			"neither git nor an editor there before `keyhole workspace survey` "
			"has been run",
			kh_esc_str(record->workspace));
		return;
	}
	kh_auto_free char *init = kh_strf("%s/init", record->path);
	if (init)
		(void)unlink(init);
	/* From here on this run is a dead one like any other, also where a process of ours that
	 * still removes something has inherited the descriptor. */
	(void)flock(record->alive, LOCK_UN);
	close(kh_steal_fd(&record->alive));
	if (kh_other_runs_find(record->state, record->id, &others, &err) &&
	    is_shared(&others, record->workspace))
		kh_log_warn("another sandbox is still in %s: what this one left there is surveyed "
			    "when that one has ended",
			    kh_esc_str(record->workspace));
	surveyed = sweep(record->state, NULL, &err);
	if (!surveyed)
		kh_log_error("%s", err.text);
}

void kh_run_record_end(struct kh_run_record *record, bool gone)
{
	struct kh_err err = KH_ERR_INIT;
	if (record->path && record->id) {
		if (kh_run_record_lock(record, &err))
			end_now(record, gone);
		else
			kh_log_error("%s was not surveyed: %s (run `keyhole workspace survey` "
				     "before you use git or an editor there)",
				     kh_esc_str(record->workspace), err.text);
	}
	record_fini(record);
}
