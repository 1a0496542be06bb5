/*
 * mux_tunnel.c - a tunnel in one stream of an HTTP/2 connection (RFC 9113 §8.5)
 *
 * Inside is an ordinary session with its own TLS and its own codec. Its bytes travel in the DATA
 * frames of a CONNECT stream instead of a socket. It counts as one of the sandbox's connections.
 */

#include <errno.h>

#include <keyhole/base/block.h>

#include "session_internal.h"

enum { IN_BYTES = 64 * 1024, PAUSE_BYTES = 16 * 1024, PIECE_BYTES = 32 * 1024 };

/* ---- the pipe that the inner session runs on ---- */

static ssize_t read_pipe(void *pipe, void *bytes, size_t room)
{
	struct kh_down_h2 *s = pipe;
	struct kh_slice in = kh_buf_view(&s->in);
	size_t n = in.len < room ? in.len : room;

	if (n > 0) {
		memcpy(bytes, in.ptr, n);
		kh_buf_consume(&s->in, n);
		if (kh_buf_len(&s->in) == 0) {
			kh_buf_release(&s->in);
			if (s->paused)
				kh_down_h2_ready(s); /* the next bytes may come */
		}
		return (ssize_t)n;
	}
	if (s->in_ended)
		return 0;
	errno = s->h2 ? EAGAIN : ECONNRESET;
	return -1;
}

static ssize_t write_pipe(void *pipe, const void *bytes, size_t len)
{
	struct kh_down_h2 *s = pipe;
	size_t n = len < PIECE_BYTES ? len : PIECE_BYTES;

	if (!s->h2 || s->ended) {
		errno = EPIPE;
		return -1;
	}
	if (kh_h2_is_full(s->h2) || !kh_h2_put_data(s->h2, kh_slice_of(bytes, n))) {
		errno = EAGAIN;
		return -1;
	}
	kh_session_touch(s->stream.session);
	return (ssize_t)n;
}

static unsigned ready_pipe(const void *pipe)
{
	const struct kh_down_h2 *s = pipe;
	unsigned ready = 0;

	if (!s->h2 || s->in_ended || kh_buf_len(&s->in) > 0)
		ready |= KH_STREAM_READABLE;
	if (!s->h2 || s->ended || !kh_h2_is_full(s->h2))
		ready |= KH_STREAM_WRITABLE;
	return ready;
}

static void shut_pipe(void *pipe)
{
	struct kh_down_h2 *s = pipe;

	if (!s->h2 || s->ended)
		return;
	s->ended = true;
	(void)kh_h2_put_end(s->h2, NULL, 0);
	kh_session_touch(s->stream.session);
}

static void free_pipe(struct kh_deferred_free *deferred_free)
{
	struct kh_down_h2 *s = kh_container_of(deferred_free, struct kh_down_h2, deferred_free);

	kh_buf_fini(&s->in);
	kh_block_give(s);
}

static void close_pipe(void *pipe)
{
	struct kh_down_h2 *s = pipe;

	s->inner = NULL;
	if (s->h2) {
		shut_pipe(s);
		kh_down_h2_release(s);
	} else {
		kh_loop_free_later(s->loop, &s->deferred_free, free_pipe);
	}
}

static const struct kh_pipe_ops pipe_ops = {
	.read = read_pipe,
	.write = write_pipe,
	.ready = ready_pipe,
	.shutdown = shut_pipe,
	.close = close_pipe,
};

/* ---- what the outer session sees ---- */

bool kh_mux_tunnel_accept(struct kh_down_h2 *s)
{
	if (!s->h2)
		return false;
	kh_session_touch(s->stream.session);
	return kh_h2_put_response(s->h2, 200, NULL, 0, false);
}

bool kh_mux_tunnel_answer(struct kh_down_h2 *s, const struct kh_answer *answer)
{
	if (!s->h2)
		return false;
	s->ended = true;
	kh_session_wait_for_record(s->stream.session); /* a record of it may be in the batch */
	return kh_down_h2_ops.put_answer(&s->stream, answer);
}

void kh_mux_tunnel_open(struct kh_down_h2 *s, const struct kh_message *connect)
{
	struct kh_session *outer = s->stream.session, *inner = NULL;
	struct kh_err err = KH_ERR_INIT;
	struct kh_authority authority;

	if (!kh_tunnel_read(outer, connect, &authority, &err)) {
		kh_down_h2_refuse(s, outer->side.tunnel ? &outer->side.authority : NULL, &err);
		return;
	}
	enum kh_tunnel_kind kind = kh_tunnel_may_open(outer, &authority, &err);
	if (kind == KH_TUNNEL_DENIED) {
		kh_down_h2_refuse(s, &authority, &err);
		return;
	}
	struct kh_down_limits *limits;
	if (!kh_down_take_place_within(&outer->side, &limits, &err)) {
		kh_down_h2_refuse(s, &authority, &err);
		return;
	}
	kh_buf_init(&s->in, IN_BYTES);
	if (kh_acceptor_take_place(outer->side.acceptor)) {
		inner = kh_session_new_over(outer->side.acceptor, &pipe_ops, s, &outer->side.peer);
		if (!inner)
			kh_acceptor_left(outer->side.acceptor);
	}
	if (!inner) {
		kh_down_leave_place_within(&outer->side, limits);
		kh_err_set(&err, KH_ERR_LIMIT, "too many connections of this sandbox are open");
		kh_down_h2_refuse(s, &authority, &err);
		return;
	}
	s->inner = inner->leg.stream;
	s->is_tunnel = true;
	outer->mux->n_tunnels++;
	inner->carrier = s;
	inner->came_by = outer->came_by;
	inner->side.via = outer->side.via;
	inner->side.authority = authority;
	inner->side.limits = limits;
	if (kind == KH_TUNNEL_RAW) {
		inner->only.stream.ops = &kh_raw_down_ops; /* its answer waits for the upstream */
	} else if (!kh_tunnel_accept(inner)) {
		kh_session_kill(inner, KH_ERR_NO_MEMORY, NULL);
		return;
	}
	kh_tunnel_enter(inner, kind);
	kh_session_turn(inner);
}

void kh_mux_tunnel_body(struct kh_down_h2 *s, struct kh_slice piece)
{
	if (!kh_buf_append_slice(&s->in, piece)) {
		kh_down_h2_gone(s, KH_ERR_NONE, NULL);
		return;
	}
	if (kh_buf_len(&s->in) >= PAUSE_BYTES) {
		s->paused = true;
		kh_h2_pause(s->h2);
	}
	kh_stream_pipe_changed(s->inner);
}
