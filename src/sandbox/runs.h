/* runs.h - records of runs and their workspaces, kept outside of the workspaces */
#ifndef KEYHOLE_SANDBOX_RUNS_H
#define KEYHOLE_SANDBOX_RUNS_H

#include <sys/types.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>

#include "deadline.h"

struct kh_outlets;

/*
 * STATE/workspaces/ID, one folder per run:
 *
 *   alive      the launcher's pid; locked as long as that lives
 *   sees       what the run sees of the host, and where it may write (runs_others.c)
 *   workspace  its path, where the run may write to it; without one there is none of what follows
 *   place      which folder that is: device and inode
 *   stubs      what was put into the workspace for the time of the run: paths, each with a NUL, and
 *              once however often the host removes what was put there
 *   before     digests of what the workspace held before (concern.h); absent until it is known
 *   reads      what git reads by a relative path in each work tree (tree_reads.h)
 *   doubted    protected names under which the agent may have put something (doubted.h)
 *   guarded    which files these are while the launcher guards (doubted.h)
 *   failed     when its survey failed, and how long that took (runs_retry.h)
 *   home       --home, unless every user of the host could write to it (runs_home.h)
 *   disk       at which points the disks of the workspace and the home are mounted (runs_disk.h)
 *   init       keyhole-init's pid and start time, so that nobody surveys before it is gone
 *
 * STATE/homes lists the folders that runs have had as --home (outlets.h), and STATE/names has what
 * live runs use on this host (run_uses.h).
 *
 * STATE/workspaces/lock serialises changes. A run counts as live while its `alive` is locked or its
 * keyhole-init runs. The last run in a workspace, or in one inside or around it, removes the stubs.
 * A workspace is surveyed when no live run may hold a descriptor of it.
 */
struct kh_run_record {
	char *state, *id, *path;
	char *workspace; /* NULL: no writable workspace */
	/* Of the spec: what the paths had when they were resolved, or NULL. */
	const int *workspace_held, *home_held;
	int alive, lock, stubs; /* -1 */
	struct kh_buf others;	/* stubs of other runs in this workspace: paths, each with a NUL */
};

void kh_run_record_init(struct kh_run_record *record);
/* Cleans up after dead runs, and registers this one. `workspace`: the writable workspace, or NULL;
 * without one there may be no folder of records. `home`: --home, or NULL. Both are resolved, and
 * have no links; the caller has set the record's _held before. `sees`: from kh_run_sees, including
 * the workspace. */
bool kh_run_record_begin(struct kh_run_record *record, const char *state, const char *workspace,
			 const char *home, struct kh_slice sees, struct kh_err *err);
/* Held while the workspace is surveyed and stubs are made: no other run does either meanwhile. */
bool kh_run_record_lock(struct kh_run_record *record, struct kh_err *err);
void kh_run_record_unlock(struct kh_run_record *record);
/* Is this path, in the workspace, a stub of another run? Call it with the lock held. */
bool kh_run_record_is_stub(const struct kh_run_record *record, const char *path);
/* Records a stub before it is made, or another run's stub that this one needs. They have at most
 * KH_LIMIT_RUN_STUBS_BYTES. */
bool kh_run_record_stub(const struct kh_run_record *record, const char *path, struct kh_err *err);
bool kh_run_record_before(const struct kh_run_record *record, struct kh_slice digests,
			  struct kh_slice reads, struct kh_err *err);
/* Records PID 1 of the sandbox, by its pid on the host. */
void kh_run_record_started(const struct kh_run_record *record, pid_t init);
/* The sandbox has ended: surveys the workspace and removes the stubs, unless a joined run is live,
 * or `gone` is false (a process of the sandbox may still run). Return: false: the workspace was not
 * surveyed, although no other run is to be waited for, and that was said. */
bool kh_run_record_end(struct kh_run_record *record, bool gone);
/* Takes the lock. If another process holds it for longer than `wait_ms`, err names it. *signalled:
 * a pending signal ended the wait (deadline.h); NULL: ignore signals. Return: a descriptor, whose
 * close releases the lock; -1. */
int kh_run_records_lock(const char *state, uint64_t wait_ms, bool *signalled, struct kh_err *err);

/* Of the run's record. */
struct kh_survey_notes {
	struct kh_slice before, reads, doubted;
};
/* after.c: surveys a workspace after a run, against the digests of before, and sets aside what
 * could run on the host. `folder` is a descriptor of the workspace (O_PATH is enough); `outlets`
 * are the folders outside of it into which no new link may lead. Return: true: the survey was
 * complete, and everything harmful was set aside. */
bool kh_survey_after(const char *state, const char *id, const char *workspace, int folder,
		     const struct kh_survey_notes *notes, const struct kh_outlets *outlets,
		     struct kh_deadline *deadline);

#endif
