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

/* Of the first character of `s`; its length is 0 where the bytes are not UTF-8. */
static uint32_t decode(struct kh_slice s, size_t *len)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *p = (const unsigned char *)s.ptr;
	size_t n = p[0] < 0x80	 ? 1
		   : p[0] < 0xc2 ? 0
		   : p[0] < 0xe0 ? 2
		   : p[0] < 0xf0 ? 3
		   : p[0] < 0xf5 ? 4
				 : 0;
	*len = 0;
	if (n == 0 || n > s.len)
		return 0;
	uint32_t c = n == 1 ? p[0] : p[0] & (0x7fU >> n);
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3fU);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*len = n;
	return c;
}

/* Controls, marks of direction, and what is not seen (Unicode's Cc, Cf and line ends). */
static bool is_hidden(uint32_t c)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = {
		{ 0, 0x1f },	    { 0x7f, 0x9f },	  { 0xad, 0xad },	{ 0x34f, 0x34f },
		{ 0x61c, 0x61c },   { 0x115f, 0x1160 },	  { 0x17b4, 0x17b5 },	{ 0x180b, 0x180f },
		{ 0x200b, 0x200f }, { 0x2028, 0x202e },	  { 0x2060, 0x206f },	{ 0x3164, 0x3164 },
		{ 0xfe00, 0xfe0f }, { 0xfeff, 0xfeff },	  { 0xffa0, 0xffa0 },	{ 0xfff0, 0xfffb },
		{ 0xfffe, 0xffff }, { 0x1d173, 0x1d17a }, { 0xe0000, 0xe0fff },
	};
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
		if (c >= ranges[i].first && c <= ranges[i].last)
			return true;
	return false;
}

static void show(FILE *out, struct kh_slice text, bool is_name)
{
	while (text.len > 0) {
		size_t len;
		uint32_t c = decode(text, &len);
		if (len == 0)
			fprintf(out, "\\x%02x", (unsigned char)text.ptr[0]);
		else if (c == '\t' ? is_name : is_hidden(c))
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
