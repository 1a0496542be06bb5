/*
 * show_text.c - prints bytes that an agent wrote, without control characters or invisible marks
 *
 * People review this text before they apply changes, so it must look like what it is: characters
 * that hide a line or reorder text (bidirectional controls) are escaped. Lines of files have a
 * column of their own, so that none looks like a line of keyhole's output.
 */
#include "show_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/screen.h>

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

/* What an agent left in the terminal would hide or forge what is shown; once is enough. */
static void reset_screen(FILE *out)
{
	static bool done;
	if (!done) {
		struct kh_slice text = kh_screen_reset_text(fileno(out));
		fwrite(text.ptr, 1, text.len, out);
	}
	done = true;
}

static void put_bytes(void *arg, const char *bytes, size_t len)
{
	fwrite(bytes, 1, len, arg);
}

FILE *kh_row_open(struct kh_row *row, FILE *out)
{
	*row = (struct kh_row){ .out = out };
	if (kh_screen_columns(fileno(out)) == 0)
		return out;
	reset_screen(out);
	row->file = open_memstream(&row->text, &row->len);
	return row->file ? row->file : out;
}

void kh_row_close(struct kh_row *row)
{
	if (row->file && fclose(row->file) == 0)
		kh_screen_fold(kh_slice_of(row->text, row->len),
			       kh_screen_columns(fileno(row->out)), put_bytes, row->out);
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
