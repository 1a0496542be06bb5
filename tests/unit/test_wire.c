/* test_wire.c - what was put comes back; what does not fit is bad and stays bad */
#include "unit.h"

#include <stdlib.h>

#include <keyhole/base/wire.h>

static void what_was_put_comes_back(void **state)
{
	(void)state;
	struct kh_buf buf;
	kh_buf_init(&buf, 4096);
	assert_true(kh_wire_put_u8(&buf, 0xfe));
	assert_true(kh_wire_put_u16(&buf, 0x1234));
	assert_true(kh_wire_put_u32(&buf, 0xdeadbeef));
	assert_true(kh_wire_put_u64(&buf, 0x0123456789abcdefull));
	assert_true(kh_wire_put_bytes(&buf, KH_SLICE("a\0b")));
	assert_true(kh_wire_put_str(&buf, "text"));
	assert_true(kh_wire_put_str(&buf, ""));
	assert_true(kh_wire_put_str(&buf, NULL));
	assert_memory_equal(kh_buf_view(&buf).ptr, "\xfe\x12\x34\xde\xad\xbe\xef\x01\x23", 9);

	struct kh_wire_reader r = { .rest = kh_buf_view(&buf) };
	assert_int_equal(kh_wire_u8(&r), 0xfe);
	assert_int_equal(kh_wire_u16(&r), 0x1234);
	assert_int_equal(kh_wire_u32(&r), 0xdeadbeef);
	assert_true(kh_wire_u64(&r) == 0x0123456789abcdefull);
	assert_slice_equal(kh_wire_bytes(&r), "a\0b");
	char *text = kh_wire_str(&r), *empty = kh_wire_str(&r);
	assert_string_equal(text, "text");
	assert_string_equal(empty, "");
	assert_false(kh_wire_done(&r));
	assert_null(kh_wire_str(&r));
	assert_false(r.bad);
	assert_true(kh_wire_done(&r));
	free(text);
	free(empty);

	/* One byte short, anywhere: bad at the end. */
	struct kh_slice whole = kh_buf_view(&buf);
	for (size_t len = 0; len < whole.len; len++) {
		r = (struct kh_wire_reader){ .rest = kh_slice_sub(whole, 0, len) };
		kh_wire_u8(&r);
		kh_wire_u16(&r);
		kh_wire_u32(&r);
		kh_wire_u64(&r);
		kh_wire_bytes(&r);
		free(kh_wire_str(&r));
		free(kh_wire_str(&r));
		free(kh_wire_str(&r));
		assert_true(r.bad);
		assert_false(kh_wire_done(&r));
	}
	kh_buf_fini(&buf);
}

static void bad_stays_bad_and_gives_nothing(void **state)
{
	(void)state;
	struct kh_wire_reader r = { .rest = KH_SLICE("\0\0\0\1") };
	assert_true(kh_wire_u64(&r) == 0);
	assert_true(r.bad);
	assert_int_equal(kh_wire_u8(&r), 0);
	assert_int_equal(kh_wire_u32(&r), 0);
	assert_int_equal(kh_wire_bytes(&r).len, 0);
	assert_null(kh_wire_str(&r));
	assert_int_equal(kh_wire_count(&r, 10), 0);
	assert_false(kh_wire_done(&r));
}

static void lengths_that_lie_are_refused(void **state)
{
	(void)state;
	struct kh_wire_reader r = { .rest = KH_SLICE("\xff\xff\xff\xff"
						     "abc") };
	assert_int_equal(kh_wire_bytes(&r).len, 0); /* NULL's mark is no byte string */
	assert_true(r.bad);
	r = (struct kh_wire_reader){ .rest = KH_SLICE("\xff\xff\xff\xfe"
						      "abc") };
	assert_null(kh_wire_str(&r));
	assert_true(r.bad);
	r = (struct kh_wire_reader){ .rest = KH_SLICE("\0\0\0\3"
						      "a\0b") };
	assert_null(kh_wire_str(&r)); /* a NUL inside would cut it */
	assert_true(r.bad);
	/* More elements than bytes, or than the caller takes. */
	r = (struct kh_wire_reader){ .rest = KH_SLICE("\0\0\0\4abc") };
	assert_int_equal(kh_wire_count(&r, 100), 0);
	assert_true(r.bad);
	r = (struct kh_wire_reader){ .rest = KH_SLICE("\0\0\0\3"
						      "abc") };
	assert_int_equal(kh_wire_count(&r, 2), 0);
	assert_true(r.bad);
	r = (struct kh_wire_reader){ .rest = KH_SLICE("\0\0\0\3"
						      "abc") };
	assert_int_equal(kh_wire_count(&r, 3), 3);
	assert_false(r.bad);
	assert_false(kh_wire_done(&r)); /* something is left */
}

static void a_writer_puts_all_or_nothing(void **state)
{
	(void)state;
	struct kh_buf buf;
	kh_buf_init(&buf, 8);
	assert_false(kh_wire_put_bytes(&buf, KH_SLICE("12345")));
	assert_int_equal(kh_buf_len(&buf), 0);
	assert_true(kh_wire_put_bytes(&buf, KH_SLICE("1234")));
	assert_false(kh_wire_put_u8(&buf, 1));
	assert_false(kh_wire_put_bytes(&buf, KH_SLICE("")));
	assert_false(kh_wire_put_str(&buf, NULL));
	assert_slice_equal(kh_buf_view(&buf), "\0\0\0\4"
					      "1234");
	kh_buf_fini(&buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_put_comes_back),
		cmocka_unit_test(bad_stays_bad_and_gives_nothing),
		cmocka_unit_test(lengths_that_lie_are_refused),
		cmocka_unit_test(a_writer_puts_all_or_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
