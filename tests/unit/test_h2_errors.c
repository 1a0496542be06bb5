/* test_h2_errors.c - frames that break the protocol end the connection */
#include "h2_flooded.h"

/* What breaks the connection, and with which code. */
static void test_connection_errors(void **state)
{
	static const struct {
		uint8_t type, flags;
		uint32_t id;
		struct kh_slice payload;
		unsigned code;
	} cases[] = {
		{ DATA, 0, 0, KH_SLICE_INIT("x"), PROTOCOL },
		{ DATA, 0, 1, KH_SLICE_INIT("x"), PROTOCOL },
		{ HEADERS, BOTH, 0, KH_SLICE_INIT("\x82"), PROTOCOL },
		{ HEADERS, BOTH, 2, KH_SLICE_INIT("\x82\x84\x87"), PROTOCOL },
		{ HEADERS, BOTH, 1, KH_SLICE_INIT("\xff\xff\xff\xff\xff\xff\xff\xff"), 9 },
		{ RST_STREAM, 0, 1, KH_SLICE_INIT("\0\0\0\x08"), PROTOCOL },
		{ RST_STREAM, 0, 1, KH_SLICE_INIT("\0\0"), 6 },
		{ SETTINGS, 0, 1, KH_SLICE_INIT(""), PROTOCOL },
		{ SETTINGS, 0, 0, KH_SLICE_INIT("\0"), 6 },
		{ SETTINGS, ACK, 0, KH_SLICE_INIT("\0\x04\0\0\0\0"), 6 },
		{ SETTINGS, 0, 0, KH_SLICE_INIT("\0\x04\xff\xff\xff\xff"), 3 },
		{ SETTINGS, 0, 0, KH_SLICE_INIT("\0\x05\0\0\0\x01"), PROTOCOL },
		{ SETTINGS, 0, 0, KH_SLICE_INIT("\0\x05\x01\0\0\0"), PROTOCOL },
		{ SETTINGS, 0, 0, KH_SLICE_INIT("\0\x02\0\0\0\x02"), PROTOCOL },
		{ HEADERS, BOTH | PADDED, 1, KH_SLICE_INIT("\x02\x82"), PROTOCOL },
		{ PUSH_PROMISE, END_HEADERS, 1, KH_SLICE_INIT("\0\0\0\x02"), PROTOCOL },
		{ PING, 0, 1, KH_SLICE_INIT("12345678"), PROTOCOL },
		{ PING, 0, 0, KH_SLICE_INIT("1"), 6 },
		{ GOAWAY, 0, 1, KH_SLICE_INIT("\0\0\0\0\0\0\0\0"), PROTOCOL },
		{ WINDOW_UPDATE, 0, 0, KH_SLICE_INIT("\0\0\0\0"), PROTOCOL },
		{ WINDOW_UPDATE, 0, 0, KH_SLICE_INIT("\x7f\xff\xff\xff"), 3 },
		{ CONTINUATION, END_HEADERS, 1, KH_SLICE_INIT(""), PROTOCOL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct flood f;

		flood_init(&f);
		raw_frame(&f.raw, cases[i].type, cases[i].flags, cases[i].id, cases[i].payload);
		flood_refused(&f, cases[i].code);
	}
}

/* §6.2: a head in pieces is one block of frames. */
static void test_nothing_comes_between_the_pieces_of_a_head(void **state)
{
	static const uint8_t types[] = { PING, DATA, HEADERS, CONTINUATION, 0xee };

	(void)state;
	for (size_t i = 0; i < sizeof(types); i++) {
		struct flood f;

		flood_init(&f);
		raw_headers(&f.raw, 1, END_STREAM, GET);
		raw_frame(&f.raw, types[i], 0, types[i] == PING ? 0 : 3, KH_SLICE("12345678"));
		raw_frame(&f.raw, CONTINUATION, END_HEADERS, 1, KH_SLICE(""));
		flood_refused(&f, PROTOCOL);
	}
}

/* §6.1: what is larger than the rest of its frame. */
static void test_padding_that_is_longer_than_its_frame(void **state)
{
	struct flood f;

	(void)state;
	flood_init(&f);
	raw_headers(&f.raw, 1, END_HEADERS, GET);
	raw_frame(&f.raw, DATA, PADDED, 1, KH_SLICE("\x03xy"));
	flood_refused(&f, PROTOCOL);
}

static void test_a_preface_that_is_none(void **state)
{
	struct drive d;

	(void)state;
	drive_init(&d, KH_H2_SERVER);
	assert_false(drive_feed(&d, KH_SLICE("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"), 0));
	assert_int_equal(d.counts[KH_H2_ERROR], 1);
	drive_fini(&d);
}

static void test_a_frame_larger_than_allowed(void **state)
{
	static char payload[16385];
	struct flood f;

	(void)state;
	flood_init(&f);
	raw_headers(&f.raw, 1, END_HEADERS, GET);
	raw_frame(&f.raw, DATA, 0, 1, kh_slice_of(payload, sizeof(payload)));
	flood_refused(&f, 6);
}

/* More than both windows allow. */
static void test_content_past_the_window(void **state)
{
	static char payload[16384];
	struct flood f;

	(void)state;
	flood_init(&f);
	f.d.answers = false;
	f.d.pauses = true;
	raw_headers(&f.raw, 1, END_HEADERS, GET);
	for (int i = 0; i < 9; i++)
		raw_frame(&f.raw, DATA, 0, 1, kh_slice_of(payload, sizeof(payload)));
	(void)flood_feed(&f);
	assert_int_equal(f.d.counts[KH_H2_RESET], 1);
	drive_fini(&f.d);
	kh_buf_fini(&f.raw);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_connection_errors),
		cmocka_unit_test(test_nothing_comes_between_the_pieces_of_a_head),
		cmocka_unit_test(test_padding_that_is_longer_than_its_frame),
		cmocka_unit_test(test_a_preface_that_is_none),
		cmocka_unit_test(test_a_frame_larger_than_allowed),
		cmocka_unit_test(test_content_past_the_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
