/*
 * connector.h - the way to a server: straight there, or through a proxy by CONNECT
 *
 *   straight:  look up ─▶ which addresses may it be? ─▶ dial
 *   by proxy:  judge what is known ─▶ password ─▶ (look up, judge) ─▶ look up the proxy ─▶ dial
 *              ─▶ CONNECT
 *
 * The proxy's own address is the operator's word and is not judged; the target's is wherever it is
 * known here: a literal always, a name where it is resolved here. What the connection speaks behind
 * that (TLS) is the owner's affair.
 *
 * The owner lends a leg and a buffer, and has a stream in the leg when it is told `connected`.
 */
#ifndef KEYHOLE_UPSTREAM_CONNECTOR_H
#define KEYHOLE_UPSTREAM_CONNECTOR_H

#include <keyhole/config/config.h>
#include <keyhole/net/dialer.h>
#include <keyhole/net/resolver.h>
#include <keyhole/http/target.h>
#include <keyhole/tls/tls.h>

#include <keyhole/loop/leg.h>

struct kh_connector;

enum kh_connector_password {
	KH_CONNECTOR_GO_ON = 1, /* it is in hand, or none is asked for */
	KH_CONNECTOR_WAIT,	/* kh_connector_go_on follows, or a timeout */
	KH_CONNECTOR_FAILED,	/* with `err` */
};

/* The owner's side; those that are marked may be NULL. */
struct kh_connector_ops {
	void (*woken)(void *arg); /* or NULL: first of all, whenever an event has come */
	/* The special addresses that it may be connected to (guard.h). */
	const struct kh_cidr *(*allowed)(void *arg, size_t *n);
	/* Where the target's address has to lie; or NULL. */
	void (*geo)(void *arg, struct kh_dial_geo *out);
	/* Do the rules let it go to that address? Return: false with `err`. Or NULL. */
	bool (*may_go_to)(void *arg, const struct kh_sockaddr *addr, struct kh_err *err);
	/* Among what may be, it goes to that one; or NULL. */
	void (*settled)(void *arg, const struct kh_sockaddr *addr);
	/* It has a stream, to the server or the proxy, at `peer`; or NULL. */
	void (*dialled)(void *arg, const struct kh_sockaddr *peer);
	/* No name is looked up any more; or NULL. */
	void (*resolved)(void *arg);
	/* What a lookup that is about to begin is charged to (resolver.h). Return: NULL with `err`:
	 * its account has no room for it. Or NULL: nobody is charged. */
	struct kh_charge *(*lookup_charge)(void *arg, struct kh_err *err);
	/* What further attempts to dial are charged to (dialer.h); or NULL: nobody is charged. */
	struct kh_account *(*account)(void *arg);

	/* Of the proxy: its password is fetched; or NULL: there is none, or it is in hand. */
	enum kh_connector_password (*password)(void *arg, struct kh_err *err);
	/* Writes Proxy-Authorization, or nothing. Return: false with `err`. */
	bool (*put_authorization)(void *arg, struct kh_buf *out, struct kh_err *err);
	/* Does a text of the proxy's say the password back? Where that can't be told: yes. */
	bool (*reflects)(void *arg, struct kh_slice text);

	/* The last thing that the connector does in an event: it may be freed there. Behind
	 * `connected` it is. */
	void (*connected)(void *arg);
	/* The rules deny all addresses of the name; or NULL: it has failed. */
	void (*refused)(void *arg, const struct kh_err *err);
	void (*failed)(void *arg, const struct kh_err *err);
};

struct kh_connector_way {
	const struct kh_connector_ops *ops;
	void *arg;
	struct event_base *base;
	struct kh_resolver *resolver;
	struct kh_authority target;
	const struct kh_proxy_config *proxy; /* NULL: straight there */
	uint32_t resolve_ms, connect_ms;
	struct kh_leg *leg;
	struct kh_buf *in;
	kh_stream_cb *on_stream; /* of the stream, once it is connected; with `arg` */
	bool may_speak_first;	 /* what comes behind the proxy's answer is the target's word */
};

/* Return: NULL without memory. */
struct kh_connector *kh_connector_new(const struct kh_connector_way *way);
/* `pinned`: the addresses to go straight to, without a lookup; or NULL. Return: false with `err`:
 * it has not begun, and is the owner's to free. Else it may be over, and freed. */
bool kh_connector_begin(struct kh_connector *c, const struct kh_addresses *pinned,
			struct kh_err *err);
/* The password may have come. */
void kh_connector_go_on(struct kh_connector *c);
bool kh_connector_waits_for_password(const struct kh_connector *c);
/* The account that the owner would name has changed. */
void kh_connector_charge_anew(struct kh_connector *c);
/* Ends what is under way; the leg stays as it is, and its stream is the owner's. NULL is fine. */
void kh_connector_free(struct kh_connector *c);

#endif
