/* test_h1_request.c - requests are read in one way or not at all */
#include "h1_drive.h"

#define H "Host: a.example\r\n"
#define HOST_LOG "  Host=a.example\n"

static void reads(const char *bytes, const char *expected)
{
	drive_expect(KH_H1_REQUESTS, NULL, kh_slice_str(bytes), false, expected);
}

#define refuses(code, bytes) drive_refused(KH_H1_REQUESTS, NULL, KH_SLICE(bytes), KH_ERR_##code)

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

static void test_request_line(void **state)
{
	(void)state;
	refuses(REQUEST_MALFORMED, "GET  / HTTP/1.1\r\n" H "\r\n");
	refuses(REQUEST_MALFORMED, "GET /  HTTP/1.1\r\n" H "\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.1 \r\n" H "\r\n");
	refuses(REQUEST_MALFORMED, "GET\t/ HTTP/1.1\r\n" H "\r\n");
	refuses(REQUEST_MALFORMED, "GET /\tHTTP/1.1\r\n" H "\r\n");
	refuses(REQUEST_MALFORMED, "GET /a b HTTP/1.1\r\n" H "\r\n");
	refuses(REQUEST_MALFORMED, "GET /\xc3\xa9 HTTP/1.1\r\n" H "\r\n");
	refuses(REQUEST_MALFORMED, "GET /\x0b HTTP/1.1\r\n" H "\r\n");
	refuses(REQUEST_MALFORMED, "GET /\0 HTTP/1.1\r\n" H "\r\n");
	refuses(REQUEST_MALFORMED, "GET /\x7f HTTP/1.1\r\n" H "\r\n");
	refuses(REQUEST_MALFORMED, "G(T / HTTP/1.1\r\n" H "\r\n");
	refuses(REQUEST_MALFORMED, "GET\r\n" H "\r\n");
	refuses(REQUEST_MALFORMED, "GET /\r\n" H "\r\n");
	refuses(REQUEST_MALFORMED, "GET HTTP/1.1\r\n" H "\r\n");
	refuses(REQUEST_MALFORMED, ": / HTTP/1.1\r\n" H "\r\n");
	reads("M-SEARCH_x!#$%&'*+.^`|~1 / HTTP/1.1\r\n" H "\r\n",
	      "HEAD M-SEARCH_x!#$%&'*+.^`|~1 / 1.1 none keep\n" HOST_LOG "END\n");
	/* Methods are case-sensitive tokens; what they mean is not the codec's affair. */
	reads("get / HTTP/1.1\r\n" H "\r\n", "HEAD get / 1.1 none keep\n" HOST_LOG "END\n");
}

static void test_version(void **state)
{
	(void)state;
	refuses(VERSION_UNSUPPORTED, "GET / HTTP/1.2\r\n" H "\r\n");
	refuses(VERSION_UNSUPPORTED, "GET / HTTP/0.9\r\n" H "\r\n");
	refuses(VERSION_UNSUPPORTED, "GET / HTTP/2.0\r\n" H "\r\n");
	refuses(VERSION_UNSUPPORTED, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
	refuses(REQUEST_MALFORMED, "GET / http/1.1\r\n" H "\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.10\r\n" H "\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/11\r\n" H "\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/01.1\r\n" H "\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1,1\r\n" H "\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/ 1.1\r\n" H "\r\n");
	refuses(REQUEST_MALFORMED, "GET / XTTP/1.1\r\n" H "\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.\r\n" H "\r\n");
}

static void test_line_ends(void **state)
{
	(void)state;
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.1\nHost: a\n\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.1\r\nHost: a\n\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.1\r\nHost: a\r\n\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.1\rHost: a\r\r");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.1\r\nHost: a\r\r\n\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.1\r\nHost: a\r\n\rX: b\r\n\r\n");
}

static void test_field_lines(void **state)
{
	(void)state;
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.1\r\n" H "X : 1\r\n\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.1\r\n" H "X\t: 1\r\n\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.1\r\n" H " X: 1\r\n\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.1\r\n X: 1\r\n" H "\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.1\r\n" H "X: 1\r\n 2\r\n\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.1\r\n" H "X: 1\r\n\t2\r\n\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.1\r\n" H ": 1\r\n\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.1\r\n" H "no colon\r\n\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.1\r\n" H "nocolon\r\n\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.1\r\n" H "X Y: 1\r\n\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.1\r\n" H "X(: 1\r\n\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.1\r\n" H "\xff: 1\r\n\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.1\r\n" H "X: a\0b\r\n\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.1\r\n" H "X: a\x01\r\n\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.1\r\n" H "X: a\x7f\r\n\r\n");
	refuses(REQUEST_MALFORMED, "GET / HTTP/1.1\r\n" H "X\0: a\r\n\r\n");
	reads("GET / HTTP/1.1\r\n" H "X: a\tb \xc3\xa9: c\r\n\r\n",
	      "HEAD GET / 1.1 none keep\n" HOST_LOG "  X=a\tb \xc3\xa9: c\nEND\n");
}

/* Each is a request that one server reads differently from the next. */
static void test_smuggling_by_length(void **state)
{
	(void)state;
#define CL(value) "POST / HTTP/1.1\r\n" H "Content-Length: " value "\r\n\r\nabcdefgh"
	refuses(REQUEST_MALFORMED, CL("5\r\nContent-Length: 5"));
	refuses(REQUEST_MALFORMED, CL("5\r\nContent-Length: 6"));
	refuses(REQUEST_MALFORMED, CL("5\r\ncontent-LENGTH: 0"));
	refuses(REQUEST_MALFORMED, CL("5, 5"));
	refuses(REQUEST_MALFORMED, CL("5,5"));
	refuses(REQUEST_MALFORMED, CL("5, 6"));
	refuses(REQUEST_MALFORMED, CL("+5"));
	refuses(REQUEST_MALFORMED, CL("-5"));
	refuses(REQUEST_MALFORMED, CL("-0"));
	refuses(REQUEST_MALFORMED, CL("0x5"));
	refuses(REQUEST_MALFORMED, CL("5;5"));
	refuses(REQUEST_MALFORMED, CL("5 5"));
	refuses(REQUEST_MALFORMED, CL("5a"));
	refuses(REQUEST_MALFORMED, CL("5."));
	refuses(REQUEST_MALFORMED, CL("5e0"));
	refuses(REQUEST_MALFORMED, CL("\"5\""));
	refuses(REQUEST_MALFORMED, CL(""));
	refuses(REQUEST_MALFORMED, CL(","));
	refuses(REQUEST_MALFORMED, CL("1_0"));
	refuses(REQUEST_MALFORMED, CL("\xef\xbc\x95")); /* a full-width five */
	refuses(REQUEST_MALFORMED, CL("9223372036854775808"));
	refuses(REQUEST_MALFORMED, CL("18446744073709551616"));
	refuses(REQUEST_MALFORMED, CL("18446744073709551621"));
	refuses(REQUEST_MALFORMED, CL("00000000000000000005"));
	refuses(REQUEST_MALFORMED, "POST / HTTP/1.1\r\n" H "Content-Length : 5\r\n\r\nabcde");
	refuses(REQUEST_MALFORMED, "POST / HTTP/1.1\r\n" H "Content-Length\0: 5\r\n\r\nabcde");
	refuses(REQUEST_MALFORMED, "POST / HTTP/1.1\r\n" H "Content_Length: 5\r\n\r\nabcde");
	refuses(REQUEST_MALFORMED,
		"POST / HTTP/1.1\r\n" H "content_length: 0\r\nContent-Length: 5\r\n\r\nabcde");
#undef CL
	reads("POST / HTTP/1.1\r\n" H "Content-Length: 9223372036854775807\r\n\r\nx",
	      "HEAD POST / 1.1 length 9223372036854775807 keep\n" HOST_LOG
	      "  Content-Length=9223372036854775807\nBODY x\n");
}

static void test_smuggling_by_length_and_coding(void **state)
{
	(void)state;
	refuses(REQUEST_MALFORMED, "POST / HTTP/1.1\r\n" H "Content-Length: 6\r\n"
				   "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nG");
	refuses(REQUEST_MALFORMED, "POST / HTTP/1.1\r\n" H "Content-Length: 6\r\n"
				   "Transfer_Encoding: chunked\r\n\r\n0\r\n\r\nG");
	refuses(REQUEST_MALFORMED, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n"
				   "Content-Length: 3\r\n\r\n8\r\nSMUGGLED\r\n0\r\n\r\n");
	refuses(REQUEST_MALFORMED, "POST / HTTP/1.1\r\n" H "Content-Length: 0\r\n"
				   "Transfer-Encoding: identity\r\n\r\n");
}

static void test_smuggling_by_coding(void **state)
{
	(void)state;
#define TE(value) "POST / HTTP/1.1\r\n" H "Transfer-Encoding: " value "\r\n\r\n1\r\nx\r\n0\r\n\r\n"
	refuses(REQUEST_MALFORMED, TE("xchunked"));
	refuses(REQUEST_MALFORMED, TE("chunkedx"));
	refuses(REQUEST_MALFORMED, TE("chunked, chunked"));
	refuses(REQUEST_MALFORMED, TE("chunked, identity"));
	refuses(REQUEST_MALFORMED, TE("identity, chunked"));
	refuses(REQUEST_MALFORMED, TE("gzip, chunked"));
	refuses(REQUEST_MALFORMED, TE("gzip"));
	refuses(REQUEST_MALFORMED, TE("identity"));
	refuses(REQUEST_MALFORMED, TE(""));
	refuses(REQUEST_MALFORMED, TE(",chunked"));
	refuses(REQUEST_MALFORMED, TE("chunked,"));
	refuses(REQUEST_MALFORMED, TE("\"chunked\""));
	refuses(REQUEST_MALFORMED, TE("chunked;q=1"));
	refuses(REQUEST_MALFORMED, TE("\x0b"
				      "chunked"));
	refuses(REQUEST_MALFORMED, TE("chun\0ked"));
	refuses(REQUEST_MALFORMED, TE("chun\xc5\xbf"
				      "ed"));
	refuses(REQUEST_MALFORMED, TE("chunked\r\nTransfer-Encoding: chunked"));
	refuses(REQUEST_MALFORMED, TE("chunked\r\nTransfer-encoding: cow"));
	refuses(REQUEST_MALFORMED, TE("cow\r\nTransfer-Encoding: chunked"));
	refuses(REQUEST_MALFORMED, TE("\r\n chunked"));
	refuses(REQUEST_MALFORMED, TE("x\nTransfer-Encoding: chunked"));
	refuses(REQUEST_MALFORMED, TE("x\rTransfer-Encoding: chunked"));
#undef TE
	refuses(REQUEST_MALFORMED, "POST / HTTP/1.1\r\n" H "Transfer-Encoding : chunked\r\n\r\n");
	refuses(REQUEST_MALFORMED, "POST / HTTP/1.1\r\n" H " Transfer-Encoding: chunked\r\n\r\n");
	refuses(REQUEST_MALFORMED,
		"POST / HTTP/1.1\r\n" H "X: y\r\n\tTransfer-Encoding: chunked\r\n\r\n");
}

static void test_smuggling_by_chunk_lines(void **state)
{
	(void)state;
#define CHUNKS(text) \
	"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n" text "\r\n0\r\n\r\n"
	refuses(REQUEST_MALFORMED, CHUNKS("0x1\r\nx"));
	refuses(REQUEST_MALFORMED, CHUNKS("+1\r\nx"));
	refuses(REQUEST_MALFORMED, CHUNKS("-1\r\nx"));
	refuses(REQUEST_MALFORMED, CHUNKS(" 1\r\nx"));
	refuses(REQUEST_MALFORMED, CHUNKS("1 \r\nx"));
	refuses(REQUEST_MALFORMED, CHUNKS("1\t\r\nx"));
	refuses(REQUEST_MALFORMED, CHUNKS("1 ;a\r\nx"));
	refuses(REQUEST_MALFORMED, CHUNKS("1_0\r\nx"));
	refuses(REQUEST_MALFORMED, CHUNKS("1\nx"));
	refuses(REQUEST_MALFORMED, CHUNKS("1\rx"));
	refuses(REQUEST_MALFORMED, CHUNKS("\r\nx"));
	refuses(REQUEST_MALFORMED, CHUNKS(";a\r\nx"));
	refuses(REQUEST_MALFORMED, CHUNKS("g\r\nx"));
	refuses(REQUEST_MALFORMED, CHUNKS("8000000000000000\r\nx"));
	refuses(REQUEST_MALFORMED, CHUNKS("ffffffffffffffff\r\nx"));
	refuses(REQUEST_MALFORMED, CHUNKS("00000000000000001\r\nx"));
	refuses(REQUEST_MALFORMED, CHUNKS("10000000000000001\r\nx"));
	refuses(REQUEST_MALFORMED, CHUNKS("1;a\nx"));
	refuses(REQUEST_MALFORMED, CHUNKS("1;a\rx"));
	refuses(REQUEST_MALFORMED, CHUNKS("1; a\r\nx"));
	refuses(REQUEST_MALFORMED, CHUNKS("1;\r\nx"));
	refuses(REQUEST_MALFORMED, CHUNKS("1;=b\r\nx"));
	refuses(REQUEST_MALFORMED, CHUNKS("1;a=\r\nx"));
	refuses(REQUEST_MALFORMED, CHUNKS("1;a =b\r\nx"));
	refuses(REQUEST_MALFORMED, CHUNKS("1;a=b c\r\nx"));
	refuses(REQUEST_MALFORMED, CHUNKS("1;a=b=c\r\nx"));
	refuses(REQUEST_MALFORMED, CHUNKS("1;a=\"b\r\n\"\r\nx"));
	refuses(REQUEST_MALFORMED, CHUNKS("1;a=\"b\\\r\n\"\r\nx"));
	refuses(REQUEST_MALFORMED, CHUNKS("1;a=\"b\"c\r\nx"));
	refuses(REQUEST_MALFORMED, CHUNKS("1;a\0\r\nx"));
	/* Data longer or shorter than its size, and a missing end. */
	refuses(REQUEST_MALFORMED, CHUNKS("1\r\nxy"));
	refuses(REQUEST_MALFORMED, CHUNKS("3\r\nxy"));
	refuses(REQUEST_MALFORMED, CHUNKS("1\r\nx\n"));
	refuses(REQUEST_MALFORMED, CHUNKS("1\r\nx\rx"));
	refuses(REQUEST_MALFORMED, CHUNKS("1\r\nx1\r\nx"));
#undef CHUNKS
}

static void test_forbidden_trailers(void **state)
{
	static const char *const names[] = {
		"Content-Length",
		"transfer-encoding",
		"HOST",
		"Authorization",
		"Connection",
		"Cookie",
		"Content-Type",
		"Content-Encoding",
		"Content-Range",
		"Trailer",
		"TE",
		"Expect",
		"Proxy-Authorization",
		"Cache-Control",
		"Max-Forwards",
		"X-Api-Key",
		"If-None-Match",
		"Set-Cookie",
		"X_Api_Key",
		"DD-APPLICATION-KEY",
		"Private-Token",
		"X-Auth-Token",
		"Content_Length",
		"X-Forwarded-Authorization",
		"X-NuGet-ApiKey",
		"X-HTTP-Method-Override",
		"x_http_method",
		"X-Original-URL",
		"X-A-Name-That-Is-Longer-Than-Sixty-Four-Bytes-And-Ends-As-Keys-Do-Api-Key",
	};
	char text[256];

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		snprintf(text, sizeof(text),
			 "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"
			 "0\r\nX-Fine: 1\r\n%s: 1\r\n\r\n",
			 names[i]);
		drive_refused(KH_H1_REQUESTS, NULL, kh_slice_str(text), KH_ERR_REQUEST_MALFORMED);
	}
}

static void test_trailers_are_lines_like_others(void **state)
{
	(void)state;
#define TRAILER(text) \
	"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\n" text "\r\n\r\n"
	refuses(REQUEST_MALFORMED, TRAILER("X : 1"));
	refuses(REQUEST_MALFORMED, TRAILER(" X: 1"));
	refuses(REQUEST_MALFORMED, TRAILER("X: 1\r\n 2"));
	refuses(REQUEST_MALFORMED, TRAILER("X: 1\nY: 2"));
	refuses(REQUEST_MALFORMED, TRAILER("X: \0"));
	refuses(REQUEST_MALFORMED, TRAILER("GET / HTTP/1.1"));
#undef TRAILER
}

static void test_what_is_no_http_is_known_by_its_first_byte(void **state)
{
	(void)state;
	refuses(REQUEST_MALFORMED, "\x16\x03\x01");
	refuses(REQUEST_MALFORMED, "\x05");
	refuses(REQUEST_MALFORMED, "\0");
	refuses(REQUEST_MALFORMED, "\xff");
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
		cmocka_unit_test(test_connection_options_are_bounded),
		cmocka_unit_test(test_hop_fields),
		cmocka_unit_test(test_expect),
		cmocka_unit_test(test_upgrade_counts_with_its_option),
		cmocka_unit_test(test_request_line),
		cmocka_unit_test(test_version),
		cmocka_unit_test(test_line_ends),
		cmocka_unit_test(test_field_lines),
		cmocka_unit_test(test_smuggling_by_length),
		cmocka_unit_test(test_smuggling_by_length_and_coding),
		cmocka_unit_test(test_smuggling_by_coding),
		cmocka_unit_test(test_smuggling_by_chunk_lines),
		cmocka_unit_test(test_forbidden_trailers),
		cmocka_unit_test(test_trailers_are_lines_like_others),
		cmocka_unit_test(test_what_is_no_http_is_known_by_its_first_byte),
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
