/* escape.h - the one escaper for bytes of a sandbox or an upstream before a person sees them */
#ifndef KEYHOLE_BASE_ESCAPE_H
#define KEYHOLE_BASE_ESCAPE_H

#include <keyhole/base/buf.h>

/*
 * Printable ASCII stays. A backslash, a quote, every control byte, DEL and every byte ≥ 0x80 become
 * \\ \" or \xHH, so that nothing moves a terminal's cursor, ends a line or forges one. The output
 * has at most KH_ESC_MAX_BYTES bytes; a longer one is cut and ends in "...". Return: one of eight
 * buffers per thread, used in turn: valid for the next seven calls. For log and error texts only.
 */
enum { KH_ESC_MAX_BYTES = 256 };
const char *kh_esc(struct kh_slice s);
const char *kh_esc_str(const char *str);
/*
 * The same as one word of a command that a person may paste into a shell: in single quotes, and a
 * single quote in it as '\'', unless all of its bytes are plain. Whatever the text holds, a shell
 * runs none of it. Return: one of four buffers per thread, used in turn.
 */
const char *kh_esc_word(const char *str);
/* The last check of a finished line of ours, in place: bytes that are not UTF-8, and characters for
 * which kh_utf8_is_unseen is true, become '?'. */
void kh_esc_clean(char *text);
/* Marks a text that was cut: its last characters become "...", without half a character or half an
 * escape before them. A text shorter than the mark stays. */
void kh_esc_mark_cut(char *text);

/*
 * Appends `s` as a JSON string with its quotes. Valid UTF-8 stays as it is, except quotes,
 * backslashes, and characters for which kh_utf8_is_unseen is true: these are escaped (\" \\ \n \r
 * \t, else \uXXXX, above U+FFFF as a surrogate pair). A byte that is not part of valid UTF-8
 * becomes U+FFFD. Return: false as kh_buf_append.
 */
bool kh_json_string(struct kh_buf *buf, struct kh_slice s);

/*
 * Decodes one code point of UTF-8 (RFC 3629 §4: no overlong form, no surrogate, nothing above
 * U+10FFFF). `len` is at least 1. Return: how many bytes it takes; 0: no valid sequence begins at
 * s[0].
 */
size_t kh_utf8_decode(const unsigned char *s, size_t len, uint32_t *out);
/* Would text with this character look like other text: is it a control character, a mark that
 * changes the direction of text or ends a line, or a character that shows nothing? */
bool kh_utf8_is_unseen(uint32_t cp);

#endif
