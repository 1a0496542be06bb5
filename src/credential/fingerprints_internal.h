/* fingerprints_internal.h - the format of a list, which the keeper makes and the worker reads */
#ifndef KEYHOLE_CREDENTIAL_FINGERPRINTS_INTERNAL_H
#define KEYHOLE_CREDENTIAL_FINGERPRINTS_INTERNAL_H

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include <openssl/evp.h>

#include <keyhole/base/guess.h>
#include <keyhole/base/secret.h>
#include <keyhole/base/slice.h>

enum {
	KH_FINGERPRINT_ANCHOR_BYTES = KH_GUESS_WINDOW_BYTES,
	KH_FINGERPRINT_KEY_BYTES = 32,
	KH_FINGERPRINT_DIGEST_BYTES = 12,
	/* Set in each byte of an anchor in small letters. What is no letter, and a digit of hex or
	 * base32, has it already. */
	KH_FINGERPRINT_SMALL = 0x20,
	KH_FINGERPRINT_LISTS = 16,
	KH_FINGERPRINT_IDLE_CIPHERS = 16,
	KH_FINGERPRINT_CIPHER_KEY_BYTES = 16,
};

/* A list is a key, and then these. */
struct kh_fingerprint {
	uint8_t anchor[KH_FINGERPRINT_ANCHOR_BYTES];
	uint8_t digest[KH_FINGERPRINT_DIGEST_BYTES];
	uint32_t len;
	uint32_t after; /* bytes between the anchor and the text's end */
	uint16_t index;
	uint8_t folded; /* the text is in small letters, and is compared so */
	uint8_t zero;
};

/* The first bytes of SHA-256 over the key and the text. */
bool kh_fingerprint_digest(EVP_MD_CTX *ctx, const uint8_t key[KH_FINGERPRINT_KEY_BYTES],
			   struct kh_slice text, uint8_t out[KH_FINGERPRINT_DIGEST_BYTES]);

/* ---- in the worker ---- */

/* Where an entry is, and the one after it in its bucket; 0 is none. Of entries of one list that
 * differ in their digests alone, one leads: what is made for it is compared with all. */
struct kh_fingerprint_link {
	uint32_t at; /* in its list */
	uint16_t list;
	bool leads;
	uint32_t next;
};

struct kh_fingerprints {
	atomic_uint refs;
	uint8_t key[KH_FINGERPRINT_CIPHER_KEY_BYTES];
	EVP_CIPHER_CTX *_Atomic idle[KH_FINGERPRINT_IDLE_CIPHERS]; /* that no thread uses now */
	struct kh_secret *lists[KH_FINGERPRINT_LISTS];
	size_t n_lists;
	uint32_t mask;	/* of a place */
	uint64_t *maps; /* the first, and the second after it */
	size_t second;	/* where that begins */
	unsigned bucket_shift;
	uint32_t *buckets;
	struct kh_fingerprint_link *links; /* of all entries, from 1 */
	uint32_t n_links;
	unsigned fullest; /* entries of a bucket */
	uint32_t longest; /* text of an entry */
	bool takes[256];  /* bytes that an anchor may have */
};

static inline uint64_t kh_fingerprint_half(const void *bytes)
{
	uint64_t half;

	memcpy(&half, bytes, sizeof(half));
	return half;
}

static inline uint64_t kh_fingerprint_fold(uint64_t half)
{
	return half | UINT64_C(0x0101010101010101) * KH_FINGERPRINT_SMALL;
}

/* Of one list: do they differ in their digests and credentials alone? */
static inline unsigned kh_fingerprints_are_alike(const struct kh_fingerprint *one,
						 const struct kh_fingerprint *other)
{
	return (unsigned)((kh_fingerprint_half(one->anchor) ^ kh_fingerprint_half(other->anchor)) ==
			  0) &
	       (unsigned)((kh_fingerprint_half(one->anchor + KH_FINGERPRINT_ANCHOR_BYTES / 2) ^
			   kh_fingerprint_half(other->anchor + KH_FINGERPRINT_ANCHOR_BYTES / 2)) ==
			  0) &
	       (unsigned)(one->len == other->len) & (unsigned)(one->after == other->after) &
	       (unsigned)(one->folded == other->folded);
}

#endif
