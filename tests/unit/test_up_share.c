/* test_up_share.c - what comes from upstreams is taken within the share of the sandbox that it is
 * for */
/* wrap: kh_up_acquire */
#include "pipe_client.h"

#include "h2_drive.h"

#include "upstream/upstream.c" /* NOLINT(bugprone-suspicious-include) */

enum {
	MANY = 64,
	PIECES = 5000, /* of a byte each, from each of them */
	READ_PIECES = KH_LEG_READ_BYTES / 6,
	IN_A_SHARE = KH_LIMIT_WORK_SHARE / KH_LIMIT_WORK_PER_PIECE,
};

/* A connection, its server, and the one user on it. */
struct line {
	struct kh_up_user user;
	struct kh_up *up;
	struct kh_buf in; /* what keyhole will read */
	unsigned pieces;
	bool ended;
};

static struct {
	struct line lines[MANY];
	unsigned pieces, in_turn, most_in_turn, ended;
	size_t bytes;
	uint64_t turn; /* in which the latest one came */
} scene;

static const struct kh_message get = { .method = { "GET", 3 } };

/* ---- the server ---- */

static ssize_t server_read(void *pipe, void *bytes, size_t room)
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

static ssize_t server_write(void *pipe, const void *bytes, size_t len)
{
	(void)pipe;
	(void)bytes;
	return (ssize_t)len;
}

static unsigned server_ready(const void *pipe)
{
	const struct line *line = pipe;

	return KH_STREAM_WRITABLE | (kh_buf_len(&line->in) > 0 ? (unsigned)KH_STREAM_READABLE : 0u);
}

static void server_nothing(void *pipe)
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

static struct line *line_of(struct kh_up_user *user)
{
	return kh_container_of(user, struct line, user);
}

static void user_describe(const struct kh_up_user *user, struct kh_up_request *out)
{
	(void)user;
	*out = (struct kh_up_request){ .scheme = KH_SCHEME_HTTP,
				       .target = KH_SLICE("/"),
				       .framing = KH_FRAMING_NONE };
}

static bool user_put_target(const struct kh_up_user *user, struct kh_buf *out, struct kh_err *err)
{
	(void)user;
	(void)err;
	return kh_buf_append_str(out, "/");
}

static bool user_put_authority(const struct kh_up_user *user, struct kh_buf *out)
{
	(void)user;
	return kh_buf_append_str(out, "a.example");
}

static bool user_put_credentials(const struct kh_up_user *user, struct kh_buf *out,
				 struct kh_err *err)
{
	(void)user;
	(void)out;
	(void)err;
	return true;
}

static void user_ready(struct kh_up_user *user, const struct kh_up_facts *facts)
{
	struct kh_err err = KH_ERR_INIT;

	(void)facts;
	if (user->stream->conn->key.scheme != KH_SCHEME_TCP)
		assert_true(user->stream->ops->put_head(user->stream, &err));
}

static bool user_head(struct kh_up_user *user, const struct kh_message *response)
{
	(void)user;
	assert_int_equal(response->status, 200);
	return true;
}

static bool user_body(struct kh_up_user *user, struct kh_slice piece)
{
	if (scene.turn != world.loop->turn)
		scene.in_turn = 0;
	scene.turn = world.loop->turn;
	line_of(user)->pieces++;
	scene.pieces++;
	scene.bytes += piece.len;
	if (++scene.in_turn > scene.most_in_turn)
		scene.most_in_turn = scene.in_turn;
	return true;
}

static void leave(struct kh_up_user *user, bool clean)
{
	struct kh_up_stream *stream = user->stream;

	user->stream = NULL;
	if (stream)
		stream->ops->release(stream, clean);
}

static void user_end(struct kh_up_user *user, const struct kh_field *trailers, size_t n)
{
	(void)trailers;
	(void)n;
	line_of(user)->ended = true;
	scene.ended++;
	leave(user, true);
}

static void user_broken(struct kh_up_user *user, const struct kh_err *err)
{
	(void)user;
	fail_msg("%s", err->text);
}

static bool user_is_full(void *side)
{
	(void)side;
	return false;
}

static void user_turn(void *side)
{
	struct line *line = side;

	if (line->user.stream)
		line->user.stream->ops->update(line->user.stream, true);
}

static void user_touch(void *side)
{
	(void)side;
}

static const struct kh_up_user_ops user_ops = {
	.describe = user_describe,
	.put_target = user_put_target,
	.put_authority = user_put_authority,
	.put_credentials = user_put_credentials,
	.ready = user_ready,
	.head = user_head,
	.body = user_body,
	.end = user_end,
	.broken = user_broken,
	.failed = user_broken,
	.is_full = user_is_full,
	.turn = user_turn,
	.touch = user_touch,
};

/* ---- the scene ---- */

static void connect_line(struct line *line, enum kh_scheme scheme, bool h2)
{
	struct kh_up_key key = { .scheme = scheme, .only_h1 = !h2 };

	line->user = (struct kh_up_user){
		.ops = &user_ops,
		.side = line,
		.loop = world.loop,
		.work = &world.acceptor.work,
		.message = &get,
		.progress_ms = &world.loop->now_ms,
	};
	line->up = new_up(world.loop, &key, world.gen);
	assert_non_null(line->up);
	line->up->leg.stream =
		kh_stream_new_over(world.loop->base, &server_ops, line, kh_up_on_stream, line->up);
	assert_non_null(line->up->leg.stream);
	kh_count(world.loop, KH_COUNT_UP_OPEN);
	borrow(&line->user, line->up);
	assert_true(kh_up_set_state(line->up, KH_UP_CONNECTING, NULL));
	if (h2) {
		assert_true(kh_up_set_state(line->up, KH_UP_HANDSHAKE, NULL));
		kh_up_mux_begin(line->up);
	} else {
		ready(line->up);
	}
	kh_stream_pipe_changed(line->up->leg.stream);
}

static void scene_begin(void (*put)(struct kh_buf *in), enum kh_scheme scheme, bool h2)
{
	memset(&scene, 0, sizeof(scene));
	world_begin(&client_loop_ops);
	for (size_t i = 0; i < MANY; i++) {
		kh_buf_init(&scene.lines[i].in, WORLD_BYTES);
		put(&scene.lines[i].in);
		connect_line(&scene.lines[i], scheme, h2);
	}
}

static void turns(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		assert_true(event_base_loop(world.loop->base, EVLOOP_ONCE | EVLOOP_NONBLOCK) >= 0);
		kh_loop_turn_end(world.loop);
	}
}

static void all_go(void)
{
	for (size_t i = 0; i < MANY; i++)
		leave(&scene.lines[i].user, false);
}

static void scene_end(void)
{
	all_go();
	turns(2);
	assert_true(kh_list_is_empty(&world.acceptor.work.waiting));
	kh_up_close_idle(world.loop);
	turns(2);
	for (size_t i = 0; i < MANY; i++)
		kh_buf_fini(&scene.lines[i].in);
	world_end(0);
}

/* ---- what it says ---- */

static void put_chunks(struct kh_buf *in)
{
	kh_buf_append_str(in, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
	for (unsigned i = 0; i < PIECES; i++)
		assert_true(kh_buf_append_str(in, "1\r\na\r\n"));
	kh_buf_append_str(in, "0\r\n\r\n");
}

static void put_frames(struct kh_buf *in)
{
	raw_frame(in, SETTINGS, 0, 0, KH_SLICE(""));
	raw_headers(in, 1, END_HEADERS, ":status=200");
	for (unsigned i = 0; i < PIECES; i++)
		raw_data(in, 1, 0, "a");
	raw_data(in, 1, END_STREAM, "");
}

static void put_bytes(struct kh_buf *in)
{
	static char many[256 * 1024];

	assert_true(kh_buf_append(in, many, sizeof(many)));
}

static void chunks_of_many_answers_are_taken_in_shares(void **state)
{
	(void)state;
	scene_begin(put_chunks, KH_SCHEME_HTTP, false);
	turns(1);
	assert_in_range(scene.pieces, 1, IN_A_SHARE + READ_PIECES);
	turns(2 * MANY * PIECES / IN_A_SHARE);
	assert_in_range(scene.most_in_turn, 1, IN_A_SHARE + READ_PIECES);
	assert_int_equal(scene.ended, MANY);
	assert_int_equal(scene.bytes, MANY * PIECES);
	scene_end();
}

static void frames_of_many_answers_are_taken_in_shares(void **state)
{
	(void)state;
	scene_begin(put_frames, KH_SCHEME_HTTPS, true);
	turns(2);
	assert_in_range(scene.pieces, 1, 2 * IN_A_SHARE);
	turns(2 * MANY * PIECES / IN_A_SHARE);
	assert_in_range(scene.most_in_turn, 1, IN_A_SHARE);
	assert_int_equal(scene.ended, MANY);
	assert_int_equal(scene.bytes, MANY * PIECES);
	scene_end();
}

static void bytes_of_many_tunnels_are_taken_in_shares(void **state)
{
	enum { READ = KH_LIMIT_WORK_PER_READ + KH_LEG_READ_BYTES / KH_LIMIT_WORK_CONTENT };

	(void)state;
	scene_begin(put_bytes, KH_SCHEME_TCP, false);
	turns(1);
	assert_in_range(scene.pieces, 1, KH_LIMIT_WORK_SHARE / READ + 1);
	turns(2 * MANY);
	assert_in_range(scene.most_in_turn, 1, KH_LIMIT_WORK_SHARE / READ + 1);
	assert_int_equal(scene.bytes, MANY * 256 * 1024);
	scene_end();
}

/* Its sandbox may be gone when the line is served. */
static void whoever_is_given_up_leaves_the_line(void **state)
{
	void (*const puts[])(struct kh_buf * in) = { put_chunks, put_frames, put_bytes };
	const enum kh_scheme schemes[] = { KH_SCHEME_HTTP, KH_SCHEME_HTTPS, KH_SCHEME_TCP };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		scene_begin(puts[i], schemes[i], i == 1);
		turns(2);
		assert_false(kh_list_is_empty(&world.acceptor.work.waiting));
		unsigned before = scene.pieces;
		all_go();
		assert_true(kh_list_is_empty(&world.acceptor.work.waiting));
		turns(3);
		assert_int_equal(scene.pieces, before);
		scene_end();
	}
}

/* What is left of a crowd's work does not delay one that is alone. */
static void another_sandboxes_answer_does_not_wait(void **state)
{
	struct kh_work_share other;
	struct line *one = &scene.lines[MANY - 1];

	(void)state;
	scene_begin(put_chunks, KH_SCHEME_HTTP, false);
	kh_work_share_init(&other, world.loop);
	one->user.work = &other;
	turns(1 + PIECES / READ_PIECES);
	assert_true(one->ended);
	assert_true(scene.ended < MANY / 4);
	scene_end();
	kh_work_share_fini(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chunks_of_many_answers_are_taken_in_shares),
		cmocka_unit_test(frames_of_many_answers_are_taken_in_shares),
		cmocka_unit_test(bytes_of_many_tunnels_are_taken_in_shares),
		cmocka_unit_test(whoever_is_given_up_leaves_the_line),
		cmocka_unit_test(another_sandboxes_answer_does_not_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
