/* pipe_client.h - a sandbox's connection over a pipe, as a test plays it (core_world.h) */
#ifndef KEYHOLE_TESTS_PIPE_CLIENT_H
#define KEYHOLE_TESTS_PIPE_CLIENT_H

#include "core_world.h"

#include <errno.h>

#include <downstream/session_internal.h>

static struct {
	struct kh_session *session; /* it may be dead */
	struct kh_stream *stream;   /* keyhole's; NULL: it let go */
	struct kh_buf in, out;	    /* what it will read; what it wrote */
	bool ended;		    /* nothing follows `in` */
	bool shut;		    /* it has said its last */
	size_t room;		    /* so much may lie in `out` */
} client;

static inline ssize_t client_read(void *pipe, void *bytes, size_t room)
{
	struct kh_slice in = kh_buf_view(&client.in);
	size_t n = in.len < room ? in.len : room;

	(void)pipe;
	if (n == 0 && client.ended)
		return 0;
	if (n == 0) {
		errno = EAGAIN;
		return -1;
	}
	memcpy(bytes, in.ptr, n);
	kh_buf_consume(&client.in, n);
	return (ssize_t)n;
}

static inline ssize_t client_write(void *pipe, const void *bytes, size_t len)
{
	size_t used = kh_buf_len(&client.out), n = used < client.room ? client.room - used : 0;

	(void)pipe;
	assert_false(client.shut);
	n = len < n ? len : n;
	if (n == 0) {
		errno = EAGAIN;
		return -1;
	}
	assert_true(kh_buf_append(&client.out, bytes, n));
	return (ssize_t)n;
}

static inline unsigned client_ready(const void *pipe)
{
	(void)pipe;
	return (kh_buf_len(&client.in) > 0 || client.ended ? KH_STREAM_READABLE : 0u) |
	       (kh_buf_len(&client.out) < client.room ? KH_STREAM_WRITABLE : 0u);
}

static inline void client_shutdown(void *pipe)
{
	(void)pipe;
	client.shut = true;
}

static inline void client_close(void *pipe)
{
	(void)pipe;
	client.stream = NULL;
}

static const struct kh_pipe_ops client_ops = {
	.read = client_read,
	.write = client_write,
	.ready = client_ready,
	.shutdown = client_shutdown,
	.close = client_close,
};

static const struct kh_loop_ops client_loop_ops = {
	.accepted = kh_session_new,
	.acceptor_ended = kh_session_end_of_acceptor,
	.ups_new = kh_ups_new,
	.ups_free = kh_ups_free,
	.up_tick = kh_up_tick,
	.up_close_idle = kh_up_close_idle,
	.up_close_of_acceptor = kh_up_close_of_acceptor,
};

static inline void client_turn(void)
{
	enum { TURNS = 4 };

	for (int i = 0; i < TURNS; i++) {
		if (client.stream)
			kh_stream_pipe_changed(client.stream);
		assert_true(event_base_loop(world.loop->base, EVLOOP_ONCE | EVLOOP_NONBLOCK) >= 0);
		kh_loop_turn_end(world.loop);
	}
}

/* A connection; the world stands. */
static inline void client_connect(void)
{
	const struct kh_peer peer = { .pid = 1 };

	memset(&client, 0, sizeof(client));
	kh_buf_init(&client.in, WORLD_BYTES);
	kh_buf_init(&client.out, WORLD_BYTES);
	client.room = WORLD_BYTES;
	assert_true(kh_acceptor_take_place(&world.acceptor));
	client.session = kh_session_new_over(&world.acceptor, &client_ops, &client, &peer);
	assert_non_null(client.session);
	client.stream = client.session->leg.stream;
	kh_session_turn(client.session);
}

static inline void client_begin(void)
{
	world_begin(&client_loop_ops);
	client_connect();
}

static inline bool client_is_there(void)
{
	return !kh_list_is_empty(&world.loop->live);
}

static inline void client_puts(const void *bytes, size_t len)
{
	assert_true(kh_buf_append(&client.in, bytes, len));
	client_turn();
}

static inline void client_says(const char *text)
{
	client_puts(text, strlen(text));
}

static inline void client_ends(void)
{
	client.ended = true;
	client_turn();
}

/* What came back since it was asked last, up to there. */
#define assert_heard(beginning) \
	do { \
		struct kh_slice said_ = kh_buf_view(&client.out); \
		if (!kh_slice_has_prefix(said_, KH_SLICE(beginning))) \
			fail_msg("heard \"%.*s\"", (int)said_.len, said_.ptr); \
		kh_buf_clear(&client.out); \
		client_turn(); \
	} while (0)

#define assert_state(what) \
	do { \
		assert_true(client_is_there()); \
		assert_int_equal(client.session->state, what); \
	} while (0)

/* Its wait is over. */
static inline void client_times_out(void)
{
	assert_true(client.session->deadline_ms > world.loop->now_ms);
	client.session->deadline_ms = 1;
	kh_session_on_timer(-1, 0, client.session);
	client_turn();
}

static inline void client_free(void)
{
	client_turn();
	assert_false(client_is_there());
	assert_null(client.stream);
	assert_int_equal(atomic_load(&world.acceptor.listener_stats->connections), 0);
	kh_buf_fini(&client.in);
	kh_buf_fini(&client.out);
}

/* It has gone, and nothing of it is left. */
static inline void client_end(uint64_t faults)
{
	client_free();
	assert_int_equal(atomic_load(&world.loop->counts.n[KH_COUNT_TUNNELS_OPEN]), 0);
	world_end(faults);
}

static inline void client_goes(void)
{
	if (client_is_there())
		kh_session_kill(client.session, KH_ERR_DOWN_CLOSED, "the test is over");
	client_turn();
}

#endif
