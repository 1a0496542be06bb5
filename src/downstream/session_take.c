/* session_take.c - processes what was read from a sandbox, as far as the session's state allows */

#include "session_internal.h"

/*
 * Each head and each piece of content is charged to the sandbox's share of the turn
 * (work_share.h). When that is spent, the session waits in line with what was read.
 */

bool kh_session_may_work(struct kh_session *session)
{
	struct kh_work_share *share = &session->side.acceptor->work;

	if (kh_session_is_in_line(session))
		return false;
	if (kh_work_share_left(share) > 0)
		return true;
	kh_work_share_wait(share, &session->place);
	return false;
}

/* May it go on with what was read? */
static bool has_share(struct kh_session *session)
{
	return kh_buf_len(&session->in) == 0 || kh_session_may_work(session);
}

/* Its first bytes are there, and not all. */
static void begin_head(struct kh_session *session)
{
	if (session->state == KH_SESSION_HEAD)
		(void)kh_session_set_state(session, KH_SESSION_HEAD_BEGUN);
}

/* The first bytes of a connection, or of what a tunnel carries in plain, may say that HTTP/2
 * follows (RFC 9113 §3.3). Return: true: they do, or may yet. */
static bool take_preface(struct kh_session *session)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
	struct kh_slice in = kh_buf_view(&session->in);
	size_t n = in.len < sizeof(preface) - 1 ? in.len : sizeof(preface) - 1;

	if (session->h1 || session->side.tls || memcmp(in.ptr, preface, n) != 0)
		return false;
	if (n < sizeof(preface) - 1)
		begin_head(session);
	else if (!kh_mux_begin(session))
		kh_session_kill(session, KH_ERR_NO_MEMORY, NULL);
	return true;
}

static void take_head(struct kh_session *session)
{
	struct kh_slice in = kh_buf_view(&session->in), body;
	size_t before = in.len;

	if (before == 0 || take_preface(session))
		return;
	if (!session->h1 && !(session->h1 = kh_h1_new(KH_H1_REQUESTS))) {
		kh_session_kill(session, KH_ERR_NO_MEMORY, NULL);
		return;
	}
	enum kh_h1_event event = kh_h1_feed(session->h1, &in, &body);
	kh_buf_consume(&session->in, before - in.len);
	kh_session_charge(session,
			  before - in.len +
				  (event == KH_H1_NEED_MORE ? 0 : (size_t)KH_LIMIT_WORK_PER_HEAD));
	if (event == KH_H1_ERROR) {
		kh_session_refuse(session, kh_h1_error(session->h1));
		return;
	}
	if (event == KH_H1_NEED_MORE) {
		if (!kh_h1_is_idle(session->h1))
			begin_head(session);
		return;
	}
	const struct kh_message *message = kh_h1_message(session->h1);
	session->exchanges++;
	if (kh_slice_eq(message->method, KH_SLICE("CONNECT"))) {
		kh_tunnel_open(session, message);
		return;
	}
	if (!kh_session_set_state(session, KH_SESSION_EXCHANGE))
		return;
	session->only.close = !message->keep_alive;
	session->only.continued = false;
	if (!kh_exchange_begin(&session->only.stream, &session->side, message))
		kh_session_kill(session, KH_ERR_NO_MEMORY, NULL);
}

/* A WebSocket's bytes, as they came. Return: false when there is nothing to take now. */
static bool take_frames(struct kh_session *session, struct kh_exchange *x)
{
	struct kh_slice bytes = kh_slice_sub(kh_buf_view(&session->in), 0, KH_LEG_READ_BYTES);

	if (bytes.len == 0 && !session->eof) {
		kh_buf_release(&session->in);
		return false;
	}
	kh_session_charge(session, bytes.len); /* any number of frames */
	if (bytes.len == 0)
		kh_exchange_request_end(x, NULL, 0);
	else
		kh_exchange_body(x, bytes);
	kh_buf_consume(&session->in, bytes.len);
	return true;
}

/* One event of the codec, for content that goes up or nowhere. Return: false when there is nothing
 * more to take now. */
static bool take_body(struct kh_session *session)
{
	struct kh_slice in = kh_buf_view(&session->in), body;
	size_t before = in.len;
	struct kh_exchange *x = kh_session_exchange(session);

	if (x && kh_exchange_is_websocket(x))
		return take_frames(session, x);
	enum kh_h1_event event = kh_h1_feed(session->h1, &in, &body);
	if (before > in.len)
		kh_session_charge(session, kh_work_of_piece(before - in.len));
	if (event == KH_H1_BODY && x) {
		kh_exchange_body(x, body);
	} else if (event == KH_H1_BODY) {
		session->discarded_bytes += body.len;
	}
	if (session->state == KH_SESSION_DEAD)
		return false;
	kh_buf_consume(&session->in, before - in.len);
	if (event == KH_H1_END && x) {
		size_t n = 0;
		const struct kh_field *trailers = kh_h1_trailers(session->h1, &n);
		kh_exchange_request_end(x, trailers, n);
	} else if (event == KH_H1_END) {
		(void)kh_session_set_state(session, KH_SESSION_HEAD);
	} else if (event == KH_H1_ERROR && x) {
		kh_exchange_fail(x, kh_h1_error(session->h1));
	} else if (event == KH_H1_ERROR || session->discarded_bytes > KH_SESSION_DISCARD_BYTES) {
		session->closing = true;
		(void)kh_session_set_state(session, KH_SESSION_LINGER);
	}
	if (event == KH_H1_NEED_MORE && session->eof)
		kh_session_kill(session, KH_ERR_DOWN_CLOSED,
				"the sandbox went away before its request was complete");
	return event != KH_H1_NEED_MORE;
}

/* In EXCHANGE and DISCARD. Return: false: the rest waits. */
static bool take_content(struct kh_session *session)
{
	enum kh_session_state state = session->state;

	if (state == KH_SESSION_EXCHANGE && !kh_exchange_takes_body(kh_session_exchange(session)))
		return false;
	return has_share(session) && (take_body(session) || session->state != state);
}

void kh_session_process(struct kh_session *session)
{
	for (;;) {
		enum kh_session_state state = session->state;
		size_t left = kh_buf_len(&session->in);

		switch (state) {
		case KH_SESSION_HEAD:
		case KH_SESSION_HEAD_BEGUN:
			if (session->closing || kh_session_has_said_all(session)) {
				(void)kh_session_set_state(session, KH_SESSION_LINGER);
				continue;
			}
			if (kh_leg_is_full(&session->leg) || !has_share(session))
				return;
			if (session->came_by == KH_PROTOCOL_SNIFF_UNSEEN && left > 0 &&
			    !kh_session_open(session))
				continue;
			take_head(session);
			break;
		case KH_SESSION_SOCKS:
			kh_session_socks(session);
			break;
		case KH_SESSION_HELLO:
			if (left == 0)
				return;
			kh_session_hello(session);
			break;
		case KH_SESSION_RAW:
			kh_raw_process(session);
			break;
		case KH_SESSION_TUNNEL:
			if (left == 0)
				return;
			kh_tunnel_first_bytes(session);
			break;
		case KH_SESSION_EXCHANGE:
		case KH_SESSION_DISCARD:
			if (!take_content(session))
				return;
			continue;
		case KH_SESSION_LINGER:
			kh_buf_consume(&session->in, left);
			return;
		case KH_SESSION_NEW:
		case KH_SESSION_HANDSHAKE:
		case KH_SESSION_H2: /* kh_mux_turn takes it */
		case KH_SESSION_DEAD:
			return;
		}
		if (session->state == state && kh_buf_len(&session->in) == left)
			return; /* waits for more */
		if (session->state == state && kh_session_awaits_head(session) && !session->eof &&
		    kh_buf_len(&session->in) == 0)
			return;
	}
}
