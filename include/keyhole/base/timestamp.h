/* timestamp.h - points in time that somebody else wrote, read strictly */
#ifndef KEYHOLE_BASE_TIMESTAMP_H
#define KEYHOLE_BASE_TIMESTAMP_H

#include <stdbool.h>
#include <stdint.h>

#include <keyhole/base/slice.h>

enum kh_timestamp_form {
	KH_TIMESTAMP_RFC3339, /* "2026-01-02T03:04:05.678Z", the fraction optional; or an offset */
	KH_TIMESTAMP_LOOSE,   /* the same as tools print it: also a blank in place of the T,
				 "+0100", and no offset at all, which is UTC */
	KH_TIMESTAMP_HTTP,    /* "Sun, 06 Nov 1994 08:49:37 GMT": IMF-fixdate, RFC 9110 5.6.7 */
	KH_TIMESTAMP_BASIC,   /* "20260102T030405Z": ISO 8601 as Signature Version 4 has it */
};

/*
 * Milliseconds since the epoch; a fraction of a second is cut off. The text is the time and nothing
 * else, of the years 1970 to 9999, on a day that the calendar has; a 60th second is the next
 * minute's first. No locale and no time zone file are asked. Return: false: it is none.
 */
bool kh_timestamp_read(struct kh_slice text, enum kh_timestamp_form form, uint64_t *ms);

#endif
