/*
 * session.c - a connection from a sandbox
 *
 * HEAD ─▶ EXCHANGE ─▶ HEAD …            requests one after the other
 *   │        └──────▶ DISCARD ─▶ HEAD   answered before all of its content had come
 *   ├──▶ TUNNEL ─▶ HANDSHAKE ─▶ HEAD    CONNECT, then TLS (or plain HTTP) inside
 *   └──▶ LINGER ─▶ DEAD                 the last answer is said, the peer may read it
 *
 * Every event ends in kh_session_turn, which computes from the state what is waited for.
 */

#include <unistd.h>

#include <keyhole/clock.h>

#include "proxy_internal.h"

enum {
	SESSION_IN_BYTES = 64 * 1024,
	READS_AT_ONCE = 4,
	LINGER_MS = 2000,
	DISCARD_MS = 30 * 1000,
	/* Content of a refused request that is read so that the refusal can be: beyond it the
	   connection ends. */
	DISCARD_BYTES = 16 * 1024 * 1024,
	SECRET_MS = 10 * 1000,
};

static void set_state(struct kh_session *session, enum kh_session_state state)
{
	if (state == KH_SESSION_HEAD || state == KH_SESSION_DISCARD || state == KH_SESSION_LINGER)
		session->deadline_ms = 0; /* a new wait */
	session->state = state;
}

static void free_session(struct kh_grave *grave)
{
	struct kh_session *session = kh_container_of(grave, struct kh_session, grave);

	event_del(&session->timer);
	kh_leg_fini(&session->down);
	kh_buf_fini(&session->in);
	if (session->h1)
		kh_h1_free(session->h1);
	free(session);
}

void kh_session_kill(struct kh_session *session, enum kh_err_code reason, const char *detail)
{
	if (session->state == KH_SESSION_DEAD)
		return;
	if (session->exchange) {
		if (session->exchange->response_begun && !session->exchange->response_done)
			kh_stream_spoil(session->down.stream);
		kh_exchange_note(session->exchange, reason, detail);
		kh_exchange_free(session->exchange);
	}
	session->state = KH_SESSION_DEAD;
	session->wants_leaf = false;
	kh_stream_watch(session->down.stream, 0);
	event_del(&session->timer);
	kh_list_remove(&session->link);
	session->loop->n_live--;
	kh_door_left(session->door);
	kh_loop_bury(session->loop, &session->grave, free_session);
}

/* ---- timers ---- */

static void arm(struct kh_session *session)
{
	uint64_t wait = session->deadline_ms > session->loop->now_ms
				? session->deadline_ms - session->loop->now_ms
				: 1;
	struct timeval tv = { .tv_sec = (time_t)(wait / 1000),
			      .tv_usec = (suseconds_t)(wait % 1000 * 1000) };

	session->timer_ms = session->loop->now_ms + wait;
	event_add(&session->timer, &tv);
}

static void fail_with(struct kh_session *session, enum kh_err_code code, const char *text)
{
	struct kh_err err = KH_ERR_INIT;

	kh_err_set(&err, code, "%s", text);
	if (session->exchange)
		kh_exchange_fail(session->exchange, &err);
	else
		kh_session_refuse(session, &err);
}

static void timed_out(struct kh_session *session)
{
	struct kh_exchange *x = session->exchange;

	session->deadline_ms = 0;
	switch (session->state) {
	case KH_SESSION_HEAD:
		if (session->head_begun)
			fail_with(session, KH_ERR_REQUEST_TIMEOUT,
				  "the request's head did not come to its end in time");
		else
			kh_session_kill(session, KH_ERR_REQUEST_TIMEOUT, NULL);
		break;
	case KH_SESSION_EXCHANGE:
		// NOLINTNEXTLINE(clang-analyzer-core.NullDereference): this state has an exchange
		if (x->state == KH_EXCHANGE_SECRET)
			fail_with(session, KH_ERR_CREDENTIAL_UNAVAILABLE,
				  "the credential was not handed out in time");
		else if (x->response_begun)
			fail_with(session, KH_ERR_RESPONSE_TIMEOUT, "the response stalled");
		else if (x->request_done)
			fail_with(session, KH_ERR_RESPONSE_TIMEOUT,
				  "the upstream did not answer in time");
		else
			fail_with(session, KH_ERR_REQUEST_TIMEOUT, "the request's content stalled");
		break;
	case KH_SESSION_TUNNEL:
	case KH_SESSION_HANDSHAKE:
	case KH_SESSION_DISCARD:
	case KH_SESSION_LINGER:
		kh_session_kill(session, KH_ERR_REQUEST_TIMEOUT, NULL);
		break;
	case KH_SESSION_DEAD:
		break;
	}
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct kh_session *session = arg;

	(void)fd;
	(void)what;
	session->loop->now_ms = kh_clock_mono_ms();
	session->timer_ms = 0;
	if (session->deadline_ms == 0)
		return;
	if (session->loop->now_ms < session->deadline_ms) {
		arm(session);
		return;
	}
	timed_out(session);
	kh_session_turn(session);
}

/* When the state's wait ends; 0: it has a timer of its own, or none. */
static uint64_t compute_deadline(const struct kh_session *session)
{
	const struct kh_timeouts *t = &session->loop->gen->config->timeouts;
	const struct kh_exchange *x = session->exchange;
	uint64_t now = session->loop->now_ms;
	uint64_t kept = session->deadline_ms ? session->deadline_ms : UINT64_MAX;

	switch (session->state) {
	case KH_SESSION_HEAD:
	case KH_SESSION_TUNNEL:
		if (session->head_begun) /* from its first byte on, whatever still trickles in */
			return kept < now + t->header ? kept : now + t->header;
		return kept < now + t->idle_down ? kept : now + t->idle_down;
	case KH_SESSION_EXCHANGE:
		if (x->state == KH_EXCHANGE_SECRET)
			return x->progress_ms + SECRET_MS;
		if (x->state != KH_EXCHANGE_RELAY)
			return 0;
		if (x->request_done && !x->response_begun)
			return x->progress_ms + t->response;
		return x->progress_ms + t->stall;
	case KH_SESSION_DISCARD:
		return kept < now + DISCARD_MS ? kept : now + DISCARD_MS;
	case KH_SESSION_LINGER:
		return kept < now + LINGER_MS ? kept : now + LINGER_MS;
	case KH_SESSION_HANDSHAKE:
	case KH_SESSION_DEAD:
		break;
	}
	return 0;
}

/* ---- what is waited for ---- */

static unsigned compute_down_watch(const struct kh_session *session)
{
	unsigned watch = kh_buf_len(&session->down.out) ? KH_STREAM_WRITABLE : 0;
	const struct kh_exchange *x = session->exchange;

	if (session->eof)
		return watch;
	switch (session->state) {
	case KH_SESSION_EXCHANGE:
		/* Also while nothing is taken: to notice that the sandbox has gone. */
		if (kh_exchange_takes_body(x) || kh_buf_len(&session->in) < SESSION_IN_BYTES / 2)
			watch |= KH_STREAM_READABLE;
		break;
	case KH_SESSION_HEAD:
		/* A client that pipelines without reading its answers has to wait. */
		if (!kh_leg_is_full(&session->down))
			watch |= KH_STREAM_READABLE;
		break;
	case KH_SESSION_TUNNEL:
	case KH_SESSION_DISCARD:
	case KH_SESSION_LINGER:
		watch |= KH_STREAM_READABLE;
		break;
	case KH_SESSION_HANDSHAKE:
	case KH_SESSION_DEAD:
		return 0;
	}
	return watch;
}

static void update(struct kh_session *session)
{
	struct kh_exchange *x = session->exchange;

	if (session->state != KH_SESSION_HANDSHAKE)
		kh_stream_watch(session->down.stream, compute_down_watch(session));
	if (x && x->up && x->up->state == KH_UP_BUSY) {
		unsigned watch = kh_buf_len(&x->up->leg.out) ? KH_STREAM_WRITABLE : 0;
		if (!kh_leg_is_full(&session->down))
			watch |= KH_STREAM_READABLE;
		kh_stream_watch(x->up->leg.stream, watch);
	}
	session->deadline_ms = compute_deadline(session);
	if (session->deadline_ms &&
	    (session->timer_ms == 0 || session->deadline_ms < session->timer_ms))
		arm(session);
}

/* ---- taking what was read ---- */

static void take_head(struct kh_session *session)
{
	struct kh_slice in = kh_buf_view(&session->in), body;
	size_t before = in.len;

	if (before == 0)
		return;
	if (!session->h1 && !(session->h1 = kh_h1_new(KH_H1_REQUESTS))) {
		kh_session_kill(session, KH_ERR_NO_MEMORY, NULL);
		return;
	}
	enum kh_h1_event event = kh_h1_feed(session->h1, &in, &body);
	kh_buf_consume(&session->in, before - in.len);
	if (event == KH_H1_ERROR) {
		kh_session_refuse(session, kh_h1_error(session->h1));
		return;
	}
	if (event == KH_H1_NEED_MORE) {
		if (!session->head_begun && !kh_h1_is_idle(session->h1)) {
			session->head_begun = true;
			session->deadline_ms = 0;
		}
		return;
	}
	const struct kh_message *message = kh_h1_message(session->h1);
	session->head_begun = false;
	session->exchanges++;
	if (kh_slice_eq(message->method, KH_SLICE("CONNECT"))) {
		kh_tunnel_open(session, message);
		return;
	}
	set_state(session, KH_SESSION_EXCHANGE);
	kh_exchange_begin(session, message);
}

/* One event of the codec, for content that goes up or nowhere. Return: false when there is nothing
 * more to take now. */
static bool take_body(struct kh_session *session)
{
	struct kh_slice in = kh_buf_view(&session->in), body;
	size_t before = in.len;
	struct kh_exchange *x = session->exchange;

	enum kh_h1_event event = kh_h1_feed(session->h1, &in, &body);
	if (event == KH_H1_BODY && x) {
		kh_exchange_body(x, body);
	} else if (event == KH_H1_BODY) {
		session->discarded_bytes += body.len;
	}
	if (session->state == KH_SESSION_DEAD)
		return false;
	kh_buf_consume(&session->in, before - in.len);
	if (event == KH_H1_END && x) {
		kh_exchange_request_end(x);
	} else if (event == KH_H1_END) {
		set_state(session, KH_SESSION_HEAD);
	} else if (event == KH_H1_ERROR && session->exchange) {
		kh_exchange_fail(session->exchange, kh_h1_error(session->h1));
	} else if (event == KH_H1_ERROR || session->discarded_bytes > DISCARD_BYTES) {
		session->closing = true;
		set_state(session, KH_SESSION_LINGER);
	}
	return event != KH_H1_NEED_MORE;
}

static void process(struct kh_session *session)
{
	for (;;) {
		enum kh_session_state state = session->state;
		size_t left = kh_buf_len(&session->in);

		switch (state) {
		case KH_SESSION_HEAD:
			if (session->closing) {
				set_state(session, KH_SESSION_LINGER);
				continue;
			}
			if (kh_leg_is_full(&session->down))
				return;
			take_head(session);
			break;
		case KH_SESSION_TUNNEL:
			if (left == 0)
				return;
			kh_tunnel_first_bytes(session);
			break;
		case KH_SESSION_EXCHANGE:
			if (!kh_exchange_takes_body(session->exchange))
				return;
			if (!take_body(session) && session->state == state)
				return;
			continue;
		case KH_SESSION_DISCARD:
			if (!take_body(session) && session->state == state)
				return;
			continue;
		case KH_SESSION_LINGER:
			kh_buf_consume(&session->in, left);
			return;
		case KH_SESSION_HANDSHAKE:
		case KH_SESSION_DEAD:
			return;
		}
		if (session->state == state && kh_buf_len(&session->in) == left)
			return; /* waits for more */
		if (session->state == state && state == KH_SESSION_HEAD &&
		    kh_buf_len(&session->in) == 0)
			return;
	}
}

/* Return: false when the session is dead. */
static bool flush_both(struct kh_session *session)
{
	struct kh_exchange *x = session->exchange;

	if (x && x->up && x->up->state == KH_UP_BUSY)
		(void)kh_leg_flush(&x->up->leg); /* a failure shows when it is read */
	if (session->state == KH_SESSION_HANDSHAKE || kh_buf_len(&session->down.out) == 0 ||
	    kh_leg_flush(&session->down))
		return true;
	kh_session_kill(session, KH_ERR_DOWN_CLOSED, "the sandbox closed the connection");
	return false;
}

void kh_session_turn(struct kh_session *session)
{
	enum kh_session_state state;
	size_t left;

	if (session->state == KH_SESSION_DEAD)
		return;
	/* What was written makes room for more of what was read, and no event would say so. */
	do {
		if (!flush_both(session))
			return;
		state = session->state;
		left = kh_buf_len(&session->in);
		process(session);
		if (session->state == KH_SESSION_DEAD)
			return;
	} while (session->state != state || kh_buf_len(&session->in) != left);
	if (!flush_both(session))
		return;
	if (session->state == KH_SESSION_LINGER && kh_buf_len(&session->down.out) == 0 &&
	    !session->fin_sent) {
		session->fin_sent = true;
		kh_stream_shutdown_write(session->down.stream);
		if (session->eof) {
			kh_session_kill(session, KH_ERR_NONE, NULL);
			return;
		}
	}
	if (session->state == KH_SESSION_HEAD && kh_buf_len(&session->in) == 0 &&
	    !session->head_begun) {
		kh_buf_release(&session->in);
		kh_buf_release(&session->down.out);
		if (session->h1)
			kh_h1_release(session->h1);
	}
	update(session);
}

/* ---- events ---- */

/* The sandbox has sent its last byte. */
static void on_eof(struct kh_session *session, enum kh_io how)
{
	const struct kh_exchange *x = session->exchange;

	session->eof = true;
	/* On a plain connection a half-close is a way to say "that was all"; on TLS clients end so
	 * when they have gone. */
	if (session->state == KH_SESSION_EXCHANGE && how == KH_IO_EOF && !session->tls &&
	    x->request_done) {
		session->closing = true;
		return;
	}
	if (session->state == KH_SESSION_LINGER && kh_buf_len(&session->down.out))
		return;
	kh_session_kill(session, KH_ERR_DOWN_CLOSED,
			x ? "the sandbox went away before the response was complete" : NULL);
}

static void read_down(struct kh_session *session)
{
	for (int i = 0; i < READS_AT_ONCE && session->state != KH_SESSION_DEAD; i++) {
		size_t got = 0;
		if (session->eof || !(compute_down_watch(session) & KH_STREAM_READABLE))
			return;
		char *room = kh_buf_reserve(&session->in, KH_LEG_READ_BYTES);
		if (!room) {
			if (session->exchange) /* full of what is not taken yet */
				return;
			kh_session_kill(session, KH_ERR_NO_MEMORY, NULL);
			return;
		}
		enum kh_io io = kh_stream_read(session->down.stream, room, KH_LEG_READ_BYTES, &got);
		if (io == KH_IO_AGAIN)
			return;
		if (io != KH_IO_OK) {
			on_eof(session, io);
			return;
		}
		kh_buf_commit(&session->in, got);
		if (session->exchange)
			session->exchange->progress_ms = session->loop->now_ms;
		process(session);
		if (got < KH_LEG_READ_BYTES / 2)
			return; /* most likely all there is */
	}
}

static void on_stream(struct kh_stream *stream, unsigned events, void *arg)
{
	struct kh_session *session = arg;

	(void)stream;
	session->loop->now_ms = kh_clock_mono_ms();
	if (events & (KH_STREAM_HANDSHAKE_DONE | KH_STREAM_HANDSHAKE_FAILED | KH_STREAM_WANTS_LEAF))
		kh_tunnel_event(session, events);
	else if (events & KH_STREAM_READABLE)
		read_down(session);
	else if (session->exchange)
		session->exchange->progress_ms = session->loop->now_ms;
	kh_session_turn(session);
}

void kh_session_new(struct kh_door *door, int fd, const struct kh_peer *peer)
{
	struct kh_session *session = calloc(1, sizeof(*session));
	struct kh_stream *stream =
		session ? kh_stream_new(door->loop->base, fd, on_stream, session) : NULL;

	if (!stream) {
		free(session);
		close(fd);
		kh_door_left(door);
		return;
	}
	session->loop = door->loop;
	session->door = door;
	session->peer = *peer;
	kh_leg_init(&session->down, false);
	session->down.stream = stream;
	kh_buf_init(&session->in, SESSION_IN_BYTES);
	event_assign(&session->timer, door->loop->base, -1, 0, on_timer, session);
	kh_list_append(&door->loop->live, &session->link);
	door->loop->n_live++;
	set_state(session, KH_SESSION_HEAD);
	kh_session_turn(session);
}

void kh_session_exchange_over(struct kh_session *session, bool keep)
{
	const struct kh_config *config = session->loop->gen->config;

	session->exchange = NULL;
	if (!keep || session->eof || session->loop->draining ||
	    session->exchanges >= config->max_exchanges)
		session->closing = true;
	set_state(session, session->closing ? KH_SESSION_LINGER : KH_SESSION_HEAD);
}

void kh_session_drain(struct kh_session *session)
{
	session->closing = true;
	if (session->state == KH_SESSION_HEAD || session->state == KH_SESSION_TUNNEL ||
	    session->state == KH_SESSION_HANDSHAKE)
		kh_session_kill(session, KH_ERR_DRAINING, NULL);
	else
		kh_session_turn(session);
}

/* A tunnel to where nothing is allowed any more has no use but to wait. */
void kh_session_recheck(struct kh_session *session)
{
	const struct kh_policy *policy = session->loop->gen->policy;
	uint16_t tenant = session->door->config->tenant;

	if (session->exchange) {
		kh_exchange_recheck(session->exchange);
		kh_session_turn(session);
		return;
	}
	if (session->tunnel &&
	    !kh_policy_knows_host(policy, tenant, KH_SCHEME_HTTPS, &session->authority.host,
				  session->authority.port) &&
	    !kh_policy_knows_host(policy, tenant, KH_SCHEME_HTTP, &session->authority.host,
				  session->authority.port))
		kh_session_kill(session, KH_ERR_ABORTED, "the rules changed");
}

void kh_session_refuse(struct kh_session *session, const struct kh_err *err)
{
	kh_tunnel_deny(session, err);
	session->closing = true;
	if (!kh_denial_put(&session->down.out, session, NULL, err, false)) {
		kh_session_kill(session, err->code, NULL);
		return;
	}
	set_state(session, KH_SESSION_LINGER);
}
