/* json_scan.h - a streaming JSON scanner, strict by RFC 8259 */
#ifndef KEYHOLE_BASE_JSON_SCAN_H
#define KEYHOLE_BASE_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <keyhole/base/limits.h>
#include <keyhole/base/slice.h>

/*
 * The content goes on to a server that reads it with another parser, and parsers differ in what
 * they accept beyond the standard. So this one accepts nothing beyond it: one value in UTF-8 (RFC
 * 3629), no comments, no NaN, no unpaired surrogate in a name. It needs constant memory and linear
 * time and does not recurse: each open object or array is one bit.
 */

enum kh_json_kind { KH_JSON_OBJECT, KH_JSON_ARRAY, KH_JSON_TEXT, KH_JSON_OTHER };

struct kh_json_scan;

/* Callbacks, in the order of the content. If one returns false, the scan ends, and *why (a literal)
 * says why. */
struct kh_json_events {
	/* A value begins; `depth` objects and arrays are open around it. Its name, if it has one,
	 * came before. */
	bool (*value)(struct kh_json_scan *scan, void *arg, enum kh_json_kind kind,
		      const char **why);
	/* An object or array ends; `depth` does not count it any more. May be NULL. */
	void (*close)(struct kh_json_scan *scan, void *arg);
	/* A name begins. */
	void (*name)(struct kh_json_scan *scan, void *arg);
	/* A character of a name or string, if `value` or `name` set `wanted` for it. `escaped`: it
	 * was written as an escape. */
	void (*character)(struct kh_json_scan *scan, void *arg, uint32_t c, bool escaped);
	/* A name, or a string value, ends. */
	bool (*end)(struct kh_json_scan *scan, void *arg, bool name, const char **why);
};

struct kh_json_scan {
	const struct kh_json_events *events;
	bool wanted; /* report the characters of the current string */
	bool halves;
	unsigned depth; /* open objects and arrays, up to KH_LIMIT_JSON_DEPTH */
	uint64_t objects[KH_LIMIT_JSON_DEPTH / 64]; /* a bit for each: it is an object */
	/* json_scan.c's own */
	int state;
	bool in_name; /* the current string is a name */
	unsigned hex_left;
	uint32_t unit, high;		   /* of \u; a high surrogate that waits for its low one */
	unsigned utf8_left;		   /* bytes of the current character still to come */
	unsigned char utf8_low, utf8_high; /* bounds of the next one */
	uint32_t code;
	const char *word; /* the rest of true, false or null */
};

/* `halves`: an unpaired surrogate is accepted in a string value, as programs write it that cut
 * strings. There is nothing to free. */
void kh_json_scan_init(struct kh_json_scan *scan, const struct kh_json_events *events, bool halves);
/* Return: false with *why; nothing more may be scanned then. */
bool kh_json_scan_byte(struct kh_json_scan *scan, unsigned char c, void *arg, const char **why);
/* How many bytes at the beginning of `rest` the caller may skip: plain bytes inside a string that
 * is not `wanted`. */
size_t kh_json_scan_plain(const struct kh_json_scan *scan, struct kh_slice rest);
/* The content ends. Return: false with *why: the value is not complete. */
bool kh_json_scan_end(const struct kh_json_scan *scan, const char **why);

static inline bool kh_json_scan_in_object(const struct kh_json_scan *scan)
{
	return scan->depth > 0 &&
	       (scan->objects[(scan->depth - 1) / 64] >> (scan->depth - 1) % 64 & 1);
}

#endif
