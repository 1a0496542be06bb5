/* test_fingerprints.c - real credentials are known again, raw and in base64, and nothing else is */
#include "unit.h"

#include <stdlib.h>

#include <openssl/evp.h>

#include <keyhole/base/limits.h>
#include <keyhole/credential/fingerprints.h>

static const char *const values[] = { "sk-ant-api03-hT5+/wq9Zb?>Q7xKmR2v", "48151623",
				      "svc-deploy:Winter2044",
				      "a value with \"quotes\" and 9fQ2xZ7Lk0aWm8Rt" };
enum { VALUES = 4, FIRST_EASY = 1, LAST_EASY = 2 };

static bool is_easy(int v)
{
	return v >= FIRST_EASY && v <= LAST_EASY;
}

static enum kh_fingerprint_result add(struct kh_fingerprint_maker *maker, const char *text,
				      uint16_t index)
{
	return kh_fingerprint_maker_add(maker, kh_slice_str(text), false, index);
}

static struct kh_fingerprints *fingerprints_of(void)
{
	struct kh_fingerprint_maker maker;
	assert_true(kh_fingerprint_maker_init(&maker, NULL));
	for (int i = 0; i < VALUES; i++)
		assert_int_equal(add(&maker, values[i], (uint16_t)i),
				 is_easy(i) ? KH_FINGERPRINT_GUESSABLE : KH_FINGERPRINT_ADDED);
	struct kh_secret *list = kh_fingerprint_maker_take(&maker, NULL);
	assert_non_null(list);
	struct kh_fingerprints *prints = kh_fingerprints_new(&list, 1, NULL);
	assert_non_null(prints);
	assert_null(list);
	kh_fingerprint_maker_fini(&maker);
	return prints;
}

/* Return: the index, or -1. */
static int find(const struct kh_fingerprints *prints, struct kh_slice text)
{
	struct kh_print_search search = { 0 };

	kh_prints_find(prints, text, &search);
	return search.found ? search.index : -1;
}

static void a_value_is_found_wherever_it_stands(void **state)
{
	struct kh_fingerprints *prints = fingerprints_of();
	char text[200];
	unsigned char encoded[400];
	(void)state;
	for (int v = 0; v < VALUES; v++) {
		for (size_t before = 0; before < 20; before++) {
			int wanted = is_easy(v) ? -1 : v;
			memset(text, 'u', before);
			(void)snprintf(text + before, sizeof(text) - before, "%s%s", values[v],
				       before % 2 ? "" : "..");
			struct kh_slice s = kh_slice_str(text);
			assert_int_equal(find(prints, s), wanted);
			int n = EVP_EncodeBlock(encoded, (unsigned char *)text, (int)s.len);
			s = kh_slice_of(encoded, (size_t)n);
			assert_int_equal(find(prints, s), wanted);
			for (int i = 0; i < n; i++)
				encoded[i] = encoded[i] == '+'	 ? '-'
					     : encoded[i] == '/' ? '_'
								 : encoded[i];
			assert_int_equal(find(prints, s), wanted);
		}
	}
	kh_prints_unref(prints);
}

/* Written out by itself: bit by bit, the first first. */
static struct kh_slice encoded_by(struct kh_slice text, unsigned bits, const char *digits,
				  char *out)
{
	size_t n = 0;

	for (size_t bit = 0; bit + bits <= 8 * text.len; bit += bits) {
		unsigned value = 0;
		for (size_t i = bit; i < bit + bits; i++)
			value = value << 1 | ((unsigned char)text.ptr[i / 8] >> (7 - i % 8) & 1);
		out[n++] = digits[value];
	}
	return kh_slice_of(out, n);
}

static void hex_base32_and_utf16_are_known_as_well(void **state)
{
	struct kh_fingerprints *prints = fingerprints_of();
	char text[100], wide[200], out[600];
	unsigned char twice[600];
	(void)state;
	for (size_t before = 0; before < 7; before++) {
		memset(text, '~', before);
		(void)snprintf(text + before, sizeof(text) - before, "%s~~~~~", values[3]);
		struct kh_slice s = kh_slice_str(text);
		assert_int_equal(find(prints, encoded_by(s, 4, "0123456789abcdef", out)), 3);
		assert_int_equal(find(prints, encoded_by(s, 4, "0123456789ABCDEF", out)), 3);
		assert_int_equal(
			find(prints, encoded_by(s, 5, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", out)), 3);
		for (size_t big = 0; big < 2; big++) {
			memset(wide, 0, sizeof(wide));
			for (size_t i = 0; i < s.len; i++)
				wide[2 * i + big] = s.ptr[i];
			assert_int_equal(find(prints, kh_slice_of(wide, 2 * s.len)), 3);
			int n = EVP_EncodeBlock(twice, (unsigned char *)wide, (int)(2 * s.len));
			assert_int_equal(find(prints, kh_slice_of(twice, (size_t)n)), 3);
		}
	}
	kh_prints_unref(prints);
}

/* How: all small, all large, by turns, large after the middle. */
static void set_case(char *text, size_t len, unsigned how)
{
	for (size_t i = 0; i < len; i++) {
		bool large = how == 1 || (how == 2 && i % 2) || (how == 3 && i > len / 2);
		char c = kh_lower(text[i]);
		text[i] = (char)(large && c >= 'a' && c <= 'z' ? c - 32 : c);
	}
}

static void hex_and_base32_are_known_in_any_case(void **state)
{
	struct kh_fingerprints *prints = fingerprints_of();
	char text[100], out[600];
	(void)state;
	for (unsigned how = 0; how < 4; how++)
		for (size_t before = 0; before < 7; before++) {
			memset(text, '~', before);
			(void)snprintf(text + before, sizeof(text) - before, "%s~~~~~", values[3]);
			struct kh_slice s = kh_slice_str(text);
			struct kh_slice of = encoded_by(s, 4, "0123456789abcdef", out);
			set_case(out, of.len, how);
			assert_int_equal(find(prints, of), 3);
			of = encoded_by(s, 5, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", out);
			set_case(out, of.len, how);
			assert_int_equal(find(prints, of), 3);
			/* One digit is another. */
			out[of.len / 2] = out[of.len / 2] == '7' ? '6' : '7';
			assert_int_equal(find(prints, of), -1);
		}
	/* Of base64 case counts. */
	(void)EVP_EncodeBlock((unsigned char *)out, (const unsigned char *)values[3],
			      (int)strlen(values[3]));
	assert_int_equal(find(prints, kh_slice_str(out)), 3);
	set_case(out, strlen(out), 0);
	assert_int_equal(find(prints, kh_slice_str(out)), -1);
	kh_prints_unref(prints);
}

static void a_value_is_known_in_small_letters_and_without_its_dots(void **state)
{
	static const char value[] = "Tok_9fQ2.xZ7Lk0aWm8Rt.Q3vB";
	static const char *const good[] = { "tok_9fq2.xz7lk0awm8rt.q3vb",
					    "TOK_9FQ2.XZ7LK0AWM8RT.Q3VB",
					    "a-tok_9fq2xz7lk0awm8rtq3vb.test",
					    "TOK_9fq2xz7lk0awm8rtQ3VB" };
	static const char *const bad[] = { "tok_9fq2.xz7lk0awm8rt.q3v", "tok-9fq2xz7lk0awm8rtq3vb",
					   "tok_9fq2xz7lk0awm9rtq3vb" };
	/* In small letters it is easy to guess, as it is it is not. */
	static const char mixed[] = "aAbBaAbBcCdDaAbB";
	struct kh_fingerprint_maker maker;
	(void)state;
	assert_true(kh_fingerprint_maker_init(&maker, NULL));
	assert_int_equal(add(&maker, value, 5), KH_FINGERPRINT_ADDED);
	(void)add(&maker, mixed, 6);
	struct kh_secret *list = kh_fingerprint_maker_take(&maker, NULL);
	struct kh_fingerprints *prints = kh_fingerprints_new(&list, 1, NULL);
	kh_fingerprint_maker_fini(&maker);
	assert_int_equal(find(prints, kh_slice_str(value)), 5);
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		assert_int_equal(find(prints, kh_slice_str(good[i])), 5);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(find(prints, kh_slice_str(bad[i])), -1);
	assert_int_equal(find(prints, KH_SLICE("aabbaabbccddaabb")), -1);
	kh_prints_unref(prints);
}

static void what_is_nearly_one_is_none(void **state)
{
	struct kh_fingerprints *prints = fingerprints_of();
	char text[64];
	(void)state;
	/* Its end with another beginning, and all but its first or last byte. */
	(void)snprintf(text, sizeof(text), "%s", values[0]);
	text[3] ^= 1;
	assert_int_equal(find(prints, kh_slice_str(text)), -1);
	assert_int_equal(find(prints, kh_slice_str(values[0] + 1)), -1);
	assert_int_equal(find(prints, kh_slice_of(values[0], strlen(values[0]) - 1)), -1);
	assert_int_equal(find(prints, KH_SLICE("")), -1);
	assert_int_equal(find(prints, KH_SLICE("1234567")), -1);
	kh_prints_unref(prints);
}

static void a_request_has_so_many_candidates_and_no_more(void **state)
{
	struct kh_fingerprints *prints = fingerprints_of();
	struct kh_print_search search = { 0 };
	/* What is looked for first, without the rest. */
	struct kh_slice nearly = kh_slice_sub(kh_slice_str(values[3]), 1, strlen(values[3]));
	(void)state;
	for (unsigned i = 0; i < KH_LIMIT_CANDIDATES; i++) {
		kh_prints_find(prints, nearly, &search);
		assert_false(search.found);
		assert_int_equal(search.candidates, i + 1);
	}
	kh_prints_find(prints, KH_SLICE("innocent text of some length, all of it"), &search);
	assert_false(search.found);
	kh_prints_find(prints, nearly, &search);
	assert_true(search.found);
	assert_int_equal(search.index, UINT16_MAX);
	kh_prints_unref(prints);
}

static void nothing_is_found_among_none(void **state)
{
	(void)state;
	struct kh_fingerprints *prints = kh_fingerprints_new(NULL, 0, NULL);
	assert_non_null(prints);
	assert_int_equal(find(prints, kh_slice_str(values[0])), -1);
	kh_prints_spend(prints);
	kh_prints_unref(prints);
	/* What is no list is refused. */
	char bytes[] = "not a list of prints";
	struct kh_secret *odd = kh_secret_new(bytes, sizeof(bytes), NULL);
	assert_null(kh_fingerprints_new(&odd, 1, NULL));
	assert_null(odd);
}

static void a_list_that_is_full_says_so_and_another_goes_on(void **state)
{
	struct kh_fingerprint_maker maker;
	uint16_t n = 0;
	char text[40];
	(void)state;
	assert_true(kh_fingerprint_maker_init(&maker, NULL));
	for (bool room = true; room && n < 2000; n++) {
		(void)snprintf(text, sizeof(text), "9fQ2xZ7Lk0aWm8Rt-%04u", n);
		enum kh_fingerprint_result result = add(&maker, text, n);
		room = result == KH_FINGERPRINT_ADDED;
		assert_true(room || result == KH_FINGERPRINT_FULL);
	}
	assert_in_range(n, 60, 1000);
	struct kh_secret *lists[2] = { kh_fingerprint_maker_take(&maker, NULL), NULL };
	assert_int_equal(add(&maker, text, n), KH_FINGERPRINT_ADDED);
	lists[1] = kh_fingerprint_maker_take(&maker, NULL);
	struct kh_fingerprints *prints = kh_fingerprints_new(lists, 2, NULL);
	assert_int_equal(find(prints, kh_slice_str(text)), n);
	assert_int_equal(find(prints, KH_SLICE("9fQ2xZ7Lk0aWm8Rt-0007")), 7);
	kh_prints_spend(prints);
	kh_prints_unref(prints);
	kh_fingerprint_maker_fini(&maker);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_value_is_found_wherever_it_stands),
		cmocka_unit_test(hex_base32_and_utf16_are_known_as_well),
		cmocka_unit_test(hex_and_base32_are_known_in_any_case),
		cmocka_unit_test(a_value_is_known_in_small_letters_and_without_its_dots),
		cmocka_unit_test(what_is_nearly_one_is_none),
		cmocka_unit_test(a_request_has_so_many_candidates_and_no_more),
		cmocka_unit_test(nothing_is_found_among_none),
		cmocka_unit_test(a_list_that_is_full_says_so_and_another_goes_on),
	};

	kh_secret_prepare();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
