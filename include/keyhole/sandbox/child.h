/* child.h - runs a program or a function in a child process, with a deadline */
#ifndef KEYHOLE_SANDBOX_CHILD_H
#define KEYHOLE_SANDBOX_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>

/* ---- a program, until a deadline ---- */

enum kh_child_complaints {
	KH_CHILD_DROP = 0, /* standard error is dropped */
	KH_CHILD_TOGETHER, /* standard error goes where the output goes */
	KH_CHILD_APART	   /* standard error goes into a buffer of its own */
};

struct kh_child_spec {
	const char *program; /* absolute; NULL: argv[0] */
	char *const *argv;
	/* NULL: this process's. Either is handed on as kh_program_environment makes it. */
	char *const *environment;
	const char *folder; /* its working directory; NULL: this process's */
	int input; /* a descriptor for standard input, which stays the caller's; -1: /dev/null */
	enum kh_child_complaints complaints;
	/* Called in the child right before exec: sets another identity, limits, or descriptors
	 * above 2 for the program. NULL: nothing. If it returns false, the program is not
	 * started. */
	bool (*prepare)(void *arg);
	/* Polled while it runs: should it be killed? NULL: never. */
	bool (*is_over)(void *arg);
	void *arg;
	uint64_t most_ms;   /* killed so long after its start, in milliseconds */
	bool end_when_full; /* killed as well if its output does not fit */
};

enum kh_child_end {
	KH_CHILD_NOT_STARTED = 0, /* errno says why */
	KH_CHILD_ENDED,		  /* by itself, or by a signal that is not ours */
	KH_CHILD_LATE,
	KH_CHILD_OVER, /* is_over said so */
	KH_CHILD_FULL
};

struct kh_child_result {
	enum kh_child_end end;
	int status; /* exit status, 0 to 255 (127: no such program); -1: ended by a signal */
	bool cut;   /* its output did not fit */
};

struct kh_child {
	struct kh_child_spec spec;
	pid_t pid;     /* 0: none */
	int ended;     /* a pidfd */
	int says[2];   /* pipes: output, standard error */
	uint64_t late; /* deadline: monotonic, in milliseconds */
};

/*
 * The child leads a process group of its own, is killed when this process ends, has no signal
 * blocked, and inherits only descriptors 0 to 2. Its output is read while it runs into `output` and
 * `complaints`, up to their caps (NULL: dropped). A child that is killed is killed with its group.
 * Return: true if it ended by itself with status 0 and its output fitted; otherwise *result says
 * what happened.
 */
bool kh_child_run(const struct kh_child_spec *spec, struct kh_buf *output,
		  struct kh_buf *complaints, struct kh_child_result *result);
/* The same in two steps, for a child that runs in the background. `argv` and `environment` are only
 * used by the first. Each successful start must be finished. kh_child_start returns false if it
 * could not start it; errno says why. */
bool kh_child_start(struct kh_child *child, const struct kh_child_spec *spec);
bool kh_child_finish(struct kh_child *child, struct kh_buf *output, struct kh_buf *complaints,
		     struct kh_child_result *result);

/*
 * For `prepare`, of a program that reads what an agent made: bounds the memory of its own
 * (RLIMIT_DATA: not the files that it maps to read) and its processor time, each by a hard limit.
 * Where the caller's own hard limit is lower, that one stays. The kernel kills a program that goes
 * past the time; an allocation past the memory fails.
 */
bool kh_child_bound(uint64_t memory_bytes, unsigned cpu_seconds);

/* ---- a function ---- */

/* Calls `what` in a child process, so that its changes to the process (namespaces, identity) affect
 * nothing else. The child is killed with its process group after `most_ms` (kh_child_try:
 * KH_LIMIT_TRIAL_MS), and when this process ends. Return: what `what` returned, with its err; false
 * with `err` if the child was killed. */
bool kh_child_try(bool (*what)(void *arg, struct kh_err *err), void *arg, struct kh_err *err);
bool kh_child_try_within(bool (*what)(void *arg, struct kh_err *err), void *arg, uint32_t most_ms,
			 struct kh_err *err);
/* For `what`, after it changed its identity or entered a namespace: the kernel then forgets the
 * parent-death signal, so this sets it again. Return: false: the parent has ended already. */
bool kh_child_ends_with_parent(void);

/* Starts a watcher: a process in its own session, with all signals blocked and no other descriptor
 * of ours. It calls `then` once this process has ended or has closed *alive, which the caller owns.
 * After an error *alive is as it was, and *pid is no process's. */
bool kh_child_watch(void (*then)(void *arg), void *arg, pid_t *pid, int *alive, struct kh_err *err);
/* After *alive was closed: waits until `then` is done. */
void kh_child_wait(pid_t pid);
/* Starts a process in its own session that has all that this one has, calls `what` and ends with
 * its answer as exit status. `alive` is readable once this process has ended or has closed *ours,
 * which the caller owns. kh_child_status waits for it, and kills it after `most_ms`; -1: it did not
 * end by itself. */
bool kh_child_fork(int (*what)(void *arg, int alive), void *arg, pid_t *pid, int *ours,
		   struct kh_err *err);
int kh_child_status(pid_t pid, uint32_t most_ms);

#endif
