/*
 * show_text.c - bytes that an agent wrote, for somebody's eyes: nothing moves a cursor or turns
 * text
 *
 * What is read here is looked at before it is taken over, so it must look like what it is: a name
 * that hides a line, or a comment that is shown in another order than it is compiled in, is written
 * out. Lines of files have a place of their own, so that none looks like a line of keyhole's.
 */
#include "show_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <keyhole/base/escape.h>

/* Of the first character of `s`; its length is 0 where the bytes are not UTF-8. */
static uint32_t decode(struct kh_slice s, size_t *len)
{
	uint32_t c = 0;
	*len = kh_utf8_decode((const unsigned char *)s.ptr, s.len, &c);
	return c;
}

static bool is_written_out(uint32_t c, size_t len, bool is_name)
{
	return len == 0 || (c == '\t' ? is_name : kh_utf8_is_unseen(c));
}

/* A backslash of its own is told from ours. */
static void show(FILE *out, struct kh_slice text, bool is_name)
{
	while (text.len > 0) {
		size_t len;
		uint32_t c = decode(text, &len);
		if (len == 0)
			fprintf(out, "\\x%02x", (unsigned char)text.ptr[0]);
		else if (is_written_out(c, len, is_name))
			fprintf(out, c < 0x80 ? "\\x%02x" : "\\u{%x}", c);
		else if (c == '\\')
			fputs("\\\\", out);
		else
			fwrite(text.ptr, 1, len, out);
		text = kh_slice_sub(text, len ? len : 1, text.len);
	}
}

static bool is_plain(struct kh_slice text)
{
	while (text.len > 0) {
		size_t len;
		uint32_t c = decode(text, &len);
		if (is_written_out(c, len, false))
			return false;
		text = kh_slice_sub(text, len, text.len);
	}
	return true;
}

/* ---- rows ---- */

enum { NARROW = 16, USUAL = 80, TABULATOR = 8 };
static const char onward[] = "\n > ";

/* Of the terminal; 0: it is none. */
static size_t columns(FILE *out)
{
	struct winsize size;
	int fd = fileno(out);
	if (!isatty(fd))
		return 0;
	if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
		return USUAL;
	return size.ws_col < NARROW ? NARROW : size.ws_col;
}

/* Not less than a terminal takes for it. */
static size_t column_after(size_t column, uint32_t c)
{
	return c == '\t' ? (column / TABULATOR + 1) * TABULATOR : column + (c < 0x80 ? 1 : 2);
}

static void fold(FILE *out, struct kh_slice text, size_t width)
{
	for (size_t column = 0; text.len > 0;) {
		size_t len;
		uint32_t c = decode(text, &len);
		size_t after = column_after(column, c);
		if (after > width) {
			fputs(onward, out);
			column = sizeof(onward) - 2;
			after = column_after(column, c);
		}
		column = after;
		len = len ? len : 1;
		fwrite(text.ptr, 1, len, out);
		text = kh_slice_sub(text, len, text.len);
	}
}

FILE *kh_row_open(struct kh_row *row, FILE *out)
{
	*row = (struct kh_row){ .out = out };
	if (columns(out) > 0)
		row->file = open_memstream(&row->text, &row->len);
	return row->file ? row->file : out;
}

void kh_row_close(struct kh_row *row)
{
	if (row->file && fclose(row->file) == 0)
		fold(row->out, kh_slice_of(row->text, row->len), columns(row->out));
	putc('\n', row->out);
	free(row->text);
}

void kh_show_line(FILE *out, struct kh_slice line)
{
	struct kh_row row;
	FILE *to = kh_row_open(&row, out);
	if (is_plain(line)) {
		fputs("   ", to);
		fwrite(line.ptr, 1, line.len, to);
	} else {
		fputs(" ! ", to);
		show(to, line, false);
	}
	kh_row_close(&row);
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
