/* h1.h - HTTP/1.1 (RFC 9112), read strictly and written from what was read */
#ifndef KEYHOLE_HTTP_H1_H
#define KEYHOLE_HTTP_H1_H

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>
#include <keyhole/http/message.h>

/*
 * A push parser: bytes in, events out; no socket, no clock. One side of one connection, message
 * after message (pipelining). Whatever two parsers could read differently is an error, for ever:
 * after KH_H1_ERROR only kh_h1_error and kh_h1_free are of use. The events depend on the bytes and
 * never on how they were cut; only content comes in other pieces.
 *
 * Refused with REQUEST_MALFORMED (requests) or RESPONSE_MALFORMED: bare CR or LF, NUL and other
 * controls, obs-fold, blanks before the colon or around the line's parts, empty names, non-token
 * names and methods, Content-Length with Transfer-Encoding, several Content-Length (equal ones and
 * lists too), a length that is not digits (at most 19) or ≥ 2^63, any Transfer-Encoding but one
 * final `chunked`, Transfer-Encoding in HTTP/1.0, content that CONNECT, 1xx or 204 announce, Host
 * absent, twice or empty (requests of HTTP/1.1; in 1.0 it may be absent with absolute-form and
 * CONNECT only), signs, `0x` or blanks in chunk sizes, more than 16 digits, an extension that is
 * not by the grammar, a trailer that may not be one, a Connection option that names a field on
 * which decisions rest, a status outside 100-599, too many interim responses or connection options.
 * A version other than 1.0 and 1.1: VERSION_UNSUPPORTED (in a response RESPONSE_MALFORMED). The
 * caps of limits.h: REQUEST_URI_TOO_LONG, REQUEST_HEAD_TOO_LARGE, RESPONSE_HEAD_TOO_LARGE. Expect
 * other than 100-continue: EXPECTATION_FAILED. docs/http.md has it section by section.
 *
 * Left to the caller: what the target and Host name (target.h), whether a method or an upgrade is
 * wanted, and to end the connection behind a message without keep_alive.
 */
struct kh_h1;

enum kh_h1_side { KH_H1_REQUESTS = 1, KH_H1_RESPONSES };

enum kh_h1_event {
	KH_H1_NEED_MORE = 1, /* everything given was consumed */
	KH_H1_HEAD, /* kh_h1_message; for responses also each interim (1xx) one, which has no END,
		       but 101 is final */
	KH_H1_BODY, /* *body: a piece of content, never empty, a view into what was given */
	KH_H1_END, /* the message is complete; trailers are in kh_h1_trailers until the next head */
	KH_H1_ERROR, /* kh_h1_error */
};

struct kh_h1 *kh_h1_new(enum kh_h1_side side);
void kh_h1_free(struct kh_h1 *h1);
/* Responses only, before the head is read: the method of the request that is answered next (after
 * HEAD and CONNECT the framing differs). Holds for one final response. */
void kh_h1_expect_response_to(struct kh_h1 *h1, struct kh_slice method);
/*
 * Takes bytes from the front of *in (which it shortens) until one event is there. Call again with
 * the rest until NEED_MORE. After the END of a message the rest belongs to the next one.
 */
enum kh_h1_event kh_h1_feed(struct kh_h1 *h1, struct kh_slice *in, struct kh_slice *body);
/* The connection ended. KH_H1_END for a close-delimited body, KH_H1_NEED_MORE between messages
 * (nothing begun), KH_H1_ERROR inside one: RESPONSE_INCOMPLETE, for requests DOWN_CLOSED. */
enum kh_h1_event kh_h1_feed_eof(struct kh_h1 *h1);
/* NULL before the first head, between the first byte of a message and its HEAD, and once memory was
 * given back. */
const struct kh_message *kh_h1_message(const struct kh_h1 *h1);
const struct kh_field *kh_h1_trailers(const struct kh_h1 *h1, size_t *count);
/* NULL unless there was one. */
const struct kh_err *kh_h1_error(const struct kh_h1 *h1);
/* Between two messages, with not a byte of the next one seen; not between an interim response and
 * the final one. */
bool kh_h1_is_idle(const struct kh_h1 *h1);
/* Of memory. */
size_t kh_h1_kept_bytes(const struct kh_h1 *h1);
/*
 * Gives back the memory of an idle parser (what is left is under 100 bytes); the views end. Does
 * nothing within a message.
 *
 * Behind the END of a 101, or of the 2xx to a CONNECT, the bytes are no longer HTTP: kh_h1_feed
 * answers NEED_MORE and does not touch *in, for ever. Behind a CONNECT or an upgrade on the request
 * side it is the caller who stops feeding.
 */
void kh_h1_release(struct kh_h1 *h1);

/*
 * Writing: whole or not at all. All return false as kh_buf_append, and for a part that would not be
 * read back as what it is (a name that is no token, a control byte in a value, a blank in a
 * target).
 */
bool kh_h1_put_request_line(struct kh_buf *out, struct kh_slice method, struct kh_slice target);
bool kh_h1_put_status_line(struct kh_buf *out, uint16_t status, struct kh_slice reason);
bool kh_h1_put_field(struct kh_buf *out, struct kh_slice name, struct kh_slice value);
bool kh_h1_put_end(struct kh_buf *out); /* the empty line */
/* "1a\r\n"; the data and "\r\n" follow. Never for 0 bytes, which would be the last chunk. */
bool kh_h1_put_chunk_head(struct kh_buf *out, size_t len);
bool kh_h1_put_last_chunk(struct kh_buf *out, const struct kh_field *trailers, size_t n);
/* The standard phrase of a status ("Forbidden"), "" for an unknown one. */
const char *kh_h1_reason(uint16_t status);

#endif
