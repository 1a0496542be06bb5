/*
 * mux.c - a session that speaks HTTP/2
 *
 * The codec (h2.h) gives events while it is fed. Each becomes a call to the exchange, or the
 * tunnel, of its stream. Calls from elsewhere (an upstream has answered, the session in a tunnel
 * has written) only mark the stream as ready and schedule the session. At the end of the loop's
 * turn all ready streams are served, and their output is written together.
 *
 * A turn does only so much work of one connection (KH_LIMIT_H2_TURN_BYTES), and of all connections
 * of its sandbox together (work_share.h). That includes the decisions for the heads and ends that
 * the codec gives. Input after it stays in the session's buffer until a later turn of the loop, and
 * nothing more is read meanwhile.
 *
 * A stream that must wait is paused: the codec keeps what its window allows, and the peer waits. So
 * all streams together keep at most the sum of their windows, and no stream waits for another.
 */

#include <keyhole/base/clock.h>

#include "session_internal.h"

enum { STREAM_WINDOW_BYTES = 64 * 1024 };

/* ---- events of the codec ---- */

/* RFC 8441: from here on a GET that asks for a WebSocket. */
static void take_extended_connect(struct kh_down_h2 *s, const struct kh_message *message)
{
	struct kh_session *session = s->stream.session;
	struct kh_err err = KH_ERR_INIT;

	if (!kh_ws_is_request(message))
		kh_err_set(&err, KH_ERR_METHOD_UNSUPPORTED, "CONNECT for the protocol %s",
			   kh_esc(message->protocol));
	else if (message->framing == KH_FRAMING_NONE)
		kh_err_set(&err, KH_ERR_REQUEST_MALFORMED,
			   "WebSocket: the stream ends with its head");
	if (err.code) {
		kh_down_h2_refuse(s, session->side.tunnel ? &session->side.authority : NULL, &err);
		return;
	}
	s->get = kh_websocket_as_get(message);
	if (s->get && kh_exchange_begin(&s->stream, &s->stream.session->side, s->get))
		kh_down_h2_ready(s);
	else
		kh_down_h2_reset(s);
}

/* Nothing of it is kept: the answer, and the end of the stream behind it. */
static void turn_away(struct kh_down_h2 *s)
{
	struct kh_session *session = s->stream.session;
	struct kh_err err = KH_ERR_INIT;

	kh_err_set(&err, KH_ERR_LIMIT, "too much of this sandbox is under way in HTTP/2");
	kh_down_deny(&session->side, &err);
	(void)kh_denial_put(&s->stream, &s->stream.session->side, NULL, &err);
	kh_down_h2_release(s);
}

static void take_head(struct kh_mux *mux, const struct kh_h2_event *event)
{
	struct kh_session *session = mux->session;
	struct kh_down_h2 *s = kh_down_h2_new(mux, event->stream);

	if (!s) {
		kh_h2_release(event->stream);
		return;
	}
	if (event->kind == KH_H2_REFUSED) {
		kh_down_h2_refuse(s, session->side.tunnel ? &session->side.authority : NULL,
				  event->err);
		return;
	}
	/* One notice; what was under way when it came is still taken, and not for ever. */
	uint32_t most = session->side.loop->gen->config->max_exchanges;
	if (++session->exchanges == most || session->exchanges == most + KH_LIMIT_H2_STREAMS)
		kh_mux_drain(session);
	if (!kh_acceptor_takes_streams(session->side.acceptor))
		turn_away(s);
	else if (event->message->protocol.len > 0)
		take_extended_connect(s, event->message);
	else if (kh_slice_eq(event->message->method, KH_SLICE("CONNECT")))
		kh_mux_tunnel_open(s, event->message);
	else if (kh_exchange_begin(&s->stream, &s->stream.session->side, event->message))
		kh_down_h2_ready(s);
	else
		kh_down_h2_reset(s);
	if (s->stream.exchange && !kh_exchange_takes_body(s->stream.exchange)) {
		s->paused = true;
		kh_h2_pause(s->h2);
	}
}

static void take_body(struct kh_down_h2 *s, struct kh_slice piece)
{
	if (s->inner) {
		kh_mux_tunnel_body(s, piece);
		return;
	}
	if (!s->stream.exchange) {
		s->discarded_bytes += piece.len;
		if (s->discarded_bytes > KH_SESSION_DISCARD_BYTES)
			kh_down_h2_release(s);
		return;
	}
	s->stream.exchange->progress_ms = s->loop->now_ms;
	kh_exchange_body(s->stream.exchange, piece); /* which may be over then */
	kh_down_h2_ready(s);
}

static void take_end(struct kh_down_h2 *s, const struct kh_h2_event *event)
{
	if (s->inner) {
		s->in_ended = true;
		kh_stream_pipe_changed(s->inner);
	} else if (s->stream.exchange) {
		kh_exchange_request_end(s->stream.exchange, event->trailers, event->n_trailers);
		kh_down_h2_ready(s);
	} else if (s->discard_until_ms) {
		kh_down_h2_release(s);
	}
}

static void take_reset(struct kh_mux *mux, const struct kh_h2_event *event)
{
	if (event->user && event->err && event->err->code)
		kh_down_h2_gone(event->user, event->err->code, event->err->text);
	else if (event->user)
		kh_down_h2_gone(event->user, KH_ERR_DOWN_CLOSED,
				"the sandbox gave it up before the response was complete");
	else if (event->err && event->err->code == KH_ERR_REQUEST_MALFORMED)
		kh_down_deny(&mux->session->side, event->err);
}

static void take_writable(struct kh_down_h2 *s)
{
	if (s->stream.exchange)
		s->stream.exchange->progress_ms = s->loop->now_ms;
	if (s->inner)
		kh_stream_pipe_changed(s->inner);
	kh_down_h2_ready(s);
}

/* Behind it what begins is ignored: the GOAWAY says that it was not processed. */
static void say_goodbye(struct kh_mux *mux)
{
	if (mux->goodbye != KH_MUX_GOODBYE_NOTICE)
		return;
	mux->goodbye = KH_MUX_GOODBYE_SAID;
	kh_h2_goaway(mux->h2);
	kh_session_touch(mux->session);
}

static void take_event(struct kh_mux *mux, const struct kh_h2_event *event)
{
	switch (event->kind) {
	case KH_H2_HEAD:
	case KH_H2_REFUSED:
		take_head(mux, event);
		break;
	case KH_H2_BODY:
		take_body(event->user, event->body);
		break;
	case KH_H2_END:
		take_end(event->user, event);
		break;
	case KH_H2_RESET:
		take_reset(mux, event);
		break;
	case KH_H2_WRITABLE:
		take_writable(event->user);
		break;
	case KH_H2_ERROR:
		mux->broken = true;
		kh_down_deny(&mux->session->side, event->err);
		break;
	case KH_H2_PONG:
		say_goodbye(mux);
		break;
	case KH_H2_GOAWAY:
	case KH_H2_SETTINGS:
		break;
	}
}

/* What was decided is charged to the share already. It counts for the codec's turn as well, since
 * the next head, or the next end of held content, may be in the same bytes. */
static void on_event(const struct kh_h2_event *event, void *arg)
{
	struct kh_mux *mux = arg;
	const struct kh_work_share *share = &mux->session->side.acceptor->work;
	size_t before = share->done;

	take_event(mux, event);
	if (share->done > before)
		kh_h2_spend(mux->h2, share->done - before);
}

/* ---- life ---- */

bool kh_mux_begin(struct kh_session *session)
{
	struct kh_h2_settings settings = {
		.role = KH_H2_SERVER,
		.max_streams = session->side.tunnel ? KH_LIMIT_H2_STREAMS : KH_LIMIT_H2_TUNNELS,
		.max_exchanges = KH_LIMIT_H2_STREAMS,
		.stream_window_bytes = STREAM_WINDOW_BYTES,
		.extended_connect = true,
	};
	struct kh_mux *mux = calloc(1, sizeof(*mux));

	if (!mux)
		return false;
	settings.connection_window_bytes = settings.max_streams * STREAM_WINDOW_BYTES;
	mux->session = session;
	kh_list_init(&mux->streams);
	kh_list_init(&mux->cut);
	kh_list_init(&mux->ready);
	kh_list_init(&mux->late);
	mux->idle_since_ms = session->side.loop->now_ms;
	mux->h2 = kh_h2_new(&settings, on_event, mux);
	if (!mux->h2) {
		free(mux);
		return false;
	}
	session->mux = mux;
	if (!kh_session_set_state(session, KH_SESSION_H2))
		return true;
	if (session->side.loop->retiring)
		kh_mux_drain(session);
	kh_session_touch(session);
	return true;
}

void kh_mux_drain(struct kh_session *session)
{
	enum { NOTICE_MS = 1000 };
	struct kh_mux *mux = session->mux;

	session->closing = true;
	if (mux->goodbye != KH_MUX_GOODBYE_NONE) {
		say_goodbye(mux);
		return;
	}
	mux->goodbye = KH_MUX_GOODBYE_NOTICE;
	mux->notice_ends_ms = session->side.loop->now_ms + NOTICE_MS;
	kh_h2_goaway(mux->h2);
	if (!kh_h2_ping(mux->h2))
		say_goodbye(mux);
	kh_session_touch(session);
}

/* A request may be on its way to a process that goes on for a while. */
static bool waits_for_more(const struct kh_session *session)
{
	return session->mux->goodbye == KH_MUX_GOODBYE_NOTICE && !session->side.loop->draining;
}

/* ---- the turn ---- */

bool kh_mux_is_behind(const struct kh_mux *mux)
{
	return !mux->broken && (kh_h2_is_behind(mux->h2) || kh_session_is_in_line(mux->session));
}

static void take(struct kh_session *session)
{
	struct kh_mux *mux = session->mux;
	struct kh_work_share *share = &session->side.acceptor->work;
	struct kh_slice in = kh_buf_view(&session->in);
	size_t taken = in.len, most = 0;

	if (kh_session_is_in_line(session) || (in.len == 0 && !kh_mux_is_behind(mux)))
		return;
	if (!mux->broken && (most = kh_work_share_left(share)) == 0) {
		kh_work_share_wait(share, &session->place);
		return;
	}
	if (!mux->broken) {
		most = most < KH_LIMIT_H2_TURN_BYTES ? most : KH_LIMIT_H2_TURN_BYTES;
		if (!kh_h2_feed_turn(mux->h2, in, most, session->side.loop->now_ms, &taken))
			mux->broken = true;
		kh_work_share_charge(share, kh_h2_turn_bytes(mux->h2));
	}
	kh_buf_consume(&session->in, taken);
	if (kh_mux_is_behind(mux))
		kh_work_share_wait(share, &session->place);
}

/* `list`: the mux's ready or late. */
static void serve(struct kh_mux *mux, struct kh_node *list)
{
	struct kh_node ready;

	kh_list_move(list, &ready);
	while (!kh_list_is_empty(&ready)) {
		struct kh_down_h2 *s = kh_container_of(ready.next, struct kh_down_h2, ready_link);
		kh_list_remove(&s->ready_link);
		kh_down_h2_serve(s);
		uint64_t deadline =
			s->stream.exchange ? kh_exchange_deadline(s->stream.exchange) : 0;
		if (deadline && (mux->earliest_ms == 0 || deadline < mux->earliest_ms))
			mux->earliest_ms = deadline;
	}
}

static void end_cut(struct kh_mux *mux)
{
	struct kh_node *next;

	for (struct kh_node *node = mux->cut.next; node != &mux->cut; node = next) {
		struct kh_down_h2 *s = kh_container_of(node, struct kh_down_h2, link);
		next = node->next;
		if (kh_h2_waiting_bytes(s->h2) == 0)
			kh_down_h2_reset(s);
	}
}

/* Return: false when the connection failed. */
static bool write_out(struct kh_session *session)
{
	struct kh_mux *mux = session->mux;

	end_cut(mux);
	if (!kh_h2_drain(mux->h2, &session->leg.out))
		return false;
	return kh_buf_len(&session->leg.out) == 0 || kh_list_has_node(&session->side.answer.link) ||
	       kh_leg_flush(&session->leg);
}

static void rest(struct kh_session *session)
{
	struct kh_mux *mux = session->mux;

	if (mux->broken || kh_h2_is_over(mux->h2)) {
		kh_session_linger(session);
	} else if (kh_mux_is_behind(mux)) {
		return;
	} else if (session->closing && kh_h2_streams(mux->h2) == 0 && !waits_for_more(session)) {
		if (mux->goodbye != KH_MUX_GOODBYE_SAID)
			kh_h2_goaway(mux->h2); /* with the number of the last one */
		if (kh_h2_drain(mux->h2, &session->leg.out))
			kh_session_linger(session);
		else
			kh_session_kill(session, KH_ERR_NO_MEMORY, NULL);
	} else if (mux->n_streams == 0) {
		kh_buf_release(&session->in);
		kh_buf_release(&session->leg.out);
	}
}

/* Return: false: it has ended, for what it keeps. */
static bool account(struct kh_session *session)
{
	struct kh_mux *mux = session->mux;
	size_t streams = kh_h2_streams(mux->h2), before = mux->kept_bytes;

	/* A tunnel is one of the sandbox's connections. */
	streams -= mux->n_tunnels < streams ? mux->n_tunnels : streams;
	mux->kept_bytes = kh_h2_kept_bytes(mux->h2) +
			  streams * (size_t)KH_LIMIT_H2_KEPT_PER_EXCHANGE + mux->beyond_bytes;
	if (mux->kept_bytes == before ||
	    kh_acceptor_may_keep(session->side.acceptor, before, mux->kept_bytes))
		return true;
	kh_session_kill(session, KH_ERR_LIMIT,
			"the HTTP/2 connections of this sandbox keep too much memory");
	return false;
}

void kh_mux_turn(struct kh_session *session)
{
	struct kh_mux *mux = session->mux;

	/* Before what is new, so that it comes to them. */
	if (!kh_session_is_in_line(session))
		serve(mux, &mux->late);
	do {
		take(session);
		serve(mux, &mux->ready);
		if (!write_out(session)) {
			kh_session_kill(session, KH_ERR_DOWN_CLOSED,
					"the sandbox closed the connection");
			return;
		}
	} while (!kh_list_is_empty(&mux->ready) ||
		 (kh_buf_len(&session->leg.out) == 0 && kh_h2_wants_drain(mux->h2)));
	if (account(session))
		rest(session);
}

/* ---- time ---- */

uint64_t kh_mux_deadline(const struct kh_mux *mux)
{
	uint64_t notice = mux->goodbye == KH_MUX_GOODBYE_NOTICE ? mux->notice_ends_ms : 0;

	if (notice && (mux->n_streams == 0 || !mux->earliest_ms || notice < mux->earliest_ms))
		return notice;
	if (mux->n_streams > 0)
		return mux->earliest_ms;
	if (kh_session_is_in_line(mux->session)) /* which is served in any case */
		return 0;
	return mux->idle_since_ms + mux->session->side.loop->gen->config->timeouts.idle_down;
}

/* A reader that is slow and does read is no stall. It has no more than any other of the times that
 * end what is busy. */
static bool has_moved(struct kh_down_h2 *s)
{
	size_t waiting = kh_h2_waiting_bytes(s->h2);
	bool moved = waiting > 0 && waiting != s->waiting_bytes;

	s->waiting_bytes = waiting;
	return moved;
}

/* Ends what has waited too long. Return: when to look again, or 0. */
static uint64_t look_at_time(struct kh_down_h2 *s, uint64_t now)
{
	struct kh_exchange *x = s->stream.exchange;
	uint64_t deadline = x ? kh_exchange_deadline(x) : s->discard_until_ms;

	if (deadline == 0 || now < deadline)
		return deadline;
	if (!x) {
		kh_down_h2_release(s);
		return 0;
	}
	if (kh_exchange_has_answered(x) && has_moved(s)) {
		x->progress_ms = now;
		deadline = kh_exchange_deadline(x);
		if (now < deadline)
			return deadline;
	}
	kh_exchange_timed_out(x);
	return s->discard_until_ms;
}

void kh_mux_timed_out(struct kh_session *session)
{
	struct kh_mux *mux = session->mux;
	uint64_t now = session->side.loop->now_ms;
	struct kh_node rest;

	if (mux->n_streams == 0) {
		/* Also where the rest of an answer waits for a window that nobody opens. */
		kh_h2_goaway(mux->h2);
		kh_h2_goaway(mux->h2);
		mux->broken = true;
		return;
	}
	if (now >= mux->notice_ends_ms)
		say_goodbye(mux);
	mux->earliest_ms = 0;
	kh_list_move(&mux->streams, &rest);
	while (!kh_list_is_empty(&rest)) {
		struct kh_down_h2 *s = kh_container_of(rest.next, struct kh_down_h2, link);
		kh_list_remove(&s->link);
		kh_list_append(&mux->streams, &s->link);
		uint64_t deadline = look_at_time(s, now);
		if (deadline && (mux->earliest_ms == 0 || deadline < mux->earliest_ms))
			mux->earliest_ms = deadline;
	}
}
