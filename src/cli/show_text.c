/*
 * show_text.c - bytes that an agent wrote, for somebody's eyes: nothing moves a cursor or turns
 * text
 *
 * What is read here is looked at before it is taken over, so it must look like what it is: a name
 * that hides a line, or a comment that is shown in another order than it is compiled in, is written
 * out.
 */
#include "show_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <keyhole/base/escape.h>

/* Of the first character of `s`; its length is 0 where the bytes are not UTF-8. */
static uint32_t decode(struct kh_slice s, size_t *len)
{
	uint32_t c = 0;
	*len = kh_utf8_decode((const unsigned char *)s.ptr, s.len, &c);
	return c;
}

static void show(FILE *out, struct kh_slice text, bool is_name)
{
	while (text.len > 0) {
		size_t len;
		uint32_t c = decode(text, &len);
		if (len == 0)
			fprintf(out, "\\x%02x", (unsigned char)text.ptr[0]);
		else if (c == '\t' ? is_name : kh_utf8_is_unseen(c))
			fprintf(out, c < 0x80 ? "\\x%02x" : "\\u{%x}", c);
		else if (is_name && c == '\\')
			fputs("\\\\", out);
		else
			fwrite(text.ptr, 1, len, out);
		text = kh_slice_sub(text, len ? len : 1, text.len);
	}
}

void kh_show_text(FILE *out, struct kh_slice text)
{
	show(out, text, false);
}

/* A space, or what looks like one (Unicode's Zs): more of the line may begin there. */
static bool is_space(uint32_t c)
{
	return c == ' ' || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
	       c == 0x202f || c == 0x205f || c == 0x3000;
}

static bool is_ambiguous(const char *name)
{
	struct kh_slice text = kh_slice_str(name);
	while (text.len > 0) {
		size_t len;
		uint32_t c = decode(text, &len);
		if (len > 0 && (c == '"' || is_space(c)))
			return true;
		text = kh_slice_sub(text, len ? len : 1, text.len);
	}
	return false;
}

void kh_show_name(FILE *out, const char *name)
{
	bool quoted = is_ambiguous(name);
	if (!quoted) {
		show(out, kh_slice_str(name), true);
		return;
	}
	putc('"', out);
	for (const char *at = name; *at;) {
		size_t len = strcspn(at, "\"");
		show(out, kh_slice_of(at, len), true);
		at += len;
		if (*at) {
			fputs("\\\"", out);
			at++;
		}
	}
	putc('"', out);
}
