/* chars.h - which bytes are allowed where (RFC 9110 §5.5, §5.6.2) */
#ifndef KEYHOLE_HTTP_CHARS_H
#define KEYHOLE_HTTP_CHARS_H

#include <keyhole/base/slice.h>

extern const uint8_t kh_chars_tchar[256];

static inline bool kh_is_tchar(char c)
{
	return kh_chars_tchar[(unsigned char)c] != 0;
}

/* What a field value, a reason phrase or a quoted string may hold: HTAB, SP, visible ASCII and
 * obs-text. */
static inline bool kh_is_clean(char c)
{
	unsigned char u = (unsigned char)c;

	return (u >= 0x20 && u != 0x7f) || u == '\t';
}

/* Not empty, and nothing but tchar. */
bool kh_chars_are_token(struct kh_slice s);
/* How many of the first `len` bytes are clean before the first that is not. */
size_t kh_chars_clean_run(const char *bytes, size_t len);

#endif
