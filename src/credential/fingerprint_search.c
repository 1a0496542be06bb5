/*
 * fingerprint_search.c - searches what a sandbox sends for fingerprints, in the worker
 *
 * Every 16 consecutive bytes are put into lower case and encrypted, many at a time. The result says
 * which bit of each bitmap must be set for them to be a candidate. A plain hash instead would not
 * do. It is linear, so a sandbox that learns from the time which of its texts are candidates could
 * solve for the multipliers and read the anchors out of the bitmaps.
 *
 * A window takes the same steps whether it is a candidate or not, without a branch between the two.
 * A request's candidates are processed only at its end (fingerprint_settle.c).
 */
#include <keyhole/credential/fingerprints.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>

#include <openssl/evp.h>

#include <keyhole/base/limits.h>

#include "fingerprints_internal.h"

enum {
	ANCHOR = KH_FINGERPRINT_ANCHOR_BYTES,
	KEY_BYTES = KH_FINGERPRINT_KEY_BYTES,
	/* Of one bitmap: 32 KiB, which stay in the cache, up to what 65,536 entries need. */
	MAP_BITS_LEAST = 18,
	MAP_BITS_MOST = 22,
	BITS_FOR_EACH = 64,
	BUCKETS_FOR_EACH = 4,
};

/* Whoever looks for something may encrypt; no two threads in one context. */
static EVP_CIPHER_CTX *take_cipher(struct kh_fingerprints *fingerprints)
{
	for (size_t i = 0; i < KH_FINGERPRINT_IDLE_CIPHERS; i++) {
		EVP_CIPHER_CTX *idle = atomic_exchange(&fingerprints->idle[i], NULL);
		if (idle)
			return idle;
	}
	EVP_CIPHER_CTX *cipher = EVP_CIPHER_CTX_new();
	if (cipher &&
	    EVP_EncryptInit_ex(cipher, EVP_aes_128_ecb(), NULL, fingerprints->key, NULL) == 1 &&
	    EVP_CIPHER_CTX_set_padding(cipher, 0) == 1)
		return cipher;
	EVP_CIPHER_CTX_free(cipher);
	return NULL;
}

static void give_cipher(struct kh_fingerprints *fingerprints, EVP_CIPHER_CTX *cipher)
{
	for (size_t i = 0; i < KH_FINGERPRINT_IDLE_CIPHERS; i++) {
		EVP_CIPHER_CTX *none = NULL;
		if (atomic_compare_exchange_strong(&fingerprints->idle[i], &none, cipher))
			return;
	}
	EVP_CIPHER_CTX_free(cipher);
}

static bool encrypt(struct kh_fingerprints *fingerprints, uint8_t (*windows)[ANCHOR], size_t count)
{
	EVP_CIPHER_CTX *cipher = take_cipher(fingerprints);
	int n = 0, len = (int)(count * ANCHOR);
	bool ok = cipher && EVP_EncryptUpdate(cipher, windows[0], &n, windows[0], len) == 1 &&
		  n == len;

	if (cipher)
		give_cipher(fingerprints, cipher);
	return ok;
}

static void put_folded(uint8_t window[ANCHOR], const char *bytes)
{
	uint64_t halves[2] = { kh_fingerprint_fold(kh_fingerprint_half(bytes)),
			       kh_fingerprint_fold(kh_fingerprint_half(bytes + ANCHOR / 2)) };

	memcpy(window, halves, ANCHOR);
}

/* ---- the lists are taken in ---- */

/* In texts these are rare, and in anchors they are common. In small letters none of the others is
 * one of them. */
static bool is_taken(unsigned c)
{
	return kh_is_alpha((char)c) || (c >= '0' && c <= '9') || c < 0x20 || c >= 0x7f ||
	       (c > ' ' && strchr("-_.+/=%~^", (int)c));
}

struct intake {
	struct kh_fingerprints *fingerprints;
	uint16_t list;
};

/* Into its bucket. */
static void link_in(const struct intake *intake, struct kh_slice list, size_t at, uint32_t *bucket)
{
	struct kh_fingerprints *fingerprints = intake->fingerprints;
	struct kh_fingerprint_link *link = &fingerprints->links[++fingerprints->n_links];
	const struct kh_fingerprint *entry = (const void *)(list.ptr + at);
	unsigned depth = 1;

	*link = (struct kh_fingerprint_link){ (uint32_t)at, intake->list, true, *bucket };
	*bucket = fingerprints->n_links;
	for (uint32_t n = link->next; n != 0; n = fingerprints->links[n].next) {
		const struct kh_fingerprint_link *other = &fingerprints->links[n];
		depth++;
		if (other->list == link->list &&
		    kh_fingerprints_are_alike(entry, (const void *)(list.ptr + other->at)))
			link->leads = false;
	}
	if (depth > fingerprints->fullest)
		fingerprints->fullest = depth;
	if (entry->len > fingerprints->longest)
		fingerprints->longest = entry->len;
}

static bool take_in(const struct intake *intake, struct kh_slice list, size_t at)
{
	struct kh_fingerprints *fingerprints = intake->fingerprints;
	const struct kh_fingerprint *entry = (const void *)(list.ptr + at);
	uint8_t window[1][ANCHOR];
	uint32_t first, second;

	for (size_t i = 0; i < ANCHOR; i++)
		if (!is_taken(entry->anchor[i]))
			memset(fingerprints->takes, true, sizeof(fingerprints->takes));
	put_folded(window[0], (const char *)entry->anchor);
	bool ok = encrypt(fingerprints, window, 1);
	memcpy(&first, window[0], sizeof(first));
	memcpy(&second, window[0] + sizeof(first), sizeof(second));
	kh_secret_wipe(window, sizeof(window));
	first &= fingerprints->mask;
	second &= fingerprints->mask;
	fingerprints->maps[first / 64] |= UINT64_C(1) << first % 64;
	fingerprints->maps[fingerprints->second + second / 64] |= UINT64_C(1) << second % 64;
	link_in(intake, list, at, &fingerprints->buckets[first >> fingerprints->bucket_shift]);
	return ok;
}

static bool take_in_list(struct kh_slice list, void *arg)
{
	struct intake *intake = arg;
	bool ok = list.len >= KEY_BYTES &&
		  (list.len - KEY_BYTES) % sizeof(struct kh_fingerprint) == 0;

	for (size_t at = KEY_BYTES; ok && at < list.len; at += sizeof(struct kh_fingerprint))
		ok = take_in(intake, list, at);
	return ok;
}

static bool make_maps(struct kh_fingerprints *fingerprints)
{
	unsigned bits = MAP_BITS_LEAST, bucket_bits = 4;
	size_t entries = 0;

	for (size_t i = 0; i < fingerprints->n_lists; i++)
		entries += kh_secret_len(fingerprints->lists[i]) / sizeof(struct kh_fingerprint);
	while (bits < MAP_BITS_MOST && (size_t)1 << bits < entries * BITS_FOR_EACH)
		bits++;
	while (bucket_bits < bits && (size_t)1 << bucket_bits < entries * BUCKETS_FOR_EACH)
		bucket_bits++;
	fingerprints->mask = ((uint32_t)1 << bits) - 1;
	fingerprints->second = ((size_t)1 << bits) / 64;
	fingerprints->bucket_shift = bits - bucket_bits;
	fingerprints->maps = calloc(2 * fingerprints->second, sizeof(*fingerprints->maps));
	fingerprints->buckets = calloc((size_t)1 << bucket_bits, sizeof(*fingerprints->buckets));
	fingerprints->links = calloc(entries + 1, sizeof(*fingerprints->links));
	for (unsigned c = 0; c < sizeof(fingerprints->takes); c++)
		fingerprints->takes[c] = is_taken(c);
	bool ok = fingerprints->maps && fingerprints->buckets && fingerprints->links &&
		  getrandom(fingerprints->key, sizeof(fingerprints->key), 0) ==
			  (ssize_t)sizeof(fingerprints->key);
	for (uint16_t i = 0; ok && i < fingerprints->n_lists; i++) {
		struct intake intake = { fingerprints, i };
		ok = kh_secret_expose(fingerprints->lists[i], take_in_list, &intake);
	}
	/* What is compared where there is none. */
	if (ok && fingerprints->n_links > 0) {
		fingerprints->links[0] = fingerprints->links[1];
		fingerprints->links[0].next = 0;
	}
	return ok;
}

struct kh_fingerprints *kh_fingerprints_new(struct kh_secret **lists, size_t n_lists,
					    struct kh_err *err)
{
	struct kh_fingerprints *fingerprints =
		n_lists <= KH_FINGERPRINT_LISTS ? calloc(1, sizeof(*fingerprints)) : NULL;

	for (size_t i = 0; i < n_lists; i++) {
		if (fingerprints)
			fingerprints->lists[fingerprints->n_lists++] = lists[i];
		else
			kh_secret_unref(lists[i]);
		lists[i] = NULL;
	}
	if (fingerprints)
		atomic_init(&fingerprints->refs, 1);
	if (fingerprints && make_maps(fingerprints))
		return fingerprints;
	kh_fingerprints_unref(fingerprints);
	kh_err_set(err, KH_ERR_INTERNAL, "fingerprints of credentials: not understood");
	return NULL;
}

struct kh_fingerprints *kh_fingerprints_ref(struct kh_fingerprints *fingerprints)
{
	atomic_fetch_add_explicit(&fingerprints->refs, 1, memory_order_relaxed);
	return fingerprints;
}

void kh_fingerprints_unref(struct kh_fingerprints *fingerprints)
{
	if (!fingerprints ||
	    atomic_fetch_sub_explicit(&fingerprints->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (size_t i = 0; i < fingerprints->n_lists; i++)
		kh_secret_unref(fingerprints->lists[i]);
	for (size_t i = 0; i < KH_FINGERPRINT_IDLE_CIPHERS; i++)
		EVP_CIPHER_CTX_free(atomic_load(&fingerprints->idle[i]));
	kh_secret_wipe(fingerprints->key, sizeof(fingerprints->key));
	free(fingerprints->maps);
	free(fingerprints->buckets);
	free(fingerprints->links);
	free(fingerprints);
}

/* ---- texts are gone through ---- */

void kh_fingerprint_search_begin(struct kh_fingerprint_search *search,
				 struct kh_fingerprints *fingerprints)
{
	search->fingerprints = fingerprints;
	search->candidates = search->pending = 0;
	search->longest = search->subject = 0;
	search->failed = search->found = search->everywhere = false;
	search->index = UINT16_MAX;
	memset(search->holds, 0, sizeof(search->holds));
	memset(&search->work, 0, sizeof(search->work));
}

static uint64_t is_set(const uint64_t *map, uint32_t place)
{
	return map[place / 64] >> place % 64 & 1;
}

/* Each is written down as a candidate, and the next over it unless it is one. */
static void hash_pending(struct kh_fingerprint_search *search)
{
	struct kh_fingerprints *fingerprints = search->fingerprints;
	unsigned n = search->candidates;

	if (search->pending == 0)
		return;
	if (!encrypt(fingerprints, search->windows, search->pending))
		search->failed = true;
	for (unsigned i = 0; i < search->pending; i++) {
		uint32_t first, second;
		memcpy(&first, search->windows[i], sizeof(first));
		memcpy(&second, search->windows[i] + sizeof(first), sizeof(second));
		first &= fingerprints->mask;
		uint64_t both = is_set(fingerprints->maps, first) &
				is_set(fingerprints->maps + fingerprints->second,
				       second & fingerprints->mask);
		search->places[n] = search->waiting[i];
		search->places[n].bucket = first >> fingerprints->bucket_shift;
		n += (unsigned)both & (unsigned)(n <= KH_LIMIT_CANDIDATES);
	}
	kh_secret_wipe(search->windows, search->pending * sizeof(search->windows[0]));
	search->candidates = n;
	search->work.windows += search->pending;
	search->pending = 0;
}

/* A run of bytes that an anchor may have. */
static void add_run(struct kh_fingerprint_search *search, struct kh_slice text, uint32_t subject,
		    size_t from, size_t to)
{
	for (size_t at = from; at + ANCHOR <= to; at++) {
		if (search->pending == KH_FINGERPRINT_BATCH)
			hash_pending(search);
		search->waiting[search->pending] = (struct kh_fingerprint_place){
			.text = text.ptr,
			.len = (uint32_t)text.len,
			.at = (uint32_t)at,
			.subject = subject,
		};
		put_folded(search->windows[search->pending++], text.ptr + at);
	}
}

void kh_fingerprint_search_add(struct kh_fingerprint_search *search, struct kh_slice text,
			       uint32_t subject)
{
	const bool *takes = search->fingerprints->takes;
	const unsigned char *bytes = (const unsigned char *)text.ptr;
	size_t from = 0;

	if (search->fingerprints->n_links == 0 || text.len < ANCHOR)
		return;
	if (text.len > UINT32_MAX) {
		search->failed = true;
		return;
	}
	if (text.len > search->longest)
		search->longest = (uint32_t)text.len;
	while (from + ANCHOR <= text.len) {
		/* From the end of what would be the first: a byte that is none spares all before.
		 */
		size_t at = from + ANCHOR;
		while (at > from && takes[bytes[at - 1]])
			at--;
		if (at > from) {
			from = at;
			continue;
		}
		size_t to = from + ANCHOR;
		while (to < text.len && takes[bytes[to]])
			to++;
		add_run(search, text, subject, from, to);
		from = to + 1;
	}
}

bool kh_fingerprint_search_has_candidates(struct kh_fingerprint_search *search)
{
	hash_pending(search);
	return search->candidates > 0 || search->failed;
}
