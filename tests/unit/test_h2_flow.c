/* test_h2_flow.c - two codecs talk: messages both ways, back-pressure, resets, goodbyes */
#include "h2_drive.h"

#define F(n, v) \
	{ \
		KH_SLICE_INIT(n), KH_SLICE_INIT(v) \
	}

struct pair {
	struct drive up; /* the client */
	struct drive down;
	struct kh_h2_stream *request;
};

static void pair_init(struct pair *p)
{
	drive_init(&p->up, KH_H2_CLIENT);
	drive_init(&p->down, KH_H2_SERVER);
	p->request = NULL;
}

/* One way; by frames or less, so that nothing depends on how it is cut. */
static bool carry(struct drive *from, struct drive *to, size_t piece)
{
	(void)kh_h2_drain(from->h2, &from->out);
	struct kh_slice bytes = kh_buf_view(&from->out);
	bool any = bytes.len > 0;

	while (bytes.len > 0) {
		struct kh_slice part = kh_slice_sub(bytes, 0, piece);

		(void)kh_h2_feed(to->h2, part, to->now_ms);
		bytes = kh_slice_sub(bytes, part.len, bytes.len);
	}
	kh_buf_consume(&from->out, kh_buf_len(&from->out));
	return any;
}

static void talk(struct pair *p)
{
	for (int i = 0; i < 1000; i++) {
		bool any = carry(&p->up, &p->down, 1000);

		any |= carry(&p->down, &p->up, 77);
		if (!any)
			return;
	}
	fail_msg("they never stop");
}

static void pair_fini(struct pair *p)
{
	if (p->request)
		kh_h2_release(p->request);
	drive_fini(&p->up);
	drive_fini(&p->down);
}

static void ask(struct pair *p, const char *method, const struct kh_field *fields, size_t n,
		bool end)
{
	const struct kh_h2_request request = { .method = kh_slice_str(method),
					       .scheme = KH_SLICE("https"),
					       .authority = KH_SLICE("a.example"),
					       .path = KH_SLICE("/") };

	p->request = kh_h2_put_request(p->up.h2, &request, fields, n, 0, end);
	assert_non_null(p->request);
	talk(p);
}

#define says(d, text) assert_string_equal(kh_buf_cstr(&(d).log), text)

static void test_request_and_response(void **state)
{
	static const struct kh_field fields[] = { F("Content-Length", "3"), F("X-One", "1") };
	static const struct kh_field early[] = { F("Link", "x") };
	static const struct kh_field trailers[] = { F("Grpc-Status", "0"), F("X-Bad", " 1"),
						    F("Content-Length", "1") };
	struct pair p;

	(void)state;
	pair_init(&p);
	ask(&p, "POST", fields, 2, false);
	assert_true(kh_h2_put_data(p.request, KH_SLICE("abc")));
	assert_true(kh_h2_put_end(p.request, NULL, 0));
	talk(&p);
	says(p.down, "HEAD 1 POST / at a.example by https length 3\n"
		     "  content-length=3\n  x-one=1\nBODY 1 abc\nEND 1\n");
	assert_true(kh_h2_put_response(p.down.last, 103, early, 1, false));
	assert_true(kh_h2_put_response(p.down.last, 200, early, 1, false));
	assert_false(kh_h2_put_response(p.down.last, 200, NULL, 0, false));
	assert_true(kh_h2_put_data(p.down.last, KH_SLICE("answer")));
	assert_true(kh_h2_put_end(p.down.last, trailers, 3));
	assert_false(kh_h2_put_data(p.down.last, KH_SLICE("more")));
	talk(&p);
	says(p.up, "HEAD 1 103 none\n  link=x\nHEAD 1 200 chunked\n  link=x\n"
		   "BODY 1 answer\nEND 1\n  grpc-status=0\n");
	assert_int_equal(kh_h2_streams(p.up.h2), 0);
	assert_int_equal(kh_h2_streams(p.down.h2), 0);
	pair_fini(&p);
}

/* Until it is drained, with all that was put behind it. */
static void test_a_head_is_taken_back(void **state)
{
	static const struct kh_field fields[] = { F("X-Two", "2") }, trailers[] = { F("T", "1") };
	struct pair p;

	(void)state;
	pair_init(&p);
	for (int whole = 0; whole < 2; whole++) {
		ask(&p, "GET", NULL, 0, true);
		assert_false(kh_h2_take_back(p.down.last));
		assert_true(kh_h2_put_response(p.down.last, 103, NULL, 0, false));
		assert_true(kh_h2_put_response(p.down.last, 200, fields, 1, whole));
		if (!whole) {
			assert_true(kh_h2_put_data(p.down.last, KH_SLICE("half")));
			assert_true(kh_h2_put_end(p.down.last, trailers, 1));
		}
		assert_true(kh_h2_wants_drain(p.down.h2));
		assert_true(kh_h2_take_back(p.down.last));
		assert_false(kh_h2_take_back(p.down.last));
		assert_int_equal(kh_h2_waiting_bytes(p.down.last), 0);
		assert_true(kh_h2_put_response(p.down.last, 502, NULL, 0, false));
		assert_true(kh_h2_put_data(p.down.last, KH_SLICE("why")));
		assert_true(kh_h2_put_end(p.down.last, NULL, 0));
		(void)kh_h2_drain(p.down.h2, &p.down.out);
		assert_false(kh_h2_take_back(p.down.last));
		talk(&p);
		if (!whole) {
			says(p.up, "HEAD 1 103 none\nHEAD 1 502 chunked\nBODY 1 why\nEND 1\n");
			kh_h2_release(p.request);
		}
	}
	pair_fini(&p);
}

/* One that is reset, or lost with its connection, is not sent. */
static void test_a_head_that_waits_goes_with_its_stream(void **state)
{
	struct pair p;

	(void)state;
	pair_init(&p);
	ask(&p, "GET", NULL, 0, true);
	assert_true(kh_h2_put_response(p.down.last, 200, NULL, 0, false));
	kh_h2_reset(p.down.last, 2);
	talk(&p);
	says(p.up, "RESET 1 UP_CLOSED\n");
	kh_h2_release(p.request);
	ask(&p, "GET", NULL, 0, true);
	assert_true(kh_h2_put_response(p.down.last, 200, NULL, 0, false));
	pair_fini(&p);
}

static void test_a_head_alone(void **state)
{
	struct pair p;

	(void)state;
	pair_init(&p);
	ask(&p, "GET", NULL, 0, true);
	assert_true(kh_h2_put_response(p.down.last, 204, NULL, 0, true));
	talk(&p);
	says(p.up, "HEAD 1 204 none\nEND 1\n");
	pair_fini(&p);
}

/* A response without content says how long it would be. */
static void test_head_and_304(void **state)
{
	static const struct kh_field length[] = { F("content-length", "500") };
	static const char *const methods[] = { "HEAD", "GET" };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct pair p;

		pair_init(&p);
		ask(&p, methods[i], NULL, 0, true);
		assert_true(kh_h2_put_response(p.down.last, i == 0 ? 200 : 304, length, 1, true));
		talk(&p);
		says(p.up, i == 0 ? "HEAD 1 200 none 500\n  content-length=500\nEND 1\n"
				  : "HEAD 1 304 none 500\n  content-length=500\nEND 1\n");
		pair_fini(&p);
	}
}

static void test_what_could_not_be_read_back_is_not_sent(void **state)
{
	static const struct kh_field bad[] = { F("x y", "1"), F("", "1"), F("x", "a\r\nb"),
					       F("x", " a"), F(":path", "/") };
	const struct kh_h2_request request = { .method = KH_SLICE("GET"),
					       .scheme = KH_SLICE("https"),
					       .authority = KH_SLICE("a.example"),
					       .path = KH_SLICE("/") };
	struct kh_h2_request odd = request;
	struct pair p;

	(void)state;
	pair_init(&p);
	talk(&p);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_null(kh_h2_put_request(p.up.h2, &request, &bad[i], 1, 0, true));
	odd.path = KH_SLICE("/ x");
	assert_null(kh_h2_put_request(p.up.h2, &odd, NULL, 0, 0, true));
	odd = request;
	odd.authority = KH_SLICE("");
	assert_null(kh_h2_put_request(p.up.h2, &odd, NULL, 0, 0, true));
	odd = request;
	odd.method = KH_SLICE("G T");
	assert_null(kh_h2_put_request(p.up.h2, &odd, NULL, 0, 0, true));
	talk(&p);
	assert_int_equal(kh_h2_streams(p.up.h2), 0);
	says(p.down, "");
	pair_fini(&p);
}

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

static void test_reset_by_either_side(void **state)
{
	struct pair p;

	(void)state;
	pair_init(&p);
	ask(&p, "POST", NULL, 0, false);
	kh_h2_release(p.request);
	talk(&p);
	says(p.down, "HEAD 1 POST / at a.example by https chunked\nRESET 1 DOWN_CLOSED\n");
	assert_false(kh_h2_put_response(p.down.last, 200, NULL, 0, true));

	ask(&p, "POST", NULL, 0, false);
	kh_h2_reset(p.down.last, 7);
	talk(&p);
	says(p.up, "RESET 3 UP_CLOSED unprocessed\n");
	assert_false(kh_h2_put_data(p.request, KH_SLICE("x")));
	kh_h2_release(p.request);

	ask(&p, "POST", NULL, 0, false);
	assert_true(kh_h2_put_response(p.down.last, 200, NULL, 0, false));
	talk(&p);
	kh_h2_reset(p.down.last, 2);
	talk(&p);
	says(p.up, "RESET 3 UP_CLOSED unprocessed\nHEAD 5 200 chunked\n"
		   "RESET 5 RESPONSE_INCOMPLETE\n");
	pair_fini(&p);
}

/* RFC 9113 §8.1: all of the answer, then RST_STREAM(NO_ERROR). */
static void test_an_answer_before_the_request_is_whole(void **state)
{
	struct pair p;

	(void)state;
	pair_init(&p);
	ask(&p, "POST", NULL, 0, false);
	assert_true(kh_h2_put_response(p.down.last, 413, NULL, 0, false));
	assert_true(kh_h2_put_data(p.down.last, KH_SLICE("too much")));
	assert_true(kh_h2_put_end(p.down.last, NULL, 0));
	kh_h2_release(p.down.last);
	p.down.n_owned = 0;
	talk(&p);
	says(p.up, "HEAD 1 413 chunked\nBODY 1 too much\nEND 1\n");
	assert_int_equal(kh_h2_streams(p.up.h2), 0);
	assert_false(kh_h2_put_data(p.request, KH_SLICE("x")));
	pair_fini(&p);
}

static void test_goaway_of_a_server(void **state)
{
	struct pair p;

	(void)state;
	pair_init(&p);
	ask(&p, "GET", NULL, 0, true);
	assert_true(kh_h2_capacity(p.up.h2) > 0);
	kh_h2_goaway(p.down.h2);
	talk(&p);
	assert_int_equal(kh_h2_capacity(p.up.h2), 0);
	assert_int_equal(p.up.counts[KH_H2_GOAWAY], 1);
	kh_h2_goaway(p.down.h2);
	assert_true(kh_h2_put_response(p.down.last, 200, NULL, 0, true));
	talk(&p);
	says(p.up, "GOAWAY\nGOAWAY\nHEAD 1 200 none\nEND 1\n");
	assert_true(kh_h2_is_over(p.down.h2));
	assert_null(kh_h2_error(p.down.h2));
	assert_null(kh_h2_error(p.up.h2));
	pair_fini(&p);
}

static void test_the_peers_streams_are_not_exceeded(void **state)
{
	struct kh_h2_stream *streams[100];
	struct pair p;

	(void)state;
	pair_init(&p);
	talk(&p);
	assert_int_equal(kh_h2_capacity(p.up.h2), 100);
	p.down.answers = true;
	p.down.pauses = true;
	for (int i = 0; i < 100; i++) {
		ask(&p, "GET", NULL, 0, true);
		streams[i] = p.request;
	}
	assert_int_equal(kh_h2_capacity(p.up.h2), 0);
	p.request = NULL;
	for (int i = 0; i < 100; i++)
		kh_h2_release(streams[i]);
	talk(&p);
	assert_int_equal(kh_h2_capacity(p.up.h2), 100);
	pair_fini(&p);
}

static void test_the_end_of_the_connection_resets_its_streams(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	struct pair p;

	(void)state;
	pair_init(&p);
	ask(&p, "GET", NULL, 0, true);
	kh_err_set(&err, KH_ERR_UP_CLOSED, "gone");
	kh_h2_feed_eof(p.up.h2, &err);
	says(p.up, "RESET 1 UP_CLOSED\n");
	pair_fini(&p);
}

static void test_ping(void **state)
{
	struct pair p;

	(void)state;
	pair_init(&p);
	assert_true(kh_h2_ping(p.up.h2));
	talk(&p);
	says(p.up, "PONG\n");
	pair_fini(&p);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_request_and_response),
		cmocka_unit_test(test_a_head_is_taken_back),
		cmocka_unit_test(test_a_head_that_waits_goes_with_its_stream),
		cmocka_unit_test(test_a_head_alone),
		cmocka_unit_test(test_head_and_304),
		cmocka_unit_test(test_what_could_not_be_read_back_is_not_sent),
		cmocka_unit_test(test_back_pressure_end_to_end),
		cmocka_unit_test(test_a_paused_stream_holds_no_other),
		cmocka_unit_test(test_the_window_comes_back_from_streams_given_up),
		cmocka_unit_test(test_a_window_that_shrinks_below_nothing),
		cmocka_unit_test(test_reset_by_either_side),
		cmocka_unit_test(test_an_answer_before_the_request_is_whole),
		cmocka_unit_test(test_goaway_of_a_server),
		cmocka_unit_test(test_the_peers_streams_are_not_exceeded),
		cmocka_unit_test(test_the_end_of_the_connection_resets_its_streams),
		cmocka_unit_test(test_ping),
		cmocka_unit_test(test_who_was_told_to_stop_is_told_to_go_on),
		cmocka_unit_test(test_streams_share_the_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
