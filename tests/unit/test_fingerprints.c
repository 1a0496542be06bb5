/* test_fingerprints.c - real credentials are known again, raw and in base64, and nothing else is */
#include "unit.h"

#include <stdlib.h>

#include <openssl/evp.h>

#include <keyhole/base/encode.h>
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
	struct kh_fingerprints *fingerprints = kh_fingerprints_new(&list, 1, NULL);
	assert_non_null(fingerprints);
	assert_null(list);
	kh_fingerprint_maker_fini(&maker);
	return fingerprints;
}

/* Return: the index, or -1. */
static int find(struct kh_fingerprints *fingerprints, struct kh_slice text)
{
	struct kh_fingerprint_search search;

	kh_fingerprint_search_begin(&search, fingerprints);
	kh_fingerprint_search_add(&search, text, 0);
	/* What is no candidate is not found. */
	bool may_be = kh_fingerprint_search_has_candidates(&search);
	kh_fingerprint_search_settle(&search);
	assert_true(may_be || !search.found);
	assert_int_equal(kh_fingerprint_search_holds(&search, 0), search.found);
	assert_false(kh_fingerprint_search_holds(&search, 1));
	return search.found ? search.index : -1;
}

static void a_value_is_found_wherever_it_stands(void **state)
{
	struct kh_fingerprints *fingerprints = fingerprints_of();
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
			assert_int_equal(find(fingerprints, s), wanted);
			int n = EVP_EncodeBlock(encoded, (unsigned char *)text, (int)s.len);
			s = kh_slice_of(encoded, (size_t)n);
			assert_int_equal(find(fingerprints, s), wanted);
			for (int i = 0; i < n; i++)
				encoded[i] = encoded[i] == '+'	 ? '-'
					     : encoded[i] == '/' ? '_'
								 : encoded[i];
			assert_int_equal(find(fingerprints, s), wanted);
		}
	}
	kh_fingerprints_unref(fingerprints);
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
	struct kh_fingerprints *fingerprints = fingerprints_of();
	char text[100], wide[200], out[600];
	unsigned char twice[600];
	(void)state;
	for (size_t before = 0; before < 7; before++) {
		memset(text, '~', before);
		(void)snprintf(text + before, sizeof(text) - before, "%s~~~~~", values[3]);
		struct kh_slice s = kh_slice_str(text);
		assert_int_equal(find(fingerprints, encoded_by(s, 4, "0123456789abcdef", out)), 3);
		assert_int_equal(find(fingerprints, encoded_by(s, 4, "0123456789ABCDEF", out)), 3);
		assert_int_equal(find(fingerprints,
				      encoded_by(s, 5, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", out)),
				 3);
		for (size_t big = 0; big < 2; big++) {
			memset(wide, 0, sizeof(wide));
			for (size_t i = 0; i < s.len; i++)
				wide[2 * i + big] = s.ptr[i];
			assert_int_equal(find(fingerprints, kh_slice_of(wide, 2 * s.len)), 3);
			int n = EVP_EncodeBlock(twice, (unsigned char *)wide, (int)(2 * s.len));
			assert_int_equal(find(fingerprints, kh_slice_of(twice, (size_t)n)), 3);
		}
	}
	kh_fingerprints_unref(fingerprints);
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
	struct kh_fingerprints *fingerprints = fingerprints_of();
	char text[100], out[600];
	(void)state;
	for (unsigned how = 0; how < 4; how++)
		for (size_t before = 0; before < 7; before++) {
			memset(text, '~', before);
			(void)snprintf(text + before, sizeof(text) - before, "%s~~~~~", values[3]);
			struct kh_slice s = kh_slice_str(text);
			struct kh_slice of = encoded_by(s, 4, "0123456789abcdef", out);
			set_case(out, of.len, how);
			assert_int_equal(find(fingerprints, of), 3);
			of = encoded_by(s, 5, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", out);
			set_case(out, of.len, how);
			assert_int_equal(find(fingerprints, of), 3);
			/* One digit is another. */
			out[of.len / 2] = out[of.len / 2] == '7' ? '6' : '7';
			assert_int_equal(find(fingerprints, of), -1);
		}
	kh_fingerprints_unref(fingerprints);
}

/* A host is read in small letters, and a request may be written in any. */
static void base64_is_known_in_any_case_unless_it_is_easy_to_guess_so(void **state)
{
	/* Hard to guess as it is, and easy in small letters. */
	static const char mixed[] = "aAbBaAbBcCdDaAbB";
	struct kh_fingerprints *fingerprints = fingerprints_of();
	char text[100], out[600];
	(void)state;
	for (unsigned how = 0; how < 4; how++)
		for (size_t before = 0; before < 5; before++)
			for (unsigned url = 0; url < 2; url++) {
				memset(text, '~', before);
				(void)snprintf(text + before, sizeof(text) - before, "%s~~",
					       values[0]);
				struct kh_slice of = encoded_by(
					kh_slice_str(text), 6,
					url ? kh_base64url_digits : kh_base64_digits, out);
				set_case(out, of.len, how);
				assert_int_equal(find(fingerprints, of), 0);
				out[of.len / 2] = out[of.len / 2] == '7' ? '6' : '7';
				assert_int_equal(find(fingerprints, of), -1);
			}
	kh_fingerprints_unref(fingerprints);
	assert_true(kh_guess_is_hard(kh_slice_str(mixed)));
	assert_false(kh_guess_is_hard(KH_SLICE("aabbaabbccddaabb")));
}

/* A line is sent as a host's labels, or in base64 so. */
static void a_line_of_a_private_key_is_known_in_small_letters(void **state)
{
	static const char line[] =
		"MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7q2xZ7Lk0aWm8";
	struct kh_fingerprint_maker maker;
	char out[200];
	(void)state;
	assert_true(kh_fingerprint_maker_init(&maker, NULL));
	assert_int_equal(kh_fingerprint_maker_add(&maker, kh_slice_str(line), true, 9),
			 KH_FINGERPRINT_ADDED);
	struct kh_secret *list = kh_fingerprint_maker_take(&maker, NULL);
	struct kh_fingerprints *fingerprints = kh_fingerprints_new(&list, 1, NULL);
	kh_fingerprint_maker_fini(&maker);
	(void)snprintf(out, sizeof(out), "%s", line);
	set_case(out, strlen(out), 0);
	assert_int_equal(find(fingerprints, kh_slice_str(out)), 9);
	struct kh_slice of = encoded_by(kh_slice_str(line), 6, kh_base64url_digits, out);
	set_case(out, of.len, 0);
	assert_int_equal(find(fingerprints, of), 9);
	kh_fingerprints_unref(fingerprints);
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
	struct kh_fingerprints *fingerprints = kh_fingerprints_new(&list, 1, NULL);
	kh_fingerprint_maker_fini(&maker);
	assert_int_equal(find(fingerprints, kh_slice_str(value)), 5);
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		assert_int_equal(find(fingerprints, kh_slice_str(good[i])), 5);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(find(fingerprints, kh_slice_str(bad[i])), -1);
	assert_int_equal(find(fingerprints, KH_SLICE("aabbaabbccddaabb")), -1);
	kh_fingerprints_unref(fingerprints);
}

static void what_is_nearly_one_is_none(void **state)
{
	struct kh_fingerprints *fingerprints = fingerprints_of();
	char text[64];
	(void)state;
	/* Its end with another beginning, and all but its first or last byte. */
	(void)snprintf(text, sizeof(text), "%s", values[0]);
	text[3] ^= 1;
	assert_int_equal(find(fingerprints, kh_slice_str(text)), -1);
	assert_int_equal(find(fingerprints, kh_slice_str(values[0] + 1)), -1);
	assert_int_equal(find(fingerprints, kh_slice_of(values[0], strlen(values[0]) - 1)), -1);
	assert_int_equal(find(fingerprints, KH_SLICE("")), -1);
	assert_int_equal(find(fingerprints, KH_SLICE("1234567")), -1);
	kh_fingerprints_unref(fingerprints);
}

/* Of one text, of which the first 16 bytes agree so many times. */
static void nearly(struct kh_fingerprint_search *search, struct kh_slice text, unsigned times)
{
	for (unsigned i = 0; i < times; i++)
		kh_fingerprint_search_add(search, text, i);
}

static void a_request_has_so_many_candidates_and_no_more(void **state)
{
	struct kh_fingerprints *fingerprints = fingerprints_of();
	struct kh_slice value = kh_slice_str(values[3]),
			innocent = KH_SLICE("innocent-text-of-20-");
	/* What is looked for first, without the rest: too short; and as long. */
	struct kh_slice cut = kh_slice_sub(value, 1, value.len);
	char other[100];
	(void)state;
	(void)snprintf(other, sizeof(other), "b%s", values[3] + 1);
	static const struct {
		bool whole;
		unsigned times;
		bool found;
	} cases[] = {
		{ false, 0, false },
		{ false, KH_LIMIT_CANDIDATES, false },
		{ false, KH_LIMIT_CANDIDATES + 1, true },
		{ false, KH_LIMIT_CANDIDATES + 40, true },
		{ true, KH_LIMIT_CANDIDATE_DIGESTS, false },
		{ true, KH_LIMIT_CANDIDATE_DIGESTS + 1, true },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct kh_fingerprint_search search;
		kh_fingerprint_search_begin(&search, fingerprints);
		nearly(&search, cases[i].whole ? kh_slice_str(other) : cut, cases[i].times);
		kh_fingerprint_search_add(&search, innocent, 999);
		kh_fingerprint_search_settle(&search);
		assert_int_equal(search.candidates, cases[i].times > KH_LIMIT_CANDIDATES
							    ? KH_LIMIT_CANDIDATES + 1
							    : cases[i].times);
		assert_int_equal(search.found, cases[i].found);
		assert_int_equal(search.index, UINT16_MAX);
		/* With too many nobody knows which text holds one. */
		assert_int_equal(kh_fingerprint_search_holds(&search, 999), cases[i].found);
	}
	kh_fingerprints_unref(fingerprints);
}

static void the_text_that_holds_one_is_named(void **state)
{
	struct kh_fingerprints *fingerprints = fingerprints_of();
	struct kh_fingerprint_search search;
	(void)state;
	kh_fingerprint_search_begin(&search, fingerprints);
	kh_fingerprint_search_add(&search, KH_SLICE("innocent-text-of-20-"), 4);
	kh_fingerprint_search_add(&search, kh_slice_str(values[3] + 1), 5);
	kh_fingerprint_search_add(&search, kh_slice_str(values[0]), 6);
	kh_fingerprint_search_add(&search, kh_slice_str(values[3]), 7);
	kh_fingerprint_search_settle(&search);
	assert_true(search.found);
	assert_false(search.everywhere);
	assert_int_equal(search.index, 0);
	assert_int_equal(search.subject, 6);
	for (uint32_t subject = 0; subject < 9; subject++)
		assert_int_equal(kh_fingerprint_search_holds(&search, subject),
				 subject == 6 || subject == 7);
	kh_fingerprints_unref(fingerprints);
}

static void nothing_is_found_among_none(void **state)
{
	(void)state;
	struct kh_fingerprints *fingerprints = kh_fingerprints_new(NULL, 0, NULL);
	assert_non_null(fingerprints);
	assert_int_equal(find(fingerprints, kh_slice_str(values[0])), -1);
	kh_fingerprints_unref(fingerprints);
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
	struct kh_fingerprints *fingerprints = kh_fingerprints_new(lists, 2, NULL);
	assert_int_equal(find(fingerprints, kh_slice_str(text)), n);
	assert_int_equal(find(fingerprints, KH_SLICE("9fQ2xZ7Lk0aWm8Rt-0007")), 7);
	kh_fingerprints_unref(fingerprints);
	kh_fingerprint_maker_fini(&maker);
}

/* docs/placeholders.md: 16 lists of these have room for 1,184 values at least. */
static void a_list_has_room_for_74_values_of_any_kind(void **state)
{
	enum { ENTRIES = 1637, MOST_OF_ONE = 22 };
	struct kh_fingerprint_maker maker;
	struct kh_err err = KH_ERR_INIT;
	uint32_t random = 1;
	uint16_t n = 0;
	bool room = true;
	(void)state;
	assert_true(kh_fingerprint_maker_init(&maker, NULL));
	while (room && n < 2000) {
		char text[400];
		for (size_t i = 0; i < sizeof(text); i++) {
			random = random * 1664525 + 1013904223;
			text[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.>?/+~-_"
				[(random >> 8) % 60];
		}
		room = kh_fingerprint_maker_add(&maker, kh_slice_of(text, sizeof(text)), false,
						n) == KH_FINGERPRINT_ADDED;
		n += room;
	}
	assert_int_equal(n, ENTRIES / MOST_OF_ONE);
	struct kh_secret *list = kh_fingerprint_maker_take(&maker, &err);
	assert_int_equal(kh_secret_len(list), 32 + n * MOST_OF_ONE * 40);
	kh_secret_unref(list);
	kh_fingerprint_maker_fini(&maker);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list_has_room_for_74_values_of_any_kind),
		cmocka_unit_test(a_value_is_found_wherever_it_stands),
		cmocka_unit_test(hex_base32_and_utf16_are_known_as_well),
		cmocka_unit_test(hex_and_base32_are_known_in_any_case),
		cmocka_unit_test(base64_is_known_in_any_case_unless_it_is_easy_to_guess_so),
		cmocka_unit_test(a_line_of_a_private_key_is_known_in_small_letters),
		cmocka_unit_test(a_value_is_known_in_small_letters_and_without_its_dots),
		cmocka_unit_test(what_is_nearly_one_is_none),
		cmocka_unit_test(a_request_has_so_many_candidates_and_no_more),
		cmocka_unit_test(the_text_that_holds_one_is_named),
		cmocka_unit_test(nothing_is_found_among_none),
		cmocka_unit_test(a_list_that_is_full_says_so_and_another_goes_on),
	};

	kh_secret_prepare();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
