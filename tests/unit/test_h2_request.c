/* test_h2_request.c - requests of HTTP/2 are read in one way or not at all (RFC 9113 §8) */
#include "h2_drive.h"

#define GET ":method=GET|:scheme=https|:authority=a.example|:path=/x?y=1"
#define POST ":method=POST|:scheme=https|:authority=a.example|:path=/"
#define GET_LOG "HEAD 1 GET /x?y=1 at a.example by https"
#define POST_LOG "HEAD 1 POST / at a.example by https"

/* One section, and nothing behind it. */
static void reads_n(struct kh_slice fields, uint8_t flags, const char *log, const char *sent)
{
	struct kh_buf raw;

	raw_begin(&raw, KH_H2_SERVER);
	raw_headers_n(&raw, 1, flags, fields);
	drive_check(KH_H2_SERVER, &raw, log, sent);
}
#define reads(fields, log) reads_n(KH_SLICE(fields), BOTH, log, "")
#define malformed(fields) \
	reads_n(KH_SLICE(fields), BOTH, "RESET 1 REQUEST_MALFORMED\n", "RST 1 1\n")

static void test_plain_request(void **state)
{
	(void)state;
	reads(GET "|accept=*/*|x-a=", GET_LOG " none\n  accept=*/*\n  x-a=\nEND 1\n");
	reads(GET "|content-length=0", GET_LOG " length 0\n  content-length=0\nEND 1\n");
	reads(":method=OPTIONS|:scheme=http|:authority=a.example|:path=*",
	      "HEAD 1 OPTIONS * at a.example by http none\nEND 1\n");
}

static void test_pseudo_fields_are_whole_and_in_front(void **state)
{
	(void)state;
	malformed(":scheme=https|:authority=a.example|:path=/");
	malformed(":method=GET|:authority=a.example|:path=/");
	malformed(":method=GET|:scheme=https|:authority=a.example");
	malformed(":method=GET|:scheme=https|:path=/");
	malformed(GET "|:method=GET");
	malformed(GET "|:path=/");
	malformed(GET "|:authority=a.example");
	malformed(":method=GET|:scheme=https|:path=/|accept=*/*|:authority=a.example");
	malformed(":method=GET|:scheme=https|:path=/|cookie=a|:authority=a.example");
	malformed(GET "|:status=200");
	malformed(GET "|:odd=1");
	malformed(GET "|:=1");
	malformed(":method=|:scheme=https|:authority=a.example|:path=/");
	malformed(":method=G T|:scheme=https|:authority=a.example|:path=/");
	malformed(":method=GET|:scheme=|:authority=a.example|:path=/");
	malformed(":method=GET|:scheme=h ttp|:authority=a.example|:path=/");
}

static void test_path(void **state)
{
	(void)state;
	malformed(":method=GET|:scheme=https|:authority=a.example|:path=");
	malformed(":method=GET|:scheme=https|:authority=a.example|:path=x");
	malformed(":method=GET|:scheme=https|:authority=a.example|:path=*");
	malformed(":method=GET|:scheme=https|:authority=a.example|:path=https://a.example/");
	malformed(":method=GET|:scheme=https|:authority=a.example|:path=/a b");
	malformed(":method=GET|:scheme=https|:authority=a.example|:path=/\r\nx: y");
	malformed(":method=GET|:scheme=https|:authority=a.example|:path=/\x80");
	malformed(":method=GET|:scheme=https|:authority=a.example|:path=/\0");
}

static void test_authority_and_host(void **state)
{
	(void)state;
	reads(":method=GET|:scheme=https|:path=/|host=b.example",
	      "HEAD 1 GET / at b.example by https none\nEND 1\n");
	reads(GET "|host=a.EXAMPLE", "HEAD 1 GET /x?y=1 at a.EXAMPLE by https none\nEND 1\n");
	malformed(GET "|host=b.example");
	malformed(GET "|host=a.example:443");
	malformed(GET "|host=a.example|host=a.example");
	malformed(GET "|host=");
	malformed(":method=GET|:scheme=https|:authority=|:path=/|host=a.example");
	malformed(":method=GET|:scheme=https|:authority=me@a.example|:path=/");
	malformed(":method=GET|:scheme=https|:path=/|host=me@a.example");
	malformed(":method=GET|:scheme=https|:authority=a.example/b|:path=/");
	malformed(":method=GET|:scheme=https|:authority=a example|:path=/");
	malformed(":method=GET|:scheme=https|:authority=a.example\0|:path=/");
}

/* §4.3: a head that is refused, or that nobody reads, is decoded all the same: what it put into the
 * table is there for the next. */
static void test_a_head_that_is_refused_is_decoded(void **state)
{
	/* At index 62: x-kept: yes. */
	static const struct kh_slice kept = KH_SLICE_INIT("\x40\x06x-kept\x03yes");
	static const char *const cases[] = {
		":method=GET|:scheme=https|:authority=a.example|:path=/|X-Up=1",
		":method=GET|:scheme=https|:authority=a.example|:path=/|te=gzip",
		":method=GET|:scheme=https",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct kh_buf raw, block;

		raw_begin(&raw, KH_H2_SERVER);
		kh_buf_init(&block, 4096);
		raw_fields(&block, kh_slice_str(cases[i]));
		kh_buf_append_slice(&block, kept);
		raw_frame(&raw, HEADERS, BOTH, 1, kh_buf_view(&block));
		kh_buf_clear(&block);
		raw_fields(&block, KH_SLICE(GET));
		kh_buf_append_char(&block, (char)(0x80 | 62));
		raw_frame(&raw, HEADERS, BOTH, 3, kh_buf_view(&block));
		kh_buf_fini(&block);
		drive_check(
			KH_H2_SERVER, &raw,
			"RESET 1 REQUEST_MALFORMED\nHEAD 3 GET /x?y=1 at a.example by https none\n"
			"  x-kept=yes\nEND 3\n",
			"RST 1 1\n");
	}
}

static void test_field_names(void **state)
{
	(void)state;
	malformed(GET "|Accept=x");
	malformed(GET "|x-A=x");
	malformed(GET "|a b=x");
	malformed(GET "|a\r\nb=x");
	malformed(GET "|a:b=x");
	malformed(GET "|a\0=x");
	malformed(GET "|a\x80=x");
}

static void test_an_empty_field_name(void **state)
{
	struct kh_buf raw, block;

	(void)state;
	raw_begin(&raw, KH_H2_SERVER);
	kh_buf_init(&block, 4096);
	raw_fields(&block, KH_SLICE(GET));
	raw_field(&block, KH_SLICE(""), KH_SLICE("x"));
	raw_frame(&raw, HEADERS, BOTH, 1, kh_buf_view(&block));
	kh_buf_fini(&block);
	drive_check(KH_H2_SERVER, &raw, "RESET 1 REQUEST_MALFORMED\n", "RST 1 1\n");
}

static void test_field_values(void **state)
{
	(void)state;
	reads(GET "|x=a\tb c\x80", GET_LOG " none\n  x=a\tb c\x80\nEND 1\n");
	malformed(GET "|x=a\rb");
	malformed(GET "|x=a\nb");
	malformed(GET "|x=a\r\nhost: b");
	malformed(GET "|x=a\0b");
	malformed(GET "|x=a\x01");
	malformed(GET "|x=a\x7f");
	malformed(GET "|x= a");
	malformed(GET "|x=a ");
	malformed(GET "|x=\ta");
	malformed(GET "|x= ");
}

static void test_fields_of_the_connection(void **state)
{
	(void)state;
	malformed(GET "|connection=close");
	malformed(GET "|keep-alive=1");
	malformed(GET "|proxy-connection=close");
	malformed(GET "|transfer-encoding=chunked");
	malformed(GET "|upgrade=h2c");
	malformed(GET "|te=gzip");
	malformed(GET "|te=trailers, gzip");
	reads(GET "|te=trailers", GET_LOG " none te\n  te=trailers\nEND 1\n");
}

static void test_cookie_crumbs_are_one_field(void **state)
{
	(void)state;
	reads(GET "|cookie=a=1|accept=x|cookie=b=2|cookie=c",
	      GET_LOG " none\n  accept=x\n  cookie=a=1; b=2; c\nEND 1\n");
	malformed(GET "|cookie=a=1|cookie= b");
	malformed(GET "|cookie=a=1|cookie=b\r\n");
}

static void test_content(void **state)
{
	struct kh_buf raw;

	(void)state;
	raw_begin(&raw, KH_H2_SERVER);
	raw_headers(&raw, 1, END_HEADERS, POST "|content-length=5");
	raw_data(&raw, 1, 0, "he");
	raw_data(&raw, 1, 0, "");
	raw_data(&raw, 1, END_STREAM, "llo");
	drive_check(KH_H2_SERVER, &raw,
		    POST_LOG " length 5\n  content-length=5\nBODY 1 hello\nEND 1\n", "");

	raw_begin(&raw, KH_H2_SERVER);
	raw_headers(&raw, 1, END_HEADERS, POST "|expect=100-continue");
	raw_data(&raw, 1, END_STREAM, "hello");
	drive_check(KH_H2_SERVER, &raw,
		    POST_LOG " chunked expect\n  expect=100-continue\nBODY 1 hello\nEND 1\n", "");
}

static void test_length_and_data_agree(void **state)
{
	static const char *const pieces[] = { "hell", "hello!" };
	struct kh_buf raw;

	(void)state;
	malformed(POST "|content-length=5");
	for (size_t i = 0; i < 2; i++) {
		struct drive d;

		drive_init(&d, KH_H2_SERVER);
		raw_begin(&raw, KH_H2_SERVER);
		raw_headers(&raw, 1, END_HEADERS, POST "|content-length=5");
		raw_data(&raw, 1, END_STREAM, pieces[i]);
		assert_true(drive_feed(&d, kh_buf_view(&raw), 0));
		assert_int_equal(d.counts[KH_H2_END], 0);
		assert_int_equal(d.counts[KH_H2_RESET], 1);
		assert_string_equal(kh_buf_cstr(&d.sent), "RST 1 1\n");
		drive_fini(&d);
		kh_buf_fini(&raw);
	}
}

static void test_lengths_that_are_none(void **state)
{
	static const struct kh_slice bad[] = {
		KH_SLICE_INIT(POST "|content-length=5|content-length=5"),
		KH_SLICE_INIT(POST "|content-length=5, 5"),
		KH_SLICE_INIT(POST "|content-length=+5"),
		KH_SLICE_INIT(POST "|content-length=-1"),
		KH_SLICE_INIT(POST "|content-length=0x5"),
		KH_SLICE_INIT(POST "|content-length="),
		KH_SLICE_INIT(POST "|content-length=9223372036854775808"),
		KH_SLICE_INIT(POST "|content-length=00000000000000000005"),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		reads_n(bad[i], END_HEADERS, "RESET 1 REQUEST_MALFORMED\n", "RST 1 1\n");
}

static void test_trailers(void **state)
{
	static const char *const bad[] = { ":path=/",
					   "content-length=1",
					   "authorization=x",
					   "host=b",
					   "transfer-encoding=chunked",
					   "x-api-key=1",
					   "cookie=a",
					   "X-Up=1",
					   "x= a" };
	struct kh_buf raw;

	(void)state;
	raw_begin(&raw, KH_H2_SERVER);
	raw_headers(&raw, 1, END_HEADERS, POST);
	raw_data(&raw, 1, 0, "hi");
	raw_headers(&raw, 1, BOTH, "x-sum=1|x-b=2");
	drive_check(KH_H2_SERVER, &raw, POST_LOG " chunked\nBODY 1 hi\nEND 1\n  x-sum=1\n  x-b=2\n",
		    "");

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		raw_begin(&raw, KH_H2_SERVER);
		raw_headers(&raw, 1, END_HEADERS, POST);
		raw_headers_n(&raw, 1, BOTH, kh_slice_str(bad[i]));
		drive_check(KH_H2_SERVER, &raw, POST_LOG " chunked\nRESET 1 REQUEST_MALFORMED\n",
			    "RST 1 1\n");
	}
	/* A second section that is no end. */
	raw_begin(&raw, KH_H2_SERVER);
	raw_headers(&raw, 1, END_HEADERS, POST);
	raw_headers(&raw, 1, END_HEADERS, "x-sum=1");
	drive_check(KH_H2_SERVER, &raw, POST_LOG " chunked\nRESET 1 REQUEST_MALFORMED\n",
		    "RST 1 1\n");
}

static void test_connect(void **state)
{
	struct kh_buf raw;

	(void)state;
	raw_begin(&raw, KH_H2_SERVER);
	raw_headers(&raw, 1, END_HEADERS, ":method=CONNECT|:authority=a.example:443");
	raw_data(&raw, 1, 0, "\x16\x03");
	raw_data(&raw, 1, END_STREAM, "x");
	drive_check(KH_H2_SERVER, &raw,
		    "HEAD 1 CONNECT a.example:443 at a.example:443 by  chunked\n"
		    "BODY 1 \x16\x03x\nEND 1\n",
		    "");
	/* §8.5: nothing but DATA. */
	raw_begin(&raw, KH_H2_SERVER);
	raw_headers(&raw, 1, END_HEADERS, ":method=CONNECT|:authority=a.example:443");
	raw_data(&raw, 1, 0, "x");
	raw_headers(&raw, 1, BOTH, "x-sum=1");
	drive_check(KH_H2_SERVER, &raw,
		    "HEAD 1 CONNECT a.example:443 at a.example:443 by  chunked\n"
		    "BODY 1 x\nRESET 1 REQUEST_MALFORMED\n",
		    "RST 1 1\n");
	malformed(":method=CONNECT");
	malformed(":method=CONNECT|:authority=a.example:443|:scheme=https");
	malformed(":method=CONNECT|:authority=a.example:443|:path=/");
	malformed(":method=CONNECT|:authority=a.example:443|content-length=0");
	malformed(":method=CONNECT|:authority=me@a.example:443");
	malformed(":method=CONNECT|:authority=a.example:443|host=b.example:443");
	malformed(":method=CONNECT|:scheme=https|:authority=a.example|:path=/|"
		  ":protocol=websocket");
	malformed(GET "|:protocol=websocket");
}

static void test_extended_connect_where_it_is_offered(void **state)
{
	const struct kh_h2_settings settings = { .role = KH_H2_SERVER,
						 .max_streams = 10,
						 .stream_window_bytes = 65535,
						 .connection_window_bytes = 65535,
						 .extended_connect = true };
	struct kh_buf raw;
	struct drive d;

	(void)state;
	drive_init(&d, KH_H2_SERVER);
	kh_h2_free(d.h2);
	d.h2 = kh_h2_new(&settings, drive_on_event, &d);
	drive_drain(&d);
	raw_begin(&raw, KH_H2_SERVER);
	raw_headers(&raw, 1, END_HEADERS,
		    ":method=CONNECT|:scheme=https|:authority=a.example|:path=/chat|"
		    ":protocol=websocket");
	raw_headers(&raw, 3, END_HEADERS,
		    ":method=CONNECT|:scheme=https|:authority=a.example|:protocol=websocket");
	raw_headers(&raw, 5, END_HEADERS,
		    ":method=GET|:scheme=https|:authority=a.example|:path=/|:protocol=websocket");
	assert_true(drive_feed(&d, kh_buf_view(&raw), 0));
	assert_string_equal(
		kh_buf_cstr(&d.log),
		"HEAD 1 CONNECT /chat at a.example by https protocol websocket chunked\n"
		"RESET 3 REQUEST_MALFORMED\nRESET 5 REQUEST_MALFORMED\n");
	drive_fini(&d);
	kh_buf_fini(&raw);
}

static void test_expectation(void **state)
{
	(void)state;
	reads(GET "|expect=100-continue", GET_LOG " none\n  expect=100-continue\nEND 1\n");
	reads_n(KH_SLICE(GET "|expect=else"), END_HEADERS, "REFUSED 1 EXPECTATION_FAILED\n", "");
}

static void test_streams_are_told_apart(void **state)
{
	struct kh_buf raw;

	(void)state;
	raw_begin(&raw, KH_H2_SERVER);
	raw_headers(&raw, 1, END_HEADERS, POST);
	raw_headers(&raw, 3, BOTH, ":method=GET|:scheme=https|:authority=b.example|:path=/3");
	raw_data(&raw, 1, 0, "one");
	raw_headers(&raw, 5, BOTH, GET "|X=1");
	raw_data(&raw, 1, END_STREAM, "!");
	drive_check(KH_H2_SERVER, &raw,
		    POST_LOG " chunked\nHEAD 3 GET /3 at b.example by https none\nEND 3\n"
			     "BODY 1 one\nRESET 5 REQUEST_MALFORMED\nBODY 1 !\nEND 1\n",
		    "RST 5 1\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain_request),
		cmocka_unit_test(test_pseudo_fields_are_whole_and_in_front),
		cmocka_unit_test(test_path),
		cmocka_unit_test(test_authority_and_host),
		cmocka_unit_test(test_a_head_that_is_refused_is_decoded),
		cmocka_unit_test(test_field_names),
		cmocka_unit_test(test_an_empty_field_name),
		cmocka_unit_test(test_field_values),
		cmocka_unit_test(test_fields_of_the_connection),
		cmocka_unit_test(test_cookie_crumbs_are_one_field),
		cmocka_unit_test(test_content),
		cmocka_unit_test(test_length_and_data_agree),
		cmocka_unit_test(test_lengths_that_are_none),
		cmocka_unit_test(test_trailers),
		cmocka_unit_test(test_connect),
		cmocka_unit_test(test_extended_connect_where_it_is_offered),
		cmocka_unit_test(test_expectation),
		cmocka_unit_test(test_streams_are_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
