/*
 * session.c - a connection from a sandbox: its states, and how it ends
 *
 *   HEAD ─▶ EXCHANGE ─▶ HEAD …            requests one after the other
 *     │        └──────▶ DISCARD ─▶ HEAD   answered before all of its content had come
 *     ├──▶ SOCKS, HELLO ─┐                by the connection's first byte
 *     ├──────────────────┼▶ TUNNEL ─▶ HANDSHAKE ─▶ HEAD   CONNECT, then TLS or plain HTTP inside
 *     │                  └▶ (HELLO) ─▶ RAW                a tunnel that is not read
 *     └──▶ LINGER ─▶ DEAD                 the last answer was sent, and the peer may read it
 *
 * The table of steps is in session_state.c. What a session does in a turn is in session_turn.c.
 */

#include "session_internal.h"

static void free_session(struct kh_deferred_free *deferred_free)
{
	struct kh_session *session =
		kh_container_of(deferred_free, struct kh_session, deferred_free);

	event_del(&session->timer);
	kh_leg_fini(&session->leg);
	kh_buf_fini(&session->in);
	if (session->h1)
		kh_h1_free(session->h1);
	free(session->socks);
	kh_mux_free(session->mux);
	kh_account_unref(session->side.account);
	free(session);
}

/* Gives all that was charged back. */
static void keep_nothing(struct kh_session *session)
{
	kh_account_give(session->side.account, KH_RESOURCE_MEMORY, session->kept_bytes);
	session->kept_bytes = 0;
	kh_charge_release(&session->descriptor);
}

void kh_session_kill(struct kh_session *session, enum kh_err_code reason, const char *detail)
{
	if (session->state == KH_SESSION_DEAD)
		return;
	struct kh_exchange *x = kh_session_exchange(session);
	kh_tunnel_note_silence(session, reason);
	if (x) {
		if (kh_exchange_has_answered(x))
			kh_stream_spoil(session->leg.stream);
		kh_exchange_gone(x, reason, detail);
	}
	if (session->mux)
		kh_mux_end(session);
	/* What was not written is missing there, whatever the end looks like. */
	if (kh_buf_len(&session->leg.out))
		kh_stream_spoil(session->leg.stream);
	(void)kh_session_set_state(session, KH_SESSION_DEAD);
	if (kh_session_awaits_leaf(session))
		(void)kh_session_set_leaf(session, KH_LEAF_STATE_ORDERED);
	kh_stream_watch(session->leg.stream, 0);
	event_del(&session->timer);
	kh_list_remove(&session->member.link);
	kh_list_remove(&session->side.answer.link);
	kh_list_remove(&session->touched.link);
	kh_work_place_leave(&session->place);
	kh_list_remove(&session->acceptor_link);
	session->side.loop->n_live--;
	if (session->tunnel_state >= KH_TUNNEL_ENTERED)
		kh_uncount(session->side.loop, KH_COUNT_TUNNELS_OPEN);
	kh_down_leave_place(&session->side);
	keep_nothing(session);
	kh_acceptor_left(session->side.acceptor);
	kh_loop_free_later(session->side.loop, &session->deferred_free, free_session);
}

void kh_session_end_of_acceptor(struct kh_acceptor *acceptor, const char *why)
{
	/* One may take another with it that runs inside of it. */
	while (!kh_list_is_empty(&acceptor->sessions))
		kh_session_kill(
			kh_container_of(acceptor->sessions.next, struct kh_session, acceptor_link),
			KH_ERR_ABORTED, why);
}

void kh_session_linger(struct kh_session *session)
{
	session->closing = true;
	(void)kh_session_set_state(session, KH_SESSION_LINGER);
}

void kh_session_exchange_over(struct kh_session *session, bool keep)
{
	const struct kh_config *config = session->side.loop->gen->config;
	bool outlived =
		session->tunnel_ends_ms && session->side.loop->now_ms >= session->tunnel_ends_ms;

	if (!keep || kh_session_has_said_all(session) || session->side.loop->draining || outlived ||
	    session->exchanges >= config->max_exchanges)
		session->closing = true;
	(void)kh_session_set_state(session, session->closing ? KH_SESSION_LINGER : KH_SESSION_HEAD);
}

void kh_session_challenge(struct kh_session *session, const struct kh_err *err)
{
	kh_down_deny(&session->side, err);
	session->only.close = false;
	if (!kh_denial_put(&session->only.stream, &session->side, NULL, err)) {
		kh_session_kill(session, err->code, NULL);
		return;
	}
	/* Behind a CONNECT the codec expects a tunnel. */
	kh_h1_free(session->h1);
	session->h1 = NULL;
	(void)kh_session_set_state(session, KH_SESSION_HEAD);
}

/* The first bytes are there, and could be those of HTTP/2: an answer of HTTP/1.1 would be none. */
static bool may_become_h2(const struct kh_session *session)
{
	return session->state == KH_SESSION_HEAD_BEGUN && !session->h1 && !session->side.tls;
}

void kh_session_refuse(struct kh_session *session, const struct kh_err *err)
{
	kh_down_deny(&session->side, err);
	session->closing = true;
	if (may_become_h2(session)) {
		kh_session_kill(session, err->code, NULL);
		return;
	}
	if (!kh_denial_put(&session->only.stream, &session->side, NULL, err)) {
		kh_session_kill(session, err->code, NULL);
		return;
	}
	(void)kh_session_set_state(session, KH_SESSION_LINGER);
}
