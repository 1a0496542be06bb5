/* path.h - the normal form of paths, in which a request's path is compared with a rule's */
#ifndef KEYHOLE_BASE_PATH_H
#define KEYHOLE_BASE_PATH_H

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>

/*
 * Appends the normal form of a path (without query): escapes of unreserved characters (RFC 3986
 * §2.3) are decoded; every other escape stays, with upper-case hex. So %2F and %5C stay different
 * from '/'.
 *
 * Refused: a path that does not begin with '/'; a backslash; a control byte, plain or escaped, once
 * or twice; an escape that is not '%' and two hex digits; any byte that RFC 3986 does not allow; a
 * path that is escaped over and over. Also a dot segment in any form: plain or escaped; between %2F
 * or %5C; with parameters ("..;x"); after further decoding ("%252e%252e"); in overlong or
 * full-width dots.
 *
 * The normal form is never longer than `raw`. A rule's path passes here unchanged: this function
 * treats '*' like any other character. Return: false with KH_ERR_REQUEST_MALFORMED
 * (KH_ERR_NO_MEMORY over the cap) and `out` unchanged.
 */
bool kh_path_normalise(struct kh_slice raw, struct kh_buf *out, struct kh_err *err);

/* Writes why a byte of a path or a query (`where` is the word) is refused, and how to escape it.
 * Return: `out`. */
enum { KH_MISPLACED_BYTES = 80 };
const char *kh_path_misplaced(char out[KH_MISPLACED_BYTES], char c, const char *where);

/*
 * The reading of a server that decodes %2F (and %5C, which some servers take for a slash): appends
 * the normal form with '/' for these. If it has neither, *differs is false and nothing is appended.
 * `normal` may be a view of `out`; take views of `out` only afterwards, since the append may move
 * it. Return: false over the cap or without memory.
 */
bool kh_path_slashed(struct kh_slice normal, struct kh_buf *out, bool *differs);

/*
 * The reading of a server that decodes more than it should (spelling.h): every escape is undone,
 * nested ones too; overlong and full-width forms become their ASCII characters; the result is in
 * normal form, with '/' for every slash. Otherwise as above.
 */
bool kh_path_decoded(struct kh_slice normal, struct kh_buf *out, bool *differs);

/*
 * The readings of a server that decodes a path before it splits off the query: the path ends at an
 * escaped '?' or '#' (in any spelling), and a query follows. Views; each different path once.
 */
enum { KH_PATH_CUTS = 6 }; /* three readings, each up to its first '?' or its first '#' */
struct kh_path_cuts {
	size_t n;
	struct kh_path_cut {
		struct kh_slice path, query;
	} list[KH_PATH_CUTS];
	struct kh_slice query; /* what follows the first '?' or '#': kh_path_cut_query */
};

/* Appends what follows the first escaped '?' or '#' of a normal form, with every escape undone, and
 * '&' for each further one. If there is none, *cut is false and nothing is appended. Otherwise as
 * above. */
bool kh_path_cut_query(struct kh_slice normal, struct kh_buf *out, bool *cut);
/* Adds the cuts of one reading of the path, a view that must outlive `cuts`. */
void kh_path_cuts_add(struct kh_path_cuts *cuts, struct kh_slice path);

/*
 * All readings that some server may have of a path: the normal form, its other readings (ptr NULL:
 * there is none), and the cuts of each (NULL: none). A check of a path must ask about each reading,
 * with this one iterator, so that none is left out.
 */
struct kh_path_readings {
	struct kh_slice path, slashed, decoded;
	const struct kh_path_cuts *cuts;
};
/* The next reading; *at is 0 at first. The normal form always comes, even if it is empty. Return:
 * false: there are no more. */
bool kh_path_readings_next(const struct kh_path_readings *readings, size_t *at,
			   struct kh_slice *out);

#endif
