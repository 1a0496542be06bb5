/* ws.h - WebSocket (RFC 6455): frames read strictly and written from what was read; the handshake
 */
#ifndef KEYHOLE_HTTP_WS_H
#define KEYHOLE_HTTP_WS_H

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>
#include <keyhole/http/message.h>

/*
 * A push parser for one direction of one connection: bytes in, events out; no socket, no memory of
 * its own. A message is never gathered: it comes in pieces of KH_WS_PIECE_BYTES, a frame that is
 * shorter (nearly all are) as one piece. The events depend on the bytes and never on how they were
 * cut.
 *
 * No extension is ever negotiated, so refused with 1002: reserved bits, reserved opcodes, a mask
 * where none belongs or none where one does, a length that is not the shortest form or ≥ 2^63, a
 * control frame that is fragmented or longer than 125 bytes, a continuation of nothing, a message
 * inside a message, a close frame of one byte or with a code that may not be sent. With 1007: text
 * or a close reason that is not UTF-8 (judged piece by piece, across fragments). With 1009: a
 * frame, message or number of fragments past limits.h. With 1008: a flood of control frames.
 */
enum kh_ws_side {
	KH_WS_MASKED = 1, /* what a client sends (§5.3) */
	KH_WS_BARE,	  /* what a server sends */
};

/* §5.2 */
enum kh_ws_opcode {
	KH_WS_CONTINUATION = 0x0,
	KH_WS_TEXT = 0x1,
	KH_WS_BINARY = 0x2,
	KH_WS_CLOSE = 0x8,
	KH_WS_PING = 0x9,
	KH_WS_PONG = 0xa,
};

/* §7.4.1: those that we send ourselves, and what stands for "no code". */
enum kh_ws_code {
	KH_WS_CODE_NORMAL = 1000,
	KH_WS_CODE_GOING_AWAY = 1001,
	KH_WS_CODE_PROTOCOL = 1002,
	KH_WS_CODE_NONE = 1005, /* never sent: a close frame without a code */
	KH_WS_CODE_LOST = 1006, /* never sent: the connection ended without a close frame */
	KH_WS_CODE_NOT_UTF8 = 1007,
	KH_WS_CODE_POLICY = 1008,
	KH_WS_CODE_TOO_BIG = 1009,
	KH_WS_CODE_BAD_GATEWAY = 1014,
};

enum {
	KH_WS_PIECE_BYTES = 16 * 1024,
	KH_WS_HEAD_BYTES = 14,	   /* a frame's, at most */
	KH_WS_CONTROL_BYTES = 125, /* a control frame's payload, at most */
	KH_WS_KEY_BYTES = 24 + 1,  /* Sec-WebSocket-Key with its NUL */
	KH_WS_ACCEPT_BYTES = 28 + 1,
};

/* A piece of a message, or a control frame, which is always whole (and both begin and end). */
struct kh_ws_frame {
	enum kh_ws_opcode opcode; /* of the message, also in its later pieces; or of the control */
	bool begin;		  /* the first piece of its message */
	bool end;		  /* the last */
	struct kh_slice payload;  /* unmasked; a view into what was given */
	uint16_t close_code;	  /* of CLOSE: its code, or KH_WS_CODE_NONE */
};

enum kh_ws_event {
	KH_WS_NEED_MORE = 1, /* what was not taken is to be given again with what comes behind it:
				never more than a head and a piece */
	KH_WS_FRAME,
	KH_WS_ERROR, /* for ever; kh_ws_error_code and kh_ws_error_text */
};

enum kh_ws_state { KH_WS_S_HEAD = 0, KH_WS_S_PAYLOAD, KH_WS_S_CLOSED, KH_WS_S_FAILED };

/* Where in a code point the text stands; zeroed: between two. */
struct kh_utf8 {
	uint8_t need; /* bytes still to come */
	uint8_t low;  /* bounds of the next one */
	uint8_t high;
};

/* In place, since ten thousand of them idle; the fields are the codec's own. */
struct kh_ws {
	enum kh_ws_side side;
	enum kh_ws_state state;
	uint8_t opcode;	 /* of the frame */
	uint8_t message; /* opcode of the message that is open, 0: none */
	bool fin;
	bool begun; /* a piece of the message has been given */
	struct kh_utf8 utf8;
	uint8_t key[4];
	uint16_t error_code;
	uint32_t fragments;
	uint64_t left; /* of the frame's payload */
	uint64_t message_bytes;
	uint64_t controls_ms; /* control frames are paid for up to then */
	const char *error_text;
};

void kh_ws_init(struct kh_ws *ws, enum kh_ws_side side);
/*
 * Takes from the front of the `*len` bytes at `*in` (both move on) until one event is there; what
 * is taken is unmasked where it lies. Behind a close frame everything is taken and ignored.
 * `now_ms` is a clock that never runs backwards.
 */
enum kh_ws_event kh_ws_feed(struct kh_ws *ws, uint64_t now_ms, char **in, size_t *len,
			    struct kh_ws_frame *frame);
/* Nothing is open: neither a frame nor a message. */
bool kh_ws_is_idle(const struct kh_ws *ws);
/* What the close frame for it should say; 0 and NULL unless there was an error. */
uint16_t kh_ws_error_code(const struct kh_ws *ws);
const char *kh_ws_error_text(const struct kh_ws *ws);

/*
 * Writes a piece as a frame of its own: FIN where it ends its message, a continuation where it does
 * not begin it. `key` masks it (from a client; fresh and unpredictable for each frame, §5.3), NULL
 * leaves it bare. Whole or not at all. Return: false as kh_buf_append.
 */
bool kh_ws_put(struct kh_buf *out, const struct kh_ws_frame *frame, const uint8_t key[4]);
/* A close frame of our own; `reason` is ASCII and is cut to fit. KH_WS_CODE_NONE and _LOST write an
 * empty one. */
bool kh_ws_put_close(struct kh_buf *out, uint16_t code, const char *reason, const uint8_t key[4]);

/* May this code stand in a close frame (§7.4)? */
bool kh_ws_code_may_be_sent(uint16_t code);
/* Return: false at the first byte that no UTF-8 has there. Overlong forms, surrogates and what lies
 * beyond U+10FFFF are not (RFC 3629). */
bool kh_utf8_take(struct kh_utf8 *utf8, struct kh_slice bytes);
static inline bool kh_utf8_is_whole(const struct kh_utf8 *utf8)
{
	return utf8->need == 0;
}

/* ws_handshake.c */

/* Does it ask for a WebSocket (Upgrade: websocket and nothing else; in HTTP/2 that :protocol)?
 * Whether it asks as it must is kh_ws_check_request's affair. */
bool kh_ws_is_request(const struct kh_message *request);
/*
 * §4.2.1: a GET of HTTP/1.1 without content, one Sec-WebSocket-Key of 16 bytes, a well-formed
 * Sec-WebSocket-Protocol. REQUEST_MALFORMED; or UPGRADE_UNSUPPORTED for another
 * Sec-WebSocket-Version than 13. Extended CONNECT comes as a GET whose `h2` is set, and has no key
 * (RFC 8441 §5).
 */
bool kh_ws_check_request(const struct kh_message *request, struct kh_err *err);
/* The field belongs to the handshake itself and is written anew on either side. */
bool kh_ws_is_handshake_field(struct kh_slice name);
/* Next token of a list ("a, b"): shortens *list. Return: false at its end. */
bool kh_ws_next_protocol(struct kh_slice *list, struct kh_slice *token);
/* Sec-WebSocket-Accept for a key (§4.2.2). */
bool kh_ws_accept_for(struct kh_slice key, char accept[KH_WS_ACCEPT_BYTES]);
/* A fresh Sec-WebSocket-Key. Return: false without randomness. */
bool kh_ws_key_new(char key[KH_WS_KEY_BYTES]);
/*
 * §4.1: is this 101 the answer to a request with `key` that offered `protocols` (a list; empty:
 * none) and no extension? RESPONSE_MALFORMED says why not. *protocol is the one chosen, or empty. A
 * 2xx in HTTP/2 (RFC 8441 §5) is held to all of it but the key.
 */
bool kh_ws_check_response(const struct kh_message *response, struct kh_slice key,
			  struct kh_slice protocols, struct kh_slice *protocol, struct kh_err *err);

#endif
