/* worker.h - what the worker's main thread and its event threads share */
#ifndef KEYHOLE_LOOP_WORKER_H
#define KEYHOLE_LOOP_WORKER_H

#include <pthread.h>
#include <stdatomic.h>

#include <keyhole/base/account.h>
#include <keyhole/audit/audit.h>
#include <keyhole/base/channel.h>
#include <keyhole/config/config.h>
#include <keyhole/net/geo.h>
#include <keyhole/policy/policy.h>
#include <keyhole/policy/quota.h>
#include <keyhole/credential/fingerprints.h>
#include <keyhole/base/secret.h>
#include <keyhole/credential/placeholder.h>
#include <keyhole/tls/tls.h>

#include <keyhole/loop/metrics.h>

struct kh_admin;
struct kh_dynamic_sandbox;
struct kh_dynamic_sandboxes;
struct kh_loop;
struct kh_loop_ops;

/* One a credential of the configuration, under its generation's lock (values.c). */
struct kh_credential_slot {
	struct kh_credential_value *values; /* one a tenant and scope that was asked for */
	size_t n_values;
};

/* What a listener's connections are counted by, over all threads and generations. */
struct kh_listener_stats {
	atomic_uint refs;
	uint64_t number; /* of this process, from 1: who asks for a value's scope (fair_share.h) */
	atomic_uint connections;
	atomic_uint_fast64_t held_bytes;      /* of requests' content (body_buffer.c) */
	atomic_size_t kept_bytes;	      /* by their HTTP/2 streams */
	atomic_uint_fast64_t fates[KH_FATES]; /* what became of its requests */
	/* Monotonic: until when its questions for a scope have taken up their places (values.c). */
	atomic_uint_fast64_t scope_questions_ms;
	/* Likewise, in microseconds: until when its refusals have used up their records. */
	atomic_uint_fast64_t refusals_us;
	/* Likewise, in milliseconds: its requests that only a real value in them kept from leaving
	 * (recognise.c). */
	atomic_uint_fast64_t recognitions_ms;
};
/* With one reference. NULL without memory. Dynamic sandboxes have theirs to themselves, and free
 * it. */
struct kh_listener_stats *kh_listener_stats_new(void);

/* How placeholders are known under one configuration (generation.c); nothing of it changes. */
struct kh_recogniser {
	struct kh_marks *marks; /* NULL: there are no credentials, and no placeholders */
	size_t n_keys;
	struct kh_name_tag *names; /* of each credential, under each key */
};

/* A configuration in force (generation.c): what a reload replaces, all at once. Counted; but for
 * the slots, and what is counted in the ledger, nothing in it changes. */
struct kh_generation {
	atomic_uint refs;
	uint32_t number; /* the keeper's; messages about credentials carry it, so that an index is
			    never taken for one of another configuration */
	struct kh_config *config;
	struct kh_policy *policy;
	struct kh_quota_ledger quota_ledger; /* its own mapping of what all generations count in */
	int *listeners;			     /* in the order of config->listeners; owned */
	size_t n_listeners;
	size_t n_down; /* of them: nobody can connect, the keeper tries again to open them */
	atomic_uint at_acceptors;			/* threads that accept from them, or will */
	struct kh_listener_stats **listener_stats_list; /* likewise */
	/* Of the tenants, whose CAs are their own; references. NULL: one CA signs for all. */
	struct kh_leaves **leaves;
	struct kh_tally **tallies; /* in the order of config->tenants; NULL: nothing is counted */
	/* Of the worker, of each tenant and of each listener's sandbox; references. What is the
	   same in the generation before has the same account. NULL: without bounds. */
	struct kh_account *whole;
	struct kh_account **tenant_accounts;
	struct kh_account **accounts;
	struct kh_recogniser recogniser;
	struct kh_geo *geo;   /* NULL: there are no databases */
	bool has_geo;	      /* the keeper has said so */
	pthread_mutex_t lock; /* slots, uses */
	struct kh_credential_slot *slots;
	uint64_t uses; /* of values */
};

/* The main thread owns the channel's receiving end; all else is set before the event threads start,
 * or locked. */
struct kh_worker {
	struct kh_channel channel;
	struct kh_generation *current; /* the main thread's reference; loops have their own */
	struct kh_generation *next;    /* a reload that has begun */
	struct kh_leaves *leaves;      /* of the one CA; the trunk of those of tenants */
	struct kh_roots *roots;
	struct kh_journal *journal;
	int journal_fd;		      /* that appends */
	atomic_bool journal_is_short; /* of space: refusals are only counted */
	struct kh_loop **loops;
	unsigned n_loops;
	int taken_fd;	    /* eventfd: a thread has taken a generation; -1: nobody waits for it */
	uint32_t confirmed; /* READY's last */
	atomic_bool draining;
	unsigned fd_limit;    /* RLIMIT_NOFILE */
	unsigned fd_acceptor; /* above it no sandbox's connection is taken: upstreams need some too
			       */
	unsigned fd_begun;    /* those that it began with */
	uint64_t memory_most; /* half of the machine's; 0: not known */
	pthread_mutex_t lock; /* wanted leaves */
	struct kh_admin *admin;				/* NULL: nobody looks */
	struct kh_dynamic_sandboxes *dynamic_sandboxes; /* dynamic_sandboxes.h */
	pthread_mutex_t fingerprints_lock;
	struct kh_fingerprints *fingerprints; /* what no sandbox may send */
	struct kh_wanted_leaf *wanted; /* hosts asked for and not yet answered (leaf_requests.c) */
};

/* generation.c */
struct kh_generation *kh_generation_ref(struct kh_generation *g);
void kh_generation_unref(struct kh_generation *g);
/* One of the threads accepts from its listeners no more; behind the last they are closed. */
void kh_generation_leave_acceptors(struct kh_generation *g);
/* From SNAPSHOT; `before` is the one in force, or NULL. */
struct kh_generation *kh_generation_take_snapshot(struct kh_channel_message *message,
						  const struct kh_generation *before,
						  struct kh_err *err);
bool kh_generation_take_geo(struct kh_generation *g, const struct kh_channel_message *message,
			    struct kh_err *err);
bool kh_generation_take_listeners(struct kh_generation *g, struct kh_channel_message *message,
				  struct kh_err *err);
bool kh_generation_is_whole(const struct kh_generation *g);
/* Wakes the main thread: the one that calls works by another generation from now on. */
void kh_worker_note_taken(const struct kh_worker *worker);
/* How many event threads there are under it. */
enum { KH_WORKER_THREADS_MOST = 64 };
unsigned kh_generation_threads(const struct kh_config *config);

/* fingerprints.c: the message FINGERPRINTS; and the list in force, a reference, for any thread. */
bool kh_worker_take_fingerprints(struct kh_worker *worker, struct kh_channel_message *message,
				 struct kh_err *err);
struct kh_fingerprints *kh_worker_fingerprints(struct kh_worker *worker);

/* worker.c, for the event threads; safe from any of them. */
/* Asks the keeper unless it was asked already; the answer comes to every loop by
 * kh_loop_post_leaf. */
enum kh_leaf_ask {
	KH_LEAF_ASKED = 1, /* by now or before: an answer comes */
	KH_LEAF_LATER,	   /* `account` waits for as many as it may: again when one has come */
	KH_LEAF_FAILED,
};
enum kh_leaf_ask kh_worker_want_leaf(struct kh_worker *worker, const struct kh_generation *g,
				     uint16_t tenant, const struct kh_authority *authority,
				     struct kh_account *account);
/* What a tenant's sandboxes are shown. */
struct kh_leaves *kh_worker_leaves(const struct kh_worker *worker, const struct kh_generation *g,
				   uint16_t tenant);
/* Whose CA signs for that tenant: its name, or "": the one CA does. */
const char *kh_generation_signer(const struct kh_generation *g, uint16_t tenant);

/* loop.c: one event thread. */
/* Before the lock-in: event base, resolver, TLS contexts; opens nothing afterwards. `ops` lasts. */
struct kh_loop *kh_loop_new(struct kh_worker *worker, unsigned index, const struct kh_loop_ops *ops,
			    struct kh_slice resolv_conf, struct kh_slice hosts, struct kh_err *err);
/* The thread's body; returns when it has drained. */
void kh_loop_run(struct kh_loop *loop);
void kh_loop_free(struct kh_loop *loop);
/* The number of the newest generation that all loops have taken: none decides by one before it. 0:
 * not all of them run yet. */
uint32_t kh_loops_taken(const struct kh_worker *worker);
/* From the main thread: wake the loop and tell it. */
/* `signer` as of kh_generation_signer. */
void kh_loop_post_leaf(struct kh_loop *loop, const struct kh_host *host, const char *signer,
		       bool found);
void kh_loop_post_credential(struct kh_loop *loop, uint32_t generation, uint16_t index);
/* Takes a reference of its own. */
void kh_loop_post_reload(struct kh_loop *loop, struct kh_generation *g);
/* A dynamic sandbox came, or goes; each takes a reference of its own. */
void kh_loop_post_dynamic_sandbox(struct kh_loop *loop, struct kh_dynamic_sandbox *dynamic_sandbox,
				  uint16_t tenant);
void kh_loop_post_dynamic_sandbox_gone(struct kh_loop *loop,
				       struct kh_dynamic_sandbox *dynamic_sandbox);
void kh_loop_post_drain(struct kh_loop *loop);
void kh_loop_post_retire(struct kh_loop *loop);

#endif
