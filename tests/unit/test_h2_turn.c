/* test_h2_turn.c - what one turn takes of a connection's heads, and how a connection ends */
#include "h2_flooded.h"

#include <time.h>

enum { FIELDS = 14, VALUE_BYTES = 4000, HEADS = 200 };

enum { TURN = 16 * 1024 }; /* of work in a turn */

#define CONNECT ":method=CONNECT|:authority=a.example:443"

static void more(struct flood *f, struct kh_slice block, uint32_t id)
{
	raw_frame(&f->raw, HEADERS, END_HEADERS | END_STREAM, id, block);
}

/* A field of 4 KB goes into the table; then each head names it 14 times, a byte each. */
static void put_bomb(struct flood *f, uint32_t heads)
{
	char value[VALUE_BYTES];
	struct kh_buf block;

	memset(value, 'v', sizeof(value));
	kh_buf_init(&block, 1 << 16);
	raw_fields(&block, KH_SLICE(GET));
	kh_buf_append_char(&block, 0x40);
	raw_string(&block, KH_SLICE("x"));
	raw_string(&block, kh_slice_of(value, sizeof(value)));
	more(f, kh_buf_view(&block), 1);
	kh_buf_clear(&block);
	raw_fields(&block, KH_SLICE(GET));
	for (int i = 0; i < FIELDS; i++)
		kh_buf_append_char(&block, (char)(0x80 | 62));
	for (uint32_t i = 1; i < heads; i++)
		more(f, kh_buf_view(&block), 2 * i + 1);
	kh_buf_fini(&block);
}

static void a_turn_takes_so_many_bytes_of_heads_and_the_rest_comes_later(void **state)
{
	struct flood f;
	unsigned turns = 0, most = 0;
	bool alive = true;

	(void)state;
	flood_init(&f);
	put_bomb(&f, HEADS);
	do {
		size_t taken, before = f.d.counts[KH_H2_HEAD];

		alive = kh_h2_feed_turn(f.d.h2, kh_buf_view(&f.raw), KH_LIMIT_H2_TURN_BYTES, 1000,
					&taken);
		drive_drain(&f.d);
		kh_buf_consume(&f.raw, taken);
		unsigned now = (unsigned)(f.d.counts[KH_H2_HEAD] - before);
		most = now > most ? now : most;
		turns++;
	} while (alive && kh_h2_is_behind(f.d.h2));
	assert_true(alive);
	assert_int_equal(kh_buf_len(&f.raw), 0);
	assert_int_equal(f.d.counts[KH_H2_HEAD], HEADS);
	assert_true(most <= KH_LIMIT_H2_TURN_BYTES / (FIELDS * VALUE_BYTES) + 1);
	assert_true(turns >= (size_t)HEADS * FIELDS * VALUE_BYTES / (2 * KH_LIMIT_H2_TURN_BYTES));
	drive_fini(&f.d);
	kh_buf_fini(&f.raw);
}

/* Each of them costs as much as many bytes that come together. */
static void a_turn_takes_so_many_pieces_of_content_and_the_rest_comes_later(void **state)
{
	enum { PIECES = 6000 };
	struct flood f;
	size_t work = 0, calls = 0, before = 0;

	(void)state;
	flood_init(&f);
	raw_headers(&f.raw, 1, END_HEADERS, GET);
	for (unsigned i = 0; i < PIECES; i++)
		raw_data(&f.raw, 1, i + 1 == PIECES ? END_STREAM : 0, "x");
	do {
		size_t taken;

		assert_true(kh_h2_feed_turn(f.d.h2, kh_buf_view(&f.raw), TURN, 1000, &taken));
		kh_buf_consume(&f.raw, taken);
		drive_drain(&f.d);
		assert_true(kh_h2_turn_bytes(f.d.h2) <= TURN + 2 * KH_LIMIT_WORK_PER_PIECE);
		assert_true(f.d.counts[KH_H2_BODY] - before <= TURN / KH_LIMIT_WORK_PER_PIECE + 1);
		before = f.d.counts[KH_H2_BODY];
		work += kh_h2_turn_bytes(f.d.h2);
		calls++;
	} while (kh_h2_is_behind(f.d.h2));
	assert_int_equal(kh_buf_len(&f.raw), 0);
	assert_int_equal(f.d.counts[KH_H2_BODY], PIECES);
	assert_int_equal(f.d.counts[KH_H2_END], 1);
	assert_true(work >= (size_t)PIECES * KH_LIMIT_WORK_PER_PIECE);
	assert_true(calls >= work / (TURN + 2 * (size_t)KH_LIMIT_WORK_PER_PIECE));
	drive_fini(&f.d);
	kh_buf_fini(&f.raw);
}

/* Its caller does as much for each end as a turn holds. */
static void on_event_that_costs(const struct kh_h2_event *event, void *arg)
{
	struct drive *d = arg;

	drive_on_event(event, arg);
	if (event->kind == KH_H2_END)
		kh_h2_spend(d->h2, TURN);
}

static void flood_init_costly(struct flood *f)
{
	const struct kh_h2_settings settings = { .role = KH_H2_SERVER,
						 .max_streams = 256,
						 .stream_window_bytes = 65535,
						 .connection_window_bytes = 1 << 20 };

	flood_init(f);
	kh_h2_free(f->d.h2);
	f->d.h2 = kh_h2_new(&settings, on_event_that_costs, &f->d);
	assert_non_null(f->d.h2);
}

/* Ends of requests that do not end with their heads, each in one of the ways there are. */
static void put_ends(struct flood *f, uint32_t streams)
{
	for (uint32_t n = 0; n < streams; n++)
		raw_headers(&f->raw, 2 * n + 1, END_HEADERS, GET);
	for (uint32_t n = 0; n < streams; n++) {
		uint32_t id = 2 * n + 1;

		if (n % 4 < 2) {
			raw_data(&f->raw, id, END_STREAM, n % 4 ? "x" : "");
			continue;
		}
		raw_frame(&f->raw, HEADERS, n % 4 == 2 ? BOTH : END_STREAM, id, KH_SLICE(""));
		if (n % 4 == 3)
			raw_frame(&f->raw, CONTINUATION, END_HEADERS, id, KH_SLICE(""));
		raw_frame_u32(&f->raw, WINDOW_UPDATE, 0, 1);
	}
}

static void what_the_caller_does_for_an_end_ends_the_turn(void **state)
{
	enum { STREAMS = 200 };

	(void)state;
	/* In whatever pieces it comes; byte by byte, nghttp2 takes one CONTINUATION for many. */
	for (size_t piece = 2; piece <= 1 << 20; piece *= piece < 30 ? 2 : 1000) {
		struct flood f;
		struct kh_buf in;
		size_t at = 0;

		flood_init_costly(&f);
		put_ends(&f, STREAMS);
		kh_buf_init(&in, 1 << 20);
		while (at < kh_buf_len(&f.raw) || kh_h2_is_behind(f.d.h2)) {
			struct kh_slice came = kh_slice_sub(kh_buf_view(&f.raw), at, at + piece);
			size_t before = f.d.counts[KH_H2_END];
			size_t taken;

			/* Nothing is read while it is behind. */
			if (!kh_h2_is_behind(f.d.h2)) {
				assert_true(kh_buf_append_slice(&in, came));
				at += came.len;
			}
			assert_true(kh_h2_feed_turn(f.d.h2, kh_buf_view(&in), TURN, 1000, &taken));
			kh_buf_consume(&in, taken);
			drive_drain(&f.d);
			/* One in hand, and one more. */
			assert_true(f.d.counts[KH_H2_END] - before <= 2);
		}
		assert_int_equal(kh_buf_len(&in), 0);
		assert_int_equal(f.d.counts[KH_H2_END], STREAMS);
		drive_fini(&f.d);
		kh_buf_fini(&f.raw);
		kh_buf_fini(&in);
	}
}

/* What is out of order fails the connection after what came before it, in whichever turn. */
static void a_frame_out_of_order_ends_the_connection_in_a_later_turn_too(void **state)
{
	struct flood f;
	size_t taken;
	bool alive;

	(void)state;
	flood_init(&f);
	put_bomb(&f, 10);
	raw_data(&f.raw, 1, 0, "x"); /* of a stream that has ended */
	do {
		alive = kh_h2_feed_turn(f.d.h2, kh_buf_view(&f.raw), KH_LIMIT_H2_TURN_BYTES, 1000,
					&taken);
		kh_buf_consume(&f.raw, taken);
		drive_drain(&f.d);
	} while (alive && kh_h2_is_behind(f.d.h2));
	assert_false(alive);
	assert_int_equal(f.d.counts[KH_H2_HEAD], 10);
	assert_int_equal(f.d.counts[KH_H2_ERROR], 1);
	drive_fini(&f.d);
	kh_buf_fini(&f.raw);
}

static void begin_with(struct flood *f, uint32_t streams, uint32_t exchanges)
{
	flood_init(f);
	struct kh_h2_settings settings = { .role = KH_H2_SERVER,
					   .max_streams = streams,
					   .max_exchanges = exchanges,
					   .stream_window_bytes = 65535,
					   .connection_window_bytes = 1 << 20 };
	kh_h2_free(f->d.h2);
	f->d.h2 = kh_h2_new(&settings, drive_on_event, &f->d);
	assert_non_null(f->d.h2);
	f->d.answers = false;
}

static size_t count_of(const char *text, const char *what)
{
	size_t n = 0;

	for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
		n++;
	return n;
}

static void streams_for_tunnels_are_no_place_for_more_requests(void **state)
{
	enum { MOST = 8, OVER = 5, TUNNELS = 20 };
	struct flood f;
	uint32_t id = 1;

	(void)state;
	begin_with(&f, 64, MOST);
	for (unsigned i = 0; i < MOST + OVER; i++, id += 2)
		raw_headers(&f.raw, id, BOTH, GET);
	for (unsigned i = 0; i < TUNNELS; i++, id += 2)
		raw_headers(&f.raw, id, END_HEADERS, CONNECT);
	assert_true(flood_feed(&f));
	assert_int_equal(f.d.counts[KH_H2_HEAD], MOST + TUNNELS);
	assert_int_equal(count_of(kh_buf_cstr(&f.d.sent), " 7\n"), OVER); /* REFUSED_STREAM */
	/* One that has ended leaves its place. */
	assert_true(kh_h2_put_response(f.d.owned[0], 204, NULL, 0, true));
	drive_drain(&f.d);
	raw_headers(&f.raw, id, BOTH, GET);
	assert_true(flood_feed(&f));
	assert_int_equal(f.d.counts[KH_H2_HEAD], MOST + TUNNELS + 1);
	drive_fini(&f.d);
	kh_buf_fini(&f.raw);
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* The best of some: of what else runs on the machine as little as may be. */
static uint64_t end_ns(uint32_t tunnels)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		struct kh_err err = KH_ERR_INIT;
		struct flood f;

		begin_with(&f, tunnels, 0);
		f.d.answers = true;
		for (uint32_t n = 0; n < tunnels; n++)
			raw_headers(&f.raw, 2 * n + 1, END_HEADERS, CONNECT);
		assert_true(flood_feed(&f));
		assert_int_equal(f.d.counts[KH_H2_HEAD], tunnels);
		kh_err_set(&err, KH_ERR_DOWN_CLOSED, "gone");
		uint64_t before = cpu_ns();
		kh_h2_feed_eof(f.d.h2, &err);
		uint64_t took = cpu_ns() - before;
		best = took < best ? took : best;
		assert_int_equal(f.d.counts[KH_H2_RESET], tunnels);
		drive_fini(&f.d);
		kh_buf_fini(&f.raw);
	}
	return best;
}

/* Sixteen times as many: 16 is in proportion, 256 is each of them for each of them. */
static void the_end_of_a_connection_costs_each_stream_once(void **state)
{
	uint64_t few = end_ns(256), many = end_ns(16 * 256);

	(void)state;
	assert_true(many < 80 * few);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_turn_takes_so_many_bytes_of_heads_and_the_rest_comes_later),
		cmocka_unit_test(a_turn_takes_so_many_pieces_of_content_and_the_rest_comes_later),
		cmocka_unit_test(what_the_caller_does_for_an_end_ends_the_turn),
		cmocka_unit_test(a_frame_out_of_order_ends_the_connection_in_a_later_turn_too),
		cmocka_unit_test(streams_for_tunnels_are_no_place_for_more_requests),
		cmocka_unit_test(the_end_of_a_connection_costs_each_stream_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
