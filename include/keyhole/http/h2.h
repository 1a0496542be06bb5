/* h2.h - HTTP/2 (RFC 9113) over nghttp2, with the same messages as HTTP/1 */
#ifndef KEYHOLE_HTTP_H2_H
#define KEYHOLE_HTTP_H2_H

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>
#include <keyhole/http/message.h>

/*
 * One connection, as server or client: bytes in, events out; calls in, bytes out. No socket, and no
 * clock except the caller's. nghttp2 does framing, HPACK, stream states and windows. What a head
 * means, and every limit, is here.
 *
 * A message is the same as HTTP/1's (message.h): field names in lower case; pseudo-header fields as
 * method, target, scheme, host (from :authority, or from Host if that is alone), protocol and
 * status; no Host among the fields; cookie crumbs joined (§8.2.3); minor 1, keep_alive, `h2`.
 * Framing is NONE if the head ends the stream, LENGTH with Content-Length, else CHUNKED (which
 * means: until END). After HEAD and 304 it is NONE.
 *
 * What RFC 9113 calls malformed ends in RST_STREAM(PROTOCOL_ERROR) and RESET, never in HEAD: names
 * in upper case or that are no token, control bytes or blanks at the ends of a value,
 * connection-specific fields, TE other than trailers, pseudo-header fields that are late, repeated,
 * missing, unknown or empty, user information in :authority, :authority and Host that differ, a
 * path that does not begin with '/' ('*' only with OPTIONS), CONNECT with :scheme or :path,
 * :protocol without the extension, a Content-Length that is no number or does not match the DATA,
 * trailer fields that must not be one. A connection error ends in GOAWAY and KH_H2_ERROR, and so
 * does a flood (limits.h). docs/protocols.md has it section by section.
 *
 * The callback runs inside kh_h2_feed(_turn), kh_h2_feed_eof, kh_h2_drain and kh_h2_resume. It may
 * call everything, on this connection and others, except these four and kh_h2_free.
 */
struct kh_h2;
struct kh_h2_stream;

enum kh_h2_role { KH_H2_SERVER = 1, KH_H2_CLIENT };

struct kh_h2_settings {
	enum kh_h2_role role;
	uint32_t max_streams;	/* server: how many streams the peer may have open */
	uint32_t max_exchanges; /* server: how many of them may be exchanges, not tunnels; 0: all */
	uint32_t stream_window_bytes;	  /* how much of a stream is kept while it is paused */
	uint32_t connection_window_bytes; /* … and of all streams together */
	/* A paused stream holds back only itself, and not the other streams of the connection,
	   which may be those of other sandboxes. The sum of the streams' windows bounds what is
	   kept. */
	bool streams_apart;
	uint32_t stream_window_most_bytes; /* the most that kh_h2_widen may set; 0: it is never
					      called */
	bool extended_connect;		   /* server: offer Extended CONNECT (RFC 8441) */
};

enum kh_h2_event_kind {
	KH_H2_HEAD = 1, /* message; of responses each interim one too. From now on the caller holds
			   the stream as well, until kh_h2_release */
	KH_H2_REFUSED, /* server: a request to be answered with the status of `err` (head too large,
			  Expect); there is no message. The caller holds the stream as after HEAD */
	KH_H2_BODY,    /* body: never empty; valid until the callback returns */
	KH_H2_END,     /* the message is complete; trailers */
	KH_H2_RESET, /* err: the stream ended before its END, or before all of ours was sent. Never
			after kh_h2_release. Without a HEAD before it, the caller does not hold the
			stream */
	KH_H2_WRITABLE, /* a stream that was full (kh_h2_is_full) takes more */
	KH_H2_GOAWAY,	/* client: no new request may be sent here (kh_h2_capacity is 0) */
	KH_H2_SETTINGS, /* the peer's settings came or changed, and maybe kh_h2_capacity */
	KH_H2_PONG,	/* the answer to kh_h2_ping */
	KH_H2_ERROR,	/* err: the connection failed. Each open stream got its RESET before.
			   kh_h2_drain still gives the GOAWAY */
};

struct kh_h2_event {
	enum kh_h2_event_kind kind;
	struct kh_h2_stream *stream; /* NULL: the event is the connection's */
	void *user;		     /* kh_h2_set_user */
	const struct kh_message *message;
	struct kh_slice body;
	const struct kh_field *trailers;
	size_t n_trailers;
	const struct kh_err *err;
	uint32_t code;	  /* RESET, GOAWAY: an error code of RFC 9113 §7 */
	bool unprocessed; /* RESET, client: the peer did not process the request (§8.7) */
};

typedef void kh_h2_cb(const struct kh_h2_event *event, void *arg);

/* Queues the connection preface. Return: NULL without memory. */
struct kh_h2 *kh_h2_new(const struct kh_h2_settings *settings, kh_h2_cb *cb, void *arg);
/* Streams that the caller has not released stay readable (kh_h2_message); every other call on them
 * does nothing or returns false. No event comes. */
void kh_h2_free(struct kh_h2 *h2);

/* Processes all of `in`. Return: false: the connection has failed (KH_H2_ERROR was given; for an
 * error that nghttp2 found, it may come only with kh_h2_drain). */
bool kh_h2_feed(struct kh_h2 *h2, struct kh_slice in, uint64_t now_ms);
/* The same, but stops when `most` of work is done, in bytes of heads (KH_LIMIT_WORK_PER_HEAD and
 * what follows it): heads, and content in small pieces. *taken: the bytes processed. If
 * kh_h2_is_behind is true then, the caller keeps the rest, and calls again in a later turn of the
 * loop with that rest first, even if it is empty. */
bool kh_h2_feed_turn(struct kh_h2 *h2, struct kh_slice in, size_t most, uint64_t now_ms,
		     size_t *taken);
/* For the callback: the caller did work of its own for an event. The kh_h2_feed_turn that runs does
 * so much less, and gives at most one more END. */
void kh_h2_spend(struct kh_h2 *h2, size_t work);
/* The work of the last call, without what was spent. */
size_t kh_h2_turn_bytes(const struct kh_h2 *h2);
bool kh_h2_is_behind(const struct kh_h2 *h2);
/* The connection ended: gives RESET with `err` for each open stream. */
void kh_h2_feed_eof(struct kh_h2 *h2, const struct kh_err *err);
/*
 * Appends output while `out` holds less than KH_LIMIT_RELAY_BYTES; one frame more may come. Call it
 * after feeding, after other calls, and when `out` has room again. `out` must be wiping if
 * credentials are sent on this connection. Return: false without memory.
 */
bool kh_h2_drain(struct kh_h2 *h2, struct kh_buf *out);
/* Has kh_h2_drain something to write? */
bool kh_h2_wants_drain(const struct kh_h2 *h2);
/* Will nothing more be read or written, so that the caller can close the connection? */
bool kh_h2_is_over(const struct kh_h2 *h2);
/* NULL unless there was an error. */
const struct kh_err *kh_h2_error(const struct kh_h2 *h2);

/* Streams that are not closed. */
size_t kh_h2_streams(const struct kh_h2 *h2);
/* Bytes that it keeps for all streams: received heads, content that was not taken, and heads,
 * content and trailers that were not written yet. */
size_t kh_h2_kept_bytes(const struct kh_h2 *h2);
/* Have the peer's SETTINGS come? */
bool kh_h2_has_settings(const struct kh_h2 *h2);
/* Client: how many requests may be begun now; at most one before the peer's SETTINGS, 0 after
 * GOAWAY. */
size_t kh_h2_capacity(const struct kh_h2 *h2);
/* Client: the server offers Extended CONNECT (known after KH_H2_SETTINGS). */
bool kh_h2_has_extended_connect(const struct kh_h2 *h2);
/* Queues a PING; KH_H2_PONG follows. Return: false: the connection failed, or no memory. */
bool kh_h2_ping(struct kh_h2 *h2);
/* Sends GOAWAY. Server: the first call announces that no new streams are wanted; the second one
 * refuses them, and names the last stream that was accepted. Client: one call. */
void kh_h2_goaway(struct kh_h2 *h2);

/* Streams. */
void kh_h2_set_user(struct kh_h2_stream *stream, void *user);
void *kh_h2_user(const struct kh_h2_stream *stream);
uint32_t kh_h2_id(const struct kh_h2_stream *stream);
/* The final head of a request or response; valid until kh_h2_release. NULL before it came. */
const struct kh_message *kh_h2_message(const struct kh_h2_stream *stream);
/*
 * The caller lets go of the stream: no event follows and its views end. A stream that is not
 * complete is reset: with CANCEL at once; or, if a server's answer or what a CONNECT client sends
 * was put to its end, after that is sent, with NO_ERROR or CANCEL.
 */
void kh_h2_release(struct kh_h2_stream *stream);
void kh_h2_reset(struct kh_h2_stream *stream, uint32_t code);
/* While a stream is paused, neither BODY nor END comes; what its window allows is kept. */
void kh_h2_pause(struct kh_h2_stream *stream);
/* Ends the pause: what was kept comes as events before this returns. */
void kh_h2_resume(struct kh_h2_stream *stream);
/* Content that was kept, which kh_h2_resume would give. */
size_t kh_h2_kept_content(const struct kh_h2_stream *stream);

/* Sets how much of this stream the peer may send ahead: not less than before, and at most
 * stream_window_most_bytes. Return: false: the stream is closed, or no memory. */
bool kh_h2_widen(struct kh_h2_stream *stream, uint32_t window_bytes);

/* For CONNECT: method and authority; with `protocol` (RFC 8441) also scheme and path. */
struct kh_h2_request {
	struct kh_slice method, scheme, authority, path, protocol;
	bool path_is_secret; /* it holds a credential, and is treated like the last `n_secret`
				fields */
};

/*
 * Heads. Names may be in any case and are sent in lower case. The caller drops connection-specific
 * fields and Host, and makes Content-Length agree (kh_message_is_hop_field). If a name is no token,
 * or a value would not be read back as it is, nothing is sent, and the result is false or NULL. The
 * last `n_secret` fields hold a credential: they are never indexed, and nghttp2's copies are wiped.
 * Everything is copied. `end`: nothing follows.
 *
 * kh_h2_put_request: the caller holds the stream until kh_h2_release. Return: NULL, also if
 * kh_h2_capacity is 0 or without memory.
 */
struct kh_h2_stream *kh_h2_put_request(struct kh_h2 *h2, const struct kh_h2_request *request,
				       const struct kh_field *fields, size_t n_fields,
				       size_t n_secret, bool end);
/* Any number of interim heads (1xx but not 101, without `end`), then the final one. An interim head
 * is silently dropped, which is no failure, if another one of the stream waits to be sent and there
 * is no room for both (kh_h2_has_room_for_interim); a 100 only while another 100 waits. Return:
 * false: nothing was put. */
bool kh_h2_put_response(struct kh_h2_stream *stream, uint16_t status, const struct kh_field *fields,
			size_t n_fields, bool end);
/* Would an interim head of so many bytes (names and values) be sent now? If not, the caller need
 * not make it. */
bool kh_h2_has_room_for_interim(const struct kh_h2_stream *stream, uint16_t status, size_t bytes);
/* Takes back a final head, and all that was put after it, if kh_h2_drain has not taken it yet.
 * Another head may be put then. Return: false: it was taken. */
bool kh_h2_take_back(struct kh_h2_stream *stream);
/* The content that will be put holds a credential, so every copy of it is overwritten. To be called
 * before any content is put. */
void kh_h2_wipe_content(struct kh_h2_stream *stream);
/* Puts content, which is copied. Return: false: the stream is closed, or over its cap of
 * KH_LIMIT_RELAY_BYTES and four frames. */
bool kh_h2_put_data(struct kh_h2_stream *stream, struct kh_slice bytes);
/* Must the caller stop putting until KH_H2_WRITABLE? Whoever was told so gets that event. A stream
 * may become full by what other streams of the connection put. */
bool kh_h2_is_full(struct kh_h2_stream *stream);
/* Ends the message after all data. Trailer fields that must not be sent are dropped. Return: false:
 * the stream is closed, or no memory. */
bool kh_h2_put_end(struct kh_h2_stream *stream, const struct kh_field *trailers, size_t n);
/* Bytes of heads and trailers that were put and not sent yet. */
size_t kh_h2_head_bytes_in_line(const struct kh_h2_stream *stream);
/* Bytes that kh_h2_put_data took and that are in no frame yet. */
size_t kh_h2_waiting_bytes(const struct kh_h2_stream *stream);

#endif
