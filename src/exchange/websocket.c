/*
 * websocket.c - an open WebSocket: reads each side's frames, checks them, and writes new ones for
 * the other side
 *
 *   open ─▶ closing ─▶ over
 *
 * Only parsed frames are forwarded: each piece of a message is written as a new frame, with a fresh
 * mask towards the upstream. A message is never collected, so memory is bounded by one piece per
 * direction and by what each connection may have waiting. A side that does not read makes the other
 * wait. Closing begins with the first close frame, from either side or from keyhole. It ends when
 * both sides have sent theirs, when a connection ends, or after a timeout.
 */

#include <openssl/rand.h>

#include "exchange_internal.h"
#include "placeholder_check.h"
#include "websocket_internal.h"

enum { CLOSING_MS = 5000, FRAME_SPACE_BYTES = 256 };

void kh_websocket_free(struct kh_websocket *websocket)
{
	if (!websocket)
		return;
	kh_buf_fini(&websocket->protocols);
	kh_buf_fini(&websocket->up.in);
	kh_buf_fini(&websocket->down.in);
	free(websocket);
}

size_t kh_websocket_kept_bytes(const struct kh_websocket *websocket)
{
	return websocket ? sizeof(*websocket) + websocket->protocols.alloc +
				   websocket->up.in.alloc + websocket->down.in.alloc
			 : 0;
}

/* A mask key must not be predictable (RFC 6455 §5.3); random bytes are fetched many at a time. */
static bool next_mask(struct kh_loop *loop, uint8_t key[4])
{
	if (loop->masks_left < 4) {
		if (RAND_bytes(loop->masks, sizeof(loop->masks)) != 1)
			return false;
		loop->masks_left = sizeof(loop->masks);
	}
	loop->masks_left -= 4;
	memcpy(key, loop->masks + loop->masks_left, 4);
	return true;
}

static bool is_up(const struct kh_exchange *x, const struct kh_websocket_way *way)
{
	return way == &x->websocket->up;
}

/* The first close frame gives the code. */
static void begin_closing(struct kh_exchange *x, uint16_t code, const char *by)
{
	struct kh_websocket *w = x->websocket;

	if (w->code)
		return;
	w->code = code;
	w->code_by = by;
	w->closing_ms = x->side->loop->now_ms;
}

/* To the end of that way. Return: false: no room, no memory. */
static bool put_bytes(struct kh_exchange *x, const struct kh_websocket_way *way,
		      const struct kh_buf *bytes)
{
	if (kh_buf_len(bytes) == 0)
		return true;
	if (!is_up(x, way))
		return x->down->ops->put_content(x->down, kh_buf_view(bytes));
	x->up.stream->ops->put_content(x->up.stream,
				       kh_buf_view(bytes)); /* its failure shows when it is read */
	return true;
}

/* The end, with both connections told as much as is left to say. */
static bool finish(struct kh_exchange *x, enum kh_down_end end)
{
	if (end == KH_DOWN_WHOLE)
		(void)(x->down->ops->put_end(x->down, NULL, 0) &&
		       kh_exchange_set_answer(x, KH_ANSWER_DONE, NULL));
	x->up.stream->ops->flush(x->up.stream);
	kh_exchange_end(x, end);
	return false;
}

/* Return: false: the exchange is over. */
static bool fail(struct kh_exchange *x, enum kh_err_code code, const char *text, const char *by)
{
	kh_exchange_note(x, code, text);
	begin_closing(x, KH_WS_CODE_LOST, by);
	return finish(x, KH_DOWN_CUT);
}

/* A close frame of ours to the end of that way, unless one has gone there. */
static bool put_close(struct kh_exchange *x, struct kh_websocket_way *way, uint16_t code,
		      const char *text)
{
	struct kh_buf out;
	uint8_t key[4];

	if (way->shut)
		return true;
	way->shut = true;
	kh_buf_init(&out, FRAME_SPACE_BYTES);
	bool ok = (!is_up(x, way) || next_mask(x->side->loop, key)) &&
		  kh_ws_put_close(&out, code, text, is_up(x, way) ? key : NULL) &&
		  put_bytes(x, way, &out);
	kh_buf_fini(&out);
	return ok;
}

/* From here: both sides are told, and may answer. Return: false: the exchange is over. */
static bool leave(struct kh_exchange *x, enum kh_err_code reason, uint16_t code, const char *text)
{
	struct kh_websocket *w = x->websocket;

	kh_exchange_note(x, reason, text);
	begin_closing(x, code, "keyhole");
	return (put_close(x, &w->up, code, text) && put_close(x, &w->down, code, text)) ||
	       fail(x, KH_ERR_NO_MEMORY, "no memory for a close frame", "keyhole");
}

bool kh_websocket_leave(struct kh_exchange *x, enum kh_err_code reason, const char *text)
{
	return leave(x, reason, KH_WS_CODE_GOING_AWAY, text);
}

/* What came on `way` is no WebSocket: its sender is told why, the other side that it is over. */
static bool on_error(struct kh_exchange *x, struct kh_websocket_way *way)
{
	struct kh_websocket *w = x->websocket;
	bool up = is_up(x, way);
	uint16_t code = kh_ws_error_code(&way->ws);
	const char *text = kh_ws_error_text(&way->ws);

	kh_exchange_note(x, up ? KH_ERR_WEBSOCKET_DOWN : KH_ERR_WEBSOCKET_UP, text);
	begin_closing(x, code, "keyhole");
	/* 1014 is a gateway's "502" (IANA's registry). */
	return (put_close(x, up ? &w->down : &w->up, code, text) &&
		put_close(x, way, up ? KH_WS_CODE_GOING_AWAY : KH_WS_CODE_BAD_GATEWAY, NULL)) ||
	       fail(x, KH_ERR_NO_MEMORY, "no memory for a close frame", "keyhole");
}

/* The max_body of a rule that allowed it bounds each message of the sandbox. */
static bool is_too_large(const struct kh_exchange *x, const struct kh_websocket_way *way)
{
	const struct kh_rule *rule = kh_decision_max_body(&x->ruling.decision);

	return is_up(x, way) && rule && way->ws.message_bytes > rule->more->max_body;
}

static bool is_data(const struct kh_ws_frame *frame)
{
	return frame->opcode == KH_WS_TEXT || frame->opcode == KH_WS_BINARY;
}

/* Every byte of payload passes here, in order, on its way to the other side: pieces of messages of
 * at most KH_WS_PIECE_BYTES, unmasked, and whole control frames between them. */
static void look_at(struct kh_exchange *x, struct kh_websocket_way *way,
		    const struct kh_ws_frame *frame)
{
	way->messages += is_data(frame) && frame->end;
	if (is_up(x, way))
		kh_exchange_moved_up(x, frame->payload.len);
	else
		kh_exchange_moved_down(x, frame->payload.len);
}

/* How far it went with what has come. */
enum taken { TAKEN_ALL = 1, TAKEN_ERROR, TAKEN_TOO_LARGE, TAKEN_LIMIT, TAKEN_NO_MEMORY };

/* What a message is held to; a control frame belongs to none. */
static bool is_good_message(struct kh_exchange *x, const struct kh_websocket_way *way,
			    const struct kh_ws_frame *frame, struct kh_err *why)
{
	return kh_exchange_may_be_so_large(x, way->ws.message_bytes, why) &&
	       kh_content_look_at(x, frame->payload, why);
}

/* All payload that goes that way counts, a control frame's too: it is content for whoever wants to
 * send some in it. */
static bool is_within_limits(struct kh_exchange *x, const struct kh_websocket_way *way,
			     const struct kh_ws_frame *frame, struct kh_err *why)
{
	bool up = is_up(x, way);

	if (up && !(is_data(frame) ? is_good_message(x, way, frame, why)
				   : kh_content_look_at_control(x, frame->payload, why)))
		return false;
	return kh_exchange_spend(x, up ? KH_QUOTA_BYTES_UP : KH_QUOTA_BYTES_DOWN,
				 frame->payload.len, why) == frame->payload.len;
}

static enum taken take_frame(struct kh_exchange *x, struct kh_websocket_way *way,
			     const struct kh_ws_frame *frame, struct kh_buf *out,
			     struct kh_err *why)
{
	uint8_t key[4];

	if (frame->opcode == KH_WS_CLOSE) {
		begin_closing(x, frame->close_code, is_up(x, way) ? "sandbox" : "upstream");
		way->ended = true;
	}
	if (way->shut)
		return TAKEN_ALL; /* nothing follows a close frame */
	if (is_data(frame) && is_too_large(x, way))
		return TAKEN_TOO_LARGE;
	if (!is_within_limits(x, way, frame, why))
		return TAKEN_LIMIT;
	look_at(x, way, frame);
	way->shut = frame->opcode == KH_WS_CLOSE;
	if ((!is_up(x, way) || next_mask(x->side->loop, key)) &&
	    kh_ws_put(out, frame, is_up(x, way) ? key : NULL))
		return TAKEN_ALL;
	return TAKEN_NO_MEMORY;
}

/* All whole pieces of what has come. */
static enum taken take_frames(struct kh_exchange *x, struct kh_websocket_way *way,
			      struct kh_buf *out, struct kh_err *why)
{
	struct kh_ws_frame frame;
	char *at = way->in.data + way->in.head;
	size_t left = kh_buf_len(&way->in);
	enum kh_ws_event event;
	enum taken taken = TAKEN_ALL;
	size_t frames = 0;

	do {
		frames++;
		event = kh_ws_feed(&way->ws, x->side->loop->now_ms, &at, &left, &frame);
		if (event == KH_WS_FRAME)
			taken = take_frame(x, way, &frame, out, why);
		else if (event == KH_WS_ERROR)
			taken = TAKEN_ERROR;
	} while (taken == TAKEN_ALL && event == KH_WS_FRAME);
	kh_buf_consume(&way->in, kh_buf_len(&way->in) - left);
	kh_buf_shrink(&way->in);
	if (!is_up(x, way)) /* the other way is charged by its bytes (session_take.c) */
		kh_work_share_charge(&x->side->acceptor->work, frames * KH_LIMIT_WORK_PER_FRAME);
	return taken;
}

/* Return: false: the exchange is over. */
static bool take(struct kh_exchange *x, struct kh_websocket_way *way, struct kh_slice bytes)
{
	struct kh_websocket *w = x->websocket;
	enum taken taken = TAKEN_NO_MEMORY;
	struct kh_err why = KH_ERR_INIT;
	struct kh_buf out;

	x->progress_ms = x->side->loop->now_ms;
	if (kh_ws_error_code(&way->ws) || way->ended)
		return true; /* thrown away until its sender has gone */
	if (!kh_buf_append_slice(&way->in, bytes))
		return fail(x, KH_ERR_NO_MEMORY, "no memory for a frame", "keyhole");
	/* A bare frame of two bytes grows by a mask. */
	kh_buf_init(&out, 4 * kh_buf_len(&way->in) + FRAME_SPACE_BYTES);
	if (kh_buf_reserve(&out, kh_buf_len(&way->in) + FRAME_SPACE_BYTES))
		taken = take_frames(x, way, &out, &why);
	bool put = put_bytes(x, way, &out);
	kh_buf_fini(&out);
	if (!put)
		return fail(x, KH_ERR_DOWN_CLOSED, "the sandbox closed the connection", "sandbox");
	if (taken == TAKEN_NO_MEMORY)
		return fail(x, KH_ERR_NO_MEMORY, "no memory for a frame", "keyhole");
	if (taken == TAKEN_ERROR)
		return on_error(x, way);
	if (taken == TAKEN_TOO_LARGE)
		return leave(x, KH_ERR_CONTENT_TOO_LARGE, KH_WS_CODE_TOO_BIG,
			     "a message is larger than the rule's max_body");
	if (taken == TAKEN_LIMIT)
		return leave(x, why.code,
			     why.code == KH_ERR_CONTENT_TOO_LARGE ? KH_WS_CODE_TOO_BIG
								  : KH_WS_CODE_POLICY,
			     why.text);
	return !w->up.ended || !w->down.ended || finish(x, KH_DOWN_WHOLE);
}

bool kh_websocket_from_down(struct kh_exchange *x, struct kh_slice bytes)
{
	return take(x, &x->websocket->up, bytes);
}

bool kh_websocket_from_up(struct kh_exchange *x, struct kh_slice bytes)
{
	return take(x, &x->websocket->down, bytes);
}

/* ---- ends ---- */

void kh_websocket_down_ended(struct kh_exchange *x)
{
	if (x->websocket->closing_ms)
		(void)finish(x, KH_DOWN_WHOLE);
	else
		(void)fail(x, KH_ERR_DOWN_CLOSED, "the sandbox went away without a close frame",
			   "sandbox");
}

void kh_websocket_up_ended(struct kh_exchange *x, const struct kh_err *err)
{
	if (x->websocket->closing_ms)
		(void)finish(x, KH_DOWN_WHOLE);
	else
		(void)fail(x, KH_ERR_RESPONSE_INCOMPLETE,
			   err ? err->text : "the upstream went away without a close frame",
			   "upstream");
}

void kh_websocket_fail(struct kh_exchange *x, const struct kh_err *err)
{
	(void)fail(x, err->code, err->text, "keyhole");
}

uint64_t kh_websocket_deadline(const struct kh_exchange *x)
{
	if (x->websocket->closing_ms)
		return x->websocket->closing_ms + CLOSING_MS;
	uint64_t rest = x->progress_ms + x->side->loop->gen->config->timeouts.websocket;
	uint64_t life = kh_exchange_lifetime_ends(x);
	rest = life < rest ? life : rest;
	return rest < kh_exchange_last_ms(x) ? rest : kh_exchange_last_ms(x);
}

void kh_websocket_timed_out(struct kh_exchange *x)
{
	struct kh_err why = KH_ERR_INIT;

	if (x->websocket->closing_ms) {
		(void)finish(x, KH_DOWN_WHOLE);
	} else if (x->side->loop->now_ms >= kh_exchange_lifetime_ends(x)) {
		kh_exchange_lifetime_over(x, &why);
		(void)kh_websocket_leave(x, why.code, why.text);
	} else if (x->side->loop->now_ms >= kh_exchange_last_ms(x)) {
		(void)kh_websocket_leave(x, KH_ERR_IDLE, "it lasted longer than timeouts.total");
	} else {
		(void)kh_websocket_leave(x, KH_ERR_IDLE, "nothing moved on it");
	}
}
