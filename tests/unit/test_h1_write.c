/* test_h1_write.c - what is written is what a strict reader reads, or is not written */
#include "h1_drive.h"

static struct kh_buf out;

static int set_up(void **state)
{
	(void)state;
	kh_buf_init(&out, 4096);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	kh_buf_fini(&out);
	return 0;
}

static void holds(const char *text)
{
	assert_int_equal(kh_buf_len(&out), strlen(text));
	assert_memory_equal(kh_buf_view(&out).ptr, text, strlen(text));
}

static void test_a_request(void **state)
{
	struct kh_field trailer = { KH_SLICE("X-Sum"), KH_SLICE("1") };

	(void)state;
	assert_true(kh_h1_put_request_line(&out, KH_SLICE("POST"), KH_SLICE("/a?b")));
	assert_true(kh_h1_put_field(&out, KH_SLICE("Host"), KH_SLICE("a.example")));
	assert_true(kh_h1_put_field(&out, KH_SLICE("X-Empty"), KH_SLICE("")));
	assert_true(kh_h1_put_field(&out, KH_SLICE("Transfer-Encoding"), KH_SLICE("chunked")));
	assert_true(kh_h1_put_end(&out));
	assert_true(kh_h1_put_chunk_head(&out, 2));
	assert_true(kh_buf_append_str(&out, "hi\r\n"));
	assert_true(kh_h1_put_last_chunk(&out, &trailer, 1));
	holds("POST /a?b HTTP/1.1\r\nHost: a.example\r\nX-Empty: \r\nTransfer-Encoding: chunked\r\n"
	      "\r\n2\r\nhi\r\n0\r\nX-Sum: 1\r\n\r\n");

	char *log = drive_run(KH_H1_REQUESTS, NULL, kh_buf_view(&out), 0, false);
	assert_string_equal(log, "HEAD POST /a?b 1.1 chunked keep\n  Host=a.example\n  X-Empty=\n"
				 "  Transfer-Encoding=chunked\nBODY hi\nEND\n  X-Sum=1\n");
	free(log);
}

static void test_a_response(void **state)
{
	(void)state;
	assert_true(kh_h1_put_status_line(&out, 403, kh_slice_str(kh_h1_reason(403))));
	assert_true(kh_h1_put_field(&out, KH_SLICE("Content-Length"), KH_SLICE("0")));
	assert_true(kh_h1_put_end(&out));
	assert_true(kh_h1_put_status_line(&out, 299, kh_slice_str(kh_h1_reason(299))));
	holds("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\nHTTP/1.1 299 \r\n");
}

static void test_chunk_heads(void **state)
{
	(void)state;
	assert_true(kh_h1_put_chunk_head(&out, 1));
	assert_true(kh_h1_put_chunk_head(&out, 0x1a));
	assert_true(kh_h1_put_chunk_head(&out, SIZE_MAX));
	holds("1\r\n1a\r\nffffffffffffffff\r\n");
	kh_buf_clear(&out);
	/* "0" would be the last chunk. */
	assert_false(kh_h1_put_chunk_head(&out, 0));
	assert_true(kh_h1_put_last_chunk(&out, NULL, 0));
	holds("0\r\n\r\n");
}

/* Whatever came this far, nothing that splits a head gets onto the wire. */
static void test_nothing_is_written_that_splits_a_head(void **state)
{
	struct kh_field bad = { KH_SLICE("X"), KH_SLICE("a\r\nY: b") };

	(void)state;
	assert_false(kh_h1_put_field(&out, KH_SLICE("X"), KH_SLICE("a\r\nY: b")));
	assert_false(kh_h1_put_field(&out, KH_SLICE("X"), KH_SLICE("a\n")));
	assert_false(kh_h1_put_field(&out, KH_SLICE("X"), KH_SLICE("a\r")));
	assert_false(kh_h1_put_field(&out, KH_SLICE("X"), KH_SLICE("a\0b")));
	assert_false(kh_h1_put_field(&out, KH_SLICE("X"), KH_SLICE("0123456\x7f")));
	assert_false(kh_h1_put_field(&out, KH_SLICE("X: a\r\nY"), KH_SLICE("b")));
	assert_false(kh_h1_put_field(&out, KH_SLICE("X "), KH_SLICE("b")));
	assert_false(kh_h1_put_field(&out, KH_SLICE(""), KH_SLICE("b")));
	assert_false(kh_h1_put_request_line(&out, KH_SLICE("GET"), KH_SLICE("/ HTTP/1.1\r\nX: y")));
	assert_false(kh_h1_put_request_line(&out, KH_SLICE("GET"), KH_SLICE("/a b")));
	assert_false(kh_h1_put_request_line(&out, KH_SLICE("GET"), KH_SLICE("")));
	assert_false(kh_h1_put_request_line(&out, KH_SLICE("GET /x"), KH_SLICE("/")));
	assert_false(kh_h1_put_request_line(&out, KH_SLICE(""), KH_SLICE("/")));
	assert_false(kh_h1_put_status_line(&out, 200, KH_SLICE("OK\r\nX: y")));
	assert_false(kh_h1_put_status_line(&out, 99, KH_SLICE("")));
	assert_false(kh_h1_put_status_line(&out, 1000, KH_SLICE("")));
	assert_false(kh_h1_put_last_chunk(&out, &bad, 1));
	assert_int_equal(kh_buf_len(&out), 0);
}

static void test_over_the_cap_nothing_is_written(void **state)
{
	struct kh_buf small;
	struct kh_field trailer = { KH_SLICE("X"), KH_SLICE("y") };

	(void)state;
	kh_buf_init(&small, 9);
	assert_false(kh_h1_put_field(&small, KH_SLICE("Name"), KH_SLICE("value")));
	assert_false(kh_h1_put_last_chunk(&small, &trailer, 1));
	assert_int_equal(kh_buf_len(&small), 0);
	assert_true(kh_h1_put_last_chunk(&small, NULL, 0));
	kh_buf_fini(&small);
}

static void test_reasons(void **state)
{
	(void)state;
	assert_string_equal(kh_h1_reason(200), "OK");
	assert_string_equal(kh_h1_reason(421), "Misdirected Request");
	assert_string_equal(kh_h1_reason(999), "");
	/* Every status that a refusal of ours can have is named. */
	for (int code = 0; code < KH_ERR_COUNT; code++) {
		int status = kh_err_status((enum kh_err_code)code);

		if (status)
			assert_true(kh_h1_reason((uint16_t)status)[0] != '\0');
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_a_request),
		TEST(test_a_response),
		TEST(test_chunk_heads),
		TEST(test_nothing_is_written_that_splits_a_head),
		TEST(test_over_the_cap_nothing_is_written),
		TEST(test_reasons),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
