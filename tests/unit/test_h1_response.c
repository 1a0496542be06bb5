/* test_h1_response.c - responses are read in one way or not at all */
#include "h1_drive.h"

static void reads_to(const char *method, const char *bytes, bool eof, const char *expected)
{
	drive_expect(KH_H1_RESPONSES, method, kh_slice_str(bytes), eof, expected);
}

static void reads(const char *bytes, const char *expected)
{
	reads_to(NULL, bytes, false, expected);
}

#define refuses(bytes) \
	drive_refused(KH_H1_RESPONSES, NULL, KH_SLICE(bytes), KH_ERR_RESPONSE_MALFORMED)
#define OK "HTTP/1.1 200 OK\r\n"

static void test_plain_responses(void **state)
{
	(void)state;
	reads(OK "Content-Length: 2\r\n\r\nhi" OK "Content-Length: 0\r\n\r\n",
	      "HEAD 200 'OK' 1.1 length 2 keep\n  Content-Length=2\nBODY hi\nEND\n"
	      "HEAD 200 'OK' 1.1 length 0 keep\n  Content-Length=0\nEND\n");
	reads(OK "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 1\r\n\r\n",
	      "HEAD 200 'OK' 1.1 chunked keep\n  Transfer-Encoding=chunked\nBODY hi\nEND\n"
	      "  X-Sum=1\n");
}

static void test_content_until_the_connection_ends(void **state)
{
	(void)state;
	reads_to(NULL, OK "\r\nhello", true, "HEAD 200 'OK' 1.1 close\nBODY hello\nEND\n");
	reads_to(NULL, "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n", true,
		 "HEAD 200 'OK' 1.0 close\n  Connection=keep-alive\nEND\n");
}

static void test_keep_alive(void **state)
{
	(void)state;
	reads("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
	      "HEAD 200 'OK' 1.0 length 0\n  Content-Length=0\nEND\n");
	reads("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 0\r\n\r\n",
	      "HEAD 200 'OK' 1.0 length 0 keep\n  Connection=Keep-Alive\n  "
	      "Content-Length=0\nEND\n");
	reads(OK "Connection: close, x\r\nContent-Length: 0\r\n\r\n",
	      "HEAD 200 'OK' 1.1 length 0\n  Connection=close, x\n  Content-Length=0\nEND\n");
	reads("HTTP/1.0 200 OK\r\nConnection: keep-alive, close\r\nContent-Length: 0\r\n\r\n",
	      "HEAD 200 'OK' 1.0 length 0\n  Connection=keep-alive, close\n  "
	      "Content-Length=0\nEND\n");
}

static void test_statuses_without_content(void **state)
{
	(void)state;
	reads("HTTP/1.1 204 No Content\r\n\r\n" OK "Content-Length: 0\r\n\r\n",
	      "HEAD 204 'No Content' 1.1 none keep\nEND\n"
	      "HEAD 200 'OK' 1.1 length 0 keep\n  Content-Length=0\nEND\n");
	reads("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n" OK
	      "Content-Length: 0\r\n\r\n",
	      "HEAD 304 'Not Modified' 1.1 none 9 keep\n  Content-Length=9\nEND\n"
	      "HEAD 200 'OK' 1.1 length 0 keep\n  Content-Length=0\nEND\n");
	reads("HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n",
	      "HEAD 304 'Not Modified' 1.1 none keep\n  Transfer-Encoding=chunked\nEND\n");
	/* Seen in the wild, and to be read in one way only. */
	reads("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
	      "HEAD 204 'No Content' 1.1 none 0 keep\n  Content-Length=0\nEND\n");
	refuses("HTTP/1.1 204 No Content\r\nContent-Length: 1\r\n\r\nx");
	refuses("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
	refuses("HTTP/1.1 100 Continue\r\nContent-Length: 1\r\n\r\nx");
	refuses("HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
	refuses("HTTP/1.1 101 Switching Protocols\r\nTransfer-Encoding: chunked\r\n\r\n");
}

static void test_head(void **state)
{
	(void)state;
	/* Only the one response; the next is a plain one again. */
	reads_to("HEAD", OK "Content-Length: 5\r\n\r\n" OK "Content-Length: 1\r\n\r\nx", false,
		 "HEAD 200 'OK' 1.1 none 5 keep\n  Content-Length=5\nEND\n"
		 "HEAD 200 'OK' 1.1 length 1 keep\n  Content-Length=1\nBODY x\nEND\n");
	reads_to("HEAD", OK "Transfer-Encoding: chunked\r\n\r\n", false,
		 "HEAD 200 'OK' 1.1 none keep\n  Transfer-Encoding=chunked\nEND\n");
	reads_to("HEAD", OK "\r\n", false, "HEAD 200 'OK' 1.1 none keep\nEND\n");
	drive_refused(KH_H1_RESPONSES, "HEAD",
		      KH_SLICE(OK "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"),
		      KH_ERR_RESPONSE_MALFORMED);
	/* Methods are case-sensitive. */
	reads_to("head", OK "Content-Length: 1\r\n\r\nx", false,
		 "HEAD 200 'OK' 1.1 length 1 keep\n  Content-Length=1\nBODY x\nEND\n");
}

static void test_interim_responses(void **state)
{
	(void)state;
	reads("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n" OK
	      "Content-Length: 0\r\n\r\n",
	      "HEAD 100 'Continue' 1.1 none keep\nHEAD 103 'Early Hints' 1.1 none keep\n"
	      "  Link=<x>\nHEAD 200 'OK' 1.1 length 0 keep\n  Content-Length=0\nEND\n");
	/* What the request's method means outlives them. */
	reads_to("HEAD", "HTTP/1.1 100 Continue\r\n\r\n" OK "Content-Length: 5\r\n\r\n", false,
		 "HEAD 100 'Continue' 1.1 none keep\n"
		 "HEAD 200 'OK' 1.1 none 5 keep\n  Content-Length=5\nEND\n");
	reads_to(NULL, "HTTP/1.1 100 Continue\r\n\r\n", true,
		 "HEAD 100 'Continue' 1.1 none keep\nERROR RESPONSE_INCOMPLETE\n");
}

static void test_interim_responses_are_bounded(void **state)
{
	struct kh_buf text;

	(void)state;
	for (int over = 0; over < 2; over++) {
		kh_buf_init(&text, 4096);
		for (int i = 0; i < KH_LIMIT_INTERIM_RESPONSES + over; i++)
			kh_buf_append_str(&text, "HTTP/1.1 102 Processing\r\n\r\n");
		kh_buf_append_str(&text, OK "Content-Length: 0\r\n\r\n");
		if (over) {
			drive_refused(KH_H1_RESPONSES, NULL, kh_buf_view(&text),
				      KH_ERR_RESPONSE_MALFORMED);
		} else {
			char *log = drive_run(KH_H1_RESPONSES, NULL, kh_buf_view(&text), 0, false);

			assert_non_null(strstr(log, "END\n"));
			free(log);
		}
		kh_buf_fini(&text);
	}
}

static void put_interim(struct kh_buf *text, size_t value_bytes)
{
	kh_buf_append_str(text, "HTTP/1.1 103 Early Hints\r\nX-A: ");
	for (size_t i = 0; i < value_bytes; i++)
		kh_buf_append_char(text, 'v');
	kh_buf_append_str(text, "\r\n\r\n");
}

/* Of each response anew. */
static void test_interim_heads_are_bounded_in_bytes_too(void **state)
{
	enum { EACH = KH_LIMIT_INTERIM_BYTES / 4, AROUND = 35 };
	const size_t most = EACH - AROUND;
	struct kh_buf text;

	(void)state;
	for (int over = 0; over < 2; over++) {
		kh_buf_init(&text, 4 * KH_LIMIT_INTERIM_BYTES);
		for (int response = 0; response < 2; response++) {
			for (int i = 0; i < 4; i++)
				put_interim(&text, over && response && i == 3 ? most + 1 : most);
			kh_buf_append_str(&text, OK "Content-Length: 0\r\n\r\n");
		}
		if (over) {
			drive_refused(KH_H1_RESPONSES, NULL, kh_buf_view(&text),
				      KH_ERR_RESPONSE_MALFORMED);
		} else {
			char *log = drive_run(KH_H1_RESPONSES, NULL, kh_buf_view(&text), 0, false);
			const char *end = strstr(log, "END\n");

			assert_non_null(end);
			assert_non_null(strstr(end + 1, "END\n"));
			free(log);
		}
		kh_buf_fini(&text);
	}
}

static void test_idle_is_between_messages_only(void **state)
{
	struct kh_h1 *h1 = kh_h1_new(KH_H1_RESPONSES);
	struct kh_slice in = KH_SLICE("HTTP/1.1 100 Continue\r\n\r\n"), body;

	(void)state;
	assert_true(kh_h1_is_idle(h1));
	assert_int_equal(kh_h1_feed_eof(h1), KH_H1_NEED_MORE);
	assert_int_equal(kh_h1_feed(h1, &in, &body), KH_H1_HEAD);
	assert_int_equal(kh_h1_feed(h1, &in, &body), KH_H1_NEED_MORE);
	assert_false(kh_h1_is_idle(h1));
	in = KH_SLICE("H");
	assert_int_equal(kh_h1_feed(h1, &in, &body), KH_H1_NEED_MORE);
	assert_false(kh_h1_is_idle(h1));
	in = KH_SLICE("TTP/1.1 204 x\r\n\r\n");
	assert_int_equal(kh_h1_feed(h1, &in, &body), KH_H1_HEAD);
	assert_false(kh_h1_is_idle(h1)); /* its END is owed */
	assert_int_equal(kh_h1_feed(h1, &in, &body), KH_H1_END);
	assert_true(kh_h1_is_idle(h1));
	kh_h1_free(h1);
}

static void test_switching_protocols_leaves_the_rest(void **state)
{
	(void)state;
	reads("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: "
	      "websocket\r\n\r\n",
	      "HEAD 101 'Switching Protocols' 1.1 none keep upgrade\n  Connection=upgrade\n"
	      "  Upgrade=websocket\nEND\n");

	struct kh_h1 *h1 = kh_h1_new(KH_H1_RESPONSES);
	struct kh_slice in = KH_SLICE("HTTP/1.1 101 x\r\n\r\n\x81\x02hi"), body;
	assert_int_equal(kh_h1_feed(h1, &in, &body), KH_H1_HEAD);
	assert_int_equal(kh_h1_feed(h1, &in, &body), KH_H1_END);
	assert_int_equal(kh_h1_feed(h1, &in, &body), KH_H1_NEED_MORE);
	assert_true(kh_slice_eq(in, KH_SLICE("\x81\x02hi")));
	assert_int_equal(kh_h1_feed_eof(h1), KH_H1_NEED_MORE);
	assert_false(kh_h1_is_idle(h1)); /* never again for a pool */
	kh_h1_release(h1);
	assert_int_equal(kh_h1_feed(h1, &in, &body), KH_H1_NEED_MORE);
	kh_h1_free(h1);
}

static void test_connect_success_leaves_the_rest(void **state)
{
	struct kh_h1 *h1 = kh_h1_new(KH_H1_RESPONSES);
	/* RFC 9110 §9.3.6: the length means nothing here. */
	struct kh_slice in = KH_SLICE(OK "Content-Length: 5\r\n\r\nTUNNEL"), body;

	(void)state;
	kh_h1_expect_response_to(h1, KH_SLICE("CONNECT"));
	assert_int_equal(kh_h1_feed(h1, &in, &body), KH_H1_HEAD);
	assert_int_equal(kh_h1_feed(h1, &in, &body), KH_H1_END);
	assert_int_equal(kh_h1_feed(h1, &in, &body), KH_H1_NEED_MORE);
	assert_true(kh_slice_eq(in, KH_SLICE("TUNNEL")));
	kh_h1_free(h1);
	reads_to("CONNECT", "HTTP/1.1 407 Who\r\nContent-Length: 2\r\n\r\nno", false,
		 "HEAD 407 'Who' 1.1 length 2 keep\n  Content-Length=2\nBODY no\nEND\n");
	drive_refused(KH_H1_RESPONSES, "CONNECT", KH_SLICE(OK "Content-Length: +5\r\n\r\n"),
		      KH_ERR_RESPONSE_MALFORMED);
}

static void test_status_line(void **state)
{
	(void)state;
	reads("HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n",
	      "HEAD 200 '' 1.1 length 0 keep\n  Content-Length=0\nEND\n");
	reads("HTTP/1.1 599 a\tb  \xc3\xa9\r\nContent-Length: 0\r\n\r\n",
	      "HEAD 599 'a\tb  \xc3\xa9' 1.1 length 0 keep\n  Content-Length=0\nEND\n");
	refuses("HTTP/1.1 200\r\n\r\n");
	refuses("HTTP/1.1  200 OK\r\n\r\n");
	refuses("HTTP/1.1\t200 OK\r\n\r\n");
	refuses("HTTP/1.1 2000 OK\r\n\r\n");
	refuses("HTTP/1.1 20 OK\r\n\r\n");
	refuses("HTTP/1.1 2x0 OK\r\n\r\n");
	refuses("HTTP/1.1 +20 OK\r\n\r\n");
	refuses("HTTP/1.1 099 OK\r\n\r\n");
	refuses("HTTP/1.1 600 OK\r\n\r\n");
	refuses("HTTP/1.1 999 OK\r\n\r\n");
	refuses("HTTP/1.1 200 O\0K\r\n\r\n");
	refuses("HTTP/1.1 200 O\rK\r\n\r\n");
	refuses("HTTP/1.1 200 OK\n\r\n");
	refuses("HTTP/1.2 200 OK\r\n\r\n");
	refuses("HTTP/2.0 200 OK\r\n\r\n");
	refuses("HTTP/0.9 200 OK\r\n\r\n");
	refuses("HTTP/1.1\r\n\r\n");
	refuses("HTTP/2 200\r\n\r\n");
	refuses("http/1.1 200 OK\r\n\r\n");
	refuses("ICY 200 OK\r\n\r\n");
	refuses("\r\n" OK "\r\n");
	refuses("\n");
	refuses("<html>");
	refuses("\x15\x03\x01");
}

static void test_framing_that_differs_between_readers(void **state)
{
	(void)state;
	refuses(OK "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello");
	refuses(OK "Content-Length: 5, 5\r\n\r\nhello");
	refuses(OK "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
	refuses(OK "content_length: 5\r\nContent-Length: 0\r\n\r\n");
	refuses(OK "transfer_encoding: chunked\r\nContent-Length: 0\r\n\r\n");
	refuses(OK "Content.Length: 0\r\n\r\n");
	refuses(OK "Content-Length: 0x5\r\n\r\nhello");
	refuses(OK "Content-Length: -1\r\n\r\n");
	refuses(OK "Content-Length: 9223372036854775808\r\n\r\n");
	refuses(OK "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n");
	refuses(OK "Transfer-Encoding: gzip\r\n\r\n");
	refuses(OK "Transfer-Encoding: identity\r\n\r\n");
	refuses(OK "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
	refuses("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
	refuses(OK "Connection: content-length\r\nContent-Length: 1\r\n\r\nx");
	refuses(OK "X: a\r\n b\r\nContent-Length: 0\r\n\r\n");
	refuses(OK "X : a\r\nContent-Length: 0\r\n\r\n");
	refuses(OK "X: a\0\r\nContent-Length: 0\r\n\r\n");
	refuses(OK "X: a\nContent-Length: 0\r\n\r\n");
	refuses(OK "Transfer-Encoding: chunked\r\n\r\n2 \r\nhi\r\n0\r\n\r\n");
	refuses(OK "Transfer-Encoding: chunked\r\n\r\n2\r\nhi!\r\n0\r\n\r\n");
	refuses(OK "Transfer-Encoding: chunked\r\n\r\n0\r\nSet-Cookie: a\r\n\r\n");
	refuses(OK "Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 3\r\n\r\n");
}

/* Host means nothing in a response. */
static void test_host_is_the_requests_affair(void **state)
{
	(void)state;
	reads(OK "Host: a\r\nHost: b\r\nContent-Length: 0\r\n\r\n",
	      "HEAD 200 'OK' 1.1 length 0 keep\n  Host=a\n  Host=b\n  Content-Length=0\nEND\n");
	reads(OK "Expect: x\r\nContent-Length: 0\r\n\r\n",
	      "HEAD 200 'OK' 1.1 length 0 keep\n  Expect=x\n  Content-Length=0\nEND\n");
}

static void test_caps(void **state)
{
	static const struct {
		const char *before;
		size_t len;
	} cases[] = {
		{ "HTTP/1.1 200 ", KH_LIMIT_LINE_BYTES },
		{ OK "X:", KH_LIMIT_FIELD_BYTES },
		{ OK "Transfer-Encoding: chunked\r\n\r\n0\r\nX:", KH_LIMIT_TRAILER_BYTES },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct kh_buf text;

		kh_buf_init(&text, 128 << 10);
		kh_buf_append_str(&text, cases[i].before);
		memset(kh_buf_reserve(&text, cases[i].len), 'a', cases[i].len);
		kh_buf_commit(&text, cases[i].len);
		drive_refused(KH_H1_RESPONSES, NULL, kh_buf_view(&text),
			      KH_ERR_RESPONSE_HEAD_TOO_LARGE);
		kh_buf_fini(&text);
	}
}

static void test_an_upstream_that_goes_away(void **state)
{
	static const char *const cut[] = {
		"H",
		OK,
		OK "Content-Length: 2\r\n\r\nx",
		OK "Transfer-Encoding: chunked\r\n\r\n",
		OK "Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
		OK "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
		OK "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cut) / sizeof(*cut); i++) {
		char *log = drive_run(KH_H1_RESPONSES, NULL, kh_slice_str(cut[i]), 0, true);

		assert_non_null(strstr(log, "ERROR RESPONSE_INCOMPLETE\n"));
		assert_null(strstr(log, "END\n"));
		drive_expect(KH_H1_RESPONSES, NULL, kh_slice_str(cut[i]), true, log);
		free(log);
	}
}

static void test_how_long_a_server_keeps_its_connections(void **state)
{
	static const struct {
		const char *value;
		uint32_t seconds;
	} cases[] = {
		{ "timeout=5", 5 },
		{ "timeout=5, max=100", 5 },
		{ "max=100, timeout=5", 5 },
		{ "Timeout = 75", 75 },
		{ "timeout=0", 0 },
		{ "", UINT32_MAX },
		{ "max=3", UINT32_MAX },
		{ "timeout", UINT32_MAX },
		{ "timeout=", UINT32_MAX },
		{ "timeout=-1", UINT32_MAX },
		{ "timeout=99999999999999999999", UINT32_MAX },
	};
	static struct kh_message message = { .n_fields = 1 };

	(void)state;
	message.fields[0].name = KH_SLICE("keep-alive");
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		message.fields[0].value = kh_slice_str(cases[i].value);
		assert_int_equal(kh_message_kept_seconds(&message), cases[i].seconds);
	}
	message.n_fields = 0;
	assert_int_equal(kh_message_kept_seconds(&message), UINT32_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain_responses),
		cmocka_unit_test(test_content_until_the_connection_ends),
		cmocka_unit_test(test_keep_alive),
		cmocka_unit_test(test_statuses_without_content),
		cmocka_unit_test(test_head),
		cmocka_unit_test(test_interim_responses),
		cmocka_unit_test(test_interim_responses_are_bounded),
		cmocka_unit_test(test_interim_heads_are_bounded_in_bytes_too),
		cmocka_unit_test(test_idle_is_between_messages_only),
		cmocka_unit_test(test_switching_protocols_leaves_the_rest),
		cmocka_unit_test(test_connect_success_leaves_the_rest),
		cmocka_unit_test(test_status_line),
		cmocka_unit_test(test_framing_that_differs_between_readers),
		cmocka_unit_test(test_host_is_the_requests_affair),
		cmocka_unit_test(test_caps),
		cmocka_unit_test(test_an_upstream_that_goes_away),
		cmocka_unit_test(test_how_long_a_server_keeps_its_connections),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
