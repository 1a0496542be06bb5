/* placeholder.h - placeholders: their shapes, how they are made, and how they are recognised */
#ifndef KEYHOLE_CREDENTIAL_PLACEHOLDER_H
#define KEYHOLE_CREDENTIAL_PLACEHOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include <keyhole/base/err.h>
#include <keyhole/config/shape.h>
#include <keyhole/base/slice.h>

/*
 * A placeholder has the shape and the length of the real value, since clients check both, and a
 * core inside:
 *
 *   ghp_ QKXWAHTPL MRDPUEX JWB k3Xw0aTg9Zc 3fQx1B
 *        mark      sandbox cred  filler      checksum of the shape
 *
 * All of it is derived by HMAC-SHA256 under a key of the daemon (the placeholder key) from the
 * names of tenant, sandbox and credential. So a sandbox always gets the same placeholder, and
 * nobody has to store it. The mark is the same in every placeholder of the daemon, so one search
 * finds all of them; the two parts after it say whose it is. Mark and parts consist of capital
 * letters, or of digits if the shape has no letters. No encoder escapes those, and base64 of them
 * is one of three texts.
 *
 * A placeholder is worth nothing: nobody can use it to get in. The checks described here do not
 * protect a secret; they only make sure that its misuse is noticed. A sandbox that knows the mark
 * (every sandbox does) can hide a placeholder from the search by splitting it.
 */

/* The shape's word in the configuration. */
const char *kh_shape_name(enum kh_shape shape);
/* The shape of a real value, by its public prefix; GENERIC: the prefix is not known. */
enum kh_shape kh_shape_of(struct kh_slice value);

/* What a placeholder is to look like. */
struct kh_placeholder_spec {
	enum kh_shape shape; /* not NONE */
	const char *prefix;  /* GENERIC; NULL: none */
	/* GENERIC: visible ASCII, each character once, with all capital letters or all digits among
	   them; NULL: letters and digits. */
	const char *alphabet;
	size_t length; /* of the real value; 0: the shape's usual one */
};
/* Whose placeholder it is. */
struct kh_placeholder_owner {
	const char *tenant;
	const char *sandbox;
	const char *credential;
};

/* Makes a placeholder, on the heap. It is `length` bytes long, or longer if that has no room for
 * the core (19 letters, or 26 digits). Return: NULL with `err`, also for an alphabet that is not as
 * above. */
char *kh_placeholder_make(const struct kh_placeholder_key *key,
			  const struct kh_placeholder_spec *spec,
			  const struct kh_placeholder_owner *owner, struct kh_err *err);

/* Derives a key for each place from one key of the user's, so that a placeholder of one place is
 * not recognised in another. Return: false if the name of the place is longer than a path. */
bool kh_placeholder_key_of_place(const struct kh_placeholder_key *user, const char *place,
				 struct kh_placeholder_key *out);

/* ---- recognising a placeholder ---- */

/* The core consists of letters, or of digits. */
enum kh_mark_class { KH_MARK_LETTERS = 0, KH_MARK_DIGITS, KH_MARK_CLASSES };
enum {
	KH_MARK_MOST = 12,	  /* bytes of a mark */
	KH_MARK_OWNER_BYTES = 10, /* of the sandbox's part: 7 letters, or 10 digits */
	KH_MARK_NAME_BYTES =
		4, /* of the credential's part: 3 letters, or 4 digits; none in aws-key-id */
};

/* The two parts after a mark, for each class. Not terminated. */
struct kh_owner_tag {
	char text[KH_MARK_CLASSES][KH_MARK_OWNER_BYTES];
};
struct kh_name_tag {
	char text[KH_MARK_CLASSES][KH_MARK_NAME_BYTES];
};
void kh_owner_tag_make(struct kh_owner_tag *out, const struct kh_placeholder_key *key,
		       const char *tenant, const char *sandbox);
void kh_name_tag_make(struct kh_name_tag *out, const struct kh_placeholder_key *key,
		      const char *credential);

/* All that the search needs; immutable, so threads may share it. */
struct kh_marks;
/* Up to KH_MARK_KEYS keys, which are copied. `digits`: search for marks of digits too; only if some
 * placeholder may have them, since short numbers are everywhere. Return: NULL with `err`. */
struct kh_marks *kh_marks_new(const struct kh_placeholder_key *keys, size_t n_keys, bool digits,
			      struct kh_err *err);
void kh_marks_free(struct kh_marks *marks);

/* A mark that was found, with as much of the text after it as there was. */
struct kh_mark {
	size_t begin; /* offset in the text */
	uint8_t key;  /* index */
	uint8_t class;
	uint8_t len; /* of `behind` */
	char behind[KH_MARK_OWNER_BYTES + KH_MARK_NAME_BYTES];
};
bool kh_mark_is_of(const struct kh_mark *mark, const struct kh_owner_tag *owner);
bool kh_mark_is_named(const struct kh_mark *mark, const struct kh_name_tag *name);

/*
 * Finds the first mark at or after *from, plain or inside base64, and moves *from after it. Return:
 * false: there is none.
 */
bool kh_marks_find(const struct kh_marks *marks, struct kh_slice text, size_t *from,
		   struct kh_mark *out);

/*
 * Undoes percent escapes and JSON escapes (\uXXXX, \/) at the same time, once, into `out`, which
 * needs at most text.len bytes. Return: bytes written; 0: there was no escape.
 */
size_t kh_mark_unescape(struct kh_slice text, char *out);

/* ---- in content that comes in pieces ---- */

enum {
	KH_MARK_SPAN = 64,	  /* more than a core in base64 */
	KH_MARK_NEEDLE_MOST = 16, /* the longest text that is searched for */
	KH_MARK_NEEDLE_LEAST = 9,
	/* How many of them may begin in a span. */
	KH_MARK_PENDING = (KH_MARK_SPAN + KH_MARK_NEEDLE_LEAST - 1) / KH_MARK_NEEDLE_LEAST,
};

/* Zeroed at first, except for the first two members. */
struct kh_mark_scan {
	const struct kh_marks *marks;
	/* A mark is reported as soon as it is complete, and the scan ends: for a caller that
	   refuses any mark. Otherwise it is reported once the parts after it have come. */
	bool eager;
	bool ended;			/* the last piece has come */
	char tail[KH_MARK_NEEDLE_MOST]; /* the last bytes that came */
	uint8_t tail_len;
	/* Marks whose parts have not come yet, from their beginning on. Another mark may begin
	   within the parts of the first. */
	uint8_t pending_len[KH_MARK_PENDING];
	char pending[KH_MARK_PENDING][KH_MARK_SPAN];
	/* After an escape of a character that no encoder escapes: the text with all escapes undone.
	 */
	bool unescaping;
	uint8_t escape_len;
	uint8_t window_len;
	char escape[6]; /* an escape that is not complete yet */
	uint16_t plain_run;
	char window[2 * KH_MARK_SPAN];
};

/* Return: false: stop. */
typedef bool kh_mark_fn(const struct kh_mark *mark, void *arg);

/* Calls `fn` for each mark; a mark that is written with escapes may be reported twice.
 * kh_mark_scan_end after the last piece. Return: false: `fn` returned false, or there is a mark and
 * the scan is eager. */
bool kh_mark_scan_feed(struct kh_mark_scan *scan, struct kh_slice piece, kh_mark_fn *fn, void *arg);
bool kh_mark_scan_end(struct kh_mark_scan *scan, kh_mark_fn *fn, void *arg);

#endif
