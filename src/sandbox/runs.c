/* runs.c - records of runs and their workspaces, kept outside of the workspaces */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/lock_file.h>
#include <keyhole/base/log.h>
#include <keyhole/sandbox/workspace.h>

#include "outlets.h"
#include "runs.h"
#include "runs_disk.h"
#include "runs_home.h"
#include "runs_others.h"
#include "runs_retry.h"
#include "runs_stubs.h"
#include "sandbox_internal.h"

enum {
	BEFORE_BYTES = 256 * 1024 * 1024,
	/* and what is added to the list until it is written anew */
	GUARDED_BYTES = KH_LIMIT_SURVEY_GUARDED_BYTES + 1024 * 1024,
};

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
	kh_buf_init(&record->others, KH_RUN_STUBS_OF_OTHERS_BYTES);
}

static void record_fini(struct kh_run_record *record)
{
	const int fds[] = { record->alive, record->stubs };
	kh_run_record_unlock(record);
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

/* ---- the end of a run ---- */

static void remove_record(const char *folder)
{
	static const char *const names[] = { "stubs",	  "before",	 "reads", "doubted",
					     "guarded",	  "guarded.new", "init",  "place",
					     "workspace", "sees",	 "home",  "failed",
					     "disk",	  "alive" };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		kh_auto_free char *path = kh_strf("%s/%s", folder, names[i]);
		if (path)
			(void)unlink(path);
	}
	(void)rmdir(folder);
}

/* What is in one of the record's files that has to be there. */
static bool read_note(const struct kh_other_run *run, const char *name, size_t most,
		      struct kh_buf *out, struct kh_err *err)
{
	enum kh_note note = kh_run_note(run->path, name, most, out, err);
	if (note == KH_NOTE_ABSENT)
		kh_err_sys(err, KH_ERR_SYSTEM, ENOENT, "%s/%s", run->path, name);
	return note == KH_NOTE_READ;
}

/*
 * Is it still the folder in which that run was, with no link on the way? The agent of a run in a
 * folder above can put another one in its place, and what we do there we do as the host. So what
 * was looked at is held from here on: *folder, or -1. Return: it can be told.
 */
static bool look_in_place(const struct kh_other_run *run, int *folder, struct kh_err *err)
{
	unsigned long long dev = 0, ino = 0;
	struct stat st = { 0 };
	kh_auto_close int fd = kh_file_hold(run->workspace);
	bool there = fd >= 0 || errno == ELOOP;
	if ((fd < 0 && errno != ENOENT && errno != ENOTDIR && errno != ELOOP &&
	     errno != ENAMETOOLONG) ||
	    (fd >= 0 && fstat(fd, &st) != 0))
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(run->workspace));
	if (!kh_run_place(run->path, &dev, &ino, err))
		return false;
	if (fd >= 0 && ino == (unsigned long long)st.st_ino &&
	    (dev == (unsigned long long)st.st_dev || kh_run_disk_has(run->path, fd)))
		*folder = kh_steal_fd(&fd);
	else
		kh_log_warn("%s is %s: what a sandbox left in it is only looked for where another "
			    "sandbox had the folder around it. If you moved it yourself, look "
			    "through it before you use git or an editor there",
			    kh_esc_str(run->workspace),
			    there ? "not the folder any more that a sandbox had" : "gone");
	return true;
}

/* Where sandboxes can write besides this workspace: into each home, reviews, and other workspaces.
 */
static bool find_outlets(struct kh_outlets *outlets, const char *state,
			 const struct kh_other_runs *others, const struct kh_other_run *run,
			 int folder, struct kh_err *err)
{
	bool ok = kh_outlets_add_homes(outlets, state, run->workspace, err) &&
		  kh_outlets_add_own(outlets, state, run->workspace, folder, err);
	for (size_t i = 0; ok && i < others->n; i++) {
		const char *workspace = others->list[i].workspace;
		ok = !*workspace || kh_outlets_add(outlets, workspace, run->workspace, err);
	}
	return ok;
}

/* Return: nothing of the run is left to do. */
static bool survey_run(const char *state, const struct kh_other_runs *others,
		       const struct kh_other_run *run, struct kh_deadline *deadline,
		       struct kh_err *err)
{
	struct kh_outlets outlets kh_cleanup(kh_outlets_fini) = { 0 };
	struct kh_buf before kh_cleanup(kh_buf_fini), reads kh_cleanup(kh_buf_fini);
	struct kh_buf doubted kh_cleanup(kh_buf_fini);
	kh_auto_close int folder = -1;
	kh_buf_init(&reads, 0);
	kh_buf_init(&doubted, 0);
	enum kh_note note = kh_run_note(run->path, "before", BEFORE_BYTES, &before, err);
	/* Without it nothing had been started yet. */
	if (note == KH_NOTE_ABSENT)
		return true;
	struct kh_buf guarded kh_cleanup(kh_buf_fini), names kh_cleanup(kh_buf_fini);
	kh_buf_init(&guarded, 0);
	kh_buf_init(&names, 2 * GUARDED_BYTES);
	if (note == KH_NOTE_FAILED ||
	    !read_note(run, "reads", KH_LIMIT_SURVEY_FILE_BYTES, &reads, err) ||
	    kh_run_note(run->path, "doubted", GUARDED_BYTES, &doubted, err) == KH_NOTE_FAILED ||
	    kh_run_note(run->path, "guarded", GUARDED_BYTES, &guarded, err) == KH_NOTE_FAILED)
		return false;
	if (!kh_doubted_list(kh_buf_view(&guarded), kh_buf_view(&doubted), &names))
		return kh_err_set(err, KH_ERR_NO_MEMORY, "a run's record: no memory");
	if (!*run->workspace)
		return kh_err_sys(err, KH_ERR_SYSTEM, ENOENT, "%s/workspace", run->path);
	struct kh_survey_notes notes = { kh_buf_view(&before), kh_buf_view(&reads),
					 kh_buf_view(&names) };
	return look_in_place(run, &folder, err) &&
	       (folder < 0 || (find_outlets(&outlets, state, others, run, folder, err) &&
			       kh_survey_after(state, run->id, run->workspace, folder, &notes,
					       &outlets, deadline)));
}

/* `heeds_signals`: one of another run, for which nobody is to wait who wants to end. *surveyed, or
 * NULL: what was there was looked at, as far as was said. */
static bool finish(const char *state, const struct kh_other_runs *others,
		   const struct kh_other_run *run, bool heeds_signals, bool *surveyed)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_deadline deadline;
	uint64_t begun_ms = kh_clock_mono_ms();
	kh_deadline_start(&deadline, KH_LIMIT_SURVEY_MS, heeds_signals);
	if (kh_deadline_passed(&deadline) || kh_run_disk_is_away(run, true))
		return false;
	bool shut = kh_run_home_shut(run->path);
	if (survey_run(state, others, run, &deadline, &err) && shut) {
		remove_record(run->path);
		if (surveyed)
			*surveyed = true;
		return true;
	}
	if (surveyed)
		*surveyed = err.code == KH_ERR_NONE;
	/* One that a signal ended has not failed. */
	if (!deadline.signalled)
		kh_run_retry_note(run->path, kh_clock_mono_ms() - begun_ms);
	/* Else it was said. */
	if (err.code != KH_ERR_NONE)
		kh_log_error("%s was not surveyed: %s (use neither git nor an editor there before "
			     "`keyhole workspace survey` has been run)",
			     kh_esc_str(run->workspace), err.text);
	return false;
}

/* One that is only tried again later, or when somebody asks. */
static bool rests(const struct kh_other_run *run, bool says)
{
	return kh_run_retry_in_backoff(run, says) || kh_run_disk_is_away(run, says);
}

/* Whose end the survey of our own workspace waits for. */
static void say_awaited(const struct kh_other_runs *others, const struct kh_other_run *own)
{
	size_t n = 0;
	const struct kh_other_run *run = kh_other_runs_awaited(others, own, &n);
	if (!run || !*own->workspace)
		return;
	kh_auto_free char *more = n > 1 ? kh_strf(", and %zu more", n - 1) : NULL;
	kh_log_warn("%s is not surveyed yet, since another run still uses it or shares a folder "
		    "with it (process %d%s%s%s): until that has ended, use neither git nor an "
		    "editor there",
		    kh_esc_str(own->workspace), run->launcher, *run->workspace ? " in " : "",
		    kh_esc_str(run->workspace), more ? more : "");
}

/* Each run that has ended, unless a live one may hold what it has opened; the run `own` (or NULL)
 * first, and whatever signal comes. `asked`: also one that rests (runs_retry.h). *surveyed, or
 * NULL: the workspace of `own` was looked at, or it was said until when that waits. */
static bool sweep(const char *state, const char *own, bool asked, bool *surveyed,
		  struct kh_err *err)
{
	struct kh_other_runs others kh_cleanup(kh_other_runs_fini) = { 0 };
	if (!kh_other_runs_find(state, NULL, &others, err))
		return false;
	for (size_t i = 0; own && i < others.n; i++) {
		struct kh_other_run first = others.list[i];
		if (strcmp(first.id, own) != 0)
			continue;
		others.list[i] = others.list[0];
		others.list[0] = first;
		say_awaited(&others, &others.list[0]);
		break;
	}
	bool all = true, no_stubs = true;
	/* First all stubs: they are not to be taken for the agent's. */
	for (size_t i = 0; i < others.n; i++) {
		const struct kh_other_run *run = &others.list[i];
		struct kh_err why = KH_ERR_INIT;
		if (run->live || kh_other_runs_share(&others, run) ||
		    kh_run_disk_is_away(run, false) || kh_run_stubs_remove(run->path, &why))
			continue;
		kh_log_error("%s", why.text);
		all = no_stubs = false;
	}
	for (size_t i = 0; no_stubs && i < others.n; i++) {
		size_t n;
		bool is_own = own && strcmp(others.list[i].id, own) == 0;
		bool waits = kh_other_runs_awaited(&others, &others.list[i], &n) != NULL;
		if (is_own && waits && surveyed)
			*surveyed = true;
		if (!waits && (asked || is_own || !rests(&others.list[i], !own)))
			all = finish(state, &others, &others.list[i], !is_own,
				     is_own ? surveyed : NULL) &&
			      all;
	}
	return all || kh_err_set(err, KH_ERR_SYSTEM,
				 "not all that was left in a workspace could be seen to (above)");
}

bool kh_workspace_survey(const char *state, struct kh_err *err)
{
	kh_auto_free char *folder = kh_strf("%s/workspaces", state);
	struct stat st;
	if (!folder)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
	if (lstat(folder, &st) != 0 && errno == ENOENT)
		return true; /* nothing has ever run */
	kh_auto_close int lock = kh_run_records_lock(state, KH_LIMIT_WORKSPACE_LOCK_MS, NULL, err);
	if (lock < 0)
		return false;
	kh_log_hold();
	bool ok = sweep(state, NULL, true, NULL, err);
	close(kh_steal_fd(&lock));
	kh_log_release();
	return ok;
}

/* ---- of this run ---- */

static int open_own(const struct kh_run_record *record, const char *name)
{
	kh_auto_free char *path = kh_strf("%s/%s", record->path, name);
	return path ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600) : -1;
}

static bool note(const struct kh_run_record *record, const char *name, struct kh_slice text,
		 struct kh_err *err)
{
	kh_auto_close int fd = open_own(record, name);
	if (fd < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s/%s", record->path, name);
	return kh_file_write_all(fd, text, err) || kh_err_wrap(err, "%s/%s", record->path, name);
}

static bool note_workspace(const struct kh_run_record *record, struct kh_err *err)
{
	struct stat st;
	char text[64];
	kh_auto_close int folder =
		kh_file_hold_again(record->workspace, record->workspace_held, err);
	if (folder < 0)
		return kh_err_wrap(err, "--workspace");
	if (fstat(folder, &st) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(record->workspace));
	snprintf(text, sizeof(text), "%llu %llu\n", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino);
	return kh_run_disk_note(record->path, folder, err) &&
	       note(record, "place", kh_slice_str(text), err) &&
	       note(record, "workspace", kh_slice_str(record->workspace), err);
}

/* First what is held, so that no list names another folder. */
static bool note_home(const struct kh_run_record *record, const char *home, struct kh_err *err)
{
	kh_auto_close int folder = kh_file_hold_again(home, record->home_held, err);
	if (folder < 0)
		return kh_err_wrap(err, "--home");
	return kh_run_disk_note(record->path, folder, err) &&
	       kh_outlets_note_home(record->state, home, err) &&
	       kh_run_home_note(record->path, home, folder, err);
}

static bool register_run(struct kh_run_record *record, const char *home, struct kh_slice sees,
			 struct kh_err *err)
{
	char text[32];
	record->path = kh_strf("%s/workspaces/XXXXXX", record->state);
	if (!record->path || !mkdtemp(record->path) ||
	    !(record->id = strdup(strrchr(record->path, '/') + 1)))
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s/workspaces", record->state);
	record->alive = open_own(record, "alive");
	record->stubs = open_own(record, "stubs");
	if (record->alive < 0 || record->stubs < 0 || flock(record->alive, LOCK_EX | LOCK_NB) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", record->path);
	snprintf(text, sizeof(text), "%d\n", (int)getpid());
	return (kh_file_write_all(record->alive, kh_slice_str(text), err) ||
		kh_err_wrap(err, "%s/alive", record->path)) &&
	       (!record->workspace || note_workspace(record, err)) &&
	       (!home || note_home(record, home, err)) && note(record, "sees", sees, err);
}

static bool lock_record(struct kh_run_record *record, bool heeds_signals, struct kh_err *err)
{
	bool signalled = false;
	record->lock = kh_run_records_lock(record->state, KH_LIMIT_WORKSPACE_LOCK_MS,
					   heeds_signals ? &signalled : NULL, err);
	if (record->lock < 0)
		return false;
	/* Others wait for it, and so not for whoever reads what we say. */
	kh_log_hold();
	return true;
}

static bool register_first(struct kh_run_record *record, const char *home, struct kh_slice sees,
			   struct kh_err *err)
{
	/* What a run before could not finish has been said, and is not this run's fault. */
	struct kh_err left = KH_ERR_INIT;
	struct kh_deadline signals;
	if (!lock_record(record, true, err))
		return false;
	(void)sweep(record->state, NULL, false, NULL, &left);
	kh_deadline_start(&signals, KH_LIMIT_SURVEY_MS, true);
	bool ok = kh_deadline_passed(&signals)
			  ? kh_err_set(err, KH_ERR_SYSTEM,
				       "a signal came before anything was started")
			  : register_run(record, home, sees, err);
	kh_run_record_unlock(record);
	return ok;
}

bool kh_run_record_begin(struct kh_run_record *record, const char *state, const char *workspace,
			 const char *home, struct kh_slice sees, struct kh_err *err)
{
	struct kh_err absent = KH_ERR_INIT;
	struct stat st;
	if (!state)
		return !workspace ||
		       kh_err_set(err, KH_ERR_SYSTEM,
				  "--workspace: there is no folder in which keyhole can note what "
				  "was in it (set HOME or XDG_STATE_HOME)");
	kh_auto_free char *folder = kh_strf("%s/workspaces", state);
	record->state = strdup(state);
	record->workspace = workspace ? strdup(workspace) : NULL;
	if (!folder || !record->state || (workspace && !record->workspace))
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
	if (kh_file_mkdirs(folder, 0700, &absent))
		return register_first(record, home, sees, err);
	/* Where none can be made there is no run with a workspace that is to be surveyed. */
	if (!workspace && lstat(folder, &st) != 0 && errno == ENOENT)
		return true;
	if (err)
		*err = absent;
	return kh_err_wrap(err, "the notes on workspaces (XDG_STATE_HOME names another place)");
}

bool kh_run_record_lock(struct kh_run_record *record, struct kh_err *err)
{
	return lock_record(record, true, err) && kh_run_stubs_of_others(record, err);
}

void kh_run_record_unlock(struct kh_run_record *record)
{
	if (record->lock < 0)
		return;
	close(kh_steal_fd(&record->lock));
	kh_log_release();
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
	unsigned long long start = 0;
	if (!record->path || init <= 0 || !kh_run_process_start(init, &start, NULL))
		return;
	char text[64];
	snprintf(text, sizeof(text), "%d %llu\n", (int)init, start);
	(void)note(record, "init", kh_slice_str(text), NULL);
}

/* What is said of the workspace that was not surveyed. */
static void say_unsurveyed(const struct kh_run_record *record, const char *why)
{
	kh_log_error("%s%swas not surveyed: %s (use neither git nor an editor there before "
		     "`keyhole workspace survey` has been run)",
		     record->workspace ? kh_esc_str(record->workspace) : "what sandboxes left ",
		     record->workspace ? " " : "", why);
}

static bool end_now(struct kh_run_record *record, bool gone)
{
	struct kh_err err = KH_ERR_INIT;
	bool surveyed = false;
	if (!gone) {
		say_unsurveyed(record, "a process of the sandbox may still live");
		return false;
	}
	kh_auto_free char *init = kh_strf("%s/init", record->path);
	if (init)
		(void)unlink(init);
	/* From here on this run is a dead one like any other, also where a process of ours that
	 * still removes something has inherited the descriptor. */
	(void)flock(record->alive, LOCK_UN);
	close(kh_steal_fd(&record->alive));
	if (!sweep(record->state, record->id, false, &surveyed, &err))
		kh_log_error("%s", err.text);
	return surveyed || !record->workspace;
}

bool kh_run_record_end(struct kh_run_record *record, bool gone)
{
	struct kh_err err = KH_ERR_INIT;
	bool surveyed = true;
	if (record->path && record->id) {
		if (lock_record(record, false, &err)) {
			surveyed = end_now(record, gone);
		} else {
			say_unsurveyed(record, err.text);
			surveyed = !record->workspace;
		}
	}
	record_fini(record);
	return surveyed;
}
