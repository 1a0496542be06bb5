/* connector_internal.h - the state of a connector (connector.h) */
#ifndef KEYHOLE_UPSTREAM_CONNECTOR_INTERNAL_H
#define KEYHOLE_UPSTREAM_CONNECTOR_INTERNAL_H

#include <event2/event_struct.h>

#include <keyhole/http/h1.h>

#include <keyhole/upstream/connector.h>

enum kh_connector_state {
	KH_CONNECTOR_NEW = 0,
	KH_CONNECTOR_LOOKING_UP, /* a name: the target's, or the proxy's */
	KH_CONNECTOR_PASSWORD,	 /* waits for the proxy's password */
	KH_CONNECTOR_DIALLING,
	KH_CONNECTOR_CONNECT, /* CONNECT was sent to the proxy */
	KH_CONNECTOR_OVER,    /* the owner was told the result */
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
/* Only this function assigns the state. Return: false with `err` (which may be NULL): no such
 * transition, which is a bug in keyhole (machine.h); the connector must fail. */
bool kh_connector_set_state(struct kh_connector *c, enum kh_connector_state state,
			    struct kh_err *err);
/* Tell the owner the result, once; the owner may free the connector in the call. */
void kh_connector_fail(struct kh_connector *c, const struct kh_err *err);
void kh_connector_refuse(struct kh_connector *c, const struct kh_err *err);
void kh_connector_succeed(struct kh_connector *c);

#endif
