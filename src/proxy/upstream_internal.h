/* upstream_internal.h - a connection to an upstream, and the pool of them */
#ifndef KEYHOLE_PROXY_UPSTREAM_INTERNAL_H
#define KEYHOLE_PROXY_UPSTREAM_INTERNAL_H

#include <keyhole/dialer.h>
#include <keyhole/h1.h>
#include <keyhole/h2.h>

#include "exchange_internal.h"

/* Connections are shared by requests that agree in all of this. */
struct kh_up_key {
	struct kh_host host;
	uint16_t port;
	enum kh_scheme scheme;
	uint32_t generation; /* that the next two belong to */
	uint16_t tenant;
	/* All that go in, in the rule's order; what is behind them is 0. */
	uint16_t credentials[KH_RULE_CREDENTIALS];
	uint16_t n_credentials;
	struct kh_secret *identity; /* the client certificate; NULL: none. The connection's own */
	int64_t door; /* -1, or the one listener whose own authentication rides along */
	/* The lists that its address was held against (kh_up.geo_gen has them): what was dialled
	 * under none, or others, is not lent to who has to keep to these. */
	struct kh_geo_levels geo;
	bool only_h1; /* HTTP/2 is not offered; one that is there in HTTP/1 will do for anybody */
};

enum kh_up_state {
	KH_UP_RESOLVING = 1,
	KH_UP_PASSWORD, /* the keeper was asked for upstream.proxy's */
	KH_UP_DIALING,
	KH_UP_TUNNEL, /* upstream.proxy was asked for it (up_proxy.c) */
	KH_UP_HANDSHAKE,
	KH_UP_BUSY,   /* belongs to an exchange */
	KH_UP_IDLE,   /* in the pool */
	KH_UP_SHARED, /* HTTP/2: any number of exchanges, also none (up_mux.c) */
	KH_UP_DEAD,
};

/* A connection to an upstream. */
struct kh_up {
	struct kh_grave grave;
	struct kh_node link; /* in the loop's list of those that are made, idle or shared */
	struct kh_loop *loop;
	enum kh_up_state state;
	struct kh_up_key key;
	struct kh_up_stream only; /* HTTP/1: the one stream of a connection */
	struct kh_lookup *lookup;
	struct kh_door *resolving_for; /* while there is a lookup */
	struct kh_dial *dial;
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
	bool reused;
	bool reusable; /* the response said that the connection stays open */
	bool switched; /* to WebSocket: HTTP is over on it */
	bool answered; /* a byte of this exchange's response has come */
	enum { KH_FIN_NO = 0, KH_FIN_WANTED, KH_FIN_SENT } fin; /* of a raw one: ours */
	uint64_t idle_since_ms;
	uint64_t kept_ms;	/* for so long the server keeps it without use, by its own word */
	struct kh_node waiting; /* struct kh_up_h2.link: until it is made, or has shown life */
	struct kh_up_mux *mux;	/* HTTP/2; else NULL */
};

/* upstream.c: making of connections */
/* Sets x->up, in the end calls kh_exchange_up_ready or kh_exchange_up_failed; at once, perhaps. */
void kh_up_acquire(struct kh_exchange *x, bool fresh);
void kh_up_close(struct kh_up *up);
/* Other rules are in force: what waits for an answer to the old ones, or was to be dialled by other
 * lists than those of `before`, begins again. */
void kh_up_recheck(struct kh_exchange *x, const struct kh_geo_levels *before);
/* The address that it leads to, once that is settled; NULL: it is not yet, or not known. */
const struct kh_sockaddr *kh_up_address(const struct kh_up *up);
/* Notes the address that is connected to, or that is named to the proxy. */
void kh_up_note_place(struct kh_up *up, const struct kh_sockaddr *addr);
/* The making of it has failed: the exchange does. Last thing that a callback does. */
void kh_up_failed(struct kh_up *up, const struct kh_err *err);
/* Within the listener's share. Return: false without memory or above that. `cb` begins with
 * kh_up_forget_lookup. */
bool kh_up_look_up(struct kh_up *up, const struct kh_host *host, uint16_t port, kh_lookup_cb *cb);
void kh_up_forget_lookup(struct kh_up *up);
/* The special addresses that its tenant may be connected to. */
const struct kh_cidr *kh_up_allowed_addresses(const struct kh_up *up, size_t *n);
void kh_up_dial(struct kh_up *up, const struct kh_addresses *addresses);
/* The bytes of `leg` reach the upstream: TLS where that is due, then the exchange. */
void kh_up_connected(struct kh_up *up);

/* up_pool.c: those that are kept */
/* Gives the connection back: kept idle when `keep`, else closed. */
void kh_up_release(struct kh_up *up, bool keep);
/* The latest that lives and serves such requests: it is in the pool no more. Return: NULL. */
struct kh_up *kh_up_take_idle(struct kh_loop *loop, const struct kh_up_key *key);
void kh_up_tick(struct kh_loop *loop);
void kh_up_close_idle(struct kh_loop *loop);
/* Those that are kept for what came through that door alone. */
void kh_up_close_of_door(struct kh_loop *loop, int64_t door);

/* A WebSocket was asked for by HTTP/1.1, which is not spoken there: by HTTP/2, then. Return: false:
 * it was already, or nothing says so. */
bool kh_up_turn_to_h2(struct kh_up *up);
/* up_identity.c */
struct kh_secret *kh_up_identity_of(const struct kh_exchange *x);
/* Right behind the beginning of a handshake. */
bool kh_up_show_identity(struct kh_up *up, struct kh_err *err);
bool kh_up_same_key(const struct kh_up_key *a, const struct kh_up_key *b);
/* Not yet lent to anybody. */
static inline bool kh_up_is_in_making(const struct kh_up *up)
{
	return up->state < KH_UP_BUSY;
}

/* An exchange's stream on an HTTP/2 connection, or one that waits for a connection to be made. */
struct kh_up_h2 {
	struct kh_grave grave;
	struct kh_up_stream stream;
	struct kh_node link;	    /* in its connection's streams, or waiting */
	struct kh_node resume_link; /* in its mux's resumes */
	struct kh_h2_stream *h2;    /* NULL: it waits */
	bool paused;
	bool whole;    /* the request ended with its head */
	bool answered; /* a head has come */
};

/* What a connection has when it speaks HTTP/2. */
struct kh_up_mux {
	struct kh_up *up;
	struct kh_h2 *h2;
	struct kh_node streams;	   /* struct kh_up_h2.link */
	struct kh_node resumes;	   /* struct kh_up_h2.resume_link: there is room again */
	struct kh_node dirty_link; /* in the loop's dirty_ups: something is to be written */
	bool lost;		   /* takes no new stream */
	bool ended;		   /* the connection is gone; what was read is still taken */
	bool look;		   /* something lies there unread */
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

/* up_join.c: which of those connections an exchange goes on */
/* One that has room for it, which it is then on, or waits for. */
bool kh_up_mux_join(struct kh_exchange *x, const struct kh_up_key *key);
/* One that is being made and may turn out to be HTTP/2: the exchange waits for it. */
bool kh_up_mux_wait(struct kh_exchange *x, const struct kh_up_key *key);
/* The one that it was made for has gone; another one takes it. Return: false: nobody does. */
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
void kh_up_mux_close_of_door(struct kh_loop *loop, int64_t door);
/* At the end of the loop's turn: writes what was put. */
void kh_up_mux_turn_all(struct kh_loop *loop);

/* up_h2.c: streams of such a connection */
struct kh_up_h2 *kh_up_h2_new(struct kh_exchange *x, struct kh_up *up, struct kh_node *list);
void kh_up_h2_on_event(const struct kh_h2_event *event, void *arg);
/* Its connection, and how much is on it, have changed. */
void kh_up_mux_touch(struct kh_up_mux *mux);
void kh_up_mux_stream_over(struct kh_up_mux *mux);

/* up_h1.c */
extern const struct kh_up_ops kh_up_h1_ops;
void kh_up_h1_readable(struct kh_up *up);

/* raw.c */
extern const struct kh_up_ops kh_up_raw_ops;
void kh_up_raw_readable(struct kh_up *up);

/* up_proxy.c: the way there through upstream.proxy */
/* Return: false with `err`; the caller fails the connection. */
bool kh_up_proxy_begin(struct kh_up *up, struct kh_err *err);
void kh_up_proxy_dialled(struct kh_up *up);
void kh_up_proxy_event(struct kh_up *up, unsigned events);
void kh_up_proxy_password_came(struct kh_up *up, uint32_t generation, uint16_t index);
void kh_up_proxy_end(struct kh_up *up);

#endif
