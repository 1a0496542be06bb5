/* test_h2_flow.c - who does not take makes the other wait, and no stream holds another up */
#include "h2_pair.h"

static void put_until_full(struct kh_h2_stream *stream, size_t *put)
{
	static char piece[16 * 1024];

	while (!kh_h2_is_full(stream)) {
		assert_true(kh_h2_put_data(stream, kh_slice_of(piece, sizeof(piece))));
		*put += sizeof(piece);
	}
}

static size_t taken;

static void count_body(struct drive *d, const struct kh_h2_event *event)
{
	(void)d;
	if (event->kind == KH_H2_BODY)
		taken += event->body.len;
	kh_buf_clear(&d->log);
}

/* Who does not take makes the other side wait, and all of it comes in the end. */
static void test_back_pressure_end_to_end(void **state)
{
	const struct kh_h2_settings settings = { .stream_window_bytes = 64 * 1024 };
	size_t put = 0, before;
	struct pair p;

	(void)state;
	taken = 0;
	pair_init(&p);
	p.down.also = count_body;
	p.down.pauses = true;
	ask(&p, "POST", NULL, 0, false);
	for (int i = 0; i < 10; i++) {
		put_until_full(p.request, &put);
		talk(&p);
	}
	/* A window on that side, a buffer on this one. */
	assert_int_equal(taken, 0);
	assert_true(put <= settings.stream_window_bytes + 2 * KH_LIMIT_RELAY_BYTES);
	assert_true(kh_h2_is_full(p.request));
	for (int i = 0; i < 20; i++) {
		before = taken;
		kh_h2_resume(p.down.last);
		assert_true(taken > before);
		kh_h2_pause(p.down.last);
		talk(&p);
		put_until_full(p.request, &put);
	}
	assert_true(p.up.counts[KH_H2_WRITABLE] > 0);
	assert_true(kh_h2_put_end(p.request, NULL, 0));
	talk(&p);
	assert_int_equal(p.down.counts[KH_H2_END], 0);
	kh_h2_resume(p.down.last);
	talk(&p);
	assert_int_equal(taken, put);
	assert_int_equal(p.down.counts[KH_H2_END], 1);
	pair_fini(&p);
}

/* One that is not taken does not hold the others, and the connection's window is its cap. */
static void test_a_paused_stream_holds_no_other(void **state)
{
	struct kh_h2_stream *first;
	size_t put = 0;
	struct pair p;

	(void)state;
	taken = 0;
	pair_init(&p);
	p.down.also = count_body;
	p.down.pauses = true;
	ask(&p, "POST", NULL, 0, false);
	first = p.request;
	put_until_full(first, &put);
	talk(&p);
	p.down.pauses = false;
	ask(&p, "POST", NULL, 0, false);
	put = 0;
	for (int i = 0; i < 10; i++) {
		put_until_full(p.request, &put);
		talk(&p);
	}
	assert_true(put >= 10 * 64 * 1024);
	assert_int_equal(taken, put);
	kh_h2_release(first);
	pair_fini(&p);
}

/* The reading side keeps its streams apart. */
static void pair_init_apart(struct pair *p)
{
	const struct kh_h2_settings apart = { .role = KH_H2_SERVER,
					      .max_streams = 100,
					      .stream_window_bytes = 64 * 1024,
					      .stream_window_most_bytes = 256 * 1024,
					      .connection_window_bytes = 128 * 1024,
					      .streams_apart = true };

	pair_init(p);
	kh_h2_free(p->down.h2);
	p->down.h2 = kh_h2_new(&apart, drive_on_event, &p->down);
	assert_non_null(p->down.h2);
}

/* … however much of the connection's window they take together, where they are kept apart. */
static void test_streams_kept_apart_use_up_no_common_window(void **state)
{
	struct kh_h2_stream *paused[4];
	size_t put = 0;
	struct pair p;

	(void)state;
	taken = 0;
	pair_init_apart(&p);
	p.down.also = count_body;
	p.down.pauses = true;
	for (int i = 0; i < 4; i++) {
		ask(&p, "POST", NULL, 0, false);
		paused[i] = p.request;
		put_until_full(p.request, &put);
		talk(&p);
	}
	assert_int_equal(taken, 0);
	assert_int_equal(kh_h2_kept_bytes(p.down.h2) / (64 * 1024), 4); /* a window each */
	p.down.pauses = false;
	ask(&p, "POST", NULL, 0, false);
	put = 0;
	for (int i = 0; i < 10; i++) {
		put_until_full(p.request, &put);
		talk(&p);
	}
	assert_true(put >= 10 * 64 * 1024);
	assert_int_equal(taken, put);
	for (int i = 0; i < 4; i++)
		kh_h2_release(paused[i]);
	pair_fini(&p);
}

/* So much more is taken of it, and no more. */
static void test_a_stream_is_widened_for_itself(void **state)
{
	size_t put = 0;
	struct pair p;

	(void)state;
	pair_init_apart(&p);
	p.down.pauses = true;
	ask(&p, "POST", NULL, 0, false);
	put_until_full(p.request, &put);
	talk(&p);
	assert_false(kh_h2_widen(p.down.last, 512 * 1024));
	assert_true(kh_h2_widen(p.down.last, 256 * 1024));
	for (int i = 0; i < 10; i++) {
		put_until_full(p.request, &put);
		talk(&p);
	}
	assert_in_range(kh_h2_kept_bytes(p.down.h2), 256 * 1024, 256 * 1024 + 8192);
	pair_fini(&p);
}

/* What was kept for a stream that is given up does not stay in the connection's window. */
static void test_the_window_comes_back_from_streams_given_up(void **state)
{
	struct pair p;

	(void)state;
	pair_init(&p);
	p.down.pauses = true;
	for (int i = 0; i < 20; i++) {
		size_t put = 0;

		ask(&p, "POST", NULL, 0, false);
		put_until_full(p.request, &put);
		talk(&p);
		kh_h2_release(p.request);
		talk(&p);
		assert_int_equal(p.down.counts[KH_H2_RESET], i + 1);
	}
	taken = 0;
	p.down.pauses = false;
	p.down.also = count_body;
	ask(&p, "POST", NULL, 0, false);
	assert_true(kh_h2_put_data(p.request, KH_SLICE("x")));
	talk(&p);
	assert_int_equal(taken, 1);
	pair_fini(&p);
}

/* §6.9.2: what has been sent already leaves the window below nothing. */
static void test_a_window_that_shrinks_below_nothing(void **state)
{
	struct kh_buf raw;
	struct drive d;

	(void)state;
	drive_init(&d, KH_H2_SERVER);
	raw_begin(&raw, KH_H2_SERVER);
	raw_frame(&raw, SETTINGS, 0, 0, KH_SLICE("\0\x04\0\0\0\x0a"));
	raw_headers(&raw, 1, BOTH, ":method=GET|:scheme=https|:authority=a|:path=/");
	assert_true(drive_feed(&d, kh_buf_view(&raw), 0));
	assert_true(kh_h2_put_response(d.last, 200, NULL, 0, false));
	assert_true(kh_h2_put_data(d.last, KH_SLICE("thirty bytes, of which ten go.")));
	drive_drain(&d);
	assert_int_equal(kh_h2_waiting_bytes(d.last), 20);

	/* 10 becomes 2, of which 10 are gone: -8. */
	static const struct {
		uint32_t more;
		size_t waiting;
	} steps[] = { { 0, 20 }, { 7, 20 }, { 1, 20 }, { 5, 15 }, { 100, 0 } };
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		kh_buf_clear(&raw);
		if (steps[i].more == 0)
			raw_frame(&raw, SETTINGS, 0, 0, KH_SLICE("\0\x04\0\0\0\x02"));
		else
			raw_frame_u32(&raw, WINDOW_UPDATE, 1, steps[i].more);
		assert_true(drive_feed(&d, kh_buf_view(&raw), 0));
		assert_int_equal(kh_h2_waiting_bytes(d.last), steps[i].waiting);
	}
	drive_fini(&d);
	kh_buf_fini(&raw);
}

static struct kh_h2_stream *watched;
static bool may_go_on;

static void watch_one(struct drive *d, const struct kh_h2_event *event)
{
	(void)d;
	may_go_on |= event->kind == KH_H2_WRITABLE && event->stream == watched;
}

/* It had room when it put; then what others put made the connection full. */
static void test_who_was_told_to_stop_is_told_to_go_on(void **state)
{
	enum { STREAMS = 20 };
	static char frame[16 * 1024];
	struct kh_h2_stream *streams[STREAMS];
	size_t put = 0;
	struct pair p;

	(void)state;
	pair_init(&p);
	p.up.also = count_body;
	for (int i = 0; i < STREAMS; i++) {
		ask(&p, "GET", NULL, 0, true);
		streams[i] = p.request;
		assert_true(kh_h2_put_response(p.down.last, 200, NULL, 0, false));
	}
	watched = p.down.owned[0];
	assert_true(kh_h2_put_data(watched, kh_slice_of(frame, sizeof(frame))));
	assert_false(kh_h2_is_full(watched));
	for (int i = 1; i < STREAMS; i++)
		put_until_full(p.down.owned[i], &put);
	assert_true(put >= KH_LIMIT_H2_OUT_BYTES - sizeof(frame));
	assert_true(kh_h2_is_full(watched));
	may_go_on = false;
	p.down.also = watch_one;
	talk(&p);
	assert_true(may_go_on);
	assert_int_equal(kh_h2_waiting_bytes(watched), 0);
	p.request = NULL;
	for (int i = 0; i < STREAMS; i++)
		kh_h2_release(streams[i]);
	pair_fini(&p);
}

/* All streams get their turn (a tunnel that is always full leaves room to the others). */
static void test_streams_share_the_connection(void **state)
{
	struct kh_h2_stream *streams[2];
	size_t put = 0;
	struct pair p;

	(void)state;
	pair_init(&p);
	for (int i = 0; i < 2; i++) {
		ask(&p, "GET", NULL, 0, true);
		streams[i] = p.request;
		assert_true(kh_h2_put_response(p.down.last, 200, NULL, 0, false));
	}
	for (int i = 0; i < 2; i++)
		put_until_full(p.down.owned[i], &put);
	(void)kh_h2_drain(p.down.h2, &p.down.out);
	struct kh_slice out = kh_buf_view(&p.down.out);
	size_t sent[4] = { 0 };
	while (out.len >= 9) {
		uint32_t len = drive_u32(out.ptr) >> 8, id = drive_u32(out.ptr + 5);

		if (out.ptr[3] == DATA && id < 4)
			sent[id] += len;
		out = kh_slice_sub(out, 9 + len, out.len);
	}
	assert_true(sent[1] >= 16384 && sent[3] >= 16384);
	p.request = NULL;
	kh_h2_release(streams[0]);
	kh_h2_release(streams[1]);
	pair_fini(&p);
}

static char large[30 * 1000];

enum { LARGE = 2 * sizeof(large) };

/* Heads need no window: what the peer does not read is counted, and stops what follows. */
static void test_heads_that_are_not_read_are_counted_and_few(void **state)
{
	const struct kh_field one = { KH_SLICE("a"), kh_slice_of(large, sizeof(large)) };
	const struct kh_field fields[] = { one, one };
	struct pair p;

	(void)state;
	memset(large, 'x', sizeof(large));
	pair_init(&p);
	ask(&p, "GET", NULL, 0, true);
	struct kh_h2_stream *s = p.down.last;
	size_t idle = kh_h2_kept_bytes(p.down.h2);
	assert_false(kh_h2_is_full(s));
	for (int i = 0; i < 10; i++)
		assert_true(kh_h2_put_response(s, 103, fields, 2, false));
	assert_in_range(kh_h2_kept_bytes(p.down.h2) - idle, LARGE, LARGE + 1000);
	/* Somebody may wait for a 100. */
	for (int i = 0; i < 10; i++)
		assert_true(kh_h2_put_response(s, 100, NULL, 0, false));
	assert_true(kh_h2_put_response(s, 200, fields, 2, false));
	assert_in_range(kh_h2_kept_bytes(p.down.h2) - idle, 2 * LARGE, 2 * LARGE + 2000);
	assert_int_equal(kh_h2_head_bytes_in_line(s), kh_h2_kept_bytes(p.down.h2) - idle);
	assert_true(kh_h2_is_full(s));
	size_t writable = p.down.counts[KH_H2_WRITABLE], heads = p.up.counts[KH_H2_HEAD];
	talk(&p);
	assert_int_equal(p.up.counts[KH_H2_HEAD] - heads, 3);
	assert_int_equal(p.down.counts[KH_H2_WRITABLE] - writable, 1);
	assert_int_equal(kh_h2_kept_bytes(p.down.h2), idle);
	const struct kh_field tail = { KH_SLICE("a"), KH_SLICE("b") };
	assert_true(kh_h2_put_end(s, &tail, 1));
	assert_in_range(kh_h2_kept_bytes(p.down.h2) - idle, 2, 100);
	talk(&p);
	assert_int_equal(kh_h2_kept_bytes(p.down.h2), idle);
	kh_h2_release(s);
	p.down.n_owned = 0;
	pair_fini(&p);
}

/* … also those of streams that the peer has closed, for as long as they are in memory. */
static void test_heads_of_closed_streams_are_counted_until_they_are_dropped(void **state)
{
	const struct kh_field one = { KH_SLICE("a"), kh_slice_of(large, sizeof(large)) };
	const struct kh_field fields[] = { one, one };
	struct pair p;

	(void)state;
	memset(large, 'x', sizeof(large));
	pair_init(&p);
	ask(&p, "GET", NULL, 0, true);
	size_t idle = kh_h2_kept_bytes(p.down.h2);
	assert_true(kh_h2_put_response(p.down.last, 103, fields, 2, false));
	kh_h2_reset(p.request, 8);
	(void)carry(&p.up, &p.down, 1000);
	assert_true(kh_h2_kept_bytes(p.down.h2) > idle + LARGE);
	talk(&p);
	assert_int_equal(kh_h2_kept_bytes(p.down.h2), idle);
	/* A head that is taken back counts no more, nor one that nobody takes any more. */
	kh_h2_release(p.request);
	ask(&p, "GET", NULL, 0, true);
	idle = kh_h2_kept_bytes(p.down.h2);
	assert_true(kh_h2_put_response(p.down.last, 200, fields, 2, false));
	assert_true(kh_h2_put_end(p.down.last, fields, 2));
	assert_true(kh_h2_kept_bytes(p.down.h2) > idle + 2 * LARGE);
	assert_true(kh_h2_take_back(p.down.last));
	assert_int_equal(kh_h2_kept_bytes(p.down.h2), idle);
	assert_true(kh_h2_put_response(p.down.last, 200, fields, 2, false));
	assert_true(kh_h2_put_end(p.down.last, fields, 2));
	kh_h2_reset(p.down.last, 8);
	talk(&p);
	assert_true(kh_h2_kept_bytes(p.down.h2) <= idle);
	pair_fini(&p);
}

/* A request's head, to an upstream that does not read. */
static void test_a_requests_head_counts_until_it_has_gone(void **state)
{
	const struct kh_field one = { KH_SLICE("a"), kh_slice_of(large, sizeof(large)) };
	const struct kh_field fields[] = { one, one };
	const struct kh_h2_request request = { .method = KH_SLICE("GET"),
					       .scheme = KH_SLICE("https"),
					       .authority = KH_SLICE("a.example"),
					       .path = KH_SLICE("/") };
	struct pair p;

	(void)state;
	memset(large, 'x', sizeof(large));
	pair_init(&p);
	talk(&p);
	p.request = kh_h2_put_request(p.up.h2, &request, fields, 2, 0, true);
	assert_true(kh_h2_head_bytes_in_line(p.request) > LARGE);
	assert_true(kh_h2_kept_bytes(p.up.h2) > LARGE);
	talk(&p);
	assert_int_equal(kh_h2_head_bytes_in_line(p.request), 0);
	assert_int_equal(kh_h2_kept_bytes(p.up.h2), 0);
	kh_h2_release(p.request);
	p.request = kh_h2_put_request(p.up.h2, &request, fields, 2, 0, true);
	kh_h2_reset(p.request, 8); /* it never goes */
	talk(&p);
	assert_int_equal(kh_h2_kept_bytes(p.up.h2), 0);
	pair_fini(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_back_pressure_end_to_end),
		cmocka_unit_test(test_a_paused_stream_holds_no_other),
		cmocka_unit_test(test_streams_kept_apart_use_up_no_common_window),
		cmocka_unit_test(test_a_stream_is_widened_for_itself),
		cmocka_unit_test(test_the_window_comes_back_from_streams_given_up),
		cmocka_unit_test(test_a_window_that_shrinks_below_nothing),
		cmocka_unit_test(test_who_was_told_to_stop_is_told_to_go_on),
		cmocka_unit_test(test_streams_share_the_connection),
		cmocka_unit_test(test_heads_that_are_not_read_are_counted_and_few),
		cmocka_unit_test(test_heads_of_closed_streams_are_counted_until_they_are_dropped),
		cmocka_unit_test(test_a_requests_head_counts_until_it_has_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
