/* up_lines.h - connections to upstreams over pipes: a test plays the servers and the users */
#ifndef KEYHOLE_TESTS_UP_LINES_H
#define KEYHOLE_TESTS_UP_LINES_H

#include "pipe_client.h"

#include "upstream/upstream.c" /* NOLINT(bugprone-suspicious-include) */

/* A connection, its server, and the one user on it. */
struct line {
	struct kh_up_user user;
	struct kh_up *up;
	struct kh_buf in; /* what keyhole will read */
	unsigned pieces;
	bool ended;
};

static const struct kh_message get = { .method = { "GET", 3 } };

/* ---- the server ---- */

static inline ssize_t server_read(void *pipe, void *bytes, size_t room)
{
	struct line *line = pipe;
	struct kh_slice in = kh_buf_view(&line->in);
	size_t n = in.len < room ? in.len : room;

	if (n == 0) {
		errno = EAGAIN;
		return -1;
	}
	memcpy(bytes, in.ptr, n);
	kh_buf_consume(&line->in, n);
	return (ssize_t)n;
}

static inline ssize_t server_write(void *pipe, const void *bytes, size_t len)
{
	(void)pipe;
	(void)bytes;
	return (ssize_t)len;
}

static inline unsigned server_ready(const void *pipe)
{
	const struct line *line = pipe;

	return KH_STREAM_WRITABLE | (kh_buf_len(&line->in) > 0 ? (unsigned)KH_STREAM_READABLE : 0u);
}

static inline void server_nothing(void *pipe)
{
	(void)pipe;
}

static const struct kh_pipe_ops server_ops = {
	.read = server_read,
	.write = server_write,
	.ready = server_ready,
	.shutdown = server_nothing,
	.close = server_nothing,
};

/* ---- the user ---- */

static inline struct line *line_of(struct kh_up_user *user)
{
	return kh_container_of(user, struct line, user);
}

static inline void user_describe(const struct kh_up_user *user, struct kh_up_request *out)
{
	(void)user;
	*out = (struct kh_up_request){ .scheme = KH_SCHEME_HTTP,
				       .target = KH_SLICE("/"),
				       .framing = KH_FRAMING_NONE };
}

static inline bool user_put_target(const struct kh_up_user *user, struct kh_buf *out,
				   struct kh_err *err)
{
	(void)user;
	(void)err;
	return kh_buf_append_str(out, "/");
}

static inline bool user_put_authority(const struct kh_up_user *user, struct kh_buf *out)
{
	(void)user;
	return kh_buf_append_str(out, "a.example");
}

static inline bool user_put_credentials(const struct kh_up_user *user, struct kh_buf *out,
					struct kh_err *err)
{
	(void)user;
	(void)out;
	(void)err;
	return true;
}

static inline void user_ready(struct kh_up_user *user, const struct kh_up_facts *facts)
{
	struct kh_err err = KH_ERR_INIT;

	(void)facts;
	if (user->stream->conn->key.scheme != KH_SCHEME_TCP)
		assert_true(user->stream->ops->put_head(user->stream, &err));
}

static inline bool user_head(struct kh_up_user *user, const struct kh_message *response)
{
	(void)user;
	assert_int_equal(response->status, 200);
	return true;
}

static inline void leave(struct kh_up_user *user, bool clean)
{
	struct kh_up_stream *stream = user->stream;

	user->stream = NULL;
	if (stream)
		stream->ops->release(stream, clean);
}

static inline void user_broken(struct kh_up_user *user, const struct kh_err *err)
{
	(void)user;
	fail_msg("%s", err->text);
}

static inline bool user_is_full(void *side)
{
	(void)side;
	return false;
}

static inline void user_turn(void *side)
{
	struct line *line = side;

	if (line->user.stream)
		line->user.stream->ops->update(line->user.stream, true);
}

static inline void user_touch(void *side)
{
	(void)side;
}

/* ---- the connection ---- */

/* HTTP/2, unless the key says otherwise. It is made at once, and the user goes on it. */
static inline void connect_line(struct line *line, const struct kh_up_user_ops *ops,
				const struct kh_up_key *key)
{
	line->user = (struct kh_up_user){
		.ops = ops,
		.side = line,
		.loop = world.loop,
		.work = &world.acceptor.work,
		.message = &get,
		.progress_ms = &world.loop->now_ms,
	};
	line->up = new_up(world.loop, key, world.gen);
	assert_non_null(line->up);
	line->up->leg.stream =
		kh_stream_new_over(world.loop->base, &server_ops, line, kh_up_on_stream, line->up);
	assert_non_null(line->up->leg.stream);
	kh_count(world.loop, KH_COUNT_UP_OPEN);
	borrow(&line->user, line->up);
	assert_true(kh_up_set_state(line->up, KH_UP_CONNECTING, NULL));
	if (!key->only_h1) {
		assert_true(kh_up_set_state(line->up, KH_UP_HANDSHAKE, NULL));
		kh_up_mux_begin(line->up);
	} else {
		ready(line->up);
	}
	kh_stream_pipe_changed(line->up->leg.stream);
}

static inline void turns(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		assert_true(event_base_loop(world.loop->base, EVLOOP_ONCE | EVLOOP_NONBLOCK) >= 0);
		kh_loop_turn_end(world.loop);
	}
}

#endif
