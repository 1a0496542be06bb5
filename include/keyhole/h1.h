/* h1.h - HTTP/1.1 (RFC 9112), read strictly and written from what was read */
#ifndef KEYHOLE_H1_H
#define KEYHOLE_H1_H

#include <keyhole/buf.h>
#include <keyhole/err.h>
#include <keyhole/message.h>

/*
 * A push parser: bytes in, events out; no socket, no clock. One side of one connection, message
 * after message (pipelining). Whatever two parsers could read differently is an error, for ever:
 * after KH_H1_ERROR only kh_h1_free is of use.
 *
 * Refused with REQUEST_MALFORMED (requests) or RESPONSE_MALFORMED: bare CR or LF, NUL and other
 * controls, obs-fold, blanks before the colon or around the line's parts, empty names, non-token
 * names and methods, Content-Length with Transfer-Encoding, several Content-Length (equal ones and
 * lists too), a length that is not digits or ≥ 2^63, any Transfer-Encoding but one final `chunked`,
 * Transfer-Encoding in HTTP/1.0, Host absent, twice or empty (requests of HTTP/1.1; in 1.0 it may
 * be absent only with absolute-form), a version other than 1.0 and 1.1 (VERSION_UNSUPPORTED),
 * signs, `0x` or blanks in chunk sizes, more than 16 digits, and each cap of limits.h
 * (URI_TOO_LONG, HEAD_TOO_LARGE).  Expect other than 100-continue: EXPECTATION_FAILED. A status
 * outside 100-599.
 */
struct kh_h1;

enum kh_h1_side { KH_H1_REQUESTS = 1, KH_H1_RESPONSES };

enum kh_h1_event {
	KH_H1_NEED_MORE = 1, /* everything given was consumed */
	KH_H1_HEAD, /* kh_h1_message; for responses also each interim (1xx) one, but 101 is final */
	KH_H1_BODY, /* *body: a piece of content, a view into what was given */
	KH_H1_END, /* the message is complete; trailers are in kh_h1_trailers until the next head */
	KH_H1_ERROR, /* kh_h1_error */
};

struct kh_h1 *kh_h1_new(enum kh_h1_side side);
void kh_h1_free(struct kh_h1 *h1);
/* Responses only, before the head is read: the request's method was HEAD or CONNECT (its framing
 * differs). */
void kh_h1_expect_response_to(struct kh_h1 *h1, struct kh_slice method);
/*
 * Takes bytes from the front of *in (which it shortens) until one event is there. Call again with
 * the rest until NEED_MORE. After the END of a message the rest belongs to the next one.
 */
enum kh_h1_event kh_h1_feed(struct kh_h1 *h1, struct kh_slice *in, struct kh_slice *body);
/* The connection ended. KH_H1_END for a close-delimited body, KH_H1_NEED_MORE between messages
 * (nothing begun), KH_H1_ERROR (incomplete) inside one. */
enum kh_h1_event kh_h1_feed_eof(struct kh_h1 *h1);
const struct kh_message *kh_h1_message(const struct kh_h1 *h1);
const struct kh_field *kh_h1_trailers(const struct kh_h1 *h1, size_t *count);
const struct kh_err *kh_h1_error(const struct kh_h1 *h1);
/* Between two messages, with not a byte of the next one seen. */
bool kh_h1_is_idle(const struct kh_h1 *h1);
/* After a 101 or a CONNECT's 2xx the bytes are no longer HTTP: no event but NEED_MORE is owed any
 * more, and the rest of *in is not touched. Gives back memory that an idle parser holds. */
void kh_h1_release(struct kh_h1 *h1);

/* Writing. All return false as kh_buf_append. */
bool kh_h1_put_request_line(struct kh_buf *out, struct kh_slice method, struct kh_slice target);
bool kh_h1_put_status_line(struct kh_buf *out, uint16_t status, struct kh_slice reason);
bool kh_h1_put_field(struct kh_buf *out, struct kh_slice name, struct kh_slice value);
bool kh_h1_put_end(struct kh_buf *out); /* the empty line */
bool kh_h1_put_chunk_head(struct kh_buf *out,
			  size_t len); /* "1a\r\n"; the data and "\r\n" follow */
bool kh_h1_put_last_chunk(struct kh_buf *out, const struct kh_field *trailers, size_t n);
/* The standard phrase of a status ("Forbidden"), "" for an unknown one. */
const char *kh_h1_reason(uint16_t status);

#endif
