/* launch_internal.h - the state of a running sandbox, for the parts of the launcher */
#ifndef KEYHOLE_SANDBOX_LAUNCH_INTERNAL_H
#define KEYHOLE_SANDBOX_LAUNCH_INTERNAL_H

#include <signal.h>

#include "sandbox_internal.h"

enum { COMPLAINT_BYTES = 2048 };

/* The named timers. */
enum kh_clock {
	KH_CLOCK_START,	  /* until the command runs */
	KH_CLOCK_TIMEOUT, /* --timeout; then, after it was told to end, until it has ended */
	KH_CLOCK_HEARD,	  /* until keyhole-init has passed on a terminating signal */
	KH_CLOCK_GONE,	  /* after keyhole-init ended: until the engine's program ends */
	KH_CLOCKS,
};

/* The state while the sandbox runs. */
struct kh_running {
	struct kh_launch *launch;
	pid_t pid;
	pid_t init;			/* as the kernel names who said that it started; -1 */
	int signals, complaints, ended; /* signalfd, pipe, pidfd */
	int init_ended;			/* a pidfd of `init`; -1 */
	int report;			/* of the child, until it is the program; -1 */
	char complaint[COMPLAINT_BYTES];
	size_t complaint_len;
	struct kh_terminal terminal;
	bool started, exited, no_exec;
	bool held;     /* the init has not come up yet: it hears GO and nothing else */
	sigset_t late; /* what came in that time */
	bool timed_out;
	int64_t due_ms[KH_CLOCKS]; /* of the monotonic clock; -1: none */
	int unheard;		   /* what keyhole-init has not passed on yet */
	int command_status;	   /* the command's wait status */
	int exec_errno;
	int oom;	    /* where the kernel counts, in a group of the engine's; -1 */
	uint64_t oom_kills; /* at the command's end */
	struct kh_err err;  /* of ours, in the middle of it */
};

/* launch_signals.c: what is passed on to the command. */
enum { KH_LAUNCH_FORWARDED = 8 };
extern const int kh_launch_forwarded[KH_LAUNCH_FORWARDED];
/* Blocks what the launcher hears, and sets r->signals. *before: what was blocked. Return: false
 * with `err`. */
bool kh_launch_watch_signals(struct kh_running *r, sigset_t *before, struct kh_err *err);
/* launch_clock.c: how far off the next one is, for poll; -1: there is none. */
int kh_launch_clock_left(const struct kh_running *r);
void kh_launch_clock_start(struct kh_running *r, enum kh_clock which, uint64_t ms);
void kh_launch_clock_stop(struct kh_running *r, enum kh_clock which);
/* Has it come? Then it is stopped as well. */
bool kh_launch_clock_due(struct kh_running *r, enum kh_clock which);

/* launch_end.c: `init` is known from now on. */
void kh_launch_note_init(struct kh_running *r);
/* launch_end.c: waits for the end of `init`, which the kernel lets end after all else of its
 * namespace. Return: no process of the sandbox is left. */
bool kh_launch_await_init(const struct kh_running *r);
/* launch_end.c: it has not come up in time. */
void kh_launch_too_slow(struct kh_running *r);
/* launch_end.c: the exit status, and what is said. As kh_launch returns. */
bool kh_launch_conclude(struct kh_running *r, int engine_status, int *status, struct kh_err *err);

#endif
