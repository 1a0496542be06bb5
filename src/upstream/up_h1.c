/*
 * up_h1.c - a user's stream on an HTTP/1 connection to an upstream
 *
 * The connection belongs to the user from kh_up_acquire to release, and goes back to the pool if
 * request and answer are complete.
 */

#include "upstream_internal.h"

enum { READS_AT_ONCE = 4 };

/* ---- the request ---- */

static bool too_large(struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_REQUEST_HEAD_TOO_LARGE,
			  "the head does not fit into what may be sent upstream");
}

static bool put_request_line(const struct kh_up_user *user, const struct kh_up_request *request,
			     struct kh_buf *out, struct kh_err *err)
{
	struct kh_slice method = user->message->method;
	struct kh_buf target;

	if (!request->is_secret)
		return kh_h1_put_request_line(out, method, request->target) || too_large(err);
	kh_buf_init_wiping(&target, KH_LIMIT_LINE_BYTES);
	bool ok = user->ops->put_target(user, &target, err) &&
		  (kh_h1_put_request_line(out, method, kh_buf_view(&target)) || too_large(err));
	kh_buf_fini(&target);
	return ok;
}

static bool put_host(const struct kh_up_user *user, struct kh_buf *out)
{
	struct kh_buf host;

	kh_buf_init(&host, KH_HOST_MAX_BYTES + 16);
	bool ok = user->ops->put_authority(user, &host) &&
		  kh_h1_put_field(out, KH_SLICE("Host"), kh_buf_view(&host));
	kh_buf_fini(&host);
	return ok;
}

static bool put_fields(const struct kh_up_user *user, struct kh_buf *out)
{
	for (size_t i = 0; i < user->message->n_fields; i++) {
		const struct kh_field *field = &user->message->fields[i];
		if (user->ops->forwards(user, field) &&
		    !kh_h1_put_field(out, field->name, field->value))
			return false;
	}
	return true;
}

/* The request has content, or bytes that a server which knows of none would take for some. */
static bool has_content(const struct kh_up_request *request)
{
	return request->framing == KH_FRAMING_CHUNKED ||
	       (request->framing == KH_FRAMING_LENGTH && request->length > 0);
}

/*
 * A server that does not read the content of a request takes it for the next one: what one sandbox
 * put into it would be completed by the head of another's request, with the credential in it. For
 * POST, PUT and PATCH it is defined what content means (RFC 9110 §9.3, RFC 5789), so servers read
 * it, unless the rule says that this one does not. For all other methods it is not.
 */
static bool may_be_left_unread(const struct kh_up_user *user, const struct kh_up_request *request)
{
	struct kh_slice method = user->message->method;

	return has_content(request) &&
	       (request->close_after_content ||
		!(kh_slice_eq(method, KH_SLICE("POST")) || kh_slice_eq(method, KH_SLICE("PUT")) ||
		  kh_slice_eq(method, KH_SLICE("PATCH"))));
}

/* The server answers before it can have read all of the content. */
static bool is_early(const struct kh_up *up, const struct kh_up_request *request)
{
	return has_content(request) && (request->has_more || kh_buf_len(&up->leg.out) > 0);
}

/* It was asked for a 100, and did not say it: perhaps it does not await the content. */
static bool was_not_awaited(const struct kh_up *up, const struct kh_up_request *request)
{
	return has_content(request) && up->only.user->message->expect_continue &&
	       !request->continued && !up->awaited;
}

static bool put_upgrade(const struct kh_up_user *user, struct kh_buf *out)
{
	struct kh_field fields[KH_UP_UPGRADE_FIELDS];
	size_t n = user->ops->upgrade_fields(user, false, fields);

	for (size_t i = 0; i < n; i++)
		if (!kh_h1_put_field(out, fields[i].name, fields[i].value))
			return false;
	return true;
}

static bool put_framing(const struct kh_up_user *user, const struct kh_up_request *request,
			struct kh_buf *out)
{
	char digits[KH_U64_DIGITS];

	if (user->upgrades)
		return put_upgrade(user, out);
	/* RFC 9112 §9.6: whatever comes after this request is none. */
	if (may_be_left_unread(user, request) &&
	    !kh_h1_put_field(out, KH_SLICE("Connection"), KH_SLICE("close")))
		return false;

	if (request->framing == KH_FRAMING_CHUNKED)
		return kh_h1_put_field(out, KH_SLICE("Transfer-Encoding"), KH_SLICE("chunked"));
	if (request->framing != KH_FRAMING_LENGTH)
		return true;
	return kh_h1_put_field(out, KH_SLICE("Content-Length"),
			       kh_slice_from_u64(request->length, digits));
}

static bool put_head(struct kh_up_stream *stream, struct kh_err *err)
{
	const struct kh_up_user *user = stream->user;
	struct kh_up *up = stream->conn;
	struct kh_buf *out = &up->leg.out;
	struct kh_up_request request;

	user->ops->describe(user, &request);
	kh_h1_expect_response_to(up->h1, user->message->method);
	up->awaited = false;
	up->chunked = request.framing == KH_FRAMING_CHUNKED;
	if (request.is_secret && !kh_leg_hide(&up->leg))
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory for a request");
	if (!put_request_line(user, &request, out, err))
		return false;
	if (!put_host(user, out) || !put_fields(user, out))
		return too_large(err);
	if (!user->ops->put_credentials(user, out, err))
		return false;
	return (put_framing(user, &request, out) && kh_h1_put_end(out)) || too_large(err);
}

static void put_content(struct kh_up_stream *up, struct kh_slice piece)
{
	bool chunked = up->conn->chunked;
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

	if (up->conn->chunked && !kh_h1_put_last_chunk(&leg->out, trailers, n))
		leg->failed = true;
}

/* ---- the response ---- */

/* A request that is sent just when the server closes the connection is lost, and one with content
 * can't be sent again. So such a connection is closed before the server closes it. */
static uint64_t kept_ms(const struct kh_message *response)
{
	enum { MARGIN_MS = 1000 };
	uint32_t seconds = kh_message_kept_seconds(response);
	uint64_t ms = (uint64_t)seconds * 1000;

	if (seconds == UINT32_MAX)
		return UINT64_MAX;
	return ms > 2 * MARGIN_MS ? ms - MARGIN_MS : ms / 2;
}

/* Return: false when the user is done with it. */
static bool take_head(struct kh_up *up, const struct kh_message *response)
{
	struct kh_up_user *user = up->only.user;
	struct kh_up_request request;
	struct kh_err err; /* set where the step can't be made */

	if (response->status >= 200) {
		if (!kh_up_set_answer(up, KH_UP_ANSWER_FINAL, &err)) {
			user->ops->broken(user, &err);
			return false;
		}
		user->ops->describe(user, &request);
		up->kept_ms = kept_ms(response);
		up->reusable = response->keep_alive && up->kept_ms > 0 &&
			       response->framing != KH_FRAMING_CLOSE &&
			       !may_be_left_unread(user, &request) && !is_early(up, &request) &&
			       !was_not_awaited(up, &request);
	} else if (response->status == 100) {
		up->awaited = true;
	}
	return user->ops->head(user, response);
}

static void take_end(struct kh_up *up)
{
	struct kh_up_user *user = up->only.user;
	size_t n = 0;
	const struct kh_field *trailers = kh_h1_trailers(up->h1, &n);

	user->ops->end(user, trailers, n);
}

/* Behind the 101, whose END is owed, nothing is HTTP: all of it is handed over. */
static bool process_frames(struct kh_up *up, size_t *work)
{
	struct kh_up_user *user = up->only.user;
	struct kh_slice none = KH_SLICE(""), body;
	struct kh_err err; /* set where the step can't be made */

	if (up->answer_state != KH_UP_ANSWER_SWITCHED) {
		while (kh_h1_feed(up->h1, &none, &body) != KH_H1_NEED_MORE)
			;
		if (!kh_up_set_answer(up, KH_UP_ANSWER_SWITCHED, &err)) {
			user->ops->broken(user, &err);
			return false;
		}
	}
	kh_h1_release(up->h1);
	*work += kh_work_of_piece(kh_buf_len(&up->in));
	bool goes_on = kh_buf_len(&up->in) == 0 || user->ops->body(user, kh_buf_view(&up->in));
	kh_buf_clear(&up->in);
	kh_buf_release(&up->in);
	return goes_on;
}

/* Takes the events of what was read. Return: false when the user is done with it, either way. */
static bool take_events(struct kh_up *up, size_t *work)
{
	struct kh_up_user *user = up->only.user;

	for (;;) {
		if (user->switched)
			return process_frames(up, work);
		struct kh_slice in = kh_buf_view(&up->in), body;
		size_t before = in.len;
		bool goes_on = true;

		enum kh_h1_event event = kh_h1_feed(up->h1, &in, &body);
		*work += event == KH_H1_HEAD ? KH_LIMIT_WORK_PER_HEAD + (before - in.len)
					     : kh_work_of_piece(before - in.len);
		if (event == KH_H1_HEAD)
			goes_on = take_head(up, kh_h1_message(up->h1));
		else if (event == KH_H1_BODY)
			goes_on = user->ops->body(user, body);
		kh_buf_consume(&up->in, before - in.len);
		if (event == KH_H1_NEED_MORE || !goes_on)
			return goes_on;
		if (event == KH_H1_ERROR) {
			user->ops->broken(user, kh_h1_error(up->h1));
			return false;
		}
		if (event == KH_H1_END &&
		    up->answer_state == KH_UP_ANSWER_FINAL) { /* not of an interim response */
			take_end(up);
			return false;
		}
	}
}

static bool process(struct kh_up *up)
{
	struct kh_work_share *share = kh_up_share(up);
	size_t work = KH_LIMIT_WORK_PER_READ;

	bool goes_on = take_events(up, &work);
	if (share)
		kh_work_share_charge(share, work);
	return goes_on;
}

static void on_end_of_stream(struct kh_up *up, enum kh_io how)
{
	struct kh_up_user *user = up->only.user;
	bool answered = up->answer_state != KH_UP_ANSWER_NONE,
	     final = up->answer_state == KH_UP_ANSWER_FINAL;
	struct kh_err err = KH_ERR_INIT;

	if (user->switched) {
		user->ops->lost(user, how == KH_IO_ERROR ? kh_stream_error(up->leg.stream) : NULL);
		return;
	}
	if (how == KH_IO_EOF && answered && kh_h1_feed_eof(up->h1) == KH_H1_END) {
		up->reusable = false;
		take_end(up);
		return;
	}
	if (up->reused && !answered && user->ops->may_retry(user)) {
		user->ops->retry(user);
		return;
	}
	if (!answered && kh_up_turn_to_h2(up))
		return;
	if (how == KH_IO_ERROR)
		err = *kh_stream_error(up->leg.stream);
	else if (how == KH_IO_TRUNCATED)
		kh_err_set(&err, KH_ERR_RESPONSE_INCOMPLETE,
			   "the upstream cut the TLS connection off before the response was whole");
	else
		kh_err_set(&err, final ? KH_ERR_RESPONSE_INCOMPLETE : KH_ERR_UP_CLOSED,
			   "the upstream closed the connection %s",
			   final ? "before the response was whole" : "without an answer");
	user->ops->broken(user, &err);
}

/* The first bytes are there. Return: false: the user is done with it. */
static bool begin_answer(struct kh_up *up)
{
	struct kh_up_user *user = up->only.user;
	struct kh_err err; /* set where the step can't be made */

	/* The head of a SETTINGS frame begins so, and no answer of HTTP/1. */
	if (kh_buf_view(&up->in).ptr[0] == '\0' && kh_up_turn_to_h2(up))
		return false;
	if (kh_up_set_answer(up, KH_UP_ANSWER_BEGUN, &err))
		return true;
	user->ops->broken(user, &err);
	return false;
}

void kh_up_h1_readable(struct kh_up *up)
{
	for (int i = 0; i < READS_AT_ONCE; i++) {
		struct kh_up_user *user = up->only.user;
		size_t got = 0;
		if (user->ops->is_full(user->side) || kh_up_may_do(up) == 0)
			return;
		char *room = kh_buf_reserve(&up->in, KH_LEG_READ_BYTES);
		if (!room) {
			struct kh_err err = KH_ERR_INIT;
			kh_err_set(&err, KH_ERR_NO_MEMORY, "no memory for the response");
			user->ops->broken(user, &err);
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
		if (up->answer_state == KH_UP_ANSWER_NONE && !begin_answer(up))
			return;
		*user->progress_ms = up->loop->now_ms;
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

	wanted = wanted && !kh_up_is_in_line(up->conn);
	if (up->conn->answer_state == KH_UP_ANSWER_SWITCHED)
		kh_buf_release(&leg->out);
	kh_stream_watch(leg->stream,
			(waits ? KH_STREAM_WRITABLE : 0u) | (wanted ? KH_STREAM_READABLE : 0u));
}

static void hold(struct kh_up_stream *up)
{
	kh_stream_watch(up->conn->leg.stream, 0);
}

static void release(struct kh_up_stream *up, bool clean)
{
	up->user = NULL;
	kh_up_release(up->conn, clean);
}

const struct kh_up_ops kh_up_h1_ops = {
	.put_head = put_head,
	.put_content = put_content,
	.put_end = put_end,
	.is_full = is_full,
	.flush = flush,
	.update = update,
	.hold = hold,
	.release = release,
};
