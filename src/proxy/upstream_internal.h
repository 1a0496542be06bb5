/* upstream_internal.h - a connection to an upstream, and the pool of them */
#ifndef KEYHOLE_PROXY_UPSTREAM_INTERNAL_H
#define KEYHOLE_PROXY_UPSTREAM_INTERNAL_H

#include <keyhole/dialer.h>
#include <keyhole/h1.h>

#include "exchange_internal.h"

/* Connections are shared by requests that agree in all of this. */
struct kh_up_key {
	struct kh_host host;
	uint16_t port;
	enum kh_scheme scheme;
	uint32_t generation; /* that the next two belong to */
	uint16_t tenant;
	int32_t credential; /* -1: none */
	int32_t door;	    /* -1, or the one listener whose own authentication rides along */
};

enum kh_up_state {
	KH_UP_RESOLVING = 1,
	KH_UP_PASSWORD, /* the keeper was asked for upstream.proxy's */
	KH_UP_DIALING,
	KH_UP_TUNNEL, /* upstream.proxy was asked for it (up_proxy.c) */
	KH_UP_HANDSHAKE,
	KH_UP_BUSY, /* belongs to an exchange */
	KH_UP_IDLE, /* in the pool */
	KH_UP_DEAD,
};

/* A connection to an upstream. */
struct kh_up {
	struct kh_grave grave;
	struct kh_node link; /* in the loop's pool while idle */
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
	bool reused;
	bool reusable; /* the response said that the connection stays open */
	bool switched; /* to WebSocket: HTTP is over on it */
	bool answered; /* a byte of this exchange's response has come */
	enum { KH_FIN_NO = 0, KH_FIN_WANTED, KH_FIN_SENT } fin; /* of a raw one: ours */
	uint64_t idle_since_ms;
	uint64_t kept_ms; /* for so long the server keeps it without use, by its own word */
};

/* upstream.c: pool and making of connections */
/* Sets x->up, in the end calls kh_exchange_up_ready or kh_exchange_up_failed; at once, perhaps. */
void kh_up_acquire(struct kh_exchange *x, bool fresh);
/* Gives the connection back: kept idle when `keep`, else closed. */
void kh_up_release(struct kh_up *up, bool keep);
void kh_up_close(struct kh_up *up);
void kh_up_tick(struct kh_loop *loop);
void kh_up_close_idle(struct kh_loop *loop);
/* Other rules are in force: what waits for an answer to the old ones begins again. */
void kh_up_recheck(struct kh_exchange *x);
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

/* up_h1.c */
extern const struct kh_up_ops kh_up_h1_ops;
void kh_up_h1_readable(struct kh_up *up);

/* raw.c */
extern const struct kh_up_ops kh_up_raw_ops;
void kh_up_raw_readable(struct kh_up *up);

/* up_proxy.c: the way there through upstream.proxy */
bool kh_up_proxy_is_for(const struct kh_config *config, const struct kh_host *host);
/* Return: false with `err`; the caller fails the connection. */
bool kh_up_proxy_begin(struct kh_up *up, struct kh_err *err);
void kh_up_proxy_dialled(struct kh_up *up);
void kh_up_proxy_event(struct kh_up *up, unsigned events);
void kh_up_proxy_password_came(struct kh_up *up, uint32_t generation, uint16_t index);
void kh_up_proxy_end(struct kh_up *up);

#endif
