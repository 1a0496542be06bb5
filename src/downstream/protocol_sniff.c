/*
 * protocol_sniff.c - which protocol a connection speaks, by its first byte
 *
 * One socket accepts all protocols. If a client asks for a tunnel in another way than CONNECT, that
 * request is read here, up to where the tunnel begins; from there on all tunnels are the same.
 */

#include <keyhole/tls/hello.h>

#include "session_internal.h"

#include "socks.h"

enum { TLS_HANDSHAKE_RECORD = 0x16 };

enum kh_protocol_sniff kh_protocol_sniff_of(struct kh_slice first_bytes)
{
	char first = first_bytes.len > 0 ? first_bytes.ptr[0] : '\0';

	if (kh_slice_has_prefix(first_bytes, KH_SLICE("SSH-"))) /* RFC 4253 §4.2 */
		return KH_PROTOCOL_SNIFF_OTHER;
	if (kh_is_alpha(first))
		return KH_PROTOCOL_SNIFF_HTTP;
	if (first == KH_SOCKS_VERSION)
		return KH_PROTOCOL_SNIFF_SOCKS;
	if (first == TLS_HANDSHAKE_RECORD)
		return KH_PROTOCOL_SNIFF_TLS;
	return KH_PROTOCOL_SNIFF_OTHER;
}

bool kh_session_open(struct kh_session *session)
{
	session->came_by = kh_protocol_sniff_of(kh_buf_view(&session->in));
	if (session->came_by == KH_PROTOCOL_SNIFF_TLS)
		session->side.via = "tls";
	if (session->came_by == KH_PROTOCOL_SNIFF_TLS &&
	    session->side.acceptor->config->kind == KH_LISTEN_TCP) {
		struct kh_err err = KH_ERR_INIT;
		kh_err_set(&err, KH_ERR_PROXY_AUTH,
			   "TLS straight away has no place for a token, which this listener asks "
			   "for");
		kh_tunnel_refuse(session, &err);
		return false;
	}
	if (session->came_by == KH_PROTOCOL_SNIFF_TLS) {
		(void)kh_session_set_state(session, KH_SESSION_HELLO);
		return false;
	}
	if (session->came_by != KH_PROTOCOL_SNIFF_SOCKS) {
		session->came_by = KH_PROTOCOL_SNIFF_HTTP; /* whose codec refuses what is none */
		return true;
	}
	session->side.via = "socks5";
	session->socks = calloc(1, sizeof(*session->socks));
	if (!session->socks) {
		kh_session_kill(session, KH_ERR_NO_MEMORY, NULL);
		return false;
	}
	session->socks->with_password = session->side.acceptor->config->kind == KH_LISTEN_TCP;
	(void)kh_session_set_state(session, KH_SESSION_SOCKS);
	return false;
}

/* TLS straight away: its SNI says where to. Return: false with `err`. */
static bool name_tunnel(struct kh_session *session, const struct kh_hello *hello,
			struct kh_err *err)
{
	if (hello->sni.kind != KH_HOST_NAME)
		return kh_err_set(err, KH_ERR_AUTHORITY_MISMATCH,
				  "TLS without an SNI: nothing says which host is meant%s",
				  hello->encrypted ? " (what an encrypted hello says is not seen)"
						   : "");
	session->side.authority = (struct kh_authority){
		.host = hello->sni,
		.port = kh_scheme_port(KH_SCHEME_HTTPS),
	};
	return true;
}

/* TLS that passes undecrypted: the host that was allowed is the one that is asked for. */
static bool check_passing(const struct kh_session *session, const struct kh_hello *hello,
			  struct kh_err *err)
{
	const struct kh_host *host = &session->side.authority.host;

	if (hello->encrypted)
		return kh_err_set(
			err, KH_ERR_AUTHORITY_MISMATCH,
			"the ClientHello contains an encrypted one (ECH, or GREASE in its "
			"place): which host it asks for is not seen, and TLS to %s "
			"passes undecrypted",
			host->text);
	if (hello->sni.kind != KH_HOST_NAME)
		return kh_err_set(err, KH_ERR_AUTHORITY_MISMATCH,
				  "the tunnel is to %s, whose TLS passes undecrypted, and its "
				  "ClientHello names no host",
				  host->text);
	if (!kh_host_eq(&hello->sni, host))
		return kh_err_set(err, KH_ERR_AUTHORITY_MISMATCH,
				  "the tunnel is to %s and its TLS handshake names %s", host->text,
				  hello->sni.text);
	return true;
}

void kh_session_hello(struct kh_session *session)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_hello hello;

	kh_session_charge(session, kh_buf_len(&session->in) / KH_LIMIT_WORK_HELLO);
	enum kh_hello_status status = kh_hello_read(&hello, kh_buf_view(&session->in), &err);
	if (status == KH_HELLO_NEED_MORE)
		return;
	bool named = session->side.tunnel; /* by CONNECT, or by the SNI a moment ago */
	if (status == KH_HELLO_BAD ||
	    !(named ? check_passing(session, &hello, &err) : name_tunnel(session, &hello, &err)))
		kh_tunnel_refuse(session, &err);
	else if (named)
		kh_raw_begin(session, KH_TUNNEL_PASS);
	else
		kh_tunnel_begin(session);
}

static void end_socks(struct kh_session *session)
{
	free(session->socks);
	session->socks = NULL;
}

/* User name or password is the token (RFC 1929). */
static void take_login(struct kh_session *session)
{
	struct kh_socks *socks = session->socks;
	struct kh_err err = KH_ERR_INIT;

	bool holds = kh_auth_try(&session->side, socks->user, socks->password, &err);
	if (!kh_socks_login(socks, holds, &session->leg.out)) {
		kh_session_kill(session, KH_ERR_NO_MEMORY, NULL);
	} else if (!holds) {
		end_socks(session);
		kh_down_deny(&session->side, &err);
		session->closing = true;
		(void)kh_session_set_state(session, KH_SESSION_LINGER);
	}
}

void kh_session_socks(struct kh_session *session)
{
	struct kh_slice in = kh_buf_view(&session->in);
	size_t before = in.len;
	struct kh_err err = KH_ERR_INIT;

	enum kh_socks_event event = kh_socks_feed(session->socks, &in, &session->leg.out, &err);
	switch (event) {
	case KH_SOCKS_NEED_MORE:
	case KH_SOCKS_AGREED:
		break;
	case KH_SOCKS_LOGIN:
		take_login(session);
		break;
	case KH_SOCKS_REQUEST:
		session->side.authority = session->socks->target;
		end_socks(session);
		kh_tunnel_begin(session);
		break;
	case KH_SOCKS_ERROR:
		end_socks(session);
		kh_down_deny(&session->side, &err);
		session->closing = true;
		(void)kh_session_set_state(session, KH_SESSION_LINGER);
		break;
	}
	kh_buf_consume(&session->in, before - in.len);
}
