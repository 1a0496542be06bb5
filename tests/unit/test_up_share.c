/* test_up_share.c - what comes from upstreams is taken within the share of the sandbox that it is
 * for */
/* wrap: kh_up_acquire */
#include "up_lines.h"

#include "h2_drive.h"

enum {
	MANY = 64,
	PIECES = 5000, /* of a byte each, from each of them */
	READ_PIECES = KH_LEG_READ_BYTES / 6,
	IN_A_SHARE = KH_LIMIT_WORK_SHARE / KH_LIMIT_WORK_PER_PIECE,
};

static struct {
	struct line lines[MANY];
	unsigned pieces, in_turn, most_in_turn, ended;
	size_t bytes;
	uint64_t turn; /* in which the latest one came */
} scene;

/* ---- the user ---- */

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

static void user_end(struct kh_up_user *user, const struct kh_field *trailers, size_t n)
{
	(void)trailers;
	(void)n;
	line_of(user)->ended = true;
	scene.ended++;
	leave(user, true);
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

static void scene_begin(void (*put)(struct kh_buf *in), enum kh_scheme scheme, bool h2)
{
	const struct kh_up_key key = { .scheme = scheme, .only_h1 = !h2 };

	memset(&scene, 0, sizeof(scene));
	world_begin(&client_loop_ops);
	for (size_t i = 0; i < MANY; i++) {
		kh_buf_init(&scene.lines[i].in, WORLD_BYTES);
		put(&scene.lines[i].in);
		connect_line(&scene.lines[i], &user_ops, &key);
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
