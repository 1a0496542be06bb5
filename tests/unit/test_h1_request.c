/* test_h1_request.c - requests that are read, and what is made of them */
#include "h1_requests.h"

static void test_plain_request(void **state)
{
	(void)state;
	reads("GET /a?b=c HTTP/1.1\r\n" H "Accept:  text/html \t\r\nX-Empty:\r\n\r\n",
	      "HEAD GET /a?b=c 1.1 none keep\n" HOST_LOG "  Accept=text/html\n  X-Empty=\nEND\n");
}

static void test_case_and_order_of_fields_are_kept(void **state)
{
	(void)state;
	reads("GET / HTTP/1.1\r\nb: 1\r\nA: 2\r\nhOsT: x\r\nb: 3\r\n\r\n",
	      "HEAD GET / 1.1 none keep\n  b=1\n  A=2\n  hOsT=x\n  b=3\nEND\n");
}

static void test_content_by_length(void **state)
{
	(void)state;
	reads("POST / HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\nhello",
	      "HEAD POST / 1.1 length 5 keep\n" HOST_LOG "  Content-Length=5\nBODY hello\nEND\n");
	reads("POST / HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\n",
	      "HEAD POST / 1.1 length 0 keep\n" HOST_LOG "  Content-Length=0\nEND\n");
	reads("POST / HTTP/1.1\r\n" H "content-length:003\r\n\r\nabc",
	      "HEAD POST / 1.1 length 3 keep\n" HOST_LOG "  content-length=003\nBODY abc\nEND\n");
}

static void test_content_in_chunks(void **state)
{
	(void)state;
	reads("POST / HTTP/1.1\r\n" H "Transfer-Encoding: Chunked\r\n\r\n"
	      "5\r\nhello\r\n00A\r\n, 10 bytes\r\n0\r\n\r\n",
	      "HEAD POST / 1.1 chunked keep\n" HOST_LOG
	      "  Transfer-Encoding=Chunked\nBODY hello, 10 bytes\nEND\n");
}

static void test_chunk_extensions_are_read_and_dropped(void **state)
{
	(void)state;
	reads("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"
	      "2;a;b=c;d=\"e;\\\"\\\\ f\"\r\nok\r\n000;last\r\n\r\n",
	      "HEAD POST / 1.1 chunked keep\n" HOST_LOG
	      "  Transfer-Encoding=chunked\nBODY ok\nEND\n");
}

static void test_trailers(void **state)
{
	(void)state;
	reads("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"
	      "2\r\nok\r\n0\r\nX-Sum: 1\r\nx-two:  2 \r\ngrpc-status: 0\r\nServer-Timing: x\r\n\r\n"
	      "GET /next HTTP/1.1\r\n" H "\r\n",
	      "HEAD POST / 1.1 chunked keep\n" HOST_LOG
	      "  Transfer-Encoding=chunked\nBODY ok\nEND\n  X-Sum=1\n  x-two=2\n"
	      "  grpc-status=0\n  Server-Timing=x\n"
	      "HEAD GET /next 1.1 none keep\n" HOST_LOG "END\n");
}

static void test_pipelined_requests(void **state)
{
	(void)state;
	reads("POST /1 HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabc\r\n"
	      "GET /2 HTTP/1.1\r\n" H "\r\n"
	      "PUT /3 HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"
	      "DELETE /4 HTTP/1.1\r\n" H "\r\n",
	      "HEAD POST /1 1.1 length 3 keep\n" HOST_LOG "  Content-Length=3\nBODY abc\nEND\n"
	      "HEAD GET /2 1.1 none keep\n" HOST_LOG "END\n"
	      "HEAD PUT /3 1.1 chunked keep\n" HOST_LOG "  Transfer-Encoding=chunked\nBODY x\nEND\n"
	      "HEAD DELETE /4 1.1 none keep\n" HOST_LOG "END\n");
}

static void test_one_empty_line_before_a_request(void **state)
{
	(void)state;
	reads("\r\nGET / HTTP/1.1\r\n" H "\r\n", "HEAD GET / 1.1 none keep\n" HOST_LOG "END\n");
	refuses(REQUEST_MALFORMED, "\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n");
	refuses(REQUEST_MALFORMED, "\nGET / HTTP/1.1\r\n" H "\r\n");
	refuses(REQUEST_MALFORMED, "\rGET / HTTP/1.1\r\n" H "\r\n");
	refuses(REQUEST_MALFORMED, " GET / HTTP/1.1\r\n" H "\r\n");
}

static void test_connect(void **state)
{
	(void)state;
	reads("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n",
	      "HEAD CONNECT a.example:443 1.1 none keep\n  Host=a.example:443\nEND\n");
	/* Python's http.client. */
	reads("CONNECT a.example:443 HTTP/1.0\r\n\r\n",
	      "HEAD CONNECT a.example:443 1.0 none\nEND\n");
	reads("CONNECT a.example:443 HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\n",
	      "HEAD CONNECT a.example:443 1.1 none 0 keep\n" HOST_LOG "  Content-Length=0\nEND\n");
	refuses(REQUEST_MALFORMED, "CONNECT a:443 HTTP/1.1\r\n" H "Content-Length: 1\r\n\r\n");
	refuses(REQUEST_MALFORMED,
		"CONNECT a:443 HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n");
}

/* The bytes behind a CONNECT stay with the caller: they are the tunnel's. */
static void test_bytes_behind_an_end_are_left(void **state)
{
	struct kh_h1 *h1 = kh_h1_new(KH_H1_REQUESTS);
	struct kh_slice in = KH_SLICE("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n\x16\x03\x01");
	struct kh_slice body;

	(void)state;
	assert_true(kh_h1_is_idle(h1));
	assert_int_equal(kh_h1_feed(h1, &in, &body), KH_H1_HEAD);
	assert_int_equal(kh_h1_feed(h1, &in, &body), KH_H1_END);
	assert_true(kh_slice_eq(in, KH_SLICE("\x16\x03\x01")));
	assert_true(kh_h1_is_idle(h1));
	kh_h1_free(h1);
}

static void test_absolute_form_goes_through(void **state)
{
	(void)state;
	reads("GET http://a.example/x HTTP/1.1\r\n" H "\r\n",
	      "HEAD GET http://a.example/x 1.1 none keep\n" HOST_LOG "END\n");
}

static void test_host_is_there_once(void **state)
{
	(void)state;
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.1\r\n\r\n");
	refuses(REQUEST_MALFORMED, "GET http://a.example/ HTTP/1.1\r\n\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.1\r\n" H H "\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.1\r\n" H "host: b.example\r\n\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.1\r\nHost:\r\n\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.1\r\nHost: \t \r\n\r\n");
}

static void test_http_1_0(void **state)
{
	(void)state;
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.0\r\n\r\n");
	refuses(REQUEST_MALFORMED, "OPTIONS * HTTP/1.0\r\n\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.0\r\nHost:\r\n\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.0\r\n" H H "\r\n");
	reads("GET http://a.example/ HTTP/1.0\r\n\r\n",
	      "HEAD GET http://a.example/ 1.0 none\nEND\n");
	/* RFC 9112 §9.3: a proxy does not keep such a connection. */
	reads("GET / HTTP/1.0\r\n" H "Connection: keep-alive\r\n\r\n",
	      "HEAD GET / 1.0 none\n" HOST_LOG "  Connection=keep-alive\nEND\n");
	refuses(REQUEST_MALFORMED,
		"POST / HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
}

static void test_connection(void **state)
{
	(void)state;
	reads("GET / HTTP/1.1\r\n" H "Connection: close\r\n\r\n",
	      "HEAD GET / 1.1 none\n" HOST_LOG "  Connection=close\nEND\n");
	reads("GET / HTTP/1.1\r\n" H "Connection: , x ,, CLOSE ,\r\n\r\n",
	      "HEAD GET / 1.1 none\n" HOST_LOG "  Connection=, x ,, CLOSE ,\nEND\n");
	reads("GET / HTTP/1.1\r\n" H "Connection: keep-alive\r\nConnection: close\r\n\r\n",
	      "HEAD GET / 1.1 none\n" HOST_LOG
	      "  Connection=keep-alive\n  Connection=close\nEND\n");
	reads("GET / HTTP/1.1\r\n" H "Connection: closed\r\n\r\n",
	      "HEAD GET / 1.1 none keep\n" HOST_LOG "  Connection=closed\nEND\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.1\r\n" H "Connection: a b\r\n\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.1\r\n" H "Connection: close;x\r\n\r\n");
}

static void test_connection_takes_no_field_on_which_decisions_rest(void **state)
{
	static const char *const names[] = {
		"Host",	      "content-length",	    "Transfer-Encoding", "Authorization",
		"Cookie",     "x-api-key",	    "Content-Type",	 "cache-control",
		"Set-Cookie", "Proxy-Authenticate",
	};
	char text[256];

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n" H "Connection: close, %s\r\n\r\n",
			 names[i]);
		drive_refused(KH_H1_REQUESTS, NULL, kh_slice_str(text), KH_ERR_REQUEST_MALFORMED);
	}
}

static void test_hop_fields(void **state)
{
	static const char *const hop[] = {
		"Connection",	 "Keep-Alive",	      "proxy-connection",
		"X-Named",	 "Transfer-Encoding", "TE",
		"Trailer",	 "Upgrade",	      "Proxy-Authorization",
		"Content-Length"
	};
	static const char *const kept[] = { "Host", "X-Other", "Accept", "Via", "Authorization" };
	struct kh_h1 *h1 = kh_h1_new(KH_H1_REQUESTS);
	struct kh_slice in = KH_SLICE("GET / HTTP/1.1\r\n" H
				      "Connection: keep-alive, x-named\r\nX-Named: 1\r\n\r\n");
	struct kh_slice body;

	(void)state;
	assert_int_equal(kh_h1_feed(h1, &in, &body), KH_H1_HEAD);
	for (size_t i = 0; i < sizeof(hop) / sizeof(*hop); i++)
		assert_true(kh_message_is_hop_field(
			kh_h1_message(h1), &(struct kh_field){ .name = kh_slice_str(hop[i]) }));
	for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++)
		assert_false(kh_message_is_hop_field(
			kh_h1_message(h1), &(struct kh_field){ .name = kh_slice_str(kept[i]) }));
	assert_true(kh_slice_eq(kh_message_field(kh_h1_message(h1), KH_SLICE("x-NAMED"))->value,
				KH_SLICE("1")));
	assert_null(kh_message_field(kh_h1_message(h1), KH_SLICE("x-name")));
	assert_true(kh_slice_eq(kh_h1_message(h1)->host, KH_SLICE("a.example")));
	kh_h1_free(h1);
}

static void test_expect(void **state)
{
	(void)state;
	reads("POST / HTTP/1.1\r\n" H "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\nx",
	      "HEAD POST / 1.1 length 1 keep expect\n" HOST_LOG
	      "  Expect=100-Continue\n  Content-Length=1\nBODY x\nEND\n");
	/* Nothing to wait for. */
	reads("GET / HTTP/1.1\r\n" H "Expect: 100-continue\r\n\r\n",
	      "HEAD GET / 1.1 none keep\n" HOST_LOG "  Expect=100-continue\nEND\n");
	refuses(EXPECTATION_FAILED, "GET / HTTP/1.1\r\n" H "Expect: \r\n\r\n");
	refuses(EXPECTATION_FAILED, "GET / HTTP/1.1\r\n" H "Expect: 200-ok\r\n\r\n");
	refuses(EXPECTATION_FAILED, "GET / HTTP/1.1\r\n" H "Expect: 100-continue, x\r\n\r\n");
	refuses(EXPECTATION_FAILED,
		"GET / HTTP/1.1\r\n" H "Expect: 100-continue\r\nExpect: x\r\n\r\n");
}

static void test_upgrade_counts_with_its_option(void **state)
{
	(void)state;
	reads("GET / HTTP/1.1\r\n" H "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
	      "HEAD GET / 1.1 none keep upgrade\n" HOST_LOG
	      "  Connection=Upgrade\n  Upgrade=websocket\nEND\n");
	reads("GET / HTTP/1.1\r\n" H "Upgrade: websocket\r\n\r\n",
	      "HEAD GET / 1.1 none keep\n" HOST_LOG "  Upgrade=websocket\nEND\n");
	reads("GET / HTTP/1.0\r\n" H "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
	      "HEAD GET / 1.0 none\n" HOST_LOG "  Connection=Upgrade\n  Upgrade=websocket\nEND\n");
}

static void test_an_offer_of_h2c_is_ignored(void **state)
{
	(void)state;
	reads("GET / HTTP/1.1\r\n" H "Connection: Upgrade\r\nUpgrade: H2C\r\n\r\n",
	      "HEAD GET / 1.1 none keep\n" HOST_LOG "  Connection=Upgrade\n  Upgrade=H2C\nEND\n");
	reads("GET / HTTP/1.1\r\n" H "Connection: Upgrade\r\nUpgrade: h2c, websocket\r\n\r\n",
	      "HEAD GET / 1.1 none keep upgrade\n" HOST_LOG
	      "  Connection=Upgrade\n  Upgrade=h2c, websocket\nEND\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain_request),
		cmocka_unit_test(test_case_and_order_of_fields_are_kept),
		cmocka_unit_test(test_content_by_length),
		cmocka_unit_test(test_content_in_chunks),
		cmocka_unit_test(test_chunk_extensions_are_read_and_dropped),
		cmocka_unit_test(test_trailers),
		cmocka_unit_test(test_pipelined_requests),
		cmocka_unit_test(test_one_empty_line_before_a_request),
		cmocka_unit_test(test_connect),
		cmocka_unit_test(test_bytes_behind_an_end_are_left),
		cmocka_unit_test(test_absolute_form_goes_through),
		cmocka_unit_test(test_host_is_there_once),
		cmocka_unit_test(test_http_1_0),
		cmocka_unit_test(test_connection),
		cmocka_unit_test(test_connection_takes_no_field_on_which_decisions_rest),
		cmocka_unit_test(test_hop_fields),
		cmocka_unit_test(test_expect),
		cmocka_unit_test(test_upgrade_counts_with_its_option),
		cmocka_unit_test(test_an_offer_of_h2c_is_ignored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
