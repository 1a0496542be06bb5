/* escape.h - the one escaper that bytes of a sandbox or an upstream pass before they are shown */
#ifndef KEYHOLE_BASE_ESCAPE_H
#define KEYHOLE_BASE_ESCAPE_H

#include <keyhole/base/buf.h>

/*
 * Printable ASCII stays; a backslash, a quote, every control byte, DEL and every byte ≥ 0x80 become
 * \\ \" or \xHH, so that nothing moves a terminal's cursor, ends a line or forges one. At most
 * KH_ESC_MAX_BYTES of output; a longer text ends in "...".
 * Return: one of eight buffers of the calling thread, in turn; for log and error texts only.
 */
enum { KH_ESC_MAX_BYTES = 256 };
const char *kh_esc(struct kh_slice s);
const char *kh_esc_str(const char *str);
/* The last check of a finished line of our own, in place: what kh_utf8_is_unseen and bytes that are
 * not UTF-8 become '?'. */
void kh_esc_clean(char *text);
/* The end of a text that found no room for its rest becomes "...": no half of a character or of an
 * escape is before it. Shorter than that, it stays. */
void kh_esc_mark_cut(char *text);

/*
 * Appends `s` as a JSON string with its quotes. Valid UTF-8 stays as it is, but for quote,
 * backslash and what kh_utf8_is_unseen (written \u00XX and the like, above U+FFFF as a surrogate
 * pair); a byte that is not part of valid UTF-8 becomes U+FFFD. Return: false as kh_buf_append.
 */
bool kh_json_string(struct kh_buf *buf, struct kh_slice s);

/*
 * One code point of UTF-8 (RFC 3629 §4: no overlong form, no surrogate, nothing past U+10FFFF).
 * `len` is at least 1. Return: how many bytes it takes, 0 when s[0] does not begin one.
 */
size_t kh_utf8_decode(const unsigned char *s, size_t len, uint32_t *out);
/* Is it a control, a mark that turns the direction of text or ends a line, or a character that
 * shows nothing, so that text with it does not look like what it is? */
bool kh_utf8_is_unseen(uint32_t cp);

#endif
