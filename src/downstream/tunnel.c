/*
 * tunnel.c - from CONNECT, or a SOCKS5 request, to the first request inside
 *
 * Neither of them connects to an upstream, unless a rule has the tunnel passed on unread (raw.c).
 * It only names the authority, with which everything inside must agree. The first bytes inside show
 * what follows: a TLS record (then keyhole shows a leaf for that name, or passes TLS on), or the
 * letters of an HTTP method; anything else is refused. Whether the host may be reached is decided
 * for the requests inside, where the client can read the refusal.
 */

#include <keyhole/tls/hello.h>

#include "session_internal.h"

#include "socks.h"

static struct kh_leaves *leaves_of(const struct kh_session *session)
{
	const struct kh_standing now = kh_acceptor_standing(session->side.acceptor);

	return kh_worker_leaves(session->side.loop->worker, now.gen, now.tenant);
}

/* A leaf for the tunnel's host, unless it is there: asked ahead of the ClientHello, which saves its
 * wait. `waits`: the handshake does, from here on. Return: false: it can't be had. */
static bool order_leaf(struct kh_session *session, bool waits)
{
	struct kh_worker *worker = session->side.loop->worker;
	const struct kh_standing now = kh_acceptor_standing(session->side.acceptor);
	struct kh_leaves *leaves = leaves_of(session);

	/* Where another thread has got it meanwhile, its answer is on its way here. */
	if (kh_leaves_has(leaves, &session->side.authority.host))
		return !waits || kh_session_set_leaf(session, KH_LEAF_STATE_AWAITED);
	if (session->leaf_state == KH_LEAF_STATE_NONE &&
	    !kh_leaves_had(leaves, &session->side.authority.host) &&
	    !kh_acceptor_may_mint(session->side.acceptor))
		return false;
	enum kh_leaf_ask asked = kh_worker_request_leaf(
		worker, now.gen, now.tenant, &session->side.authority, session->side.account);
	enum kh_leaf_state state = !waits || asked == KH_LEAF_FAILED ? KH_LEAF_STATE_ORDERED
				   : asked == KH_LEAF_LATER	     ? KH_LEAF_STATE_UNASKED
								     : KH_LEAF_STATE_AWAITED;
	return kh_session_set_leaf(session, state) && asked != KH_LEAF_FAILED;
}

bool kh_tunnel_read(struct kh_session *session, const struct kh_message *connect,
		    struct kh_authority *out, struct kh_err *err)
{
	struct kh_authority named;

	/* In HTTP/2 the authority is all that CONNECT has, and what follows is the tunnel's. */
	struct kh_slice target = connect->h2 ? connect->host : connect->target;
	struct kh_slice host = connect->h2 ? KH_SLICE("") : connect->host;

	if (session->side.tunnel)
		return kh_err_set(err, KH_ERR_REQUEST_MALFORMED,
				  "CONNECT inside a tunnel is not supported");
	if (!connect->h2 && connect->framing != KH_FRAMING_NONE)
		return kh_err_set(err, KH_ERR_REQUEST_MALFORMED, "CONNECT carries no content");
	if (!kh_authority_parse(out, target, 0, err))
		return kh_err_wrap(err, "CONNECT");
	if (!kh_auth_check(&session->side, connect, err))
		return false;
	if (host.len &&
	    (!kh_authority_parse(&named, host, out->port, err) || !kh_authority_eq(&named, out)))
		return kh_err_set(err, KH_ERR_AUTHORITY_MISMATCH,
				  "CONNECT names %s and its Host field names %s",
				  kh_esc(kh_authority_shown(target)),
				  kh_esc(kh_authority_shown(host)));
	return true;
}

void kh_tunnel_open(struct kh_session *session, const struct kh_message *connect)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_authority authority;

	if (!kh_tunnel_read(session, connect, &authority, &err)) {
		if (err.code == KH_ERR_PROXY_AUTH && connect->keep_alive)
			kh_session_challenge(session, &err);
		else
			kh_session_refuse(session, &err);
		return;
	}
	/* Inside, another reading begins. */
	kh_h1_free(session->h1);
	session->h1 = NULL;
	session->side.authority = authority;
	kh_tunnel_begin(session);
}

bool kh_tunnel_accept(struct kh_session *session)
{
	struct kh_buf *out = &session->leg.out;

	bool entered = session->tunnel_state == KH_TUNNEL_ENTERED;

	if (!kh_session_set_tunnel(session, entered ? KH_TUNNEL_OPEN : KH_TUNNEL_ACCEPTED))
		return false;
	if (session->carrier)
		return kh_mux_tunnel_accept(session->carrier);
	switch (session->came_by) {
	case KH_PROTOCOL_SNIFF_SOCKS:
		return kh_socks_put_reply(out, KH_SOCKS_SUCCEEDED);
	case KH_PROTOCOL_SNIFF_TLS: /* it has not asked */
		return true;
	case KH_PROTOCOL_SNIFF_HTTP:
	case KH_PROTOCOL_SNIFF_OTHER:
	case KH_PROTOCOL_SNIFF_UNSEEN:
		break;
	}
	return kh_buf_append_str(out, "HTTP/1.1 200 Connection established\r\n\r\n");
}

static enum kh_alert alert_for(enum kh_err_code code)
{
	if (code == KH_ERR_AUTHORITY_MISMATCH)
		return KH_ALERT_UNRECOGNIZED_NAME;
	if (code == KH_ERR_DOWN_TLS)
		return KH_ALERT_DECODE_ERROR;
	return kh_err_is_policy(code) ? KH_ALERT_ACCESS_DENIED : KH_ALERT_INTERNAL_ERROR;
}

bool kh_tunnel_put_refusal(struct kh_session *session, enum kh_err_code code)
{
	unsigned char alert[KH_ALERT_BYTES];

	if (session->came_by == KH_PROTOCOL_SNIFF_SOCKS && !kh_session_is_accepted(session))
		return kh_socks_put_reply(&session->leg.out, kh_socks_reply_for(code));
	kh_alert_format(alert_for(code), alert);
	return kh_buf_append(&session->leg.out, alert, sizeof(alert));
}

void kh_tunnel_refuse(struct kh_session *session, const struct kh_err *err)
{
	if (session->came_by == KH_PROTOCOL_SNIFF_HTTP && !kh_session_is_accepted(session)) {
		kh_session_refuse(session, err);
		return;
	}
	kh_down_deny(&session->side, err);
	session->closing = true;
	if (kh_tunnel_put_refusal(session, err->code))
		(void)kh_session_set_state(session, KH_SESSION_LINGER);
	else
		kh_session_kill(session, err->code, NULL);
}

enum kh_tunnel_kind kh_tunnel_may_open(struct kh_session *session,
				       const struct kh_authority *authority, struct kh_err *err)
{
	struct kh_decision decision;

	if (!kh_down_take_place(&session->side, err))
		return KH_TUNNEL_DENIED;
	if (kh_internal_page_is(&authority->host))
		return KH_TUNNEL_READ; /* there is nothing behind it */
	const struct kh_standing now = kh_acceptor_standing(session->side.acceptor);
	enum kh_tunnel_kind kind = kh_policy_tunnel(now.gen->policy, now.tenant, now.narrowing,
						    &authority->host, authority->port, &decision);
	if (kind == KH_TUNNEL_DENIED)
		(void)kh_request_say_denied(&decision, err);
	return kind;
}

void kh_tunnel_enter(struct kh_session *session, enum kh_tunnel_kind kind)
{
	session->side.tunnel = true;
	session->exchanges_outside = session->exchanges;
	kh_down_look_at_host(&session->side);
	if (!kh_session_set_tunnel(session, kh_session_is_accepted(session) ? KH_TUNNEL_OPEN
									    : KH_TUNNEL_ENTERED))
		return;
	kh_count(session->side.loop, KH_COUNT_TUNNELS);
	kh_count(session->side.loop, KH_COUNT_TUNNELS_OPEN);
	session->tunnel_ends_ms = kh_down_tunnel_ends(&session->side);
	if (kind == KH_TUNNEL_RAW) {
		kh_raw_begin(session, kind); /* a server may speak first: nothing is waited for */
	} else if (kind == KH_TUNNEL_PASS) {
		(void)kh_session_set_state(session, KH_SESSION_HELLO);
	} else if (kh_session_set_state(session, KH_SESSION_TUNNEL)) {
		(void)order_leaf(session, false);
	}
}

void kh_tunnel_begin(struct kh_session *session)
{
	struct kh_err err = KH_ERR_INIT;

	kh_session_charge(session, KH_LIMIT_WORK_PER_HEAD);
	enum kh_tunnel_kind kind = kh_tunnel_may_open(session, &session->side.authority, &err);
	session->side.tunnel = true;
	if (kind == KH_TUNNEL_DENIED)
		kh_tunnel_refuse(session, &err);
	else if (kind != KH_TUNNEL_RAW && !kh_tunnel_accept(session))
		kh_session_kill(session, KH_ERR_NO_MEMORY, NULL);
	else
		kh_tunnel_enter(session, kind);
}

/* Where each tenant has a CA of its own; a reload may have put the listener under another. */
static bool show_own_leaves(struct kh_session *session)
{
	return !session->side.loop->gen->leaves ||
	       kh_stream_use_leaves(session->leg.stream, leaves_of(session));
}

void kh_tunnel_first_bytes(struct kh_session *session)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_slice in = kh_buf_view(&session->in);
	enum kh_protocol_sniff what = kh_protocol_sniff_of(in);

	if (what == KH_PROTOCOL_SNIFF_HTTP) {
		(void)kh_session_set_state(session, KH_SESSION_HEAD);
		return;
	}
	if (what != KH_PROTOCOL_SNIFF_TLS) {
		kh_err_set(&err, KH_ERR_PROTOCOL_UNKNOWN,
			   "neither TLS nor HTTP inside the tunnel to %s (%s0x%02x)",
			   session->side.authority.host.text,
			   kh_slice_has_prefix(in, KH_SLICE("SSH-")) ? "SSH, first byte "
								     : "first byte ",
			   (unsigned char)in.ptr[0]);
		kh_down_deny(&session->side, &err);
		kh_session_kill(session, KH_ERR_PROTOCOL_UNKNOWN, NULL);
		return;
	}
	size_t hello = kh_hello_length(in);
	if (hello > KH_LIMIT_HELLO_BYTES) {
		kh_err_set(&err, KH_ERR_DOWN_TLS,
			   "ClientHello: too long, or a record without content");
		kh_count(session->side.loop, KH_COUNT_HANDSHAKES_DOWN_FAILED);
		kh_tunnel_refuse(session, &err);
		return;
	}
	if (hello == 0)
		return;
	if (!kh_session_may_work(session)) {
		session->deadline_ms = 0; /* it does not wait for the client */
		return;
	}
	/* The answer to CONNECT has to be out, in plain, before TLS speaks. */
	if (!kh_leg_flush(&session->leg)) {
		kh_session_kill(session, KH_ERR_DOWN_CLOSED, NULL);
		return;
	}
	if (kh_buf_len(&session->leg.out))
		return;
	kh_stream_watch(session->leg.stream, 0);
	if (!kh_stream_accept_tls(session->leg.stream, session->side.loop->down_ctx, in,
				  &session->side.authority.host,
				  session->side.loop->gen->config->timeouts.handshake) ||
	    !show_own_leaves(session)) {
		kh_session_kill(session, KH_ERR_NO_MEMORY, NULL);
		return;
	}
	if (!kh_acceptor_spends_ticket(session->side.acceptor))
		kh_stream_send_no_ticket(session->leg.stream);
	if (kh_session_set_state(session, KH_SESSION_HANDSHAKE))
		kh_buf_clear(&session->in);
}

void kh_tunnel_leaf(struct kh_session *session, bool found)
{
	if (!kh_session_awaits_leaf(session) || kh_session_set_leaf(session, KH_LEAF_STATE_ORDERED))
		kh_stream_leaf_ready(session->leg.stream, found);
}

void kh_tunnel_ask_again(struct kh_session *session)
{
	if (kh_leaves_has(leaves_of(session), &session->side.authority.host))
		kh_tunnel_leaf(session, true);
	else if (!order_leaf(session, true))
		kh_tunnel_leaf(session, false);
}

void kh_tunnel_event(struct kh_session *session, unsigned events)
{
	if (session->state != KH_SESSION_HANDSHAKE)
		return;
	if (events & KH_STREAM_WANTS_LEAF) {
		bool shown = show_own_leaves(session);
		bool there =
			shown && kh_leaves_has(leaves_of(session), &session->side.authority.host);

		if (!shown || there || !order_leaf(session, true))
			kh_tunnel_leaf(session, there);
		return;
	}
	if (events & KH_STREAM_HANDSHAKE_FAILED) {
		kh_count(session->side.loop, KH_COUNT_HANDSHAKES_DOWN_FAILED);
		struct kh_err err = *kh_stream_error(session->leg.stream);
		kh_err_wrap(&err, "TLS with the sandbox for %s", session->side.authority.host.text);
		kh_down_deny(&session->side, &err);
		kh_session_kill(session, err.code, NULL);
		return;
	}
	bool resumed = kh_stream_is_resumed(session->leg.stream);
	kh_count(session->side.loop,
		 resumed ? KH_COUNT_HANDSHAKES_DOWN_RESUMED : KH_COUNT_HANDSHAKES_DOWN);
	if (resumed)
		session->side.acceptor->handshakes = 0;
	session->side.tls = true;
	session->side.other_name = kh_stream_sni_mismatch(session->leg.stream);
	if (!kh_session_set_state(session, KH_SESSION_HEAD))
		return;
	if (kh_stream_is_h2(session->leg.stream) && !kh_mux_begin(session))
		kh_session_kill(session, KH_ERR_NO_MEMORY, NULL);
}
