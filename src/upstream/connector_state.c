/* connector_state.c - the states of a connector, and how it ends */

#include <keyhole/base/machine.h>

#include "connector_internal.h"

bool kh_connector_set_state(struct kh_connector *c, enum kh_connector_state state,
			    struct kh_err *err)
{
	static const char *const names[] = {
		[KH_CONNECTOR_NEW] = "new",
		[KH_CONNECTOR_LOOKING_UP] = "looking up",
		[KH_CONNECTOR_PASSWORD] = "waiting for a password",
		[KH_CONNECTOR_DIALLING] = "dialling",
		[KH_CONNECTOR_CONNECT] = "CONNECT",
		[KH_CONNECTOR_OVER] = "over",
	};
	enum { OVER = KH_STATE(KH_CONNECTOR_OVER) };
	static const uint32_t next[] = {
		/* An address that is pinned is dialled at once. */
		[KH_CONNECTOR_NEW] = KH_STATE(KH_CONNECTOR_LOOKING_UP) |
				     KH_STATE(KH_CONNECTOR_PASSWORD) |
				     KH_STATE(KH_CONNECTOR_DIALLING) | OVER,
		/* The target's name, then the proxy's. */
		[KH_CONNECTOR_LOOKING_UP] =
			KH_STATE(KH_CONNECTOR_LOOKING_UP) | KH_STATE(KH_CONNECTOR_DIALLING) | OVER,
		/* What came may not have been it. */
		[KH_CONNECTOR_PASSWORD] =
			KH_STATE(KH_CONNECTOR_PASSWORD) | KH_STATE(KH_CONNECTOR_LOOKING_UP) | OVER,
		[KH_CONNECTOR_DIALLING] = KH_STATE(KH_CONNECTOR_CONNECT) | OVER,
		[KH_CONNECTOR_CONNECT] = OVER,
		[KH_CONNECTOR_OVER] = 0,
	};
	static const struct kh_machine machine = { "connector", KH_CONNECTOR_OVER + 1, names,
						   next };

	if (!kh_machine_allows(&machine, c->state, state))
		return kh_machine_fault(&machine, c->state, state, err);
	c->state = state;
	return true;
}

void kh_connector_fail(struct kh_connector *c, const struct kh_err *err)
{
	if (kh_connector_set_state(c, KH_CONNECTOR_OVER, NULL))
		c->way.ops->failed(c->way.arg, err);
}

void kh_connector_refuse(struct kh_connector *c, const struct kh_err *err)
{
	const struct kh_connector_ops *ops = c->way.ops;

	if (kh_connector_set_state(c, KH_CONNECTOR_OVER, NULL))
		(ops->refused ? ops->refused : ops->failed)(c->way.arg, err);
}

void kh_connector_succeed(struct kh_connector *c)
{
	if (kh_connector_set_state(c, KH_CONNECTOR_OVER, NULL))
		c->way.ops->connected(c->way.arg);
}
