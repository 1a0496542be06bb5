/* fingerprints.h - knowing a real credential again in what a sandbox sends, without having it at
 * hand */
#ifndef KEYHOLE_CREDENTIAL_FINGERPRINTS_H
#define KEYHOLE_CREDENTIAL_FINGERPRINTS_H

#include <stdint.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>
#include <keyhole/base/guess.h>
#include <keyhole/base/secret.h>

/*
 * The worker is given values when a request needs them. To see any of them leave, it has
 * fingerprints of all instead: of each value, also in small letters (as a host has it) and without
 * its dots then, and of the texts that base64, hex, base32, UTF-16,
 * and base64 over UTF-16 make of it, 8 bytes of the part that is hardest to guess, the length, and
 * a keyed digest (HMAC-SHA256 under a key of this list's own) of the whole. Of hex and base32
 * and of small letters the case does not count. They lie in secret pages. Outside of those are two
 * bitmaps, in which keyed hashes of 16 bytes say that something of the list may be there: at most
 * 44 bits of each value, and which multipliers.
 *
 * A value that is easy to guess (guess.h) has no fingerprint: a sandbox could find it out by
 * trying, since it sees which of its requests are refused. What is left cannot be guessed, neither
 * whole nor by the 16 bytes that are looked for first.
 */

/* ---- the keeper's side: a list is packed into secrets ---- */

struct kh_fingerprint_maker {
	uint8_t key[32];
	struct kh_buf bytes; /* wiping */
};
bool kh_fingerprint_maker_init(struct kh_fingerprint_maker *maker, struct kh_err *err);
void kh_fingerprint_maker_fini(struct kh_fingerprint_maker *maker);

enum kh_fingerprint_result {
	KH_FINGERPRINT_ADDED = 1,
	KH_FINGERPRINT_GUESSABLE, /* it has none */
	KH_FINGERPRINT_FULL,	  /* this list is full (begin another), or no memory */
};
/* `index`: of the credential. `few`: as it is and in base64 alone (a line of a private key). */
enum kh_fingerprint_result kh_fingerprint_maker_add(struct kh_fingerprint_maker *maker,
						    struct kh_slice value, bool few,
						    uint16_t index);
/* The list, and the maker is as new. NULL without memory. */
struct kh_secret *kh_fingerprint_maker_take(struct kh_fingerprint_maker *maker, struct kh_err *err);

/* ---- the worker's side ---- */

/* One request's search. Zeroed at first. */
struct kh_print_search {
	unsigned candidates; /* that were held against the lists */
	bool found;	     /* a value, or more candidates than a request may have */
	uint16_t index;	     /* of the credential; UINT16_MAX: too many candidates */
};

/* Counted; immutable. */
struct kh_fingerprints;
/* Takes the references over, also when it fails. None: nothing is found. */
struct kh_fingerprints *kh_fingerprints_new(struct kh_secret **lists, size_t n_lists,
					    struct kh_err *err);
struct kh_fingerprints *kh_fingerprints_ref(struct kh_fingerprints *prints);
void kh_prints_unref(struct kh_fingerprints *prints); /* NULL is fine */
/* Looks for one in the text. All of the text is gone through whatever is found, so that the time
 * does not tell. */
void kh_prints_find(const struct kh_fingerprints *prints, struct kh_slice text,
		    struct kh_print_search *search);
/* The work of one candidate, for nothing: what is refused takes as long as what was recognised. */
void kh_prints_spend(const struct kh_fingerprints *prints);

#endif
