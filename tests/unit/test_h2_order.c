/* test_h2_order.c - frames for streams that the client has ended or passed over (RFC 9113 §5.1) */
#include "h2_flooded.h"

enum { STREAM_CLOSED = 5 };

/* Feeds what is in `raw` in pieces of `step` bytes. Return: the connection lives. */
static bool feed_by(struct flood *f, size_t step)
{
	(void)drive_feed(&f->d, kh_buf_view(&f->raw), step);
	drive_drain(&f->d);
	kh_buf_clear(&f->raw);
	return !kh_h2_error(f->d.h2);
}

static void begin(struct flood *f, uint32_t id, uint8_t flags)
{
	raw_headers(&f->raw, id, flags, GET);
}

static void test_nothing_follows_the_end_of_a_stream(void **state)
{
	(void)state;
	for (int how = 0; how < 4; how++) {
		struct flood f;

		flood_init(&f);
		begin(&f, 1, how < 2 ? BOTH : END_HEADERS);
		if (how == 2)
			raw_data(&f.raw, 1, END_STREAM, "x");
		if (how == 3)
			raw_frame_u32(&f.raw, RST_STREAM, 1, 8);
		assert_true(feed_by(&f, how % 2 ? 1 : 4096));
		if (how == 0)
			begin(&f, 1, BOTH);
		else
			raw_data(&f.raw, 1, 0, "y");
		flood_refused(&f, STREAM_CLOSED);
	}
}

static void test_a_stream_that_was_passed_over_is_never_opened(void **state)
{
	static const uint32_t used[][2] = { { 5, 3 }, { 3, 1 }, { 101, 99 }, { 1001, 999 } };

	(void)state;
	for (size_t i = 0; i < sizeof(used) / sizeof(*used); i++) {
		struct flood f;

		flood_init(&f);
		begin(&f, used[i][0], BOTH);
		assert_true(feed_by(&f, 1));
		begin(&f, used[i][1], BOTH);
		flood_refused(&f, PROTOCOL);
	}
}

static void test_priority_of_the_connection_is_an_error(void **state)
{
	struct flood f;

	(void)state;
	flood_init(&f);
	raw_frame(&f.raw, PRIORITY, 0, 0, KH_SLICE("\0\0\0\1\x10"));
	flood_refused(&f, PROTOCOL);
}

/* It was on its way when the other side had not yet heard of the reset. */
static void test_what_was_on_its_way_to_a_stream_we_reset_is_ignored(void **state)
{
	struct flood f;

	(void)state;
	flood_init(&f);
	raw_headers(&f.raw, 1, END_HEADERS, ":method=GET|:scheme=https|:path=/|UPPER=x");
	assert_true(feed_by(&f, 4096));
	assert_non_null(strstr(kh_buf_cstr(&f.d.sent), "RST 1 "));
	raw_data(&f.raw, 1, 0, "x");
	raw_headers(&f.raw, 1, BOTH, "trailer=x");
	begin(&f, 3, BOTH);
	assert_true(feed_by(&f, 1));
	assert_int_equal(f.d.counts[KH_H2_END], 1);
	drive_fini(&f.d);
	kh_buf_fini(&f.raw);
}

static void test_streams_come_in_any_number_and_with_gaps(void **state)
{
	struct flood f;

	(void)state;
	flood_init(&f);
	uint32_t id = 1;
	for (uint32_t i = 0; i < 2000; i++, id += i % 11 == 0 ? 1200 : i % 3 == 0 ? 6 : 2) {
		begin(&f, id, END_HEADERS);
		raw_data(&f.raw, id, END_STREAM, "x");
		assert_true(feed_by(&f, 4096));
	}
	assert_int_equal(f.d.counts[KH_H2_END], 2000);
	drive_fini(&f.d);
	kh_buf_fini(&f.raw);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_follows_the_end_of_a_stream),
		cmocka_unit_test(test_a_stream_that_was_passed_over_is_never_opened),
		cmocka_unit_test(test_priority_of_the_connection_is_an_error),
		cmocka_unit_test(test_what_was_on_its_way_to_a_stream_we_reset_is_ignored),
		cmocka_unit_test(test_streams_come_in_any_number_and_with_gaps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
