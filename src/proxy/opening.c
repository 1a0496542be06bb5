/*
 * opening.c - what a connection is, by its first byte
 *
 * One socket takes them all. What asks for a tunnel in another way than CONNECT is read here, up to
 * where the tunnel begins; from there on all tunnels are the same.
 */

#include "proxy_internal.h"

enum { TLS_HANDSHAKE_RECORD = 0x16 };

enum kh_opening kh_opening_of(struct kh_slice first_bytes)
{
	char first = first_bytes.len > 0 ? first_bytes.ptr[0] : '\0';

	if (kh_is_alpha(first))
		return KH_OPENING_HTTP;
	if (first == KH_SOCKS_VERSION)
		return KH_OPENING_SOCKS;
	if (first == TLS_HANDSHAKE_RECORD)
		return KH_OPENING_TLS;
	return KH_OPENING_OTHER;
}

bool kh_session_open(struct kh_session *session)
{
	session->opened = true;
	session->came_by = kh_opening_of(kh_buf_view(&session->in));
	if (session->came_by != KH_OPENING_SOCKS)
		return true; /* what is no HTTP either, HTTP's codec refuses */
	session->socks = calloc(1, sizeof(*session->socks));
	if (!session->socks) {
		kh_session_kill(session, KH_ERR_NO_MEMORY, NULL);
		return false;
	}
	session->deadline_ms = 0;
	session->state = KH_SESSION_SOCKS;
	return false;
}

const char *kh_session_via(const struct kh_session *session)
{
	return session->came_by == KH_OPENING_SOCKS ? "socks5" : NULL;
}

static void end_socks(struct kh_session *session)
{
	free(session->socks);
	session->socks = NULL;
}

void kh_session_socks(struct kh_session *session)
{
	struct kh_slice in = kh_buf_view(&session->in);
	size_t before = in.len;
	struct kh_err err = KH_ERR_INIT;

	enum kh_socks_event event = kh_socks_feed(session->socks, &in, &session->leg.out, &err);
	kh_buf_consume(&session->in, before - in.len);
	switch (event) {
	case KH_SOCKS_NEED_MORE:
	case KH_SOCKS_AGREED:
		break;
	case KH_SOCKS_LOGIN: /* nobody has asked for one */
		kh_session_kill(session, KH_ERR_INTERNAL, NULL);
		break;
	case KH_SOCKS_REQUEST:
		session->authority = session->socks->target;
		end_socks(session);
		kh_tunnel_begin(session);
		break;
	case KH_SOCKS_ERROR:
		end_socks(session);
		kh_tunnel_deny(session, &err);
		session->closing = true;
		kh_session_set_state(session, KH_SESSION_LINGER);
		break;
	}
}
