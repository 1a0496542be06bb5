/*
 * h1_parse.c - the parser's state machine: bytes in, events out
 *
 *   IDLE ─▶ FIRST_LINE ─▶ FIELDS ─┬▶ END                      nothing follows (or an interim: IDLE)
 *                                 ├▶ LENGTH ─▶ END
 *                                 ├▶ CLOSE ─▶ END               at the end of the connection
 *                                 └▶ CHUNK_LINE ─▶ CHUNK_DATA ─▶ CHUNK_CR ─▶ CHUNK_LF ─▶ CHUNK_LINE
 * … └▶ TRAILERS ─▶ END END ─▶ IDLE, or RAW after a 101 or a CONNECT's 2xx. FAILED is final.
 *
 * Each step takes bytes from the front and either gives an event or goes on. No step depends on
 * bytes that have not come, or on where the input was split. So any split of the same bytes gives
 * the same events (only content comes in other pieces). Head and trailers are collected line by
 * line in the codec's own memory (h1_line.c), and each line is checked when it is complete; content
 * is never copied. The first byte of a message is checked at once, so that a TLS ClientHello on a
 * plain port is refused without waiting for the end of a line.
 */
#include "h1_internal.h"

#include <stdlib.h>

#include <keyhole/base/block.h>

#include "chars.h"

#define BIT(name) (1u << KH_H1_S_##name)

static const uint32_t transitions[KH_H1_S_COUNT] = {
	[KH_H1_S_IDLE] = BIT(BLANK) | BIT(FIRST_LINE),
	[KH_H1_S_BLANK] = BIT(IDLE),
	[KH_H1_S_FIRST_LINE] = BIT(FIELDS),
	[KH_H1_S_FIELDS] = BIT(IDLE) | BIT(LENGTH) | BIT(CLOSE) | BIT(CHUNK_LINE) | BIT(END),
	[KH_H1_S_LENGTH] = BIT(END),
	[KH_H1_S_CLOSE] = BIT(END),
	[KH_H1_S_CHUNK_LINE] = BIT(CHUNK_DATA) | BIT(TRAILERS),
	[KH_H1_S_CHUNK_DATA] = BIT(CHUNK_CR),
	[KH_H1_S_CHUNK_CR] = BIT(CHUNK_LF),
	[KH_H1_S_CHUNK_LF] = BIT(CHUNK_LINE),
	[KH_H1_S_TRAILERS] = BIT(END),
	[KH_H1_S_END] = BIT(IDLE) | BIT(RAW),
	[KH_H1_S_RAW] = 0,
	[KH_H1_S_FAILED] = 0,
};

static const struct kh_err no_memory = {
	.code = KH_ERR_NO_MEMORY,
	.text = "no memory for a message head",
};

void kh_h1_enter(struct kh_h1 *h1, enum kh_h1_state state)
{
	uint32_t allowed = transitions[h1->state] | BIT(FAILED);

	if (!(allowed & (1u << state)))
		abort();
	h1->state = state;
}

struct kh_h1 *kh_h1_new(enum kh_h1_side side)
{
	struct kh_h1 *h1 = calloc(1, sizeof(*h1));

	if (h1)
		h1->side = side;
	return h1;
}

static void work_free(struct kh_h1_work *work)
{
	if (!work)
		return;
	kh_h1_text_fini(&work->head);
	kh_h1_text_fini(&work->trailer_text);
	free(work->trailers);
	kh_block_give(work);
}

void kh_h1_free(struct kh_h1 *h1)
{
	if (!h1)
		return;
	work_free(h1->work);
	free(h1);
}

size_t kh_h1_kept_bytes(const struct kh_h1 *h1)
{
	const struct kh_h1_work *work = h1->work;

	return sizeof(*h1) + (work ? sizeof(*work) + work->head.alloc + work->trailer_text.alloc +
					      work->n_trailers * sizeof(*work->trailers)
				   : 0);
}

void kh_h1_release(struct kh_h1 *h1)
{
	if (!kh_h1_is_idle(h1) && h1->state != KH_H1_S_RAW)
		return;
	work_free(h1->work);
	h1->work = NULL;
	h1->has_head = false;
}

void kh_h1_expect_response_to(struct kh_h1 *h1, struct kh_slice method)
{
	if (kh_slice_eq(method, KH_SLICE("HEAD")))
		h1->reply = KH_H1_REPLY_HEAD;
	else if (kh_slice_eq(method, KH_SLICE("CONNECT")))
		h1->reply = KH_H1_REPLY_CONNECT;
	else
		h1->reply = KH_H1_REPLY_PLAIN;
}

bool kh_h1_is_idle(const struct kh_h1 *h1)
{
	return h1->state == KH_H1_S_IDLE && h1->interims == 0;
}

const struct kh_message *kh_h1_message(const struct kh_h1 *h1)
{
	return h1->has_head ? &h1->work->message : NULL;
}

const struct kh_field *kh_h1_trailers(const struct kh_h1 *h1, size_t *count)
{
	*count = h1->has_head ? h1->work->n_trailers : 0;
	return *count > 0 ? h1->work->trailers : NULL;
}

const struct kh_err *kh_h1_error(const struct kh_h1 *h1)
{
	if (h1->state != KH_H1_S_FAILED)
		return NULL;
	return h1->work ? &h1->work->err : &no_memory;
}

static enum kh_h1_event fail(struct kh_h1 *h1, enum kh_err_code code, const char *what)
{
	kh_h1_enter(h1, KH_H1_S_FAILED);
	kh_err_set(&h1->work->err, code, "%s: %s",
		   h1->side == KH_H1_REQUESTS ? "request" : "response", what);
	return KH_H1_ERROR;
}

enum kh_h1_event kh_h1_malformed(struct kh_h1 *h1, const char *what)
{
	return fail(h1, kh_h1_malformed_code(h1->side), what);
}

enum kh_h1_event kh_h1_too_large(struct kh_h1 *h1, const char *what)
{
	return fail(h1,
		    h1->side == KH_H1_REQUESTS ? KH_ERR_REQUEST_HEAD_TOO_LARGE
					       : KH_ERR_RESPONSE_HEAD_TOO_LARGE,
		    what);
}

enum kh_h1_event kh_h1_no_memory(struct kh_h1 *h1)
{
	kh_h1_enter(h1, KH_H1_S_FAILED);
	work_free(h1->work);
	h1->work = NULL;
	h1->has_head = false;
	return KH_H1_ERROR;
}

/* Forgets the message before; its views end here. */
static bool work_begin(struct kh_h1 *h1)
{
	struct kh_h1_work *work = h1->work;

	h1->has_head = false;
	h1->ext_bytes = 0;
	if (!work) {
		/* Not cleared as a whole: the fields alone are 4 KiB. */
		size_t size = sizeof(*work);
		work = h1->work = kh_block_get(&size);
		if (!work)
			return false;
		work->head = (struct kh_h1_text){ 0 };
		work->trailer_text = (struct kh_h1_text){ 0 };
		work->trailers = NULL;
		work->err = (struct kh_err)KH_ERR_INIT;
	}
	memset(&work->message, 0, offsetof(struct kh_message, fields));
	work->message.n_fields = 0;
	kh_h1_text_reset(&work->head);
	kh_h1_text_reset(&work->trailer_text);
	work->n_trailers = 0;
	return true;
}

static enum kh_h1_event step_idle(struct kh_h1 *h1, struct kh_slice *in)
{
	bool requests = h1->side == KH_H1_REQUESTS;

	if (in->len == 0)
		return KH_H1_NEED_MORE;
	if (requests && in->ptr[0] == '\r' && h1->blanks < KH_LIMIT_EMPTY_LINES) {
		*in = kh_slice_sub(*in, 1, in->len);
		kh_h1_enter(h1, KH_H1_S_BLANK);
		return KH_H1_GO_ON;
	}
	if (!work_begin(h1))
		return kh_h1_no_memory(h1);
	if (requests ? !kh_is_tchar(in->ptr[0]) : in->ptr[0] != 'H')
		return kh_h1_malformed(h1, "it does not begin as HTTP does");
	kh_h1_enter(h1, KH_H1_S_FIRST_LINE);
	return KH_H1_GO_ON;
}

static enum kh_h1_event step_blank(struct kh_h1 *h1, struct kh_slice *in)
{
	if (in->len == 0)
		return KH_H1_NEED_MORE;
	if (in->ptr[0] != '\n') {
		if (!work_begin(h1))
			return kh_h1_no_memory(h1);
		return kh_h1_malformed(h1, "a CR without LF");
	}
	*in = kh_slice_sub(*in, 1, in->len);
	h1->blanks++;
	kh_h1_enter(h1, KH_H1_S_IDLE);
	return KH_H1_GO_ON;
}

static enum kh_h1_event step_first_line(struct kh_h1 *h1, struct kh_slice *in)
{
	struct kh_h1_work *work = h1->work;
	bool version_bad = false;
	const char *wrong;

	switch (kh_h1_line_read(&work->head, in, KH_LIMIT_LINE_BYTES, KH_LIMIT_HEAD_BYTES, NULL,
				0)) {
	case KH_H1_LINE_MORE:
		return KH_H1_NEED_MORE;
	case KH_H1_LINE_DONE:
		break;
	case KH_H1_LINE_BAD:
		return kh_h1_malformed(
			h1, "the first line contains a control byte, or a CR or LF alone");
	case KH_H1_LINE_LONG:
	case KH_H1_LINE_TOTAL:
		return h1->side == KH_H1_REQUESTS
			       ? fail(h1, KH_ERR_REQUEST_URI_TOO_LONG,
				      "the request line is too long")
			       : kh_h1_too_large(h1, "the status line is too long");
	case KH_H1_LINE_NO_MEMORY:
		return kh_h1_no_memory(h1);
	}

	struct kh_slice line = kh_h1_line_take(&work->head);
	if (h1->side == KH_H1_REQUESTS)
		wrong = kh_h1_head_request_line(line, &work->method_len, &work->target_len,
						&work->message.minor, &version_bad);
	else
		wrong = kh_h1_head_status_line(line, &work->message);
	if (wrong)
		return version_bad ? fail(h1, KH_ERR_VERSION_UNSUPPORTED, wrong)
				   : kh_h1_malformed(h1, wrong);
	kh_h1_enter(h1, KH_H1_S_FIELDS);
	return KH_H1_GO_ON;
}

/* Behind the empty line: the text has come to rest, and what it says together is decided. */
static enum kh_h1_event head_done(struct kh_h1 *h1)
{
	struct kh_h1_work *work = h1->work;
	struct kh_message *message = &work->message;
	struct kh_slice text = kh_slice_of(work->head.data, work->head.len);

	if (h1->side == KH_H1_REQUESTS) {
		size_t target = work->method_len + 1;

		message->method = kh_slice_sub(text, 0, work->method_len);
		message->target = kh_slice_sub(text, target, target + work->target_len);
	} else {
		enum { REASON = 13 };

		message->reason = kh_slice_sub(text, REASON, kh_slice_find(text, '\r', REASON));
	}
	if (!kh_h1_framing_decide(message, h1->side, h1->reply, &work->err)) {
		kh_h1_enter(h1, KH_H1_S_FAILED);
		return KH_H1_ERROR;
	}
	if (h1->side == KH_H1_RESPONSES && message->status < 200 && message->status != 101) {
		h1->interim_bytes += (uint32_t)text.len;
		if (++h1->interims > KH_LIMIT_INTERIM_RESPONSES ||
		    h1->interim_bytes > KH_LIMIT_INTERIM_BYTES)
			return kh_h1_malformed(h1, "too many interim responses");
		h1->has_head = true;
		kh_h1_enter(h1, KH_H1_S_IDLE);
		return KH_H1_HEAD;
	}
	h1->has_head = true;
	h1->left = message->content_length;
	switch (message->framing) {
	case KH_FRAMING_NONE:
		kh_h1_enter(h1, KH_H1_S_END);
		break;
	case KH_FRAMING_LENGTH:
		kh_h1_enter(h1, h1->left > 0 ? KH_H1_S_LENGTH : KH_H1_S_END);
		break;
	case KH_FRAMING_CHUNKED:
		h1->chunk = KH_H1_C_SIZE;
		h1->chunk_digits = 0;
		h1->chunk_line_bytes = 0;
		kh_h1_enter(h1, KH_H1_S_CHUNK_LINE);
		break;
	case KH_FRAMING_CLOSE:
		kh_h1_enter(h1, KH_H1_S_CLOSE);
		break;
	}
	return KH_H1_HEAD;
}

static enum kh_h1_event step_fields(struct kh_h1 *h1, struct kh_slice *in)
{
	struct kh_h1_work *work = h1->work;
	struct kh_message *message = &work->message;

	for (;;) {
		switch (kh_h1_line_read(&work->head, in, KH_LIMIT_FIELD_BYTES, KH_LIMIT_HEAD_BYTES,
					message->fields, message->n_fields)) {
		case KH_H1_LINE_MORE:
			return KH_H1_NEED_MORE;
		case KH_H1_LINE_DONE:
			break;
		case KH_H1_LINE_BAD:
			return kh_h1_malformed(
				h1, "a field line contains a control byte, or a CR or LF alone");
		case KH_H1_LINE_LONG:
			return kh_h1_too_large(h1, "a field is too long");
		case KH_H1_LINE_TOTAL:
			return kh_h1_too_large(h1, "the head is too long");
		case KH_H1_LINE_NO_MEMORY:
			return kh_h1_no_memory(h1);
		}

		struct kh_slice line = kh_h1_line_take(&work->head);
		if (line.len == 0)
			return head_done(h1);
		if (message->n_fields == KH_LIMIT_FIELDS)
			return kh_h1_too_large(h1, "there are too many fields");
		const char *wrong = kh_h1_head_field(line, &message->fields[message->n_fields]);
		if (wrong)
			return kh_h1_malformed(h1, wrong);
		message->n_fields++;
	}
}

/* A view of what was given, at most `most` bytes of it. */
static void take_body(struct kh_slice *in, uint64_t most, struct kh_slice *body)
{
	size_t len = in->len < most ? in->len : (size_t)most;

	*body = kh_slice_sub(*in, 0, len);
	*in = kh_slice_sub(*in, len, in->len);
}

static enum kh_h1_event step_content(struct kh_h1 *h1, struct kh_slice *in, struct kh_slice *body,
				     enum kh_h1_state next)
{
	if (in->len == 0)
		return KH_H1_NEED_MORE;
	take_body(in, h1->left, body);
	h1->left -= body->len;
	if (h1->left == 0)
		kh_h1_enter(h1, next);
	return KH_H1_BODY;
}

static enum kh_h1_event step_byte(struct kh_h1 *h1, struct kh_slice *in, char expected,
				  enum kh_h1_state next)
{
	if (in->len == 0)
		return KH_H1_NEED_MORE;
	if (in->ptr[0] != expected)
		return kh_h1_malformed(h1, "a chunk is not followed by CRLF");
	*in = kh_slice_sub(*in, 1, in->len);
	kh_h1_enter(h1, next);
	return KH_H1_GO_ON;
}

static enum kh_h1_event step_end(struct kh_h1 *h1)
{
	const struct kh_message *message = &h1->work->message;
	bool raw = h1->side == KH_H1_RESPONSES &&
		   (message->status == 101 ||
		    (h1->reply == KH_H1_REPLY_CONNECT && message->status / 100 == 2));

	h1->interims = 0;
	h1->interim_bytes = 0;
	h1->blanks = 0;
	h1->reply = KH_H1_REPLY_PLAIN;
	kh_h1_enter(h1, raw ? KH_H1_S_RAW : KH_H1_S_IDLE);
	return KH_H1_END;
}

static enum kh_h1_event step(struct kh_h1 *h1, struct kh_slice *in, struct kh_slice *body)
{
	switch (h1->state) {
	case KH_H1_S_IDLE:
		return step_idle(h1, in);
	case KH_H1_S_BLANK:
		return step_blank(h1, in);
	case KH_H1_S_FIRST_LINE:
		return step_first_line(h1, in);
	case KH_H1_S_FIELDS:
		return step_fields(h1, in);
	case KH_H1_S_LENGTH:
		return step_content(h1, in, body, KH_H1_S_END);
	case KH_H1_S_CLOSE:
		if (in->len == 0)
			return KH_H1_NEED_MORE;
		take_body(in, UINT64_MAX, body);
		return KH_H1_BODY;
	case KH_H1_S_CHUNK_LINE:
		return kh_h1_chunk_line(h1, in);
	case KH_H1_S_CHUNK_DATA:
		return step_content(h1, in, body, KH_H1_S_CHUNK_CR);
	case KH_H1_S_CHUNK_CR:
		return step_byte(h1, in, '\r', KH_H1_S_CHUNK_LF);
	case KH_H1_S_CHUNK_LF:
		return step_byte(h1, in, '\n', KH_H1_S_CHUNK_LINE);
	case KH_H1_S_TRAILERS:
		return kh_h1_chunk_trailers(h1, in);
	case KH_H1_S_END:
		return step_end(h1);
	case KH_H1_S_RAW:
		return KH_H1_NEED_MORE;
	case KH_H1_S_FAILED:
	case KH_H1_S_COUNT:
		break;
	}
	return KH_H1_ERROR;
}

enum kh_h1_event kh_h1_feed(struct kh_h1 *h1, struct kh_slice *in, struct kh_slice *body)
{
	enum kh_h1_event event;

	do
		event = step(h1, in, body);
	while (event == KH_H1_GO_ON);
	return event;
}

enum kh_h1_event kh_h1_feed_eof(struct kh_h1 *h1)
{
	if (kh_h1_is_idle(h1) || h1->state == KH_H1_S_RAW)
		return KH_H1_NEED_MORE;
	if (h1->state == KH_H1_S_FAILED)
		return KH_H1_ERROR;
	if (h1->state == KH_H1_S_CLOSE)
		kh_h1_enter(h1, KH_H1_S_END);
	if (h1->state == KH_H1_S_END)
		return step_end(h1);
	if (!h1->work && !work_begin(h1))
		return kh_h1_no_memory(h1);
	return fail(h1,
		    h1->side == KH_H1_REQUESTS ? KH_ERR_DOWN_CLOSED : KH_ERR_RESPONSE_INCOMPLETE,
		    "the connection ended in the middle of it");
}
