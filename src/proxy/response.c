/*
 * response.c - what comes back from upstream goes down as it comes
 *
 * Interim responses are passed on; the final head is written from what was read, without what
 * speaks of the upstream's connection, and framed for the sandbox's. Content follows in the turn in
 * which it came.
 */

#include "proxy_internal.h"

enum { READS_AT_ONCE = 4 };

static bool has_content(const struct kh_exchange *x, const struct kh_message *response)
{
	return !kh_slice_eq(x->message->method, KH_SLICE("HEAD")) && response->status != 204 &&
	       response->status != 304 && response->status >= 200;
}

static bool put_fields(struct kh_buf *out, const struct kh_message *response)
{
	for (size_t i = 0; i < response->n_fields; i++) {
		const struct kh_field *field = &response->fields[i];
		if (!kh_message_is_hop_field(response, field) &&
		    !kh_h1_put_field(out, field->name, field->value))
			return false;
	}
	return true;
}

static bool put_framing(struct kh_exchange *x, const struct kh_message *response,
			struct kh_buf *out)
{
	char length[24];

	snprintf(length, sizeof(length), "%llu", (unsigned long long)response->content_length);
	x->down_framing = response->framing;
	if (!has_content(x, response)) {
		x->down_framing = KH_FRAMING_NONE;
		/* HEAD and 304 may announce what a GET would bring. */
		if (response->status == 204 || response->status < 200 ||
		    !kh_message_field(response, KH_SLICE("content-length")))
			return true;
		return kh_h1_put_field(out, KH_SLICE("Content-Length"), kh_slice_str(length));
	}
	if (response->framing == KH_FRAMING_LENGTH)
		return kh_h1_put_field(out, KH_SLICE("Content-Length"), kh_slice_str(length));
	if (response->framing == KH_FRAMING_NONE)
		return kh_h1_put_field(out, KH_SLICE("Content-Length"), KH_SLICE("0"));
	if (x->message->minor == 0) {
		/* HTTP/1.0 knows no chunks: the end of the connection is the end of the content. */
		x->down_framing = KH_FRAMING_CLOSE;
		x->close_down = true;
		return true;
	}
	x->down_framing = KH_FRAMING_CHUNKED;
	return kh_h1_put_field(out, KH_SLICE("Transfer-Encoding"), KH_SLICE("chunked"));
}

static bool put_connection(struct kh_exchange *x, struct kh_buf *out)
{
	const struct kh_session *session = x->session;

	if (session->loop->draining || session->closing || session->eof ||
	    session->exchanges >= session->loop->gen->config->max_exchanges)
		x->close_down = true;
	if (x->close_down)
		return kh_h1_put_field(out, KH_SLICE("Connection"), KH_SLICE("close"));
	if (x->message->minor == 0)
		return kh_h1_put_field(out, KH_SLICE("Connection"), KH_SLICE("keep-alive"));
	return true;
}

static bool on_head(struct kh_exchange *x, const struct kh_message *response, struct kh_err *err)
{
	struct kh_buf *out = &x->session->down.out;
	bool ok;

	if (response->status == 101)
		return kh_err_set(err, KH_ERR_RESPONSE_MALFORMED,
				  "the upstream switched protocols, which nobody asked for");
	if (response->status < 200) {
		if (++x->interim > KH_LIMIT_INTERIM_RESPONSES)
			return kh_err_set(err, KH_ERR_RESPONSE_MALFORMED,
					  "the upstream sends interim responses without end");
		if (x->message->minor == 0)
			return true; /* HTTP/1.0 does not know them */
		ok = kh_h1_put_status_line(out, response->status, response->reason) &&
		     put_fields(out, response) && kh_h1_put_end(out);
	} else {
		x->response_begun = true;
		x->down_mark = kh_leg_position(&x->session->down);
		x->status = response->status;
		x->up->reusable = response->keep_alive && response->framing != KH_FRAMING_CLOSE;
		x->first_byte_ms = x->session->loop->now_ms;
		ok = kh_h1_put_status_line(out, response->status, response->reason) &&
		     put_fields(out, response) && put_framing(x, response, out) &&
		     put_connection(x, out) && kh_h1_put_end(out);
	}
	return ok ||
	       kh_err_set(err, KH_ERR_RESPONSE_HEAD_TOO_LARGE, "the response's head is too large");
}

static bool on_body(struct kh_exchange *x, struct kh_slice piece, struct kh_err *err)
{
	struct kh_leg *down = &x->session->down;
	bool ok = true;

	x->down_bytes += piece.len;
	if (x->down_framing == KH_FRAMING_CHUNKED)
		ok = kh_h1_put_chunk_head(&down->out, piece.len);
	ok = ok && kh_leg_put(down, piece);
	if (x->down_framing == KH_FRAMING_CHUNKED)
		ok = ok && kh_leg_put(down, KH_SLICE("\r\n"));
	return ok || kh_err_set(err, KH_ERR_DOWN_CLOSED, "the sandbox closed the connection");
}

/* The response is whole. */
static void on_end(struct kh_exchange *x)
{
	struct kh_session *session = x->session;
	struct kh_up *up = x->up;
	size_t n = 0;

	if (x->down_framing == KH_FRAMING_CHUNKED) {
		const struct kh_field *trailers = kh_h1_trailers(up->h1, &n);
		if (!kh_h1_put_last_chunk(&session->down.out, trailers, n)) {
			/* Whatever came next would be read as its content. */
			kh_session_kill(session, KH_ERR_NO_MEMORY, "no memory for its end");
			return;
		}
	}
	x->response_done = true;
	if (x->request_done) {
		bool keep = !x->close_down;
		kh_exchange_free(x);
		kh_session_exchange_over(session, keep);
		return;
	}
	/* Answered before all of the request had come: that connection is of no more use upstream,
	 * and the rest of the content of none here. */
	bool keep = !x->close_down;
	kh_exchange_free(x);
	if (keep) {
		session->state = KH_SESSION_DISCARD;
		session->deadline_ms = 0;
		session->discarded_bytes = 0;
	} else {
		kh_session_exchange_over(session, false);
	}
}

/* Takes the events of what was read. Return: false when the exchange is over, either way. */
static bool process(struct kh_exchange *x)
{
	struct kh_up *up = x->up;
	struct kh_err err = KH_ERR_INIT;

	for (;;) {
		struct kh_slice in = kh_buf_view(&up->in), body;
		size_t before = in.len;
		bool ok = true;

		enum kh_h1_event event = kh_h1_feed(up->h1, &in, &body);
		switch (event) {
		case KH_H1_NEED_MORE:
			kh_buf_consume(&up->in, before - in.len);
			return true;
		case KH_H1_HEAD:
			ok = on_head(x, kh_h1_message(up->h1), &err);
			break;
		case KH_H1_BODY:
			ok = on_body(x, body, &err);
			break;
		case KH_H1_END:
			kh_buf_consume(&up->in, before - in.len);
			if (x->response_begun) {
				on_end(x);
				return false;
			}
			continue; /* of an interim response */
		case KH_H1_ERROR:
			err = *kh_h1_error(up->h1);
			ok = false;
			break;
		}
		kh_buf_consume(&up->in, before - in.len);
		if (!ok) {
			kh_exchange_fail(x, &err);
			return false;
		}
	}
}

/* RFC 9110 §9.2.2, and only while nothing of the request's content has gone. */
static bool may_retry(const struct kh_exchange *x)
{
	static const char *const safe[] = { "GET", "HEAD", "OPTIONS" };

	if (!x->up->reused || x->up->answered || x->retried || x->body_sent || !x->request_done)
		return false;
	if (x->up_framing == KH_FRAMING_CHUNKED)
		return false; /* the chunk that ends it went with the connection */
	for (size_t i = 0; i < sizeof(safe) / sizeof(*safe); i++)
		if (kh_slice_eq(x->message->method, kh_slice_str(safe[i])))
			return true;
	return false;
}

static void on_end_of_stream(struct kh_exchange *x, enum kh_io how)
{
	struct kh_up *up = x->up;
	struct kh_err err = KH_ERR_INIT;

	if (how == KH_IO_EOF && up->answered && kh_h1_feed_eof(up->h1) == KH_H1_END) {
		up->reusable = false;
		on_end(x);
		return;
	}
	if (may_retry(x)) {
		x->retried = true;
		x->up = NULL;
		up->exchange = NULL;
		kh_up_close(up);
		x->state = KH_EXCHANGE_CONNECT;
		kh_up_acquire(x, true);
		return;
	}
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

void kh_response_readable(struct kh_exchange *x)
{
	struct kh_up *up = x->up;
	struct kh_session *session = x->session;

	for (int i = 0; i < READS_AT_ONCE; i++) {
		size_t got = 0;
		if (kh_leg_is_full(&session->down))
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
			on_end_of_stream(x, io);
			return;
		}
		kh_buf_commit(&up->in, got);
		up->answered = true;
		x->progress_ms = session->loop->now_ms;
		if (!process(x))
			return;
		if (got < KH_LEG_READ_BYTES / 2)
			return;
	}
}
