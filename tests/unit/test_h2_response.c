/* test_h2_response.c - responses of HTTP/2 are read in one way or not at all (RFC 9113 §8) */
#include "h2_drive.h"

struct asked {
	struct drive d;
	struct kh_h2_stream *stream;
	struct kh_buf raw;
};

static void ask(struct asked *a, const char *method)
{
	const struct kh_h2_request request = { .method = kh_slice_str(method),
					       .scheme = KH_SLICE("https"),
					       .authority = KH_SLICE("a.example"),
					       .path = KH_SLICE("/") };

	drive_init(&a->d, KH_H2_CLIENT);
	raw_begin(&a->raw, KH_H2_CLIENT);
	a->stream = kh_h2_put_request(a->d.h2, &request, NULL, 0, 0, true);
	assert_non_null(a->stream);
	drive_drain(&a->d);
}

static void told(struct asked *a, const char *log, const char *sent)
{
	(void)drive_feed(&a->d, kh_buf_view(&a->raw), 0);
	drive_drain(&a->d);
	assert_string_equal(kh_buf_cstr(&a->d.log), log);
	assert_string_equal(kh_buf_cstr(&a->d.sent), sent);
	kh_h2_release(a->stream);
	drive_fini(&a->d);
	kh_buf_fini(&a->raw);
}

static void malformed(struct kh_slice fields, uint8_t flags)
{
	struct asked a;

	ask(&a, "GET");
	raw_headers_n(&a.raw, 1, flags, fields);
	told(&a, "RESET 1 RESPONSE_MALFORMED\n", "RST 1 1\n");
}
#define refuses(fields) malformed(KH_SLICE(fields), BOTH)

static void test_status(void **state)
{
	struct asked a;

	(void)state;
	ask(&a, "GET");
	raw_headers(&a.raw, 1, BOTH, ":status=200|server=x");
	told(&a, "HEAD 1 200 none\n  server=x\nEND 1\n", "");
	refuses("server=x");
	refuses(":status=200|:status=200");
	refuses(":status=20");
	refuses(":status=2000");
	refuses(":status=abc");
	refuses(":status=099");
	refuses(":status=600");
	refuses(":status=101");
	refuses("server=x|:status=200");
	refuses(":status=200|:path=/");
	refuses(":status=200|:method=GET");
}

static void test_fields(void **state)
{
	(void)state;
	refuses(":status=200|Server=x");
	refuses(":status=200|x=a\r\nb");
	refuses(":status=200|x=a\0");
	refuses(":status=200|x= a");
	refuses(":status=200|connection=close");
	refuses(":status=200|transfer-encoding=chunked");
	refuses(":status=200|transfer_encoding=chunked");
	refuses(":status=200|content_length=3");
	refuses(":status=200|upgrade=x");
	refuses(":status=200|te=trailers");
}

static void test_lengths(void **state)
{
	struct asked a;

	(void)state;
	ask(&a, "GET");
	raw_headers(&a.raw, 1, END_HEADERS, ":status=200|content-length=2");
	raw_data(&a.raw, 1, END_STREAM, "ok");
	told(&a, "HEAD 1 200 length 2\n  content-length=2\nBODY 1 ok\nEND 1\n", "");

	ask(&a, "GET");
	raw_headers(&a.raw, 1, END_HEADERS, ":status=200|content-length=3");
	raw_data(&a.raw, 1, END_STREAM, "ok");
	told(&a, "HEAD 1 200 length 3\n  content-length=3\nBODY 1 ok\nRESET 1 RESPONSE_MALFORMED\n",
	     "RST 1 1\n");
	refuses(":status=200|content-length=2");
	refuses(":status=204|content-length=2");
	malformed(KH_SLICE(":status=200|content-length=2|content-length=2"), END_HEADERS);
	malformed(KH_SLICE(":status=200|content-length=x"), END_HEADERS);
}

/* What a GET would bring may be announced, and nothing may come. */
static void test_responses_without_content(void **state)
{
	struct asked a;

	(void)state;
	ask(&a, "HEAD");
	raw_headers(&a.raw, 1, BOTH, ":status=200|content-length=5");
	told(&a, "HEAD 1 200 none 5\n  content-length=5\nEND 1\n", "");
	ask(&a, "HEAD");
	raw_headers(&a.raw, 1, END_HEADERS, ":status=200");
	raw_data(&a.raw, 1, END_STREAM, "x");
	told(&a, "HEAD 1 200 none\nRESET 1 RESPONSE_MALFORMED\n", "RST 1 1\n");
	ask(&a, "GET");
	raw_headers(&a.raw, 1, END_HEADERS, ":status=204");
	raw_data(&a.raw, 1, END_STREAM, "x");
	told(&a, "HEAD 1 204 none\nRESET 1 RESPONSE_MALFORMED\n", "RST 1 1\n");
	ask(&a, "GET");
	raw_headers(&a.raw, 1, END_HEADERS, ":status=304|content-length=5");
	raw_data(&a.raw, 1, END_STREAM, "");
	told(&a, "HEAD 1 304 none 5\n  content-length=5\nEND 1\n", "");
}

static void test_interim_responses(void **state)
{
	struct asked a;

	(void)state;
	ask(&a, "GET");
	raw_headers(&a.raw, 1, END_HEADERS, ":status=100");
	raw_headers(&a.raw, 1, END_HEADERS, ":status=103|link=x");
	raw_headers(&a.raw, 1, BOTH, ":status=200");
	told(&a, "HEAD 1 100 none\nHEAD 1 103 none\n  link=x\nHEAD 1 200 none\nEND 1\n", "");
	refuses(":status=103");
	malformed(KH_SLICE(":status=103|content-length=1"), END_HEADERS);

	ask(&a, "GET");
	raw_headers(&a.raw, 1, END_HEADERS, ":status=103");
	raw_data(&a.raw, 1, END_STREAM, "x");
	told(&a, "HEAD 1 103 none\nRESET 1 RESPONSE_MALFORMED\n", "RST 1 1\n");
}

static void test_interim_responses_without_end(void **state)
{
	struct asked a;

	(void)state;
	ask(&a, "GET");
	for (int i = 0; i < KH_LIMIT_INTERIM_RESPONSES + 1; i++)
		raw_headers(&a.raw, 1, END_HEADERS, ":status=103");
	(void)drive_feed(&a.d, kh_buf_view(&a.raw), 0);
	assert_int_equal(a.d.counts[KH_H2_HEAD], KH_LIMIT_INTERIM_RESPONSES);
	assert_int_equal(a.d.counts[KH_H2_RESET], 1);
	kh_h2_release(a.stream);
	drive_fini(&a.d);
	kh_buf_fini(&a.raw);
}

/* gRPC's status and a service's own come behind; what must not trail is left out. */
/* Each is within the cap of a head; a few bytes of HPACK could make as many. */
static void interim_heads_of_a_stream_are_bounded_in_bytes_too(void **state)
{
	enum { VALUE_BYTES = KH_LIMIT_INTERIM_BYTES / 4 };
	static char value[VALUE_BYTES];
	struct kh_buf block;
	struct asked a;

	(void)state;
	ask(&a, "GET");
	memset(value, 'v', sizeof(value));
	kh_buf_init(&block, 1 << 20);
	for (int i = 0; i < 4; i++) {
		kh_buf_clear(&block);
		raw_fields(&block, KH_SLICE(":status=103"));
		raw_field(&block, KH_SLICE("x-a"), kh_slice_of(value, sizeof(value)));
		struct kh_slice all = kh_buf_view(&block);
		raw_frame(&a.raw, HEADERS, 0, 1, kh_slice_sub(all, 0, 16000));
		raw_frame(&a.raw, CONTINUATION, END_HEADERS, 1, kh_slice_sub(all, 16000, all.len));
	}
	(void)drive_feed(&a.d, kh_buf_view(&a.raw), 0);
	assert_int_equal(a.d.counts[KH_H2_HEAD], 3);
	assert_int_equal(a.d.counts[KH_H2_RESET], 1);
	kh_h2_release(a.stream);
	kh_buf_fini(&block);
	drive_fini(&a.d);
	kh_buf_fini(&a.raw);
}

static void test_trailers(void **state)
{
	struct asked a;

	(void)state;
	ask(&a, "GET");
	raw_headers(&a.raw, 1, END_HEADERS, ":status=200");
	raw_data(&a.raw, 1, 0, "x");
	raw_headers(&a.raw, 1, BOTH,
		    "grpc-status=0|next-page-token=5|set-cookie=a|content-type=text/plain");
	told(&a, "HEAD 1 200 chunked\nBODY 1 x\nEND 1\n  grpc-status=0\n  next-page-token=5\n", "");
	ask(&a, "GET");
	raw_headers(&a.raw, 1, END_HEADERS, ":status=200");
	raw_headers(&a.raw, 1, BOTH, ":status=200");
	told(&a, "HEAD 1 200 chunked\nRESET 1 RESPONSE_MALFORMED\n", "RST 1 1\n");
}

static void test_a_head_that_is_too_large(void **state)
{
	struct kh_buf block;
	struct asked a;

	(void)state;
	ask(&a, "GET");
	kh_buf_init(&block, 1 << 20);
	raw_fields(&block, KH_SLICE(":status=200"));
	for (int i = 0; i <= KH_LIMIT_FIELDS; i++)
		raw_field(&block, KH_SLICE("x"), KH_SLICE("y"));
	raw_frame(&a.raw, HEADERS, BOTH, 1, kh_buf_view(&block));
	kh_buf_fini(&block);
	told(&a, "RESET 1 RESPONSE_HEAD_TOO_LARGE\n", "RST 1 1\n");
}

/* RFC 9113 §8.7, §6.8: what the server has not looked at may be sent again. */
static void test_what_was_not_processed(void **state)
{
	struct asked a;

	(void)state;
	ask(&a, "POST");
	raw_frame_u32(&a.raw, RST_STREAM, 1, 7);
	told(&a, "RESET 1 UP_CLOSED unprocessed\n", "");
	ask(&a, "POST");
	raw_frame(&a.raw, GOAWAY, 0, 0, KH_SLICE("\0\0\0\0\0\0\0\0"));
	told(&a, "GOAWAY\nRESET 1 UP_CLOSED unprocessed\n", "");
	ask(&a, "POST");
	raw_frame(&a.raw, GOAWAY, 0, 0, KH_SLICE("\0\0\0\x01\0\0\0\0"));
	raw_headers(&a.raw, 1, BOTH, ":status=200");
	told(&a, "GOAWAY\nHEAD 1 200 none\nEND 1\n", "");
	ask(&a, "POST");
	raw_frame_u32(&a.raw, RST_STREAM, 1, 2);
	told(&a, "RESET 1 UP_CLOSED\n", "");
}

/* §8.5: on a stream that CONNECT has opened there is DATA only; one that was refused is a response.
 */
static void test_fields_behind_connect(void **state)
{
	const struct kh_h2_request request = { .method = KH_SLICE("CONNECT"),
					       .authority = KH_SLICE("a.example:443") };

	(void)state;
	for (int opened = 0; opened < 2; opened++) {
		struct asked a;

		drive_init(&a.d, KH_H2_CLIENT);
		raw_begin(&a.raw, KH_H2_CLIENT);
		a.stream = kh_h2_put_request(a.d.h2, &request, NULL, 0, 0, false);
		assert_non_null(a.stream);
		drive_drain(&a.d);
		raw_headers_n(&a.raw, 1, END_HEADERS,
			      opened ? KH_SLICE(":status=200") : KH_SLICE(":status=403"));
		raw_data(&a.raw, 1, 0, "x");
		raw_headers(&a.raw, 1, BOTH, "x-sum=1");
		if (opened)
			told(&a, "HEAD 1 200 chunked\nBODY 1 x\nRESET 1 RESPONSE_MALFORMED\n",
			     "RST 1 1\n");
		else
			told(&a, "HEAD 1 403 chunked\nBODY 1 x\nEND 1\n  x-sum=1\n", "");
	}
}

/* §7: a code that nobody knows is a reset like any other. */
static void test_codes_that_nobody_knows(void **state)
{
	struct asked a;

	(void)state;
	ask(&a, "POST");
	raw_frame_u32(&a.raw, RST_STREAM, 1, 0xdeadbeef);
	told(&a, "RESET 1 UP_CLOSED\n", "");
	ask(&a, "POST");
	raw_frame(&a.raw, GOAWAY, 0, 0, KH_SLICE("\0\0\0\x01\xde\xad\xbe\xef"));
	raw_headers(&a.raw, 1, BOTH, ":status=200");
	told(&a, "GOAWAY\nHEAD 1 200 none\nEND 1\n", "");
}

/* §8.1: a whole answer, and then the rest of the request is not wanted. */
static void test_a_reset_behind_a_whole_answer_is_none(void **state)
{
	struct asked a;

	(void)state;
	ask(&a, "GET");
	raw_headers(&a.raw, 1, BOTH, ":status=413");
	raw_frame_u32(&a.raw, RST_STREAM, 1, 0);
	told(&a, "HEAD 1 413 none\nEND 1\n", "");
}

static void test_push_is_refused(void **state)
{
	struct asked a;

	(void)state;
	ask(&a, "GET");
	raw_frame(&a.raw, SETTINGS, ACK, 0, KH_SLICE(""));
	raw_frame(&a.raw, PUSH_PROMISE, END_HEADERS, 1, KH_SLICE("\0\0\0\x02\x82\x84\x87"));
	told(&a, "RESET 1 RESPONSE_MALFORMED\nERROR RESPONSE_MALFORMED\n", "GOAWAY 1\n");
}

static void test_streams_that_nobody_asked_for(void **state)
{
	struct asked a;

	(void)state;
	ask(&a, "GET");
	raw_headers(&a.raw, 3, BOTH, ":status=200");
	told(&a, "RESET 1 RESPONSE_MALFORMED\nERROR RESPONSE_MALFORMED\n", "GOAWAY 1\n");
	ask(&a, "GET");
	raw_data(&a.raw, 1, 0, "content before the head");
	told(&a, "RESET 1 RESPONSE_MALFORMED\nERROR RESPONSE_MALFORMED\n", "GOAWAY 1\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_status),
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_responses_without_content),
		cmocka_unit_test(test_interim_responses),
		cmocka_unit_test(test_interim_responses_without_end),
		cmocka_unit_test(interim_heads_of_a_stream_are_bounded_in_bytes_too),
		cmocka_unit_test(test_trailers),
		cmocka_unit_test(test_a_head_that_is_too_large),
		cmocka_unit_test(test_what_was_not_processed),
		cmocka_unit_test(test_fields_behind_connect),
		cmocka_unit_test(test_codes_that_nobody_knows),
		cmocka_unit_test(test_a_reset_behind_a_whole_answer_is_none),
		cmocka_unit_test(test_push_is_refused),
		cmocka_unit_test(test_streams_that_nobody_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
