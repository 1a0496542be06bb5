/* launch_internal.h - one sandbox while it runs, as the launcher's parts share it */
#ifndef KEYHOLE_SANDBOX_LAUNCH_INTERNAL_H
#define KEYHOLE_SANDBOX_LAUNCH_INTERNAL_H

#include <signal.h>

#include "sandbox_internal.h"

enum { COMPLAINT_BYTES = 2048 };

/* What goes on while the sandbox runs. */
struct kh_running {
	struct kh_launch *launch;
	pid_t pid;
	pid_t init;			/* as the kernel names who said that it started; -1 */
	int signals, complaints, ended; /* signalfd, pipe, pidfd */
	char complaint[COMPLAINT_BYTES];
	size_t complaint_len;
	struct kh_terminal terminal;
	bool started, exited, no_exec;
	bool held;     /* the init has not come up yet: it hears GO and nothing else */
	sigset_t late; /* what came in that time */
	bool timed_out;
	int64_t deadline_ms; /* of the monotonic clock; -1: none */
	int64_t end_ms;	     /* the same, when the init is gone: the program's */
	int command_status;  /* the command's wait status */
	int exec_errno;
	int oom;	    /* where the kernel counts, in a group of the engine's; -1 */
	uint64_t oom_kills; /* at the command's end */
	struct kh_err err;  /* of ours, in the middle of it */
};

/* launch_end.c: the exit status, and what is said. As kh_launch returns. */
bool kh_launch_conclude(struct kh_running *r, int engine_status, int *status, struct kh_err *err);

#endif
