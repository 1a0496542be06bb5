/* dynamic_sandboxes.h - sandboxes that come and go while the worker runs */
#ifndef KEYHOLE_LOOP_DYNAMIC_SANDBOXES_H
#define KEYHOLE_LOOP_DYNAMIC_SANDBOXES_H

#include <keyhole/config/dynamic_sandbox.h>
#include <keyhole/base/list.h>

#include <keyhole/loop/worker.h>

/*
 * The keeper tells the main thread, which keeps the list and posts mail to each event thread. Each
 * event thread opens an acceptor of its own (dynamic_acceptors.c), as for a listener of the
 * configuration. When the dynamic sandbox is removed, the thread closes the acceptor and ends the
 * connections that it accepted. After the last thread has done this, the listening descriptor is
 * closed and the asker is told.
 *
 * A dynamic sandbox does not belong to a generation. A reload can only change the index of its
 * tenant. Before the keeper sends the next configuration, it removes the dynamic sandboxes of
 * tenants that this no longer has.
 */
struct kh_dynamic_sandbox {
	atomic_uint refs;
	uint64_t number;
	char *tenant;
	/* The configuration of its acceptors. `name`, `unix_path` and `sandbox` are owned; `tenant`
	 * is not used. */
	struct kh_listener_config config;
	struct kh_narrowing *narrowing; /* NULL: none */
	struct kh_listener_stats *listener_stats;
	struct kh_account *account; /* a reference */
	uint64_t expires_ms;	    /* wall clock; 0: never */
	bool suspect;		    /* the worker that asked for it ended unexpectedly */
	int fd;			    /* listening */
	struct kh_node link;	    /* in the worker's list, under its lock */
	atomic_uint at_acceptors;   /* threads whose acceptor is not closed yet */
	uint32_t asked; /* the ref of DYNAMIC_SANDBOX_GONE, to answer; 0: nobody waits */
	struct kh_dynamic_sandbox_acceptor
		*acceptors[]; /* indexed by thread; only that thread uses its entry */
};

/* Called, on any thread, when all threads have removed the sandbox that DYNAMIC_SANDBOX_GONE with
 * this `ref` named. `listener_stats`: its counts; NULL: there was no such sandbox. */
typedef void kh_dynamic_sandboxes_gone(struct kh_worker *worker, uint32_t ref,
				       const struct kh_listener_stats *listener_stats);

struct kh_dynamic_sandboxes {
	pthread_mutex_t lock;
	struct kh_lru *by_name; /* holds the references */
	struct kh_node list; /* struct kh_dynamic_sandbox.link, in the order in which they came */
	kh_dynamic_sandboxes_gone *gone;
	size_t count, peak; /* peak: the most since memory was last trimmed */
};

bool kh_dynamic_sandboxes_init(struct kh_worker *worker, kh_dynamic_sandboxes_gone *gone,
			       struct kh_err *err);
struct kh_dynamic_sandbox *kh_dynamic_sandbox_ref(struct kh_dynamic_sandbox *dynamic_sandbox);
void kh_dynamic_sandbox_unref(struct kh_dynamic_sandbox *dynamic_sandbox);
/* DYNAMIC_SANDBOX, DYNAMIC_SANDBOX_GONE. Return: false when it is not what a keeper sends. */
bool kh_dynamic_sandboxes_take(struct kh_worker *worker, struct kh_channel_message *message);
/* Calls `visit` for each, with the lock held: it must be fast and call no function of this
 * header. */
void kh_dynamic_sandboxes_each(struct kh_worker *worker,
			       void (*visit)(void *arg,
					     const struct kh_dynamic_sandbox *dynamic_sandbox),
			       void *arg);
size_t kh_dynamic_sandboxes_count(struct kh_worker *worker);
/* Call it every now and then: returns memory to the system after many sandboxes have gone. */
void kh_dynamic_sandboxes_tick(struct kh_worker *worker);

/* dynamic_acceptors.c: one thread's side */
struct kh_loop;
/* Opens its acceptor. `tenant`: its index in the configuration in force. */
void kh_dynamic_sandbox_enter(struct kh_loop *loop, struct kh_dynamic_sandbox *dynamic_sandbox,
			      uint16_t tenant);
/* Closes its acceptor, for good. */
void kh_dynamic_sandbox_leave(struct kh_loop *loop, struct kh_dynamic_sandbox *dynamic_sandbox);
/* Moves the acceptors from `before` to the generation in force. Return: false without memory. */
bool kh_dynamic_sandbox_acceptors_reload(struct kh_loop *loop, const struct kh_generation *before);
/* Stops accepting. */
void kh_dynamic_sandbox_acceptors_shut(struct kh_loop *loop);
void kh_dynamic_sandbox_acceptors_free(struct kh_loop *loop);
void kh_dynamic_sandbox_acceptors_say_counts(struct kh_loop *loop);
void kh_dynamic_sandbox_acceptors_tick(struct kh_loop *loop);

#endif
