/* connector_internal.h - what is under way on the way to a server (connector.h) */
#ifndef KEYHOLE_UPSTREAM_CONNECTOR_INTERNAL_H
#define KEYHOLE_UPSTREAM_CONNECTOR_INTERNAL_H

#include <event2/event_struct.h>

#include <keyhole/http/h1.h>

#include <keyhole/upstream/connector.h>

enum kh_connector_state {
	KH_CONNECTOR_NEW = 0,
	KH_CONNECTOR_LOOKING_UP, /* a name: the target's, or the proxy's */
	KH_CONNECTOR_PASSWORD,	 /* the proxy's is awaited */
	KH_CONNECTOR_DIALLING,
	KH_CONNECTOR_CONNECT, /* the proxy was asked */
	KH_CONNECTOR_OVER,    /* its owner was told how it ended */
};

struct kh_connector {
	struct kh_connector_way way;
	enum kh_connector_state state;
	struct kh_lookup *lookup;
	struct kh_dial *dial;
	struct kh_h1 *h1; /* reads the answer to CONNECT */
	struct event timer;
};

/* connector_state.c */
/* The only one who assigns. Return: false with `err` (which may be NULL): that can't follow, which
 * is a fault of ours (machine.h); it must fail. */
bool kh_connector_set_state(struct kh_connector *c, enum kh_connector_state state,
			    struct kh_err *err);
/* How it ended, for its owner, who hears it once and may free it then. */
void kh_connector_fail(struct kh_connector *c, const struct kh_err *err);
void kh_connector_refuse(struct kh_connector *c, const struct kh_err *err);
void kh_connector_succeed(struct kh_connector *c);

#endif
