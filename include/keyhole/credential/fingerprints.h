/* fingerprints.h - knowing a real credential again in what a sandbox sends, without having it at
 * hand */
#ifndef KEYHOLE_CREDENTIAL_FINGERPRINTS_H
#define KEYHOLE_CREDENTIAL_FINGERPRINTS_H

#include <stdint.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>
#include <keyhole/base/guess.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/secret.h>

/*
 * The worker gets a value only when a request needs it. To see any value leave, it has
 * fingerprints of all: of each value, of the value without its dots (a host may be cut up by them),
 * and of its encodings in base64, hex, base32, UTF-16, and base64 over UTF-16. A fingerprint is 16
 * bytes in clear of the part that is hardest to guess, the length, and a keyed digest of the whole
 * (12 bytes of SHA-256 over a key of this list's own and the text). Case does not count, so that a
 * host is searched in lower case; it counts in UTF-16, and in a text that is easy to guess in lower
 * case. A value has 15 to 22 fingerprints, a line of a private key 4 to 7, and a list has room for
 * 1,637. They are in secret pages, with the
 * key of the digests: who can open these pages has the 16 bytes, and can try the rest out.
 *
 * Outside of those pages are places of the 16 bytes: AES-128 under a key of the worker's own, drawn
 * when the lists come, makes 16 bytes of them, and up to 44 bits of these say which bit of either
 * of two bitmaps is set. A sandbox that sees which of its 16 bytes find their bits set learns
 * nothing of a value from that, unless it has guessed all of the 16.
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

/* Counted; immutable. */
struct kh_fingerprints;
/* Takes the references over, also when it fails. None: nothing is found. */
struct kh_fingerprints *kh_fingerprints_new(struct kh_secret **lists, size_t n_lists,
					    struct kh_err *err);
struct kh_fingerprints *kh_fingerprints_ref(struct kh_fingerprints *fingerprints);
void kh_fingerprints_unref(struct kh_fingerprints *fingerprints); /* NULL is fine */
/* ---- a search: all texts of one request ---- */

/* 16 bytes in a row of a text. */
struct kh_fingerprint_place {
	const char *text;
	uint32_t len, at;
	uint32_t subject;
	uint32_t bucket; /* the first of its two places */
};

/* What was done, in numbers: what a sandbox could measure. */
struct kh_fingerprint_work {
	uint64_t windows;  /* of 16 bytes, each encrypted and looked up */
	uint64_t openings; /* of secret pages */
	uint64_t compared; /* entries of the lists */
	uint64_t digests;
	uint64_t blocks; /* of 64 bytes, in these */
};

enum { KH_FINGERPRINT_BATCH = 64 };

/* Some KiB, begun and not copied. The texts live until it has settled. */
struct kh_fingerprint_search {
	struct kh_fingerprints *fingerprints;
	unsigned candidates; /* at most one more than there may be; of what was hashed */
	unsigned pending;    /* windows that are not hashed yet */
	uint32_t longest;    /* of the texts */
	bool failed;	     /* no memory: nobody knows, so it counts as found */
	/* Known when it has settled: */
	bool found;	  /* a value, or more candidates than a request may have */
	bool everywhere;  /* the latter, or it failed: any of the texts may hold one */
	uint16_t index;	  /* of the credential; UINT16_MAX: none is known */
	uint32_t subject; /* of the text that holds the first */
	bool holds[KH_LIMIT_CANDIDATES];
	struct kh_fingerprint_work work;
	/* Of candidates: behind them the one that was too many, and one that is written over. */
	struct kh_fingerprint_place places[KH_LIMIT_CANDIDATES + 2];
	struct kh_fingerprint_place waiting[KH_FINGERPRINT_BATCH];
	uint8_t windows[KH_FINGERPRINT_BATCH][KH_GUESS_WINDOW_BYTES];
};

/* Borrows the fingerprints. */
void kh_fingerprint_search_begin(struct kh_fingerprint_search *search,
				 struct kh_fingerprints *fingerprints);
/*
 * Goes through a text, and notes candidates. Looked at are 16 bytes in a row that are letters,
 * digits, "-_.+/=%~^", control characters or no ASCII; any, where the 16 bytes of an entry have
 * another. The time it takes hangs on these kinds of bytes alone. `subject`: the caller's name for
 * the text.
 */
void kh_fingerprint_search_add(struct kh_fingerprint_search *search, struct kh_slice text,
			       uint32_t subject);
/* Does it have a candidate, or did it fail? */
bool kh_fingerprint_search_has_candidates(struct kh_fingerprint_search *search);
/*
 * Opens the lists, once, and holds the candidates against them. It does as much whether there is
 * none or as many as a request may have; how much, hangs on the lists and the longest text alone.
 * Once.
 */
void kh_fingerprint_search_settle(struct kh_fingerprint_search *search);
/* It has settled: does a text of this subject hold one? */
bool kh_fingerprint_search_holds(const struct kh_fingerprint_search *search, uint32_t subject);

#endif
