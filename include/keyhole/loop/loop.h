/* loop.h - one event thread: its turns, who lives on it, and what it calls of them */
#ifndef KEYHOLE_LOOP_LOOP_H
#define KEYHOLE_LOOP_LOOP_H

#include <event2/event.h>
#include <event2/event_struct.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/list.h>
#include <keyhole/net/listener.h>
#include <keyhole/net/resolver.h>

#include <keyhole/loop/events.h>
#include <keyhole/loop/worker.h>

struct kh_acceptor;
struct kh_loop;
struct kh_ups;

/* What wants to be called later in this turn; its owner sets `fn` once. It is in one list at most,
 * and whoever dies takes it out (kh_list_remove). */
struct kh_loop_call {
	struct kh_node link;
	void (*fn)(struct kh_loop_call *call);
};

/* When; in this order. What is put into a list that is being called, is called in the next round.
 */
enum kh_loop_when {
	KH_LOOP_DOWN = 0, /* at the turn's end, first: towards the sandboxes */
	KH_LOOP_UP,	  /* … and then: towards the upstreams */
	KH_LOOP_RECORDED, /* the journal has the batch, or can't take it (`journal_failed`) */
	KH_LOOP_ANSWER,	  /* behind all those: what could not be said before */
	KH_LOOP_NEXT,	  /* when the next turn ends, before the others: work that goes on */
	KH_LOOP_WHENS,
};

/* What lives on a loop, and hears of what concerns all: a connection from a sandbox, an exchange.
 * Each call may end the member that it is made on, and others. NULL: it does not care. */
struct kh_loop_member {
	struct kh_node link;
	const struct kh_loop_member_ops *ops;
};
struct kh_loop_member_ops {
	void (*reload)(struct kh_loop_member *member); /* other rules are in force */
	void (*drain)(struct kh_loop_member *member);  /* the daemon ends */
	void (*retire)(struct kh_loop_member *member); /* another process accepts from here on */
	void (*tick)(struct kh_loop_member *member);   /* every second */
	/* The keeper has answered for a leaf, that is for all who wait for one. `signer` as of
	 * kh_generation_signer. */
	void (*leaf_came)(struct kh_loop_member *member, const struct kh_host *host,
			  const char *signer, bool found);
	/* There is something new about that credential of that generation. */
	void (*value_came)(struct kh_loop_member *member, uint32_t generation, uint16_t index);
};

/* What the loop calls of those who stand on it; its worker wires them. */
struct kh_loop_ops {
	/* A connection, with a place at the acceptor and a descriptor of its account that were
	 * taken.
	 */
	void (*accepted)(struct kh_acceptor *acceptor, int fd, const struct kh_peer *peer);
	/* The acceptor ends: whoever came through it (`sessions`) goes. */
	void (*acceptor_ended)(struct kh_acceptor *acceptor, const char *why);
	/* Of connections to upstreams (loop->ups). At first and last: NULL without memory. */
	struct kh_ups *(*ups_new)(void);
	void (*ups_free)(struct kh_ups *ups);
	/* Every second; all that nothing runs on are closed; so are
	 * those that are kept for what came through that acceptor alone. */
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
	_Atomic(uint32_t) taken;   /* its number, for the main thread; 0: it does not run yet */
	unsigned index;
	struct event_base *base;
	struct kh_resolver *resolver;
	SSL_CTX *down_ctx;
	SSL_CTX *up_ctx;
	struct kh_sessions *sessions;
	struct kh_batch batch;
	const struct kh_loop_ops *ops;
	struct kh_node live; /* struct kh_loop_member: connections from sandboxes */
	size_t n_live;
	struct kh_node exchanges;      /* struct kh_loop_member */
	struct kh_node deferred_frees; /* struct kh_deferred_free: freed at the end of the turn */
	struct kh_node calls[KH_LOOP_WHENS]; /* struct kh_loop_call */
	struct kh_ups *ups;		/* connections to upstreams; nobody else looks into it */
	struct kh_acceptor **acceptors; /* one a listener */
	size_t n_acceptors;
	struct kh_node dynamic_sandboxes; /* struct kh_dynamic_sandbox_acceptor.link
					     (dynamic_acceptors.c) */
	size_t n_unsaid;		  /* acceptors of which lines were left out */
	size_t n_counted; /* acceptors with refusals that are counted and in no record yet */
	struct event *wake;
	struct event *tick; /* every second: idle upstreams, a journal that failed */
	int wake_fd;
	pthread_mutex_t mail_lock;
	struct kh_mail *mail;
	bool draining;
	bool retiring;	       /* takes nothing new; connections end with the answers that say so */
	bool journal_failed;   /* said once in the log */
	uint64_t now_ms;       /* of this turn */
	uint64_t skew_said_ms; /* when the log was told last that a clock is off */
	uint8_t masks[1024];   /* random bytes for the masks of WebSocket frames */
	size_t masks_left;
	struct kh_counts counts;
	_Atomic(struct kh_events *)
		events; /* made by the admin thread; NULL: nobody ever watched */
};

/* For those who watch: what was decided last, whose record is the last of the batch. */
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
/* Unless it is called already: when that comes, once. */
static inline void kh_loop_call(struct kh_loop *loop, enum kh_loop_when when,
				struct kh_loop_call *call)
{
	if (!kh_list_has_node(&call->link))
		kh_list_append(&loop->calls[when], &call->link);
}
/* What a turn ends with: all that was touched has its turn, the journal is written, exchanges whose
 * records stand there go on, what ended is freed. (kh_loop_run does it; so does a fuzzer.) */
void kh_loop_turn_end(struct kh_loop *loop);
/* Before a record is made: a batch that is half full is written at once. The other half is for the
 * ends of what was begun, while the journal can't be written. Return: false: nothing new is
 * recorded, so nothing new is begun. */
bool kh_loop_make_room(struct kh_loop *loop);

#endif
