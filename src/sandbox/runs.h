/* runs.h - which runs are in which workspace, kept outside of them */
#ifndef KEYHOLE_SANDBOX_RUNS_H
#define KEYHOLE_SANDBOX_RUNS_H

#include <sys/types.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>

/*
 * STATE/workspaces/ID, one folder per run:
 *
 *   alive      locked as long as the launcher lives
 *   workspace  its path
 *   stubs      what was put into the workspace for the time of the run: paths, each with a NUL
 *   before     digests of what the workspace held before (concern.h); absent until it is known
 *   reads      what git reads by a relative path in each work tree (treereads.h)
 *   init       keyhole-init's pid and start time, so that nobody surveys before it is gone
 *
 * STATE/workspaces/lock serialises changes. A run counts as live while its `alive` is locked or its
 * keyhole-init lives. What runs in one workspace, or one in another, share is undone by the last.
 */
struct kh_run_record {
	char *state, *id, *path, *workspace;
	int alive, lock, stubs; /* -1 */
	struct kh_buf others;	/* stubs of other live runs: paths, each with a NUL */
};

void kh_run_record_init(struct kh_run_record *record);
/* Finishes what dead runs have left, and registers this one. */
bool kh_run_record_begin(struct kh_run_record *record, const char *state, const char *workspace,
			 struct kh_err *err);
/* Around looking what is there and making stubs: no other run does either meanwhile. */
bool kh_run_record_lock(struct kh_run_record *record, struct kh_err *err);
void kh_run_record_unlock(struct kh_run_record *record);
/* Is this path a stub of another live run? Asked under the lock. */
bool kh_run_record_is_stub(const struct kh_run_record *record, const char *path);
/* A stub, before it is made, or one of another run's that this one relies on. */
bool kh_run_record_stub(const struct kh_run_record *record, const char *path, struct kh_err *err);
bool kh_run_record_before(const struct kh_run_record *record, struct kh_slice digests,
			  struct kh_slice reads, struct kh_err *err);
/* Who is PID 1 of the sandbox, as the host names it. */
void kh_run_record_started(const struct kh_run_record *record, pid_t init);
/* The sandbox has ended: the workspace is surveyed and the stubs are removed, unless another run is
 * still in it or `gone` is false: some process of the sandbox may live. */
void kh_run_record_end(struct kh_run_record *record, bool gone);
/* For a run that needs none of this: finishes what dead runs have left, unless another run is at
 * it.
 */
void kh_run_records_lock(const char *state);

/* after.c: surveys a workspace after a run, against the digests of before, and sets aside what
 * could run on the host. Return: all of it was looked at, and all was set aside that had to be. */
bool kh_survey_after(const char *state, const char *id, const char *workspace,
		     struct kh_slice before, struct kh_slice reads);

#endif
