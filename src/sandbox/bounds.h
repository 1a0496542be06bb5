/*
 * bounds.h - how much of the host a sandbox may use
 *
 *   memory    a control group where we may make one; else what one process may have (RLIMIT_AS),
 *             set by keyhole-init
 *   pids      a control group; else how many there may be (RLIMIT_NPROC, counted in the sandbox's
 *             user namespace), set by keyhole-init; both where the program is a kernel of its own
 *   cpus      a control group; else an error, or with `best_effort` a warning
 *   disk      the size of the sandbox's own places in memory (view)
 *   timeout   launch.c
 *
 * The groups are gone at the end. A small process of ours waits for the launcher's end, and removes
 * them where the launcher was killed.
 */
#ifndef KEYHOLE_SANDBOX_BOUNDS_H
#define KEYHOLE_SANDBOX_BOUNDS_H

#include <sys/types.h>

#include <keyhole/sandbox/sandbox.h>

#include "cgroup.h"

struct kh_sandbox_bounds {
	struct kh_cgroups groups;
	/* What keyhole-init has to set, 0: nothing. */
	uint64_t init_memory_bytes;
	unsigned init_pids;
	int alive; /* shut when the launcher ends, whatever way; -1 */
	pid_t watcher;
};

/* The struct is zeroed but for `alive`. `own_kernel` as the engine has it. */
bool kh_bounds_begin(struct kh_sandbox_bounds *limits, const struct kh_sandbox_limits *wanted,
		     bool own_kernel, struct kh_err *err);
/* In the child, while it is still who the launcher is. */
bool kh_bounds_join(const struct kh_sandbox_bounds *limits, struct kh_err *err);
/* The same for another process, which waits for it. */
bool kh_bounds_take(const struct kh_sandbox_bounds *limits, pid_t pid, struct kh_err *err);
/* When every process has ended. */
void kh_bounds_end(struct kh_sandbox_bounds *limits);

#endif
