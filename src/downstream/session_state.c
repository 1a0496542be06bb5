/*
 * session_state.c - the states of a session: their tables, and the only functions that assign them
 *
 * A step that is not in a table ends the session. It is recorded as refused, unless exchanges run
 * on the session: then their close records have the reason.
 */

#include <keyhole/base/machine.h>

#include "session_internal.h"

static bool fail(struct kh_session *session, const struct kh_machine *machine, unsigned from,
		 unsigned to)
{
	struct kh_err err = KH_ERR_INIT;

	(void)kh_machine_fault(machine, from, to, &err);
	if (session->state == KH_SESSION_DEAD)
		return false;
	if (!kh_session_exchange(session) && !session->mux)
		kh_down_deny(&session->side, &err);
	kh_session_kill(session, err.code, err.text);
	return false;
}

bool kh_session_set_state(struct kh_session *session, enum kh_session_state state)
{
	static const char *const names[] = {
		[KH_SESSION_NEW] = "new",
		[KH_SESSION_HEAD] = "head",
		[KH_SESSION_HEAD_BEGUN] = "head begun",
		[KH_SESSION_SOCKS] = "SOCKS",
		[KH_SESSION_HELLO] = "hello",
		[KH_SESSION_TUNNEL] = "tunnel",
		[KH_SESSION_HANDSHAKE] = "TLS",
		[KH_SESSION_EXCHANGE] = "exchange",
		[KH_SESSION_H2] = "HTTP/2",
		[KH_SESSION_RAW] = "raw",
		[KH_SESSION_DISCARD] = "discard",
		[KH_SESSION_LINGER] = "linger",
		[KH_SESSION_DEAD] = "dead",
	};
	enum {
		LAST = KH_STATE(KH_SESSION_LINGER) | KH_STATE(KH_SESSION_DEAD),
		/* A tunnel was asked for: it is read, passed on, or both ends are relayed. */
		INTO_TUNNEL = KH_STATE(KH_SESSION_TUNNEL) | KH_STATE(KH_SESSION_HELLO) |
			      KH_STATE(KH_SESSION_RAW),
		/* The first byte says what a connection is, a head what is asked for; a CONNECT
		 * that showed no token may come again. */
		BY_HEAD = LAST | INTO_TUNNEL | KH_STATE(KH_SESSION_HEAD) |
			  KH_STATE(KH_SESSION_EXCHANGE) | KH_STATE(KH_SESSION_H2),
	};
	static const uint32_t next[] = {
		[KH_SESSION_NEW] = KH_STATE(KH_SESSION_HEAD) | KH_STATE(KH_SESSION_DEAD),
		[KH_SESSION_HEAD] =
			BY_HEAD | KH_STATE(KH_SESSION_HEAD_BEGUN) | KH_STATE(KH_SESSION_SOCKS),
		[KH_SESSION_HEAD_BEGUN] = BY_HEAD,
		[KH_SESSION_SOCKS] = LAST | INTO_TUNNEL,
		[KH_SESSION_HELLO] = LAST | INTO_TUNNEL,
		[KH_SESSION_TUNNEL] =
			LAST | KH_STATE(KH_SESSION_HEAD) | KH_STATE(KH_SESSION_HANDSHAKE),
		[KH_SESSION_HANDSHAKE] = KH_STATE(KH_SESSION_HEAD) | KH_STATE(KH_SESSION_DEAD),
		[KH_SESSION_EXCHANGE] =
			LAST | KH_STATE(KH_SESSION_HEAD) | KH_STATE(KH_SESSION_DISCARD),
		[KH_SESSION_H2] = LAST,
		[KH_SESSION_RAW] = LAST,
		[KH_SESSION_DISCARD] = LAST | KH_STATE(KH_SESSION_HEAD),
		[KH_SESSION_LINGER] = KH_STATE(KH_SESSION_DEAD),
		[KH_SESSION_DEAD] = 0,
	};
	static const struct kh_machine machine = { "session", KH_SESSION_DEAD + 1, names, next };

	if (!kh_machine_allows(&machine, session->state, state))
		return fail(session, &machine, session->state, state);
	session->deadline_ms = 0; /* a new wait */
	session->state = state;
	return true;
}

bool kh_session_set_tunnel(struct kh_session *session, enum kh_tunnel_state state)
{
	static const char *const names[] = {
		[KH_TUNNEL_NONE] = "none",
		[KH_TUNNEL_ACCEPTED] = "accepted",
		[KH_TUNNEL_ENTERED] = "entered",
		[KH_TUNNEL_OPEN] = "open",
	};
	static const uint32_t next[] = {
		[KH_TUNNEL_NONE] = KH_STATE(KH_TUNNEL_ACCEPTED) | KH_STATE(KH_TUNNEL_ENTERED),
		[KH_TUNNEL_ACCEPTED] = KH_STATE(KH_TUNNEL_OPEN),
		[KH_TUNNEL_ENTERED] = KH_STATE(KH_TUNNEL_OPEN),
		[KH_TUNNEL_OPEN] = 0,
	};
	static const struct kh_machine machine = { "tunnel", KH_TUNNEL_OPEN + 1, names, next };

	if (!kh_machine_allows(&machine, session->tunnel_state, state))
		return fail(session, &machine, session->tunnel_state, state);
	session->tunnel_state = state;
	return true;
}

bool kh_session_set_leaf(struct kh_session *session, enum kh_leaf_state state)
{
	static const char *const names[] = {
		[KH_LEAF_STATE_NONE] = "none",
		[KH_LEAF_STATE_ORDERED] = "ordered",
		[KH_LEAF_STATE_AWAITED] = "awaited",
		[KH_LEAF_STATE_UNASKED] = "unasked",
	};
	enum {
		/* It may have to be asked for again; and what was asked for may be there at once.
		 */
		ANY = KH_STATE(KH_LEAF_STATE_ORDERED) | KH_STATE(KH_LEAF_STATE_AWAITED) |
		      KH_STATE(KH_LEAF_STATE_UNASKED),
	};
	static const uint32_t next[] = {
		[KH_LEAF_STATE_NONE] = ANY,
		[KH_LEAF_STATE_ORDERED] = ANY,
		[KH_LEAF_STATE_AWAITED] = ANY,
		[KH_LEAF_STATE_UNASKED] = ANY,
	};
	static const struct kh_machine machine = { "leaf", KH_LEAF_STATE_UNASKED + 1, names, next };

	if (!kh_machine_allows(&machine, session->leaf_state, state))
		return fail(session, &machine, session->leaf_state, state);
	session->leaf_state = state;
	return true;
}
