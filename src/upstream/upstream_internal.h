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

enum { KH_UP_PROTOCOLS = 512 };

/* Those of one event thread. */
struct kh_ups {
	struct kh_node idle; /* struct kh_up.link, oldest first */
	size_t n_idle;
	struct kh_node made;   /* struct kh_up.link: from the first step to the last */
	struct kh_node shared; /* HTTP/2 */
	/* What upstreams speak, by tenant, host and port (up_join.c). A sandbox chooses the names:
	 * it must not choose the places. */
	uint64_t protocols[KH_UP_PROTOCOLS];
	uint64_t seed;
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

/* What the upstream has said to the request of the user that the connection is lent to. Not with
 * HTTP/2, whose streams have their own. */
enum kh_up_answer {
	KH_UP_ANSWER_NONE = 0,
	KH_UP_ANSWER_BEGUN,    /* a byte of it has come */
	KH_UP_ANSWER_FINAL,    /* its final head has come */
	KH_UP_ANSWER_SWITCHED, /* to WebSocket: HTTP is over on the connection */
	KH_UP_ANSWER_ENDED,    /* of a raw one: the upstream's end has come */
};

/* Our end, of a raw one. */
enum kh_up_fin { KH_UP_FIN_NONE = 0, KH_UP_FIN_WANTED, KH_UP_FIN_SENT };

/*
 * A connection to an upstream. It may go from one sandbox to another, in the making (it is
 * promoted, up_join.c) and between requests, so it points to no acceptor and no session: only the
 * user that it is lent to knows them, and the charge of whoever is first in line while it is made.
 */
struct kh_up {
	struct kh_deferred_free deferred_free;
	struct kh_node link; /* in the list of those that are made, idle or shared */
	struct kh_loop *loop;
	enum kh_up_state state;
	struct kh_up_key key;
	struct kh_up_stream only;	/* HTTP/1: the one stream of a connection */
	struct kh_connector *connector; /* CONNECTING; else NULL */
	bool looks_up;		   /* a name, or is about to: whoever waits is charged for it too */
	struct kh_charge making;   /* a lookup, until it is dialled, or a question goes on alone */
	struct kh_up_proxy *proxy; /* on the way through upstream.proxy; NULL: direct, or there */
	struct kh_leg leg;
	struct kh_buf in;
	struct kh_h1 *h1;
	char peer[KH_SOCKADDR_TEXT_BYTES];
	struct kh_generation *geo_gen; /* a reference: whose lists and databases judge */
	/* What was judged: the address that was dialled, or that upstream.proxy was told; len 0:
	 * nobody here knows it. And where it lies. */
	struct kh_sockaddr judged;
	struct kh_place place;
	enum kh_up_answer answer_state;
	enum kh_up_fin fin_state;
	/* Facts that go with any state: */
	bool reused;	/* others have used it before */
	bool reusable;	/* the response said that the connection stays open */
	bool awaited;	/* the upstream said 100: it waits for this request's content */
	bool chunked;	/* so the content goes up */
	uint64_t whose; /* the number of the sandbox that used it last (fair_share.h) */
	uint64_t idle_since_ms;
	uint64_t kept_ms;	/* for so long the server keeps it without use, by its own word */
	struct kh_node waiting; /* struct kh_up_h2.link: until it is made, or has shown life */
	struct kh_up_mux *mux;	/* HTTP/2; else NULL */
};

/* up_state.c: the only ones who assign. Return: false with `err` (which may be NULL), and nothing
 * has changed: that can't follow, which is a fault of ours (machine.h). The connection must end. */
bool kh_up_set_state(struct kh_up *up, enum kh_up_state state, struct kh_err *err);
bool kh_up_set_answer(struct kh_up *up, enum kh_up_answer answer, struct kh_err *err);
bool kh_up_set_fin(struct kh_up *up, enum kh_up_fin fin);

/* upstream.c: making of connections */
void kh_up_close(struct kh_up *up);
/* The making of it has failed: the user does. Last thing that a callback does. */
void kh_up_failed(struct kh_up *up, const struct kh_err *err);
/* The rules refuse the one that it is made for; who waits beside it may be let there. Likewise. */
void kh_up_refused(struct kh_up *up, const struct kh_err *err);
void kh_up_on_stream(struct kh_stream *stream, unsigned events, void *arg);
/* The bytes of `leg` reach the upstream: TLS where that is due, then the user. */
void kh_up_connected(struct kh_up *up);

/* up_pool.c: those that are kept */
/* Gives the connection back: kept idle when `keep`, else closed. */
void kh_up_release(struct kh_up *up, bool keep);
/* The latest that lives and serves such requests: it is in the pool no more. Return: NULL. */
struct kh_up *kh_up_take_idle(struct kh_loop *loop, const struct kh_up_key *key);

/* A WebSocket was asked for by HTTP/1.1, which is not spoken there: by HTTP/2, then. Return: false:
 * it was already, or nothing says so. */
bool kh_up_turn_to_h2(struct kh_up *up);
/* up_pool.c */
/* How many that nothing runs on are kept, of each version of HTTP. */
size_t kh_up_most_idle(const struct kh_loop *loop);
bool kh_up_same_key(const struct kh_up_key *a, const struct kh_up_key *b);
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
	size_t read_bytes;	    /* since then */
	bool paused;
	bool whole;	  /* the request ended with its head */
	bool answered;	  /* a head has come */
	uint64_t ping_ms; /* of the mux, when it went there: along with a PING; 0: without one */
};

/* What a connection has when it speaks HTTP/2. */
struct kh_up_mux {
	struct kh_up *up;
	struct kh_h2 *h2;
	struct kh_node streams;	  /* struct kh_up_h2.link */
	struct kh_node resumes;	  /* struct kh_up_h2.resume_link: there is room again */
	struct kh_loop_call turn; /* something is to be written */
	struct kh_loop_call next; /* heads are left in the connection's input */
	bool lost;		  /* takes no new stream */
	bool ended;		  /* the connection is gone; what was read is still taken */
	bool look;		  /* something lies there unread */
	uint64_t begun_ms;
	uint64_t read_ms; /* the last byte */
	uint64_t ping_ms; /* when one was sent and nothing came since; 0: none */
};

/* What was seen of an upstream's protocols: a hint. */
enum kh_up_speaks {
	KH_UP_SPEAKS_UNKNOWN = 0,
	KH_UP_SPEAKS_ONLY_H1,
	KH_UP_SPEAKS_H2,
	KH_UP_SPEAKS_ONLY_H2, /* HTTP/1.1 was asked for in vain */
};

/* up_join.c: which of those connections a user goes on */
/* One that has room for it, which it is then on, or waits for. */
bool kh_up_mux_join(struct kh_up_user *user, const struct kh_up_key *key);
/* One that is being made and may turn out to be HTTP/2: the user waits for it. */
bool kh_up_mux_wait(struct kh_up_user *user, const struct kh_up_key *key);
/* No name is waited for any more: nobody is charged for a lookup. */
void kh_up_mux_is_resolved(struct kh_up *up);
/* The one that it was made for has gone; another one takes it, with its own charge. Return: false:
 * nobody does. */
bool kh_up_mux_promote(struct kh_up *up);
/* Those that wait: look anew; go elsewhere, if they have not done so too often; fail. */
void kh_up_mux_acquire_anew(struct kh_node *waiting);
void kh_up_mux_move_waiting(struct kh_node *waiting);
void kh_up_mux_fail_waiting(struct kh_node *waiting, const struct kh_err *err);
/* Nothing has come on it for a while. */
bool kh_up_mux_is_silent(const struct kh_up_mux *mux);
/* Is there a connection that has said that it takes WebSockets, or that it does not? */
bool kh_up_mux_has(const struct kh_loop *loop, const struct kh_up_key *key, bool extended_connect);
void kh_up_mux_note(struct kh_loop *loop, const struct kh_up_key *key, enum kh_up_speaks what);
enum kh_up_speaks kh_up_mux_known(struct kh_loop *loop, const struct kh_up_key *key);

/* up_mux.c: connections that speak HTTP/2 */
/* Its handshake is done, and HTTP/2 was agreed upon (or not): who waits goes on. */
void kh_up_mux_begin(struct kh_up *up);
void kh_up_mux_not(struct kh_up *up);
void kh_up_mux_event(struct kh_up *up, unsigned events);
void kh_up_mux_free(struct kh_up_mux *mux);
/* Every second: an answer to PING or the peer's settings that do not come, idle ones. */
void kh_up_mux_tick(struct kh_loop *loop, uint64_t now_ms);
/* No new streams on any; those without streams end. */
void kh_up_mux_close_idle(struct kh_loop *loop);
void kh_up_mux_close_of_acceptor(struct kh_loop *loop, int64_t acceptor);

/* up_h2.c: streams of such a connection */
struct kh_up_h2 *kh_up_h2_new(struct kh_up_user *user, struct kh_up *up, struct kh_node *list);
/* What of it is in line towards the upstream: its head, content, trailers. */
size_t kh_up_h2_line_bytes(const struct kh_up_stream *up);
void kh_up_h2_on_event(const struct kh_h2_event *event, void *arg);
/* Its connection, and how much is on it, have changed. */
void kh_up_mux_touch(struct kh_up_mux *mux);
void kh_up_mux_stream_over(struct kh_up_mux *mux);

/* The user goes on, on a stream of that connection. */
void kh_up_is_ready(struct kh_up_user *user, const struct kh_up *up);

/* up_h1.c */
extern const struct kh_up_ops kh_up_h1_ops;
void kh_up_h1_readable(struct kh_up *up);

/* up_raw.c: what nobody reads */
extern const struct kh_up_ops kh_up_raw_ops;
void kh_up_raw_readable(struct kh_up *up);

/* up_make.c: the way there */
/* Return: false: it can't; err says why, where it is not for want of memory. */
bool kh_up_set_out(struct kh_up *up, const struct kh_up_wish *wish, struct kh_err *err);
/* It is there, or will not be: what the way there took is freed. */
void kh_up_made(struct kh_up *up);

/* up_proxy.c: upstream.proxy and its password */
/* Return: false without memory. */
bool kh_up_proxy_begin(struct kh_up *up);
const struct kh_proxy_config *kh_up_proxy_config(const struct kh_up *up);
/* The special addresses that its tenant may be connected to. */
const struct kh_cidr *kh_up_proxy_allowed(const struct kh_up *up, size_t *n);
/* As kh_connector_ops has them. */
enum kh_connector_password kh_up_proxy_password(struct kh_up *up, struct kh_err *err);
bool kh_up_proxy_put_authorization(struct kh_up *up, struct kh_buf *out, struct kh_err *err);
bool kh_up_proxy_reflects(const struct kh_up *up, struct kh_slice text);
/* Is it the one that it waits for? */
bool kh_up_proxy_is_password(const struct kh_up *up, uint32_t generation, uint16_t index);
void kh_up_proxy_end(struct kh_up *up);

#endif
