/* runs.h - which runs are in which workspace, kept outside of them */
#ifndef KEYHOLE_SANDBOX_RUNS_H
#define KEYHOLE_SANDBOX_RUNS_H

#include <sys/types.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>

#include "deadline.h"

/*
 * STATE/workspaces/ID, one folder per run:
 *
 *   alive      the launcher's pid; locked as long as that lives
 *   sees       what the run sees of the host, and where it may write (runs_others.c)
 *   workspace  its path, where the run may write to it; without one there is none of what follows
 *   place      which folder that is: device and inode
 *   stubs      what was put into the workspace for the time of the run: paths, each with a NUL
 *   before     digests of what the workspace held before (concern.h); absent until it is known
 *   reads      what git reads by a relative path in each work tree (tree_reads.h)
 *   init       keyhole-init's pid and start time, so that nobody surveys before it is gone
 *
 * STATE/workspaces/lock serialises changes. A run counts as live while its `alive` is locked or its
 * keyhole-init lives. The stubs of a workspace are removed by the last run in it, or in one inside
 * or around it; it is surveyed when no run lives that may hold what was opened in it.
 */
struct kh_run_record {
	char *state, *id, *path;
	char *workspace;	/* NULL: none that it may write to */
	int alive, lock, stubs; /* -1 */
	struct kh_buf others;	/* stubs of other live runs: paths, each with a NUL */
};

void kh_run_record_init(struct kh_run_record *record);
/* Finishes what dead runs have left, and registers this one. `workspace`: that it may write to, or
 * NULL; then there need be no folder of records. `sees`: of kh_run_sees, with the workspace. */
bool kh_run_record_begin(struct kh_run_record *record, const char *state, const char *workspace,
			 struct kh_slice sees, struct kh_err *err);
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
/* The sandbox has ended: the workspace is surveyed and the stubs are removed, unless a run lives
 * that it is joined with, or `gone` is false: some process of the sandbox may live. */
void kh_run_record_end(struct kh_run_record *record, bool gone);
/* The lock itself. Where another process has it for longer than `wait_ms`, err says which;
 * *signalled (or NULL: signals are not heeded) says that one has ended the wait (deadline.h).
 * Return: a descriptor, or -1. */
int kh_run_records_lock(const char *state, uint64_t wait_ms, bool *signalled, struct kh_err *err);

/* after.c: surveys a workspace after a run, against the digests of before, and sets aside what
 * could run on the host. Return: all of it was looked at, and all was set aside that had to be. */
bool kh_survey_after(const char *state, const char *id, const char *workspace,
		     struct kh_slice before, struct kh_slice reads, struct kh_deadline *deadline);

#endif
