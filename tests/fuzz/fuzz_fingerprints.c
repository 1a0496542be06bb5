/*
 * fuzz_fingerprints.c - a real credential in any text: found where it stands, raw or in base64, and
 * nowhere else
 *
 * What ought to be found is worked out in another way: OpenSSL encodes the value between bytes of
 * zeroes and between bytes of ones, and what is the same in both hangs on nothing but the value.
 */
#include <stdlib.h>

#include <openssl/evp.h>

#include <keyhole/base/limits.h>
#include <keyhole/credential/fingerprints.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition) \
	do { \
		if (!(condition)) \
			abort(); \
	} while (0)

enum { MOST = 255, ROOM = 1 + 4 * ((MOST + 8) / 3), TEXT_MOST = 4096 };

static bool stands_in(struct kh_slice text, struct kh_slice part)
{
	return memmem(text.ptr, text.len, part.ptr, part.len) != NULL;
}

static void to_url(unsigned char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		text[i] = text[i] == '+' ? '-' : text[i] == '/' ? '_' : text[i];
}

static size_t encode(struct kh_slice value, size_t before, int around, unsigned char out[ROOM])
{
	unsigned char group[MOST + 8];
	size_t len = (before + value.len + 2) / 3 * 3;

	memset(group, around, sizeof(group));
	memcpy(group + before, value.ptr, value.len);
	return (size_t)EVP_EncodeBlock(out, group, (int)len);
}

static bool stands_in_base64(struct kh_slice text, struct kh_slice value, size_t before)
{
	unsigned char zeroes[ROOM], ones[ROOM];
	size_t len = encode(value, before, 0, zeroes), from = 0, to = len;

	CHECK(encode(value, before, 0xff, ones) == len);
	while (zeroes[from] != ones[from])
		from++;
	while (zeroes[to - 1] != ones[to - 1])
		to--;
	if (stands_in(text, kh_slice_of(zeroes + from, to - from)))
		return true;
	to_url(zeroes + from, to - from);
	return stands_in(text, kh_slice_of(zeroes + from, to - from));
}

static bool expected(struct kh_slice text, struct kh_slice value)
{
	if (!kh_guess_is_hard(value))
		return false;
	return stands_in(text, value) || stands_in_base64(text, value, 0) ||
	       stands_in_base64(text, value, 1) || stands_in_base64(text, value, 2);
}

static struct kh_fingerprints *fingerprints_of(const struct kh_slice values[2], bool apart)
{
	struct kh_fingerprint_maker maker;
	struct kh_secret *lists[2];
	size_t n = 0;

	CHECK(kh_fingerprint_maker_init(&maker, NULL));
	for (uint16_t i = 0; i < 2; i++) {
		CHECK(kh_fingerprint_maker_add(&maker, values[i], true, i) ==
		      (kh_guess_is_hard(values[i]) ? KH_FINGERPRINT_ADDED
						   : KH_FINGERPRINT_GUESSABLE));
		if (apart || i == 1)
			CHECK((lists[n++] = kh_fingerprint_maker_take(&maker, NULL)) != NULL);
	}
	kh_fingerprint_maker_fini(&maker);
	struct kh_fingerprints *fingerprints = kh_fingerprints_new(lists, n, NULL);
	CHECK(fingerprints);
	return fingerprints;
}

/* A list that nobody made: it is refused, or it finds nothing that it ought not to look at. */
static void check_garbage(struct kh_slice bytes, struct kh_slice text)
{
	char copy[TEXT_MOST];
	struct kh_fingerprint_search search;

	if (bytes.len == 0)
		return;
	memcpy(copy, bytes.ptr, bytes.len);
	struct kh_secret *list = kh_secret_new(copy, bytes.len, NULL);
	CHECK(list);
	struct kh_fingerprints *fingerprints = kh_fingerprints_new(&list, 1, NULL);
	CHECK(!list);
	if (fingerprints) {
		kh_fingerprint_search_begin(&search, fingerprints);
		kh_fingerprint_search_add(&search, text, 0);
		kh_fingerprint_search_settle(&search);
	}
	kh_fingerprints_unref(fingerprints);
}

/* What to do, the lengths of two values (a byte each), the values, and a text. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool prepared;

	if (size < 3 || size > TEXT_MOST)
		return 0;
	if (!prepared)
		kh_secret_prepare();
	prepared = true;

	struct kh_slice rest = kh_slice_of(data + 3, size - 3), values[2];
	for (int i = 0; i < 2; i++) {
		values[i] = kh_slice_sub(rest, 0, data[1 + i] < rest.len ? data[1 + i] : rest.len);
		rest = kh_slice_sub(rest, values[i].len, rest.len);
	}
	if (data[0] & 2)
		check_garbage(kh_slice_of(data + 3, size - 3), rest);

	/* The text in memory of its own, so that a byte too many is seen. With & 4 the first value
	 * stands in it, in base64: a fuzzer does not come to that by itself. */
	unsigned char *text = malloc(rest.len + ROOM);
	size_t len = rest.len;
	CHECK(text);
	if (len > 0)
		memcpy(text, rest.ptr, len);
	if (data[0] & 4 && values[0].len > 0) {
		len += encode(values[0], data[0] >> 3 & 3 ? (data[0] >> 3 & 3) - 1U : 0,
			      data[0] >> 5, text + len);
		if (data[0] & 1)
			to_url(text, len);
	}
	struct kh_slice given = kh_slice_of(text, len);
	struct kh_fingerprints *fingerprints = fingerprints_of(values, data[0] & 1);
	struct kh_fingerprint_search search;
	bool wanted = expected(given, values[0]) || expected(given, values[1]);

	kh_fingerprint_search_begin(&search, fingerprints);
	kh_fingerprint_search_add(&search, given, 0);
	CHECK(kh_fingerprint_search_has_candidates(&search) || !wanted);
	kh_fingerprint_search_settle(&search);
	/* Beyond so many candidates it is taken for found, whatever it is. */
	if (search.everywhere && search.index == UINT16_MAX)
		wanted = search.found;
	CHECK(search.found == wanted);
	CHECK(!wanted || search.index == UINT16_MAX ||
	      (search.index < 2 && expected(given, values[search.index])));
	kh_fingerprints_unref(fingerprints);
	free(text);
	return 0;
}
