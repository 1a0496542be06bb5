/* loop.h - one event thread: its turns, its members, and their callbacks */
#ifndef KEYHOLE_LOOP_LOOP_H
#define KEYHOLE_LOOP_LOOP_H

#include <event2/event.h>
#include <event2/event_struct.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/list.h>
#include <keyhole/net/listener.h>
#include <keyhole/net/resolver.h>

#include <keyhole/loop/ends.h>
#include <keyhole/loop/events.h>
#include <keyhole/loop/worker.h>

struct kh_acceptor;
struct kh_loop;
struct kh_ups;

/* A call to be made later in this turn. The owner sets `fn` once. It is in at most one list; an
 * owner that is freed removes it (kh_list_remove). */
struct kh_loop_call {
	struct kh_node link;
	void (*fn)(struct kh_loop_call *call);
};

/* When a call is made, in this order. A call added to the list that is running is made in the next
 * round. */
enum kh_loop_when {
	KH_LOOP_DOWN = 0, /* at the end of the turn, first: writes to sandboxes */
	KH_LOOP_UP,	  /* … then writes to upstreams */
	KH_LOOP_RECORDED, /* the batch is in the journal, or failed (`journal_failed`) */
	KH_LOOP_ANSWER,	  /* after those: answers that had to wait for the journal */
	KH_LOOP_NEXT,	  /* at the end of the next turn, before the others: work that was split */
	KH_LOOP_WHENS,
};

/* An object that is notified of events of the whole loop: a connection from a sandbox, or an
 * exchange. Each callback may end its own member and others. A callback may be NULL. */
struct kh_loop_member {
	struct kh_node link;
	const struct kh_loop_member_ops *ops;
};
struct kh_loop_member_ops {
	/* Another generation is in force. From now on nothing goes on under the rules before it;
	 * what has to be decided again waits for its turn (rechecks.h). */
	void (*reload)(struct kh_loop_member *member);
	void (*drain)(struct kh_loop_member *member);  /* the daemon shuts down */
	void (*retire)(struct kh_loop_member *member); /* another process accepts connections from
							  now on (handover) */
	/* The rules of another process apply from now on (superseded): an exchange ends, and says
	 * why where it can. A connection gets `drain`, and a moment later `cut_off`: it ends. */
	void (*supersede)(struct kh_loop_member *member);
	void (*cut_off)(struct kh_loop_member *member);
	void (*tick)(struct kh_loop_member *member); /* every second */
	/* The keeper has answered a request for the leaf of `host`. `signer`: see
	 * kh_generation_signer. */
	void (*leaf_came)(struct kh_loop_member *member, const struct kh_host *host,
			  const char *signer, bool found);
	/* The state of a value of this credential has changed (kh_worker_secret). */
	void (*value_came)(struct kh_loop_member *member, uint32_t generation, uint16_t index);
	/* That question (questions.h) is over. `answered` has at_ms 0: nobody listens any more. */
	void (*answer_came)(struct kh_loop_member *member, uint32_t question,
			    const struct kh_answered *answered);
};

/* What the loop calls in the folders below it; the worker sets it. */
struct kh_loop_ops {
	/* A new connection; the callee owns `fd`. A place of the acceptor and a descriptor of its
	 * account have been taken for it. */
	void (*accepted)(struct kh_acceptor *acceptor, int fd, const struct kh_peer *peer);
	/* The acceptor ends: end the connections that it accepted (`sessions`). */
	void (*acceptor_ended)(struct kh_acceptor *acceptor, const char *why);
	/* Make and free the connections to upstreams (loop->ups). NULL: no memory. */
	struct kh_ups *(*ups_new)(struct kh_loop *loop);
	void (*ups_free)(struct kh_ups *ups);
	/* Called every second; close all idle ones; close those that are kept only for connections
	 * of that acceptor. */
	void (*up_tick)(struct kh_loop *loop);
	void (*up_close_idle)(struct kh_loop *loop);
	void (*up_close_of_acceptor)(struct kh_loop *loop, int64_t acceptor);
};

/*
 * Ownership: the loop owns its down connections and its idle upstream connections. Everything of
 * one connection happens on one thread. Connections and streams that end are taken out of their
 * lists at once and freed at the end of the loop turn.
 */
struct kh_loop {
	struct kh_worker *worker;
	struct kh_generation *gen; /* in force */
	_Atomic(uint32_t)
		taken; /* the number of `gen`, for the main thread; 0: the loop does not run yet */
	unsigned index;
	struct event_base *base;
	struct kh_resolver *resolver;
	SSL_CTX *down_ctx;
	SSL_CTX *up_ctx;
	struct kh_sessions *sessions;
	struct kh_batch batch;
	struct kh_ends ends; /* of exchanges that found no room in it */
	const struct kh_loop_ops *ops;
	struct kh_node live; /* struct kh_loop_member: connections from sandboxes */
	size_t n_live;
	struct kh_node exchanges;      /* struct kh_loop_member */
	struct kh_node rechecks;       /* struct kh_acceptor.rechecks_link (rechecks.c) */
	struct kh_loop_call recheck;   /* the next slice of them */
	struct kh_node work_tenants;   /* struct kh_work_tenant.link (work_share.c) */
	uint64_t decision_steps;       /* of all decisions so far (KH_LIMIT_DECISION_STEPS) */
	struct kh_node deferred_frees; /* struct kh_deferred_free: freed at the end of the turn */
	struct kh_node calls[KH_LOOP_WHENS]; /* struct kh_loop_call */
	struct kh_ups *ups;		     /* connections to upstreams; opaque here */
	struct kh_acceptor **acceptors;	     /* one per listener */
	size_t n_acceptors;
	struct kh_node dynamic_sandboxes; /* struct kh_dynamic_sandbox_acceptor.link
					     (dynamic_acceptors.c) */
	size_t n_unsaid;		  /* acceptors with suppressed log lines */
	size_t n_counted;		  /* acceptors with refusals that no record contains yet */
	struct event *wake;
	struct event *tick;    /* every second: idle upstreams, a journal that failed */
	struct event *cut_off; /* a moment after `superseded` */
	int wake_fd;
	pthread_mutex_t mail_lock;
	struct kh_mail *mail;
	bool draining;
	bool retiring;	 /* takes nothing new; connections are closed after their answers, which say
			    so */
	bool superseded; /* the rules of another process apply: nothing begins here any more */
	bool journal_failed;   /* a commit failed; logged once */
	uint64_t retried_ms;   /* the turn in which kh_loop_may_open tried it again */
	uint64_t now_ms;       /* of this turn */
	uint64_t turn;	       /* its number */
	uint64_t skew_said_ms; /* when a clock skew was last logged */
	uint8_t masks[1024];   /* random bytes for the masks of WebSocket frames */
	size_t masks_left;
	struct kh_counts counts;
	_Atomic(struct kh_events *)
		events; /* made by the admin thread; NULL: nobody ever watched */
};

/* Shows the last record of the batch to watchers (events.h). */
static inline void kh_loop_show(struct kh_loop *loop, const char *tenant, const char *sandbox,
				const struct kh_batch *batch)
{
	struct kh_events *events = atomic_load_explicit(&loop->events, memory_order_acquire);

	if (kh_events_is_watched(events))
		kh_events_put(events, tenant, sandbox, kh_batch_last(batch));
}

static inline void kh_count(struct kh_loop *loop, enum kh_count_index what)
{
	kh_counter_add(&loop->counts.n[what], 1);
}

/* A gauge. */
static inline void kh_uncount(struct kh_loop *loop, enum kh_count_index what)
{
	kh_counter_add(&loop->counts.n[what], UINT64_MAX);
}

/* Freed at the end of the turn by `free_fn`. */
struct kh_deferred_free {
	struct kh_node link;
	void (*free_fn)(struct kh_deferred_free *deferred_free);
};

void kh_loop_free_later(struct kh_loop *loop, struct kh_deferred_free *deferred_free,
			void (*free_fn)(struct kh_deferred_free *));
/* Schedules the call once; does nothing if it is scheduled already, whenever that is. */
static inline void kh_loop_call(struct kh_loop *loop, enum kh_loop_when when,
				struct kh_loop_call *call)
{
	if (!kh_list_has_node(&call->link))
		kh_list_append(&loop->calls[when], &call->link);
}
/* The end of a turn: makes the calls, writes the journal, lets exchanges go on whose records are
 * written, and frees what ended. (Called by kh_loop_run, and by fuzz targets.) */
void kh_loop_turn_end(struct kh_loop *loop);
/* Call it before a record is made that begins something: a batch that is half full is written at
 * once. The other half is for the `close` records of what has begun, while the journal can't be
 * written. Return: false: there is no room, so nothing new may begin. */
bool kh_loop_make_room(struct kh_loop *loop);
/* The same before an open record. While the journal can't be written, the commit is tried again
 * once in a turn: a record that would only join those that failed is not made. Reserves the room
 * for the exchange's end (ends.h). */
bool kh_loop_may_open(struct kh_loop *loop);

#endif
