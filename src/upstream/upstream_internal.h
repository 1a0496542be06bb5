/* upstream_internal.h - a connection to an upstream, and the pool of them */
#ifndef KEYHOLE_UPSTREAM_UPSTREAM_INTERNAL_H
#define KEYHOLE_UPSTREAM_UPSTREAM_INTERNAL_H

#include <stdlib.h>
#include <string.h>

#include <keyhole/net/dialer.h>
#include <keyhole/base/escape.h>
#include <keyhole/http/h1.h>
#include <keyhole/http/h2.h>
#include <keyhole/base/log.h>

#include <keyhole/base/charge.h>
#include <keyhole/upstream/connector.h>
#include <keyhole/upstream/upstream.h>

enum { KH_UP_PROTOCOLS = 512, KH_UP_BUCKETS = 4096, KH_UP_MOST_WAITING = KH_LIMIT_H2_STREAMS };

/* Connections without a user, which are kept for the next one. */
struct kh_up_pool {
	struct kh_node list; /* struct kh_up.kept, oldest first */
	size_t n;
};

/* All connections of one event thread. */
struct kh_ups {
	struct kh_up_pool idle;	   /* HTTP/1 */
	struct kh_up_pool resting; /* HTTP/2 */
	struct kh_node made;	   /* struct kh_up.link: being made */
	struct kh_node shared;	   /* struct kh_up.link: HTTP/2 */
	/* struct kh_up_slot.link: a hash table by key, with the same secret seed. */
	struct kh_node slots[KH_UP_BUCKETS];
	/* Which protocols upstreams speak: a hash table by tenant, host and port (up_join.c). A
	 * sandbox chooses the names, so the hash has a secret seed. */
	uint64_t protocols[KH_UP_PROTOCOLS];
	uint64_t seed;
	/* What comes on HTTP/2 connections that nobody uses: one share for all of them. */
	struct kh_work_share of_nobody;
};

enum kh_up_state {
	KH_UP_NEW = 0,
	KH_UP_CONNECTING, /* up_make.c */
	KH_UP_HANDSHAKE,
	KH_UP_BUSY,   /* belongs to a user */
	KH_UP_IDLE,   /* in the pool */
	KH_UP_SHARED, /* HTTP/2: any number of users, also none (up_mux.c) */
	KH_UP_DEAD,
};

/* How much of the answer to the current user's request has come. Not used with HTTP/2, where each
 * stream has its own. */
enum kh_up_answer {
	KH_UP_ANSWER_NONE = 0,
	KH_UP_ANSWER_BEGUN,    /* a byte of it has come */
	KH_UP_ANSWER_FINAL,    /* its final head has come */
	KH_UP_ANSWER_SWITCHED, /* to WebSocket: HTTP is over on the connection */
	KH_UP_ANSWER_ENDED,    /* on a raw connection: the upstream's FIN has come */
};

/*
 * In which list of its slot a connection is (up_slot.c): it follows from what the connection is
 * doing. A connection that takes nobody is in none, or in one that nobody walks.
 */
enum kh_up_list {
	KH_UP_LIST_NONE = 0,	  /* it has a user of its own, or takes no new one, or is gone */
	KH_UP_LIST_LOOKUP,	  /* being made, and a lookup is charged to each user that waits */
	KH_UP_LIST_MADE,	  /* being made, beyond its lookup */
	KH_UP_LIST_BEGUN,	  /* HTTP/2, its SETTINGS have not come */
	KH_UP_LIST_OPEN,	  /* it has room for a stream */
	KH_UP_LIST_OPEN_EXTENDED, /* the same, and takes extended CONNECT (RFC 8441) */
	KH_UP_LIST_FULL,
	KH_UP_LIST_FULL_EXTENDED,
	KH_UP_LIST_IDLE, /* HTTP/1, in the pool */
	KH_UP_LISTS,
};

/* Our FIN, on a raw connection. */
enum kh_up_fin { KH_UP_FIN_NONE = 0, KH_UP_FIN_WANTED, KH_UP_FIN_SENT };

/*
 * A connection to an upstream. It may pass from one sandbox to another, while it is being made
 * (promotion, up_join.c) and between requests. So it points to no acceptor and no session, except
 * through the user that it is lent to and, while it is being made, the charge of the first user in
 * line.
 */
struct kh_up {
	struct kh_deferred_free deferred_free;
	struct kh_node link;	  /* in the list of those that are made or shared */
	struct kh_node kept;	  /* in a pool */
	struct kh_up_slot *slot;  /* that of its key */
	struct kh_node slot_link; /* in that one's `list` */
	enum kh_up_list list;
	struct kh_loop *loop;
	enum kh_up_state state;
	struct kh_up_key key;
	struct kh_up_stream only;	/* HTTP/1: the one stream of a connection */
	struct kh_connector *connector; /* CONNECTING; else NULL */
	bool looks_up; /* a lookup is in progress or about to begin: each user that waits is charged
			  too */
	struct kh_charge
		making; /* for the lookup, until the dial begins or the charge moves to the query */
	struct kh_up_proxy *proxy; /* being made through upstream.proxy; NULL: direct, or made */
	struct kh_leg leg;
	struct kh_buf in;
	struct kh_h1 *h1;
	char peer[KH_SOCKADDR_TEXT_BYTES];
	struct kh_generation *geo_gen; /* a reference: owns the geo lists and databases */
	/* The judged address: the one that was dialled, or that was named to upstream.proxy; len 0:
	 * unknown here. And its place. */
	struct kh_sockaddr judged;
	struct kh_place place;
	enum kh_up_answer answer_state;
	enum kh_up_fin fin_state;
	/* Flags that are valid in any state: */
	bool reused;	/* others have used it before */
	bool reusable;	/* the response said that the connection stays open */
	bool awaited;	/* the upstream sent 100 (Continue): it waits for this request's content */
	bool chunked;	/* the content is sent chunked */
	uint64_t whose; /* the number of the sandbox that used it last (fair_share.h) */
	uint64_t idle_since_ms;
	uint64_t kept_ms;	   /* how long the server keeps it idle, by its Keep-Alive field */
	struct kh_node waiting;	   /* struct kh_up_h2.link: users that wait until it is made, or has
				      answered a PING */
	size_t n_waiting;	   /* in it */
	struct kh_up_mux *mux;	   /* HTTP/2; else NULL */
	struct kh_work_place line; /* its sandbox has done its share of this turn (up_share.c) */
};

/* All connections with one key. */
struct kh_up_slot {
	struct kh_node link; /* in its bucket */
	uint64_t hash;
	struct kh_up_key key; /* with a reference to its identity */
	size_t n_ups;
	struct kh_node lists[KH_UP_LISTS]; /* struct kh_up.slot_link */
};

/* up_slot.c: connections by key */
/* May the same requests use connections with these keys? */
bool kh_up_same_key(const struct kh_up_key *a, const struct kh_up_key *b);
/* Into the slot of its key, which is made if there is none. Return: false without memory. */
bool kh_up_slot_join(struct kh_up *up);
/* Out of it; the last one ends it. */
void kh_up_slot_leave(struct kh_up *up);
/* Return: NULL: there is no connection with that key. */
struct kh_up_slot *kh_up_slot_find(const struct kh_loop *loop, const struct kh_up_key *key);
/* Puts the connection into the list where it belongs now. Called by kh_up_set_state, and wherever
 * its room may have changed. Return: that list. */
enum kh_up_list kh_up_slot_place(struct kh_up *up);
/* Return: the first one of the list; NULL: there is none. */
struct kh_up *kh_up_slot_first(const struct kh_up_slot *slot, enum kh_up_list list);
static inline uint64_t kh_up_mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
	return hash ^ hash >> 32;
}

/* up_state.c: only these assign the states. Return: false with `err` (which may be NULL), and
 * nothing has changed: no such transition, which is a bug in keyhole (machine.h). The connection
 * must end. */
bool kh_up_set_state(struct kh_up *up, enum kh_up_state state, struct kh_err *err);
bool kh_up_set_answer(struct kh_up *up, enum kh_up_answer answer, struct kh_err *err);
bool kh_up_set_fin(struct kh_up *up, enum kh_up_fin fin);

/* upstream.c: making of connections */
void kh_up_close(struct kh_up *up);
/* The connection could not be made: its user fails. Must be the last call of a callback. */
void kh_up_failed(struct kh_up *up, const struct kh_err *err);
/* The rules refuse the user that it is made for; another user that waits may be allowed. Must be
 * the last call, too. */
void kh_up_refused(struct kh_up *up, const struct kh_err *err);
void kh_up_on_stream(struct kh_stream *stream, unsigned events, void *arg);
/* `leg` is connected to the upstream: starts TLS if needed, then the user goes on. */
void kh_up_connected(struct kh_up *up);

/* up_share.c: what comes is work of the sandbox that it is for */
/* Its share; of an HTTP/2 connection that nobody uses, the one of all such connections. NULL:
 * without a bound. */
struct kh_work_share *kh_up_share(const struct kh_up *up);
/* How much of what comes may be processed in this turn. Return: 0: nothing, and it is in line. */
size_t kh_up_may_do(struct kh_up *up);
/* The codec is behind: it goes on in a later turn. */
void kh_up_mux_go_on_later(struct kh_up *up);
/* Its turn in the line. */
void kh_up_on_line(struct kh_work_place *line);
/* Before the handshake: its steps wait for a share, and are charged. */
void kh_up_charge_handshake(struct kh_up *up);
/* An HTTP/2 connection got its first user: it may wait where those that nobody uses do. */
void kh_up_leave_line(struct kh_up *up);
/* It was in line for the user that left, and is now for another one. */
void kh_up_wait_anew(struct kh_up *up);
static inline bool kh_up_is_in_line(const struct kh_up *up)
{
	return kh_work_place_waits(&up->line);
}

/* up_pool.c: those that are kept */
/* Gives the connection back: `keep` puts it into the pool, else it is closed. */
void kh_up_release(struct kh_up *up, bool keep);
/* Takes the most recently used live connection with this key out of the pool. Return: NULL: there
 * is none. */
struct kh_up *kh_up_take_idle(struct kh_loop *loop, const struct kh_up_key *key);

/* A WebSocket was asked for by HTTP/1.1, which the server does not speak: asks by HTTP/2 instead.
 * Return: false: that was done already, or the server did not refuse HTTP/1.1. */
bool kh_up_turn_to_h2(struct kh_up *up);
/* up_pool.c */
/* Into the pool of its version of HTTP. */
void kh_up_pool_enter(struct kh_up *up);
/* Does nothing if it is in none. */
void kh_up_pool_leave(struct kh_up *up);
/* Is there room for `up`? Where its pool is full another one is closed for it. Return: false:
 * whoever used `up` keeps as many as anybody. */
bool kh_up_pool_has_room(const struct kh_up *up);
/* Not yet lent to anybody. */
static inline bool kh_up_is_in_making(const struct kh_up *up)
{
	return up->state < KH_UP_BUSY;
}

/* A user's stream on an HTTP/2 connection, or one that waits for a connection to be made. */
struct kh_up_h2 {
	struct kh_deferred_free deferred_free;
	struct kh_up_stream stream;
	struct kh_node link;	    /* in its connection's streams, or waiting */
	struct kh_node resume_link; /* in its mux's resumes */
	struct kh_h2_stream *h2;    /* NULL: it waits */
	struct kh_charge making;    /* a lookup, while it waits for a connection's address */
	struct kh_charge window;    /* what its window has been widened by */
	size_t read_bytes;	    /* bytes read since then */
	bool paused;
	bool waits;	  /* counted in the connection's n_waiting */
	bool held;	  /* counted in the mux's n_held */
	bool whole;	  /* the request ended with its head */
	bool answered;	  /* a head has come */
	uint64_t ping_ms; /* the mux's ping_ms when the request was sent: it went with a PING; 0:
			     without one */
};

/* The HTTP/2 part of a connection. */
struct kh_up_mux {
	struct kh_up *up;
	struct kh_h2 *h2;
	struct kh_node streams;	  /* struct kh_up_h2.link */
	struct kh_node resumes;	  /* struct kh_up_h2.resume_link: streams that can send again */
	struct kh_loop_call turn; /* something is to be written */
	struct kh_loop_call next; /* heads are left in the connection's input */
	bool lost;		  /* takes no new stream */
	bool ended;		  /* the connection is gone; what was read is still taken */
	bool look;		  /* it has unread bytes */
	size_t n_held;		  /* streams that stand still, and the connection with them */
	uint64_t begun_ms;
	uint64_t read_ms; /* the last byte */
	uint64_t ping_ms; /* when one was sent and nothing came since; 0: none */
};

/* What is known of an upstream's protocols; only a hint. */
enum kh_up_speaks {
	KH_UP_SPEAKS_UNKNOWN = 0,
	KH_UP_SPEAKS_ONLY_H1,
	KH_UP_SPEAKS_H2,
	KH_UP_SPEAKS_ONLY_H2, /* it refused HTTP/1.1 */
};

/* up_join.c: which of those connections a user goes on */
/* Puts the user onto a connection that has room for it, or lets it wait for that. Return: false:
 * there is none. */
bool kh_up_mux_join(struct kh_up_user *user, const struct kh_up_key *key);
/* Lets the user wait for a connection that is being made and may turn out to speak HTTP/2. Return:
 * false: there is none. */
bool kh_up_mux_wait(struct kh_up_user *user, const struct kh_up_key *key);
/* All users that wait, into a list of the caller's. */
void kh_up_mux_take_waiting(struct kh_up *up, struct kh_node *waiting);
/* The lookup has ended: releases its charges. */
void kh_up_mux_is_resolved(struct kh_up *up);
/* The user that the connection is made for has gone: another user that waits takes its place, with
 * its own charge. Return: false: nobody waits. */
bool kh_up_mux_promote(struct kh_up *up);
/* Users that wait: acquire again; move to another connection, unless they have moved too often;
 * fail. */
void kh_up_mux_acquire_anew(struct kh_node *waiting);
void kh_up_mux_move_waiting(struct kh_node *waiting);
void kh_up_mux_fail_waiting(struct kh_node *waiting, const struct kh_err *err);
/* Nothing has come on it for a while. */
bool kh_up_mux_is_silent(const struct kh_up_mux *mux);
/* Is there a connection whose SETTINGS allow (or do not allow) extended CONNECT (RFC 8441)? */
bool kh_up_mux_has(const struct kh_loop *loop, const struct kh_up_key *key, bool extended_connect);
void kh_up_mux_note(struct kh_loop *loop, const struct kh_up_key *key, enum kh_up_speaks what);
enum kh_up_speaks kh_up_mux_known(struct kh_loop *loop, const struct kh_up_key *key);

/* up_mux.c: connections that speak HTTP/2 */
/* The handshake is done and has negotiated HTTP/2 (or not): users that wait go on. */
void kh_up_mux_begin(struct kh_up *up);
void kh_up_mux_not(struct kh_up *up);
void kh_up_mux_event(struct kh_up *up, unsigned events);
/* With what was read, and what is to be read. */
void kh_up_mux_go_on(struct kh_up *up);
void kh_up_mux_free(struct kh_up_mux *mux);
/* Every second: checks for overdue answers to PING, overdue SETTINGS, and idle connections. */
void kh_up_mux_tick(struct kh_loop *loop, uint64_t now_ms);
/* No new streams on any; those without streams end. */
void kh_up_mux_close_idle(struct kh_loop *loop);
void kh_up_mux_close_of_acceptor(struct kh_loop *loop, int64_t acceptor);

/* up_h2.c: streams of such a connection */
struct kh_up_h2 *kh_up_h2_new(struct kh_up_user *user, struct kh_up *up, struct kh_node *list);
/* How many bytes of its head, content and trailers are buffered for the upstream. */
size_t kh_up_h2_line_bytes(const struct kh_up_stream *up);
void kh_up_h2_on_event(const struct kh_h2_event *event, void *arg);
/* Schedules the connection's turn: something is to be written, or a stream came or went. */
void kh_up_mux_touch(struct kh_up_mux *mux);
/* It takes no new stream from here on. */
void kh_up_mux_lose(struct kh_up_mux *mux);
void kh_up_mux_stream_over(struct kh_up_mux *mux);

/* The user goes on, on a stream of that connection. */
void kh_up_is_ready(struct kh_up_user *user, const struct kh_up *up);

/* up_h1.c */
extern const struct kh_up_ops kh_up_h1_ops;
void kh_up_h1_readable(struct kh_up *up);

/* up_raw.c: raw tunnels */
extern const struct kh_up_ops kh_up_raw_ops;
void kh_up_raw_readable(struct kh_up *up);

/* up_make.c: making the connection */
/* Starts making the connection. Return: false with `err`, which is empty if there was no memory. */
bool kh_up_set_out(struct kh_up *up, const struct kh_up_wish *wish, struct kh_err *err);
/* It is made, or has failed: frees the connector and what belongs to it. */
void kh_up_made(struct kh_up *up);

/* up_proxy.c: upstream.proxy and its password */
/* Return: false without memory. */
bool kh_up_proxy_begin(struct kh_up *up);
const struct kh_proxy_config *kh_up_proxy_config(const struct kh_up *up);
/* The tenant's `allow` of the address guard. */
const struct kh_cidr *kh_up_proxy_allowed(const struct kh_up *up, size_t *n);
/* See kh_connector_ops. */
enum kh_connector_password kh_up_proxy_password(struct kh_up *up, struct kh_err *err);
bool kh_up_proxy_put_authorization(struct kh_up *up, struct kh_buf *out, struct kh_err *err);
bool kh_up_proxy_reflects(const struct kh_up *up, struct kh_slice text);
/* Does it wait for this credential's value? */
bool kh_up_proxy_is_password(const struct kh_up *up, uint32_t generation, uint16_t index);
void kh_up_proxy_end(struct kh_up *up);

#endif
