/* timestamp.h - a strict parser of timestamps that others wrote */
#ifndef KEYHOLE_BASE_TIMESTAMP_H
#define KEYHOLE_BASE_TIMESTAMP_H

#include <stdbool.h>
#include <stdint.h>

#include <keyhole/base/slice.h>

enum kh_timestamp_form {
	KH_TIMESTAMP_RFC3339, /* "2026-01-02T03:04:05.678Z": the fraction is optional; an offset may
				 replace the Z */
	KH_TIMESTAMP_LOOSE,   /* the same as tools print it: also a blank instead of the T, "+0100",
				 or no offset, which means UTC */
	KH_TIMESTAMP_HTTP,    /* "Sun, 06 Nov 1994 08:49:37 GMT": IMF-fixdate, RFC 9110 5.6.7 */
	KH_TIMESTAMP_BASIC,   /* "20260102T030405Z": ISO 8601 as Signature Version 4 has it */
};

/*
 * *ms: milliseconds since the epoch; a fraction of a second is dropped. The text must be a
 * timestamp and nothing else, of the years 1970 to 9999, on a day that exists. A 60th second is the
 * first second of the next minute. No locale and no time zone file is used. Return: false: it is no
 * timestamp of this form.
 */
bool kh_timestamp_read(struct kh_slice text, enum kh_timestamp_form form, uint64_t *ms);

#endif
