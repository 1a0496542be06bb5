/* loop_internal.h - one event thread, its doors, and what waits to be written to a connection */
#ifndef KEYHOLE_PROXY_LOOP_INTERNAL_H
#define KEYHOLE_PROXY_LOOP_INTERNAL_H

#include <event2/event.h>
#include <event2/event_struct.h>

#include <keyhole/buf.h>
#include <keyhole/list.h>
#include <keyhole/listener.h>
#include <keyhole/resolver.h>

#include "events.h"
#include "worker_internal.h"

struct kh_exchange;
struct kh_session;

enum { KH_LOOP_PROTOCOLS = 512 };

/*
 * Ownership: the loop owns its sessions (down connections) and its idle upstream connections. A
 * session owns the down streams that its connection carries, a down stream at most one exchange,
 * and an exchange holds at most one up stream while it lasts (exchange_internal.h). Everything of
 * one connection happens on one thread. Connections and streams that end are taken out of their
 * lists at once and freed at the end of the loop turn.
 */
struct kh_loop {
	struct kh_worker *worker;
	struct kh_generation *gen; /* in force */
	unsigned index;
	struct event_base *base;
	struct kh_resolver *resolver;
	SSL_CTX *down_ctx;
	SSL_CTX *up_ctx;
	struct kh_sessions *sessions;
	struct kh_batch batch;
	struct kh_node live; /* struct kh_session.link */
	size_t n_live;
	struct kh_node exchanges; /* struct kh_exchange.link */
	struct kh_node graves;	  /* struct kh_grave: freed at the end of the turn */
	struct kh_node
		commits; /* struct kh_exchange.commit_link: their open records are in the batch */
	struct kh_node held;	/* struct kh_session.held_link: their refusals are in the batch */
	struct kh_node touched; /* struct kh_session.touch_link: their turn is at the end of this */
	struct kh_node idle_ups; /* struct kh_up.link, oldest first */
	size_t n_idle_ups;
	struct kh_node made_ups;   /* struct kh_up.link: from the first step to the last */
	struct kh_node shared_ups; /* HTTP/2 */
	struct kh_node dirty_ups;  /* struct kh_up_mux.dirty_link */
	uint32_t protocols[KH_LOOP_PROTOCOLS]; /* what upstreams speak, by their key (up_mux.c) */
	struct kh_door **doors;		       /* one a listener */
	size_t n_doors;
	struct kh_node guests; /* struct kh_guest_door.link (guest_doors.c) */
	size_t n_unsaid;       /* doors of which lines were left out */
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
struct kh_grave {
	struct kh_node link;
	void (*free_fn)(struct kh_grave *grave);
};

/* A listener as one thread sees it. */
struct kh_door {
	struct kh_grave grave;
	struct kh_loop *loop;
	struct kh_gate *gate;
	const struct kh_listener_config *config;
	const struct kh_narrowing *narrowing; /* of the policy in force; NULL: none */
	struct kh_node sessions;	      /* struct kh_session.door_link: who came through it */
	int64_t number; /* no other door of this worker has it: of two that were there, no two */
	struct event *event;
	struct event *resume;	  /* after running out of descriptors */
	struct kh_secret *secret; /* the token of TCP; nobody is let in before it is there */
	double tries;		  /* wrong tokens that are still looked at */
	uint64_t tries_ms;
	unsigned resolving; /* names, for its exchanges on this thread */
	double leaf_tokens; /* this thread's share of the sandbox's leaves */
	uint64_t leaf_tokens_ms;
	double log_tokens; /* and of its lines in the log */
	uint64_t log_tokens_ms;
	uint64_t unsaid, unsaid_since_ms;	/* lines that were left out */
	struct kh_owner_tag tags[KH_MARK_KEYS]; /* of this sandbox's placeholders, for … */
	uint64_t tags_of;			/* … this generation's number, and one */
	unsigned handshakes; /* with this sandbox, since it last resumed a session */
};

/* A connection with what waits to be written to it. */
struct kh_leg {
	struct kh_stream *stream; /* NULL: not connected */
	struct kh_buf out;
	uint64_t written_bytes;
	bool failed; /* a write failed: nothing more is written */
};

/* What one side may read ahead before it has to wait for the other. */
enum { KH_LEG_HIGH_BYTES = KH_LIMIT_RELAY_BYTES, KH_LEG_READ_BYTES = 16 * 1024 };

void kh_leg_init(struct kh_leg *leg, bool wiping);
void kh_leg_fini(struct kh_leg *leg);
/* Writes now what goes when nothing waits, keeps the rest. Return: false when the connection failed
 * or the cap is reached. */
bool kh_leg_put(struct kh_leg *leg, struct kh_slice bytes);
/* Writes what waits. Return: false when the connection failed. */
bool kh_leg_flush(struct kh_leg *leg);
/* Before a credential is put: until all has been written, what waits is hidden (hidden.h). What
 * comes out of hidden memory says so by itself. Return: false without memory. */
bool kh_leg_hide(struct kh_leg *leg);
/* Position behind all that was put. */
uint64_t kh_leg_position(const struct kh_leg *leg);
/* Takes back what was put since, if none of it has left. */
bool kh_leg_rewind(struct kh_leg *leg, uint64_t position);
static inline bool kh_leg_is_full(const struct kh_leg *leg)
{
	return kh_buf_len(&leg->out) >= KH_LEG_HIGH_BYTES;
}

/* loop.c */
void kh_loop_bury(struct kh_loop *loop, struct kh_grave *grave, void (*free_fn)(struct kh_grave *));
/* The exchange goes on (kh_exchange_committed) when its record is in the journal. */
void kh_loop_commit(struct kh_loop *loop, struct kh_exchange *exchange);
/* A refusal is in the batch: its answer leaves when the journal has it (or can't take it). */
void kh_loop_hold(struct kh_session *session);
/* What a turn ends with: all that was touched has its turn, the journal is written, exchanges whose
 * records stand there go on, what ended is freed. (kh_loop_run does it; so does a fuzzer.) */
void kh_loop_turn_end(struct kh_loop *loop);
/* kh_session_turn at the end of the loop's turn: once, however many ask for it. */
void kh_loop_touch(struct kh_session *session);
/* Before a record is made: a batch that is half full is written at once. The other half is for the
 * ends of what was begun, while the journal can't be written. Return: false: nothing new is
 * recorded, so nothing new is begun. */
bool kh_loop_make_room(struct kh_loop *loop);

/* doors.c */
/* From those of the generation before, which at first is the same. Return: false without memory. */
bool kh_doors_reload(struct kh_loop *loop, const struct kh_generation *before);
void kh_doors_shut(struct kh_loop *loop);
/* The parts of which the doors are made, also those of guests (guests.h). */
void kh_door_init(struct kh_door *door, struct kh_loop *loop);
/* Accepts from that descriptor, which stays the caller's. Return: false without memory. */
bool kh_door_open(struct kh_door *door, int listener);
void kh_door_close(struct kh_door *door);
/* Accepts no more, and whoever came through it goes. The caller buries it. */
void kh_door_end(struct kh_door *door, const char *why);
void kh_door_tick(struct kh_door *door);
void kh_doors_free(struct kh_loop *loop);
void kh_door_left(struct kh_door *door); /* one of its connections ended */
/* One more connection of this sandbox within `max_connections`? kh_door_left gives it back. */
bool kh_door_take_place(struct kh_door *door);
/* An HTTP/2 connection keeps `now` bytes, and kept `before` when it was asked last. Return: false:
 * that is too much, with all that the sandbox's others keep. */
bool kh_door_may_keep(struct kh_door *door, size_t before, size_t now);
/* One more of its streams? */
bool kh_door_takes_streams(const struct kh_door *door);
/* A token may have come, for those that wait for one. */
void kh_doors_look_for_tokens(struct kh_loop *loop);
/* May one more token be looked at? Not after too many wrong ones. */
bool kh_door_may_try(struct kh_door *door);
void kh_door_was_wrong(struct kh_door *door);
/* One more leaf for this sandbox within its rate? */
bool kh_door_may_mint(struct kh_door *door);
/* One more line in the operator's log for what this sandbox does, within its rate? What is left out
 * is counted, and the count is said. */
bool kh_door_may_log(struct kh_door *door);
void kh_doors_tick(struct kh_loop *loop);
/* A session ticket for the handshake that begins? Making one takes a twentieth of a handshake, and
 * a sandbox whose clients never come back with it gets few. */
bool kh_door_spends_ticket(struct kh_door *door);

#endif
