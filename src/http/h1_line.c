/* h1_line.c - collects the lines of a head or a trailer section in the codec's own memory */
#include "h1_internal.h"

#include <stdlib.h>

#include <keyhole/base/block.h>

#include "chars.h"

enum { FIRST_BYTES = 1024 };

static bool text_grow(struct kh_h1_text *text, size_t need, struct kh_field *fields,
		      size_t n_fields)
{
	size_t alloc = text->alloc ? text->alloc : FIRST_BYTES;

	while (alloc < need)
		alloc *= 2;
	char *data = kh_block_get(&alloc);
	if (!data)
		return false;
	if (text->len > 0)
		memcpy(data, text->data, text->len);
	for (size_t i = 0; i < n_fields; i++) {
		fields[i].name.ptr = data + (fields[i].name.ptr - text->data);
		fields[i].value.ptr = data + (fields[i].value.ptr - text->data);
	}
	kh_block_give(text->data);
	text->data = data;
	text->alloc = alloc;
	return true;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

enum kh_h1_line kh_h1_line_read(struct kh_h1_text *text, struct kh_slice *in, size_t line_cap,
				size_t total_cap, struct kh_field *fields, size_t n_fields)
{
	while (in->len > 0) {
		size_t room = total_cap - text->len;
		size_t take;
		bool done = false, cr = false;

		if (room == 0)
			return KH_H1_LINE_TOTAL;
		if (text->cr) {
			if (in->ptr[0] != '\n')
				return KH_H1_LINE_BAD;
			take = 1;
			done = true;
		} else {
			size_t most = least(room, line_cap - (text->len - text->line));

			most = least(most, in->len);
			take = kh_chars_clean_run(in->ptr, most);
			/* Not at the end of what was given, nor of all lines: then the next byte
			 * ends the line, or is one too many, or should not be there. */
			if (take < in->len && take < room) {
				if (in->ptr[take] != '\r')
					return take == most && kh_is_clean(in->ptr[take])
						       ? KH_H1_LINE_LONG
						       : KH_H1_LINE_BAD;
				take++;
				cr = true;
				if (take < in->len && take < room && in->ptr[take] == '\n') {
					take++;
					done = true;
				}
			}
		}
		if (text->len + take > text->alloc &&
		    !text_grow(text, text->len + take, fields, n_fields))
			return KH_H1_LINE_NO_MEMORY;
		memcpy(text->data + text->len, in->ptr, take);
		text->len += take;
		in->ptr += take;
		in->len -= take;
		text->cr = cr && !done;
		if (done)
			return KH_H1_LINE_DONE;
	}
	return KH_H1_LINE_MORE;
}

struct kh_slice kh_h1_line_take(struct kh_h1_text *text)
{
	struct kh_slice line = { text->data + text->line, text->len - text->line - 2 };

	text->line = text->len;
	return line;
}

void kh_h1_text_reset(struct kh_h1_text *text)
{
	text->len = 0;
	text->line = 0;
	text->cr = false;
}

void kh_h1_text_fini(struct kh_h1_text *text)
{
	kh_block_give(text->data);
	*text = (struct kh_h1_text){ 0 };
}
