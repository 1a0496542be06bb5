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
struct kh_answered;
struct kh_dynamic_sandbox;
struct kh_dynamic_sandboxes;
struct kh_loop;
struct kh_loop_ops;
struct kh_questions;

/* One per credential of the configuration, protected by its generation's lock (values.c). */
struct kh_credential_slot {
	struct kh_credential_value *values; /* one per tenant and scope that was asked for */
	size_t n_values;
};

/* The counters of a listener's connections, over all threads and generations. */
struct kh_listener_stats {
	atomic_uint refs;
	uint64_t number; /* unique in this process, from 1: identifies the sandbox in fair_share.h;
			    of a dynamic sandbox its own, with KH_ASKER_DYNAMIC */
	atomic_uint connections;
	atomic_uint_fast64_t held_bytes;      /* of requests' content (body_buffer.c) */
	atomic_size_t kept_bytes;	      /* by their HTTP/2 streams */
	atomic_uint_fast64_t fates[KH_FATES]; /* outcomes of its requests */
	/* Rate limits (GCRA), as the monotonic time up to which they are used up: questions to the
	 * keeper for values with a scope (values.c), in milliseconds. */
	atomic_uint_fast64_t scope_questions_ms;
	/* Records of refusals, in microseconds. */
	atomic_uint_fast64_t refusals_us;
	/* Requests that were refused only because they held a real value (recognise.c), in
	 * milliseconds. */
	atomic_uint_fast64_t recognitions_ms;
};
/* Made with one reference. Return: NULL without memory. A dynamic sandbox has its own, and frees
 * it. */
struct kh_listener_stats *kh_listener_stats_new(void);

/* What placeholders are recognised by in one generation (generation.c). Immutable. */
struct kh_recogniser {
	struct kh_marks *marks; /* NULL: there are no credentials, and no placeholders */
	size_t n_keys;
	struct kh_name_tag *names; /* of each credential, under each key */
};

/* One loaded configuration with what is made of it (generation.c): a reload replaces it as a whole.
 * Reference-counted. Immutable except for the slots and the counts in the ledger. */
struct kh_generation {
	atomic_uint refs;
	uint32_t number; /* given by the keeper; messages about credentials contain it, so that an
			    index is never used with another configuration */
	struct kh_config *config;
	struct kh_policy *policy;
	struct kh_quota_ledger
		quota_ledger; /* its own mapping of the ledger that all generations share */
	int *listeners;	      /* in the order of config->listeners; owned */
	size_t n_listeners;
	size_t n_down;		  /* listeners that are down; the keeper tries to open them again */
	atomic_uint at_acceptors; /* threads that accept on `listeners`, or will */
	struct kh_listener_stats **listener_stats_list; /* likewise */
	/* Per tenant, references; NULL: one CA signs for all tenants. */
	struct kh_leaves **leaves;
	struct kh_tally **tallies; /* in the order of config->tenants; NULL: no tenant counters */
	/* The accounts of the worker, of each tenant and of each listener's sandbox; references. A
	 * tenant or sandbox that the generation before has too keeps its account. NULL: no
	 * bounds. */
	struct kh_account *whole;
	struct kh_account **tenant_accounts;
	struct kh_account **accounts;
	struct kh_recogniser recogniser;
	struct kh_geo *geo;   /* NULL: no databases */
	bool has_geo;	      /* the keeper has sent GEO, even if there are no databases */
	pthread_mutex_t lock; /* protects slots and uses */
	struct kh_credential_slot *slots;
	uint64_t uses; /* counts uses of values: the clock of their `used` */
};

/* The main thread owns the channel's receiving end. Everything else is set before the event threads
 * start, atomic, or protected by a lock. */
struct kh_worker {
	struct kh_channel channel;
	struct kh_generation *current; /* the main thread's reference; loops have their own */
	struct kh_generation *next;    /* a reload that has begun */
	struct kh_leaves *leaves;      /* of the shared CA; the tenants' are branches of it */
	struct kh_roots *roots;
	struct kh_journal *journal;
	int journal_fd;		      /* append-only */
	atomic_bool journal_is_short; /* little disk space: refusals are only counted */
	struct kh_loop **loops;
	unsigned n_loops;
	int taken_fd;	    /* eventfd: an event thread has taken a generation; -1: nobody waits */
	uint32_t confirmed; /* the generation in the last READY */
	atomic_bool draining;
	unsigned fd_limit;    /* RLIMIT_NOFILE */
	unsigned fd_acceptor; /* connections from sandboxes get only descriptors below this number,
				 so that some are left for upstreams */
	unsigned fd_begun;    /* how many were open at the start */
	uint64_t memory_most; /* in bytes, half of the machine's; 0: unknown */
	pthread_mutex_t lock; /* protects `wanted` */
	struct kh_admin *admin;				/* NULL: no admin socket */
	struct kh_dynamic_sandboxes *dynamic_sandboxes; /* dynamic_sandboxes.h */
	struct kh_questions *questions; /* questions.h; NULL: nobody is ever asked */
	pthread_mutex_t fingerprints_lock;
	struct kh_fingerprints *fingerprints; /* real values that no request may contain */
	struct kh_wanted_leaf *wanted;	      /* unanswered requests for leaves (leaf_requests.c) */
};

/* generation.c */
struct kh_generation *kh_generation_ref(struct kh_generation *g);
void kh_generation_unref(struct kh_generation *g);
/* This thread no longer accepts on the generation's listeners. The last thread's call closes
 * them. */
void kh_generation_leave_acceptors(struct kh_generation *g);
/* Makes a generation from a SNAPSHOT message; `before` is the one in force, or NULL. Return: with
 * one reference; NULL with `err`. */
struct kh_generation *kh_generation_take_snapshot(struct kh_channel_message *message,
						  const struct kh_generation *before,
						  struct kh_err *err);
bool kh_generation_take_geo(struct kh_generation *g, const struct kh_channel_message *message,
			    struct kh_err *err);
bool kh_generation_take_listeners(struct kh_generation *g, struct kh_channel_message *message,
				  struct kh_err *err);
bool kh_generation_is_whole(const struct kh_generation *g);
/* Tells the main thread that the calling event thread has changed to another generation. */
void kh_worker_note_taken(const struct kh_worker *worker);
/* How many event threads this configuration has; at most KH_WORKER_THREADS_MOST. */
enum { KH_WORKER_THREADS_MOST = 64 };
unsigned kh_generation_threads(const struct kh_config *config);

/* fingerprints.c: takes a FINGERPRINTS message; and returns a reference to the list in force, on
 * any thread. */
bool kh_worker_take_fingerprints(struct kh_worker *worker, struct kh_channel_message *message,
				 struct kh_err *err);
struct kh_fingerprints *kh_worker_fingerprints(struct kh_worker *worker);

/* worker.c, for the event threads; safe from any of them. */
/* Requests a leaf from the keeper, unless that was done already. Every loop gets the answer by
 * kh_loop_post_leaf. */
enum kh_leaf_ask {
	KH_LEAF_ASKED = 1, /* requested, now or earlier: an answer will come */
	KH_LEAF_LATER,	   /* `account` has as many open requests as it may: try again at the next
			      answer */
	KH_LEAF_FAILED,
};
enum kh_leaf_ask kh_worker_request_leaf(struct kh_worker *worker, const struct kh_generation *g,
					uint16_t tenant, const struct kh_authority *authority,
					struct kh_account *account);
/* The leaves that a tenant's sandboxes are shown. A view; not a reference. */
struct kh_leaves *kh_worker_leaves(const struct kh_worker *worker, const struct kh_generation *g,
				   uint16_t tenant);
/* The name of the CA that signs for that tenant: the tenant's own name, or "" for the shared CA. */
const char *kh_generation_signer(const struct kh_generation *g, uint16_t tenant);

/* loop.c: one event thread. */
/* Called before the lock-in: makes event base, resolver and TLS contexts; later nothing is opened.
 * `ops` must outlive the loop. Return: NULL with `err`. */
struct kh_loop *kh_loop_new(struct kh_worker *worker, unsigned index, const struct kh_loop_ops *ops,
			    struct kh_slice resolv_conf, struct kh_slice hosts, struct kh_err *err);
/* The thread's body; returns when it has drained. */
void kh_loop_run(struct kh_loop *loop);
void kh_loop_free(struct kh_loop *loop);
/* The number of the newest generation that all loops have taken: no loop uses an older one. 0: not
 * all loops run yet. */
uint32_t kh_loops_taken(const struct kh_worker *worker);
/* From the main thread: post mail to the loop and wake it. */
/* `signer`: see kh_generation_signer. */
void kh_loop_post_leaf(struct kh_loop *loop, const struct kh_host *host, const char *signer,
		       bool found);
void kh_loop_post_credential(struct kh_loop *loop, uint32_t generation, uint16_t index);
/* Takes a reference of its own. */
void kh_loop_post_reload(struct kh_loop *loop, struct kh_generation *g);
/* A dynamic sandbox was added, or is removed; each takes a reference of its own. */
void kh_loop_post_dynamic_sandbox(struct kh_loop *loop, struct kh_dynamic_sandbox *dynamic_sandbox,
				  uint16_t tenant);
void kh_loop_post_dynamic_sandbox_gone(struct kh_loop *loop,
				       struct kh_dynamic_sandbox *dynamic_sandbox);
/* A question is over (questions.h). */
void kh_loop_post_answer(struct kh_loop *loop, uint32_t question,
			 const struct kh_answered *answered);
void kh_loop_post_drain(struct kh_loop *loop);
void kh_loop_post_retire(struct kh_loop *loop);
void kh_loop_post_superseded(struct kh_loop *loop);

#endif
