/*
 * down_h2.c - an exchange's stream towards the sandbox on an HTTP/2 connection
 *
 * What is put goes to the codec, which keeps what windows and the connection do not take yet.
 */

#include <keyhole/base/block.h>

#include "session_internal.h"

enum { H2_INTERNAL_ERROR = 2 };

static struct kh_down_h2 *h2_of(struct kh_down_stream *down)
{
	return kh_container_of(down, struct kh_down_h2, stream);
}

/* ---- what the exchange says ---- */

/* Of an upstream's head: what goes along, and the length that it announces. Return: how many. */
static size_t choose_fields(const struct kh_message *head, struct kh_field *fields,
			    char length[KH_U64_DIGITS])
{
	size_t n = 0;

	for (size_t i = 0; i < head->n_fields; i++)
		if (!kh_message_is_hop_field(head, &head->fields[i]) &&
		    !kh_ws_is_handshake_field(head->fields[i].name))
			fields[n++] = head->fields[i];
	if (head->has_content_length && head->status >= 200 && head->status != 204) {
		fields[n++] = (struct kh_field){ KH_SLICE("content-length"),
						 kh_slice_from_u64(head->content_length, length) };
	}
	return n;
}

static bool put_interim(struct kh_down_stream *down, const struct kh_message *head)
{
	struct kh_down_h2 *s = h2_of(down);
	struct kh_field fields[KH_LIMIT_FIELDS + 1];
	char length[KH_U64_DIGITS];

	return kh_h2_put_response(s->h2, head->status, fields, choose_fields(head, fields, length),
				  false);
}

static bool leaves_out(struct kh_down_stream *down, const struct kh_message *interim)
{
	size_t bytes = 0;

	for (size_t i = 0; i < interim->n_fields; i++)
		bytes += interim->fields[i].name.len + interim->fields[i].value.len;
	return !kh_h2_has_room_for_interim(h2_of(down)->h2, interim->status, bytes);
}

/* RFC 8441 §5: what 101 is in HTTP/1. */
static bool put_switch(struct kh_down_stream *down, const struct kh_message *head)
{
	struct kh_field fields[KH_LIMIT_FIELDS + 1 + KH_WEBSOCKET_SWITCH_FIELDS];
	char length[KH_U64_DIGITS], accept[KH_WS_ACCEPT_BYTES];
	size_t n = choose_fields(head, fields, length), more;

	return kh_websocket_switch_fields(down->exchange, true, accept, fields + n, &more) &&
	       kh_h2_put_response(h2_of(down)->h2, 200, fields, n + more, false);
}

static bool put_head(struct kh_down_stream *down, const struct kh_message *head)
{
	struct kh_down_h2 *s = h2_of(down);
	struct kh_field fields[KH_LIMIT_FIELDS + 1];
	char length[KH_U64_DIGITS];

	if (head->status == 101)
		return put_switch(down, head);
	s->ended = head->framing == KH_FRAMING_NONE || head->status == 204 || head->status == 304 ||
		   kh_slice_eq(down->exchange->message->method, KH_SLICE("HEAD"));
	return kh_h2_put_response(s->h2, head->status, fields, choose_fields(head, fields, length),
				  s->ended);
}

static bool put_content(struct kh_down_stream *down, struct kh_slice piece)
{
	return kh_h2_put_data(h2_of(down)->h2, piece);
}

static bool put_end(struct kh_down_stream *down, const struct kh_field *trailers, size_t n)
{
	struct kh_down_h2 *s = h2_of(down);

	return s->ended || kh_h2_put_end(s->h2, trailers, n);
}

static bool put_answer(struct kh_down_stream *down, const struct kh_answer *answer)
{
	enum { MOST = 8 };
	struct kh_down_h2 *s = h2_of(down);
	struct kh_field fields[MOST];
	char length[KH_U64_DIGITS];
	size_t n = 0;
	bool head =
		down->exchange && kh_slice_eq(down->exchange->message->method, KH_SLICE("HEAD"));

	while (n < answer->n_fields && n < MOST - 1) {
		fields[n] = answer->fields[n];
		n++;
	}
	fields[n++] = (struct kh_field){ KH_SLICE("content-length"),
					 kh_slice_from_u64(answer->content.len, length) };
	return kh_h2_put_response(s->h2, answer->status, fields, n, head) &&
	       (head || (kh_h2_put_data(s->h2, answer->content) && kh_h2_put_end(s->h2, NULL, 0)));
}

static bool take_back(struct kh_down_stream *down)
{
	struct kh_down_h2 *s = h2_of(down);

	if (!kh_h2_take_back(s->h2))
		return false;
	s->ended = false;
	return true;
}

static bool is_full(struct kh_down_stream *down)
{
	return kh_h2_is_full(h2_of(down)->h2);
}

static void over(struct kh_down_stream *down, const struct kh_exchange *x, enum kh_down_end end)
{
	struct kh_down_h2 *s = h2_of(down);

	if (end == KH_DOWN_WHOLE && !kh_exchange_has_request(x)) {
		kh_down_h2_discard(s);
	} else if (end == KH_DOWN_WHOLE) {
		kh_down_h2_release(s);
	} else if (end == KH_DOWN_CUT && kh_h2_waiting_bytes(s->h2) > 0) {
		kh_down_h2_cut(s);
	} else {
		kh_down_h2_reset(s);
	}
}

static void turn(struct kh_down_stream *down)
{
	kh_down_h2_ready(h2_of(down));
}

const struct kh_down_ops kh_down_h2_ops = {
	.put_interim = put_interim,
	.leaves_out = leaves_out,
	.put_head = put_head,
	.put_content = put_content,
	.put_end = put_end,
	.put_answer = put_answer,
	.take_back = take_back,
	.is_full = is_full,
	.over = over,
	.turn = turn,
	.touch = turn,
};

/* ---- life ---- */

struct kh_down_h2 *kh_down_h2_new(struct kh_mux *mux, struct kh_h2_stream *h2)
{
	struct kh_down_h2 *s = kh_block_new(sizeof(*s));

	if (!s)
		return NULL;
	s->stream = (struct kh_down_stream){ .ops = &kh_down_h2_ops, .session = mux->session };
	s->loop = mux->session->side.loop;
	s->h2 = h2;
	kh_h2_set_user(h2, s);
	kh_list_append(&mux->streams, &s->link);
	mux->n_streams++;
	return s;
}

static void free_stream(struct kh_deferred_free *deferred_free)
{
	struct kh_down_h2 *s = kh_container_of(deferred_free, struct kh_down_h2, deferred_free);

	kh_buf_fini(&s->in);
	free(s->get);
	kh_block_give(s);
}

static void count_out(struct kh_down_h2 *s, struct kh_mux *mux)
{
	mux->beyond_bytes -= s->beyond_bytes;
	s->beyond_bytes = 0;
	if (s->is_cut)
		return;
	mux->n_tunnels -= s->is_tunnel;
	if (--mux->n_streams == 0)
		mux->idle_since_ms = s->loop->now_ms;
}

/* A reset behind the answer, which would tell the client to stop, hides the answer from some. */
void kh_down_h2_discard(struct kh_down_h2 *s)
{
	struct kh_mux *mux = s->stream.session->mux;

	s->discard_until_ms = s->loop->now_ms + KH_SESSION_DISCARD_MS;
	if (mux->earliest_ms == 0 || s->discard_until_ms < mux->earliest_ms)
		mux->earliest_ms = s->discard_until_ms;
	kh_down_h2_ready(s);
}

void kh_down_h2_cut(struct kh_down_h2 *s)
{
	struct kh_mux *mux = s->stream.session->mux;

	count_out(s, mux);
	s->is_cut = true;
	kh_list_remove(&s->link);
	kh_list_append(&mux->cut, &s->link);
	kh_session_touch(s->stream.session);
}

void kh_down_h2_release(struct kh_down_h2 *s)
{
	struct kh_session *session = s->stream.session;

	if (!session)
		return; /* it has been */
	struct kh_mux *mux = session->mux;
	kh_h2_set_user(s->h2, NULL);
	kh_h2_release(s->h2);
	s->h2 = NULL;
	s->stream.session = NULL;
	kh_list_remove(&s->link);
	kh_list_remove(&s->ready_link);
	count_out(s, mux);
	kh_session_touch(session);
	if (!s->inner)
		kh_loop_free_later(s->loop, &s->deferred_free, free_stream);
}

void kh_down_h2_reset(struct kh_down_h2 *s)
{
	kh_h2_reset(s->h2, H2_INTERNAL_ERROR);
	kh_down_h2_release(s);
}

void kh_down_h2_gone(struct kh_down_h2 *s, enum kh_err_code reason, const char *detail)
{
	if (s->stream.exchange)
		kh_exchange_gone(s->stream.exchange, reason, detail);
	kh_down_h2_release(s);
	if (s->inner)
		kh_stream_pipe_changed(s->inner);
}

void kh_mux_end(struct kh_session *session)
{
	struct kh_mux *mux = session->mux;

	(void)kh_acceptor_may_keep(session->side.acceptor, mux->kept_bytes, 0);
	mux->kept_bytes = 0;

	while (!kh_list_is_empty(&mux->streams))
		kh_down_h2_gone(kh_container_of(mux->streams.next, struct kh_down_h2, link),
				KH_ERR_DOWN_CLOSED,
				"the sandbox went away before the response was complete");
	while (!kh_list_is_empty(&mux->cut))
		kh_down_h2_gone(kh_container_of(mux->cut.next, struct kh_down_h2, link),
				KH_ERR_NONE, NULL);
}

void kh_mux_free(struct kh_mux *mux)
{
	if (!mux)
		return;
	kh_h2_free(mux->h2);
	free(mux);
}

void kh_down_h2_refuse(struct kh_down_h2 *s, const struct kh_authority *authority,
		       const struct kh_err *err)
{
	kh_down_deny_to(&s->stream.session->side, authority, err);
	if (kh_denial_put(&s->stream, &s->stream.session->side, NULL, err))
		kh_down_h2_discard(s);
	else
		kh_down_h2_reset(s);
}

/* ---- the turn ---- */

void kh_down_h2_ready(struct kh_down_h2 *s)
{
	if (!s->h2)
		return;
	/* It may have lost its upstream, and waits for another one. */
	if (s->stream.exchange && !s->paused && !kh_exchange_takes_body(s->stream.exchange)) {
		s->paused = true;
		kh_h2_pause(s->h2);
	}
	if (!kh_list_has_node(&s->ready_link))
		kh_list_append(&s->stream.session->mux->ready, &s->ready_link);
	kh_session_touch(s->stream.session);
}

static bool may_go_on(const struct kh_down_h2 *s)
{
	if (!s->h2 || !s->paused)
		return false;
	if (s->inner)
		return kh_buf_len(&s->in) == 0;
	if (s->discard_until_ms)
		return true;
	return s->stream.exchange && kh_exchange_takes_body(s->stream.exchange);
}

/* What its exchange keeps beyond what each stream is counted with (mux.c). */
static void weigh(struct kh_down_h2 *s)
{
	const struct kh_exchange *x = s->stream.exchange;
	size_t now = x ? kh_exchange_kept_bytes(x) : 0;

	now = now > KH_LIMIT_H2_KEPT_PER_EXCHANGE ? now - KH_LIMIT_H2_KEPT_PER_EXCHANGE : 0;
	s->stream.session->mux->beyond_bytes += now - s->beyond_bytes;
	s->beyond_bytes = now;
}

/* What waited is work again: without a share left it is late. */
static void go_on(struct kh_down_h2 *s)
{
	struct kh_session *session = s->stream.session;
	size_t kept = kh_h2_kept_content(s->h2);

	struct kh_work_share *share = &session->side.acceptor->work;

	if (kept > 0 && (kh_session_is_in_line(session) || kh_work_share_left(share) == 0)) {
		kh_work_share_wait(share, &session->place);
		kh_list_remove(&s->ready_link);
		kh_list_append(&session->mux->late, &s->ready_link);
		return;
	}
	if (kept > 0)
		kh_session_charge(session, kh_work_of_piece(kept));
	s->paused = false;
	kh_h2_resume(s->h2);
}

void kh_down_h2_serve(struct kh_down_h2 *s)
{
	do {
		if (may_go_on(s))
			go_on(s);
		if (s->stream.exchange)
			kh_exchange_flush(s->stream.exchange);
		/* What was written may have made room for more. */
	} while (may_go_on(s) && !kh_list_has_node(&s->ready_link));
	if (s->stream.exchange)
		kh_exchange_update(s->stream.exchange);
	if (s->stream.session)
		weigh(s);
}
