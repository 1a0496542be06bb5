/* stream_state.h - the states of a byte stream, and which may follow which */
#ifndef KEYHOLE_TLS_STREAM_STATE_H
#define KEYHOLE_TLS_STREAM_STATE_H

#include <keyhole/base/machine.h>

struct kh_stream;

enum { STREAM_STATES = 8 }; /* of any machine here, at most */

/*
 * The machines of a stream. Each begins in its first state. The tables say what may follow; only
 * the setters (stream_internal.h) assign a state, and they ask the tables.
 *
 *            accept_tls, connect_tls
 *   PLAIN ───────────────┬──────────────▶ ROOTS (up, while they are loaded)
 *                        ▼                  │
 *   LEAF ◀────────── HANDSHAKE ◀────────────┘
 *   (down, rests) ──▶    │ ╲
 *                       TLS  FAILED, NO_PROTOCOL
 *
 * A bug of keyhole's own (stream_state.c) leads from each state except the last two to BROKEN.
 */
enum stream_state {
	STREAM_PLAIN = 0,
	STREAM_ROOTS,
	STREAM_HANDSHAKE,
	STREAM_LEAF,
	STREAM_TLS,
	STREAM_FAILED,
	STREAM_NO_PROTOCOL, /* failed, for want of one (ALPN) */
	STREAM_BROKEN,
};
static const uint32_t stream_state_next[STREAM_STATES] = {
	[STREAM_PLAIN] =
		KH_STATE(STREAM_ROOTS) | KH_STATE(STREAM_HANDSHAKE) | KH_STATE(STREAM_BROKEN),
	[STREAM_ROOTS] =
		KH_STATE(STREAM_HANDSHAKE) | KH_STATE(STREAM_FAILED) | KH_STATE(STREAM_BROKEN),
	[STREAM_HANDSHAKE] = KH_STATE(STREAM_LEAF) | KH_STATE(STREAM_TLS) |
			     KH_STATE(STREAM_FAILED) | KH_STATE(STREAM_NO_PROTOCOL) |
			     KH_STATE(STREAM_BROKEN),
	[STREAM_LEAF] =
		KH_STATE(STREAM_HANDSHAKE) | KH_STATE(STREAM_FAILED) | KH_STATE(STREAM_BROKEN),
	[STREAM_TLS] = KH_STATE(STREAM_BROKEN),
	[STREAM_FAILED] = 0,
	[STREAM_NO_PROTOCOL] = 0,
	[STREAM_BROKEN] = KH_STATE(STREAM_FAILED), /* the handshake, if there was one */
};

/* Whether the stream may still be used. */
enum stream_life {
	LIFE_IDLE = 0,
	LIFE_REPORTS, /* the callback runs: it may free the stream */
	LIFE_FREED,   /* memory goes when the callback returns; at once if none runs */
};
static const uint32_t stream_life_next[STREAM_STATES] = {
	[LIFE_IDLE] = KH_STATE(LIFE_REPORTS) | KH_STATE(LIFE_FREED),
	[LIFE_REPORTS] = KH_STATE(LIFE_IDLE) | KH_STATE(LIFE_FREED),
	[LIFE_FREED] = 0,
};

/* The receiving half: what the next read would do. The states from EOF on are final. */
enum stream_reading {
	READ_OPEN = 0,
	READ_BLOCKED,	       /* waits for bytes to arrive */
	READ_BLOCKED_BY_WRITE, /* TLS has to write before it can read */
	READ_RETRY,	       /* that write is possible now; no read since */
	READ_EOF,
	READ_TRUNCATED,
	READ_ERROR,
};
#define READ_ENDS (KH_STATE(READ_EOF) | KH_STATE(READ_TRUNCATED) | KH_STATE(READ_ERROR))
static const uint32_t stream_reading_next[STREAM_STATES] = {
	[READ_OPEN] = KH_STATE(READ_BLOCKED) | KH_STATE(READ_BLOCKED_BY_WRITE) | READ_ENDS,
	[READ_BLOCKED] = KH_STATE(READ_OPEN) | KH_STATE(READ_BLOCKED_BY_WRITE) | READ_ENDS,
	[READ_BLOCKED_BY_WRITE] =
		KH_STATE(READ_OPEN) | KH_STATE(READ_BLOCKED) | KH_STATE(READ_RETRY) | READ_ENDS,
	[READ_RETRY] = KH_STATE(READ_OPEN) | KH_STATE(READ_BLOCKED) |
		       KH_STATE(READ_BLOCKED_BY_WRITE) | READ_ENDS,
	[READ_EOF] = 0,
	[READ_TRUNCATED] = 0,
	[READ_ERROR] = 0,
};
#undef READ_ENDS

/* What is known about the descriptor (or pipe) that is read. */
enum stream_socket {
	SOCKET_MORE = 0, /* it may have bytes */
	SOCKET_DRAINED,	 /* the last read was short: empty until the loop reports bytes */
	SOCKET_ENDED,
};
static const uint32_t stream_socket_next[STREAM_STATES] = {
	[SOCKET_MORE] = KH_STATE(SOCKET_DRAINED) | KH_STATE(SOCKET_ENDED),
	[SOCKET_DRAINED] = KH_STATE(SOCKET_MORE),
	[SOCKET_ENDED] = 0,
};

/* The sending half. The first two take bytes. */
enum stream_writing {
	WRITE_OPEN = 0,
	WRITE_NEEDS_READ, /* TLS has to read before it can write */
	WRITE_FAILED,
	WRITE_CLOSING, /* close_notify has not gone yet */
	WRITE_CLOSED,
	WRITE_FAILED_CLOSED, /* failed, and then closed */
};
static const uint32_t stream_writing_next[STREAM_STATES] = {
	[WRITE_OPEN] = KH_STATE(WRITE_NEEDS_READ) | KH_STATE(WRITE_FAILED) |
		       KH_STATE(WRITE_CLOSING) | KH_STATE(WRITE_CLOSED),
	[WRITE_NEEDS_READ] =
		KH_STATE(WRITE_OPEN) | KH_STATE(WRITE_CLOSING) | KH_STATE(WRITE_CLOSED),
	[WRITE_FAILED] = KH_STATE(WRITE_CLOSING) | KH_STATE(WRITE_FAILED_CLOSED),
	[WRITE_CLOSING] = KH_STATE(WRITE_CLOSED),
	[WRITE_CLOSED] = 0,
	[WRITE_FAILED_CLOSED] = 0,
};

/* Our client certificate and its key, until the end of the handshake (identity.c). */
enum stream_identity {
	IDENTITY_NONE = 0,
	IDENTITY_HELD,
	IDENTITY_SIGNS, /* signing now: its memory is hidden */
};
static const uint32_t stream_identity_next[STREAM_STATES] = {
	[IDENTITY_NONE] = KH_STATE(IDENTITY_HELD),
	[IDENTITY_HELD] = KH_STATE(IDENTITY_SIGNS) | KH_STATE(IDENTITY_NONE),
	[IDENTITY_SIGNS] = KH_STATE(IDENTITY_HELD),
};

/* For the setters. A value that is no state has no transitions. */
static inline bool stream_may(const uint32_t next[STREAM_STATES], unsigned from, unsigned to)
{
	return from < STREAM_STATES && to < STREAM_STATES && (next[from] & KH_STATE(to)) != 0;
}

/* stream_state.c: a step that a table does not have. Return: false. */
bool kh_stream_refuse_step(struct kh_stream *s, const struct kh_machine *m, unsigned from,
			   unsigned to) __attribute__((cold));
extern const struct kh_machine kh_stream_state_machine, kh_stream_life_machine,
	kh_stream_reading_machine, kh_stream_socket_machine, kh_stream_writing_machine,
	kh_stream_identity_machine;

#endif
