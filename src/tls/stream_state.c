/*
 * stream_state.c - what happens at a state transition that the tables do not have
 *
 * Such a transition is a bug in keyhole, and is not made. The stream becomes BROKEN: it reads and
 * writes nothing any more and sends no close_notify. The next turn reports the watched events (or
 * the handshake's failure), so that the user gets KH_IO_ERROR and frees the stream.
 */
#include "stream_internal.h"

#define COUNT(array) ((unsigned)(sizeof(array) / sizeof(*(array))))
#define MACHINE(x, text) \
	const struct kh_machine kh_stream_##x##_machine = { text, COUNT(x##_names), x##_names, \
							    stream_##x##_next }

static const char *const state_names[] = { "plain", "roots",  "handshake",   "leaf",
					   "TLS",   "failed", "no protocol", "broken" };
MACHINE(state, "stream");
static const char *const life_names[] = { "idle", "reports", "freed" };
MACHINE(life, "stream, its life");
static const char *const reading_names[] = { "open",  "blocked", "blocked by a write",
					     "retry", "EOF",	 "truncated",
					     "error" };
MACHINE(reading, "stream, reading");
static const char *const socket_names[] = { "more", "drained", "ended" };
MACHINE(socket, "stream, its socket");
static const char *const writing_names[] = { "open",	"needs a read", "failed",
					     "closing", "closed",	"failed and closed" };
MACHINE(writing, "stream, writing");
static const char *const identity_names[] = { "none", "held", "signs" };
MACHINE(identity, "stream, its identity");

bool kh_stream_refuse_step(struct kh_stream *s, const struct kh_machine *m, unsigned from,
			   unsigned to)
{
	if (s->life == LIFE_FREED || !stream_may(stream_state_next, s->state, STREAM_BROKEN))
		return kh_machine_fault(m, from, to, NULL);
	(void)kh_machine_fault(m, from, to, kh_stream_err(s));
	s->state = STREAM_BROKEN;
	kh_stream_kick(s, 0);
	return false;
}
