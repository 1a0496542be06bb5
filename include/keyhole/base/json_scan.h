/* json_scan.h - JSON as it comes, byte by byte, held against RFC 8259 and nothing looser */
#ifndef KEYHOLE_BASE_JSON_SCAN_H
#define KEYHOLE_BASE_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <keyhole/base/limits.h>
#include <keyhole/base/slice.h>

/*
 * The content goes on to a server that reads it with a parser of its own, and parsers differ in
 * what they take beyond the standard. So this one takes nothing beyond it: one value in UTF-8 (RFC
 * 3629), no comments, no NaN, no half of a surrogate pair in a name. Constant memory, linear work,
 * no recursion: what is open is a bit each (object or array).
 */

enum kh_json_kind { KH_JSON_OBJECT, KH_JSON_ARRAY, KH_JSON_TEXT, KH_JSON_OTHER };

struct kh_json_scan;

/* What is found, in order. False: the scan ends there, and *why says why (a literal). */
struct kh_json_events {
	/* A value begins, in `depth` open ones; its name, if it has one, came before it. */
	bool (*value)(struct kh_json_scan *scan, void *arg, enum kh_json_kind kind,
		      const char **why);
	/* An object or array ends, and does not count in `depth` any more. NULL: not told. */
	void (*close)(struct kh_json_scan *scan, void *arg);
	/* A name begins. */
	void (*name)(struct kh_json_scan *scan, void *arg);
	/* A character of a name or a text, if one of the two above set `wanted` for it. */
	void (*character)(struct kh_json_scan *scan, void *arg, uint32_t c, bool escaped);
	/* The name, or the text, ends. */
	bool (*end)(struct kh_json_scan *scan, void *arg, bool name, const char **why);
};

struct kh_json_scan {
	const struct kh_json_events *events;
	bool wanted; /* are the characters of the string that is read? */
	bool halves;
	unsigned depth;				    /* of what is open, up to KH_LIMIT_JSON_DEPTH */
	uint64_t objects[KH_LIMIT_JSON_DEPTH / 64]; /* which of it is one */
	/* json_scan.c's own */
	int state;
	bool in_name; /* the string that is read is one */
	unsigned hex_left;
	uint32_t unit, high;		   /* of \u; a surrogate that awaits its other half */
	unsigned utf8_left;		   /* bytes of a character */
	unsigned char utf8_low, utf8_high; /* what the next one may be */
	uint32_t code;
	const char *word; /* what is left of true, false, null */
};

/* `halves`: half of a surrogate pair may stand in a text, as many write what they cut. Nothing is
 * to be freed. */
void kh_json_scan_init(struct kh_json_scan *scan, const struct kh_json_events *events, bool halves);
/* Return: false with *why, and nothing more may be scanned. */
bool kh_json_scan_byte(struct kh_json_scan *scan, unsigned char c, void *arg, const char **why);
/* How many bytes at the beginning of `rest` need no look each: plain ones of a string that goes on
 * and is not wanted. */
size_t kh_json_scan_plain(const struct kh_json_scan *scan, struct kh_slice rest);
/* Nothing more comes. Return: false with *why: the value is not whole. */
bool kh_json_scan_end(const struct kh_json_scan *scan, const char **why);

static inline bool kh_json_scan_in_object(const struct kh_json_scan *scan)
{
	return scan->depth > 0 &&
	       (scan->objects[(scan->depth - 1) / 64] >> (scan->depth - 1) % 64 & 1);
}

#endif
