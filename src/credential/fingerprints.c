/*
 * fingerprints.c - fingerprints of credentials: made in the keeper, sought in the worker
 *
 * A list is its key and then entries of one size. Each entry has an anchor: 16 bytes of the text,
 * in the part that is hardest to guess. The worker hashes every run of 8 bytes by one
 * multiplication; where the first bitmap has it, it hashes the 16 that end there, and where the
 * second bitmap has those as well, the list's pages are opened and its entries looked at. Decoders
 * of hex and base32 take letters of either case, so an entry of these is in small letters, and the
 * text is looked at in small letters as well.
 */
#include <keyhole/base/encode.h>
#include <keyhole/base/hidden.h>
#include <keyhole/credential/fingerprints.h>

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/random.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <keyhole/base/limits.h>

enum {
	ANCHOR = KH_GUESS_WINDOW_BYTES,
	HALF = ANCHOR / 2,
	KEY_BYTES = 32,
	KH_FINGERPRINT_DIGEST_BYTES = 12,
	LISTS = 16,
	/* Of one bitmap: 32 KiB, which stay in the cache, up to what 65,536 entries need. */
	MAP_BITS_LEAST = 18,
	MAP_BITS_MOST = 22,
	BITS_FOR_EACH = 64,
};

struct entry {
	uint8_t anchor[ANCHOR];
	uint8_t digest[KH_FINGERPRINT_DIGEST_BYTES];
	uint32_t len;
	uint32_t after; /* bytes between the anchor and the text's end */
	uint16_t index;
	uint8_t folded; /* the text is in small letters, and is compared so */
	uint8_t zero;
};

static bool digest(const uint8_t key[KEY_BYTES], struct kh_slice text,
		   uint8_t out[KH_FINGERPRINT_DIGEST_BYTES])
{
	uint8_t whole[EVP_MAX_MD_SIZE];
	unsigned n = 0;
	bool ok = HMAC(EVP_sha256(), key, KEY_BYTES, (const uint8_t *)text.ptr, text.len, whole,
		       &n) &&
		  n >= KH_FINGERPRINT_DIGEST_BYTES;

	if (ok)
		memcpy(out, whole, KH_FINGERPRINT_DIGEST_BYTES);
	kh_wipe(whole, sizeof(whole));
	return ok;
}

/* ---- making ---- */

static bool fresh_key(struct kh_fingerprint_maker *maker, struct kh_err *err)
{
	if (getrandom(maker->key, sizeof(maker->key), 0) != (ssize_t)sizeof(maker->key))
		return kh_err_set(err, KH_ERR_SYSTEM, "getrandom");
	kh_buf_init_wiping(&maker->bytes, KH_LIMIT_SECRET_BYTES);
	return kh_buf_append(&maker->bytes, maker->key, sizeof(maker->key)) ||
	       kh_err_set(err, KH_ERR_NO_MEMORY, "prints: no memory");
}

bool kh_fingerprint_maker_init(struct kh_fingerprint_maker *maker, struct kh_err *err)
{
	return fresh_key(maker, err);
}

void kh_fingerprint_maker_fini(struct kh_fingerprint_maker *maker)
{
	kh_buf_fini(&maker->bytes);
	kh_wipe(maker->key, sizeof(maker->key));
}

struct job {
	struct kh_fingerprint_maker *maker;
	struct kh_slice value;
	size_t at; /* where its hardest part begins */
	uint16_t index;
	char *text, *other; /* room for what an encoding makes of it */
};

/* `at`: where the anchor should begin. */
static bool add_entry(const struct job *job, struct kh_slice text, size_t at, bool folded)
{
	struct entry entry = { .len = (uint32_t)text.len, .index = job->index, .folded = folded };

	if (text.len < ANCHOR)
		return true;
	if (at > text.len - ANCHOR)
		at = text.len - ANCHOR;
	entry.after = (uint32_t)(text.len - ANCHOR - at);
	memcpy(entry.anchor, text.ptr + at, ANCHOR);
	for (size_t i = 0; folded && i < ANCHOR; i++)
		entry.anchor[i] |= 0x20; /* as fold() has it */
	bool ok = digest(job->maker->key, text, entry.digest) &&
		  kh_buf_append(&job->maker->bytes, &entry, sizeof(entry));
	kh_wipe(&entry, sizeof(entry));
	return ok;
}

static bool add(const struct job *job, struct kh_slice text, size_t at)
{
	return add_entry(job, text, at, false);
}

/* RFC 4648. `other`: a second alphabet that is in use; NULL: case does not count in the one. */
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
		ok = add_entry(job, kh_slice_of(job->text, len), anchor, !encoding->other);
		if (!ok || !encoding->other)
			continue;
		(void)encode(value, skip, bits, encoding->other, job->other);
		ok = memcmp(job->text, job->other, len) == 0 ||
		     add(job, kh_slice_of(job->other, len), anchor);
	}
	return ok;
}

/* Byte 0 of each pair, or byte 1, is the character's. */
static bool add_utf16(const struct job *job, char *wide, bool big_endian)
{
	struct kh_slice both = kh_slice_of(wide, 2 * job->value.len);

	memset(wide, 0, both.len);
	for (size_t i = 0; i < job->value.len; i++)
		wide[2 * i + big_endian] = job->value.ptr[i];
	return add(job, both, 2 * job->at) &&
	       (big_endian || add_encoded(job, both, 2 * job->at, &base64));
}

/* In small letters, as a host has it, and then without its dots. What is easy to guess so is left
 * out. */
static bool add_without_dots(const struct job *job)
{
	struct kh_slice value = job->value, small = kh_slice_of(job->text, value.len);
	size_t at, len = 0;
	bool ok = true;

	for (size_t i = 0; i < value.len; i++)
		job->text[i] = kh_lower(value.ptr[i]);
	if (!kh_slice_eq(small, value) && kh_guess_bits(small, &at) >= KH_GUESS_LEAST_BITS)
		ok = add_entry(job, small, at, true);
	for (size_t i = 0; i < value.len; i++)
		if (small.ptr[i] != '.')
			job->text[len++] = small.ptr[i];
	small = kh_slice_of(job->text, len);
	if (ok && len < value.len && kh_guess_bits(small, &at) >= KH_GUESS_LEAST_BITS)
		ok = add_entry(job, small, at, true);
	return ok;
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
		kh_wipe(room, bytes);
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
	size_t room = value.len * 2 * 4 / 3 + 8, other = room, twice = value.len * 2;
	char *wide = get_room(&twice);
	job.text = get_room(&room);
	job.other = get_room(&other);
	bool ok = wide && job.text && job.other && add_all(&job, wide, few);
	give_room(wide, twice);
	give_room(job.text, room);
	give_room(job.other, other);
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

/* ---- finding ---- */

struct kh_fingerprints {
	atomic_uint refs;
	unsigned shift;		/* 64 less the bits of a place */
	uint64_t multiplier[3]; /* odd */
	struct kh_secret *lists[LISTS];
	size_t n_lists;
	uint64_t *maps; /* the first, and the second behind it */
	size_t second;	/* where that begins */
};

static uint64_t half_of(const void *bytes)
{
	uint64_t half;

	memcpy(&half, bytes, sizeof(half));
	return half;
}

/* In small letters, as far as they are digits of hex and base32: those that are no letters have
 * this bit already. */
static uint64_t fold(uint64_t half)
{
	return half | UINT64_C(0x2020202020202020);
}

/* By the last 8 bytes of an anchor. */
static size_t first_place(const struct kh_fingerprints *prints, uint64_t last)
{
	return (size_t)(last * prints->multiplier[0] >> prints->shift);
}

static size_t second_place(const struct kh_fingerprints *prints, uint64_t first, uint64_t last)
{
	return (size_t)((first * prints->multiplier[1] + last * prints->multiplier[2]) >>
			prints->shift);
}

static bool map_all(struct kh_slice list, void *arg)
{
	struct kh_fingerprints *prints = arg;

	if (list.len < KEY_BYTES || (list.len - KEY_BYTES) % sizeof(struct entry) != 0)
		return false;
	for (size_t at = KEY_BYTES; at < list.len; at += sizeof(struct entry)) {
		uint64_t last = half_of(list.ptr + at + HALF);
		size_t first = first_place(prints, last);
		size_t second = second_place(prints, half_of(list.ptr + at), last);
		prints->maps[first / 64] |= UINT64_C(1) << first % 64;
		prints->maps[prints->second + second / 64] |= UINT64_C(1) << second % 64;
	}
	return true;
}

static bool make_maps(struct kh_fingerprints *prints)
{
	unsigned bits = MAP_BITS_LEAST;
	size_t entries = 0;

	for (size_t i = 0; i < prints->n_lists; i++)
		entries += kh_secret_len(prints->lists[i]) / sizeof(struct entry);
	while (bits < MAP_BITS_MOST && (size_t)1 << bits < entries * BITS_FOR_EACH)
		bits++;
	prints->shift = 64 - bits;
	prints->second = ((size_t)1 << bits) / 64;
	prints->maps = calloc(2 * prints->second, sizeof(*prints->maps));
	bool ok = prints->maps != NULL && getrandom(prints->multiplier, sizeof(prints->multiplier),
						    0) == (ssize_t)sizeof(prints->multiplier);
	for (size_t i = 0; i < 3; i++)
		prints->multiplier[i] |= 1;
	for (size_t i = 0; ok && i < prints->n_lists; i++)
		ok = kh_secret_expose(prints->lists[i], map_all, prints);
	return ok;
}

struct kh_fingerprints *kh_fingerprints_new(struct kh_secret **lists, size_t n_lists,
					    struct kh_err *err)
{
	struct kh_fingerprints *prints = n_lists <= LISTS ? calloc(1, sizeof(*prints)) : NULL;

	for (size_t i = 0; i < n_lists; i++) {
		if (prints)
			prints->lists[prints->n_lists++] = lists[i];
		else
			kh_secret_unref(lists[i]);
		lists[i] = NULL;
	}
	if (prints)
		atomic_init(&prints->refs, 1);
	if (prints && make_maps(prints))
		return prints;
	kh_prints_unref(prints);
	kh_err_set(err, KH_ERR_INTERNAL, "prints of credentials: not understood");
	return NULL;
}

struct kh_fingerprints *kh_fingerprints_ref(struct kh_fingerprints *prints)
{
	atomic_fetch_add_explicit(&prints->refs, 1, memory_order_relaxed);
	return prints;
}

void kh_prints_unref(struct kh_fingerprints *prints)
{
	if (!prints || atomic_fetch_sub_explicit(&prints->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (size_t i = 0; i < prints->n_lists; i++)
		kh_secret_unref(prints->lists[i]);
	free(prints->maps);
	free(prints);
}

struct look {
	struct kh_slice text;
	size_t at; /* of the anchor */
	uint16_t index;
	uint64_t folded[2]; /* the anchor in small letters */
};

static bool digest_folded(const uint8_t key[KEY_BYTES], struct kh_slice text,
			  uint8_t out[KH_FINGERPRINT_DIGEST_BYTES])
{
	char *small = malloc(text.len + 1); /* never of nothing */

	for (size_t i = 0; small && i < text.len; i++)
		small[i] = kh_lower(text.ptr[i]);
	bool ok = small && digest(key, kh_slice_of(small, text.len), out);
	if (small)
		kh_wipe(small, text.len);
	free(small);
	return ok;
}

static bool matches(const struct look *look, const struct entry *entry, const char *key)
{
	size_t end = look->at + ANCHOR + entry->after;
	uint8_t own[KH_FINGERPRINT_DIGEST_BYTES];
	bool fits = end <= look->text.len && entry->len <= end &&
		    entry->len >= ANCHOR + (size_t)entry->after;
	struct kh_slice text =
		fits ? kh_slice_sub(look->text, end - entry->len, end) : kh_slice_of(NULL, 0);
	bool same = fits &&
		    (entry->folded ? digest_folded : digest)((const uint8_t *)key, text, own) &&
		    CRYPTO_memcmp(own, entry->digest, sizeof(own)) == 0;

	if (fits)
		kh_wipe(own, sizeof(own));
	return same;
}

static bool look_into(struct kh_slice list, void *arg)
{
	struct look *look = arg;
	bool found = false;

	for (size_t at = KEY_BYTES; at < list.len && !found; at += sizeof(struct entry)) {
		struct entry entry;
		bool folded = list.ptr[at + offsetof(struct entry, folded)] != 0;
		const void *anchor =
			folded ? (const void *)look->folded : look->text.ptr + look->at;

		if (memcmp(list.ptr + at, anchor, ANCHOR) != 0)
			continue;
		memcpy(&entry, list.ptr + at, sizeof(entry));
		found = matches(look, &entry, list.ptr);
		look->index = entry.index;
		kh_wipe(&entry, sizeof(entry));
	}
	return found;
}

static bool is_set(const uint64_t *map, size_t place)
{
	return map[place / 64] >> place % 64 & 1;
}

/* As it is, or in small letters. Most of what is sent has no others, and is looked up once. */
static bool may_begin(const struct kh_fingerprints *prints, uint64_t first, uint64_t last)
{
	uint64_t small = fold(last);
	bool seen = is_set(prints->maps, first_place(prints, last));

	if (seen && is_set(prints->maps + prints->second, second_place(prints, first, last)))
		return true;
	if (small != last)
		seen = is_set(prints->maps, first_place(prints, small));
	return seen &&
	       is_set(prints->maps + prints->second, second_place(prints, fold(first), small));
}

static void take_candidate(const struct kh_fingerprints *prints, struct kh_slice text, size_t at,
			   struct kh_print_search *search)
{
	struct look look = { text,
			     at,
			     UINT16_MAX,
			     { fold(half_of(text.ptr + at)),
			       fold(half_of(text.ptr + at + HALF)) } };

	if (search->found)
		return;
	search->found = search->candidates == KH_LIMIT_CANDIDATES;
	search->index = UINT16_MAX;
	if (search->found)
		return;
	search->candidates++;
	for (size_t i = 0; i < prints->n_lists && !search->found; i++)
		search->found = kh_secret_expose(prints->lists[i], look_into, &look);
	search->index = look.index;
}

void kh_prints_find(const struct kh_fingerprints *prints, struct kh_slice text,
		    struct kh_print_search *search)
{
	if (prints->n_lists == 0)
		return;
	for (size_t at = 0; at + ANCHOR <= text.len; at++)
		if (may_begin(prints, half_of(text.ptr + at), half_of(text.ptr + at + HALF)))
			take_candidate(prints, text, at, search);
}

static bool spend(struct kh_slice list, void *arg)
{
	uint8_t own[KH_FINGERPRINT_DIGEST_BYTES];
	bool *ok = arg;

	*ok = list.len >= KEY_BYTES &&
	      digest((const uint8_t *)list.ptr, kh_slice_sub(list, 0, KEY_BYTES), own);
	kh_wipe(own, sizeof(own));
	return *ok;
}

void kh_prints_spend(const struct kh_fingerprints *prints)
{
	bool ok = false;

	if (prints->n_lists > 0)
		(void)kh_secret_expose(prints->lists[0], spend, &ok);
}
