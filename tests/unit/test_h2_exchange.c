/* test_h2_exchange.c - requests and answers between two of our own, whole, taken back or reset */
#include "h2_pair.h"

#define F(n, v) \
	{ \
		KH_SLICE_INIT(n), KH_SLICE_INIT(v) \
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_request_and_response),
		cmocka_unit_test(test_a_head_is_taken_back),
		cmocka_unit_test(test_a_head_that_waits_goes_with_its_stream),
		cmocka_unit_test(test_a_head_alone),
		cmocka_unit_test(test_head_and_304),
		cmocka_unit_test(test_what_could_not_be_read_back_is_not_sent),
		cmocka_unit_test(test_reset_by_either_side),
		cmocka_unit_test(test_an_answer_before_the_request_is_whole),
		cmocka_unit_test(test_goaway_of_a_server),
		cmocka_unit_test(test_the_peers_streams_are_not_exceeded),
		cmocka_unit_test(test_the_end_of_the_connection_resets_its_streams),
		cmocka_unit_test(test_ping),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
