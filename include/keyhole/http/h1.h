/* h1.h - HTTP/1.1 (RFC 9112): a strict parser, and a writer */
#ifndef KEYHOLE_HTTP_H1_H
#define KEYHOLE_HTTP_H1_H

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>
#include <keyhole/http/message.h>

/*
 * A push parser: bytes in, events out; no socket, no clock. It reads one side of one connection,
 * message after message (pipelining). Anything that two parsers could read differently is an error,
 * and final: after KH_H1_ERROR only kh_h1_error and kh_h1_free may be called. The events depend on
 * the bytes and never on how they were split; only content comes in other pieces.
 *
 * Refused with REQUEST_MALFORMED (requests) or RESPONSE_MALFORMED: bare CR or LF, NUL and other
 * controls, obs-fold, blanks before the colon or around the parts of the first line, empty names,
 * names and methods that are no token, Content-Length with Transfer-Encoding, several
 * Content-Length (also equal ones and lists), a length that is not digits (at most 19) or ≥ 2^63,
 * any Transfer-Encoding but one final `chunked`, Transfer-Encoding in HTTP/1.0, content announced
 * by CONNECT, 1xx or 204, Host absent, twice or empty (requests of HTTP/1.1; in 1.0 it may be
 * absent only with absolute-form and CONNECT), signs, `0x` or blanks in chunk sizes, more than 16
 * digits, a chunk extension that is not by the grammar, a trailer field that must not be one, a
 * Connection option that names a field on which decisions depend, a status outside 100-599, too
 * many interim responses or connection options. A version other than 1.0 and 1.1:
 * VERSION_UNSUPPORTED (in a response RESPONSE_MALFORMED). The caps of limits.h:
 * REQUEST_URI_TOO_LONG, REQUEST_HEAD_TOO_LARGE, RESPONSE_HEAD_TOO_LARGE. Expect other than
 * 100-continue: EXPECTATION_FAILED. docs/http.md has it section by section.
 *
 * Left to the caller: what the target and Host name (target.h), whether a method or an upgrade is
 * allowed, and to close the connection after a message without keep_alive.
 */
struct kh_h1;

enum kh_h1_side { KH_H1_REQUESTS = 1, KH_H1_RESPONSES };

enum kh_h1_event {
	KH_H1_NEED_MORE = 1, /* all input was consumed (but see kh_h1_feed) */
	KH_H1_HEAD, /* kh_h1_message. Of a response also each interim (1xx) head, which has no END;
		       101 is final */
	KH_H1_BODY, /* *body: a piece of content, never empty, a view of the input */
	KH_H1_END, /* the message is complete; trailers are in kh_h1_trailers until the next head */
	KH_H1_ERROR, /* kh_h1_error */
};

struct kh_h1 *kh_h1_new(enum kh_h1_side side);
void kh_h1_free(struct kh_h1 *h1);
/* For responses, before the head is read: the method of the request that this response answers
 * (framing differs after HEAD and CONNECT). Valid for one final response. */
void kh_h1_expect_response_to(struct kh_h1 *h1, struct kh_slice method);
/*
 * Takes bytes from the front of *in (which it shortens) until there is an event. Call again with
 * the rest until NEED_MORE. After the END of a message the rest belongs to the next one.
 *
 * After the END of a 101, or of the 2xx to a CONNECT, the bytes are no longer HTTP: it always
 * returns NEED_MORE and does not touch *in. After a CONNECT or an upgrade on the request side, the
 * caller must stop feeding.
 */
enum kh_h1_event kh_h1_feed(struct kh_h1 *h1, struct kh_slice *in, struct kh_slice *body);
/* The connection ended. KH_H1_END: a close-delimited body is complete. KH_H1_NEED_MORE: between
 * messages (nothing was begun). KH_H1_ERROR: inside a message: RESPONSE_INCOMPLETE, of a request
 * DOWN_CLOSED. */
enum kh_h1_event kh_h1_feed_eof(struct kh_h1 *h1);
/* Valid until the next message begins. NULL before the first head, between the first byte of a
 * message and its HEAD, and after kh_h1_release. */
const struct kh_message *kh_h1_message(const struct kh_h1 *h1);
const struct kh_field *kh_h1_trailers(const struct kh_h1 *h1, size_t *count);
/* NULL unless there was an error. */
const struct kh_err *kh_h1_error(const struct kh_h1 *h1);
/* Is it between two messages, without a byte of the next one? False between an interim response and
 * the final one. */
bool kh_h1_is_idle(const struct kh_h1 *h1);
/* Bytes of memory that it keeps. */
size_t kh_h1_kept_bytes(const struct kh_h1 *h1);
/*
 * Frees the memory of an idle parser (what is left is under 100 bytes); all views end. Does nothing
 * within a message.
 */
void kh_h1_release(struct kh_h1 *h1);

/*
 * Writing: all or nothing. All return false as kh_buf_append, and for a part that a reader would
 * not read back as it is (a name that is no token, a control byte in a value, a blank in a target).
 */
bool kh_h1_put_request_line(struct kh_buf *out, struct kh_slice method, struct kh_slice target);
bool kh_h1_put_status_line(struct kh_buf *out, uint16_t status, struct kh_slice reason);
bool kh_h1_put_field(struct kh_buf *out, struct kh_slice name, struct kh_slice value);
bool kh_h1_put_end(struct kh_buf *out); /* the empty line */
/* "1a\r\n"; the caller appends the data and "\r\n". Not for 0 bytes, which would be the last chunk.
 */
bool kh_h1_put_chunk_head(struct kh_buf *out, size_t len);
bool kh_h1_put_last_chunk(struct kh_buf *out, const struct kh_field *trailers, size_t n);
/* The standard phrase of a status ("Forbidden"), "" for an unknown one. */
const char *kh_h1_reason(uint16_t status);

#endif
