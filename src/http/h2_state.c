/*
 * h2_state.c - what happens if a state machine of HTTP/2 is asked for a step that it does not have
 *
 * Such a step is a bug in keyhole, and is not made. The connection becomes BROKEN: its GOAWAY with
 * INTERNAL_ERROR is queued, nothing more is put or processed, and the next kh_h2_feed or
 * kh_h2_drain gives each stream its RESET and the caller KH_H2_ERROR. It can't happen sooner, since
 * a setter may run inside a call whose caller expects no event.
 */
#include "h2_internal.h"

#define COUNT(array) ((unsigned)(sizeof(array) / sizeof(*(array))))
#define MACHINE(x, text) \
	const struct kh_machine kh_h2_##x##_machine = { text, COUNT(x##_names), x##_names, \
							kh_h2_##x##_next }

static const char *const life_names[] = { "live", "lost", "dropped", "closed" };
MACHINE(life, "HTTP/2 stream");
static const char *const hold_names[] = { "not yet held", "held", "released" };
MACHINE(hold, "HTTP/2 stream, its caller");
static const char *const recv_names[] = { "head", "content", "end", "end told" };
MACHINE(recv, "HTTP/2 stream, receiving");
static const char *const delivery_names[] = { "on", "paused", "resuming", "stopping" };
MACHINE(delivery, "HTTP/2 stream, delivery");
static const char *const put_names[] = { "none", "head", "whole", "end" };
MACHINE(put, "HTTP/2 stream, in line");
static const char *const sent_names[] = { "none", "head", "end" };
MACHINE(sent, "HTTP/2 stream, sent");
static const char *const flow_names[] = { "on", "full", "dry" };
MACHINE(flow, "HTTP/2 stream, content to send");
static const char *const state_names[] = { "open",	 "we leave", "the peer leaves",
					   "both leave", "broken",   "failed" };
MACHINE(state, "HTTP/2 connection");
static const char *const peer_names[] = { "unknown", "plain", "extended CONNECT" };
MACHINE(peer, "HTTP/2 connection, the peer's settings");

bool kh_h2_refuse_step(struct kh_h2 *h2, const struct kh_machine *m, unsigned from, unsigned to)
{
	if (!h2 || kh_h2_is_failed(h2))
		return kh_machine_fault(m, from, to, NULL);
	(void)kh_machine_fault(m, from, to, &h2->err);
	h2->state = KH_H2_STATE_BROKEN; /* every state but FAILED has this step */
	(void)nghttp2_session_terminate_session(h2->session, NGHTTP2_INTERNAL_ERROR);
	return false;
}

bool kh_h2_set_state(struct kh_h2 *h2, enum kh_h2_state to)
{
	if (!kh_h2_may(kh_h2_state_next, h2->state, to))
		return kh_h2_refuse_step(h2, &kh_h2_state_machine, h2->state, to);
	h2->state = to;
	return true;
}

bool kh_h2_set_peer(struct kh_h2 *h2, enum kh_h2_peer to)
{
	if (!kh_h2_may(kh_h2_peer_next, h2->peer, to))
		return kh_h2_refuse_step(h2, &kh_h2_peer_machine, h2->peer, to);
	h2->peer = to;
	return true;
}
