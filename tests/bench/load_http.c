/* load_http.c - responses, as far as a load generator must understand them */
#include "load.h"

enum { HEAD_BYTES = 64 * 1024 };

/* Return: 1 the response has no content, 0 go on, -1 it is none. */
static int begin(struct load_response *r, struct kh_slice head)
{
	struct kh_slice length = bench_field(head, KH_SLICE("content-length"));
	uint64_t status;

	if (!kh_slice_has_prefix(head, KH_SLICE("HTTP/1.1 ")) ||
	    !kh_slice_to_u64(kh_slice_sub(head, 9, 12), &status) || status < 100 ||
	    status >= STATUSES)
		return -1;
	if (status < 200)
		return 0;
	r->status = (unsigned)status;
	r->keep = !kh_slice_eq_nocase(bench_field(head, KH_SLICE("connection")), KH_SLICE("close"));
	if (bench_field(head, KH_SLICE("transfer-encoding")).len > 0) {
		r->body = BODY_CHUNK_SIZE;
		return 0;
	}
	if (length.len == 0)
		return status == 204 || status == 304 ? 1 : -1;
	if (!kh_slice_to_u64(length, &r->left))
		return -1;
	r->body = BODY_LENGTH;
	return r->left == 0;
}

/* How late the events of an origin are that writes its clock into them. */
static void take_events(struct load *load, struct load_response *r, struct kh_slice bytes)
{
	for (size_t i = 0; i < bytes.len; i++) {
		struct kh_slice line = { r->line, r->line_len };
		const char *us;
		uint64_t then;

		if (bytes.ptr[i] != '\n') {
			if (r->line_len < sizeof(r->line))
				r->line[r->line_len++] = bytes.ptr[i];
			continue;
		}
		us = memmem(line.ptr, line.len, "\"us\":", 5);
		r->line_len = 0;
		if (!us)
			continue;
		line = kh_slice_sub(line, (size_t)(us - line.ptr) + 5, line.len);
		if (kh_slice_to_u64(kh_slice_sub(line, 0, kh_slice_find(line, '}', 0)), &then))
			bench_add(&load->event_times, kh_clock_mono_us() - then);
	}
}

static bool take_content(struct load *load, struct load_response *r, struct kh_buf *in)
{
	struct kh_slice bytes = kh_buf_view(in);

	bytes.len = bytes.len < r->left ? bytes.len : (size_t)r->left;
	if (load->events)
		take_events(load, r, bytes);
	load->bytes += bytes.len;
	r->left -= bytes.len;
	kh_buf_consume(in, bytes.len);
	return r->left == 0;
}

static bool take_line(struct kh_buf *in, struct kh_slice *line)
{
	struct kh_slice bytes = kh_buf_view(in);
	size_t newline = kh_slice_find(bytes, '\n', 0);

	if (newline == bytes.len)
		return false;
	*line = kh_slice_sub(bytes, 0, newline > 0 ? newline - 1 : 0);
	kh_buf_consume(in, newline + 1);
	return true;
}

static bool chunk_size(struct kh_slice line, uint64_t *size)
{
	*size = 0;
	line = kh_slice_sub(line, 0, kh_slice_find(line, ';', 0));
	if (line.len == 0 || line.len > 8)
		return false;
	for (size_t i = 0; i < line.len; i++) {
		if (kh_hex_value(line.ptr[i]) < 0)
			return false;
		*size = *size << 4 | (uint64_t)kh_hex_value(line.ptr[i]);
	}
	return true;
}

/* A line of the chunked coding. Return: as load_response_take, and 2: go on. */
static int take_chunk_line(struct load_response *r, struct kh_buf *in)
{
	struct kh_slice line;

	if (!take_line(in, &line))
		return kh_buf_len(in) > READ_BYTES ? -1 : 0;
	if (r->body == BODY_CHUNK_SIZE) {
		if (!chunk_size(line, &r->left))
			return -1;
		r->body = r->left > 0 ? BODY_CHUNK : BODY_TRAILER;
		return 2;
	}
	if (r->body == BODY_CHUNK_END) {
		r->body = BODY_CHUNK_SIZE;
		return line.len == 0 ? 2 : -1;
	}
	return line.len == 0 ? 1 : 2;
}

static int take_head(struct load_response *r, struct kh_buf *in)
{
	struct kh_slice bytes = kh_buf_view(in);
	const char *end = memmem(bytes.ptr, bytes.len, "\r\n\r\n", 4);
	int status;

	if (!end)
		return bytes.len > HEAD_BYTES ? -1 : 0;
	bytes.len = (size_t)(end - bytes.ptr) + 4;
	status = begin(r, bytes);
	kh_buf_consume(in, bytes.len);
	return status == 0 ? 2 : status;
}

int load_response_take(struct load *load, struct load_response *r, struct kh_buf *in)
{
	for (;;) {
		int status = 2;

		switch (r->body) {
		case BODY_HEAD:
			status = take_head(r, in);
			break;
		case BODY_LENGTH:
			return take_content(load, r, in);
		case BODY_CHUNK:
			if (!take_content(load, r, in))
				return 0;
			r->body = BODY_CHUNK_END;
			break;
		case BODY_CHUNK_SIZE:
		case BODY_CHUNK_END:
		case BODY_TRAILER:
			status = take_chunk_line(r, in);
			break;
		}
		if (status != 2)
			return status;
	}
}
