/* fingerprints.h - recognises a real credential in what a sandbox sends, without holding its value
 */
#ifndef KEYHOLE_CREDENTIAL_FINGERPRINTS_H
#define KEYHOLE_CREDENTIAL_FINGERPRINTS_H

#include <stdint.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>
#include <keyhole/base/guess.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/secret.h>

/*
 * The worker gets a value only when a request needs it. To recognise any value in a request, it has
 * fingerprints of all: of each value, of the value without its dots (dots may split it within a
 * host), and of its encodings in base64, hex, base32, UTF-16, and base64 over UTF-16. A fingerprint
 * consists of 16 plain bytes, taken from the part that is hardest to guess; the length; and a keyed
 * digest of the whole (12 bytes of SHA-256 over the list's own key and the text). Case is ignored,
 * so that a host can be searched in lower case. It is not ignored in UTF-16, nor in a text that
 * would be easy to guess in lower case. A value has 15 to 22 fingerprints, a line of a private key
 * 4 to 7, and a list has room for 1,637. Lists are in secret pages, together with the key of their
 * digests: whoever can read these pages has the 16 bytes, and can try out the rest.
 *
 * Outside of those pages is only an index of the 16 bytes. AES-128 under a random key, which the
 * worker makes when the lists come, turns them into 16 other bytes, and up to 44 bits of these
 * select one bit in each of two bitmaps. A sandbox that could see which of its 16-byte strings find
 * their bits set learns nothing about a value, unless it has guessed all 16 bytes.
 *
 * A value that is easy to guess (guess.h) has no fingerprint: a sandbox could find it by trying,
 * since it sees which of its requests are refused. The others can't be guessed, neither whole nor
 * by the 16 bytes that are searched first.
 */

/* ---- the keeper's side: makes lists, each in a secret ---- */

struct kh_fingerprint_maker {
	uint8_t key[32];
	struct kh_buf bytes; /* wiping */
};
bool kh_fingerprint_maker_init(struct kh_fingerprint_maker *maker, struct kh_err *err);
void kh_fingerprint_maker_fini(struct kh_fingerprint_maker *maker);

enum kh_fingerprint_result {
	KH_FINGERPRINT_ADDED = 1,
	KH_FINGERPRINT_GUESSABLE, /* too easy to guess: it has no fingerprint */
	KH_FINGERPRINT_FULL, /* this list is full (take it, and add to the next), or no memory */
};
/* Adds the fingerprints of a value. `index`: of its credential. `few`: only of the value itself and
 * in base64 (for a line of a private key). */
enum kh_fingerprint_result kh_fingerprint_maker_add(struct kh_fingerprint_maker *maker,
						    struct kh_slice value, bool few,
						    uint16_t index);
/* Gives the list, and the maker begins a new one. Return: NULL with `err`. */
struct kh_secret *kh_fingerprint_maker_take(struct kh_fingerprint_maker *maker, struct kh_err *err);

/* ---- the worker's side ---- */

/* Reference-counted; immutable. */
struct kh_fingerprints;
/* Takes over the references to the lists, also on failure. Without lists nothing is ever found.
 * Return: NULL with `err`. */
struct kh_fingerprints *kh_fingerprints_new(struct kh_secret **lists, size_t n_lists,
					    struct kh_err *err);
struct kh_fingerprints *kh_fingerprints_ref(struct kh_fingerprints *fingerprints);
void kh_fingerprints_unref(struct kh_fingerprints *fingerprints); /* NULL is fine */
/* ---- a search: all texts of one request ---- */

/* 16 consecutive bytes of a text. */
struct kh_fingerprint_place {
	const char *text;
	uint32_t len, at;
	uint32_t subject;
	uint32_t bucket; /* of its place in the first bitmap */
};

/* How much work was done, which a sandbox could measure. */
struct kh_fingerprint_work {
	uint64_t windows;  /* of 16 bytes, each encrypted and looked up */
	uint64_t openings; /* of secret pages */
	uint64_t compared; /* entries of the lists */
	uint64_t digests;
	uint64_t blocks; /* of 64 bytes, in these */
};

enum { KH_FINGERPRINT_BATCH = 64 };

/* Some KiB; it must not be copied. The texts must live until it has settled. */
struct kh_fingerprint_search {
	struct kh_fingerprints *fingerprints;
	unsigned candidates; /* of the windows that were hashed; one more than the limit at most */
	unsigned pending;    /* windows that are not hashed yet */
	uint32_t longest;    /* of the texts */
	bool failed;	     /* no memory: the result is not known, so it counts as found */
	/* Known when it has settled: */
	bool found;	  /* a value was found, or more candidates than a request may have */
	bool everywhere;  /* too many candidates, or it failed: any text may hold a value */
	uint16_t index;	  /* of the credential; UINT16_MAX: none is known */
	uint32_t subject; /* the text that holds the first value found */
	bool holds[KH_LIMIT_CANDIDATES];
	struct kh_fingerprint_work work;
	/* The candidates; then the one that was too many, and one as scratch space. */
	struct kh_fingerprint_place places[KH_LIMIT_CANDIDATES + 2];
	struct kh_fingerprint_place waiting[KH_FINGERPRINT_BATCH];
	uint8_t windows[KH_FINGERPRINT_BATCH][KH_GUESS_WINDOW_BYTES];
};

/* Begins a search; the fingerprints must outlive it. */
void kh_fingerprint_search_begin(struct kh_fingerprint_search *search,
				 struct kh_fingerprints *fingerprints);
/*
 * Searches a text and notes candidates. A window is looked up if its 16 bytes are letters, digits,
 * "-_.+/=%~^", control characters or not ASCII, or other bytes that occur in an entry. The time
 * depends only on which kinds of bytes the text has. `subject`: the caller's name for the text.
 */
void kh_fingerprint_search_add(struct kh_fingerprint_search *search, struct kh_slice text,
			       uint32_t subject);
/* Has it a candidate, or did it fail? */
bool kh_fingerprint_search_has_candidates(struct kh_fingerprint_search *search);
/*
 * Opens the lists, once, and compares the candidates with them. The amount of work is the same for
 * no candidate and for as many as a request may have; it depends only on the lists and the longest
 * text. To be called once.
 */
void kh_fingerprint_search_settle(struct kh_fingerprint_search *search);
/* After it has settled: does a text of this subject hold a value? */
bool kh_fingerprint_search_holds(const struct kh_fingerprint_search *search, uint32_t subject);

#endif
