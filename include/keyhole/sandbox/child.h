/* child.h - a program, or a function, in a process of its own */
#ifndef KEYHOLE_SANDBOX_CHILD_H
#define KEYHOLE_SANDBOX_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>

/* ---- a program, until a deadline ---- */

enum kh_child_complaints {
	KH_CHILD_DROP = 0, /* standard error goes nowhere */
	KH_CHILD_TOGETHER, /* … where the output goes */
	KH_CHILD_APART	   /* … into a buffer of its own */
};

struct kh_child_spec {
	const char *program; /* absolute; NULL: argv[0] */
	char *const *argv;
	char *const *environment; /* NULL: this process's */
	const char *folder;	  /* in which it runs; NULL: this process's */
	int input;		  /* a descriptor, for standard input; -1: /dev/null */
	enum kh_child_complaints complaints;
	/* The last thing in the child before the program: another identity, limits, descriptors
	   above 2 that it shall have. NULL: nothing. False: it is not started. */
	bool (*prepare)(void *arg);
	/* Asked now and then: is it to be ended? NULL: never. */
	bool (*is_over)(void *arg);
	void *arg;
	uint64_t most_ms;   /* from its start on; it is ended then */
	bool end_when_full; /* also when its output is more than there is room for */
};

enum kh_child_end {
	KH_CHILD_NOT_STARTED = 0, /* errno says why */
	KH_CHILD_ENDED,		  /* by itself, or by a signal that is not from here */
	KH_CHILD_LATE,
	KH_CHILD_OVER, /* is_over said so */
	KH_CHILD_FULL
};

struct kh_child_result {
	enum kh_child_end end;
	int status; /* of its end: 0 to 255 (127: there is no such program); -1: by a signal */
	bool cut;   /* its output was more than there was room for */
};

struct kh_child {
	struct kh_child_spec spec;
	pid_t pid;     /* 0: there is none */
	int ended;     /* a descriptor of the process */
	int says[2];   /* output, complaints */
	uint64_t late; /* monotonic, in milliseconds */
};

/*
 * The child is the leader of a process group, is killed when this process ends, has no signal
 * blocked, and of our descriptors it has the three alone. What it says is read while it runs and
 * goes into `output` and `complaints` up to their caps (NULL: it is dropped). One that is ended is
 * killed with its group. Return: it ended by itself with status 0 and nothing was cut off.
 */
bool kh_child_run(const struct kh_child_spec *spec, struct kh_buf *output,
		  struct kh_buf *complaints, struct kh_child_result *result);
/* The same in two steps, for one that runs meanwhile; `argv` and `environment` are used in the
 * first alone. Each start is finished. Return of the first: false: not started, as errno says. */
bool kh_child_start(struct kh_child *child, const struct kh_child_spec *spec);
bool kh_child_finish(struct kh_child *child, struct kh_buf *output, struct kh_buf *complaints,
		     struct kh_child_result *result);

/* ---- a function ---- */

/* Does it in a process that ends with it: what it does to itself (namespaces, identity) is gone
 * then. It is killed with its process group after KH_LIMIT_TRIAL_MS, and when this process ends.
 * Return: what it returned, with its err; false where it was ended. */
bool kh_child_try(bool (*what)(void *arg, struct kh_err *err), void *arg, struct kh_err *err);
bool kh_child_try_within(bool (*what)(void *arg, struct kh_err *err), void *arg, uint32_t most_ms,
			 struct kh_err *err);
/* For `what`, after it changed its identity or entered a namespace, which undoes that it is killed
 * with its parent: once more. Return: false: the parent has ended already. */
bool kh_child_ends_with_parent(void);

/* A process in a session of its own, which no signal reaches and which holds nothing of ours open:
 * it waits until this process has ended or closed *alive, and does that. */
bool kh_child_watch(void (*then)(void *arg), void *arg, pid_t *pid, int *alive, struct kh_err *err);
/* For who has closed it: waits until that is done. */
void kh_child_wait(pid_t pid);

#endif
