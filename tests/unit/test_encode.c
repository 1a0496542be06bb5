/* test_encode.c - hex, base64 and percent-encoding: there and back, and one spelling only */
#include "unit.h"

#include <stdio.h>

#include <openssl/evp.h>

#include <keyhole/base/encode.h>

enum { MOST = 70 };

/* Other bytes for each seed. */
static void fill(unsigned char *bytes, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		bytes[i] = (unsigned char)((seed = seed * 1103515245 + 12345) >> 16);
}

static void hex_comes_back_and_nothing_else_is_taken(void **state)
{
	unsigned char bytes[MOST], back[MOST];
	char text[2 * MOST + 1], want[2 * MOST + 1] = "";

	(void)state;
	for (size_t len = 0; len <= MOST; len++) {
		fill(bytes, len, (unsigned)len);
		for (size_t i = 0; i < len; i++)
			(void)snprintf(want + 2 * i, 3, "%02x", bytes[i]);
		kh_hex_encode(bytes, len, text);
		assert_string_equal(text, want);
		assert_true(kh_hex_is_valid(kh_slice_str(text)));
		assert_true(kh_hex_decode(kh_slice_str(text), back, len));
		assert_memory_equal(back, bytes, len);
		assert_false(kh_hex_decode(kh_slice_str(text), back, len + 1));
		assert_false(kh_hex_decode(kh_slice_of(text, 2 * len + 1), back, len));
	}
	assert_true(kh_hex_decode(KH_SLICE("aBCd"), back, 2));
	assert_memory_equal(back, "\xab\xcd", 2);
	assert_false(kh_hex_decode(KH_SLICE("0g"), back, 1));
	assert_false(kh_hex_decode(KH_SLICE("0x"), back, 1));
	assert_false(kh_hex_decode(KH_SLICE(" 0"), back, 1));
	assert_false(kh_hex_is_valid(KH_SLICE("aB")));
	assert_false(kh_hex_is_valid(kh_slice_of("a\0", 2)));
}

static size_t put(struct kh_slice text, size_t cut, enum kh_base64_form form, char out[2 * MOST])
{
	const struct kh_slice parts[] = { kh_slice_sub(text, 0, cut), KH_SLICE(""),
					  kh_slice_sub(text, cut, text.len) };
	struct kh_buf buf;

	kh_buf_init(&buf, 2 * MOST);
	assert_true(kh_base64_put(&buf, parts, 3, form));
	size_t len = kh_buf_len(&buf);
	memcpy(out, kh_buf_view(&buf).ptr, len);
	out[len] = '\0';
	kh_buf_fini(&buf);
	return len;
}

static void base64_is_what_openssl_makes_of_it_in_one_part_or_several(void **state)
{
	unsigned char bytes[MOST], back[MOST + 2], want[2 * MOST];
	char text[2 * MOST];
	size_t len;

	(void)state;
	for (size_t n = 0; n <= MOST; n++) {
		fill(bytes, n, (unsigned)n);
		(void)EVP_EncodeBlock(want, bytes, (int)n);
		kh_base64_encode(bytes, n, text);
		assert_string_equal(text, (char *)want);
		for (size_t cut = 0; cut <= n; cut++) {
			assert_int_equal(put(kh_slice_of(bytes, n), cut, KH_BASE64, text),
					 KH_BASE64_LEN(n));
			assert_string_equal(text, (char *)want);
		}
		assert_true(kh_base64_decode(kh_slice_str(text), KH_BASE64, back, &len));
		assert_int_equal(len, n);
		assert_memory_equal(back, bytes, n);
		(void)put(kh_slice_of(bytes, n), n / 2, KH_BASE64URL, text);
		assert_null(strpbrk(text, "+/="));
		assert_true(kh_base64_decode(kh_slice_str(text), KH_BASE64URL, back, &len));
		assert_int_equal(len, n);
		assert_memory_equal(back, bytes, n);
		assert_true(kh_base64_decode(kh_slice_str(text), KH_BASE64_LOOSE, back, &len));
		assert_int_equal(len, n);
	}
}

static void strict_base64_has_one_spelling(void **state)
{
	static const struct {
		const char *text;
		bool standard, url, loose;
	} rows[] = {
		{ "", true, true, true },
		{ "Zg==", true, false, true },
		{ "Zg", false, true, true },
		{ "Zg=", false, false, true },
		{ "Zh==", false, false, true },
		{ "Zh", false, false, true },
		{ "Zm8=", true, false, true },
		{ "Zm9=", false, false, true },
		{ "Zm9v", true, true, true },
		{ "Zm9v====", false, false, true },
		{ "Z", false, false, false },
		{ "Z===", false, false, false },
		{ "====", false, false, true },
		{ "Zm9vZ", false, false, false },
		{ "+/+/", true, false, true },
		{ "-_-_", false, true, true },
		{ "+/-_", false, false, true },
		{ "Zm9v\n", false, false, false },
		{ " Zm9", false, false, false },
		{ "Zg==Zg==", false, false, false },
		{ "Z=9v", false, false, false },
		{ "Zm9v!AAA", false, false, false },
		{ "\xc3\xa9==", false, false, false },
	};
	unsigned char out[64];
	size_t len;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct kh_slice text = kh_slice_str(rows[i].text);
		assert_int_equal(kh_base64_decode(text, KH_BASE64, out, &len), rows[i].standard);
		assert_int_equal(kh_base64_decode(text, KH_BASE64URL, out, &len), rows[i].url);
		assert_int_equal(kh_base64_decode(text, KH_BASE64_LOOSE, out, &len), rows[i].loose);
	}
	assert_false(kh_base64_decode(kh_slice_of("AA\0A", 4), KH_BASE64, out, &len));
}

static void base64_that_has_no_room_appends_nothing(void **state)
{
	struct kh_slice text = KH_SLICE("seven b");
	struct kh_buf buf;

	(void)state;
	kh_buf_init(&buf, 11);
	assert_false(kh_base64_put(&buf, &text, 1, KH_BASE64));
	assert_int_equal(kh_buf_len(&buf), 0);
	assert_true(kh_base64_put(&buf, &text, 1, KH_BASE64URL));
	assert_int_equal(kh_buf_len(&buf), 10);
	kh_buf_fini(&buf);
}

static void digits_have_the_values_that_they_stand_for(void **state)
{
	(void)state;
	for (int i = 0; i < 64; i++) {
		assert_int_equal(kh_base64_value(kh_base64_digits[i]), i);
		assert_int_equal(kh_base64_value(kh_base64url_digits[i]), i);
	}
	for (int i = 0; i < 16; i++) {
		assert_int_equal(kh_hex_value(kh_hex_digits[i]), i);
		assert_int_equal(kh_hex_value(kh_hex_digits_upper[i]), i);
	}
	int known = 0;
	for (int c = 0; c < 256; c++)
		known += kh_base64_value((char)c) >= 0;
	assert_int_equal(known, 66);
}

static void every_byte_is_escaped_unless_it_is_unreserved_or_kept(void **state)
{
	(void)state;
	for (int c = 0; c < 256; c++) {
		char byte = (char)c, want[4];
		bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
			     (c >= 'A' && c <= 'Z') || (c && strchr("-._~/", c));
		(void)snprintf(want, sizeof(want), plain ? "%c" : "%%%02X", (unsigned)c);
		struct kh_buf buf;
		kh_buf_init(&buf, 3);
		assert_true(kh_percent_encode(&buf, kh_slice_of(&byte, 1), "/"));
		assert_string_equal(kh_buf_cstr(&buf), want);
		assert_int_equal(plain ? c : kh_percent_byte(kh_buf_view(&buf), 0), c);
		kh_buf_fini(&buf);
	}
	assert_int_equal(kh_percent_byte(KH_SLICE("a%2f"), 1), '/');
	assert_int_equal(kh_percent_byte(KH_SLICE("%2"), 0), -1);
	assert_int_equal(kh_percent_byte(KH_SLICE("%"), 0), -1);
	assert_int_equal(kh_percent_byte(KH_SLICE("%2g"), 0), -1);
	assert_int_equal(kh_percent_byte(KH_SLICE("%+1"), 0), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hex_comes_back_and_nothing_else_is_taken),
		cmocka_unit_test(base64_is_what_openssl_makes_of_it_in_one_part_or_several),
		cmocka_unit_test(strict_base64_has_one_spelling),
		cmocka_unit_test(base64_that_has_no_room_appends_nothing),
		cmocka_unit_test(digits_have_the_values_that_they_stand_for),
		cmocka_unit_test(every_byte_is_escaped_unless_it_is_unreserved_or_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
