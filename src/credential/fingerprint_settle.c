/*
 * fingerprint_settle.c - compares a request's candidates with the lists
 *
 * The lists are opened, and always as many places are compared, and as many digests over as many
 * bytes computed, as a request may have. If it has fewer, the rest is done with dummies.
 */
#include <keyhole/credential/fingerprints.h>

#include <stdlib.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <keyhole/base/limits.h>

#include "fingerprints_internal.h"

enum {
	ANCHOR = KH_FINGERPRINT_ANCHOR_BYTES,
	KEY_BYTES = KH_FINGERPRINT_KEY_BYTES,
	SHA256_BLOCK_BYTES = 64,
	SHA256_END_BYTES = 9, /* a bit and the length */
};

/* A candidate whose 16 bytes and length agree. */
struct check {
	const char *text;
	size_t len;
	const struct kh_fingerprint *entry; /* in its list */
	const char *key;
	unsigned candidate;
};

struct settling {
	struct kh_fingerprint_search *search;
	struct kh_slice lists[KH_FINGERPRINT_LISTS]; /* that are open */
	size_t n_lists;
	unsigned n_checks;
	/* Behind them the one that was too many, and one that is written over. */
	struct check checks[KH_LIMIT_CANDIDATE_DIGESTS + 2];
	char *room; /* of `bytes`, and some more */
	size_t bytes;
	bool ok;
};

static const struct kh_fingerprint_place no_place = { .text = "16 bytes of none", .len = ANCHOR };

/* `number`: of the candidate. `link`: 0: of nothing. */
static void compare(struct settling *s, const struct kh_fingerprint_place *place, unsigned number,
		    uint32_t n)
{
	const struct kh_fingerprint_link *link = &s->search->fingerprints->links[n];
	const char *list = s->lists[link->list].ptr;
	const struct kh_fingerprint *entry = (const void *)(list + link->at);
	uint64_t small = kh_fingerprint_fold(0) * (entry->folded != 0);
	uint64_t first = kh_fingerprint_half(place->text + place->at) | small;
	uint64_t last = kh_fingerprint_half(place->text + place->at + ANCHOR / 2) | small;
	uint64_t other = (first ^ kh_fingerprint_half(entry->anchor)) |
			 (last ^ kh_fingerprint_half(entry->anchor + ANCHOR / 2));
	uint64_t from_anchor = ANCHOR + (uint64_t)entry->after, end = place->at + from_anchor;
	unsigned fits = (unsigned)(end <= place->len) & (unsigned)(entry->len <= end) &
			(unsigned)(entry->len >= from_anchor);
	unsigned counts = (unsigned)(number < s->search->candidates) & (unsigned)(n != 0) &
			  (unsigned)link->leads & (unsigned)(other == 0) & fits;

	s->checks[s->n_checks] = (struct check){
		.text = place->text + (end - entry->len) * counts,
		.len = entry->len,
		.entry = entry,
		.key = list,
		.candidate = number,
	};
	s->n_checks += counts & (unsigned)(s->n_checks <= KH_LIMIT_CANDIDATE_DIGESTS);
	s->search->work.compared++;
}

static size_t blocks_of(size_t len)
{
	return (KEY_BYTES + len + SHA256_END_BYTES + SHA256_BLOCK_BYTES - 1) / SHA256_BLOCK_BYTES;
}

static void copy(char *to, const char *from, size_t len, bool folded)
{
	for (size_t i = 0; i < len; i++) {
		char small = kh_lower(from[i]);
		to[i] = folded ? small : from[i];
	}
}

/* With all that differ in it from the check's own entry. */
static void compare_digest(struct settling *s, const struct check *check, bool counts,
			   const uint8_t own[KH_FINGERPRINT_DIGEST_BYTES])
{
	struct kh_fingerprint_search *search = s->search;
	const struct kh_fingerprints *fingerprints = search->fingerprints;
	uint32_t n = fingerprints->buckets[counts ? search->places[check->candidate].bucket : 0];
	uint16_t index = UINT16_MAX;
	bool same = false;

	for (unsigned i = 0; i < fingerprints->fullest; i++) {
		const struct kh_fingerprint_link *link = &fingerprints->links[n];
		const char *list = s->lists[link->list].ptr;
		const struct kh_fingerprint *entry = (const void *)(list + link->at);
		unsigned hit = (unsigned)(list == check->key) & (unsigned)(n != 0) &
			       (unsigned)counts & kh_fingerprints_are_alike(entry, check->entry) &
			       (unsigned)(CRYPTO_memcmp(own, entry->digest,
							KH_FINGERPRINT_DIGEST_BYTES) == 0);
		same = same || hit;
		index = hit && entry->index < index ? entry->index : index;
		n = n ? link->next : 0;
	}
	if (!same)
		return;
	search->holds[check->candidate] = true;
	if (!search->found) {
		search->index = index;
		search->subject = search->places[check->candidate].subject;
	}
	search->found = true;
}

/* Of a check's text and then of nothing: as many bytes are gone through for each. */
static void make_digest(struct settling *s, EVP_MD_CTX *ctx, const struct check *check, bool counts)
{
	size_t len = check->len, blocks = blocks_of(s->bytes);
	uint8_t own[KH_FINGERPRINT_DIGEST_BYTES] = { 0 };

	copy(s->room, check->text, len, check->entry->folded != 0);
	copy(s->room + len, s->room + len, s->bytes - len, check->entry->folded != 0);
	s->ok = s->ok &&
		kh_fingerprint_digest(ctx, (const uint8_t *)check->key, kh_slice_of(s->room, len),
				      own) &&
		EVP_DigestInit_ex(ctx, NULL, NULL) == 1 &&
		EVP_DigestUpdate(ctx, s->room, (blocks - blocks_of(len)) * SHA256_BLOCK_BYTES) == 1;
	s->search->work.digests++;
	s->search->work.blocks += blocks;
	compare_digest(s, check, counts && s->ok, own);
	kh_secret_wipe(own, sizeof(own));
}

static void hold_against(struct settling *s)
{
	struct kh_fingerprint_search *search = s->search;
	const struct kh_fingerprints *fingerprints = search->fingerprints;
	struct check none = { "", 0,
			      (const void *)(s->lists[fingerprints->links[0].list].ptr +
					     fingerprints->links[0].at),
			      s->lists[0].ptr, 0 };
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();

	for (unsigned i = 0; i < KH_LIMIT_CANDIDATES; i++) {
		const struct kh_fingerprint_place *place =
			i < search->candidates ? &search->places[i] : &no_place;
		uint32_t link = fingerprints->buckets[place->bucket];
		for (unsigned n = 0; n < fingerprints->fullest; n++) {
			compare(s, place, i, link);
			link = link ? fingerprints->links[link].next : 0;
		}
	}
	s->ok = ctx != NULL;
	for (unsigned i = 0; ctx && i < KH_LIMIT_CANDIDATE_DIGESTS; i++)
		make_digest(s, ctx, i < s->n_checks ? &s->checks[i] : &none, i < s->n_checks);
	EVP_MD_CTX_free(ctx);
}

/* One behind the other, so that all are open at once. */
static bool open_next(struct kh_slice list, void *arg)
{
	struct settling *s = arg;
	const struct kh_fingerprints *fingerprints = s->search->fingerprints;

	s->search->work.openings++;
	s->lists[s->n_lists++] = list;
	if (s->n_lists < fingerprints->n_lists)
		return kh_secret_expose(fingerprints->lists[s->n_lists], open_next, s);
	hold_against(s);
	return s->ok;
}

/* Too many, or it failed: nobody knows, and nothing of it may leave. */
static void give_up(struct settling *s)
{
	struct kh_fingerprint_search *search = s->search;
	bool many = search->candidates > KH_LIMIT_CANDIDATES;
	bool near = s->n_checks > KH_LIMIT_CANDIDATE_DIGESTS;

	search->everywhere = many || near || search->failed;
	if (search->everywhere && !search->found)
		search->subject =
			many   ? search->places[KH_LIMIT_CANDIDATES].subject
			: near ? search->places[s->checks[KH_LIMIT_CANDIDATE_DIGESTS].candidate]
					 .subject
			       : 0;
	search->found = search->found || search->everywhere;
}

void kh_fingerprint_search_settle(struct kh_fingerprint_search *search)
{
	struct kh_fingerprints *fingerprints = search->fingerprints;
	struct settling s = { .search = search };

	if (fingerprints->n_links == 0)
		return;
	(void)kh_fingerprint_search_has_candidates(search); /* of what is not hashed yet */
	s.bytes = search->longest < fingerprints->longest ? search->longest : fingerprints->longest;
	s.room = calloc(1, s.bytes + 2 * SHA256_BLOCK_BYTES);
	if (!s.room || !kh_secret_expose(fingerprints->lists[0], open_next, &s))
		search->failed = true;
	if (s.room)
		kh_secret_wipe(s.room, s.bytes);
	free(s.room);
	give_up(&s);
}

bool kh_fingerprint_search_holds(const struct kh_fingerprint_search *search, uint32_t subject)
{
	bool holds = search->everywhere;

	for (unsigned i = 0; i < search->candidates && i < KH_LIMIT_CANDIDATES; i++)
		holds = holds || (search->holds[i] && search->places[i].subject == subject);
	return holds;
}
