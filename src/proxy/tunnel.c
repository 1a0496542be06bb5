/*
 * tunnel.c - from CONNECT, or a SOCKS5 request, to the first request inside
 *
 * Neither opens anything towards the internet, unless a tcp rule says so: it names the authority
 * that everything inside has to agree with. What comes first inside says what it is: a TLS record
 * (a leaf for that name is shown), or the letters of an HTTP method; anything else is refused.
 * Whether a host may be reached is decided for the requests inside, where the refusal can be read.
 */

#include <keyhole/hello.h>

#include "proxy_internal.h"

/* As what the journal gets. */
static void count_denial(struct kh_session *session, enum kh_err_code code)
{
	struct kh_loop *loop = session->loop;
	struct kh_tally **tallies = loop->gen->tallies;
	struct kh_tally_row *row =
		tallies ? kh_tally_row(tallies[session->door->config->tenant], loop->index) : NULL;

	if (row)
		kh_counter_add(&row->requests[KH_FATE_DENY], 1);
	atomic_fetch_add_explicit(&session->door->gate->fates[KH_FATE_DENY], 1,
				  memory_order_relaxed);
	kh_counter_add(&loop->counts.denials[code], 1);
	if (code == KH_ERR_LIMIT)
		kh_counter_add(&loop->counts.limits[KH_QUOTA_CONNECTIONS], 1);
}

void kh_tunnel_deny(struct kh_session *session, const struct kh_err *err)
{
	kh_tunnel_deny_to(session, session->tunnel ? &session->authority : NULL, err);
}

void kh_tunnel_deny_to(struct kh_session *session, const struct kh_authority *authority,
		       const struct kh_err *err)
{
	const struct kh_config *config = session->loop->gen->config;
	char id[KH_EXCHANGE_ID_BYTES], limit[KH_LIMIT_TEXT_BYTES];

	kh_exchange_id(id);
	struct kh_audit_open what = {
		.id = id,
		.tenant = config->tenants[session->door->config->tenant].name,
		.sandbox = session->door->config->sandbox,
		.peer_pid = (uint32_t)session->peer.pid,
		.peer_uid = session->peer.uid,
		.client = session->peer.address[0] ? session->peer.address : NULL,
		.via = kh_session_via(session),
		.authority = authority,
		.scheme = session->tls ? KH_SCHEME_HTTPS : KH_SCHEME_NONE,
	};
	struct kh_decision decision;
	/* Which rule said so: it is asked once more. */
	if (authority && (err->code == KH_ERR_DENIED_BY_RULE || err->code == KH_ERR_NO_RULE) &&
	    kh_policy_tunnel(session->loop->gen->policy, session->door->config->tenant,
			     session->door->narrowing, &authority->host, authority->port,
			     &decision) == KH_TUNNEL_DENIED) {
		kh_audit_name_rule(&what, config, decision.rule);
		what.denied_by = kh_list_name(decision.list);
	}
	struct kh_audit_close how = {
		.id = id,
		.status = (uint16_t)kh_err_status(err->code),
		.reason = err->code,
		.detail = err->text,
		.limit = err->code == KH_ERR_LIMIT ? kh_session_reached(session, limit) : NULL,
	};
	count_denial(session, err->code);
	if (kh_loop_make_room(session->loop) && kh_audit_deny(&session->loop->batch, &what, &how))
		kh_loop_show(session->loop, what.tenant, what.sandbox, &session->loop->batch);
	kh_loop_hold(session);
	if (kh_door_may_log(session->door))
		kh_log_info("%s: refused: %s", id, err->text);
}

/* A leaf for the tunnel's host, unless it is there: asked ahead of the ClientHello, which saves its
 * wait. */
static bool order_leaf(struct kh_session *session)
{
	struct kh_worker *worker = session->loop->worker;

	if (kh_leaves_has(worker->leaves, &session->authority.host))
		return true;
	if (!session->leaf_ordered && !kh_leaves_had(worker->leaves, &session->authority.host) &&
	    !kh_door_may_mint(session->door))
		return false;
	session->leaf_ordered = true;
	return kh_worker_want_leaf(worker, &session->authority.host);
}

bool kh_tunnel_read(struct kh_session *session, const struct kh_message *connect,
		    struct kh_authority *out, struct kh_err *err)
{
	struct kh_authority named;

	/* In HTTP/2 the authority is all that CONNECT has, and what follows is the tunnel's. */
	struct kh_slice target = connect->h2 ? connect->host : connect->target;
	struct kh_slice host = connect->h2 ? KH_SLICE("") : connect->host;

	if (session->tunnel)
		return kh_err_set(err, KH_ERR_REQUEST_MALFORMED,
				  "CONNECT inside a tunnel is not supported");
	if (!connect->h2 && connect->framing != KH_FRAMING_NONE)
		return kh_err_set(err, KH_ERR_REQUEST_MALFORMED, "CONNECT carries no content");
	if (!kh_authority_parse(out, target, 0, err))
		return kh_err_wrap(err, "CONNECT");
	if (!kh_auth_check(session, connect, err))
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
	session->authority = authority;
	kh_tunnel_begin(session);
}

bool kh_tunnel_accept(struct kh_session *session)
{
	struct kh_buf *out = &session->leg.out;

	session->accepted = true;
	if (session->carrier)
		return kh_mux_tunnel_accept(session->carrier);
	switch (session->came_by) {
	case KH_OPENING_SOCKS:
		return kh_socks_put_reply(out, KH_SOCKS_SUCCEEDED);
	case KH_OPENING_TLS: /* it has not asked */
		return true;
	case KH_OPENING_HTTP:
	case KH_OPENING_OTHER:
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
	return kh_err_status(code) == 403 ? KH_ALERT_ACCESS_DENIED : KH_ALERT_INTERNAL_ERROR;
}

bool kh_tunnel_put_refusal(struct kh_session *session, enum kh_err_code code)
{
	unsigned char alert[KH_ALERT_BYTES];

	if (session->came_by == KH_OPENING_SOCKS && !session->accepted)
		return kh_socks_put_reply(&session->leg.out, kh_socks_reply_for(code));
	kh_alert_format(alert_for(code), alert);
	return kh_buf_append(&session->leg.out, alert, sizeof(alert));
}

void kh_tunnel_refuse(struct kh_session *session, const struct kh_err *err)
{
	if (session->came_by == KH_OPENING_HTTP && !session->accepted) {
		kh_session_refuse(session, err);
		return;
	}
	kh_tunnel_deny(session, err);
	session->closing = true;
	if (kh_tunnel_put_refusal(session, err->code))
		kh_session_set_state(session, KH_SESSION_LINGER);
	else
		kh_session_kill(session, err->code, NULL);
}

enum kh_tunnel_kind kh_tunnel_may_open(struct kh_session *session,
				       const struct kh_authority *authority, struct kh_err *err)
{
	struct kh_decision decision;

	if (!kh_session_take_place(session, err))
		return KH_TUNNEL_DENIED;
	if (kh_own_is(&authority->host))
		return KH_TUNNEL_READ; /* there is nothing behind it */
	enum kh_tunnel_kind kind = kh_policy_tunnel(
		session->loop->gen->policy, session->door->config->tenant, session->door->narrowing,
		&authority->host, authority->port, &decision);
	if (kind == KH_TUNNEL_DENIED)
		(void)kh_request_say_denied(&decision, err);
	return kind;
}

void kh_tunnel_enter(struct kh_session *session, enum kh_tunnel_kind kind)
{
	session->tunnel = true;
	session->counted = true;
	kh_count(session->loop, KH_COUNT_TUNNELS);
	kh_count(session->loop, KH_COUNT_TUNNELS_OPEN);
	session->tunnel_ends_ms = kh_session_tunnel_ends(session);
	session->deadline_ms = 0;
	if (kind == KH_TUNNEL_RAW) {
		kh_raw_begin(session, kind); /* a server may speak first: nothing is waited for */
	} else if (kind == KH_TUNNEL_PASS) {
		session->state = KH_SESSION_HELLO;
	} else {
		session->state = KH_SESSION_TUNNEL;
		(void)order_leaf(session);
	}
}

void kh_tunnel_begin(struct kh_session *session)
{
	struct kh_err err = KH_ERR_INIT;

	enum kh_tunnel_kind kind = kh_tunnel_may_open(session, &session->authority, &err);
	session->tunnel = true;
	if (kind == KH_TUNNEL_DENIED)
		kh_tunnel_refuse(session, &err);
	else if (kind != KH_TUNNEL_RAW && !kh_tunnel_accept(session))
		kh_session_kill(session, KH_ERR_NO_MEMORY, NULL);
	else
		kh_tunnel_enter(session, kind);
}

void kh_tunnel_first_bytes(struct kh_session *session)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_slice in = kh_buf_view(&session->in);
	enum kh_opening what = kh_opening_of(in);

	session->deadline_ms = 0;
	if (what == KH_OPENING_HTTP) {
		session->state = KH_SESSION_HEAD;
		return;
	}
	if (what != KH_OPENING_TLS) {
		kh_err_set(&err, KH_ERR_PROTOCOL_UNKNOWN,
			   "neither TLS nor HTTP inside the tunnel to %s (first byte 0x%02x)",
			   session->authority.host.text, (unsigned char)in.ptr[0]);
		kh_tunnel_deny(session, &err);
		kh_session_kill(session, KH_ERR_PROTOCOL_UNKNOWN, NULL);
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
	if (!kh_stream_accept_tls(session->leg.stream, session->loop->down_ctx, in,
				  &session->authority.host,
				  session->loop->gen->config->timeouts.handshake)) {
		kh_session_kill(session, KH_ERR_NO_MEMORY, NULL);
		return;
	}
	if (!kh_door_spends_ticket(session->door))
		kh_stream_send_no_ticket(session->leg.stream);
	session->state = KH_SESSION_HANDSHAKE;
	kh_buf_clear(&session->in);
}

void kh_tunnel_leaf(struct kh_session *session, bool found)
{
	session->wants_leaf = false;
	kh_stream_leaf_ready(session->leg.stream, found);
}

void kh_tunnel_event(struct kh_session *session, unsigned events)
{
	if (session->state != KH_SESSION_HANDSHAKE)
		return;
	if (events & KH_STREAM_WANTS_LEAF) {
		if (kh_leaves_has(session->loop->worker->leaves, &session->authority.host))
			kh_tunnel_leaf(session, true);
		else if (order_leaf(session))
			session->wants_leaf = true;
		else
			kh_tunnel_leaf(session, false);
		return;
	}
	if (events & KH_STREAM_HANDSHAKE_FAILED) {
		kh_count(session->loop, KH_COUNT_HANDSHAKES_DOWN_FAILED);
		struct kh_err err = *kh_stream_error(session->leg.stream);
		kh_err_wrap(&err, "TLS with the sandbox for %s", session->authority.host.text);
		kh_tunnel_deny(session, &err);
		kh_session_kill(session, err.code, NULL);
		return;
	}
	bool resumed = kh_stream_is_resumed(session->leg.stream);
	kh_count(session->loop,
		 resumed ? KH_COUNT_HANDSHAKES_DOWN_RESUMED : KH_COUNT_HANDSHAKES_DOWN);
	if (resumed)
		session->door->handshakes = 0;
	session->tls = true;
	session->state = KH_SESSION_HEAD;
	session->deadline_ms = 0;
	if (kh_stream_is_h2(session->leg.stream) && !kh_mux_begin(session))
		kh_session_kill(session, KH_ERR_NO_MEMORY, NULL);
}
