/* h2_state.h - the states of an HTTP/2 connection and of its streams, and which may follow which */
#ifndef KEYHOLE_HTTP_H2_STATE_H
#define KEYHOLE_HTTP_H2_STATE_H

#include <keyhole/base/machine.h>

struct kh_h2;

enum { KH_H2_STATES = 8 }; /* of any machine here, at most */
#define KH_H2_TO(state) KH_STATE(KH_H2_##state)

/*
 * The machines of a stream and of a connection. Each begins in its first state. The tables say
 * what may follow; only the setters (h2_internal.h) assign a state, and they ask the tables.
 *
 * A stream, as nghttp2 and its end see it:
 *
 *          the peer, nghttp2 or the connection ends it
 *   LIVE ────────────▶ LOST ──┐
 *     │  we end it      ▼     ▼
 *     ├────────────▶ DROPPED ─▶ CLOSED
 *     └────────────────────────▲  both sides have said all
 */
enum kh_h2_life {
	KH_H2_LIFE_LIVE = 0,
	KH_H2_LIFE_LOST,    /* RESET was given, if there was somebody to hear it */
	KH_H2_LIFE_DROPPED, /* kh_h2_reset, kh_h2_release: no fault of the peer's, and no RESET */
	KH_H2_LIFE_CLOSED,  /* nghttp2 does not know it any more */
};
static const uint32_t kh_h2_life_next[KH_H2_STATES] = {
	[KH_H2_LIFE_LIVE] = KH_H2_TO(LIFE_LOST) | KH_H2_TO(LIFE_DROPPED) | KH_H2_TO(LIFE_CLOSED),
	/* Released as well, and answered before all of the request was here. */
	[KH_H2_LIFE_LOST] = KH_H2_TO(LIFE_DROPPED) | KH_H2_TO(LIFE_CLOSED),
	[KH_H2_LIFE_DROPPED] = KH_H2_TO(LIFE_CLOSED),
	[KH_H2_LIFE_CLOSED] = 0,
};

/* The caller's hold on a stream. */
enum kh_h2_hold {
	KH_H2_HOLD_NOT_YET = 0, /* it has not seen the stream */
	KH_H2_HOLD_HELD,	/* from HEAD, REFUSED or kh_h2_put_request on */
	KH_H2_HOLD_RELEASED,
};
static const uint32_t kh_h2_hold_next[KH_H2_STATES] = {
	[KH_H2_HOLD_NOT_YET] = KH_H2_TO(HOLD_HELD),
	[KH_H2_HOLD_HELD] = KH_H2_TO(HOLD_RELEASED),
	[KH_H2_HOLD_RELEASED] = 0,
};

/* The receiving half (RFC 9113 §5.1): a request, or a response. */
enum kh_h2_recv {
	KH_H2_RECV_HEAD = 0, /* interim ones may have come */
	KH_H2_RECV_CONTENT,  /* a request's head has come, or the final one of a response */
	KH_H2_RECV_END,	     /* all of it has come */
	KH_H2_RECV_TOLD,     /* … and END was given */
};
static const uint32_t kh_h2_recv_next[KH_H2_STATES] = {
	[KH_H2_RECV_HEAD] = KH_H2_TO(RECV_CONTENT),
	[KH_H2_RECV_CONTENT] = KH_H2_TO(RECV_END),
	[KH_H2_RECV_END] = KH_H2_TO(RECV_TOLD),
	[KH_H2_RECV_TOLD] = 0,
};

/* What has come is handed on, unless the caller wants it kept. */
enum kh_h2_delivery {
	KH_H2_DELIVERY_ON = 0,
	KH_H2_DELIVERY_PAUSED,
	KH_H2_DELIVERY_RESUMING, /* kh_h2_resume runs */
	KH_H2_DELIVERY_STOPPING, /* … and was told to pause by the callback */
};
static const uint32_t kh_h2_delivery_next[KH_H2_STATES] = {
	/* What is on may be resumed: there is nothing to give. */
	[KH_H2_DELIVERY_ON] = KH_H2_TO(DELIVERY_PAUSED) | KH_H2_TO(DELIVERY_RESUMING),
	[KH_H2_DELIVERY_PAUSED] = KH_H2_TO(DELIVERY_RESUMING),
	[KH_H2_DELIVERY_RESUMING] = KH_H2_TO(DELIVERY_ON) | KH_H2_TO(DELIVERY_STOPPING),
	[KH_H2_DELIVERY_STOPPING] = KH_H2_TO(DELIVERY_PAUSED) | KH_H2_TO(DELIVERY_RESUMING),
};

/* The sending half, as the caller has put it in line. */
enum kh_h2_put {
	KH_H2_PUT_NONE = 0, /* interim ones may have been put */
	KH_H2_PUT_HEAD,
	KH_H2_PUT_WHOLE, /* a head that ends the stream */
	KH_H2_PUT_END,	 /* head, content and end */
};
static const uint32_t kh_h2_put_next[KH_H2_STATES] = {
	[KH_H2_PUT_NONE] = KH_H2_TO(PUT_HEAD) | KH_H2_TO(PUT_WHOLE),
	/* Back to none: kh_h2_take_back. */
	[KH_H2_PUT_HEAD] = KH_H2_TO(PUT_END) | KH_H2_TO(PUT_NONE),
	[KH_H2_PUT_WHOLE] = KH_H2_TO(PUT_NONE),
	[KH_H2_PUT_END] = KH_H2_TO(PUT_NONE),
};

/* The sending half, as far as frames of it have gone. */
enum kh_h2_sent {
	KH_H2_SENT_NONE = 0,
	KH_H2_SENT_HEAD, /* an interim one counts */
	KH_H2_SENT_END,
};
static const uint32_t kh_h2_sent_next[KH_H2_STATES] = {
	[KH_H2_SENT_NONE] = KH_H2_TO(SENT_HEAD),
	[KH_H2_SENT_HEAD] = KH_H2_TO(SENT_END),
	[KH_H2_SENT_END] = 0,
};

/* Content on its way out: who waits for whom? */
enum kh_h2_flow {
	KH_H2_FLOW_ON = 0,
	KH_H2_FLOW_FULL, /* the caller was told so, and waits for KH_H2_WRITABLE */
	KH_H2_FLOW_DRY,	 /* nghttp2 waits for kh_h2_put_data or kh_h2_put_end */
};
static const uint32_t kh_h2_flow_next[KH_H2_STATES] = {
	[KH_H2_FLOW_ON] = KH_H2_TO(FLOW_FULL) | KH_H2_TO(FLOW_DRY),
	[KH_H2_FLOW_FULL] = KH_H2_TO(FLOW_ON),
	[KH_H2_FLOW_DRY] = KH_H2_TO(FLOW_ON),
};

/* A request's method, as far as it matters here; set with its head. */
enum kh_h2_asked { KH_H2_ASKED_OTHER = 0, KH_H2_ASKED_HEAD, KH_H2_ASKED_CONNECT };

/* A connection. Only an open one takes new streams. */
enum kh_h2_state {
	KH_H2_STATE_OPEN = 0,
	KH_H2_STATE_WE_LEAVE,	 /* our GOAWAY, or the notice of one, is in line */
	KH_H2_STATE_PEER_LEAVES, /* the peer's has come */
	KH_H2_STATE_BOTH_LEAVE,
	KH_H2_STATE_BROKEN, /* a fault of ours (h2_state.c): fails at the next feed or drain */
	KH_H2_STATE_FAILED, /* KH_H2_ERROR was given */
};
static const uint32_t kh_h2_state_next[KH_H2_STATES] = {
	[KH_H2_STATE_OPEN] = KH_H2_TO(STATE_WE_LEAVE) | KH_H2_TO(STATE_PEER_LEAVES) |
			     KH_H2_TO(STATE_BROKEN) | KH_H2_TO(STATE_FAILED),
	[KH_H2_STATE_WE_LEAVE] =
		KH_H2_TO(STATE_BOTH_LEAVE) | KH_H2_TO(STATE_BROKEN) | KH_H2_TO(STATE_FAILED),
	[KH_H2_STATE_PEER_LEAVES] =
		KH_H2_TO(STATE_BOTH_LEAVE) | KH_H2_TO(STATE_BROKEN) | KH_H2_TO(STATE_FAILED),
	[KH_H2_STATE_BOTH_LEAVE] = KH_H2_TO(STATE_BROKEN) | KH_H2_TO(STATE_FAILED),
	[KH_H2_STATE_BROKEN] = KH_H2_TO(STATE_FAILED),
	[KH_H2_STATE_FAILED] = 0,
};

/* The peer's settings. */
enum kh_h2_peer {
	KH_H2_PEER_UNKNOWN = 0,
	KH_H2_PEER_PLAIN,
	KH_H2_PEER_EXTENDED, /* it offers Extended CONNECT */
};
static const uint32_t kh_h2_peer_next[KH_H2_STATES] = {
	[KH_H2_PEER_UNKNOWN] = KH_H2_TO(PEER_PLAIN) | KH_H2_TO(PEER_EXTENDED),
	/* Settings come again. */
	[KH_H2_PEER_PLAIN] = KH_H2_TO(PEER_PLAIN) | KH_H2_TO(PEER_EXTENDED),
	[KH_H2_PEER_EXTENDED] = KH_H2_TO(PEER_PLAIN) | KH_H2_TO(PEER_EXTENDED),
};

#undef KH_H2_TO

/* For a setter. What is no state leads nowhere. */
static inline bool kh_h2_may(const uint32_t next[KH_H2_STATES], unsigned from, unsigned to)
{
	return from < KH_H2_STATES && to < KH_H2_STATES && (next[from] & KH_STATE(to)) != 0;
}

/* h2_state.c: a step that a table does not have; `h2` may be NULL. Return: false. */
bool kh_h2_refuse_step(struct kh_h2 *h2, const struct kh_machine *m, unsigned from, unsigned to)
	__attribute__((cold));
extern const struct kh_machine kh_h2_life_machine, kh_h2_hold_machine, kh_h2_recv_machine,
	kh_h2_delivery_machine, kh_h2_put_machine, kh_h2_sent_machine, kh_h2_flow_machine,
	kh_h2_state_machine, kh_h2_peer_machine;

#endif
