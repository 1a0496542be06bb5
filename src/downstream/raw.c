/*
 * raw.c - tunnels whose content is not read: tcp:// rules, and TLS that is passed through; their
 * upstream side is upstream/up_raw.c
 *
 * Such a tunnel is an exchange without messages: what either side sends is its content. It is
 * recorded, dialled, guarded and timed like any other. Each direction ends by itself (a half-close
 * is passed on). The exchange ends when both have ended and the last byte was written. If the
 * upstream does not take what comes, keyhole stops reading from the sandbox, and the other way
 * round.
 */

#include "session_internal.h"

enum { READS_AT_ONCE = 4 };

/* ---- towards the sandbox ---- */

void kh_raw_begin(struct kh_session *session, enum kh_tunnel_kind kind)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_decision decision;
	const struct kh_standing now = kh_acceptor_standing(session->side.acceptor);

	/* They may have changed since the tunnel was accepted. */
	if (kh_policy_tunnel(now.gen->policy, now.tenant, now.narrowing,
			     &session->side.authority.host, session->side.authority.port,
			     &decision) != kind) {
		kh_err_set(&err, KH_ERR_NO_RULE, "no rule allows it any more");
		kh_tunnel_refuse(session, &err);
		return;
	}
	session->only.stream.ops = &kh_raw_down_ops;
	if (!kh_session_set_state(session, KH_SESSION_RAW))
		return;
	if (!kh_exchange_begin_tunnel(&session->only.stream, &session->side, kind, &decision))
		kh_session_kill(session, KH_ERR_NO_MEMORY, NULL);
}

/* Both sides have ended, and the upstream has taken all of it. */
static bool is_through(const struct kh_exchange *x)
{
	return kh_exchange_has_request(x) && kh_exchange_has_answer(x) &&
	       x->up.stream->ops->is_out(x->up.stream);
}

bool kh_raw_is_blocked(const struct kh_session *session)
{
	const struct kh_exchange *x = kh_session_exchange(session);

	if (kh_exchange_has_request(x))
		return kh_exchange_has_answer(x) && !is_through(x);
	return (session->eof || kh_buf_len(&session->in) > 0) && !kh_exchange_takes_body(x);
}

void kh_raw_process(struct kh_session *session)
{
	struct kh_exchange *x = kh_session_exchange(session);

	while (kh_buf_len(&session->in) > 0 && kh_exchange_takes_body(x)) {
		struct kh_slice piece =
			kh_slice_sub(kh_buf_view(&session->in), 0, KH_LEG_READ_BYTES);
		kh_exchange_body(x, piece);
		if (kh_session_exchange(session) != x)
			return; /* a limit, and it is over */
		kh_buf_consume(&session->in, piece.len);
	}
	if (session->eof && kh_buf_len(&session->in) == 0 && kh_exchange_takes_body(x))
		kh_exchange_request_end(x, NULL, 0);
	if (is_through(x))
		kh_exchange_end(x, KH_DOWN_WHOLE);
}

/* The upstream is there: who waited for that is told. */
static bool put_head(struct kh_down_stream *down, const struct kh_message *head)
{
	(void)head;
	return kh_session_is_accepted(down->session) || kh_tunnel_accept(down->session);
}

/* Nobody has others here. */
static bool put_no_head(struct kh_down_stream *down, const struct kh_message *head)
{
	(void)down;
	(void)head;
	return false;
}

static bool put_down(struct kh_down_stream *down, struct kh_slice piece)
{
	return kh_leg_put(&down->session->leg, piece);
}

/* The session sends the end when all is out. */
static bool put_down_end(struct kh_down_stream *down, const struct kh_field *trailers, size_t n)
{
	(void)down;
	(void)trailers;
	(void)n;
	return true;
}

static bool put_answer(struct kh_down_stream *down, const struct kh_answer *answer)
{
	struct kh_session *session = down->session;

	if (session->carrier && !kh_session_is_accepted(session))
		return kh_mux_tunnel_answer(session->carrier, answer);
	if (session->came_by == KH_PROTOCOL_SNIFF_HTTP && !kh_session_is_accepted(session))
		return kh_down_h1_ops.put_answer(down, answer);
	if (kh_session_is_accepted(session) && down->exchange->tunnel == KH_TUNNEL_RAW)
		return false; /* nobody knows what would be understood there */
	return kh_tunnel_put_refusal(session, answer->code);
}

static bool take_nothing_back(struct kh_down_stream *down)
{
	(void)down;
	return false;
}

static bool is_down_full(struct kh_down_stream *down)
{
	return kh_leg_is_full(&down->session->leg);
}

static void over(struct kh_down_stream *down, const struct kh_exchange *x, enum kh_down_end end)
{
	if (end == KH_DOWN_WHOLE)
		kh_session_exchange_over(down->session, false);
	else
		kh_session_kill(down->session, x->reason, x->detail);
}

static void turn(struct kh_down_stream *down)
{
	kh_session_turn(down->session);
}

const struct kh_down_ops kh_raw_down_ops = {
	.put_interim = put_no_head,
	.put_head = put_head,
	.put_content = put_down,
	.put_end = put_down_end,
	.put_answer = put_answer,
	.take_back = take_nothing_back,
	.is_full = is_down_full,
	.over = over,
	.turn = turn,
	.touch = turn,
};
