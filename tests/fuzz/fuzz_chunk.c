/*
 * fuzz_chunk.c - chunked content, held against a second decoder
 *
 * The second one has the whole content before it and follows the grammar from top to bottom, so
 * the two share neither a state nor a table.
 */
#include "h1_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct reader {
	const char *at, *end;
};

static bool take(struct reader *r, char c)
{
	if (r->at == r->end || *r->at != c)
		return false;
	r->at++;
	return true;
}

static bool take_token(struct reader *r)
{
	const char *start = r->at;

	while (r->at < r->end && *r->at != '\0' &&
	       (kh_is_alpha(*r->at) || kh_is_digit(*r->at) || strchr("!#$%&'*+-.^_`|~", *r->at)))
		r->at++;
	return r->at > start;
}

static bool is_text(char c)
{
	return c == '\t' || ((unsigned char)c >= ' ' && c != 0x7f);
}

static bool take_quoted(struct reader *r)
{
	if (!take(r, '"'))
		return false;
	while (!take(r, '"')) {
		take(r, '\\');
		if (r->at == r->end || !is_text(*r->at))
			return false;
		r->at++;
	}
	return true;
}

/* Return: false where the line is wrong or not all there. */
static bool take_size_line(struct reader *r, uint64_t *size, size_t *ext_total)
{
	const char *line = r->at;
	size_t digits = 0;

	*size = 0;
	for (; r->at < r->end && kh_hex_value(*r->at) >= 0; r->at++, digits++) {
		if (digits == 16)
			return false;
		*size = *size * 16 + (uint64_t)kh_hex_value(*r->at);
	}
	const char *ext = r->at;
	while (take(r, ';'))
		if (!take_token(r) || (take(r, '=') && !take_quoted(r) && !take_token(r)))
			return false;
	/* The ';' that begins the extension is counted with the size, the CR behind it is not. */
	*ext_total += (size_t)(r->at - ext);
	return digits > 0 && *size <= INT64_MAX && take(r, '\r') && take(r, '\n') &&
	       r->at - line <= KH_LIMIT_CHUNK_LINE_BYTES && *ext_total <= KH_LIMIT_CHUNK_EXT_BYTES;
}

/* The content of a chunked body that is there as a whole and has no trailers. */
static bool decode(struct kh_slice bytes, struct kh_buf *out, size_t *used)
{
	struct reader r = { bytes.ptr, bytes.ptr + bytes.len };
	size_t ext_total = 0;
	uint64_t size;

	for (;;) {
		if (!take_size_line(&r, &size, &ext_total))
			return false;
		if (size == 0)
			break;
		if ((uint64_t)(r.end - r.at) < size)
			return false;
		CHECK(kh_buf_append(out, r.at, (size_t)size));
		r.at += size;
		if (!take(&r, '\r') || !take(&r, '\n'))
			return false;
	}
	if (!take(&r, '\r') || !take(&r, '\n'))
		return false;
	*used = (size_t)(r.at - bytes.ptr);
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char head[] =
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
	struct kh_slice bytes = kh_slice_of(data, size), in, body;
	struct kh_buf whole, reference, content;
	enum kh_h1_event event;
	size_t used = 0, n_trailers;

	kh_buf_init(&whole, 64 << 20);
	kh_buf_append_str(&whole, head);
	kh_buf_append_slice(&whole, bytes);
	trace_check(KH_H1_REQUESTS, "", kh_buf_view(&whole));

	kh_buf_init(&reference, 64 << 20);
	kh_buf_init(&content, 64 << 20);
	bool good = decode(bytes, &reference, &used);
	struct kh_h1 *h1 = kh_h1_new(KH_H1_REQUESTS);
	CHECK(h1);
	in = kh_buf_view(&whole);
	while ((event = kh_h1_feed(h1, &in, &body)) == KH_H1_HEAD || event == KH_H1_BODY)
		if (event == KH_H1_BODY)
			kh_buf_append_slice(&content, body);
	(void)kh_h1_trailers(h1, &n_trailers);
	if (event == KH_H1_END && n_trailers == 0) {
		CHECK(good && size - in.len == used);
		CHECK(kh_slice_eq(kh_buf_view(&content), kh_buf_view(&reference)));
	} else {
		CHECK(!good);
	}
	kh_h1_free(h1);
	kh_buf_fini(&whole);
	kh_buf_fini(&reference);
	kh_buf_fini(&content);
	return 0;
}
