/*
 * up_h1.c - an exchange's stream towards an upstream on an HTTP/1 connection
 *
 * The connection belongs to the exchange from kh_up_acquire to release, and goes back into the pool
 * when both messages came to their ends.
 */

#include "proxy_internal.h"

enum { READS_AT_ONCE = 4 };

/* ---- the request ---- */

static bool too_large(struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_REQUEST_HEAD_TOO_LARGE,
			  "the head does not fit into what may be sent upstream");
}

static bool put_request_line(const struct kh_exchange *x, struct kh_buf *out, struct kh_err *err)
{
	struct kh_buf target;

	if (x->injection.count == 0)
		return kh_h1_put_request_line(out, x->message->method, x->target.raw) ||
		       too_large(err);
	kh_buf_init_wiping(&target, KH_LIMIT_LINE_BYTES);
	bool ok = kh_request_put_target(x, &target, err) &&
		  (kh_h1_put_request_line(out, x->message->method, kh_buf_view(&target)) ||
		   too_large(err));
	kh_buf_fini(&target);
	return ok;
}

static bool put_host(const struct kh_exchange *x, struct kh_buf *out)
{
	struct kh_buf host;

	kh_buf_init(&host, KH_HOST_MAX_BYTES + 16);
	bool ok = kh_request_put_authority(x, &host) &&
		  kh_h1_put_field(out, KH_SLICE("Host"), kh_buf_view(&host));
	kh_buf_fini(&host);
	return ok;
}

static bool put_fields(const struct kh_exchange *x, struct kh_buf *out)
{
	for (size_t i = 0; i < x->message->n_fields; i++) {
		const struct kh_field *field = &x->message->fields[i];
		if (kh_request_forwards(x, field) &&
		    !kh_h1_put_field(out, field->name, field->value))
			return false;
	}
	return true;
}

static bool put_framing(const struct kh_exchange *x, struct kh_buf *out)
{
	char digits[KH_U64_DIGITS];
	uint64_t length;

	if (x->websocket)
		return kh_websocket_put_request(x, out);

	enum kh_framing framing = kh_content_framing(x, &length);
	if (framing == KH_FRAMING_CHUNKED)
		return kh_h1_put_field(out, KH_SLICE("Transfer-Encoding"), KH_SLICE("chunked"));
	if (framing != KH_FRAMING_LENGTH)
		return true;
	return kh_h1_put_field(out, KH_SLICE("Content-Length"), kh_slice_from_u64(length, digits));
}

static bool put_head(struct kh_up_stream *up, struct kh_err *err)
{
	const struct kh_exchange *x = up->exchange;
	struct kh_buf *out = &up->conn->leg.out;

	kh_h1_expect_response_to(up->conn->h1, x->message->method);
	if (x->injection.count > 0 && !kh_leg_hide(&up->conn->leg))
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory for a request");
	if (!put_request_line(x, out, err))
		return false;
	if (!put_host(x, out) || !put_fields(x, out))
		return too_large(err);
	if (!kh_request_put_credentials(x, out, err))
		return false;
	return (put_framing(x, out) && kh_h1_put_end(out)) || too_large(err);
}

static bool is_chunked(const struct kh_exchange *x)
{
	uint64_t length;

	return kh_content_framing(x, &length) == KH_FRAMING_CHUNKED;
}

static void put_content(struct kh_up_stream *up, struct kh_slice piece)
{
	bool chunked = is_chunked(up->exchange);
	struct kh_leg *leg = &up->conn->leg;

	/* An upstream that stopped reading may have said why: its answer is read, the rest of the
	 * content is not sent, and nothing else ever is: it would be taken for content. */
	if ((chunked && !kh_h1_put_chunk_head(&leg->out, piece.len)) || !kh_leg_put(leg, piece) ||
	    (chunked && !kh_leg_put(leg, KH_SLICE("\r\n"))))
		leg->failed = true;
}

static void put_end(struct kh_up_stream *up, const struct kh_field *trailers, size_t n)
{
	struct kh_leg *leg = &up->conn->leg;

	if (is_chunked(up->exchange) && !kh_h1_put_last_chunk(&leg->out, trailers, n))
		leg->failed = true;
}

/* ---- the response ---- */

/* A request that meets the server's end of the connection on its way is lost, and what has content
 * can't be sent again: so such a connection is let go before the server lets go of it. */
static uint64_t kept_ms(const struct kh_message *response)
{
	enum { MARGIN_MS = 1000 };
	uint32_t seconds = kh_message_kept_seconds(response);
	uint64_t ms = (uint64_t)seconds * 1000;

	if (seconds == UINT32_MAX)
		return UINT64_MAX;
	return ms > 2 * MARGIN_MS ? ms - MARGIN_MS : ms / 2;
}

/* Return: false when the exchange is over. */
static bool take_head(struct kh_up *up, const struct kh_message *response)
{
	if (response->status >= 200) {
		up->kept_ms = kept_ms(response);
		up->reusable = response->keep_alive && up->kept_ms > 0 &&
			       response->framing != KH_FRAMING_CLOSE;
	}
	return kh_response_head(up->only.exchange, response);
}

static void take_end(struct kh_up *up)
{
	size_t n = 0;
	const struct kh_field *trailers = kh_h1_trailers(up->h1, &n);

	kh_response_end(up->only.exchange, trailers, n);
}

/* Behind the 101, whose END is owed, nothing is HTTP: all of it is handed over. */
static bool process_frames(struct kh_up *up)
{
	struct kh_slice none = KH_SLICE(""), body;

	while (!up->switched && kh_h1_feed(up->h1, &none, &body) != KH_H1_NEED_MORE)
		;
	up->switched = true;
	kh_h1_release(up->h1);
	bool goes_on = kh_buf_len(&up->in) == 0 ||
		       kh_response_body(up->only.exchange, kh_buf_view(&up->in));
	kh_buf_clear(&up->in);
	kh_buf_release(&up->in);
	return goes_on;
}

/* Takes the events of what was read. Return: false when the exchange is over, either way. */
static bool process(struct kh_up *up)
{
	for (;;) {
		if (kh_exchange_is_websocket(up->only.exchange))
			return process_frames(up);
		struct kh_exchange *x = up->only.exchange;
		struct kh_slice in = kh_buf_view(&up->in), body;
		size_t before = in.len;
		bool goes_on = true;

		enum kh_h1_event event = kh_h1_feed(up->h1, &in, &body);
		if (event == KH_H1_HEAD)
			goes_on = take_head(up, kh_h1_message(up->h1));
		else if (event == KH_H1_BODY)
			goes_on = kh_response_body(x, body);
		kh_buf_consume(&up->in, before - in.len);
		if (event == KH_H1_NEED_MORE || !goes_on)
			return goes_on;
		if (event == KH_H1_ERROR) {
			kh_exchange_fail(x, kh_h1_error(up->h1));
			return false;
		}
		if (event == KH_H1_END && x->response_begun) { /* not of an interim response */
			take_end(up);
			return false;
		}
	}
}

static void on_end_of_stream(struct kh_up *up, enum kh_io how)
{
	struct kh_exchange *x = up->only.exchange;
	struct kh_err err = KH_ERR_INIT;

	if (kh_exchange_is_websocket(x)) {
		kh_websocket_up_ended(x,
				      how == KH_IO_ERROR ? kh_stream_error(up->leg.stream) : NULL);
		return;
	}
	if (how == KH_IO_EOF && up->answered && kh_h1_feed_eof(up->h1) == KH_H1_END) {
		up->reusable = false;
		take_end(up);
		return;
	}
	if (up->reused && !up->answered && kh_exchange_may_retry(x)) {
		kh_exchange_retry(x);
		return;
	}
	if (!up->answered && kh_up_turn_to_h2(up))
		return;
	if (how == KH_IO_ERROR)
		err = *kh_stream_error(up->leg.stream);
	else if (how == KH_IO_TRUNCATED)
		kh_err_set(&err, KH_ERR_RESPONSE_INCOMPLETE,
			   "the upstream cut the TLS connection off before the response was whole");
	else
		kh_err_set(&err, x->response_begun ? KH_ERR_RESPONSE_INCOMPLETE : KH_ERR_UP_CLOSED,
			   "the upstream closed the connection %s",
			   x->response_begun ? "before the response was whole"
					     : "without an answer");
	kh_exchange_fail(x, &err);
}

void kh_up_h1_readable(struct kh_up *up)
{
	for (int i = 0; i < READS_AT_ONCE; i++) {
		struct kh_exchange *x = up->only.exchange;
		size_t got = 0;
		if (x->down->ops->is_full(x->down))
			return;
		char *room = kh_buf_reserve(&up->in, KH_LEG_READ_BYTES);
		if (!room) {
			struct kh_err err = KH_ERR_INIT;
			kh_err_set(&err, KH_ERR_NO_MEMORY, "no memory for the response");
			kh_exchange_fail(x, &err);
			return;
		}
		enum kh_io io = kh_stream_read(up->leg.stream, room, KH_LEG_READ_BYTES, &got);
		if (io == KH_IO_AGAIN)
			return;
		if (io != KH_IO_OK) {
			on_end_of_stream(up, io);
			return;
		}
		kh_buf_commit(&up->in, got);
		/* The head of a SETTINGS frame begins so, and no answer of HTTP/1. */
		if (!up->answered && kh_buf_view(&up->in).ptr[0] == '\0' && kh_up_turn_to_h2(up))
			return;
		up->answered = true;
		x->progress_ms = up->loop->now_ms;
		if (!process(up) || got < KH_LEG_READ_BYTES / 2)
			return;
	}
}

/* ---- the turn ---- */

static bool is_full(const struct kh_up_stream *up)
{
	return kh_leg_is_full(&up->conn->leg);
}

static void flush(struct kh_up_stream *up)
{
	(void)kh_leg_flush(&up->conn->leg); /* a failure shows when it is read */
}

static void update(struct kh_up_stream *up, bool wanted)
{
	struct kh_leg *leg = &up->conn->leg;
	/* One that failed is always ready to be written to. */
	bool waits = kh_buf_len(&leg->out) && !leg->failed;

	if (up->conn->switched)
		kh_buf_release(&leg->out);
	kh_stream_watch(leg->stream,
			(waits ? KH_STREAM_WRITABLE : 0u) | (wanted ? KH_STREAM_READABLE : 0u));
}

static void release(struct kh_up_stream *up, bool clean)
{
	up->exchange = NULL;
	kh_up_release(up->conn, clean);
}

const struct kh_up_ops kh_up_h1_ops = {
	.put_head = put_head,
	.put_content = put_content,
	.put_end = put_end,
	.is_full = is_full,
	.flush = flush,
	.update = update,
	.release = release,
};
