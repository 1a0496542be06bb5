/* test_h2_flood.c - floods: what is sent for nothing has an end */
#include "h2_flooded.h"

static void flood_fine(struct flood *f)
{
	assert_true(flood_feed(f));
	assert_int_equal(f->d.counts[KH_H2_ERROR], 0);
	drive_fini(&f->d);
	kh_buf_fini(&f->raw);
}

/* CVE-2023-44487 */
static void test_rapid_reset(void **state)
{
	struct flood f;

	(void)state;
	flood_init(&f);
	for (uint32_t i = 0; i < 2 * KH_LIMIT_H2_RESETS; i++) {
		raw_headers(&f.raw, 2 * i + 1, END_HEADERS, GET);
		raw_frame_u32(&f.raw, RST_STREAM, 2 * i + 1, 8);
	}
	flood_refused(&f, CALM);
	/* As many as one is allowed, over and over, with time in between. */
	flood_init(&f);
	for (uint32_t i = 0; i < 3 * KH_LIMIT_H2_RESETS; i++) {
		if (i % KH_LIMIT_H2_RESETS == 0) {
			assert_true(flood_feed(&f));
			f.d.now_ms += 1000ull * KH_LIMIT_H2_RESETS / KH_LIMIT_H2_RESETS_PER_SECOND;
		}
		raw_headers(&f.raw, 2 * i + 1, END_HEADERS, GET);
		raw_frame_u32(&f.raw, RST_STREAM, 2 * i + 1, 8);
	}
	flood_fine(&f);
}

/* CVE-2025-8671: the peer never resets, it makes us do so. */
static void test_resets_that_the_peer_provokes(void **state)
{
	static const char *const ways[] = { "malformed", "window", "length", "closed" };

	(void)state;
	for (size_t way = 0; way < sizeof(ways) / sizeof(*ways); way++) {
		struct flood f;

		flood_init(&f);
		for (uint32_t i = 0; i < 2 * KH_LIMIT_H2_RESETS; i++) {
			uint32_t id = 2 * i + 1;

			if (way == 0) {
				raw_headers(&f.raw, id, BOTH, GET "|X=1");
			} else if (way == 1) {
				raw_headers(&f.raw, id, END_HEADERS, GET);
				raw_frame_u32(&f.raw, WINDOW_UPDATE, id, 0x7fffffff);
			} else if (way == 2) {
				raw_headers(&f.raw, id, END_HEADERS, GET "|content-length=1");
				raw_data(&f.raw, id, END_STREAM, "22");
			} else {
				raw_headers(&f.raw, id, END_HEADERS, GET);
				raw_headers(&f.raw, id, BOTH, ":path=/");
			}
			assert_true(kh_buf_len(&f.raw) > 0);
		}
		flood_refused(&f, CALM);
	}
}

/* CVE-2024-27316 */
static void test_continuations_without_end(void **state)
{
	struct kh_buf block;
	struct flood f;

	(void)state;
	flood_init(&f);
	raw_headers(&f.raw, 1, 0, GET);
	for (int i = 0; i < 100; i++)
		raw_frame(&f.raw, CONTINUATION, 0, 1, KH_SLICE(""));
	flood_refused(&f, CALM);

	/* A large head in some is fine. */
	flood_init(&f);
	raw_headers(&f.raw, 1, END_STREAM, GET);
	kh_buf_init(&block, 1 << 20);
	for (int i = 0; i < 4; i++) {
		char value[10001];

		memset(value, 'x', sizeof(value) - 1);
		value[sizeof(value) - 1] = '\0';
		kh_buf_clear(&block);
		raw_field(&block, KH_SLICE("x-long"), kh_slice_str(value));
		raw_frame(&f.raw, CONTINUATION, i == 3 ? END_HEADERS : 0, 1, kh_buf_view(&block));
	}
	kh_buf_fini(&block);
	assert_true(flood_feed(&f));
	assert_int_equal(f.d.counts[KH_H2_HEAD], 1);
	flood_fine(&f);
}

static void idle_flood(void (*put)(struct kh_buf *raw, uint32_t i))
{
	struct flood f;

	flood_init(&f);
	for (uint32_t i = 0; i < 2 * KH_LIMIT_H2_IDLE_FRAMES; i++)
		put(&f.raw, i);
	flood_refused(&f, CALM);
}

static void put_ping(struct kh_buf *raw, uint32_t i)
{
	(void)i;
	raw_frame(raw, PING, 0, 0, KH_SLICE("12345678"));
}

static void put_settings(struct kh_buf *raw, uint32_t i)
{
	(void)i;
	raw_frame(raw, SETTINGS, 0, 0, KH_SLICE(""));
}

static void put_priority(struct kh_buf *raw, uint32_t i)
{
	raw_frame(raw, PRIORITY, 0, 2 * i + 1, KH_SLICE("\0\0\0\0\x10"));
}

static void put_empty_data(struct kh_buf *raw, uint32_t i)
{
	if (i == 0)
		raw_headers(raw, 1, END_HEADERS, GET);
	raw_data(raw, 1, 0, "");
}

/* A length, and nothing but padding. */
static void put_padding(struct kh_buf *raw, uint32_t i)
{
	if (i == 0)
		raw_headers(raw, 1, END_HEADERS, GET);
	raw_frame(raw, DATA, PADDED, 1, i % 2 ? KH_SLICE("\2\0\0") : KH_SLICE("\0"));
}

static void put_window(struct kh_buf *raw, uint32_t i)
{
	(void)i;
	raw_frame_u32(raw, WINDOW_UPDATE, 0, 1);
}

/* Types that RFC 9113 does not name; it has them ignored (§5.5). */
static void put_extension(struct kh_buf *raw, uint32_t i)
{
	raw_frame(raw, (uint8_t)(CONTINUATION + 1 + i % (256 - CONTINUATION - 1)), (uint8_t)i,
		  i % 3, kh_slice_of("abc", i % 4));
}

static void test_frames_that_carry_nothing(void **state)
{
	(void)state;
	idle_flood(put_ping);
	idle_flood(put_settings);
	idle_flood(put_priority);
	idle_flood(put_empty_data);
	idle_flood(put_padding);
	idle_flood(put_window);
	idle_flood(put_extension);
}

/* SETTINGS has begun the connection. Both ways, and wherever the frames are cut. */
static void test_each_frame_of_an_extension_is_counted_once(void **state)
{
	enum { MOST = KH_LIMIT_H2_IDLE_FRAMES - 1, LARGEST = 9 + 3 };

	(void)state;
	for (size_t piece = 0; piece <= 2 * (LARGEST + 1); piece++) {
		enum kh_h2_role role = piece % 2 ? KH_H2_SERVER : KH_H2_CLIENT;
		struct kh_buf raw;
		struct drive d;

		drive_init(&d, role);
		raw_begin(&raw, role);
		for (uint32_t i = 0; i < MOST; i++)
			put_extension(&raw, i);
		assert_true(drive_feed(&d, kh_buf_view(&raw), piece / 2));
		assert_int_equal(d.counts[KH_H2_ERROR], 0);
		kh_buf_clear(&raw);
		put_extension(&raw, 0);
		assert_false(drive_feed(&d, kh_buf_view(&raw), piece / 2));
		assert_non_null(strstr(kh_buf_cstr(&d.sent), "GOAWAY 11\n"));
		assert_int_equal(d.counts[KH_H2_ERROR], 1);
		drive_fini(&d);
		kh_buf_fini(&raw);
	}
}

/* They are work of the turn, and the rest waits for the next one. */
static void test_a_turn_takes_a_share_of_an_extensions_frames(void **state)
{
	enum { FRAMES = 100, IN_A_TURN = 10 };

	(void)state;
	for (int server = 0; server < 2; server++) {
		enum kh_h2_role role = server ? KH_H2_SERVER : KH_H2_CLIENT;
		struct kh_buf raw;
		struct drive d;
		unsigned turns = 0;

		drive_init(&d, role);
		raw_begin(&raw, role);
		assert_true(drive_feed(&d, kh_buf_view(&raw), 0));
		kh_buf_clear(&raw);
		for (uint32_t i = 0; i < FRAMES; i++)
			raw_frame(&raw, 0xfa, 0, 0, KH_SLICE(""));
		for (struct kh_slice in = kh_buf_view(&raw); in.len > 0; turns++) {
			size_t taken;

			assert_true(kh_h2_feed_turn(d.h2, in, IN_A_TURN * KH_LIMIT_WORK_PER_PIECE,
						    d.now_ms, &taken));
			assert_int_equal(taken, 9 * IN_A_TURN);
			assert_int_equal(kh_h2_turn_bytes(d.h2),
					 IN_A_TURN * KH_LIMIT_WORK_PER_PIECE);
			in = kh_slice_sub(in, taken, in.len);
			assert_int_equal(kh_h2_is_behind(d.h2), in.len > 0);
		}
		assert_int_equal(turns, FRAMES / IN_A_TURN);
		drive_fini(&d);
		kh_buf_fini(&raw);
	}
}

/* They are read and do nothing. */
static void test_frames_for_streams_that_are_over(void **state)
{
	(void)state;
	struct flood f;

	flood_init(&f);
	raw_headers(&f.raw, 1, BOTH, GET);
	assert_true(flood_feed(&f)); /* answered */
	for (uint32_t i = 0; i < 2 * KH_LIMIT_H2_IDLE_FRAMES; i++)
		raw_frame_u32(&f.raw, RST_STREAM, 1, 8);
	flood_refused(&f, CALM);
}

/* A busy connection brings its own. */
static void test_work_pays_for_pings_and_windows(void **state)
{
	struct flood f;

	(void)state;
	flood_init(&f);
	for (uint32_t i = 0; i < 4 * KH_LIMIT_H2_IDLE_FRAMES; i++) {
		raw_headers(&f.raw, 2 * i + 1, END_HEADERS, GET);
		raw_frame(&f.raw, PING, 0, 0, KH_SLICE("12345678"));
		raw_frame_u32(&f.raw, WINDOW_UPDATE, 2 * i + 1, 100);
		put_extension(&f.raw, i); /* browsers send one now and then (GREASE) */
		raw_data(&f.raw, 2 * i + 1, END_STREAM, "x");
		assert_true(flood_feed(&f));
	}
	assert_int_equal(f.d.counts[KH_H2_END], 4 * KH_LIMIT_H2_IDLE_FRAMES);
	flood_fine(&f);
}

/* Who asks for answers and reads none. */
static void test_acknowledgements_that_nobody_reads(void **state)
{
	struct flood f;
	bool alive = true;

	(void)state;
	flood_init(&f);
	for (uint32_t i = 0; i < KH_LIMIT_H2_UNSENT_FRAMES + 100; i++)
		put_ping(&f.raw, i);
	alive = kh_h2_feed(f.d.h2, kh_buf_view(&f.raw), 1000);
	assert_false(alive);
	drive_fini(&f.d);
	kh_buf_fini(&f.raw);
}

static void put_streams(struct flood *f, uint32_t from, uint32_t n)
{
	for (uint32_t i = from; i < from + n; i++)
		raw_headers(&f->raw, 2 * i + 1, BOTH, GET);
}

/* Who has not acknowledged our settings may open more than they say; each is refused. */
static void test_streams_that_have_to_be_refused(void **state)
{
	struct flood f;

	(void)state;
	flood_init(&f);
	f.d.answers = false;
	put_streams(&f, 0, 1000); /* a client in a hurry */
	assert_true(flood_feed(&f));
	assert_int_equal(f.d.counts[KH_H2_HEAD], 100);
	put_streams(&f, 1000, 2 * KH_LIMIT_H2_IDLE_FRAMES);
	flood_refused(&f, CALM);
}

/* However slowly they come, somebody has to read what is said of them. */
static void test_refusals_that_nobody_reads(void **state)
{
	struct flood f;
	uint32_t n = 100;
	bool alive = true;

	(void)state;
	flood_init(&f);
	f.d.answers = false;
	put_streams(&f, 0, n);
	for (int second = 1; alive && second < 100; second++) {
		alive = kh_h2_feed(f.d.h2, kh_buf_view(&f.raw), (uint64_t)second * 1000);
		kh_buf_clear(&f.raw);
		put_streams(&f, n, KH_LIMIT_H2_RESETS_PER_SECOND);
		n += KH_LIMIT_H2_RESETS_PER_SECOND;
	}
	assert_false(alive);
	drive_fini(&f.d);
	kh_buf_fini(&f.raw);
}

/* Tunnels: as many as there may be, and each may be in use. */
static void test_all_streams_may_be_given_up_at_once(void **state)
{
	struct flood f;

	(void)state;
	flood_init(&f);
	drive_fini(&f.d);
	drive_init_for(&f.d, KH_H2_SERVER, KH_LIMIT_H2_TUNNELS);
	for (uint32_t i = 0; i < KH_LIMIT_H2_TUNNELS; i++)
		raw_headers(&f.raw, 2 * i + 1, END_HEADERS,
			    ":method=CONNECT|:authority=a.example:443");
	assert_true(flood_feed(&f));
	assert_int_equal(f.d.counts[KH_H2_HEAD], KH_LIMIT_H2_TUNNELS);
	for (uint32_t i = 0; i < KH_LIMIT_H2_TUNNELS; i++)
		raw_frame_u32(&f.raw, RST_STREAM, 2 * i + 1, 8);
	assert_true(flood_feed(&f));
	assert_int_equal(f.d.counts[KH_H2_RESET], KH_LIMIT_H2_TUNNELS);
	flood_fine(&f);
}

static void put_large_head(struct kh_buf *raw, unsigned n, size_t len)
{
	struct kh_buf block;
	char *value = malloc(len + 1);

	assert_non_null(value);
	memset(value, 'v', len);
	kh_buf_init(&block, 1 << 20);
	raw_fields(&block, KH_SLICE(GET));
	for (unsigned i = 0; i < n; i++) {
		char name[16];

		snprintf(name, sizeof(name), "x-%u", i);
		raw_field(&block, kh_slice_str(name), kh_slice_of(value, len));
	}
	struct kh_slice all = kh_buf_view(&block);
	for (size_t at = 0; at < all.len; at += 16384) {
		struct kh_slice part = kh_slice_sub(all, at, at + 16384);
		uint8_t flags = at + 16384 >= all.len ? END_HEADERS : 0;

		raw_frame(raw, at == 0 ? HEADERS : CONTINUATION,
			  (uint8_t)(flags | (at == 0 ? END_STREAM : 0)), 1, part);
	}
	kh_buf_fini(&block);
	free(value);
}

/* Answered with 431; the connection goes on. */
static void test_a_head_past_its_caps_is_refused(void **state)
{
	static const struct {
		unsigned n;
		size_t len;
		bool fits;
	} cases[] = {
		{ KH_LIMIT_FIELDS, 4, true },
		{ KH_LIMIT_FIELDS + 1, 4, false },
		{ 1, KH_LIMIT_FIELD_BYTES - 3, true },
		{ 1, KH_LIMIT_FIELD_BYTES - 2, false },
		{ 7, 9000, true },
		{ 8, 9000, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct flood f;

		flood_init(&f);
		f.d.answers = false;
		put_large_head(&f.raw, cases[i].n, cases[i].len);
		assert_true(flood_feed(&f));
		assert_int_equal(f.d.counts[KH_H2_HEAD], cases[i].fits);
		assert_int_equal(f.d.counts[KH_H2_REFUSED], !cases[i].fits);
		if (!cases[i].fits) {
			assert_string_equal(kh_buf_cstr(&f.d.log),
					    "REFUSED 1 REQUEST_HEAD_TOO_LARGE\nEND 1\n");
			assert_true(kh_h2_put_response(f.d.owned[0], 431, NULL, 0, true));
		}
		flood_fine(&f);
	}
}

/* One byte names a field of kilobytes, again and again. */
static void test_an_hpack_bomb(void **state)
{
	struct kh_buf block;
	char value[3001];
	struct flood f;

	(void)state;
	flood_init(&f);
	memset(value, 'v', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	kh_buf_init(&block, 1 << 20);
	raw_fields(&block, KH_SLICE(GET));
	kh_buf_append_char(&block, 0x40); /* goes into the table, as its first */
	raw_string(&block, KH_SLICE("x"));
	raw_string(&block, kh_slice_str(value));
	for (int i = 0; i < 10000; i++)
		kh_buf_append_char(&block, (char)(0x80 | 62));
	raw_frame(&f.raw, HEADERS, BOTH, 1, kh_buf_view(&block));
	kh_buf_fini(&block);
	flood_refused(&f, CALM);
}

/* Streams past what was allowed. */
static void test_streams_beyond_the_setting(void **state)
{
	struct flood f;

	(void)state;
	flood_init(&f);
	/* Ours, acknowledged. */
	raw_frame(&f.raw, SETTINGS, ACK, 0, KH_SLICE(""));
	drive_drain(&f.d);
	for (uint32_t i = 0; i < 101; i++)
		raw_headers(&f.raw, 2 * i + 1, END_HEADERS, GET);
	(void)flood_feed(&f);
	assert_int_equal(f.d.counts[KH_H2_HEAD], 100);
	drive_fini(&f.d);
	kh_buf_fini(&f.raw);
}

/* A peer that opens no window holds a buffer, and not more. */
static void test_a_window_that_stays_shut(void **state)
{
	static char piece[16384];
	struct flood f;
	size_t put = 0;

	(void)state;
	flood_init(&f);
	f.d.answers = false;
	raw_frame(&f.raw, SETTINGS, 0, 0, KH_SLICE("\0\x04\0\0\0\0")); /* INITIAL_WINDOW_SIZE 0 */
	for (uint32_t i = 0; i < 40; i++)
		raw_headers(&f.raw, 2 * i + 1, BOTH, GET);
	assert_true(flood_feed(&f));
	for (size_t i = 0; i < f.d.n_owned; i++) {
		assert_true(kh_h2_put_response(f.d.owned[i], 200, NULL, 0, false));
		while (!kh_h2_is_full(f.d.owned[i])) {
			assert_true(
				kh_h2_put_data(f.d.owned[i], kh_slice_of(piece, sizeof(piece))));
			put += sizeof(piece);
		}
		drive_drain(&f.d);
	}
	assert_true(put <= KH_LIMIT_H2_OUT_BYTES + 40 * sizeof(piece) + KH_LIMIT_RELAY_BYTES);
	/* A caller who does not listen meets the cap. */
	while (kh_h2_put_data(f.d.owned[0], kh_slice_of(piece, sizeof(piece))))
		put += sizeof(piece);
	assert_true(kh_h2_waiting_bytes(f.d.owned[0]) <= KH_LIMIT_RELAY_BYTES + 4 * sizeof(piece));
	flood_fine(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rapid_reset),
		cmocka_unit_test(test_resets_that_the_peer_provokes),
		cmocka_unit_test(test_continuations_without_end),
		cmocka_unit_test(test_frames_that_carry_nothing),
		cmocka_unit_test(test_each_frame_of_an_extension_is_counted_once),
		cmocka_unit_test(test_a_turn_takes_a_share_of_an_extensions_frames),
		cmocka_unit_test(test_frames_for_streams_that_are_over),
		cmocka_unit_test(test_work_pays_for_pings_and_windows),
		cmocka_unit_test(test_acknowledgements_that_nobody_reads),
		cmocka_unit_test(test_streams_that_have_to_be_refused),
		cmocka_unit_test(test_refusals_that_nobody_reads),
		cmocka_unit_test(test_all_streams_may_be_given_up_at_once),
		cmocka_unit_test(test_a_head_past_its_caps_is_refused),
		cmocka_unit_test(test_an_hpack_bomb),
		cmocka_unit_test(test_streams_beyond_the_setting),
		cmocka_unit_test(test_a_window_that_stays_shut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
