/*
 * bounds.h - enforces the resource limits of a sandbox
 *
 *   memory    a control group where we may make one; else what one process may have (RLIMIT_AS),
 *             set by keyhole-init
 *   pids      a control group; else a number of processes (RLIMIT_NPROC, counted in the sandbox's
 *             user namespace), set by keyhole-init; both where the program is a kernel of its own
 *   cpus      a control group; else an error, or with `best_effort` a warning
 *   disk      the size of the sandbox's own places in memory (view)
 *   timeout   launch.c
 *
 * The groups are removed at the end; if the launcher is killed, a small watcher process removes
 * them.
 */
#ifndef KEYHOLE_SANDBOX_BOUNDS_H
#define KEYHOLE_SANDBOX_BOUNDS_H

#include <sys/types.h>

#include <keyhole/sandbox/sandbox.h>

#include "cgroup.h"

struct kh_sandbox_bounds {
	struct kh_cgroups groups;
	/* Limits that keyhole-init has to set; 0: none. */
	uint64_t init_memory_bytes;
	unsigned init_pids;
	int alive; /* closed when the launcher ends, however it ends; -1 */
	pid_t watcher;
};

/* *limits is zeroed except for `alive`, -1. `own_kernel`: of the engine. */
bool kh_bounds_begin(struct kh_sandbox_bounds *limits, const struct kh_sandbox_limits *wanted,
		     bool own_kernel, struct kh_err *err);
/* In the child, before it changes its identity: joins the groups. */
bool kh_bounds_join(const struct kh_sandbox_bounds *limits, struct kh_err *err);
/* Moves another process, which waits for this, into the groups. */
bool kh_bounds_take(const struct kh_sandbox_bounds *limits, pid_t pid, struct kh_err *err);
/* Call it when every process of the sandbox has ended. */
void kh_bounds_end(struct kh_sandbox_bounds *limits);

#endif
