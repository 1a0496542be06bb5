/*
 * ws.c - reads WebSocket frames: bytes in, pieces of messages out
 *
 *   HEAD ─▶ PAYLOAD ─▶ HEAD …     a frame with an empty payload goes through PAYLOAD as well
 *               └─▶ CLOSED        after a close frame; what comes then is thrown away (§1.4)
 *   FAILED is final.
 *
 * A frame header is left in the input until it is complete, and so is a piece: KH_WS_PIECE_BYTES of
 * payload, or what the frame has left. So a piece always begins at a multiple of four bytes, where
 * the mask starts again, and no piece depends on how the input was split. What the first two bytes
 * of a header show is checked before the others have come.
 */
#include <keyhole/http/ws.h>

#include <stdlib.h>

#include "ws_internal.h"

#define BIT(name) (1u << KH_WS_S_##name)

static const uint8_t transitions[] = {
	[KH_WS_S_HEAD] = BIT(PAYLOAD) | BIT(FAILED),
	[KH_WS_S_PAYLOAD] = BIT(HEAD) | BIT(CLOSED) | BIT(FAILED),
	[KH_WS_S_CLOSED] = 0,
	[KH_WS_S_FAILED] = 0,
};

/* What a step says: go on, wait, or an event. */
enum step { STEP_ON = 0, STEP_MORE, STEP_FRAME, STEP_ERROR };

static void enter(struct kh_ws *ws, enum kh_ws_state state)
{
	if (!(transitions[ws->state] & (1u << state)))
		abort();
	ws->state = state;
}

void kh_ws_init(struct kh_ws *ws, enum kh_ws_side side)
{
	*ws = (struct kh_ws){ .side = side };
}

static enum step refuse(struct kh_ws *ws, uint16_t code, const char *text)
{
	enter(ws, KH_WS_S_FAILED);
	ws->error_code = code;
	ws->error_text = text;
	return STEP_ERROR;
}

static enum step malformed(struct kh_ws *ws, const char *text)
{
	return refuse(ws, KH_WS_CODE_PROTOCOL, text);
}

static bool is_control(const struct kh_ws *ws)
{
	return (ws->opcode & 0x8) != 0;
}

/* The first two bytes of a head (§5.2, §5.4, §5.5). Return: what is wrong, or NULL. */
static const char *judge(const struct kh_ws *ws, uint8_t first, uint8_t second)
{
	uint8_t opcode = first & 0xf, length = second & 0x7f;
	bool fin = (first & 0x80) != 0, masked = (second & 0x80) != 0;

	if (first & 0x70)
		return "a reserved bit is set, and no extension was agreed on";
	if ((opcode > KH_WS_BINARY && opcode < KH_WS_CLOSE) || opcode > KH_WS_PONG)
		return "a reserved opcode";
	if (masked && ws->side == KH_WS_BARE)
		return "a server's frame is masked";
	if (!masked && ws->side == KH_WS_MASKED)
		return "a client's frame is not masked";
	if (opcode & 0x8) {
		if (!fin)
			return "a control frame is fragmented";
		return length > KH_WS_CONTROL_BYTES ? "a control frame is too long" : NULL;
	}
	if (opcode == KH_WS_CONTINUATION && ws->message == 0)
		return "a continuation of nothing";
	if (opcode != KH_WS_CONTINUATION && ws->message != 0)
		return "a message begins inside another";
	return NULL;
}

/* How many bytes hold the extended length. */
static size_t length_width(uint8_t second)
{
	if ((second & 0x7f) == 127)
		return 8;
	return (second & 0x7f) == 126 ? 2 : 0;
}

static enum step take_length(struct kh_ws *ws, const uint8_t *head, size_t width)
{
	uint64_t length = head[1] & 0x7f;

	if (width > 0)
		length = 0;
	for (size_t i = 0; i < width; i++)
		length = length << 8 | head[2 + i];
	if (length >> 63)
		return malformed(ws, "a frame of 2^63 bytes or more");
	if ((width == 2 && length < 126) || (width == 8 && length < 65536))
		return malformed(ws, "a length that is not in its shortest form");
	if (length > KH_LIMIT_WS_FRAME_BYTES)
		return refuse(ws, KH_WS_CODE_TOO_BIG, "a frame is too long");
	ws->left = length;
	return STEP_ON;
}

/* A data frame counts towards its message. */
static enum step count_data(struct kh_ws *ws)
{
	if (ws->opcode != KH_WS_CONTINUATION) {
		ws->message = ws->opcode;
		ws->begun = false;
		ws->message_bytes = 0;
		ws->fragments = 0;
		ws->utf8 = (struct kh_utf8){ 0 };
	}
	if (++ws->fragments > KH_LIMIT_WS_FRAGMENTS)
		return refuse(ws, KH_WS_CODE_TOO_BIG, "a message has too many fragments");
	ws->message_bytes += ws->left;
	if (ws->message_bytes > KH_LIMIT_WS_MESSAGE_BYTES)
		return refuse(ws, KH_WS_CODE_TOO_BIG, "a message is too long");
	return STEP_ON;
}

/* Each one is paid for by time: a burst is free. */
static enum step count_control(struct kh_ws *ws, uint64_t now_ms)
{
	enum { EACH_MS = 1000 / KH_LIMIT_WS_CONTROLS_PER_SECOND };

	if (ws->controls_ms < now_ms)
		ws->controls_ms = now_ms;
	ws->controls_ms += EACH_MS;
	if (ws->controls_ms - now_ms > (uint64_t)EACH_MS * KH_LIMIT_WS_CONTROLS_BURST)
		return refuse(ws, KH_WS_CODE_POLICY, "a flood of control frames");
	return STEP_ON;
}

static enum step take_head(struct kh_ws *ws, uint64_t now_ms, char **in, size_t *len)
{
	const uint8_t *head = (const uint8_t *)*in;
	size_t mask = ws->side == KH_WS_MASKED ? sizeof(ws->key) : 0;

	if (*len < 2)
		return STEP_MORE;
	const char *fault = judge(ws, head[0], head[1]);
	if (fault)
		return malformed(ws, fault);
	size_t width = length_width(head[1]);
	if (*len < 2 + width)
		return STEP_MORE;
	enum step step = take_length(ws, head, width);
	if (step != STEP_ON)
		return step;
	if (*len < 2 + width + mask)
		return STEP_MORE;
	ws->fin = (head[0] & 0x80) != 0;
	ws->opcode = head[0] & 0xf;
	if (mask)
		memcpy(ws->key, head + 2 + width, mask);
	*in += 2 + width + mask;
	*len -= 2 + width + mask;
	step = is_control(ws) ? count_control(ws, now_ms) : count_data(ws);
	if (step == STEP_ON)
		enter(ws, KH_WS_S_PAYLOAD);
	return step;
}

/* §7.4, §5.5.1 */
static enum step take_close(struct kh_ws *ws, struct kh_ws_frame *frame)
{
	struct kh_utf8 utf8 = { 0 };
	struct kh_slice payload = frame->payload;

	frame->close_code = KH_WS_CODE_NONE;
	if (payload.len == 1)
		return malformed(ws, "a close frame of one byte");
	if (payload.len >= 2) {
		frame->close_code =
			(uint16_t)((uint8_t)payload.ptr[0] << 8 | (uint8_t)payload.ptr[1]);
		if (!kh_ws_code_may_be_sent(frame->close_code))
			return malformed(ws, "a close code that may not be sent");
		if (!kh_utf8_take(&utf8, kh_slice_sub(payload, 2, payload.len)) ||
		    !kh_utf8_is_whole(&utf8))
			return refuse(ws, KH_WS_CODE_NOT_UTF8, "a close reason is not UTF-8");
	}
	enter(ws, KH_WS_S_CLOSED);
	return STEP_FRAME;
}

static enum step take_control(struct kh_ws *ws, struct kh_ws_frame *frame)
{
	frame->opcode = (enum kh_ws_opcode)ws->opcode;
	frame->begin = frame->end = true;
	if (ws->opcode == KH_WS_CLOSE)
		return take_close(ws, frame);
	enter(ws, KH_WS_S_HEAD);
	return STEP_FRAME;
}

static enum step take_data(struct kh_ws *ws, struct kh_ws_frame *frame)
{
	bool frame_ends = ws->left == 0;

	frame->opcode = (enum kh_ws_opcode)ws->message;
	frame->begin = !ws->begun;
	frame->end = frame_ends && ws->fin;
	if (ws->message == KH_WS_TEXT && (!kh_utf8_take(&ws->utf8, frame->payload) ||
					  (frame->end && !kh_utf8_is_whole(&ws->utf8))))
		return refuse(ws, KH_WS_CODE_NOT_UTF8, "text that is not UTF-8");
	ws->begun = true;
	if (frame_ends)
		enter(ws, KH_WS_S_HEAD);
	if (frame->end)
		ws->message = 0;
	/* An empty fragment in the middle says nothing. */
	return frame->payload.len || frame->begin || frame->end ? STEP_FRAME : STEP_ON;
}

static enum step take_payload(struct kh_ws *ws, char **in, size_t *len, struct kh_ws_frame *frame)
{
	size_t want = ws->left < KH_WS_PIECE_BYTES ? (size_t)ws->left : KH_WS_PIECE_BYTES;

	if (*len < want)
		return STEP_MORE;
	if (ws->side == KH_WS_MASKED)
		kh_ws_mask(*in, *in, want, ws->key);
	frame->payload = kh_slice_of(*in, want);
	*in += want;
	*len -= want;
	ws->left -= want;
	return is_control(ws) ? take_control(ws, frame) : take_data(ws, frame);
}

enum kh_ws_event kh_ws_feed(struct kh_ws *ws, uint64_t now_ms, char **in, size_t *len,
			    struct kh_ws_frame *frame)
{
	enum step step = STEP_ON;

	*frame = (struct kh_ws_frame){ 0 };
	while (step == STEP_ON) {
		switch (ws->state) {
		case KH_WS_S_HEAD:
			step = take_head(ws, now_ms, in, len);
			break;
		case KH_WS_S_PAYLOAD:
			step = take_payload(ws, in, len, frame);
			break;
		case KH_WS_S_CLOSED:
			*in += *len;
			*len = 0;
			step = STEP_MORE;
			break;
		case KH_WS_S_FAILED:
			step = STEP_ERROR;
			break;
		}
	}
	if (step == STEP_MORE)
		return KH_WS_NEED_MORE;
	return step == STEP_FRAME ? KH_WS_FRAME : KH_WS_ERROR;
}

bool kh_ws_is_idle(const struct kh_ws *ws)
{
	return ws->state == KH_WS_S_HEAD && ws->message == 0;
}

uint16_t kh_ws_error_code(const struct kh_ws *ws)
{
	return ws->error_code;
}

const char *kh_ws_error_text(const struct kh_ws *ws)
{
	return ws->error_text;
}
