/* test_up_slot.c - a request looks at a few connections, however many are full or go elsewhere */
/* wrap: kh_up_acquire kh_host_eq kh_h2_capacity kh_stream_is_alive */
#include "up_lines.h"

#include "h2_drive.h"

enum { FEW = 3, MANY = 60, LINES = 2 * MANY + 1 };

static struct {
	struct line lines[LINES];
	size_t n;
	struct kh_up_user waiting[4 * KH_UP_MOST_WAITING];
	size_t n_waiting;
	size_t looks; /* at a connection's host, or at its room */
} scene;

bool __real_kh_host_eq(const struct kh_host *a, const struct kh_host *b);
bool __wrap_kh_host_eq(const struct kh_host *a, const struct kh_host *b);
bool __wrap_kh_host_eq(const struct kh_host *a, const struct kh_host *b)
{
	scene.looks++;
	return __real_kh_host_eq(a, b);
}

size_t __real_kh_h2_capacity(const struct kh_h2 *h2);
size_t __wrap_kh_h2_capacity(const struct kh_h2 *h2);
size_t __wrap_kh_h2_capacity(const struct kh_h2 *h2)
{
	scene.looks++;
	return __real_kh_h2_capacity(h2);
}

/* A pipe has no socket to look at. */
bool __wrap_kh_stream_is_alive(struct kh_stream *stream);
bool __wrap_kh_stream_is_alive(struct kh_stream *stream)
{
	(void)stream;
	return true;
}

/* ---- the user ---- */

static bool user_body(struct kh_up_user *user, struct kh_slice piece)
{
	(void)user;
	(void)piece;
	return true;
}

static void user_end(struct kh_up_user *user, const struct kh_field *trailers, size_t n)
{
	(void)trailers;
	(void)n;
	line_of(user)->ended = true;
	if (user->stream->conn->mux)
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

/* Where it waits it has no line. */
static void waiting_user(struct kh_up_user *user)
{
	*user = (struct kh_up_user){
		.ops = &user_ops,
		.loop = world.loop,
		.work = &world.acceptor.work,
		.message = &get,
		.progress_ms = &world.loop->now_ms,
	};
}

/* ---- the scene ---- */

static struct kh_up_key key_of(const char *host)
{
	struct kh_up_key key = { .scheme = KH_SCHEME_HTTPS,
				 .port = 443,
				 .generation = world.gen->number,
				 .acceptor = 1 };
	struct kh_err err = KH_ERR_INIT;

	assert_true(kh_host_parse(&key.host, kh_slice_str(host), &err));
	return key;
}

static struct kh_up_key other_key(size_t i)
{
	char host[32];

	snprintf(host, sizeof(host), "other-%zu.example", i);
	return key_of(host);
}

/* Return: the key of the upstream that requests are for. */
static struct kh_up_key scene_begin(void)
{
	memset(&scene, 0, sizeof(scene));
	world_begin(&client_loop_ops);
	world.worker.fd_limit = 1 << 16; /* for the pools */
	world.worker.n_loops = 1;
	return key_of("one.example");
}

/* A server that allows one stream, and has one. */
static struct line *put_full(const struct kh_up_key *key, bool extended)
{
	struct line *line = &scene.lines[scene.n++];

	assert_true(scene.n <= LINES);
	kh_buf_init(&line->in, WORLD_BYTES);
	raw_frame(&line->in, SETTINGS, 0, 0,
		  extended ? KH_SLICE("\0\3\0\0\0\1\0\10\0\0\0\1") : KH_SLICE("\0\3\0\0\0\1"));
	connect_line(line, &user_ops, key);
	turns(2);
	assert_non_null(line->user.stream);
	return line;
}

static void answer(struct line *line)
{
	raw_headers(&line->in, 1, BOTH, ":status=200");
	kh_stream_pipe_changed(line->up->leg.stream);
	turns(2);
	assert_true(line->ended);
}

/* One that is not made yet, beyond its lookup. */
static struct line *put_making(const struct kh_up_key *key)
{
	struct line *line = &scene.lines[scene.n++];

	assert_true(scene.n <= LINES);
	kh_buf_init(&line->in, WORLD_BYTES);
	waiting_user(&line->user);
	line->up = new_up(world.loop, key, world.gen);
	assert_non_null(line->up);
	kh_list_append(&world.loop->ups->made, &line->up->link);
	borrow(&line->user, line->up);
	assert_true(kh_up_set_state(line->up, KH_UP_CONNECTING, NULL));
	return line;
}

static void scene_end(void)
{
	while (scene.n_waiting > 0)
		leave(&scene.waiting[--scene.n_waiting], false);
	for (size_t i = 0; i < scene.n; i++)
		leave(&scene.lines[i].user, false);
	turns(2);
	kh_up_close_idle(world.loop);
	turns(2);
	assert_int_equal(world.loop->ups->idle.n + world.loop->ups->resting.n, 0);
	for (size_t i = 0; i < KH_UP_BUCKETS; i++)
		assert_true(kh_list_is_empty(&world.loop->ups->slots[i]));
	for (size_t i = 0; i < scene.n; i++)
		kh_buf_fini(&scene.lines[i].in);
	world_end(0);
}

/* ---- what it says ---- */

/* Among `full` connections that are full, and as many that go elsewhere. Return: the looks. */
static size_t looks_of_a_request(size_t full, bool upgrades)
{
	struct kh_up_user user;

	struct kh_up_key key = scene_begin();
	for (size_t i = 0; i < full; i++) {
		struct kh_up_key other = other_key(i);

		(void)put_full(&key, true);
		(void)put_full(&other, true);
	}
	waiting_user(&user);
	user.upgrades = upgrades;
	scene.looks = 0;
	assert_false(kh_up_mux_join(&user, &key));
	assert_false(kh_up_mux_wait(&user, &key));
	assert_true(kh_up_mux_has(world.loop, &key, true));
	assert_false(kh_up_mux_has(world.loop, &key, false));
	assert_null(kh_up_take_idle(world.loop, &key));
	size_t looks = scene.looks;
	scene_end();
	return looks;
}

static void a_request_does_not_look_at_connections_that_are_full(void **state)
{
	(void)state;
	for (int upgrades = 0; upgrades < 2; upgrades++) {
		size_t among_few = looks_of_a_request(FEW, upgrades);

		assert_in_range(among_few, 1, 8);
		assert_int_equal(looks_of_a_request(MANY, upgrades), among_few);
	}
}

static size_t looks_of_the_end_of_a_stream(size_t full)
{
	struct line *line;

	struct kh_up_key key = scene_begin();
	for (size_t i = 0; i < full; i++)
		(void)put_full(&key, false);
	line = &scene.lines[full / 2];
	scene.looks = 0;
	answer(line);
	size_t looks = scene.looks;
	scene_end();
	return looks;
}

static void the_end_of_a_stream_does_not_look_at_other_connections(void **state)
{
	size_t among_few = looks_of_the_end_of_a_stream(FEW);

	(void)state;
	assert_int_equal(looks_of_the_end_of_a_stream(MANY), among_few);
}

static void the_connection_whose_stream_ended_takes_the_next_request(void **state)
{
	struct kh_up_user user;
	struct line *line;

	(void)state;
	struct kh_up_key key = scene_begin();
	for (size_t i = 0; i < FEW; i++)
		(void)put_full(&key, false);
	line = &scene.lines[1];
	answer(line);
	assert_int_equal(world.loop->ups->resting.n, 1);
	waiting_user(&user);
	user.side = line;
	assert_true(kh_up_mux_join(&user, &key));
	assert_ptr_equal(user.stream->conn, line->up);
	assert_int_equal(world.loop->ups->resting.n, 0);
	leave(&user, false);
	scene_end();
}

static void a_connection_that_says_goodbye_takes_no_request(void **state)
{
	struct kh_up_user user;
	struct line *line;

	(void)state;
	struct kh_up_key key = scene_begin();
	line = put_full(&key, true);
	assert_true(kh_up_mux_has(world.loop, &key, true));
	raw_frame(&line->in, GOAWAY, 0, 0, KH_SLICE("\0\0\0\1\0\0\0\0"));
	kh_stream_pipe_changed(line->up->leg.stream);
	turns(2);
	assert_false(kh_up_mux_has(world.loop, &key, true));
	answer(line);
	waiting_user(&user);
	assert_false(kh_up_mux_join(&user, &key));
	scene_end();
}

/* Each has as many users in line as may wait for it, but for the last one. */
static size_t looks_of_waiting(size_t full)
{
	struct kh_up_user *user = NULL;
	struct line *last = NULL;

	struct kh_up_key key = scene_begin();
	for (size_t i = 0; i <= full; i++) {
		last = put_making(&key);
		for (size_t n = 0; n < (i < full ? KH_UP_MOST_WAITING : 1u); n++) {
			user = &scene.waiting[scene.n_waiting++];
			waiting_user(user);
			scene.looks = 0;
			assert_true(kh_up_mux_wait(user, &key));
		}
	}
	assert_ptr_equal(user->stream->conn, last->up);
	/* One goes, and another one may wait in its place. */
	if (full > 0) {
		struct kh_up_user *first = &scene.waiting[0];

		leave(first, false);
		waiting_user(first);
		assert_true(kh_up_mux_wait(first, &key));
		assert_ptr_equal(first->stream->conn, last->up);
		leave(user, false);
		waiting_user(user);
		for (size_t i = 0; i < scene.n; i++)
			assert_in_range(scene.lines[i].up->n_waiting, 1, KH_UP_MOST_WAITING);
	}
	size_t looks = scene.looks;
	scene_end();
	return looks;
}

static void a_request_does_not_look_at_lines_that_are_full(void **state)
{
	size_t looks = looks_of_waiting(1);

	(void)state;
	assert_int_equal(looks_of_waiting(3), looks);
}

/* Kept ones of HTTP/1. */
static size_t looks_of_taking(size_t others)
{
	struct kh_up_key key = scene_begin();
	for (size_t i = 0; i <= others; i++) {
		struct line *line = &scene.lines[scene.n++];
		struct kh_up_key to = i < others ? other_key(i) : key;

		to.only_h1 = true;
		kh_buf_init(&line->in, WORLD_BYTES);
		kh_buf_append_str(&line->in, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
		connect_line(line, &user_ops, &to);
		line->user.stream->ops->flush(line->user.stream);
		turns(2);
		assert_true(line->ended);
		leave(&line->user, true);
	}
	assert_int_equal(world.loop->ups->idle.n, others + 1);
	for (size_t i = 0; i < others; i++) { /* the one that is wanted is the oldest */
		struct kh_up_key other = other_key(i);
		struct kh_up *up = kh_up_take_idle(world.loop, &other);

		assert_non_null(up);
		kh_up_release(up, true);
	}
	assert_int_equal(world.loop->ups->idle.n, others + 1);
	scene.looks = 0;
	struct kh_up *up = kh_up_take_idle(world.loop, &key);
	size_t looks = scene.looks;
	assert_ptr_equal(up, scene.lines[others].up);
	kh_up_close(up);
	scene_end();
	return looks;
}

static void a_request_does_not_look_at_kept_connections_that_go_elsewhere(void **state)
{
	size_t among_few = looks_of_taking(FEW);

	(void)state;
	assert_int_equal(looks_of_taking(MANY), among_few);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_does_not_look_at_connections_that_are_full),
		cmocka_unit_test(the_end_of_a_stream_does_not_look_at_other_connections),
		cmocka_unit_test(the_connection_whose_stream_ended_takes_the_next_request),
		cmocka_unit_test(a_connection_that_says_goodbye_takes_no_request),
		cmocka_unit_test(a_request_does_not_look_at_lines_that_are_full),
		cmocka_unit_test(a_request_does_not_look_at_kept_connections_that_go_elsewhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
