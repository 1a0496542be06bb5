/* test_ws_bounds.c - lengths, messages, fragments and control frames have an end */
#include "ws_says.h"

static void test_lengths_have_one_form(void **state)
{
	static char payload[65535];
	char *log;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		for (unsigned width = 2; width <= 8; width += 6) {
			drive_put_wide(&in, sides[i], KH_WS_BINARY | DRIVE_FIN,
				       kh_slice_of(payload, 125), width);
			fails(sides[i], 1002, "a length that is not in its shortest form");
		}
		drive_put_wide(&in, sides[i], KH_WS_BINARY | DRIVE_FIN, kh_slice_of(payload, 65535),
			       8);
		fails(sides[i], 1002, "a length that is not in its shortest form");
		drive_put(&in, sides[i], KH_WS_BINARY | DRIVE_FIN, kh_slice_of(payload, 125));
		drive_put(&in, sides[i], KH_WS_BINARY | DRIVE_FIN, kh_slice_of(payload, 126));
		drive_put(&in, sides[i], KH_WS_BINARY | DRIVE_FIN, kh_slice_of(payload, 65535));
		log = drive_ws(sides[i], kh_buf_view(&in));
		assert_null(strstr(log, "ERROR"));
		free(log);
		kh_buf_clear(&in);
	}
}

static void put_huge(enum kh_ws_side side, uint64_t length)
{
	kh_buf_append_char(&in, (char)(KH_WS_BINARY | DRIVE_FIN));
	kh_buf_append_char(&in, (char)(side == KH_WS_MASKED ? 0xff : 0x7f));
	for (unsigned i = 0; i < 8; i++)
		kh_buf_append_char(&in, (char)(uint8_t)(length >> 8 * (7 - i)));
}

static void test_lengths_have_an_end(void **state)
{
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		put_huge(sides[i], 1ULL << 63);
		fails(sides[i], 1002, "a frame of 2^63 bytes or more");
		put_huge(sides[i], UINT64_MAX);
		fails(sides[i], 1002, "a frame of 2^63 bytes or more");
		put_huge(sides[i], (1ULL << 63) - 1);
		fails(sides[i], 1009, "a frame is too long");
		put_huge(sides[i], KH_LIMIT_WS_FRAME_BYTES + 1ULL);
		fails(sides[i], 1009, "a frame is too long");
		put_huge(sides[i], KH_LIMIT_WS_FRAME_BYTES);
		/* Bare: the head is whole. Masked: the key is still to come. */
		says(sides[i], sides[i] == KH_WS_BARE ? "OPEN\n" : "");
	}
}

/* The parser says what it took by frames alone, so the payload can be one block, given again. */
static void test_a_message_has_an_end(void **state)
{
	static char block[KH_WS_PIECE_BYTES];
	struct kh_ws ws;
	struct kh_ws_frame frame;
	uint64_t taken = 0;

	(void)state;
	kh_ws_init(&ws, KH_WS_BARE);
	for (unsigned n = 0;; n++) {
		char *at;
		size_t left;
		kh_buf_clear(&in);
		put_huge(KH_WS_BARE, KH_LIMIT_WS_FRAME_BYTES);
		at = in.data;
		*at = (char)(n == 0 ? KH_WS_BINARY : KH_WS_CONTINUATION);
		left = kh_buf_len(&in);
		if (kh_ws_feed(&ws, 0, &at, &left, &frame) == KH_WS_ERROR)
			break;
		for (unsigned i = 0; i < KH_LIMIT_WS_FRAME_BYTES / sizeof(block); i++) {
			at = block;
			left = sizeof(block);
			assert_int_equal(kh_ws_feed(&ws, 0, &at, &left, &frame), KH_WS_FRAME);
			assert_int_equal(left, 0);
			taken += frame.payload.len;
		}
	}
	assert_int_equal(taken, KH_LIMIT_WS_MESSAGE_BYTES);
	assert_int_equal(kh_ws_error_code(&ws), KH_WS_CODE_TOO_BIG);
}

static void test_fragments_have_an_end(void **state)
{
	struct kh_ws ws;
	struct kh_ws_frame frame;
	char one[] = "\x02\x01x", more[] = "\x00\x01x", last[] = "\x80\x01x";
	unsigned n = 0;

	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		kh_ws_init(&ws, KH_WS_BARE);
		char *at = one;
		size_t left = 3;
		/* The count is a message's, not the connection's. */
		for (n = 1; kh_ws_feed(&ws, 0, &at, &left, &frame) == KH_WS_FRAME; n++) {
			at = round == 0 && n == KH_LIMIT_WS_FRAGMENTS - 1 ? last
			     : kh_ws_is_idle(&ws)			  ? one
									  : more;
			left = 3;
			if (n > 2 * KH_LIMIT_WS_FRAGMENTS)
				break;
		}
		assert_int_equal(kh_ws_error_code(&ws), KH_WS_CODE_TOO_BIG);
		assert_int_equal(n, (2 - round) * KH_LIMIT_WS_FRAGMENTS + 1);
	}
}

static void test_control_frames_have_a_rate(void **state)
{
	struct kh_ws ws;
	struct kh_ws_frame frame;
	char ping[] = "\x89\x00";
	unsigned n = 0;

	(void)state;
	kh_ws_init(&ws, KH_WS_BARE);
	/* For an hour, at the rate. */
	for (uint64_t now = 0; now < 3600 * 1000; now += 1000 / KH_LIMIT_WS_CONTROLS_PER_SECOND) {
		char *at = ping;
		size_t left = 2;
		assert_int_equal(kh_ws_feed(&ws, now, &at, &left, &frame), KH_WS_FRAME);
	}
	kh_ws_init(&ws, KH_WS_BARE);
	for (char *at = ping;; at = ping, n++) {
		size_t left = 2;
		if (kh_ws_feed(&ws, 5000, &at, &left, &frame) == KH_WS_ERROR)
			break;
	}
	assert_int_equal(n, KH_LIMIT_WS_CONTROLS_BURST);
	assert_int_equal(kh_ws_error_code(&ws), KH_WS_CODE_POLICY);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_lengths_have_one_form),      TEST(test_lengths_have_an_end),
		TEST(test_a_message_has_an_end),       TEST(test_fragments_have_an_end),
		TEST(test_control_frames_have_a_rate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
