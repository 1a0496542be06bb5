/* path.h - the one normal form in which request paths and rule paths meet */
#ifndef KEYHOLE_BASE_PATH_H
#define KEYHOLE_BASE_PATH_H

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>

/*
 * Appends the normal form of a path (without query): escapes of unreserved characters (RFC 3986
 * §2.3) decoded, the hex of every other escape in upper case, %2F and %5C kept apart from '/'.
 * Refused: a path that does not begin with '/'; a dot segment, plain or encoded, also one that
 * %2F or %5C would make, that carries parameters ("..;x"), or that further decodings would bring
 * out ("%252e%252e"; nor may a path be encoded over and over), or that is spelled in overlong or
 * full-width dots; a backslash; a control byte, plain or encoded, also twice; an escape that is not
 * '%' and two hex digits; any byte outside of RFC 3986's. The normal form is never longer than
 * `raw`. A rule's path passes here as it is: '*' is a character like any other to this function.
 * Return: false with KH_ERR_REQUEST_MALFORMED (KH_ERR_NO_MEMORY over the cap), `out` unchanged.
 */
bool kh_path_normalise(struct kh_slice raw, struct kh_buf *out, struct kh_err *err);

/* Why a byte of a path or a query (`where`) is refused, and how to write it. Return: `out`. */
enum { KH_MISPLACED_BYTES = 80 };
const char *kh_path_misplaced(char out[KH_MISPLACED_BYTES], char c, const char *where);

/*
 * The other reading of a normal form: %2F (and %5C, which some servers take for one) as '/'.
 * *differs is false, and nothing is appended, where there is neither. An append may move the
 * buffer: take views into it afterwards.
 * Return: false over the cap or without memory.
 */
bool kh_path_slashed(struct kh_slice normal, struct kh_buf *out, bool *differs);

/*
 * The reading of a server that decodes further than it should (spelling.h): every escape undone as
 * often as it is there, overlong and full-width forms as their ASCII characters, and all that comes
 * of it in normal form, with '/' for every slash. As above otherwise.
 */
bool kh_path_decoded(struct kh_slice normal, struct kh_buf *out, bool *differs);

/*
 * What a server makes of a path if it decodes that before it takes the query off: the path ends at
 * an escaped '?' or '#' (in any spelling), and what follows is a query. Views, each path once.
 */
enum { KH_PATH_CUTS = 6 }; /* three readings, each up to its first '?' or its first '#' */
struct kh_path_cuts {
	size_t n;
	struct kh_path_cut {
		struct kh_slice path, query;
	} list[KH_PATH_CUTS];
	struct kh_slice query; /* all that follows the first mark, decoded: kh_path_cut_query */
};

/* Appends what follows the first mark in a normal form, with every escape undone, and '&' for each
 * further mark. *cut is false, and nothing is appended, where there is no mark. As above otherwise.
 */
bool kh_path_cut_query(struct kh_slice normal, struct kh_buf *out, bool *cut);
/* Adds where one reading of the path may be cut. */
void kh_path_cuts_add(struct kh_path_cuts *cuts, struct kh_slice path);

/*
 * All that some server may read in a path: the normal form, its other readings (ptr NULL: there is
 * none), and where each of them may be cut (NULL: nowhere). Who asks something of a path asks it of
 * each reading, by the one iterator, so that none is left out.
 */
struct kh_path_readings {
	struct kh_slice path, slashed, decoded;
	const struct kh_path_cuts *cuts;
};
/* The next one; *at is 0 to begin with. The normal form is always one of them, also where it is
 * empty. Return: false: there is no other. */
bool kh_path_readings_next(const struct kh_path_readings *readings, size_t *at,
			   struct kh_slice *out);

#endif
