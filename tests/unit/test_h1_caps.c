/* test_h1_caps.c - every part of a request has its cap, and what is over is over */
#include "h1_requests.h"

/* Empty options, with `more` of them than there may be. */
static char *connection_options(int more)
{
	struct kh_buf text;

	kh_buf_init(&text, 4 << 10);
	kh_buf_append_str(&text, "GET / HTTP/1.1\r\n" H "Connection: ");
	for (int i = 1; i < KH_LIMIT_CONNECTION_OPTIONS + more; i++)
		kh_buf_append_str(&text, ",");
	kh_buf_append_str(&text, "\r\n\r\n");
	char *copy = kh_slice_dup(kh_buf_view(&text));
	assert_non_null(copy);
	kh_buf_fini(&text);
	return copy;
}

static void test_connection_options_are_bounded(void **state)
{
	char *over = connection_options(1), *fits = connection_options(0);

	(void)state;
	drive_refused(KH_H1_REQUESTS, NULL, kh_slice_str(over), KH_ERR_REQUEST_MALFORMED);
	char *log = drive_run(KH_H1_REQUESTS, NULL, kh_slice_str(fits), 0, false);
	assert_non_null(strstr(log, "END\n"));
	free(log);
	free(over);
	free(fits);
}

/* A text of `len` bytes between two others. */
static struct kh_slice filled(const char *before, size_t len, const char *behind)
{
	size_t all = strlen(before) + len + strlen(behind) + 1;
	char *text = malloc(all);

	assert_non_null(text);
	snprintf(text, all, "%s%*s%s", before, (int)len, "", behind);
	memset(text + strlen(before), 'a', len);
	return kh_slice_of(text, all - 1);
}

static void capped(const char *before, size_t most, const char *behind, enum kh_err_code code)
{
	struct kh_slice fits = filled(before, most, behind);
	struct kh_slice over = filled(before, most + 1, behind);
	struct kh_slice endless = filled(before, most + 1 + strlen(behind), "");
	char *log = drive_run(KH_H1_REQUESTS, NULL, fits, 0, false);
	char *bytewise = drive_run(KH_H1_REQUESTS, NULL, fits, 1, false);

	assert_null(strstr(log, "ERROR"));
	assert_non_null(strstr(log, "END"));
	assert_string_equal(log, bytewise);
	drive_refused(KH_H1_REQUESTS, NULL, over, code);
	/* Refused where the cap is, not at the end of a line that never comes. */
	drive_refused(KH_H1_REQUESTS, NULL, endless, code);
	free(log);
	free(bytewise);
	free((void *)(uintptr_t)fits.ptr);
	free((void *)(uintptr_t)over.ptr);
	free((void *)(uintptr_t)endless.ptr);
}

static void test_caps_of_lines(void **state)
{
	const size_t line = sizeof("GET / HTTP/1.1") - 1, field = sizeof("X:") - 1;

	(void)state;
	capped("GET /", KH_LIMIT_LINE_BYTES - line, " HTTP/1.1\r\n" H "\r\n",
	       KH_ERR_REQUEST_URI_TOO_LONG);
	capped("GET / HTTP/1.1\r\n" H "X:", KH_LIMIT_FIELD_BYTES - field, "\r\n\r\n",
	       KH_ERR_REQUEST_HEAD_TOO_LARGE);
	capped("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\nX:",
	       KH_LIMIT_TRAILER_BYTES - field - 4, "\r\n\r\n", KH_ERR_REQUEST_HEAD_TOO_LARGE);
	capped("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1;",
	       KH_LIMIT_CHUNK_LINE_BYTES - 4, "\r\nx\r\n0\r\n\r\n", KH_ERR_REQUEST_MALFORMED);
}

static void test_cap_of_the_head(void **state)
{
	struct kh_slice first = filled("GET / HTTP/1.1\r\n" H "X:", 30000, "\r\nY:");
	size_t left = KH_LIMIT_HEAD_BYTES - first.len - 4;

	(void)state;
	assert_true(left < 60000);
	struct kh_slice second = filled(first.ptr, 30000, "\r\nZ:");
	capped(second.ptr, left - 30000 - 4, "\r\n\r\n", KH_ERR_REQUEST_HEAD_TOO_LARGE);
	free((void *)(uintptr_t)first.ptr);
	free((void *)(uintptr_t)second.ptr);
}

static void test_cap_of_fields(void **state)
{
	struct kh_buf text;

	(void)state;
	for (int over = 0; over < 2; over++) {
		kh_buf_init(&text, 64 << 10);
		kh_buf_append_str(&text, "GET / HTTP/1.1\r\n" H);
		for (int i = 1; i < KH_LIMIT_FIELDS + over; i++)
			kh_buf_printf(&text, "X-%d: %d\r\n", i, i);
		kh_buf_append_str(&text, "\r\n");
		if (over) {
			drive_refused(KH_H1_REQUESTS, NULL, kh_buf_view(&text),
				      KH_ERR_REQUEST_HEAD_TOO_LARGE);
		} else {
			/* Grown several times on the way: the views have followed. */
			char *log = drive_run(KH_H1_REQUESTS, NULL, kh_buf_view(&text), 1, false);

			assert_non_null(strstr(log, "  Host=a.example\n  X-1=1\n  X-2=2\n"));
			assert_non_null(strstr(log, "  X-127=127\nEND\n"));
			free(log);
		}
		kh_buf_fini(&text);
	}
}

static void test_cap_of_all_chunk_extensions(void **state)
{
	struct kh_buf text;
	char ext[201];

	(void)state;
	memset(ext, 'a', 200);
	ext[200] = '\0';
	kh_buf_init(&text, 1024 << 10);
	kh_buf_append_str(&text, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n");
	for (int i = 0; i <= KH_LIMIT_CHUNK_EXT_BYTES / 200; i++)
		kh_buf_printf(&text, "1;%s\r\nx\r\n", ext);
	drive_refused(KH_H1_REQUESTS, NULL, kh_buf_view(&text), KH_ERR_REQUEST_MALFORMED);
	kh_buf_fini(&text);
}

static void test_a_connection_that_ends(void **state)
{
	static const struct {
		const char *bytes, *last;
	} cases[] = {
		{ "", "" },
		{ "\r\n", "" },
		{ "GET / HTTP/1.1\r\n" H "\r\n", "END\n" },
		{ "\r", "ERROR DOWN_CLOSED\n" },
		{ "G", "ERROR DOWN_CLOSED\n" },
		{ "GET / HTTP/1.1\r\n" H "\r", "ERROR DOWN_CLOSED\n" },
		{ "POST / HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\nx", "ERROR DOWN_CLOSED\n" },
		{ "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n",
		  "ERROR DOWN_CLOSED\n" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char *log = drive_run(KH_H1_REQUESTS, NULL, kh_slice_str(cases[i].bytes), 0, true);
		size_t len = strlen(log), want = strlen(cases[i].last);

		assert_true(len >= want);
		assert_string_equal(log + len - want, cases[i].last);
		if (want == 0)
			assert_int_equal(len, 0);
		drive_expect(KH_H1_REQUESTS, NULL, kh_slice_str(cases[i].bytes), true, log);
		free(log);
	}
}

/* For ever: not even a good request brings it back. */
static void test_an_error_is_final(void **state)
{
	struct kh_h1 *h1 = kh_h1_new(KH_H1_REQUESTS);
	struct kh_slice bad = KH_SLICE("\n"), good = KH_SLICE("GET / HTTP/1.1\r\n" H "\r\n"), body;

	(void)state;
	assert_null(kh_h1_error(h1));
	assert_int_equal(kh_h1_feed(h1, &bad, &body), KH_H1_ERROR);
	assert_int_equal(kh_h1_feed(h1, &good, &body), KH_H1_ERROR);
	assert_int_equal(kh_h1_feed_eof(h1), KH_H1_ERROR);
	assert_int_equal(kh_h1_error(h1)->code, KH_ERR_REQUEST_MALFORMED);
	assert_false(kh_h1_is_idle(h1));
	assert_null(kh_h1_message(h1));
	kh_h1_release(h1);
	assert_int_equal(kh_h1_error(h1)->code, KH_ERR_REQUEST_MALFORMED);
	kh_h1_free(h1);
}

static void test_views_last_until_the_next_message(void **state)
{
	struct kh_h1 *h1 = kh_h1_new(KH_H1_REQUESTS);
	char text[] =
		"POST /path HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\nT: 1\r\n\r\n";
	struct kh_slice in = { text, sizeof(text) - 1 }, body;
	size_t n;

	(void)state;
	assert_int_equal(kh_h1_feed(h1, &in, &body), KH_H1_HEAD);
	assert_int_equal(kh_h1_feed(h1, &in, &body), KH_H1_END);
	memset(text, 'x', sizeof(text));
	assert_int_equal(kh_h1_feed(h1, &in, &body), KH_H1_NEED_MORE);
	assert_true(kh_slice_eq(kh_h1_message(h1)->target, KH_SLICE("/path")));
	assert_true(kh_slice_eq(kh_h1_message(h1)->host, KH_SLICE("a.example")));
	assert_true(kh_slice_eq(kh_h1_trailers(h1, &n)->value, KH_SLICE("1")));
	assert_int_equal(n, 1);
	kh_h1_release(h1);
	assert_null(kh_h1_message(h1));
	assert_null(kh_h1_trailers(h1, &n));
	assert_int_equal(n, 0);
	/* And it serves again. */
	in = KH_SLICE("GET /2 HTTP/1.1\r\n" H "\r\n");
	assert_int_equal(kh_h1_feed(h1, &in, &body), KH_H1_HEAD);
	kh_h1_release(h1); /* not idle: kept */
	assert_true(kh_slice_eq(kh_h1_message(h1)->target, KH_SLICE("/2")));
	kh_h1_free(h1);
}

static void test_content_is_not_copied(void **state)
{
	struct kh_h1 *h1 = kh_h1_new(KH_H1_REQUESTS);
	const char *text = "POST / HTTP/1.1\r\n" H "Content-Length: 4\r\n\r\nabcd";
	struct kh_slice in = kh_slice_str(text), body;

	(void)state;
	assert_int_equal(kh_h1_feed(h1, &in, &body), KH_H1_HEAD);
	assert_int_equal(kh_h1_feed(h1, &in, &body), KH_H1_BODY);
	assert_ptr_equal(body.ptr, text + strlen(text) - 4);
	assert_int_equal(body.len, 4);
	assert_int_equal(kh_h1_feed(h1, &in, &body), KH_H1_END);
	kh_h1_free(h1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_connection_options_are_bounded),
		cmocka_unit_test(test_caps_of_lines),
		cmocka_unit_test(test_cap_of_the_head),
		cmocka_unit_test(test_cap_of_fields),
		cmocka_unit_test(test_cap_of_all_chunk_extensions),
		cmocka_unit_test(test_a_connection_that_ends),
		cmocka_unit_test(test_an_error_is_final),
		cmocka_unit_test(test_views_last_until_the_next_message),
		cmocka_unit_test(test_content_is_not_copied),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
