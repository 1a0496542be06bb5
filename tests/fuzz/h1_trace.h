/*
 * h1_trace.h - what the codec says about some bytes, written down so that two readings can be
 * compared, and the same messages written out again
 */
#ifndef KEYHOLE_FUZZ_H1_TRACE_H
#define KEYHOLE_FUZZ_H1_TRACE_H

#include <stdlib.h>

#include <keyhole/http/h1.h>

#define CHECK(condition) \
	do { \
		if (!(condition)) \
			abort(); \
	} while (0)

struct trace {
	struct kh_buf log;   /* every event; content joined, the error's code last */
	struct kh_buf copy;  /* the messages as we would send them on */
	size_t before_error; /* log without the error */
	bool old_version;    /* a message of HTTP/1.0, which is never written as it was */
	bool in_body;
	bool over;
};

static inline void trace_init(struct trace *t)
{
	*t = (struct trace){ 0 };
	kh_buf_init(&t->log, 64 << 20);
	kh_buf_init(&t->copy, 64 << 20);
}

static inline void trace_fini(struct trace *t)
{
	kh_buf_fini(&t->log);
	kh_buf_fini(&t->copy);
}

static inline void trace_field(struct trace *t, const struct kh_field *field)
{
	kh_buf_append_slice(&t->log, field->name);
	kh_buf_append_str(&t->log, "=");
	kh_buf_append_slice(&t->log, field->value);
	kh_buf_append_str(&t->log, "\n");
}

static inline void trace_head(struct trace *t, const struct kh_message *m, enum kh_h1_side side)
{
	CHECK(m->n_fields <= KH_LIMIT_FIELDS);
	if (side == KH_H1_REQUESTS) {
		CHECK(m->method.len > 0 && m->target.len > 0);
		kh_buf_append_str(&t->log, "HEAD ");
		kh_buf_append_slice(&t->log, m->method);
		kh_buf_append_str(&t->log, " ");
		kh_buf_append_slice(&t->log, m->target);
		CHECK(kh_h1_put_request_line(&t->copy, m->method, m->target));
	} else {
		CHECK(m->status >= 100 && m->status <= 599);
		kh_buf_printf(&t->log, "HEAD %u ", m->status);
		kh_buf_append_slice(&t->log, m->reason);
		CHECK(kh_h1_put_status_line(&t->copy, m->status, m->reason));
	}
	kh_buf_printf(&t->log, " %d %d %llu %d%d%d%d host ", m->minor, (int)m->framing,
		      (unsigned long long)m->content_length, m->has_content_length, m->keep_alive,
		      m->expect_continue, m->upgrade);
	kh_buf_append_slice(&t->log, m->host);
	kh_buf_append_str(&t->log, "\n");
	for (size_t i = 0; i < m->n_fields; i++) {
		trace_field(t, &m->fields[i]);
		CHECK(kh_h1_put_field(&t->copy, m->fields[i].name, m->fields[i].value));
		(void)kh_message_is_hop_field(m, &m->fields[i]);
	}
	CHECK(kh_h1_put_end(&t->copy));
	t->old_version |= m->minor == 0;
	/* What no message may be, whatever its fields were. */
	CHECK(m->framing != KH_FRAMING_CHUNKED || (m->minor == 1 && !m->has_content_length));
	CHECK(m->framing != KH_FRAMING_CLOSE || (side == KH_H1_RESPONSES && !m->keep_alive));
	CHECK(m->content_length <= INT64_MAX);
}

static inline void trace_event(struct trace *t, const struct kh_h1 *h1, enum kh_h1_side side,
			       enum kh_h1_event event, struct kh_slice body)
{
	const struct kh_message *m = kh_h1_message(h1);
	const struct kh_field *trailers;
	size_t n;

	if (t->in_body && event != KH_H1_BODY && event != KH_H1_NEED_MORE) {
		kh_buf_append_str(&t->log, "\n");
		t->in_body = false;
	}
	switch (event) {
	case KH_H1_HEAD:
		trace_head(t, m, side);
		break;
	case KH_H1_BODY:
		CHECK(body.len > 0);
		if (!t->in_body)
			kh_buf_append_str(&t->log, "BODY ");
		t->in_body = true;
		kh_buf_append_slice(&t->log, body);
		if (m->framing == KH_FRAMING_CHUNKED)
			CHECK(kh_h1_put_chunk_head(&t->copy, body.len));
		kh_buf_append_slice(&t->copy, body);
		if (m->framing == KH_FRAMING_CHUNKED)
			kh_buf_append_str(&t->copy, "\r\n");
		break;
	case KH_H1_END:
		trailers = kh_h1_trailers(h1, &n);
		kh_buf_append_str(&t->log, "END\n");
		for (size_t i = 0; i < n; i++)
			trace_field(t, &trailers[i]);
		if (m->framing == KH_FRAMING_CHUNKED)
			CHECK(kh_h1_put_last_chunk(&t->copy, trailers, n));
		break;
	case KH_H1_ERROR:
		CHECK(kh_h1_error(h1) && kh_h1_error(h1)->code != KH_ERR_NONE);
		t->before_error = kh_buf_len(&t->log);
		kh_buf_printf(&t->log, "ERROR %d\n", (int)kh_h1_error(h1)->code);
		t->over = true;
		break;
	case KH_H1_NEED_MORE:
		break;
	}
}

/* In a block of its own, so that one byte too far is seen. */
static inline void trace_piece(struct trace *t, struct kh_h1 *h1, enum kh_h1_side side,
			       const char *bytes, size_t len)
{
	char *copy = malloc(len);
	struct kh_slice in = { copy, len }, body = { NULL, 0 };
	enum kh_h1_event event;

	CHECK(copy);
	memcpy(copy, bytes, len);
	do {
		event = kh_h1_feed(h1, &in, &body);
		CHECK(event != KH_H1_BODY ||
		      (body.ptr >= copy && body.ptr + body.len <= copy + len));
		trace_event(t, h1, side, event, body);
	} while (event != KH_H1_NEED_MORE && event != KH_H1_ERROR);
	t->over |= in.len > 0;
	free(copy);
}

/* `seed` 0: all at once; else cut at random, often byte by byte. */
static inline void trace_run(struct trace *t, enum kh_h1_side side, const char *method,
			     struct kh_slice bytes, uint32_t seed)
{
	struct kh_h1 *h1 = kh_h1_new(side);
	uint32_t random = seed;

	CHECK(h1);
	trace_init(t);
	kh_h1_expect_response_to(h1, kh_slice_str(method));
	for (size_t at = 0; at < bytes.len && !t->over;) {
		size_t len = bytes.len - at;

		random = random * 1664525u + 1013904223u;
		size_t most = (random >> 8) % 4 ? (random >> 16) % 40 + 1 : 1;
		if (seed && len > most)
			len = most;
		trace_piece(t, h1, side, bytes.ptr + at, len);
		at += len;
	}
	if (t->in_body)
		kh_buf_append_str(&t->log, "\n");
	t->in_body = false;
	if (!kh_h1_error(h1))
		t->before_error = kh_buf_len(&t->log);
	kh_h1_free(h1);
}

/* Any cut gives the same events, and what we would send on is read as what we read. */
static inline void trace_check(enum kh_h1_side side, const char *method, struct kh_slice bytes)
{
	struct trace whole, cut, again;
	uint32_t seed = 1;

	for (size_t i = 0; i < bytes.len; i++)
		seed = (seed ^ (unsigned char)bytes.ptr[i]) * 16777619u;
	trace_run(&whole, side, method, bytes, 0);
	trace_run(&cut, side, method, bytes, seed | 1);
	CHECK(kh_slice_eq(kh_buf_view(&whole.log), kh_buf_view(&cut.log)));
	if (!whole.old_version) {
		trace_run(&again, side, method, kh_buf_view(&whole.copy), 0);
		CHECK(kh_slice_eq(kh_slice_sub(kh_buf_view(&whole.log), 0, whole.before_error),
				  kh_buf_view(&again.log)));
		trace_fini(&again);
	}
	trace_fini(&whole);
	trace_fini(&cut);
}

#endif
