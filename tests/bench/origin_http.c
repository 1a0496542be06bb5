/* origin_http.c - requests, read as far as a mock must, and answers */
#include "origin.h"

bool origin_numbers(struct kh_slice path, struct kh_slice prefix, uint64_t *a, uint64_t *b)
{
	size_t slash;

	if (!kh_slice_has_prefix(path, prefix))
		return false;
	path = kh_slice_sub(path, prefix.len, kh_slice_find(path, '?', 0));
	slash = kh_slice_find(path, '/', 0);
	*b = 0;
	return kh_slice_to_u64(kh_slice_sub(path, 0, slash), a) &&
	       (slash >= path.len || kh_slice_to_u64(kh_slice_sub(path, slash + 1, path.len), b));
}

static bool put_head(struct conn *c, const char *status, const char *type, uint64_t length)
{
	return kh_buf_printf(
		&c->out, "HTTP/1.1 %s\r\ncontent-type: %s\r\ncontent-length: %" PRIu64 "\r\n\r\n",
		status, type, length);
}

static bool put_stream_head(struct conn *c, const char *type)
{
	return kh_buf_printf(&c->out,
			     "HTTP/1.1 200 OK\r\ncontent-type: %s\r\n"
			     "transfer-encoding: chunked\r\n\r\n",
			     type);
}

static bool put_text(struct conn *c, const char *status, const char *text)
{
	return put_head(c, status, "application/json", strlen(text)) &&
	       kh_buf_append_str(&c->out, text);
}

/* The whole request is there: begin its answer. */
static bool answer(struct conn *c)
{
	char text[96];

	c->in_request = false;
	switch (c->answer) {
	case ANSWER_ECHO:
		c->answer = ANSWER_NONE;
		return put_head(c, "200 OK", "application/octet-stream", kh_buf_len(&c->content)) &&
		       kh_buf_append_slice(&c->out, kh_buf_view(&c->content));
	case ANSWER_SINK:
		c->answer = ANSWER_NONE;
		snprintf(text, sizeof(text), "{\"bytes\":%" PRIu64 "}\n", c->body_bytes);
		return put_text(c, "200 OK", text);
	case ANSWER_BYTES:
		return put_head(c, "200 OK", "application/octet-stream", c->left);
	case ANSWER_CHUNKS:
		return put_stream_head(c, "application/octet-stream");
	case ANSWER_SSE:
		return put_stream_head(c, "text/event-stream");
	case ANSWER_NONE:
		break;
	}
	return true;
}

static bool route(struct conn *c, struct kh_slice path)
{
	struct origin *o = c->origin;
	char text[96];

	if (kh_slice_has_prefix(path, KH_SLICE("/echo")))
		c->answer = ANSWER_ECHO;
	else if (kh_slice_has_prefix(path, KH_SLICE("/sink")))
		c->answer = ANSWER_SINK;
	else if (origin_numbers(path, KH_SLICE("/bytes/"), &c->left, &c->size))
		c->answer = ANSWER_BYTES;
	else if (origin_numbers(path, KH_SLICE("/chunks/"), &c->left, &c->size) &&
		 c->size <= READ_BYTES && c->size > 0)
		c->answer = ANSWER_CHUNKS;
	else if (origin_numbers(path, KH_SLICE("/sse/"), &c->left, &c->step_ms))
		c->answer = ANSWER_SSE;
	else if (kh_slice_has_prefix(path, KH_SLICE("/count"))) {
		snprintf(text, sizeof(text),
			 "{\"requests\":%" PRIu64 ",\"connections\":%" PRIu64 "}\n", o->requests,
			 o->connections);
		return put_text(c, "200 OK", text);
	} else {
		return put_text(c, "404 Not Found", "{}\n");
	}
	c->next_ms = kh_clock_mono_ms();
	if (c->answer == ANSWER_SSE)
		c->size = c->left;
	return true;
}

void origin_log(const struct origin *o, struct kh_slice id, struct kh_slice method,
		struct kh_slice path)
{
	if (!o->log)
		return;
	fprintf(o->log, "%.*s %.*s %.*s\n", KH_FMT(id), KH_FMT(method), KH_FMT(path));
	(void)fflush(o->log);
}

static bool begin(struct conn *c, struct kh_slice head)
{
	struct kh_slice line = kh_slice_sub(head, 0, kh_slice_find(head, '\r', 0)), path, length;
	size_t space = kh_slice_find(line, ' ', 0);

	c->origin->requests++;
	line = kh_slice_sub(line, 0, kh_slice_find(line, ' ', space + 1));
	path = kh_slice_sub(line, space + 1, line.len);
	origin_log(c->origin, bench_field(head, KH_SLICE("x-id")), kh_slice_sub(line, 0, space),
		   path);
	c->close = kh_slice_eq_nocase(bench_field(head, KH_SLICE("connection")), KH_SLICE("close"));
	c->body = BODY_NONE;
	c->body_left = c->body_bytes = 0;
	kh_buf_clear(&c->content);
	length = bench_field(head, KH_SLICE("content-length"));
	if (length.len > 0) {
		if (!kh_slice_to_u64(length, &c->body_left))
			return false;
		c->body = c->body_left > 0 ? BODY_LENGTH : BODY_NONE;
	} else if (bench_field(head, KH_SLICE("transfer-encoding")).len > 0) {
		c->body = BODY_CHUNK_SIZE;
	}
	if (bench_field(head, KH_SLICE("upgrade")).len > 0)
		return origin_switch(c, bench_field(head, KH_SLICE("sec-websocket-key")));
	c->in_request = true;
	if (kh_slice_eq_nocase(bench_field(head, KH_SLICE("expect")), KH_SLICE("100-continue")) &&
	    !kh_buf_append_str(&c->out, "HTTP/1.1 100 Continue\r\n\r\n"))
		return false;
	return route(c, path);
}

/* Takes a line with its CRLF off `in`. Return: false when it is not whole. */
static bool take_line(struct conn *c, struct kh_slice *line)
{
	struct kh_slice in = kh_buf_view(&c->in);
	size_t newline = kh_slice_find(in, '\n', 0);

	if (newline == in.len)
		return false;
	*line = kh_slice_sub(in, 0, newline > 0 ? newline - 1 : 0);
	kh_buf_consume(&c->in, newline + 1);
	return true;
}

static bool chunk_size(struct kh_slice line, uint64_t *size)
{
	*size = 0;
	if (line.len == 0 || line.len > 8)
		return false;
	for (size_t i = 0; i < line.len; i++) {
		if (kh_hex_value(line.ptr[i]) < 0)
			return false;
		*size = *size << 4 | (uint64_t)kh_hex_value(line.ptr[i]);
	}
	return true;
}

static bool take_content(struct conn *c)
{
	struct kh_slice in = kh_buf_view(&c->in);

	in.len = in.len < c->body_left ? in.len : (size_t)c->body_left;
	c->body_left -= in.len;
	c->body_bytes += in.len;
	if (c->answer == ANSWER_ECHO && !kh_buf_append_slice(&c->content, in))
		return false;
	kh_buf_consume(&c->in, in.len);
	if (c->body_left == 0)
		c->body = c->body == BODY_CHUNK ? BODY_CHUNK_END : BODY_NONE;
	return true;
}

bool origin_step(struct conn *c, bool *ok)
{
	struct kh_slice in = kh_buf_view(&c->in), line;
	const char *end;

	if (c->h2)
		return origin_h2_step(c, ok);
	if (c->switched)
		return origin_frames(c, ok);
	if (!c->in_request) {
		end = memmem(in.ptr, in.len, "\r\n\r\n", 4);
		if (!end)
			return false;
		*ok = begin(c, kh_slice_of(in.ptr, (size_t)(end - in.ptr) + 4));
		kh_buf_consume(&c->in, (size_t)(end - in.ptr) + 4);
	} else if (c->body == BODY_LENGTH || c->body == BODY_CHUNK) {
		if (in.len == 0)
			return false;
		*ok = take_content(c);
	} else if (c->body != BODY_NONE) {
		if (!take_line(c, &line))
			return false;
		if (c->body == BODY_CHUNK_SIZE) {
			*ok = chunk_size(line, &c->body_left);
			c->body = c->body_left > 0 ? BODY_CHUNK : BODY_TRAILER;
		} else if (c->body == BODY_CHUNK_END) {
			c->body = BODY_CHUNK_SIZE;
		} else if (line.len == 0) {
			c->body = BODY_NONE;
		}
	}
	if (*ok && c->in_request && c->body == BODY_NONE)
		*ok = answer(c);
	return *ok;
}

/* --- answers that are made as they are taken --- */

static bool make_event(struct conn *c)
{
	char event[96];
	int n = snprintf(event, sizeof(event), "data: {\"n\":%" PRIu64 ",\"us\":%" PRIu64 "}\n\n",
			 c->size - c->left, kh_clock_mono_us());

	c->next_ms += c->step_ms;
	return kh_buf_printf(&c->out, "%x\r\n%s\r\n", (unsigned)n, event);
}

static bool make_piece(struct conn *c)
{
	size_t len;

	switch (c->answer) {
	case ANSWER_BYTES:
		len = c->left < READ_BYTES ? (size_t)c->left : READ_BYTES;
		c->left -= len;
		return kh_buf_append(&c->out, c->origin->filler, len);
	case ANSWER_CHUNKS:
		c->left--;
		return kh_buf_printf(&c->out, "%x\r\n", (unsigned)c->size) &&
		       kh_buf_append(&c->out, c->origin->filler, (size_t)c->size) &&
		       kh_buf_append_str(&c->out, "\r\n");
	case ANSWER_SSE:
		c->left--;
		return make_event(c);
	case ANSWER_NONE:
	case ANSWER_ECHO:
	case ANSWER_SINK:
		break;
	}
	return true;
}

bool origin_make(struct conn *c, bool *waits)
{
	if (c->h2)
		return origin_h2_make(c);
	while (!c->in_request && c->answer != ANSWER_NONE && kh_buf_len(&c->out) < AHEAD_BYTES) {
		if (c->left > 0 && c->answer == ANSWER_SSE && kh_clock_mono_ms() < c->next_ms) {
			*waits = true;
			return true;
		}
		if (c->left > 0) {
			if (!make_piece(c))
				return false;
			continue;
		}
		if (c->answer != ANSWER_BYTES && !kh_buf_append_str(&c->out, "0\r\n\r\n"))
			return false;
		c->answer = ANSWER_NONE;
	}
	return true;
}
