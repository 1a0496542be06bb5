/* wrap: kh_secret_wipe */
/* test_buf.c - the byte queue keeps its cap, its content and its silence */
#include "unit.h"

#include <stdlib.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/secret.h>

/* What kh_buf asks to be wiped is noted: bytes that held a mark. */
static size_t wiped_bytes;
void __real_kh_secret_wipe(void *bytes, size_t len);
void __wrap_kh_secret_wipe(void *bytes, size_t len)
{
	wiped_bytes += len;
	__real_kh_secret_wipe(bytes, len);
}

static void nothing_goes_over_the_cap(void **state)
{
	(void)state;
	struct kh_buf buf;
	kh_buf_init(&buf, 5);
	assert_true(kh_buf_append_str(&buf, "abc"));
	assert_false(kh_buf_append_str(&buf, "def"));
	assert_slice_equal(kh_buf_view(&buf), "abc");
	assert_false(kh_buf_printf(&buf, "%d", 123));
	assert_slice_equal(kh_buf_view(&buf), "abc");
	assert_false(kh_buf_append_u64(&buf, 123));
	assert_true(kh_buf_printf(&buf, "%d", 12));
	assert_false(kh_buf_append_char(&buf, 'x'));
	assert_null(kh_buf_reserve(&buf, 1));
	assert_int_equal(kh_buf_room(&buf), 0);
	assert_string_equal(kh_buf_cstr(&buf), "abc12");
	volatile size_t huge = SIZE_MAX; /* or the compiler sees it and warns */
	assert_false(kh_buf_append(&buf, "", huge));
	assert_false(kh_buf_append(&buf, "", huge / 2));
	kh_buf_consume(&buf, 3);
	assert_true(kh_buf_append_str(&buf, "xyz"));
	assert_slice_equal(kh_buf_view(&buf), "12xyz");
	kh_buf_fini(&buf);
	assert_int_equal(kh_buf_len(&buf), 0);
}

static void a_cap_without_bound_does_not_overflow(void **state)
{
	(void)state;
	struct kh_buf buf;
	kh_buf_init(&buf, SIZE_MAX);
	assert_true(kh_buf_append_str(&buf, "a"));
	assert_null(kh_buf_reserve(&buf, SIZE_MAX));
	assert_null(kh_buf_reserve(&buf, SIZE_MAX - 1));
	assert_slice_equal(kh_buf_view(&buf), "a");
	kh_buf_fini(&buf);
}

/* With a cap below the content nothing could be counted any more: room would wrap. */
static void a_cap_is_never_below_the_content(void **state)
{
	(void)state;
	for (int wipe = 0; wipe < 2; wipe++) {
		struct kh_buf buf;
		if (wipe)
			kh_buf_init_wiping(&buf, 8192);
		else
			kh_buf_init(&buf, 8192);
		for (int i = 0; i < 6000; i++)
			assert_true(kh_buf_append_char(&buf, (char)i));
		assert_false(kh_buf_set_cap(&buf, 5999));
		assert_false(kh_buf_set_cap(&buf, 0));
		assert_int_equal(kh_buf_room(&buf), 8192 - 6000);
		assert_true(kh_buf_set_cap(&buf, 6000));
		assert_int_equal(kh_buf_room(&buf), 0);
		assert_false(kh_buf_append_char(&buf, 'x'));
		kh_buf_consume(&buf, 1);
		assert_true(kh_buf_append_char(&buf, 'x'));
		assert_true(kh_buf_set_cap(&buf, SIZE_MAX));
		assert_null(kh_buf_reserve(&buf, SIZE_MAX));
		assert_true(kh_buf_append_str(&buf, "y"));
		assert_int_equal(kh_buf_len(&buf), 6001);
		assert_int_equal((unsigned char)kh_buf_view(&buf).ptr[0], 1);
		kh_buf_fini(&buf);
	}
}

/* Nothing does that (kh_buf_set_cap); whoever did it would not write over other memory. */
static void a_cap_below_the_content_overflows_nothing(void **state)
{
	(void)state;
	for (size_t cap = 0; cap < 6000; cap = 2 * cap + 1) {
		struct kh_buf buf;
		kh_buf_init(&buf, 8192);
		for (int i = 0; i < 6000; i++)
			assert_true(kh_buf_append_char(&buf, 'a'));
		buf.cap = cap;
		assert_int_equal(kh_buf_room(&buf), 0);
		assert_null(kh_buf_reserve(&buf, 1));
		for (int i = 0; i < 4096; i++)
			assert_false(kh_buf_append_char(&buf, 'x'));
		assert_false(kh_buf_printf(&buf, "%s", "more"));
		assert_int_equal(kh_buf_len(&buf), 6000);
		kh_buf_fini(&buf);
	}
}

static void a_zeroed_buffer_holds_nothing(void **state)
{
	(void)state;
	struct kh_buf buf = { 0 };
	assert_int_equal(kh_buf_view(&buf).len, 0);
	assert_true(kh_buf_append(&buf, NULL, 0));
	assert_false(kh_buf_append_char(&buf, 'x'));
	kh_buf_consume(&buf, 10);
	kh_buf_truncate(&buf, 10);
	kh_buf_release(&buf);
	assert_string_equal(kh_buf_cstr(&buf), "");
	kh_buf_fini(&buf);
	kh_buf_fini(&buf);
}

/* Random appends and consumes against a plain array. */
static void content_is_what_was_put_in(void **state)
{
	(void)state;
	enum { CAP = 700, STEPS = 200000 };
	for (int wipe = 0; wipe < 2; wipe++) {
		struct kh_buf buf;
		if (wipe)
			kh_buf_init_wiping(&buf, CAP);
		else
			kh_buf_init(&buf, CAP);
		char model[CAP], fresh[CAP + 50];
		size_t len = 0;
		uint32_t seed = 12345;
		for (int step = 0; step < STEPS; step++) {
			seed = seed * 1664525u + 1013904223u;
			size_t n = (seed >> 8) % 90;
			for (size_t i = 0; i < n; i++)
				fresh[i] = (char)(seed >> (i % 24));
			fresh[n] = 0;
			bool fits = len + n <= CAP;
			switch (seed >> 28) {
			case 0:
			case 1:
			case 2:
			case 3:
				assert_int_equal(kh_buf_append(&buf, fresh, n), fits);
				break;
			case 4: {
				char *to = kh_buf_reserve(&buf, n + 10);
				assert_int_equal(to != NULL, len + n + 10 <= CAP);
				fits = to != NULL;
				if (to) {
					memcpy(to, fresh, n);
					kh_buf_commit(&buf, n);
				}
				break;
			}
			case 5:
				n = strlen(fresh);
				fits = len + n <= CAP;
				assert_int_equal(kh_buf_printf(&buf, "%s", fresh), fits);
				break;
			case 6:
				kh_buf_truncate(&buf, n * 5);
				len = n * 5 < len ? n * 5 : len;
				n = 0;
				break;
			case 7:
				kh_buf_release(&buf);
				n = 0;
				break;
			default:
				kh_buf_consume(&buf, n);
				n = n < len ? n : len;
				memmove(model, model + n, len - n);
				len -= n;
				n = 0;
			}
			if (fits && n) {
				memcpy(model + len, fresh, n);
				len += n;
			}
			assert_int_equal(kh_buf_len(&buf), len);
			if (len)
				assert_memory_equal(kh_buf_view(&buf).ptr, model, len);
			assert_true(buf.alloc <= CAP + 1);
		}
		kh_buf_fini(&buf);
	}
}

static void printf_measures_before_it_writes(void **state)
{
	(void)state;
	struct kh_buf buf;
	kh_buf_init(&buf, 4096);
	for (int i = 0; i < 100; i++)
		assert_true(kh_buf_printf(&buf, "%s%d;", "abcdefghij", i));
	assert_int_equal(kh_buf_len(&buf), 100 * 11 + 10 + 180);
	assert_true(kh_slice_has_suffix(kh_buf_view(&buf), KH_SLICE("abcdefghij99;")));
	kh_buf_clear(&buf);
	assert_true(kh_buf_append_u64(&buf, 18446744073709551615ull));
	assert_true(kh_buf_append_u64(&buf, 0));
	assert_slice_equal(kh_buf_view(&buf), "184467440737095516150");
	kh_buf_fini(&buf);
}

static bool block_holds(const struct kh_buf *buf, const char *mark)
{
	return buf->data && memmem(buf->data, buf->alloc, mark, strlen(mark)) != NULL;
}

static void a_wiping_buffer_leaves_nothing_behind(void **state)
{
	(void)state;
	struct kh_buf buf;
	kh_buf_init_wiping(&buf, 600);
	assert_true(kh_buf_append_str(&buf, "MARK-ONE"));
	kh_buf_consume(&buf, 8);
	assert_false(block_holds(&buf, "MARK"));

	assert_true(kh_buf_append_str(&buf, "head MARK-TWO"));
	kh_buf_truncate(&buf, 4);
	assert_false(block_holds(&buf, "MARK"));

	/* Reserved, written to, and not committed: gone at the end. */
	char *to = kh_buf_reserve(&buf, 50);
	assert_non_null(to);
	memcpy(to, "MARK-THREE", 10);
	wiped_bytes = 0;
	size_t whole = buf.alloc;
	kh_buf_clear(&buf);
	kh_buf_release(&buf);
	assert_true(wiped_bytes >= whole);
	assert_null(buf.data);

	/* Growth moves it: the old block is overwritten, whole. */
	assert_true(kh_buf_append_str(&buf, "MARK-FOUR"));
	whole = buf.alloc;
	wiped_bytes = 0;
	for (int i = 0; i < 500; i++)
		assert_true(kh_buf_append_char(&buf, '.'));
	assert_true(wiped_bytes >= whole);

	/* Moving down: the place that it left. */
	kh_buf_clear(&buf);
	for (int i = 0; i < 590; i++)
		assert_true(kh_buf_append_char(&buf, '.'));
	assert_true(kh_buf_append_str(&buf, "MARK-FIVE"));
	kh_buf_consume(&buf, 590);
	assert_true(kh_buf_append_str(&buf, "0123456789"));
	assert_slice_equal(kh_buf_view(&buf), "MARK-FIVE0123456789");
	kh_buf_consume(&buf, 9);
	assert_false(block_holds(&buf, "MARK"));

	/* A printf that does not fit is not left lying in the tail. */
	kh_buf_clear(&buf);
	kh_buf_fini(&buf);
	kh_buf_init_wiping(&buf, 8);
	assert_false(kh_buf_printf(&buf, "%s", "MARK-SIX-IS-LONG"));
	assert_false(block_holds(&buf, "MARK"));
	kh_buf_fini(&buf);
}

/* What waits for long does not keep the block of what came in one large read. */
static void a_short_rest_leaves_a_large_block(void **state)
{
	(void)state;
	for (int wipe = 0; wipe < 2; wipe++) {
		struct kh_buf buf;
		if (wipe)
			kh_buf_init_wiping(&buf, 100000);
		else
			kh_buf_init(&buf, 100000);
		for (size_t i = 0; i < 80000; i++)
			assert_true(kh_buf_append_char(&buf, (char)('a' + i % 26)));
		size_t whole = buf.alloc;
		kh_buf_shrink(&buf); /* all of it is in use */
		assert_int_equal(buf.alloc, whole);
		kh_buf_consume(&buf, 80000 - 1000);
		wiped_bytes = 0;
		kh_buf_shrink(&buf);
		assert_true(buf.alloc < 6000 || wipe);
		assert_true(buf.alloc < whole / 2);
		assert_true(!wipe || wiped_bytes >= whole);
		assert_int_equal(kh_buf_len(&buf), 1000);
		for (size_t i = 0; i < 1000; i++)
			assert_int_equal(kh_buf_view(&buf).ptr[i], 'a' + (79000 + i) % 26);
		assert_true(kh_buf_append_str(&buf, "it grows again"));
		kh_buf_clear(&buf);
		kh_buf_shrink(&buf);
		assert_null(buf.data);
		kh_buf_fini(&buf);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_goes_over_the_cap),
		cmocka_unit_test(a_cap_without_bound_does_not_overflow),
		cmocka_unit_test(a_cap_is_never_below_the_content),
		cmocka_unit_test(a_cap_below_the_content_overflows_nothing),
		cmocka_unit_test(a_zeroed_buffer_holds_nothing),
		cmocka_unit_test(content_is_what_was_put_in),
		cmocka_unit_test(printf_measures_before_it_writes),
		cmocka_unit_test(a_short_rest_leaves_a_large_block),
		cmocka_unit_test(a_wiping_buffer_leaves_nothing_behind),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
