/* test_h1_strict.c - requests that two readers could take for different ones are refused */
#include "h1_requests.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
