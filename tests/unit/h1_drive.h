/*
 * h1_drive.h - runs the HTTP/1.1 codec over bytes, however they are cut, and writes down what it
 * says, so that a test compares one text
 *
 * Each piece lies in memory of its own, exactly as large as it is: the sanitizer sees a read past
 * its end. Content is joined, since its pieces follow the cuts; everything else must be the same.
 */
#ifndef KEYHOLE_TESTS_H1_DRIVE_H
#define KEYHOLE_TESTS_H1_DRIVE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include <keyhole/http/h1.h>

static const char *const drive_codes[] = {
#define DRIVE_NAME(code, status, token, reason) #code,
	KH_ERR_TABLE(DRIVE_NAME)
#undef DRIVE_NAME
};

struct drive {
	struct kh_h1 *h1;
	struct kh_buf log;
	bool in_body;
	bool over; /* ERROR or RAW: nothing more is asked */
};

static inline void drive_head(struct drive *d, const struct kh_message *m)
{
	static const char *const framings[] = { "none", "length", "chunked", "close" };
	bool request = m->method.len > 0;

	if (request)
		kh_buf_printf(&d->log, "HEAD %.*s %.*s 1.%u", KH_FMT(m->method), KH_FMT(m->target),
			      m->minor);
	else
		kh_buf_printf(&d->log, "HEAD %u '%.*s' 1.%u", m->status, KH_FMT(m->reason),
			      m->minor);
	kh_buf_printf(&d->log, " %s", framings[m->framing]);
	if (m->has_content_length)
		kh_buf_printf(&d->log, " %llu", (unsigned long long)m->content_length);
	kh_buf_printf(&d->log, "%s%s%s\n", m->keep_alive ? " keep" : "",
		      m->expect_continue ? " expect" : "", m->upgrade ? " upgrade" : "");
	for (size_t i = 0; i < m->n_fields; i++)
		kh_buf_printf(&d->log, "  %.*s=%.*s\n", KH_FMT(m->fields[i].name),
			      KH_FMT(m->fields[i].value));
}

static inline void drive_event(struct drive *d, enum kh_h1_event event, struct kh_slice body)
{
	size_t n;
	const struct kh_field *trailers;

	if (event == KH_H1_BODY) {
		assert_true(body.len > 0);
		if (!d->in_body)
			kh_buf_append_str(&d->log, "BODY ");
		d->in_body = true;
		kh_buf_append_slice(&d->log, body);
		return;
	}
	if (d->in_body && event != KH_H1_NEED_MORE) {
		kh_buf_append_str(&d->log, "\n");
		d->in_body = false;
	}
	switch (event) {
	case KH_H1_HEAD:
		drive_head(d, kh_h1_message(d->h1));
		break;
	case KH_H1_END:
		trailers = kh_h1_trailers(d->h1, &n);
		kh_buf_append_str(&d->log, "END\n");
		for (size_t i = 0; i < n; i++)
			kh_buf_printf(&d->log, "  %.*s=%.*s\n", KH_FMT(trailers[i].name),
				      KH_FMT(trailers[i].value));
		break;
	case KH_H1_ERROR:
		assert_non_null(kh_h1_error(d->h1));
		assert_true(kh_h1_error(d->h1)->text[0] != '\0');
		kh_buf_printf(&d->log, "ERROR %s\n", drive_codes[kh_h1_error(d->h1)->code]);
		d->over = true;
		break;
	case KH_H1_NEED_MORE:
	case KH_H1_BODY:
		break;
	}
}

/* One piece, in memory of its own. */
static inline void drive_piece(struct drive *d, const char *bytes, size_t len)
{
	char *copy = malloc(len);
	struct kh_slice in = { copy, len }, body = { NULL, 0 };
	enum kh_h1_event event;

	assert_non_null(copy);
	memcpy(copy, bytes, len);
	do {
		event = kh_h1_feed(d->h1, &in, &body);
		assert_true(in.len <= len);
		drive_event(d, event, body);
	} while (event != KH_H1_NEED_MORE && event != KH_H1_ERROR);
	if (event == KH_H1_NEED_MORE && in.len > 0) {
		kh_buf_append_str(&d->log, "RAW\n");
		d->over = true;
	}
	free(copy);
}

/* seed 0: all at once; 1: byte by byte; else pieces of random length. With `eof` the connection
 * then ends. Return: the log, on the heap. */
static inline char *drive_run(enum kh_h1_side side, const char *method, struct kh_slice bytes,
			      unsigned seed, bool eof)
{
	struct drive d = { .h1 = kh_h1_new(side) };
	uint32_t random = seed * 2654435761u;

	assert_non_null(d.h1);
	kh_buf_init(&d.log, 16 << 20);
	if (method)
		kh_h1_expect_response_to(d.h1, kh_slice_str(method));
	for (size_t at = 0; at < bytes.len && !d.over;) {
		size_t len = bytes.len;

		random = random * 1664525u + 1013904223u;
		if (seed == 1)
			len = 1;
		else if (seed > 1)
			len = 1 + (random >> 16) % (seed % 2 ? 7 : 64);
		if (len > bytes.len - at)
			len = bytes.len - at;
		drive_piece(&d, bytes.ptr + at, len);
		at += len;
	}
	if (eof && !d.over) {
		enum kh_h1_event event = kh_h1_feed_eof(d.h1);

		drive_event(&d, event, KH_SLICE(""));
	}
	if (d.in_body)
		kh_buf_append_str(&d.log, "\n");
	char *text = kh_slice_dup(kh_buf_view(&d.log));
	assert_non_null(text);
	kh_buf_fini(&d.log);
	kh_h1_free(d.h1);
	return text;
}

enum { DRIVE_SPLITS = 24 };

/* The same log for any split. */
static inline void drive_expect(enum kh_h1_side side, const char *method, struct kh_slice bytes,
				bool eof, const char *expected)
{
	for (unsigned seed = 0; seed < DRIVE_SPLITS; seed++) {
		char *log = drive_run(side, method, bytes, seed, eof);

		assert_string_equal(log, expected);
		free(log);
	}
}

/* Refused with this code for any split, and nothing more than the heads and contents before. */
static inline void drive_refused(enum kh_h1_side side, const char *method, struct kh_slice bytes,
				 enum kh_err_code code)
{
	char last[64];
	char *first = drive_run(side, method, bytes, 0, false);
	size_t len;

	snprintf(last, sizeof(last), "ERROR %s\n", drive_codes[code]);
	len = strlen(last);
	if (strlen(first) < len || strcmp(first + strlen(first) - len, last) != 0)
		fail_msg("wanted %s for\n%.*s\ngot\n%s", last, KH_FMT(bytes), first);
	drive_expect(side, method, bytes, false, first);
	free(first);
}

#endif
