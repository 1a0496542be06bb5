/* h2.h - HTTP/2 (RFC 9113) over nghttp2, in the same messages as HTTP/1 */
#ifndef KEYHOLE_HTTP_H2_H
#define KEYHOLE_HTTP_H2_H

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>
#include <keyhole/http/message.h>

/*
 * One connection, either role: bytes in, events out; verbs in, bytes out. No socket, and no clock
 * but the one that is handed in. Framing, HPACK, stream states and windows are nghttp2's; what a
 * head means, and every bound, is here.
 *
 * A message is the same as HTTP/1's (message.h): field names in lower case, pseudo-fields as
 * method, target, scheme, host (of :authority, or of Host where that is alone), protocol and
 * status; no Host among the fields, cookie crumbs joined (§8.2.3), minor 1, keep_alive, `h2`.
 * Framing is NONE where the head ends the stream, LENGTH with Content-Length, else CHUNKED (which
 * means: until END). After HEAD and 304 it is NONE.
 *
 * What RFC 9113 calls malformed ends in RST_STREAM(PROTOCOL_ERROR) and RESET, never in HEAD:
 * names in upper case or no tokens, control bytes or blanks at the ends of a value, fields of the
 * connection, TE other than trailers, pseudo-fields late, twice, missing, unknown or empty, user
 * information in :authority, :authority and Host that differ, a path that does not begin with '/'
 * ('*' goes with OPTIONS), CONNECT with :scheme or :path, :protocol without the extension, a length
 * that is no number or that DATA disagrees with, fields that may not trail. A connection error ends
 * in GOAWAY and KH_H2_ERROR, as do floods: the budget is in limits.h. docs/protocols.md has it
 * section by section.
 *
 * The callback runs inside kh_h2_feed(_turn), kh_h2_feed_eof, kh_h2_drain and kh_h2_resume. In it
 * all verbs may be used, on this connection and others, but these four and kh_h2_free.
 */
struct kh_h2;
struct kh_h2_stream;

enum kh_h2_role { KH_H2_SERVER = 1, KH_H2_CLIENT };

struct kh_h2_settings {
	enum kh_h2_role role;
	uint32_t max_streams;		  /* server: what the peer may have open */
	uint32_t max_exchanges;		  /* server: of them, other than tunnels; 0: all */
	uint32_t stream_window_bytes;	  /* what of a stream is kept while it is paused */
	uint32_t connection_window_bytes; /* … and of all streams together */
	/* What is kept of a stream holds back this stream alone, and not the connection's others:
	   they are different sandboxes'. All that is kept is bounded by the streams' windows. */
	bool streams_apart;
	uint32_t stream_window_most_bytes; /* that kh_h2_widen may make of one; 0: it never does */
	bool extended_connect;		   /* server: RFC 8441 is offered */
};

enum kh_h2_event_kind {
	KH_H2_HEAD = 1, /* message; responses: each interim one too. The stream is the caller's as
			   well, until kh_h2_release */
	KH_H2_REFUSED,	/* server: a request that is to be answered with `err`'s status (head too
			   large, Expect); there is no message. The caller's as with HEAD */
	KH_H2_BODY,	/* body: never empty; consumed with the callback's return */
	KH_H2_END,	/* the message is complete; trailers */
	KH_H2_RESET,	/* the stream is over before its END, or before all of ours was sent; err.
			   Never after kh_h2_release. A stream without HEAD is not the caller's */
	KH_H2_WRITABLE, /* a stream that was full (kh_h2_is_full) takes more */
	KH_H2_GOAWAY,	/* client: no new request goes here (kh_h2_capacity is 0) */
	KH_H2_SETTINGS, /* the peer's settings came or changed: kh_h2_capacity may have */
	KH_H2_PONG,	/* the answer to kh_h2_ping */
	KH_H2_ERROR,	/* the connection is broken; err. Each open stream has had its RESET. What
			   kh_h2_drain still gives is the goodbye */
};

struct kh_h2_event {
	enum kh_h2_event_kind kind;
	struct kh_h2_stream *stream; /* NULL: of the connection */
	void *user;		     /* kh_h2_set_user */
	const struct kh_message *message;
	struct kh_slice body;
	const struct kh_field *trailers;
	size_t n_trailers;
	const struct kh_err *err;
	uint32_t code;	  /* RESET, GOAWAY: of RFC 9113 §7 */
	bool unprocessed; /* RESET, client: the peer has not looked at the request (§8.7) */
};

typedef void kh_h2_cb(const struct kh_h2_event *event, void *arg);

/* The preface is put in line at once. Return: NULL without memory. */
struct kh_h2 *kh_h2_new(const struct kh_h2_settings *settings, kh_h2_cb *cb, void *arg);
/* Streams that the caller has not released stay readable (kh_h2_message); every verb on them
 * answers false. No event. */
void kh_h2_free(struct kh_h2 *h2);

/* Takes all of `in`. Return: false once the connection is broken (KH_H2_ERROR was given; what
 * nghttp2 has found may come with kh_h2_drain only). */
bool kh_h2_feed(struct kh_h2 *h2, struct kh_slice in, uint64_t now_ms);
/* The same, of no more heads than KH_LIMIT_H2_TURN_BYTES. Where kh_h2_is_behind then, the caller
 * keeps what was not taken, and calls again in the loop's next turn with this in front, also when
 * it is empty. */
bool kh_h2_feed_turn(struct kh_h2 *h2, struct kh_slice in, uint64_t now_ms, size_t *taken);
bool kh_h2_is_behind(const struct kh_h2 *h2);
/* The connection ended: RESET for each open stream. */
void kh_h2_feed_eof(struct kh_h2 *h2, const struct kh_err *err);
/*
 * Appends what is to be written while `out` holds less than KH_LIMIT_RELAY_BYTES; a frame more may
 * come. Call it after feeding and after verbs, and when `out` has room again. `out` must be wiping
 * where credentials go that way. Return: false without memory.
 */
bool kh_h2_drain(struct kh_h2 *h2, struct kh_buf *out);
/* Something would come out of kh_h2_drain. */
bool kh_h2_wants_drain(const struct kh_h2 *h2);
/* Nothing more will come or go: close it. */
bool kh_h2_is_over(const struct kh_h2 *h2);
/* NULL unless there was one. */
const struct kh_err *kh_h2_error(const struct kh_h2 *h2);

/* Streams that the codec knows and that are not closed. */
size_t kh_h2_streams(const struct kh_h2 *h2);
/* What it keeps of all of them: heads that came, content that was not taken, and what was not
 * written: heads, content, trailers. */
size_t kh_h2_kept_bytes(const struct kh_h2 *h2);
/* Has the peer said what it allows? */
bool kh_h2_has_settings(const struct kh_h2 *h2);
/* Client: requests that may be begun now; one before the peer's settings, 0 after GOAWAY. */
size_t kh_h2_capacity(const struct kh_h2 *h2);
/* Client: the server offers Extended CONNECT (known after KH_H2_SETTINGS). */
bool kh_h2_has_extended_connect(const struct kh_h2 *h2);
bool kh_h2_ping(struct kh_h2 *h2);
/* Server: no new streams; twice: for good, with the last one that was taken. Client: a goodbye. */
void kh_h2_goaway(struct kh_h2 *h2);

/* Streams. */
void kh_h2_set_user(struct kh_h2_stream *stream, void *user);
void *kh_h2_user(const struct kh_h2_stream *stream);
uint32_t kh_h2_id(const struct kh_h2_stream *stream);
/* The final head (a request's, or a response's); lives until kh_h2_release. NULL before. */
const struct kh_message *kh_h2_message(const struct kh_h2_stream *stream);
/*
 * The caller is done with it: no event follows and the views end. One that is not complete is reset
 * (behind a server's answer that was put to its end: NO_ERROR; behind what a CONNECT's client has
 * put to its end: CANCEL; else CANCEL at once).
 */
void kh_h2_release(struct kh_h2_stream *stream);
void kh_h2_reset(struct kh_h2_stream *stream, uint32_t code);
/* While it is paused neither BODY nor END come; what the window allows is kept. */
void kh_h2_pause(struct kh_h2_stream *stream);
/* … and now they come, before this returns. */
void kh_h2_resume(struct kh_h2_stream *stream);

/* The peer may send so much of this stream ahead, from now on. Not less than before, and no more
 * than stream_window_most_bytes. Return: false: the stream is closed, or no memory. */
bool kh_h2_widen(struct kh_h2_stream *stream, uint32_t window_bytes);

/* For CONNECT: method and authority; with `protocol` (RFC 8441) also scheme and path. */
struct kh_h2_request {
	struct kh_slice method, scheme, authority, path, protocol;
	bool path_is_secret; /* it holds a credential: as the last `n_secret` fields */
};

/*
 * Heads. Names may be in any case and are sent in lower case. Connection-specific fields, Host and
 * Content-Length's agreement are the caller's affair (kh_message_is_hop_field); a name that is no
 * token or a value that would not be read back as it is: false, and nothing is sent. The last
 * `n_secret` fields hold a credential: never indexed, and wiped wherever nghttp2 copied them. All
 * is copied. `end`: nothing follows.
 */
struct kh_h2_stream *kh_h2_put_request(struct kh_h2 *h2, const struct kh_h2_request *request,
				       const struct kh_field *fields, size_t n_fields,
				       size_t n_secret, bool end);
/* Any number of interim ones (1xx, never `end`), then the final one. An interim one is left out,
 * and that is no failure, where one of the stream has not gone yet; a 100, where a 100 has not. */
bool kh_h2_put_response(struct kh_h2_stream *stream, uint16_t status, const struct kh_field *fields,
			size_t n_fields, bool end);
/* Would an interim head of so many bytes, names and values, go now? One that is left out need not
 * be made. */
bool kh_h2_has_room_for_interim(const struct kh_h2_stream *stream, uint16_t status, size_t bytes);
/* Takes a final head back, and all that was put behind it, as long as kh_h2_drain has not taken it.
 * Another one may be put. */
bool kh_h2_take_back(struct kh_h2_stream *stream);
/* The content that is put will hold a credential: whatever kept it is overwritten. Before any. */
void kh_h2_wipe_content(struct kh_h2_stream *stream);
/* Return: false when the stream is closed, or over its cap: KH_LIMIT_RELAY_BYTES and four frames.
 */
bool kh_h2_put_data(struct kh_h2_stream *stream, struct kh_slice bytes);
/* Stop putting until KH_H2_WRITABLE, which whoever was told so gets: it may have become full by
 * what others of the connection put. */
bool kh_h2_is_full(struct kh_h2_stream *stream);
/* Behind all data. Trailers that may not be written are left out. */
bool kh_h2_put_end(struct kh_h2_stream *stream, const struct kh_field *trailers, size_t n);
/* Of what was put: heads and trailers that have not gone. */
size_t kh_h2_head_bytes_in_line(const struct kh_h2_stream *stream);
/* What kh_h2_put_data took and no frame has carried yet. */
size_t kh_h2_waiting_bytes(const struct kh_h2_stream *stream);

#endif
