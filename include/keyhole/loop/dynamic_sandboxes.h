/* dynamic_sandboxes.h - sandboxes that come and go while the worker runs */
#ifndef KEYHOLE_LOOP_DYNAMIC_SANDBOXES_H
#define KEYHOLE_LOOP_DYNAMIC_SANDBOXES_H

#include <keyhole/config/dynamic_sandbox.h>
#include <keyhole/base/list.h>

#include <keyhole/loop/worker.h>

/*
 * The main thread is told by the keeper, keeps the list, and tells each event thread by mail. Each
 * of those opens an acceptor of its own to the dynamic sandbox (dynamic_acceptors.c), as to a
 * listener of the configuration, and shuts it when the dynamic sandbox goes: with it everybody who
 * came through it. When the last thread has done so the socket's descriptor is closed, and who
 * asked is told.
 *
 * A dynamic sandbox does not belong to a generation. What a reload may change for it is the index
 * of its tenant; the keeper takes away the dynamic sandboxes of tenants that are no more, before it
 * sends the next configuration.
 */
struct kh_dynamic_sandbox {
	atomic_uint refs;
	uint64_t number;
	char *tenant;
	/* What its acceptors begin with; `name`, `unix_path` and `sandbox` are owned, `tenant` is
	 * not used. */
	struct kh_listener_config config;
	struct kh_narrowing *narrowing; /* NULL: none */
	struct kh_listener_stats *listener_stats;
	struct kh_account *account; /* a reference */
	uint64_t expires_ms;	    /* by the wall's clock; 0: never */
	bool suspect;		    /* the worker that had it added ended unexpectedly */
	int fd;			    /* listening */
	struct kh_node link;	    /* in the worker's list, under its lock */
	atomic_uint at_acceptors;   /* threads that have not shut theirs */
	uint32_t asked;		    /* DYNAMIC_SANDBOX_GONE's ref: who waits for that; 0: nobody */
	struct kh_dynamic_sandbox_acceptor
		*acceptors[]; /* of each thread, which alone touches it */
};

/* What DYNAMIC_SANDBOX_GONE's ref asked for is done, in all threads; called from any of them.
 * `listener_stats`: what it has done; NULL: it was not there. */
typedef void kh_dynamic_sandboxes_gone(struct kh_worker *worker, uint32_t ref,
				       const struct kh_listener_stats *listener_stats);

struct kh_dynamic_sandboxes {
	pthread_mutex_t lock;
	struct kh_lru *by_name; /* holds the references */
	struct kh_node list; /* struct kh_dynamic_sandbox.link, in the order in which they came */
	kh_dynamic_sandboxes_gone *gone;
	size_t count, peak; /* peak: since memory was given back */
};

bool kh_dynamic_sandboxes_init(struct kh_worker *worker, kh_dynamic_sandboxes_gone *gone,
			       struct kh_err *err);
struct kh_dynamic_sandbox *kh_dynamic_sandbox_ref(struct kh_dynamic_sandbox *dynamic_sandbox);
void kh_dynamic_sandbox_unref(struct kh_dynamic_sandbox *dynamic_sandbox);
/* DYNAMIC_SANDBOX, DYNAMIC_SANDBOX_GONE. Return: false when it is not what a keeper sends. */
bool kh_dynamic_sandboxes_take(struct kh_worker *worker, struct kh_channel_message *message);
/* Runs `visit` on each, under the lock: it does little, and asks nothing of dynamic sandboxes. */
void kh_dynamic_sandboxes_each(struct kh_worker *worker,
			       void (*visit)(void *arg,
					     const struct kh_dynamic_sandbox *dynamic_sandbox),
			       void *arg);
size_t kh_dynamic_sandboxes_count(struct kh_worker *worker);
/* Every now and then: memory that many had who have gone is given back. */
void kh_dynamic_sandboxes_tick(struct kh_worker *worker);

/* dynamic_acceptors.c: one thread's side */
struct kh_loop;
/* Its acceptor opens; `tenant`: its index in the configuration in force. */
void kh_dynamic_sandbox_enter(struct kh_loop *loop, struct kh_dynamic_sandbox *dynamic_sandbox,
			      uint16_t tenant);
/* Its acceptor shuts, for ever. */
void kh_dynamic_sandbox_leave(struct kh_loop *loop, struct kh_dynamic_sandbox *dynamic_sandbox);
/* The configuration in force is another one than `before`. Return: false without memory. */
bool kh_dynamic_sandbox_acceptors_reload(struct kh_loop *loop, const struct kh_generation *before);
/* No more is accepted. */
void kh_dynamic_sandbox_acceptors_shut(struct kh_loop *loop);
void kh_dynamic_sandbox_acceptors_free(struct kh_loop *loop);
void kh_dynamic_sandbox_acceptors_say_counts(struct kh_loop *loop);
void kh_dynamic_sandbox_acceptors_tick(struct kh_loop *loop);

#endif
