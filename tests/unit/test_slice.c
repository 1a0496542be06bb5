/* test_slice.c - views: what they compare, cut and read */
#include "unit.h"

#include <stdlib.h>

static void equality_is_by_bytes_and_length(void **state)
{
	(void)state;
	assert_true(kh_slice_eq(KH_SLICE("a\0b"), KH_SLICE("a\0b")));
	assert_false(kh_slice_eq(KH_SLICE("a\0b"), KH_SLICE("a\0c")));
	assert_false(kh_slice_eq(KH_SLICE("a"), KH_SLICE("a\0")));
	assert_true(kh_slice_eq(kh_slice_str(NULL), KH_SLICE("")));
	assert_true(kh_slice_eq_nocase(KH_SLICE("X-Api-KEY"), KH_SLICE("x-aPI-key")));
	/* '@' and '`', '[' and '{' differ by the bit that letters' case is. */
	assert_false(kh_slice_eq_nocase(KH_SLICE("@["), KH_SLICE("`{")));
	/* A letter with a mark in Latin-1 is no ASCII letter. */
	assert_false(kh_slice_eq_nocase(KH_SLICE("\xc4"), KH_SLICE("\xe4")));
}

static void prefix_and_suffix(void **state)
{
	(void)state;
	assert_true(kh_slice_has_prefix(KH_SLICE("abc"), KH_SLICE("ab")));
	assert_true(kh_slice_has_prefix(KH_SLICE("abc"), KH_SLICE("")));
	assert_false(kh_slice_has_prefix(KH_SLICE("ab"), KH_SLICE("abc")));
	assert_true(kh_slice_has_suffix(KH_SLICE("abc"), KH_SLICE("bc")));
	assert_true(kh_slice_has_suffix(KH_SLICE("abc"), KH_SLICE("abc")));
	assert_false(kh_slice_has_suffix(KH_SLICE("bc"), KH_SLICE("abc")));
	assert_true(kh_slice_has_suffix(kh_slice_str(NULL), kh_slice_str(NULL)));
	assert_false(kh_slice_has_prefix(kh_slice_str(NULL), KH_SLICE("a")));
}

static void find_and_sub_stay_inside(void **state)
{
	(void)state;
	struct kh_slice s = KH_SLICE("a:b:c");
	assert_int_equal(kh_slice_find(s, ':', 0), 1);
	assert_int_equal(kh_slice_find(s, ':', 2), 3);
	assert_int_equal(kh_slice_find(s, ':', 4), 5);
	assert_int_equal(kh_slice_find(s, ':', SIZE_MAX), 5);
	assert_int_equal(kh_slice_find(kh_slice_str(NULL), ':', 0), 0);
	assert_slice_equal(kh_slice_sub(s, 2, 3), "b");
	assert_slice_equal(kh_slice_sub(s, 2, SIZE_MAX), "b:c");
	assert_slice_equal(kh_slice_sub(s, SIZE_MAX, 1), "");
	assert_slice_equal(kh_slice_sub(s, 4, 2), "");
	assert_null(kh_slice_sub(kh_slice_str(NULL), 3, 9).ptr);
}

static void trim_takes_blanks_and_nothing_else(void **state)
{
	(void)state;
	assert_slice_equal(kh_slice_trim(KH_SLICE(" \t a b\t ")), "a b");
	assert_slice_equal(kh_slice_trim(KH_SLICE(" \t ")), "");
	assert_slice_equal(kh_slice_trim(KH_SLICE("\na\r\v\f")), "\na\r\v\f");
	assert_slice_equal(kh_slice_trim(kh_slice_str(NULL)), "");
}

static void chomp_takes_line_ends_and_nothing_else(void **state)
{
	(void)state;
	assert_slice_equal(kh_slice_chomp(KH_SLICE("\na \r\n\n")), "\na ");
	assert_slice_equal(kh_slice_chomp(KH_SLICE("\r\n")), "");
	assert_slice_equal(kh_slice_chomp(kh_slice_str(NULL)), "");
}

static void dup_refuses_a_nul_inside(void **state)
{
	(void)state;
	char *copy = kh_slice_dup(KH_SLICE("abc"));
	assert_string_equal(copy, "abc");
	free(copy);
	copy = kh_slice_dup(kh_slice_str(NULL));
	assert_string_equal(copy, "");
	free(copy);
	assert_null(kh_slice_dup(KH_SLICE("a\0b")));
}

static void numbers_are_digits_without_overflow(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		bool ok;
		uint64_t value;
	} table[] = {
		{ "0", true, 0 },
		{ "007", true, 7 },
		{ "18446744073709551615", true, UINT64_MAX },
		{ "18446744073709551616", false, 0 },
		{ "18446744073709551620", false, 0 },
		{ "99999999999999999999", false, 0 },
		{ "184467440737095516150", false, 0 },
		{ "", false, 0 },
		{ "+1", false, 0 },
		{ "-1", false, 0 },
		{ " 1", false, 0 },
		{ "1 ", false, 0 },
		{ "0x1", false, 0 },
		{ "1_0", false, 0 },
		{ "\xd9\xa1", false, 0 }, /* ARABIC-INDIC DIGIT ONE */
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		uint64_t value = 42;
		assert_int_equal(kh_slice_to_u64(kh_slice_str(table[i].text), &value), table[i].ok);
		assert_true(value == (table[i].ok ? table[i].value : 42));
	}
	uint64_t value;
	assert_false(kh_slice_to_u64(KH_SLICE("1\0"), &value));
}

static void hex_digits_have_values_and_others_none(void **state)
{
	(void)state;
	static const char lower[] = "0123456789abcdef", upper[] = "0123456789ABCDEF";
	for (int c = -128; c < 128; c++) {
		const char *at = c > 0 ? strchr(lower, c) : NULL;
		const char *up = c > 0 ? strchr(upper, c) : NULL;
		int want = at ? (int)(at - lower) : up ? (int)(up - upper) : -1;
		assert_int_equal(kh_hex_value((char)c), want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equality_is_by_bytes_and_length),
		cmocka_unit_test(prefix_and_suffix),
		cmocka_unit_test(find_and_sub_stay_inside),
		cmocka_unit_test(trim_takes_blanks_and_nothing_else),
		cmocka_unit_test(chomp_takes_line_ends_and_nothing_else),
		cmocka_unit_test(dup_refuses_a_nul_inside),
		cmocka_unit_test(numbers_are_digits_without_overflow),
		cmocka_unit_test(hex_digits_have_values_and_others_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
