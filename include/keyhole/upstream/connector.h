/*
 * connector.h - makes a connection to a server: direct, or through a proxy by CONNECT
 *
 *   straight:  look up ─▶ which addresses may it be? ─▶ dial
 *   by proxy:  judge what is known ─▶ password ─▶ (look up, judge) ─▶ look up the proxy ─▶ dial
 *              ─▶ CONNECT
 *
 * The operator chose the proxy, so its address is not judged. The target's address is judged if it
 * is known here: a literal always, a name if it is resolved here. What is spoken on the connection
 * afterwards (TLS) is up to the owner.
 *
 * The owner lends a leg and a buffer. When `connected` is called, the leg has the stream.
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
	KH_CONNECTOR_GO_ON = 1, /* the password is there, or none is needed */
	KH_CONNECTOR_WAIT,	/* the owner calls kh_connector_go_on later, or it times out */
	KH_CONNECTOR_FAILED,	/* with `err` */
};

/* The owner's side. "Or NULL": the function may be absent. */
struct kh_connector_ops {
	void (*woken)(void *arg); /* or NULL: called first at each event of the loop */
	/* `allow` of the address guard (guard.h). */
	const struct kh_cidr *(*allowed)(void *arg, size_t *n);
	/* The geo lists that the target's address must pass (dialer.h); or NULL. */
	void (*geo)(void *arg, struct kh_dial_geo *out);
	/* Do the rules allow that address? Return: false with `err`. Or NULL. */
	bool (*may_go_to)(void *arg, const struct kh_sockaddr *addr, struct kh_err *err);
	/* The target's address that was chosen: dialled directly, or named in the CONNECT to the
	 * proxy; or NULL. */
	void (*settled)(void *arg, const struct kh_sockaddr *addr);
	/* The leg has a stream, to the server or the proxy at `peer`; or NULL. */
	void (*dialled)(void *arg, const struct kh_sockaddr *peer);
	/* No lookup is in progress any more; or NULL. */
	void (*resolved)(void *arg);
	/* The charge for the lookup that is about to begin (resolver.h). Return: NULL with `err`:
	 * the account has no room for it. Or NULL: nobody is charged. */
	struct kh_charge *(*lookup_charge)(void *arg, struct kh_err *err);
	/* The account for further dial attempts (dialer.h); or NULL: nobody is charged. */
	struct kh_account *(*account)(void *arg);

	/* Fetches the proxy's password; or NULL: none is needed, or it is there already. */
	enum kh_connector_password (*password)(void *arg, struct kh_err *err);
	/* Writes Proxy-Authorization, or nothing. Return: false with `err`. */
	bool (*put_authorization)(void *arg, struct kh_buf *out, struct kh_err *err);
	/* Does a text from the proxy contain the password? If that can't be determined, true. */
	bool (*reflects)(void *arg, struct kh_slice text);

	/* One of these three is the last thing that the connector does: it may be freed in it.
	 * `connected` must free it. */
	void (*connected)(void *arg);
	/* The rules deny all addresses of the name; or NULL: `failed` is called instead. */
	void (*refused)(void *arg, const struct kh_err *err);
	void (*failed)(void *arg, const struct kh_err *err);
};

struct kh_connector_way {
	const struct kh_connector_ops *ops;
	void *arg;
	struct event_base *base;
	struct kh_resolver *resolver;
	struct kh_authority target;
	const struct kh_proxy_config *proxy; /* NULL: direct */
	uint32_t resolve_ms, connect_ms;
	struct kh_leg *leg;
	struct kh_buf *in;
	kh_stream_cb *on_stream; /* the stream's callback once it is connected; gets `arg` */
	bool may_speak_first; /* bytes after the proxy's answer to CONNECT are from the target and
				 allowed */
};

/* Copies *way; what it points to must outlive the connector. Return: NULL without memory. */
struct kh_connector *kh_connector_new(const struct kh_connector_way *way);
/* `pinned`: addresses to dial without a lookup; or NULL. Return: false with `err`: it has not
 * begun, and the owner frees it. After true it may have ended and been freed already. */
bool kh_connector_begin(struct kh_connector *c, const struct kh_addresses *pinned,
			struct kh_err *err);
/* The password may have come: asks `password` again. */
void kh_connector_go_on(struct kh_connector *c);
bool kh_connector_waits_for_password(const struct kh_connector *c);
/* The owner's `account` has changed: moves the charge. */
void kh_connector_charge_anew(struct kh_connector *c);
/* Cancels what is in progress. Leaves the leg as it is; its stream belongs to the owner. NULL is
 * fine. */
void kh_connector_free(struct kh_connector *c);

#endif
