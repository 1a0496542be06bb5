/*
 * tunnel_silence.c - a tunnel in which nobody speaks
 *
 * A client that waits for the server to speak first, such as a mail client, would wait for ever,
 * and nothing would say that the place was refused.
 */

#include "session_internal.h"

bool kh_tunnel_is_barred(const struct kh_session *session, struct kh_err *err)
{
	const struct kh_standing now = kh_acceptor_standing(session->side.acceptor);
	const struct kh_authority *to = &session->side.authority;
	bool silent = session->state == KH_SESSION_TUNNEL ||
		      (session->state == KH_SESSION_HEAD && session->side.tls &&
		       session->exchanges == session->exchanges_outside);
	struct kh_decision decision;

	if (!silent || !session->side.tunnel || kh_buf_len(&session->in) ||
	    kh_internal_page_is(&to->host) ||
	    !kh_policy_bars(now.gen->policy, now.tenant, now.narrowing, &to->host, to->port,
			    &decision))
		return false;
	struct kh_err why = KH_ERR_INIT;
	(void)kh_request_say_denied(&decision, &why);
	(void)kh_err_set(err, why.code, "%s, and nothing was said in the tunnel", why.text);
	return true;
}

void kh_tunnel_note_silence(struct kh_session *session, enum kh_err_code reason)
{
	bool ended = reason == KH_ERR_DOWN_CLOSED || reason == KH_ERR_REQUEST_TIMEOUT ||
		     reason == KH_ERR_DRAINING;
	struct kh_err err = KH_ERR_INIT;

	if (ended && kh_tunnel_is_barred(session, &err))
		kh_down_deny(&session->side, &err);
}
