/*
 * h1_chunk.c - chunk-size lines and the trailer section (RFC 9112 §7.1)
 *
 * The size is 1 to 16 hex digits and nothing else. An extension is parsed by its grammar (quoted
 * strings too, so that a line end in one can't hide) and dropped, as an intermediary may do. The
 * "bad whitespace" that §7.1.1 asks recipients to accept is refused, since parsers differ about it.
 */
#include "h1_internal.h"

#include <stdlib.h>

#include "chars.h"
#include "message_internal.h"

static const char bad_size[] = "a chunk size is not a bare hex number below 2^63";
static const char bad_ext[] = "a chunk extension is malformed";

/* Behind an element of the extension: the next one, or the line's end. */
static bool after_element(struct kh_h1 *h1, char c)
{
	if (c == ';')
		h1->chunk = KH_H1_C_NAME;
	else if (c == '\r')
		h1->chunk = KH_H1_C_LF;
	else
		return false;
	return true;
}

/* `h1->left` counts the size; `chunk_digits` also says whether an element has begun. */
static const char *size_byte(struct kh_h1 *h1, char c)
{
	int digit = kh_hex_value(c);

	if (digit < 0) {
		if (h1->chunk_digits == 0 || !after_element(h1, c))
			return bad_size;
		h1->chunk_digits = 0;
		return NULL;
	}
	if (h1->chunk_digits == 0)
		h1->left = 0;
	if (h1->chunk_digits == 16)
		return bad_size;
	h1->chunk_digits++;
	h1->left = h1->left << 4 | (uint64_t)digit;
	return h1->left > INT64_MAX ? bad_size : NULL;
}

static const char *ext_byte(struct kh_h1 *h1, char c)
{
	bool begun = h1->chunk_digits > 0;

	if (++h1->ext_bytes > KH_LIMIT_CHUNK_EXT_BYTES)
		return "the chunk extensions are too long";
	switch (h1->chunk) {
	case KH_H1_C_NAME:
	case KH_H1_C_TOKEN:
		if (kh_is_tchar(c)) {
			h1->chunk_digits = 1;
			return NULL;
		}
		h1->chunk_digits = 0;
		if (begun && c == '=' && h1->chunk == KH_H1_C_NAME) {
			h1->chunk = KH_H1_C_VALUE;
			return NULL;
		}
		return begun && after_element(h1, c) ? NULL : bad_ext;
	case KH_H1_C_VALUE:
		h1->chunk = c == '"' ? KH_H1_C_QUOTED : KH_H1_C_TOKEN;
		h1->chunk_digits = 1;
		return c == '"' || kh_is_tchar(c) ? NULL : bad_ext;
	case KH_H1_C_QUOTED:
		if (c == '"')
			h1->chunk = KH_H1_C_QUOTED_END;
		else if (c == '\\')
			h1->chunk = KH_H1_C_ESCAPED;
		return kh_is_clean(c) ? NULL : bad_ext;
	case KH_H1_C_ESCAPED:
		h1->chunk = KH_H1_C_QUOTED;
		return kh_is_clean(c) ? NULL : bad_ext;
	case KH_H1_C_QUOTED_END:
		h1->chunk_digits = 0;
		return after_element(h1, c) ? NULL : bad_ext;
	case KH_H1_C_SIZE:
	case KH_H1_C_LF:
		break;
	}
	return bad_ext;
}

enum kh_h1_event kh_h1_chunk_line(struct kh_h1 *h1, struct kh_slice *in)
{
	for (size_t i = 0; i < in->len; i++) {
		char c = in->ptr[i];
		const char *wrong;

		if (++h1->chunk_line_bytes > KH_LIMIT_CHUNK_LINE_BYTES)
			return kh_h1_malformed(h1, "a chunk-size line is too long");
		if (h1->chunk == KH_H1_C_LF) {
			if (c != '\n')
				return kh_h1_malformed(h1, "a CR without LF after a chunk size");
			*in = kh_slice_sub(*in, i + 1, in->len);
			h1->chunk = KH_H1_C_SIZE;
			h1->chunk_line_bytes = 0;
			kh_h1_enter(h1, h1->left > 0 ? KH_H1_S_CHUNK_DATA : KH_H1_S_TRAILERS);
			return KH_H1_GO_ON;
		}
		wrong = h1->chunk == KH_H1_C_SIZE ? size_byte(h1, c) : ext_byte(h1, c);
		if (wrong)
			return kh_h1_malformed(h1, wrong);
	}
	in->ptr += in->len;
	in->len = 0;
	return KH_H1_NEED_MORE;
}

static enum kh_h1_event trailer_field(struct kh_h1 *h1, struct kh_slice line)
{
	struct kh_h1_work *work = h1->work;
	struct kh_field field;

	if (work->n_trailers == KH_LIMIT_FIELDS)
		return kh_h1_too_large(h1, "there are too many trailers");
	const char *wrong = kh_h1_head_field(line, &field);
	if (wrong)
		return kh_h1_malformed(h1, wrong);
	if (kh_message_is_no_trailer(field.name))
		return kh_h1_malformed(h1, "the trailers have a field that must not be there");
	if (!work->trailers) {
		/* All at once: a message with trailers is rare, and may have the memory. */
		work->trailers = calloc(KH_LIMIT_FIELDS, sizeof(*work->trailers));
		if (!work->trailers)
			return kh_h1_no_memory(h1);
	}
	work->trailers[work->n_trailers++] = field;
	return KH_H1_GO_ON;
}

enum kh_h1_event kh_h1_chunk_trailers(struct kh_h1 *h1, struct kh_slice *in)
{
	struct kh_h1_work *work = h1->work;

	switch (kh_h1_line_read(&work->trailer_text, in, KH_LIMIT_FIELD_BYTES,
				KH_LIMIT_TRAILER_BYTES, work->trailers, work->n_trailers)) {
	case KH_H1_LINE_MORE:
		return KH_H1_NEED_MORE;
	case KH_H1_LINE_DONE:
		break;
	case KH_H1_LINE_BAD:
		return kh_h1_malformed(h1,
				       "a trailer contains a control byte, or a CR or LF alone");
	case KH_H1_LINE_LONG:
	case KH_H1_LINE_TOTAL:
		return kh_h1_too_large(h1, "the trailers are too long");
	case KH_H1_LINE_NO_MEMORY:
		return kh_h1_no_memory(h1);
	}

	struct kh_slice line = kh_h1_line_take(&work->trailer_text);
	if (line.len > 0)
		return trailer_field(h1, line);
	kh_h1_enter(h1, KH_H1_S_END);
	return KH_H1_GO_ON;
}
