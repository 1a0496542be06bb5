/* test_ws.c - frames are read in one way or end the connection, and are written as they are read */
#include "ws_says.h"

/* §5.7, as printed there. */
static void test_the_examples_of_the_rfc(void **state)
{
	static const char bare[] = "\x81\x05Hello";
	static const char masked[] = "\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58";
	static const char fragments[] = "\x01\x03Hel\x80\x02lo";
	static const char ping[] = "\x89\x05Hello";
	static const char pong[] = "\x8a\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58";

	(void)state;
	kh_buf_append(&in, bare, sizeof(bare) - 1);
	says(KH_WS_BARE, "TEXT Hello.\n");
	kh_buf_append(&in, masked, sizeof(masked) - 1);
	says(KH_WS_MASKED, "TEXT Hello.\n");
	kh_buf_append(&in, fragments, sizeof(fragments) - 1);
	says(KH_WS_BARE, "TEXT Hel\n+TEXT lo.\n");
	kh_buf_append(&in, ping, sizeof(ping) - 1);
	says(KH_WS_BARE, "PING Hello.\n");
	kh_buf_append(&in, pong, sizeof(pong) - 1);
	says(KH_WS_MASKED, "PONG Hello.\n");
	kh_buf_append(&in, "\x82\x7e\x01\x00", 4);
	for (int i = 0; i < 256; i++)
		kh_buf_append_char(&in, (char)i);
	says(KH_WS_BARE, "BINARY (256).\n");
}

static void test_a_message_of_many_pieces(void **state)
{
	static char payload[3 * KH_WS_PIECE_BYTES + 5];

	(void)state;
	memset(payload, 'x', sizeof(payload));
	for (size_t i = 0; i < 2; i++) {
		drive_put(&in, sides[i], KH_WS_BINARY | DRIVE_FIN,
			  kh_slice_of(payload, sizeof(payload)));
		says(sides[i],
		     "BINARY (16384)\n+BINARY (16384)\n+BINARY (16384)\n+BINARY xxxxx.\n");
		/* The last piece is full. */
		drive_put(&in, sides[i], KH_WS_TEXT | DRIVE_FIN,
			  kh_slice_of(payload, 2 * KH_WS_PIECE_BYTES));
		says(sides[i], "TEXT (16384)\n+TEXT (16384).\n");
		/* Not all there: what is whole comes, the rest waits. */
		drive_put(&in, sides[i], KH_WS_TEXT | DRIVE_FIN,
			  kh_slice_of(payload, 2 * KH_WS_PIECE_BYTES));
		kh_buf_truncate(&in, kh_buf_len(&in) - 1);
		says(sides[i], "TEXT (16384)\nOPEN\n");
	}
}

static void test_control_frames_come_between_fragments(void **state)
{
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		drive_put(&in, sides[i], KH_WS_TEXT, KH_SLICE("a"));
		drive_put(&in, sides[i], KH_WS_PING | DRIVE_FIN, KH_SLICE("p"));
		drive_put(&in, sides[i], KH_WS_CONTINUATION, KH_SLICE(""));
		drive_put(&in, sides[i], KH_WS_CONTINUATION, KH_SLICE("b"));
		drive_put(&in, sides[i], KH_WS_PONG | DRIVE_FIN, KH_SLICE(""));
		drive_put(&in, sides[i], KH_WS_CONTINUATION | DRIVE_FIN, KH_SLICE(""));
		drive_put(&in, sides[i], KH_WS_BINARY | DRIVE_FIN, KH_SLICE(""));
		says(sides[i], "TEXT a\nPING p.\n+TEXT b\nPONG.\n+TEXT.\nBINARY.\n");
	}
}

static void test_masks_belong_to_one_side(void **state)
{
	(void)state;
	drive_put(&in, KH_WS_BARE, KH_WS_TEXT | DRIVE_FIN, KH_SLICE("a"));
	fails(KH_WS_MASKED, 1002, "a client's frame is not masked");
	drive_put(&in, KH_WS_MASKED, KH_WS_TEXT | DRIVE_FIN, KH_SLICE("a"));
	fails(KH_WS_BARE, 1002, "a server's frame is masked");
	drive_put(&in, KH_WS_BARE, KH_WS_CLOSE | DRIVE_FIN, KH_SLICE(""));
	fails(KH_WS_MASKED, 1002, "a client's frame is not masked");
	/* Also where the mask is all zeroes. */
	kh_buf_append(&in, "\x81\x81\0\0\0\0a", 7);
	fails(KH_WS_BARE, 1002, "a server's frame is masked");
	kh_buf_append(&in, "\x81\x81\0\0\0\0a", 7);
	says(KH_WS_MASKED, "TEXT a.\n");
}

static void test_reserved_bits_and_opcodes(void **state)
{
	static const unsigned reserved[] = { 3, 4, 5, 6, 7, 11, 12, 13, 14, 15 };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		for (unsigned bit = 0x10; bit <= 0x40; bit <<= 1) {
			drive_put(&in, sides[i], KH_WS_TEXT | DRIVE_FIN | bit, KH_SLICE("a"));
			fails(sides[i], 1002,
			      "a reserved bit is set, and no extension was agreed on");
		}
		for (size_t j = 0; j < sizeof(reserved) / sizeof(*reserved); j++) {
			drive_put(&in, sides[i], reserved[j] | DRIVE_FIN, KH_SLICE("a"));
			fails(sides[i], 1002, "a reserved opcode");
		}
	}
}

static void test_control_frames_are_short_and_whole(void **state)
{
	static const unsigned controls[] = { KH_WS_CLOSE, KH_WS_PING, KH_WS_PONG };
	char payload[126];

	(void)state;
	memset(payload, 'x', sizeof(payload));
	for (size_t i = 0; i < 2; i++) {
		for (size_t j = 0; j < 3; j++) {
			drive_put(&in, sides[i], controls[j], KH_SLICE("a"));
			fails(sides[i], 1002, "a control frame is fragmented");
			drive_put(&in, sides[i], controls[j] | DRIVE_FIN,
				  kh_slice_of(payload, sizeof(payload)));
			fails(sides[i], 1002, "a control frame is too long");
		}
		drive_put(&in, sides[i], KH_WS_PING | DRIVE_FIN, kh_slice_of(payload, 125));
		char *log = drive_ws(sides[i], kh_buf_view(&in));
		assert_int_equal(strlen(log), strlen("PING .\n") + 125);
		free(log);
		kh_buf_clear(&in);
	}
}

static void test_fragments_make_one_message(void **state)
{
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		drive_put(&in, sides[i], KH_WS_CONTINUATION | DRIVE_FIN, KH_SLICE("a"));
		fails(sides[i], 1002, "a continuation of nothing");
		drive_put(&in, sides[i], KH_WS_TEXT | DRIVE_FIN, KH_SLICE("a"));
		drive_put(&in, sides[i], KH_WS_CONTINUATION, KH_SLICE("a"));
		fails(sides[i], 1002, "a continuation of nothing");
		drive_put(&in, sides[i], KH_WS_TEXT, KH_SLICE("a"));
		drive_put(&in, sides[i], KH_WS_TEXT | DRIVE_FIN, KH_SLICE("a"));
		fails(sides[i], 1002, "a message begins inside another");
		drive_put(&in, sides[i], KH_WS_TEXT, KH_SLICE("a"));
		drive_put(&in, sides[i], KH_WS_BINARY, KH_SLICE("a"));
		fails(sides[i], 1002, "a message begins inside another");
	}
}

static void put_close(enum kh_ws_side side, unsigned code, const char *reason)
{
	char payload[128];
	size_t len = strlen(reason);

	payload[0] = (char)(code >> 8);
	payload[1] = (char)code;
	memcpy(payload + 2, reason, len);
	drive_put(&in, side, KH_WS_CLOSE | DRIVE_FIN, kh_slice_of(payload, 2 + len));
}

static void test_close_frames(void **state)
{
	static const unsigned good[] = { 1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010,
					 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999 };
	static const unsigned bad[] = { 0,    1,    999,  1004, 1005, 1006, 1015,
					1016, 1100, 2000, 2999, 5000, 65535 };
	char want[64];

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		for (size_t j = 0; j < sizeof(good) / sizeof(*good); j++) {
			put_close(sides[i], good[j], "so");
			snprintf(want, sizeof(want), "CLOSE %u so.\nOPEN\n", good[j]);
			says(sides[i], want);
		}
		for (size_t j = 0; j < sizeof(bad) / sizeof(*bad); j++) {
			put_close(sides[i], bad[j], "");
			fails(sides[i], 1002, "a close code that may not be sent");
		}
		drive_put(&in, sides[i], KH_WS_CLOSE | DRIVE_FIN, KH_SLICE(""));
		says(sides[i], "CLOSE 1005.\nOPEN\n");
		drive_put(&in, sides[i], KH_WS_CLOSE | DRIVE_FIN, KH_SLICE("x"));
		fails(sides[i], 1002, "a close frame of one byte");
		put_close(sides[i], 1000, "caf\xc3\xa9");
		says(sides[i], "CLOSE 1000 caf\xc3\xa9.\nOPEN\n");
		put_close(sides[i], 1000, "caf\xc3");
		fails(sides[i], 1007, "a close reason is not UTF-8");
		put_close(sides[i], 1000, "\xff");
		fails(sides[i], 1007, "a close reason is not UTF-8");
	}
}

static void test_nothing_counts_behind_a_close(void **state)
{
	(void)state;
	put_close(KH_WS_BARE, 1000, "");
	drive_put(&in, KH_WS_BARE, KH_WS_TEXT | DRIVE_FIN, KH_SLICE("late"));
	kh_buf_append_str(&in, "\xff\xff\xff anything");
	says(KH_WS_BARE, "CLOSE 1000.\nOPEN\n");
}

static void test_text_is_utf8(void **state)
{
	static const char *const good[] = {
		"",
		"plain ascii, more than one word of it",
		"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc",
		"\xf4\x8f\xbf\xbf",
		"\xed\x9f\xbf",
		"\xee\x80\x80",
		"\xf0\x90\x80\x80",
		"\xe0\xa0\x80",
		("12345678\xc2\x80"
		 "12345678\xdf\xbf"
		 "1234567"),
	};
	static const char *const bad[] = {
		"\x80",
		"\xbf",
		"\xc0\x80",
		"\xc1\xbf",
		"\xe0\x80\x80",
		"\xe0\x9f\xbf",
		"\xed\xa0\x80",
		"\xed\xbf\xbf",
		"\xf0\x80\x80\x80",
		"\xf0\x8f\xbf\xbf",
		"\xf4\x90\x80\x80",
		"\xf5\x80\x80\x80",
		"\xf8\x88\x80\x80\x80",
		"\xfe",
		"\xff",
		"\xc3",
		"\xe2\x82",
		"\xf0\x9f\x98",
		"\xc3(",
		"\xe2\x28\xa1",
		"\xe2\x82\x28",
		"12345678\xff",
		("1234567\xc3"
		 "12345678"),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		char want[128];
		drive_put(&in, KH_WS_BARE, KH_WS_TEXT | DRIVE_FIN, kh_slice_str(good[i]));
		snprintf(want, sizeof(want), "TEXT%s%s.\n", good[i][0] ? " " : "", good[i]);
		says(KH_WS_BARE, want);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		drive_put(&in, KH_WS_MASKED, KH_WS_TEXT | DRIVE_FIN, kh_slice_str(bad[i]));
		fails(KH_WS_MASKED, 1007, "text that is not UTF-8");
		/* Binary may be anything. */
		drive_put(&in, KH_WS_MASKED, KH_WS_BINARY | DRIVE_FIN, kh_slice_str(bad[i]));
		char *log = drive_ws(KH_WS_MASKED, kh_buf_view(&in));
		assert_null(strstr(log, "ERROR"));
		free(log);
		kh_buf_clear(&in);
	}
}

static void test_text_is_judged_across_fragments(void **state)
{
	static const char word[] = "\xe2\x82\xac";

	(void)state;
	for (size_t cut = 0; cut <= 3; cut++) {
		drive_put(&in, KH_WS_BARE, KH_WS_TEXT, kh_slice_of(word, cut));
		drive_put(&in, KH_WS_BARE, KH_WS_PING | DRIVE_FIN, KH_SLICE("\xff"));
		drive_put(&in, KH_WS_BARE, KH_WS_CONTINUATION | DRIVE_FIN,
			  kh_slice_of(word + cut, 3 - cut));
		char *log = drive_ws(KH_WS_BARE, kh_buf_view(&in));
		assert_null(strstr(log, "ERROR"));
		free(log);
		kh_buf_clear(&in);
	}
	/* A message begins anew. */
	drive_put(&in, KH_WS_BARE, KH_WS_TEXT | DRIVE_FIN, KH_SLICE("\xe2\x82"));
	drive_put(&in, KH_WS_BARE, KH_WS_TEXT | DRIVE_FIN, KH_SLICE("\xac"));
	fails(KH_WS_BARE, 1007, "text that is not UTF-8");
	/* What is wrong already is said before the message ends. */
	drive_put(&in, KH_WS_BARE, KH_WS_TEXT, KH_SLICE("a\xff"));
	fails(KH_WS_BARE, 1007, "text that is not UTF-8");
}

static void test_what_is_written_is_read_back(void **state)
{
	static const uint8_t key[4] = { 1, 0, 255, 77 };
	static char big[70000];
	static const size_t lengths[] = { 0, 1, 7, 125, 126, 127, 65535, 65536, sizeof(big) };

	(void)state;
	memset(big, 'x', sizeof(big));
	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		struct kh_ws_frame frame = { KH_WS_BINARY, true, false,
					     kh_slice_of(big, lengths[i]), 0 };
		struct kh_ws_frame rest = { KH_WS_BINARY, false, true, KH_SLICE("tail"), 0 };
		struct kh_buf bare;

		assert_true(kh_ws_put(&in, &frame, key) && kh_ws_put(&in, &rest, key));
		char *masked_log = drive_ws(KH_WS_MASKED, kh_buf_view(&in));
		kh_buf_init(&bare, DRIVE_BYTES);
		assert_true(kh_ws_put(&bare, &frame, NULL) && kh_ws_put(&bare, &rest, NULL));
		char *bare_log = drive_ws(KH_WS_BARE, kh_buf_view(&bare));
		assert_string_equal(masked_log, bare_log);
		assert_null(strstr(bare_log, "ERROR"));
		assert_non_null(strstr(bare_log, "+BINARY tail.\n"));
		/* A head, then the payload: nothing else. */
		assert_int_equal(kh_buf_len(&in) - kh_buf_len(&bare), 8);
		free(masked_log);
		free(bare_log);
		kh_buf_fini(&bare);
		kh_buf_clear(&in);
	}
}

static void test_a_frame_is_written_whole_or_not(void **state)
{
	struct kh_ws_frame frame = { KH_WS_TEXT, true, true, KH_SLICE("0123456789"), 0 };
	struct kh_buf small;

	(void)state;
	kh_buf_init(&small, 11);
	assert_false(kh_ws_put(&small, &frame, NULL));
	assert_int_equal(kh_buf_len(&small), 0);
	kh_buf_fini(&small);
}

static void test_our_own_close(void **state)
{
	static const uint8_t key[4] = { 9, 8, 7, 6 };
	char reason[300];

	(void)state;
	assert_true(kh_ws_put_close(&in, KH_WS_CODE_GOING_AWAY, "bye", NULL));
	says(KH_WS_BARE, "CLOSE 1001 bye.\nOPEN\n");
	assert_true(kh_ws_put_close(&in, KH_WS_CODE_PROTOCOL, NULL, key));
	says(KH_WS_MASKED, "CLOSE 1002.\nOPEN\n");
	assert_true(kh_ws_put_close(&in, KH_WS_CODE_NONE, "not said", NULL));
	says(KH_WS_BARE, "CLOSE 1005.\nOPEN\n");
	assert_true(kh_ws_put_close(&in, KH_WS_CODE_LOST, "", NULL));
	says(KH_WS_BARE, "CLOSE 1005.\nOPEN\n");
	memset(reason, 'r', sizeof(reason) - 1);
	reason[sizeof(reason) - 1] = '\0';
	assert_true(kh_ws_put_close(&in, KH_WS_CODE_POLICY, reason, NULL));
	assert_int_equal(kh_buf_len(&in), 2 + KH_WS_CONTROL_BYTES);
	char *log = drive_ws(KH_WS_BARE, kh_buf_view(&in));
	assert_null(strstr(log, "ERROR"));
	free(log);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_the_examples_of_the_rfc),
		TEST(test_a_message_of_many_pieces),
		TEST(test_control_frames_come_between_fragments),
		TEST(test_masks_belong_to_one_side),
		TEST(test_reserved_bits_and_opcodes),
		TEST(test_control_frames_are_short_and_whole),
		TEST(test_fragments_make_one_message),
		TEST(test_close_frames),
		TEST(test_nothing_counts_behind_a_close),
		TEST(test_text_is_utf8),
		TEST(test_text_is_judged_across_fragments),
		TEST(test_what_is_written_is_read_back),
		TEST(test_a_frame_is_written_whole_or_not),
		TEST(test_our_own_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
