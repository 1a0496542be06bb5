/* ws.h - WebSocket (RFC 6455): a strict frame parser, a writer, and the handshake */
#ifndef KEYHOLE_HTTP_WS_H
#define KEYHOLE_HTTP_WS_H

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>
#include <keyhole/http/message.h>

/*
 * A push parser for one direction of one connection: bytes in, events out; no socket, no memory of
 * its own. It never collects a whole message: a message comes in pieces of KH_WS_PIECE_BYTES, and a
 * shorter frame (nearly all are) as one piece. The events depend on the bytes and never on how they
 * were split.
 *
 * No extension is ever negotiated. Refused with 1002: reserved bits, reserved opcodes, a mask where
 * none is allowed or no mask where one is required, a length that is not in its shortest form or ≥
 * 2^63, a control frame that is fragmented or longer than 125 bytes, a continuation without a
 * message, a new message inside another, a close frame of one byte or with a code that must not be
 * sent. With 1007: text or a close reason that is not UTF-8 (checked piece by piece, across
 * fragments). With 1009: a frame, message or number of fragments above limits.h. With 1008: a flood
 * of control frames.
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

/* §7.4.1: the codes that keyhole sends, and the pseudo-codes for "no code". */
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

/* A piece of a message, or a control frame, which is always whole (`begin` and `end` are set). */
struct kh_ws_frame {
	enum kh_ws_opcode opcode; /* the message's, for each piece; or the control frame's */
	bool begin;		  /* the first piece of its message */
	bool end;		  /* the last */
	struct kh_slice payload;  /* unmasked; a view of the input */
	uint16_t close_code;	  /* of CLOSE: its code, or KH_WS_CODE_NONE */
};

enum kh_ws_event {
	KH_WS_NEED_MORE = 1, /* the caller keeps what was not taken, and gives it again with the
				bytes after it: never more than a frame header and a piece */
	KH_WS_FRAME,
	KH_WS_ERROR, /* final; see kh_ws_error_code and kh_ws_error_text */
};

enum kh_ws_state { KH_WS_S_HEAD = 0, KH_WS_S_PAYLOAD, KH_WS_S_CLOSED, KH_WS_S_FAILED };

/* The position inside a code point; zeroed: between two. */
struct kh_utf8 {
	uint8_t need; /* bytes still to come */
	uint8_t low;  /* bounds of the next one */
	uint8_t high;
};

/* Not on the heap, since ten thousand of them may be idle. Only the codec uses the members. */
struct kh_ws {
	enum kh_ws_side side;
	enum kh_ws_state state;
	uint8_t opcode;	 /* of the frame */
	uint8_t message; /* opcode of the current message, 0: none */
	bool fin;
	bool begun; /* a piece of the message was reported */
	struct kh_utf8 utf8;
	uint8_t key[4];
	uint16_t error_code;
	uint32_t fragments;
	uint64_t left; /* of the frame's payload */
	uint64_t message_bytes;
	uint64_t controls_ms; /* token bucket of control frames: paid up to this time */
	const char *error_text;
};

void kh_ws_init(struct kh_ws *ws, enum kh_ws_side side);
/*
 * Takes bytes from the front of the `*len` bytes at `*in` (both advance) until there is an event;
 * the payload is unmasked in place. After a close frame everything is taken and ignored. `now_ms`
 * is monotonic.
 */
enum kh_ws_event kh_ws_feed(struct kh_ws *ws, uint64_t now_ms, char **in, size_t *len,
			    struct kh_ws_frame *frame);
/* Is it neither inside a frame nor inside a message? */
bool kh_ws_is_idle(const struct kh_ws *ws);
/* The code and reason for our close frame; 0 and NULL unless there was an error. */
uint16_t kh_ws_error_code(const struct kh_ws *ws);
const char *kh_ws_error_text(const struct kh_ws *ws);

/*
 * Writes a piece as a frame of its own: with FIN if it ends its message, as a continuation if it
 * does not begin it. `key` masks it (as a client; fresh and unpredictable for each frame, §5.3);
 * NULL: unmasked. All or nothing. Return: false as kh_buf_append.
 */
bool kh_ws_put(struct kh_buf *out, const struct kh_ws_frame *frame, const uint8_t key[4]);
/* Writes a close frame; `reason` is ASCII and is cut to fit. KH_WS_CODE_NONE and _LOST write an
 * empty one. */
bool kh_ws_put_close(struct kh_buf *out, uint16_t code, const char *reason, const uint8_t key[4]);

/* May a close frame have this code (§7.4)? */
bool kh_ws_code_may_be_sent(uint16_t code);
/* Return: false: a byte is not valid UTF-8 at its place. Overlong forms, surrogates and code points
 * above U+10FFFF are not valid (RFC 3629). */
bool kh_utf8_take(struct kh_utf8 *utf8, struct kh_slice bytes);
static inline bool kh_utf8_is_whole(const struct kh_utf8 *utf8)
{
	return utf8->need == 0;
}

/* ws_handshake.c */

/* Does it ask for a WebSocket (Upgrade: websocket and nothing else; in HTTP/2 that :protocol)?
 * kh_ws_check_request checks the rest. */
bool kh_ws_is_request(const struct kh_message *request);
/*
 * §4.2.1: is it a GET of HTTP/1.1 without content, with one Sec-WebSocket-Key of 16 bytes and a
 * well-formed Sec-WebSocket-Protocol? Return: false with REQUEST_MALFORMED, or UPGRADE_UNSUPPORTED
 * for a Sec-WebSocket-Version other than 13. Extended CONNECT comes as a GET with `h2` set, and has
 * no key (RFC 8441 §5).
 */
bool kh_ws_check_request(const struct kh_message *request, struct kh_err *err);
/* Is it a field of the handshake itself, which is written anew on either side? */
bool kh_ws_is_handshake_field(struct kh_slice name);
/* The next token of a list ("a, b"), taken off *list. Return: false at its end. */
bool kh_ws_next_protocol(struct kh_slice *list, struct kh_slice *token);
/* Sec-WebSocket-Accept for a key (§4.2.2), terminated. Return: false: the key has another length,
 * or OpenSSL failed. */
bool kh_ws_accept_for(struct kh_slice key, char accept[KH_WS_ACCEPT_BYTES]);
/* A fresh Sec-WebSocket-Key. Return: false without randomness. */
bool kh_ws_key_new(char key[KH_WS_KEY_BYTES]);
/*
 * §4.1: does this 101 answer a request with `key` that offered `protocols` (a list; empty: none)
 * and no extension? *protocol: the chosen one, or empty. A 2xx in HTTP/2 (RFC 8441 §5) is checked
 * in the same way, except for the key. Return: false with RESPONSE_MALFORMED.
 */
bool kh_ws_check_response(const struct kh_message *response, struct kh_slice key,
			  struct kh_slice protocols, struct kh_slice *protocol, struct kh_err *err);

#endif
