/*
 * down_h1.c - an exchange's stream towards the sandbox on an HTTP/1 connection
 *
 * A head is written from the parsed message, without hop-by-hop fields of the upstream's connection
 * and with the framing of this one. Content follows in the turn in which it came.
 */

#include "session_internal.h"

static struct kh_down_h1 *h1_of(struct kh_down_stream *down)
{
	return kh_container_of(down, struct kh_down_h1, stream);
}

static bool has_content(const struct kh_message *request, const struct kh_message *response)
{
	return !kh_slice_eq(request->method, KH_SLICE("HEAD")) && response->status != 204 &&
	       response->status != 304 && response->status >= 200;
}

static bool put_fields(struct kh_buf *out, const struct kh_message *response)
{
	for (size_t i = 0; i < response->n_fields; i++) {
		const struct kh_field *field = &response->fields[i];
		if (!kh_message_is_hop_field(response, field) &&
		    !kh_ws_is_handshake_field(field->name) &&
		    !kh_h1_put_field(out, field->name, field->value))
			return false;
	}
	return true;
}

static bool put_length(struct kh_buf *out, uint64_t bytes)
{
	char digits[KH_U64_DIGITS];

	return kh_h1_put_field(out, KH_SLICE("Content-Length"), kh_slice_from_u64(bytes, digits));
}

static bool put_framing(struct kh_down_h1 *h1, const struct kh_message *request,
			const struct kh_message *response, struct kh_buf *out)
{
	h1->framing = response->framing;
	if (!has_content(request, response)) {
		h1->framing = KH_FRAMING_NONE;
		/* HEAD and 304 may announce what a GET would bring. */
		if (response->status == 204 || response->status < 200 ||
		    !kh_message_field(response, KH_SLICE("content-length")))
			return true;
		return put_length(out, response->content_length);
	}
	if (response->framing == KH_FRAMING_LENGTH)
		return put_length(out, response->content_length);
	if (response->framing == KH_FRAMING_NONE)
		return put_length(out, 0);
	if (request->minor == 0) {
		/* HTTP/1.0 knows no chunks: the end of the connection is the end of the content. */
		h1->framing = KH_FRAMING_CLOSE;
		h1->close = true;
		return true;
	}
	h1->framing = KH_FRAMING_CHUNKED;
	return kh_h1_put_field(out, KH_SLICE("Transfer-Encoding"), KH_SLICE("chunked"));
}

/* It waits for a 100, and a final answer comes: its content may follow or the next request, and
 * nothing would tell them apart (RFC 9110 §10.1.1). */
static bool may_send_no_content(const struct kh_down_h1 *h1)
{
	const struct kh_exchange *x = h1->stream.exchange;

	return x && x->message->expect_continue && !h1->continued && !kh_exchange_has_request(x) &&
	       x->up_bytes == 0 && kh_buf_len(&h1->stream.session->in) == 0;
}

static bool put_connection(struct kh_down_h1 *h1, const struct kh_message *request,
			   struct kh_buf *out)
{
	const struct kh_session *session = h1->stream.session;

	if (session->side.loop->draining || session->side.loop->retiring || session->closing ||
	    kh_session_has_said_all(session) || may_send_no_content(h1) ||
	    session->exchanges >= session->side.loop->gen->config->max_exchanges)
		h1->close = true;
	if (h1->close)
		return kh_h1_put_field(out, KH_SLICE("Connection"), KH_SLICE("close"));
	if (request->minor == 0)
		return kh_h1_put_field(out, KH_SLICE("Connection"), KH_SLICE("keep-alive"));
	return true;
}

static bool put_interim(struct kh_down_stream *down, const struct kh_message *head)
{
	struct kh_buf *out = &down->session->leg.out;
	size_t before = kh_buf_len(out);

	if (down->exchange->message->minor == 0)
		return true; /* HTTP/1.0 does not know them */
	if (head->status != 100 && kh_leg_is_full(&down->session->leg))
		return true; /* any may be left out (RFC 9110 §15.2) */
	if (head->status == 100)
		h1_of(down)->continued = true;
	if (kh_h1_put_status_line(out, head->status, head->reason) && put_fields(out, head) &&
	    kh_h1_put_end(out))
		return true;
	kh_buf_truncate(out, before);
	return false;
}

static bool put_switch(const struct kh_exchange *x, struct kh_buf *out)
{
	struct kh_field fields[KH_WEBSOCKET_SWITCH_FIELDS];
	char accept[KH_WS_ACCEPT_BYTES];
	size_t n;

	if (!kh_websocket_switch_fields(x, false, accept, fields, &n))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!kh_h1_put_field(out, fields[i].name, fields[i].value))
			return false;
	return true;
}

static bool put_head(struct kh_down_stream *down, const struct kh_message *head)
{
	struct kh_down_h1 *h1 = h1_of(down);
	const struct kh_message *request = down->exchange->message;
	struct kh_buf *out = &down->session->leg.out;

	h1->mark = kh_leg_position(&down->session->leg);
	if (head->status == 101) {
		h1->framing = KH_FRAMING_NONE;
		h1->close = true; /* once it is over */
		return kh_h1_put_status_line(out, head->status, head->reason) &&
		       put_fields(out, head) && put_switch(down->exchange, out) &&
		       kh_h1_put_end(out);
	}
	return kh_h1_put_status_line(out, head->status, head->reason) && put_fields(out, head) &&
	       put_framing(h1, request, head, out) && put_connection(h1, request, out) &&
	       kh_h1_put_end(out);
}

static bool put_content(struct kh_down_stream *down, struct kh_slice piece)
{
	bool chunked = h1_of(down)->framing == KH_FRAMING_CHUNKED;
	struct kh_leg *leg = &down->session->leg;

	return (!chunked || kh_h1_put_chunk_head(&leg->out, piece.len)) && kh_leg_put(leg, piece) &&
	       (!chunked || kh_leg_put(leg, KH_SLICE("\r\n")));
}

static bool put_end(struct kh_down_stream *down, const struct kh_field *trailers, size_t n)
{
	return h1_of(down)->framing != KH_FRAMING_CHUNKED ||
	       kh_h1_put_last_chunk(&down->session->leg.out, trailers, n);
}

/* After an answer of our own. */
static bool must_close(const struct kh_session *session, const struct kh_message *request,
		       enum kh_err_code code)
{
	/* What is malformed leaves no common idea of where the next request begins. */
	return code == KH_ERR_REQUEST_MALFORMED || code == KH_ERR_REQUEST_TIMEOUT ||
	       code == KH_ERR_AUTHORITY_MISMATCH || (!request && code != KH_ERR_PROXY_AUTH) ||
	       (request && !request->keep_alive) || kh_session_has_said_all(session) ||
	       session->side.loop->draining || session->side.loop->retiring;
}

static bool put_answer(struct kh_down_stream *down, const struct kh_answer *answer)
{
	struct kh_down_h1 *h1 = h1_of(down);
	struct kh_buf *out = &down->session->leg.out;
	const struct kh_message *request = down->exchange ? down->exchange->message : NULL;

	if (must_close(down->session, request, answer->code) || may_send_no_content(h1))
		h1->close = true;
	if (!kh_h1_put_status_line(out, answer->status,
				   answer->reason.len > 0
					   ? answer->reason
					   : kh_slice_str(kh_h1_reason(answer->status))))
		return false;
	for (size_t i = 0; i < answer->n_fields; i++)
		if (!kh_h1_put_field(out, answer->fields[i].name, answer->fields[i].value))
			return false;
	return put_length(out, answer->content.len) &&
	       (!h1->close || kh_h1_put_field(out, KH_SLICE("Connection"), KH_SLICE("close"))) &&
	       /* RFC 9110 §15.5.22: a 426 names what to speak instead. */
	       (answer->status != 426 ||
		kh_h1_put_field(out, KH_SLICE("Upgrade"), KH_SLICE("HTTP/1.1"))) &&
	       kh_h1_put_end(out) &&
	       ((request && kh_slice_eq(request->method, KH_SLICE("HEAD"))) ||
		kh_buf_append_slice(out, answer->content));
}

static bool take_back(struct kh_down_stream *down)
{
	return kh_leg_rewind(&down->session->leg, h1_of(down)->mark);
}

static bool is_full(struct kh_down_stream *down)
{
	return kh_leg_is_full(&down->session->leg);
}

static void over(struct kh_down_stream *down, const struct kh_exchange *x, enum kh_down_end end)
{
	struct kh_session *session = down->session;
	struct kh_down_h1 *h1 = h1_of(down);

	if (end == KH_DOWN_WHOLE && !h1->close && !kh_exchange_has_request(x)) {
		session->discarded_bytes = 0;
		(void)kh_session_set_state(session, KH_SESSION_DISCARD);
	} else if (end == KH_DOWN_WHOLE) {
		kh_session_exchange_over(session, !h1->close);
	} else if (end == KH_DOWN_CUT && h1->framing != KH_FRAMING_CLOSE) {
		/* The end before the announced one shows that it is not all. */
		kh_session_exchange_over(session, false);
	} else {
		if (kh_exchange_has_answered(x))
			kh_stream_spoil(session->leg.stream);
		kh_session_kill(session, x->reason, x->detail);
	}
}

static void turn(struct kh_down_stream *down)
{
	kh_session_turn(down->session);
}

static void touch(struct kh_down_stream *down)
{
	kh_session_touch(down->session);
}

const struct kh_down_ops kh_down_h1_ops = {
	.put_interim = put_interim,
	.put_head = put_head,
	.put_content = put_content,
	.put_end = put_end,
	.put_answer = put_answer,
	.take_back = take_back,
	.is_full = is_full,
	.over = over,
	.turn = turn,
	.touch = touch,
};
