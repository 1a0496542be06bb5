/*
 * fingerprints.c - makes fingerprints of credentials, in the keeper
 *
 * A list is its key and then entries of one size. Each entry has an anchor: 16 bytes of the text,
 * from the part that is hardest to guess. An entry is in lower case and is compared without case,
 * unless the text would be easy to guess in lower case: keyhole itself reads a host in lower case,
 * and decoders of hex and base32 accept either case.
 */
#include <keyhole/credential/fingerprints.h>

#include <stdlib.h>
#include <sys/random.h>

#include <openssl/evp.h>

#include <keyhole/base/encode.h>
#include <keyhole/base/hidden.h>
#include <keyhole/base/limits.h>

#include "fingerprints_internal.h"

bool kh_fingerprint_digest(EVP_MD_CTX *ctx, const uint8_t key[KH_FINGERPRINT_KEY_BYTES],
			   struct kh_slice text, uint8_t out[KH_FINGERPRINT_DIGEST_BYTES])
{
	uint8_t whole[EVP_MAX_MD_SIZE];
	unsigned n = 0;
	/* Fetched once for each context: that takes longer than the digest. */
	const EVP_MD *sha256 = EVP_MD_CTX_get0_md(ctx) ? NULL : EVP_sha256();
	bool ok = EVP_DigestInit_ex(ctx, sha256, NULL) == 1 &&
		  EVP_DigestUpdate(ctx, key, KH_FINGERPRINT_KEY_BYTES) == 1 &&
		  EVP_DigestUpdate(ctx, text.ptr, text.len) == 1 &&
		  EVP_DigestFinal_ex(ctx, whole, &n) == 1 && n >= KH_FINGERPRINT_DIGEST_BYTES;

	if (ok)
		memcpy(out, whole, KH_FINGERPRINT_DIGEST_BYTES);
	kh_secret_wipe(whole, sizeof(whole));
	return ok;
}

/* ---- making ---- */

static bool fresh_key(struct kh_fingerprint_maker *maker, struct kh_err *err)
{
	if (getrandom(maker->key, sizeof(maker->key), 0) != (ssize_t)sizeof(maker->key))
		return kh_err_set(err, KH_ERR_SYSTEM, "getrandom");
	kh_buf_init_wiping(&maker->bytes, KH_LIMIT_SECRET_BYTES);
	return kh_buf_append(&maker->bytes, maker->key, sizeof(maker->key)) ||
	       kh_err_set(err, KH_ERR_NO_MEMORY, "fingerprints: no memory");
}

bool kh_fingerprint_maker_init(struct kh_fingerprint_maker *maker, struct kh_err *err)
{
	return fresh_key(maker, err);
}

void kh_fingerprint_maker_fini(struct kh_fingerprint_maker *maker)
{
	kh_buf_fini(&maker->bytes);
	kh_secret_wipe(maker->key, sizeof(maker->key));
}

struct job {
	struct kh_fingerprint_maker *maker;
	struct kh_slice value;
	size_t at; /* where its hardest part begins */
	uint16_t index;
	char *text, *other; /* room for what an encoding makes of it */
	char *small;	    /* and for that in small letters */
};

/* `at`: where the anchor should begin. */
static bool add_entry(const struct job *job, struct kh_slice text, size_t at, bool folded)
{
	struct kh_fingerprint entry = { .len = (uint32_t)text.len,
					.index = job->index,
					.folded = folded };

	if (text.len < KH_FINGERPRINT_ANCHOR_BYTES)
		return true;
	if (at > text.len - KH_FINGERPRINT_ANCHOR_BYTES)
		at = text.len - KH_FINGERPRINT_ANCHOR_BYTES;
	entry.after = (uint32_t)(text.len - KH_FINGERPRINT_ANCHOR_BYTES - at);
	memcpy(entry.anchor, text.ptr + at, KH_FINGERPRINT_ANCHOR_BYTES);
	for (size_t i = 0; folded && i < KH_FINGERPRINT_ANCHOR_BYTES; i++)
		entry.anchor[i] |= KH_FINGERPRINT_SMALL;
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool ok = ctx && kh_fingerprint_digest(ctx, job->maker->key, text, entry.digest) &&
		  kh_buf_append(&job->maker->bytes, &entry, sizeof(entry));
	EVP_MD_CTX_free(ctx);
	kh_secret_wipe(&entry, sizeof(entry));
	return ok;
}

/* In small letters, and so in any case, unless it is easy to guess like that. `at`: of its hardest
 * part as it is. */
static bool add(const struct job *job, struct kh_slice text, size_t at)
{
	struct kh_slice small = kh_slice_of(job->small, text.len);
	size_t small_at;

	for (size_t i = 0; i < text.len; i++)
		job->small[i] = kh_lower(text.ptr[i]);
	if (kh_guess_bits(small, &small_at) < KH_GUESS_LEAST_BITS)
		return add_entry(job, text, at, false);
	return add_entry(job, small, small_at, true);
}

/* RFC 4648. `other`: a second alphabet that is in use; NULL: none is, and its decoders take letters
 * of either case, however easy to guess. */
struct encoding {
	size_t bits;
	const char *digits, *other;
};
static const struct encoding base64 = {
	6,
	kh_base64_digits,
	kh_base64url_digits,
};
static const struct encoding base32 = { 5, kh_base32_digits, NULL };
static const struct encoding hex = { 4, kh_hex_digits, NULL };

static size_t encode(struct kh_slice value, size_t from_bit, size_t bits, const char *digits,
		     char *out)
{
	size_t len = 0;

	for (size_t bit = from_bit; bit + bits <= value.len * 8; bit += bits) {
		unsigned first = (unsigned char)value.ptr[bit / 8];
		unsigned second = bit % 8 + bits > 8 ? (unsigned char)value.ptr[bit / 8 + 1] : 0;
		out[len++] =
			digits[(first << 8 | second) >> (16 - bits - bit % 8) & ((1U << bits) - 1)];
	}
	return len;
}

/* The characters that hang on nothing but the value, however many bytes stand in front of it. */
static bool add_encoded(const struct job *job, struct kh_slice value, size_t at,
			const struct encoding *encoding)
{
	size_t bits = encoding->bits, begin[8] = { 0 };
	bool ok = true;

	for (size_t before = 0; ok && before < bits; before++) {
		size_t skip = (bits - 8 * before % bits) % bits;
		if (begin[skip]++)
			continue;
		size_t len = encode(value, skip, bits, encoding->digits, job->text);
		size_t anchor = at * 8 > skip ? (at * 8 - skip + bits - 1) / bits : 0;
		struct kh_slice text = kh_slice_of(job->text, len);
		ok = encoding->other ? add(job, text, anchor) : add_entry(job, text, anchor, true);
		if (!ok || !encoding->other)
			continue;
		(void)encode(value, skip, bits, encoding->other, job->other);
		ok = memcmp(job->text, job->other, len) == 0 ||
		     add(job, kh_slice_of(job->other, len), anchor);
	}
	return ok;
}

/* Byte 0 of each pair, or byte 1, is the character's. No host has it, so case counts. */
static bool add_utf16(const struct job *job, char *wide, bool big_endian)
{
	struct kh_slice both = kh_slice_of(wide, 2 * job->value.len);

	memset(wide, 0, both.len);
	for (size_t i = 0; i < job->value.len; i++)
		wide[2 * i + big_endian] = job->value.ptr[i];
	return add_entry(job, both, 2 * job->at, false) &&
	       (big_endian || add_encoded(job, both, 2 * job->at, &base64));
}

/* As a host that was cut up by dots is read, where that is not easy to guess. */
static bool add_without_dots(const struct job *job)
{
	struct kh_slice value = job->value;
	size_t at, len = 0;

	for (size_t i = 0; i < value.len; i++)
		if (value.ptr[i] != '.')
			job->text[len++] = value.ptr[i];
	struct kh_slice joined = kh_slice_of(job->text, len);
	return len == value.len || kh_guess_bits(joined, &at) < KH_GUESS_LEAST_BITS ||
	       add(job, joined, at);
}

static bool add_all(const struct job *job, char *wide, bool few)
{
	return add(job, job->value, job->at) && add_encoded(job, job->value, job->at, &base64) &&
	       (few || (add_without_dots(job) && add_encoded(job, job->value, job->at, &hex) &&
			add_encoded(job, job->value, job->at, &base32) &&
			add_utf16(job, wide, false) && add_utf16(job, wide, true)));
}

static char *get_room(size_t *bytes)
{
	return kh_hidden_get(bytes, KH_HIDDEN_BRIEF);
}

static void give_room(char *room, size_t bytes)
{
	if (room)
		kh_secret_wipe(room, bytes);
	kh_hidden_give(room);
}

enum kh_fingerprint_result kh_fingerprint_maker_add(struct kh_fingerprint_maker *maker,
						    struct kh_slice value, bool few, uint16_t index)
{
	struct job job = { .maker = maker, .value = value, .index = index };
	size_t before = kh_buf_len(&maker->bytes);

	if (kh_guess_bits(value, &job.at) < KH_GUESS_LEAST_BITS)
		return KH_FINGERPRINT_GUESSABLE;
	/* The longest: base64 over UTF-16. */
	size_t room = value.len * 2 * 4 / 3 + 8, other = room, small = room;
	size_t twice = value.len * 2;
	char *wide = get_room(&twice);
	job.text = get_room(&room);
	job.other = get_room(&other);
	job.small = get_room(&small);
	bool ok = wide && job.text && job.other && job.small && add_all(&job, wide, few);
	give_room(wide, twice);
	give_room(job.text, room);
	give_room(job.other, other);
	give_room(job.small, small);
	if (ok)
		return KH_FINGERPRINT_ADDED;
	kh_buf_truncate(&maker->bytes, before);
	return KH_FINGERPRINT_FULL;
}

struct kh_secret *kh_fingerprint_maker_take(struct kh_fingerprint_maker *maker, struct kh_err *err)
{
	struct kh_slice all = kh_buf_view(&maker->bytes);
	struct kh_secret *list = kh_secret_new(maker->bytes.data + maker->bytes.head, all.len, err);

	kh_fingerprint_maker_fini(maker);
	if (fresh_key(maker, err))
		return list;
	kh_secret_unref(list);
	return NULL;
}
