/*
 * raw.c - tunnels that nobody reads: tcp:// rules, and TLS that passes undecrypted
 *
 * An exchange without messages: what either side sends is its content. It is opened in the journal,
 * dialled, guarded and timed as any other. Each direction ends by itself (a half-close goes
 * through); the exchange ends when both have and the last byte has left. Where the upstream does
 * not take what comes, the sandbox is not read, and the other way round.
 */

#include "proxy_internal.h"

enum { READS_AT_ONCE = 4 };

/* ---- towards the sandbox ---- */

void kh_raw_begin(struct kh_session *session, enum kh_tunnel_kind kind)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_decision decision;

	/* They may have changed since the tunnel was accepted. */
	if (kh_policy_tunnel(session->loop->gen->policy, session->door->config->tenant,
			     session->door->narrowing, &session->authority.host,
			     session->authority.port, &decision) != kind) {
		kh_err_set(&err, KH_ERR_NO_RULE, "no rule allows it any more");
		kh_tunnel_refuse(session, &err);
		return;
	}
	session->only.stream.ops = &kh_down_raw_ops;
	session->state = KH_SESSION_RAW;
	session->deadline_ms = 0;
	if (!kh_exchange_begin_tunnel(&session->only.stream, kind, &decision))
		kh_session_kill(session, KH_ERR_NO_MEMORY, NULL);
}

/* Both sides have ended, and the upstream has taken all of it. */
static bool is_through(const struct kh_exchange *x)
{
	return x->request_done && x->response_done && x->up->conn->fin == KH_FIN_SENT;
}

bool kh_raw_is_blocked(const struct kh_session *session)
{
	const struct kh_exchange *x = kh_session_exchange(session);

	if (x->request_done)
		return x->response_done && !is_through(x);
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

/* Nobody has heads here. */
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

	if (session->carrier && !session->accepted)
		return kh_mux_tunnel_answer(session->carrier, answer);
	if (session->came_by == KH_OPENING_HTTP && !session->accepted)
		return kh_down_h1_ops.put_answer(down, answer);
	if (session->accepted && down->exchange->tunnel == KH_TUNNEL_RAW)
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

const struct kh_down_ops kh_down_raw_ops = {
	.put_interim = put_no_head,
	.put_head = put_no_head,
	.put_content = put_down,
	.put_end = put_down_end,
	.put_answer = put_answer,
	.take_back = take_nothing_back,
	.is_full = is_down_full,
	.over = over,
	.turn = turn,
};

/* ---- towards the upstream ---- */

/* The upstream is there: who waited for that is told, and what it said already goes down. */
static bool begin_relay(struct kh_up_stream *up, struct kh_err *err)
{
	struct kh_exchange *x = up->exchange;
	struct kh_session *session = x->session;
	struct kh_slice said = kh_buf_view(&up->conn->in);

	if (kh_exchange_spend(x, KH_QUOTA_BYTES_DOWN, said.len, err) < said.len)
		return false;
	if ((!session->accepted && !kh_tunnel_accept(session)) || !kh_leg_put(&session->leg, said))
		return kh_err_set(err, KH_ERR_DOWN_CLOSED, "the sandbox closed the connection");
	x->response_begun = true;
	x->status = 200;
	x->first_byte_ms = session->loop->now_ms;
	kh_exchange_moved_down(x, said.len);
	kh_buf_clear(&up->conn->in);
	return true;
}

static void put_up(struct kh_up_stream *up, struct kh_slice piece)
{
	struct kh_leg *leg = &up->conn->leg;

	if (!kh_leg_put(leg, piece))
		leg->failed = true; /* it shows when it is read */
}

static void flush_up(struct kh_up_stream *up)
{
	struct kh_up *conn = up->conn;

	(void)kh_leg_flush(&conn->leg);
	if (conn->fin == KH_FIN_WANTED && (kh_buf_len(&conn->leg.out) == 0 || conn->leg.failed)) {
		kh_stream_shutdown_write(conn->leg.stream);
		conn->fin = KH_FIN_SENT;
	}
}

static void put_up_end(struct kh_up_stream *up, const struct kh_field *trailers, size_t n)
{
	(void)trailers;
	(void)n;
	up->conn->fin = KH_FIN_WANTED;
	flush_up(up);
}

static bool is_up_full(const struct kh_up_stream *up)
{
	return kh_leg_is_full(&up->conn->leg);
}

static void update_up(struct kh_up_stream *up, bool wanted)
{
	const struct kh_leg *leg = &up->conn->leg;
	bool waits = kh_buf_len(&leg->out) && !leg->failed;

	wanted = wanted && !up->exchange->response_done;
	kh_stream_watch(leg->stream,
			(waits ? KH_STREAM_WRITABLE : 0u) | (wanted ? KH_STREAM_READABLE : 0u));
}

static void release_up(struct kh_up_stream *up, bool clean)
{
	(void)clean;
	up->exchange = NULL;
	kh_up_close(up->conn);
}

const struct kh_up_ops kh_up_raw_ops = {
	.put_head = begin_relay,
	.put_content = put_up,
	.put_end = put_up_end,
	.is_full = is_up_full,
	.flush = flush_up,
	.update = update_up,
	.release = release_up,
};

/* Return: false: there is nothing more to read, or nobody to read it for. */
static bool take(struct kh_up *up, enum kh_io io, size_t got)
{
	struct kh_exchange *x = up->only.exchange;

	switch (io) {
	case KH_IO_OK:
		x->progress_ms = up->loop->now_ms;
		if (!kh_response_body(x, kh_slice_sub(kh_buf_view(&up->in), 0, got)))
			return false;
		kh_buf_clear(&up->in);
		return got >= KH_LEG_READ_BYTES / 2;
	case KH_IO_AGAIN:
		return false;
	case KH_IO_EOF:
		x->response_done = true;
		return false;
	case KH_IO_TRUNCATED:
	case KH_IO_ERROR:
		break;
	}
	kh_exchange_fail(x, kh_stream_error(up->leg.stream));
	return false;
}

void kh_up_raw_readable(struct kh_up *up)
{
	for (int i = 0; i < READS_AT_ONCE; i++) {
		struct kh_exchange *x = up->only.exchange;
		struct kh_err err = KH_ERR_INIT;
		size_t got = 0;
		if (x->response_done || x->down->ops->is_full(x->down))
			return;
		char *room = kh_buf_reserve(&up->in, KH_LEG_READ_BYTES);
		if (!room) {
			kh_err_set(&err, KH_ERR_NO_MEMORY, "no memory for what comes");
			kh_exchange_fail(x, &err);
			return;
		}
		enum kh_io io = kh_stream_read(up->leg.stream, room, KH_LEG_READ_BYTES, &got);
		if (io == KH_IO_OK)
			kh_buf_commit(&up->in, got);
		if (!take(up, io, got))
			return;
	}
}
