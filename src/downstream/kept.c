/*
 * kept.c - the memory that a connection from a sandbox keeps
 *
 * At the end of each of its turns a session adds up the buffers of its connection: its own, its
 * codec's, its exchange's, and those of the upstream connection that the exchange uses. The sum is
 * charged to the sandbox's account in steps. If the account refuses, the sandbox has used up its
 * share: the connection that needs more is refused, with an answer if one can still be sent, and
 * ends.
 */

#include <keyhole/base/charge.h>
#include "session_internal.h"

static size_t of_session(const struct kh_session *session)
{
	const struct kh_exchange *x = kh_session_exchange(session);
	size_t sum = KH_LIMIT_KEPT_CONNECTION +
		     (session->side.tls ? (size_t)KH_LIMIT_KEPT_TLS : 0) + session->in.alloc +
		     session->leg.out.alloc;

	if (session->h1)
		sum += kh_h1_kept_bytes(session->h1);
	if (session->mux)
		sum += session->mux->kept_bytes;
	if (x)
		sum += kh_exchange_kept_bytes(x);
	return (sum + KH_LIMIT_KEPT_STEP - 1) / KH_LIMIT_KEPT_STEP * KH_LIMIT_KEPT_STEP;
}

/* Says why where somebody can read it. */
static void refuse(struct kh_session *session)
{
	struct kh_exchange *x = kh_session_exchange(session);
	struct kh_err err = KH_ERR_INIT;

	(void)kh_charge_refuse(&err, session->side.account, KH_RESOURCE_MEMORY, KH_LIMIT_KEPT_STEP);
	session->over_share = session->closing = true;
	if (session->state == KH_SESSION_HEAD && session->came_by == KH_PROTOCOL_SNIFF_UNSEEN) {
		kh_session_kill(session, KH_ERR_LIMIT, NULL); /* it has asked for nothing */
	} else if (session->state == KH_SESSION_EXCHANGE && x) {
		kh_exchange_fail(x, &err);
	} else if (kh_session_awaits_head(session)) {
		kh_session_refuse(session, &err);
	} else {
		if (!x)
			kh_down_deny(&session->side, &err);
		kh_session_kill(session, KH_ERR_LIMIT, err.text);
	}
	kh_session_touch(session); /* unless it is dead */
}

/* What it takes from now on it throws away; what it kept for the request goes. */
static bool has_its_answer(struct kh_session *session)
{
	if (session->state == KH_SESSION_LINGER) {
		kh_h1_free(session->h1);
		session->h1 = NULL;
		kh_buf_release(&session->in);
		return true;
	}
	return session->state == KH_SESSION_DISCARD && session->over_share;
}

bool kh_session_may_keep(struct kh_session *session)
{
	size_t now = of_session(session), *held = &session->kept_bytes;

	if (now <= *held && *held - now < 2 * (size_t)KH_LIMIT_KEPT_STEP)
		return true;
	if (kh_account_resize(session->side.account, KH_RESOURCE_MEMORY, held, now))
		return true;
	if (has_its_answer(session))
		return true;
	if (session->over_share) /* it was told so, and does not end by itself */
		kh_session_kill(session, KH_ERR_LIMIT, "beyond its sandbox's share of memory");
	else
		refuse(session);
	return false;
}
