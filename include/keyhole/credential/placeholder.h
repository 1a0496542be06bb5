/* placeholder.h - placeholders: their shapes, how they are made, and how they are known again */
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
 * All of it is drawn from HMAC-SHA256 under a key of the daemon's (placeholder key), over the names
 * of tenant, sandbox and credential: the same sandbox gets the same one again, and nobody has to
 * keep it. The mark is the same in every placeholder of the daemon, so one search finds any of
 * them, whosever it is; the two parts behind it say whose. Mark and parts are capital letters, or
 * digits where the shape has no letters: no encoder touches those, and base64 of them is one of
 * three texts.
 *
 * It is worth nothing: it opens no acceptor by itself, and what is written about it here protects
 * nothing but the right to be told. Who knows the mark (every sandbox does) can hide a placeholder
 * from the search by cutting it up.
 */

/* The word. */
const char *kh_shape_name(enum kh_shape shape);
/* By the public beginning of a real value; GENERIC: it has none that is known. */
enum kh_shape kh_shape_of(struct kh_slice value);

/* What one is to look like. */
struct kh_placeholder_spec {
	enum kh_shape shape; /* not NONE */
	const char *prefix;  /* GENERIC; NULL: none */
	/* GENERIC: visible ASCII, each character once, all capital letters or all digits among
	   them; NULL: letters and digits. */
	const char *alphabet;
	size_t length; /* of the real value; 0: the shape's usual one */
};
/* Whose. */
struct kh_placeholder_owner {
	const char *tenant;
	const char *sandbox;
	const char *credential;
};

/* Heap. As long as `length` where that leaves room for the core (19 letters, or 26 digits), longer
 * where it does not. Return: NULL with `err` for an alphabet that won't do. */
char *kh_placeholder_make(const struct kh_placeholder_key *key,
			  const struct kh_placeholder_spec *spec,
			  const struct kh_placeholder_owner *owner, struct kh_err *err);

/* ---- knowing one again ---- */

/* Letters, or digits. */
enum kh_mark_class { KH_MARK_LETTERS = 0, KH_MARK_DIGITS, KH_MARK_CLASSES };
enum {
	KH_MARK_MOST = 12,	  /* bytes of a mark */
	KH_MARK_OWNER_BYTES = 10, /* of the sandbox's part: 7 letters, or 10 digits */
	KH_MARK_NAME_BYTES = 4,	  /* of the credential's: 3 letters, or 4 digits; none in
				     aws-key-id */
};

/* The two parts behind a mark, for each class. Not terminated. */
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

/* All that the search needs; immutable, may be shared. */
struct kh_marks;
/* One key or two. Digits are sought only where a placeholder may have them: short numbers are
 * everywhere. */
struct kh_marks *kh_marks_new(const struct kh_placeholder_key *keys, size_t n_keys, bool digits,
			      struct kh_err *err);
void kh_marks_free(struct kh_marks *marks);

/* A mark that was found, with as much of what is behind it as there was. */
struct kh_mark {
	size_t begin; /* where it stands in the text */
	uint8_t key;  /* index */
	uint8_t class;
	uint8_t len; /* of `behind` */
	char behind[KH_MARK_OWNER_BYTES + KH_MARK_NAME_BYTES];
};
bool kh_mark_is_of(const struct kh_mark *mark, const struct kh_owner_tag *owner);
bool kh_mark_is_named(const struct kh_mark *mark, const struct kh_name_tag *name);

/*
 * The first mark at or after *from, as it is or inside base64; *from goes behind it. Return: false:
 * there is none.
 */
bool kh_marks_find(const struct kh_marks *marks, struct kh_slice text, size_t *from,
		   struct kh_mark *out);

/*
 * Text with its percent escapes and its JSON escapes (\uXXXX, \/) undone, both at once, into `out`
 * (as long as `text` at most). Return: bytes written; 0: there is nothing to undo.
 */
size_t kh_mark_unescape(struct kh_slice text, char *out);

/* ---- in content, which comes in pieces ---- */

enum {
	KH_MARK_SPAN = 64,	  /* more than a core in base64 */
	KH_MARK_NEEDLE_MOST = 16, /* the longest text that is sought */
	KH_MARK_NEEDLE_LEAST = 9,
	/* So many may begin in a span. */
	KH_MARK_PENDING = (KH_MARK_SPAN + KH_MARK_NEEDLE_LEAST - 1) / KH_MARK_NEEDLE_LEAST,
};

/* Zeros to begin with, but for the first two. */
struct kh_mark_scan {
	const struct kh_marks *marks;
	/* A mark is told as soon as it is there, before what is behind it has come: for who lets
	   nothing through that holds one. Else once it is known whose it is. */
	bool eager;
	bool ended;			/* the last piece has come */
	char tail[KH_MARK_NEEDLE_MOST]; /* the last bytes that came */
	uint8_t tail_len;
	/* Marks whose end has not come: from their beginning on. Another one may stand in what is
	   behind the first. */
	uint8_t pending_len[KH_MARK_PENDING];
	char pending[KH_MARK_PENDING][KH_MARK_SPAN];
	/* Behind an escape of what no encoder escapes: the text with all of them undone. */
	bool unescaping;
	uint8_t escape_len;
	uint8_t window_len;
	char escape[6]; /* one that is not whole yet */
	uint16_t plain_run;
	char window[2 * KH_MARK_SPAN];
};

/* Return: false: no more. */
typedef bool kh_mark_fn(const struct kh_mark *mark, void *arg);

/* Tells of each mark; one that is written with escapes may be told twice. Return: false: `fn` said
 * so, or there is one and the scan is eager. */
bool kh_mark_scan_feed(struct kh_mark_scan *scan, struct kh_slice piece, kh_mark_fn *fn, void *arg);
bool kh_mark_scan_end(struct kh_mark_scan *scan, kh_mark_fn *fn, void *arg);

#endif
