/*
 * h2_drive.h - frames made by hand against the HTTP/2 codec, and what it says written down, so that
 * a test compares one text
 *
 * Sections are written as literals without indexing and without Huffman codes, so that any bytes
 * can stand in them. Everything is fed whole and byte by byte: the events must be the same (content
 * is joined).
 */
#ifndef KEYHOLE_TESTS_H2_DRIVE_H
#define KEYHOLE_TESTS_H2_DRIVE_H

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#include <keyhole/http/h2.h>
#include <keyhole/base/machine.h>

enum {
	DATA = 0,
	HEADERS,
	PRIORITY,
	RST_STREAM,
	SETTINGS,
	PUSH_PROMISE,
	PING,
	GOAWAY,
	WINDOW_UPDATE,
	CONTINUATION
};
enum { END_STREAM = 1, ACK = 1, END_HEADERS = 4, BOTH = 5 };

static const char *const drive_codes[] = {
#define DRIVE_NAME(code, status, token, reason) #code,
	KH_ERR_TABLE(DRIVE_NAME)
#undef DRIVE_NAME
};

/* ---- bytes ---- */

static inline void raw_u32(struct kh_buf *raw, uint32_t value)
{
	for (int shift = 24; shift >= 0; shift -= 8)
		assert_true(kh_buf_append_char(raw, (char)(value >> shift)));
}

static inline void raw_frame(struct kh_buf *raw, uint8_t type, uint8_t flags, uint32_t id,
			     struct kh_slice payload)
{
	assert_true(kh_buf_append_char(raw, (char)(payload.len >> 16)));
	assert_true(kh_buf_append_char(raw, (char)(payload.len >> 8)));
	assert_true(kh_buf_append_char(raw, (char)payload.len));
	assert_true(kh_buf_append_char(raw, (char)type));
	assert_true(kh_buf_append_char(raw, (char)flags));
	raw_u32(raw, id);
	assert_true(kh_buf_append_slice(raw, payload));
}

static inline void raw_frame_u32(struct kh_buf *raw, uint8_t type, uint32_t id, uint32_t value)
{
	char bytes[] = { (char)(value >> 24), (char)(value >> 16), (char)(value >> 8),
			 (char)value };

	raw_frame(raw, type, 0, id, kh_slice_of(bytes, sizeof(bytes)));
}

/* RFC 7541 §5.1 with a prefix of 7 bits. */
static inline void raw_string(struct kh_buf *raw, struct kh_slice s)
{
	size_t len = s.len;

	if (len < 127) {
		kh_buf_append_char(raw, (char)len);
	} else {
		kh_buf_append_char(raw, 127);
		for (len -= 127; len >= 128; len /= 128)
			kh_buf_append_char(raw, (char)(len % 128 + 128));
		kh_buf_append_char(raw, (char)len);
	}
	assert_true(kh_buf_append_slice(raw, s));
}

static inline void raw_field(struct kh_buf *raw, struct kh_slice name, struct kh_slice value)
{
	kh_buf_append_char(raw, 0);
	raw_string(raw, name);
	raw_string(raw, value);
}

/* "name=value|name=value": the first '=' behind the first byte divides. */
static inline void raw_fields(struct kh_buf *raw, struct kh_slice text)
{
	while (text.len > 0) {
		size_t end = kh_slice_find(text, '|', 0);
		struct kh_slice line = kh_slice_sub(text, 0, end);
		size_t equals = kh_slice_find(line, '=', 1);

		raw_field(raw, kh_slice_sub(line, 0, equals),
			  kh_slice_sub(line, equals + 1, line.len));
		text = kh_slice_sub(text, end + 1, text.len);
	}
}

static inline void raw_headers_n(struct kh_buf *raw, uint32_t id, uint8_t flags,
				 struct kh_slice fields)
{
	struct kh_buf block;

	kh_buf_init(&block, 1 << 20);
	raw_fields(&block, fields);
	raw_frame(raw, HEADERS, flags, id, kh_buf_view(&block));
	kh_buf_fini(&block);
}
#define raw_headers(raw, id, flags, fields) raw_headers_n(raw, id, flags, KH_SLICE(fields))

static inline void raw_data(struct kh_buf *raw, uint32_t id, uint8_t flags, const char *bytes)
{
	raw_frame(raw, DATA, flags, id, kh_slice_str(bytes));
}

static inline void raw_begin(struct kh_buf *raw, enum kh_h2_role peer_of)
{
	kh_buf_init(raw, 64 << 20);
	if (peer_of == KH_H2_SERVER)
		kh_buf_append_str(raw, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
	raw_frame(raw, SETTINGS, 0, 0, KH_SLICE(""));
}

/* ---- the codec ---- */

struct drive {
	struct kh_h2 *h2;
	enum kh_h2_role role;
	struct kh_buf log;
	struct kh_buf out;  /* what it writes */
	struct kh_buf sent; /* "RST 1 8\n": of RST_STREAM and GOAWAY in it */
	uint32_t in_body;
	uint64_t now_ms;
	struct kh_h2_stream *last; /* of the last HEAD */
	struct kh_h2_stream *owned[KH_LIMIT_H2_TUNNELS];
	size_t n_owned;
	bool answers; /* each END with 204 */
	bool pauses;  /* each stream at its head */
	void (*also)(struct drive *d, const struct kh_h2_event *event);
	size_t counts[16]; /* events by kind */
	uint64_t faults;   /* of machines, before it */
};

static inline void drive_message(struct drive *d, const struct kh_message *m)
{
	static const char *const framings[] = { "none", "length", "chunked", "close" };

	if (m->method.len > 0) {
		kh_buf_printf(&d->log, " %.*s %.*s at %.*s by %.*s", KH_FMT(m->method),
			      KH_FMT(m->target), KH_FMT(m->host), KH_FMT(m->scheme));
		if (m->protocol.len > 0)
			kh_buf_printf(&d->log, " protocol %.*s", KH_FMT(m->protocol));
	} else {
		kh_buf_printf(&d->log, " %u", m->status);
	}
	kh_buf_printf(&d->log, " %s", framings[m->framing]);
	if (m->has_content_length)
		kh_buf_printf(&d->log, " %llu", (unsigned long long)m->content_length);
	kh_buf_printf(&d->log, "%s%s\n", m->expect_continue ? " expect" : "",
		      m->te_trailers ? " te" : "");
	for (size_t i = 0; i < m->n_fields; i++)
		kh_buf_printf(&d->log, "  %.*s=%.*s\n", KH_FMT(m->fields[i].name),
			      KH_FMT(m->fields[i].value));
}

/* Streams outlive the connection here, until drive_fini. */
static inline void drive_own(struct drive *d, struct kh_h2_stream *stream)
{
	if (d->role == KH_H2_CLIENT || d->answers)
		return;
	assert_true(d->n_owned < sizeof(d->owned) / sizeof(*d->owned));
	d->owned[d->n_owned++] = stream;
}

static inline void drive_on_event(const struct kh_h2_event *event, void *arg)
{
	static const char *const names[] = { "",	 "HEAD",  "REFUSED",  "BODY",
					     "END",	 "RESET", "WRITABLE", "GOAWAY",
					     "SETTINGS", "PONG",  "ERROR" };
	struct drive *d = arg;
	uint32_t id = event->stream ? kh_h2_id(event->stream) : 0;

	d->counts[event->kind]++;
	if (event->kind == KH_H2_SETTINGS || event->kind == KH_H2_WRITABLE) {
		if (d->also)
			d->also(d, event);
		return;
	}
	if (event->kind == KH_H2_BODY && d->in_body == id) {
		kh_buf_append_slice(&d->log, event->body);
	} else {
		if (d->in_body)
			kh_buf_append_str(&d->log, "\n");
		kh_buf_append_str(&d->log, names[event->kind]);
		if (id)
			kh_buf_printf(&d->log, " %u", id);
		if (event->kind == KH_H2_BODY)
			kh_buf_printf(&d->log, " %.*s", KH_FMT(event->body));
	}
	d->in_body = event->kind == KH_H2_BODY ? id : 0;
	if (event->kind == KH_H2_HEAD) {
		drive_message(d, event->message);
		d->last = event->stream;
		drive_own(d, event->stream);
		if (d->pauses)
			kh_h2_pause(event->stream);
	} else if (event->kind == KH_H2_RESET || event->kind == KH_H2_ERROR ||
		   event->kind == KH_H2_REFUSED) {
		if (event->kind == KH_H2_REFUSED)
			drive_own(d, event->stream);
		kh_buf_printf(&d->log, " %s%s\n", drive_codes[event->err->code],
			      event->unprocessed ? " unprocessed" : "");
	} else if (event->kind != KH_H2_BODY) {
		kh_buf_append_str(&d->log, "\n");
	}
	for (size_t i = 0; i < event->n_trailers; i++)
		kh_buf_printf(&d->log, "  %.*s=%.*s\n", KH_FMT(event->trailers[i].name),
			      KH_FMT(event->trailers[i].value));
	if (d->also)
		d->also(d, event);
	if (event->kind == KH_H2_END && d->answers) {
		assert_true(kh_h2_put_response(event->stream, 204, NULL, 0, true));
		kh_h2_release(event->stream);
	} else if (event->kind == KH_H2_RESET && d->answers && kh_h2_message(event->stream)) {
		kh_h2_release(event->stream);
	}
}

static inline void drive_init_for(struct drive *d, enum kh_h2_role role, uint32_t max_streams)
{
	const struct kh_h2_settings settings = { .role = role,
						 .max_streams = max_streams,
						 .stream_window_bytes = 64 * 1024,
						 .connection_window_bytes = 128 * 1024 };

	*d = (struct drive){ .role = role, .now_ms = 1000, .faults = kh_machine_faults() };
	kh_buf_init(&d->log, 1 << 20);
	kh_buf_init_wiping(&d->out, 1 << 20);
	kh_buf_init(&d->sent, 1 << 20);
	d->h2 = kh_h2_new(&settings, drive_on_event, d);
	assert_non_null(d->h2);
}

static inline void drive_init(struct drive *d, enum kh_h2_role role)
{
	drive_init_for(d, role, 100);
}

/* What a test breaks on purpose. */
static inline void drive_faults_are_meant(struct drive *d)
{
	d->faults = kh_machine_faults();
}

static inline void drive_fini(struct drive *d)
{
	/* Whatever was fed, no machine was asked for a step that it does not have. */
	assert_int_equal(kh_machine_faults(), d->faults);
	kh_h2_free(d->h2);
	for (size_t i = 0; i < d->n_owned; i++)
		kh_h2_release(d->owned[i]);
	kh_buf_fini(&d->log);
	kh_buf_fini(&d->out);
	kh_buf_fini(&d->sent);
}

static inline uint32_t drive_u32(const char *p)
{
	const unsigned char *u = (const void *)p;

	return (uint32_t)u[0] << 24 | (uint32_t)u[1] << 16 | (uint32_t)u[2] << 8 | u[3];
}

/* Takes what it writes, and notes what ends streams and the connection. */
static inline void drive_drain(struct drive *d)
{
	enum { PREFACE = 24 };

	(void)kh_h2_drain(d->h2, &d->out);
	struct kh_slice out = kh_buf_view(&d->out);
	if (out.len >= PREFACE && out.ptr[0] == 'P')
		out = kh_slice_sub(out, PREFACE, out.len);
	while (out.len >= 9) {
		uint32_t len = drive_u32(out.ptr) >> 8, id = drive_u32(out.ptr + 5);

		if (out.ptr[3] == RST_STREAM)
			kh_buf_printf(&d->sent, "RST %u %u\n", id, drive_u32(out.ptr + 9));
		else if (out.ptr[3] == GOAWAY)
			kh_buf_printf(&d->sent, "GOAWAY %u\n", drive_u32(out.ptr + 13));
		out = kh_slice_sub(out, 9 + len, out.len);
	}
	kh_buf_consume(&d->out, kh_buf_len(&d->out));
}

/* In pieces of `piece` bytes; 0: whole. */
static inline bool drive_feed(struct drive *d, struct kh_slice in, size_t piece)
{
	bool alive = true;

	while (in.len > 0) {
		size_t len = piece && piece < in.len ? piece : in.len;
		char *copy = malloc(len);

		assert_non_null(copy);
		memcpy(copy, in.ptr, len);
		alive = kh_h2_feed(d->h2, kh_slice_of(copy, len), d->now_ms);
		free(copy);
		drive_drain(d);
		in = kh_slice_sub(in, len, in.len);
	}
	return alive;
}

/* `raw` is freed. */
static inline void drive_check(enum kh_h2_role role, struct kh_buf *raw, const char *log,
			       const char *sent)
{
	for (size_t piece = 0; piece < 2; piece++) {
		struct drive d;

		drive_init(&d, role);
		(void)drive_feed(&d, kh_buf_view(raw), piece);
		drive_drain(&d);
		assert_string_equal(kh_buf_cstr(&d.log), log);
		if (sent)
			assert_string_equal(kh_buf_cstr(&d.sent), sent);
		drive_fini(&d);
	}
	kh_buf_fini(raw);
}

#endif
