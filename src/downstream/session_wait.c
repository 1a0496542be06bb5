/*
 * session_wait.c - what a session waits for, and until when, computed from its state alone
 *
 * A session has one timer. The end of the current wait is kept in `deadline_ms`, which most events
 * change. The timer is only set again when it would fire too late, and it checks `deadline_ms` when
 * it fires.
 */

#include <poll.h>

#include <keyhole/base/clock.h>

#include "session_internal.h"

enum {
	/* How often it is asked whether anybody is there still, where no event would say it. */
	LOOK_MS = 500,
	/* Nobody is, and what a WebSocket said before does not move: it goes nowhere. */
	STUCK_MS = 5 * 1000,
	/* A connection without a request, of a worker that retires. */
	RETIRE_IDLE_MS = 5 * 1000,
	LINGER_MS = 2000,
};

static void arm(struct kh_session *session)
{
	uint64_t wait = session->deadline_ms > session->side.loop->now_ms
				? session->deadline_ms - session->side.loop->now_ms
				: 1;
	struct timeval tv = { .tv_sec = (time_t)(wait / 1000),
			      .tv_usec = (suseconds_t)(wait % 1000 * 1000) };

	/* Without memory for it kh_session_tick tries again. */
	session->timer_ms =
		event_add(&session->timer, &tv) == 0 ? session->side.loop->now_ms + wait : 0;
}

void kh_session_tick(struct kh_session *session)
{
	if (session->deadline_ms == 0 || session->timer_ms != 0)
		return;
	session->side.loop->now_ms = kh_clock_mono_ms();
	arm(session);
}

/* Its tunnel has no more to live. */
static bool is_outlived(const struct kh_session *session)
{
	return session->tunnel_ends_ms && session->side.loop->now_ms >= session->tunnel_ends_ms;
}

bool kh_session_is_abandoned(const struct kh_session *session)
{
	struct pollfd end = { .fd = kh_stream_fd(session->leg.stream) };

	return poll(&end, 1, 0) > 0 && (end.revents & (POLLHUP | POLLERR));
}

/* Its end has been read, or lies behind what there is no room for. */
static bool has_to_look(const struct kh_session *session)
{
	return session->state == KH_SESSION_EXCHANGE &&
	       !(kh_session_down_watch(session) & KH_STREAM_READABLE);
}

static void exchange_timed_out(struct kh_session *session)
{
	struct kh_exchange *x = kh_session_exchange(session);
	uint64_t due = kh_exchange_deadline(x);
	bool moves = kh_exchange_is_websocket(x) &&
		     session->side.loop->now_ms < x->progress_ms + STUCK_MS;

	if (has_to_look(session) && !moves && kh_session_is_abandoned(session))
		kh_session_kill(session, KH_ERR_DOWN_CLOSED,
				"the sandbox went away before the response was complete");
	else if (due && due <= session->side.loop->now_ms)
		kh_exchange_timed_out(x);
}

static void timed_out(struct kh_session *session)
{
	struct kh_err err = KH_ERR_INIT;

	session->deadline_ms = 0;
	switch (session->state) {
	case KH_SESSION_HEAD_BEGUN:
		if (is_outlived(session)) {
			kh_session_kill(session, KH_ERR_REQUEST_TIMEOUT, NULL);
			break;
		}
		kh_err_set(&err, KH_ERR_REQUEST_TIMEOUT,
			   "the request's head did not come to its end in time");
		kh_session_refuse(session, &err);
		break;
	case KH_SESSION_HELLO:
		if (kh_buf_len(&session->in)) {
			kh_err_set(&err, KH_ERR_REQUEST_TIMEOUT,
				   "a ClientHello did not come whole");
			kh_down_deny(&session->side, &err);
		}
		kh_session_kill(session, KH_ERR_REQUEST_TIMEOUT, NULL);
		break;
	case KH_SESSION_EXCHANGE:
	case KH_SESSION_RAW:
		exchange_timed_out(session);
		break;
	case KH_SESSION_SOCKS:
		kh_err_set(&err, KH_ERR_REQUEST_TIMEOUT, "SOCKS5: no request came in time");
		kh_down_deny(&session->side, &err);
		kh_session_kill(session, KH_ERR_REQUEST_TIMEOUT, NULL);
		break;
	case KH_SESSION_H2:
		if (is_outlived(session) && !session->closing)
			kh_mux_drain(session);
		else
			kh_mux_timed_out(session);
		break;
	case KH_SESSION_HEAD:
	case KH_SESSION_TUNNEL:
	case KH_SESSION_HANDSHAKE:
	case KH_SESSION_DISCARD:
	case KH_SESSION_LINGER:
		kh_session_kill(session, KH_ERR_REQUEST_TIMEOUT, NULL);
		break;
	case KH_SESSION_NEW:
	case KH_SESSION_DEAD:
		break;
	}
}

void kh_session_on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct kh_session *session = arg;

	(void)fd;
	(void)what;
	session->side.loop->now_ms = kh_clock_mono_ms();
	session->timer_ms = 0;
	if (session->deadline_ms == 0)
		return;
	if (session->side.loop->now_ms < session->deadline_ms) {
		arm(session);
		return;
	}
	timed_out(session);
	kh_session_turn(session);
}

/* How long nothing may come; a ClientHello that has begun has a time of its own, and so has silence
 * in a tunnel to where nothing is allowed. */
static uint64_t longest_idle(const struct kh_session *session, const struct kh_timeouts *t)
{
	struct kh_err err = KH_ERR_INIT;

	if ((session->state != KH_SESSION_HEAD && kh_buf_len(&session->in)) ||
	    kh_tunnel_is_barred(session, &err))
		return t->handshake;
	return session->state != KH_SESSION_HELLO && session->side.loop->retiring &&
			       t->idle_down > RETIRE_IDLE_MS
		       ? RETIRE_IDLE_MS
		       : t->idle_down;
}

/* When the state's wait ends; 0: it has a timer of its own, or none. */
static uint64_t compute_deadline(const struct kh_session *session)
{
	const struct kh_timeouts *t = &session->side.loop->gen->config->timeouts;
	uint64_t now = session->side.loop->now_ms;
	uint64_t kept = session->deadline_ms ? session->deadline_ms : UINT64_MAX;
	uint64_t life = session->tunnel_ends_ms ? session->tunnel_ends_ms : UINT64_MAX;

	/* It is served in order, which ends in any case. */
	if (kh_session_is_in_line(session) &&
	    (kh_session_awaits_head(session) || session->state == KH_SESSION_DISCARD))
		return 0;
	switch (session->state) {
	case KH_SESSION_HEAD_BEGUN: /* from its first byte on, whatever still trickles in */
		kept = kept < life ? kept : life;
		return kept < now + t->header ? kept : now + t->header;
	case KH_SESSION_HEAD:
	case KH_SESSION_TUNNEL:
		kept = kept < life ? kept : life;
		now += longest_idle(session, t);
		return kept < now ? kept : now;
	case KH_SESSION_SOCKS:
		return kept < now + t->header ? kept : now + t->header;
	case KH_SESSION_HELLO:
		now += longest_idle(session, t);
		return kept < now ? kept : now;
	case KH_SESSION_EXCHANGE:
	case KH_SESSION_RAW:
		kept = kh_exchange_deadline(kh_session_exchange(session));
		if (!has_to_look(session) || (kept && kept < now + LOOK_MS))
			return kept;
		return now + LOOK_MS;
	case KH_SESSION_H2:
		kept = kh_mux_deadline(session->mux);
		/* Until then; what runs at its end comes to its own. */
		return !session->closing && (kept == 0 || life < kept) && life != UINT64_MAX ? life
											     : kept;
	case KH_SESSION_DISCARD:
		return kept < now + KH_SESSION_DISCARD_MS ? kept : now + KH_SESSION_DISCARD_MS;
	case KH_SESSION_LINGER:
		/* First it may take what was said, at its own pace; then it may go. */
		now += kh_buf_len(&session->leg.out) ? t->stall : LINGER_MS;
		return kept < now ? kept : now;
	case KH_SESSION_NEW:
	case KH_SESSION_HANDSHAKE:
	case KH_SESSION_DEAD:
		break;
	}
	return 0;
}

unsigned kh_session_down_watch(const struct kh_session *session)
{
	unsigned watch = kh_buf_len(&session->leg.out) ? KH_STREAM_WRITABLE : 0;
	const struct kh_exchange *x = kh_session_exchange(session);

	if (session->eof)
		return watch;
	switch (session->state) {
	case KH_SESSION_EXCHANGE:
	case KH_SESSION_RAW:
		/* Also while nothing is taken: to notice that the sandbox has gone. */
		if (!kh_session_is_in_line(session) &&
		    (kh_exchange_takes_body(x) ||
		     kh_buf_len(&session->in) < KH_SESSION_IN_BYTES / 2))
			watch |= KH_STREAM_READABLE;
		break;
	case KH_SESSION_HEAD:
	case KH_SESSION_HEAD_BEGUN:
		/* A client that pipelines without reading its answers has to wait. */
		if (!kh_leg_is_full(&session->leg) && !kh_session_is_in_line(session))
			watch |= KH_STREAM_READABLE;
		break;
	case KH_SESSION_H2: /* windows bound content, and the turn what is taken */
		if (!kh_mux_is_behind(session->mux))
			watch |= KH_STREAM_READABLE;
		break;
	case KH_SESSION_SOCKS:
	case KH_SESSION_HELLO:
	case KH_SESSION_DISCARD:
	case KH_SESSION_TUNNEL:
	case KH_SESSION_LINGER:
		if (!kh_session_is_in_line(session))
			watch |= KH_STREAM_READABLE;
		break;
	case KH_SESSION_NEW:
	case KH_SESSION_HANDSHAKE:
	case KH_SESSION_DEAD:
		return 0;
	}
	return watch;
}

void kh_session_update(struct kh_session *session)
{
	struct kh_exchange *x = kh_session_exchange(session);

	if (session->state != KH_SESSION_HANDSHAKE)
		kh_stream_watch(session->leg.stream, kh_session_down_watch(session));
	if (x)
		kh_exchange_update(x);
	session->deadline_ms = compute_deadline(session);
	if (session->deadline_ms &&
	    (session->timer_ms == 0 || session->deadline_ms < session->timer_ms))
		arm(session);
}
