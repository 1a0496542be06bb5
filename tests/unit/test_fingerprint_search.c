/* wrap: kh_secret_expose EVP_EncryptUpdate */
/* test_fingerprint_search.c - what is sought costs the same whether anything of it is there */
#include "unit.h"

#include <stdlib.h>

#include <openssl/evp.h>

#include <keyhole/base/limits.h>
#include <keyhole/credential/fingerprints.h>

/* Of the first the hardest 16 bytes are known to the test, and followed by more. */
static const char value[] = "9fQ2xZ7Lk0aWm8Rt";
enum { WHOLE = 20, LISTS = 3 };

static unsigned openings, encryptions;
static size_t encrypted;
static uint8_t plain[1 << 16];

bool __real_kh_secret_expose(const struct kh_secret *secret,
			     bool (*use)(struct kh_slice value, void *arg), void *arg);
bool __wrap_kh_secret_expose(const struct kh_secret *secret,
			     bool (*use)(struct kh_slice value, void *arg), void *arg);
bool __wrap_kh_secret_expose(const struct kh_secret *secret,
			     bool (*use)(struct kh_slice value, void *arg), void *arg)
{
	openings++;
	return __real_kh_secret_expose(secret, use, arg);
}

int __real_EVP_EncryptUpdate(EVP_CIPHER_CTX *ctx, unsigned char *out, int *n,
			     const unsigned char *in, int len);
int __wrap_EVP_EncryptUpdate(EVP_CIPHER_CTX *ctx, unsigned char *out, int *n,
			     const unsigned char *in, int len);
/* What comes out of the last ones is kept: all bits of the places. */
int __wrap_EVP_EncryptUpdate(EVP_CIPHER_CTX *ctx, unsigned char *out, int *n,
			     const unsigned char *in, int len)
{
	int ok = __real_EVP_EncryptUpdate(ctx, out, n, in, len);

	encryptions++;
	encrypted += (size_t)len;
	if ((size_t)len <= sizeof(plain))
		memcpy(plain, out, (size_t)len);
	return ok;
}

/* Several lists, each with the one value and another. */
static struct kh_fingerprints *fingerprints_of(const char *text)
{
	struct kh_fingerprint_maker maker;
	struct kh_secret *lists[LISTS];

	assert_true(kh_fingerprint_maker_init(&maker, NULL));
	for (unsigned i = 0; i < LISTS; i++) {
		char more[100];
		(void)snprintf(more, sizeof(more), "%u%sYd1G%u", i, "hT5wq9ZbQ7xKmR2vLs8", i);
		assert_int_equal(
			kh_fingerprint_maker_add(&maker, kh_slice_str(text), false, (uint16_t)i),
			KH_FINGERPRINT_ADDED);
		assert_int_equal(
			kh_fingerprint_maker_add(&maker, kh_slice_str(more), false, (uint16_t)i),
			KH_FINGERPRINT_ADDED);
		lists[i] = kh_fingerprint_maker_take(&maker, NULL);
	}
	struct kh_fingerprints *fingerprints = kh_fingerprints_new(lists, LISTS, NULL);
	assert_non_null(fingerprints);
	kh_fingerprint_maker_fini(&maker);
	return fingerprints;
}

/* As many pieces of 16 bytes, of which the first so many are an anchor. */
static size_t make_text(char *text, unsigned anchors, unsigned pieces, bool fits)
{
	size_t len = 0;

	for (unsigned i = 0; i < pieces; i++) {
		memcpy(text + len, value, sizeof(value) - 1);
		if (i >= anchors)
			text[len + 7] = 'u';
		len += sizeof(value) - 1;
		memcpy(text + len, fits ? "-9999" : ":    ", 5);
		len += 5;
	}
	return len;
}

static struct kh_fingerprint_work work_of(struct kh_fingerprints *fingerprints, unsigned anchors,
					  bool fits, unsigned *candidates)
{
	enum { PIECES = 100, EACH = 21 };
	static char text[PIECES * EACH];
	struct kh_fingerprint_search search;
	size_t len = make_text(text, anchors, PIECES, fits);

	kh_fingerprint_search_begin(&search, fingerprints);
	kh_fingerprint_search_add(&search, kh_slice_of(text, len), 0);
	encryptions = openings = 0;
	encrypted = 0;
	kh_fingerprint_search_settle(&search);
	assert_int_equal(search.found, search.everywhere);
	assert_int_equal(openings, search.work.openings);
	*candidates = search.candidates;
	return search.work;
}

static void no_candidate_and_as_many_as_may_be_cost_the_same(void **state)
{
	static const char whole[] = "9fQ2xZ7Lk0aWm8Rt-9998";
	struct kh_fingerprints *fingerprints[] = { fingerprints_of(value), fingerprints_of(whole) };
	static const unsigned counts[] = { 0, 1, 15, 63, 64, 65, 100 };
	(void)state;
	for (size_t f = 0; f < 2; f++)
		for (size_t fits = 0; fits < 2; fits++) {
			unsigned candidates;
			struct kh_fingerprint_work none =
				work_of(fingerprints[1], 0, fits != 0, &candidates);
			assert_int_equal(candidates, 0);
			assert_int_equal(none.openings, LISTS);
			assert_int_equal(none.digests, KH_LIMIT_CANDIDATE_DIGESTS);
			assert_true(none.compared >= KH_LIMIT_CANDIDATES * LISTS);
			for (size_t i = 1; i < sizeof(counts) / sizeof(*counts); i++) {
				struct kh_fingerprint_work some =
					work_of(fingerprints[1], counts[i], fits != 0, &candidates);
				assert_int_equal(candidates, counts[i] > KH_LIMIT_CANDIDATES
								     ? KH_LIMIT_CANDIDATES + 1
								     : counts[i]);
				assert_memory_equal(&some, &none, sizeof(none));
			}
		}
	kh_fingerprints_unref(fingerprints[0]);
	kh_fingerprints_unref(fingerprints[1]);
}

static void what_holds_a_value_costs_the_same_as_well(void **state)
{
	struct kh_fingerprints *fingerprints = fingerprints_of("9fQ2xZ7Lk0aWm8Rt-9998");
	static const char *const texts[] = { "9fQ2xZ7Lk0aWm8Rt-9997", "9fQ2xZ7Lk0aWm8Rt-9998",
					     "9fQ2xZ7Lk0aWm8Ru-9998" };
	struct kh_fingerprint_work work[3];
	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct kh_fingerprint_search search;
		kh_fingerprint_search_begin(&search, fingerprints);
		kh_fingerprint_search_add(&search, kh_slice_str(texts[i]), 0);
		kh_fingerprint_search_settle(&search);
		assert_int_equal(search.found, i == 1);
		work[i] = search.work;
	}
	assert_memory_equal(&work[0], &work[1], sizeof(work[0]));
	assert_memory_equal(&work[0], &work[2], sizeof(work[0]));
	kh_fingerprints_unref(fingerprints);
}

/* What is looked at and never opened: a request that is not refused and has no candidate. */
static void without_a_candidate_nothing_is_opened_before_it_settles(void **state)
{
	struct kh_fingerprints *fingerprints = fingerprints_of(value);
	struct kh_fingerprint_search search;
	(void)state;
	openings = 0;
	kh_fingerprint_search_begin(&search, fingerprints);
	kh_fingerprint_search_add(&search, KH_SLICE("innocent-text-of-some-length"), 0);
	assert_false(kh_fingerprint_search_has_candidates(&search));
	kh_fingerprint_search_add(&search, KH_SLICE("9fQ2xZ7Lk0aWm8Rt"), 0);
	assert_true(kh_fingerprint_search_has_candidates(&search));
	assert_int_equal(openings, 0);
	kh_fingerprints_unref(fingerprints);
}

/* All that a place is made of. */
static void place_of(struct kh_fingerprints *fingerprints, const char *window, uint8_t place[16])
{
	struct kh_fingerprint_search search;

	kh_fingerprint_search_begin(&search, fingerprints);
	kh_fingerprint_search_add(&search, kh_slice_of(window, 16), 0);
	(void)kh_fingerprint_search_has_candidates(&search);
	memcpy(place, plain, 16);
}

static unsigned bits_between(const uint8_t *one, const uint8_t *other, size_t len)
{
	unsigned bits = 0;

	for (size_t i = 0; i < len; i++)
		bits += (unsigned)__builtin_popcount(one[i] ^ other[i]);
	return bits;
}

static uint64_t first_of(const uint8_t *place)
{
	uint64_t half;

	memcpy(&half, place, sizeof(half));
	return half;
}

/* One difference of windows, at many windows: for a linear place the difference of places is one as
 * well, whether it is taken by subtraction or bit by bit. */
static void a_place_is_not_linear_in_the_window(void **state)
{
	struct kh_fingerprints *fingerprints = fingerprints_of(value);
	enum { TIMES = 32 };
	uint64_t by_sum[TIMES], by_bit[TIMES];
	unsigned least = 128;
	(void)state;
	for (unsigned i = 0; i < TIMES; i++) {
		uint8_t one[16], other[16];
		char window[17];
		(void)snprintf(window, sizeof(window), "abcdefghijklm%03u", i);
		place_of(fingerprints, window, one);
		window[1] ^= 1;
		place_of(fingerprints, window, other);
		by_sum[i] = first_of(one) - first_of(other);
		by_bit[i] = first_of(one) ^ first_of(other);
		unsigned differ = bits_between(one, other, sizeof(one));
		least = differ < least ? differ : least;
		for (unsigned j = 0; j < i; j++) {
			assert_true(by_sum[i] != by_sum[j]);
			assert_true(by_bit[i] != by_bit[j]);
		}
	}
	assert_true(least > 20);
	kh_fingerprints_unref(fingerprints);
}

static void two_workers_have_different_places(void **state)
{
	struct kh_fingerprints *one = fingerprints_of(value), *other = fingerprints_of(value);
	uint8_t places[3][16];
	(void)state;
	place_of(one, value, places[0]);
	place_of(one, value, places[1]);
	place_of(other, value, places[2]);
	assert_memory_equal(places[0], places[1], 16);
	assert_true(bits_between(places[0], places[2], 16) > 20);
	kh_fingerprints_unref(one);
	kh_fingerprints_unref(other);
}

static void a_window_that_agrees_is_hashed_as_any_other(void **state)
{
	struct kh_fingerprints *fingerprints = fingerprints_of(value);
	size_t all[2];
	unsigned calls[2];
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		static char text[50 * 21];
		struct kh_fingerprint_search search;
		size_t len = make_text(text, i ? 0 : 50, 50, true);
		encryptions = 0;
		encrypted = 0;
		kh_fingerprint_search_begin(&search, fingerprints);
		kh_fingerprint_search_add(&search, kh_slice_of(text, len), 0);
		assert_int_equal(kh_fingerprint_search_has_candidates(&search), i == 0);
		assert_int_equal(search.work.windows, len - 15);
		all[i] = encrypted;
		calls[i] = encryptions;
	}
	assert_int_equal(all[0], all[1]);
	assert_int_equal(calls[0], calls[1]);
	kh_fingerprints_unref(fingerprints);
}

static size_t windows_in(struct kh_fingerprints *fingerprints, const char *text)
{
	struct kh_fingerprint_search search;

	kh_fingerprint_search_begin(&search, fingerprints);
	kh_fingerprint_search_add(&search, kh_slice_str(text), 0);
	(void)kh_fingerprint_search_has_candidates(&search);
	return search.work.windows;
}

static void what_no_anchor_is_made_of_costs_nothing(void **state)
{
	struct kh_fingerprints *usual = fingerprints_of(value);
	struct kh_fingerprints *odd = fingerprints_of("9fQ2xZ7L(k0aWm8Rt");
	static const char text[] =
		"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox";
	(void)state;
	assert_int_equal(windows_in(usual, text), 0);
	assert_int_equal(windows_in(odd, text), strlen(text) - 15);
	assert_int_equal(windows_in(usual, "abcdefghijklmno"), 0);
	assert_int_equal(windows_in(usual, "abcdefghijklmnop"), 1);
	assert_int_equal(windows_in(usual, "a abcdefghijklmnopq a"), 2);
	assert_int_equal(windows_in(usual, " abcdefghijklmnop abcdefghijklmnop"), 2);
	kh_fingerprints_unref(usual);
	kh_fingerprints_unref(odd);
}

/* Whatever bytes it has. */
static void a_value_with_any_byte_is_found(void **state)
{
	(void)state;
	for (unsigned c = 1; c < 256; c++) {
		char odd[40], text[100];
		(void)snprintf(odd, sizeof(odd), "9fQ2xZ7%cLk0aWm8Rt%cQ3vBZ", (char)c, (char)c);
		(void)snprintf(text, sizeof(text), "u u%su u", odd);
		struct kh_fingerprints *fingerprints = fingerprints_of(odd);
		for (int small = 0; small < 2; small++) {
			struct kh_fingerprint_search search;
			for (char *s = text; small && *s; s++)
				*s = kh_lower(*s);
			kh_fingerprint_search_begin(&search, fingerprints);
			kh_fingerprint_search_add(&search, kh_slice_str(text), 0);
			kh_fingerprint_search_settle(&search);
			assert_true(search.found);
			assert_false(search.everywhere);
		}
		kh_fingerprints_unref(fingerprints);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_candidate_and_as_many_as_may_be_cost_the_same),
		cmocka_unit_test(what_holds_a_value_costs_the_same_as_well),
		cmocka_unit_test(without_a_candidate_nothing_is_opened_before_it_settles),
		cmocka_unit_test(a_place_is_not_linear_in_the_window),
		cmocka_unit_test(two_workers_have_different_places),
		cmocka_unit_test(a_window_that_agrees_is_hashed_as_any_other),
		cmocka_unit_test(what_no_anchor_is_made_of_costs_nothing),
		cmocka_unit_test(a_value_with_any_byte_is_found),
	};

	kh_secret_prepare();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
