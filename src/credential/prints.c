/*
 * prints.c - prints of credentials: made in the keeper, sought in the worker
 *
 * A list is its key and then entries of one size. Of a text every run of 8 bytes is hashed by one
 * multiplication; where the bitmap has it, the list's pages are opened and its entries looked at.
 */
#include <keyhole/hidden.h>
#include <keyhole/prints.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <keyhole/limits.h>

enum {
	ANCHOR = KH_PRINT_LEAST_BYTES,
	KEY_BYTES = 32,
	DIGEST_BYTES = 16,
	MAP_BITS = 18,
	LISTS = 16,
};

struct entry {
	uint8_t anchor[ANCHOR]; /* its last bytes */
	uint8_t digest[DIGEST_BYTES];
	uint32_t len;
	uint16_t index;
	uint16_t zero;
};

static bool digest(const uint8_t key[KEY_BYTES], struct kh_slice text, uint8_t out[DIGEST_BYTES])
{
	uint8_t whole[EVP_MAX_MD_SIZE];
	unsigned n = 0;
	bool ok = HMAC(EVP_sha256(), key, KEY_BYTES, (const uint8_t *)text.ptr, text.len, whole,
		       &n) &&
		  n >= DIGEST_BYTES;

	if (ok)
		memcpy(out, whole, DIGEST_BYTES);
	kh_wipe(whole, sizeof(whole));
	return ok;
}

/* ---- making ---- */

static bool fresh_key(struct kh_print_maker *maker, struct kh_err *err)
{
	if (getrandom(maker->key, sizeof(maker->key), 0) != (ssize_t)sizeof(maker->key))
		return kh_err_set(err, KH_ERR_SYSTEM, "getrandom");
	kh_buf_init_wiping(&maker->bytes, KH_LIMIT_SECRET_BYTES);
	return kh_buf_append(&maker->bytes, maker->key, sizeof(maker->key)) ||
	       kh_err_set(err, KH_ERR_NO_MEMORY, "prints: no memory");
}

bool kh_print_maker_init(struct kh_print_maker *maker, struct kh_err *err)
{
	return fresh_key(maker, err);
}

void kh_print_maker_fini(struct kh_print_maker *maker)
{
	kh_buf_fini(&maker->bytes);
	kh_wipe(maker->key, sizeof(maker->key));
}

static bool add(struct kh_print_maker *maker, struct kh_slice text, uint16_t index)
{
	struct entry entry = { .len = (uint32_t)text.len, .index = index };

	memcpy(entry.anchor, text.ptr + text.len - ANCHOR, ANCHOR);
	bool ok = digest(maker->key, text, entry.digest) &&
		  kh_buf_append(&maker->bytes, &entry, sizeof(entry));
	kh_wipe(&entry, sizeof(entry));
	return ok;
}

static const char base64[2][65] = {
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
};

/* The characters that hang on nothing but the value, where `before` bytes of a group of three stand
 * in front of it. */
static size_t encode(struct kh_slice value, size_t before, const char *digits, char *out)
{
	static const size_t skipped_bits[3] = { 0, 4, 2 };
	size_t len = 0;

	for (size_t bit = skipped_bits[before]; bit + 6 <= value.len * 8; bit += 6) {
		unsigned first = (unsigned char)value.ptr[bit / 8];
		unsigned second = bit % 8 > 2 ? (unsigned char)value.ptr[bit / 8 + 1] : 0;
		out[len++] = digits[(first << 8 | second) >> (10 - bit % 8) & 0x3f];
	}
	return len;
}

struct job {
	struct kh_print_maker *maker;
	uint16_t index;
};

static bool add_all(struct kh_slice value, void *arg)
{
	const struct job *job = arg;
	size_t room = value.len * 4 / 3 + 4, other_room = room;
	char *text = kh_hidden_get(&room, KH_HIDDEN_BRIEF);
	char *other = kh_hidden_get(&other_room, KH_HIDDEN_BRIEF);
	bool ok = text && other && add(job->maker, value, job->index);

	for (size_t before = 0; ok && before < 3; before++) {
		size_t len = encode(value, before, base64[0], text);
		(void)encode(value, before, base64[1], other);
		ok = add(job->maker, kh_slice_of(text, len), job->index) &&
		     (memcmp(text, other, len) == 0 ||
		      add(job->maker, kh_slice_of(other, len), job->index));
	}
	if (text)
		kh_wipe(text, room);
	if (other)
		kh_wipe(other, other_room);
	kh_hidden_give(text);
	kh_hidden_give(other);
	return ok;
}

bool kh_print_maker_add(struct kh_print_maker *maker, const struct kh_secret *value, uint16_t index,
			struct kh_err *err)
{
	struct job job = { maker, index };
	size_t before = kh_buf_len(&maker->bytes);

	if (kh_secret_len(value) < KH_PRINT_LEAST_BYTES)
		return true;
	if (kh_secret_expose(value, add_all, &job))
		return true;
	kh_buf_truncate(&maker->bytes, before);
	return kh_err_set(err, KH_ERR_NO_MEMORY, "prints: no room");
}

struct kh_secret *kh_print_maker_take(struct kh_print_maker *maker, struct kh_err *err)
{
	struct kh_slice all = kh_buf_view(&maker->bytes);
	struct kh_secret *list = kh_secret_new(maker->bytes.data + maker->bytes.head, all.len, err);

	kh_print_maker_fini(maker);
	if (fresh_key(maker, err))
		return list;
	kh_secret_unref(list);
	return NULL;
}

/* ---- finding ---- */

struct kh_prints {
	atomic_uint refs;
	uint64_t multiplier; /* odd */
	struct kh_secret *lists[LISTS];
	size_t n_lists;
	uint64_t map[(1 << MAP_BITS) / 64];
};

static uint32_t place_of(const struct kh_prints *prints, const void *anchor)
{
	uint64_t bytes;

	memcpy(&bytes, anchor, sizeof(bytes));
	return (uint32_t)(bytes * prints->multiplier >> (64 - MAP_BITS));
}

static bool map_all(struct kh_slice list, void *arg)
{
	struct kh_prints *prints = arg;

	if (list.len < KEY_BYTES || (list.len - KEY_BYTES) % sizeof(struct entry) != 0)
		return false;
	for (size_t at = KEY_BYTES; at < list.len; at += sizeof(struct entry)) {
		uint32_t place = place_of(prints, list.ptr + at);
		prints->map[place / 64] |= UINT64_C(1) << place % 64;
	}
	return true;
}

struct kh_prints *kh_prints_new(struct kh_secret **lists, size_t n_lists, struct kh_err *err)
{
	struct kh_prints *prints = n_lists <= LISTS ? calloc(1, sizeof(*prints)) : NULL;
	bool ok = prints && getrandom(&prints->multiplier, sizeof(prints->multiplier), 0) ==
				    (ssize_t)sizeof(prints->multiplier);

	for (size_t i = 0; i < n_lists; i++) {
		if (prints)
			prints->lists[prints->n_lists++] = lists[i];
		else
			kh_secret_unref(lists[i]);
		lists[i] = NULL;
	}
	if (prints) {
		atomic_init(&prints->refs, 1);
		prints->multiplier |= 1;
	}
	for (size_t i = 0; ok && i < n_lists; i++)
		ok = kh_secret_expose(prints->lists[i], map_all, prints);
	if (ok)
		return prints;
	kh_prints_unref(prints);
	kh_err_set(err, KH_ERR_INTERNAL, "prints of credentials: not understood");
	return NULL;
}

struct kh_prints *kh_prints_ref(struct kh_prints *prints)
{
	atomic_fetch_add_explicit(&prints->refs, 1, memory_order_relaxed);
	return prints;
}

void kh_prints_unref(struct kh_prints *prints)
{
	if (!prints || atomic_fetch_sub_explicit(&prints->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (size_t i = 0; i < prints->n_lists; i++)
		kh_secret_unref(prints->lists[i]);
	free(prints);
}

struct search {
	struct kh_slice text;
	size_t end; /* behind the anchor */
	uint16_t index;
};

static bool look(struct kh_slice list, void *arg)
{
	struct search *search = arg;
	const char *anchor = search->text.ptr + search->end - ANCHOR;
	bool found = false;

	for (size_t at = KEY_BYTES; at < list.len && !found; at += sizeof(struct entry)) {
		struct entry entry;
		uint8_t own[DIGEST_BYTES];

		if (memcmp(list.ptr + at, anchor, ANCHOR) != 0)
			continue;
		memcpy(&entry, list.ptr + at, sizeof(entry));
		found = entry.len <= search->end &&
			digest((const uint8_t *)list.ptr,
			       kh_slice_sub(search->text, search->end - entry.len, search->end),
			       own) &&
			CRYPTO_memcmp(own, entry.digest, sizeof(own)) == 0;
		search->index = entry.index;
		kh_wipe(&entry, sizeof(entry));
		kh_wipe(own, sizeof(own));
	}
	return found;
}

bool kh_prints_find(const struct kh_prints *prints, struct kh_slice text, uint16_t *index)
{
	if (prints->n_lists == 0)
		return false;
	for (size_t at = 0; at + ANCHOR <= text.len; at++) {
		uint32_t place = place_of(prints, text.ptr + at);
		if (!(prints->map[place / 64] >> place % 64 & 1))
			continue;
		struct search search = { text, at + ANCHOR, 0 };
		for (size_t i = 0; i < prints->n_lists; i++)
			if (kh_secret_expose(prints->lists[i], look, &search)) {
				*index = search.index;
				return true;
			}
	}
	return false;
}
