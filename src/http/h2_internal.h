/* h2_internal.h - a connection and its streams, shared by the files of the HTTP/2 codec */
#ifndef KEYHOLE_HTTP_H2_INTERNAL_H
#define KEYHOLE_HTTP_H2_INTERNAL_H

#include <keyhole/http/h2.h>
#include <keyhole/base/list.h>

#include <nghttp2/nghttp2.h>

#include "h2_state.h"

/* Tokens that come back with time. */
struct kh_h2_bucket {
	uint32_t tokens;
	uint64_t filled_ms;
};

/* A message with its text behind it in one piece of memory. */
struct kh_h2_head;

struct kh_h2_stream {
	struct kh_node link;	      /* of the connection */
	struct kh_node writable_link; /* KH_H2_WRITABLE is due */
	struct kh_node head_link;     /* our final head is due */
	struct kh_h2 *h2;	      /* NULL: the connection is gone */
	void *user;
	int32_t id;
	unsigned refs; /* nghttp2's stream, the caller, a callback that runs */
	enum kh_h2_life life;
	enum kh_h2_hold hold;
	enum kh_h2_recv recv;
	enum kh_h2_delivery delivery;
	enum kh_h2_put put;
	enum kh_h2_sent sent;
	enum kh_h2_flow flow;
	enum kh_h2_asked asked;
	/* A credential is in our head, and it has neither gone nor been given up: it counts in
	   h2->n_hidden. The caller says so of a head; no machine decides it. */
	bool hidden_head;
	uint8_t interims;
	bool is_exchange;	/* it counts in h2->n_exchanges: no machine decides that */
	size_t interim_bytes;	/* decoded, of interim heads that came */
	bool line_100;		/* a 100 is in line, and has not gone */
	uint16_t line_interims; /* so many other interim heads */
	struct kh_h2_head *head;
	struct kh_h2_head *tail; /* trailers that came */
	nghttp2_nv *put_tail;	 /* … that go */
	size_t n_put_tail;
	nghttp2_nv *put_head; /* the final head, until the connection is drained */
	size_t n_put_head;
	char status[3];	   /* in it */
	size_t line_bytes; /* of its heads and trailers that have not gone */
	struct kh_buf in;  /* while paused */
	struct kh_buf out;
};

enum kh_h2_pseudo {
	KH_H2_METHOD,
	KH_H2_SCHEME,
	KH_H2_AUTHORITY,
	KH_H2_PATH,
	KH_H2_PROTOCOL,
	KH_H2_STATUS,
	KH_H2_PSEUDOS
};

/* One field of the section that is being read; offsets into `text`. */
struct kh_h2_part {
	uint32_t name, name_len, value, value_len;
};

/* The section that is being read. There is never more than one (RFC 9113 §4.3). */
struct kh_h2_section {
	struct kh_buf text;
	struct kh_h2_part fields[KH_LIMIT_FIELDS];
	size_t n_fields;
	struct kh_h2_part pseudo[KH_H2_PSEUDOS]; /* name_len 0: absent */
	struct kh_buf cookie;			 /* crumbs, joined */
	size_t decoded_bytes;
	bool is_request;
	bool too_large;
	const char *wrong;
};

/* Where in a frame the peer is, and what of a client's newest streams is known from its frames
 * (h2_order.c). */
enum { KH_H2_ORDER_STREAMS = 256, KH_H2_FRAME_HEAD_BYTES = 9 };
struct kh_h2_order {
	uint32_t highest; /* identifier so far; 0: none */
	uint64_t opened[KH_H2_ORDER_STREAMS / 64];
	uint64_t ended[KH_H2_ORDER_STREAMS / 64]; /* by the client: END_STREAM, RST_STREAM */
	uint32_t skip;	 /* bytes of the preface or of a payload until the next frame's head */
	uint8_t head[9]; /* of a frame, as far as it has come */
	uint8_t n_head;
	bool of_client;
	bool is_extension; /* the frame whose head was whole last, and the walk stopped for it */
	uint32_t extension_bytes; /* … its payload */
	bool in_last; /* the last DATA frame of a request, or the HEADERS frame of its trailers */
	bool ends;    /* … ends with the payload that is skipped */
};

struct kh_h2 {
	nghttp2_session *session;
	struct kh_h2_settings settings;
	kh_h2_cb *cb;
	void *arg;
	struct kh_node streams;
	struct kh_node writable;
	struct kh_node heads; /* struct kh_h2_stream.head_link */
	size_t n_streams;
	size_t n_exchanges; /* of them: those that are no tunnels (SERVER) */
	size_t out_bytes;   /* of all streams */
	size_t line_bytes; /* … and of heads and trailers that have not gone, also of closed ones */
	size_t in_bytes;   /* … content that waits for kh_h2_resume */
	size_t head_bytes; /* … and their heads */
	size_t n_hidden;   /* streams with hidden_head */
	struct kh_h2_section *section;
	enum kh_h2_state state;
	enum kh_h2_peer peer;
	struct kh_h2_bucket resets, idle_frames;
	struct kh_h2_order order;
	uint32_t order_error; /* it has found, behind the bytes that it has walked */
	size_t walked_bytes;  /* by it, and not taken yet */
	size_t turn_bytes;    /* of heads, or worth so many, since kh_h2_feed_turn began */
	size_t turn_most;     /* … and how many may be, without what the caller has spent */
	/* Bytes that nghttp2 was given, without those of the frames whose beginning it told. It
	 * tells nothing of DATA on a stream that is over. */
	int64_t untold_bytes;
	size_t uncounted_bytes; /* … by kh_h2_guard_untold, since they are less than a frame's */
	bool behind;		/* nghttp2 was stopped, and may have a frame in hand */
	unsigned continuations;
	size_t sent_bytes; /* of content, that brought no idle frame yet */
	uint64_t now_ms;
	struct kh_buf *drain; /* while kh_h2_drain runs */
	/* The first bytes have gone; those of a client lie in constant memory, which is not wiped.
	   Whatever else happens to a connection, this happens once. */
	bool greeted;
	struct kh_err err;
};

/* Each makes one step. Return: false: there is no such step: the state stays, and the connection is
 * BROKEN (h2_state.c; of a stream that has left its connection, that is all). */
#define KH_H2_SETTER(x) \
	static inline bool kh_h2_set_##x(struct kh_h2_stream *stream, enum kh_h2_##x to) \
	{ \
		if (!kh_h2_may(kh_h2_##x##_next, stream->x, to)) \
			return kh_h2_refuse_step(stream->h2, &kh_h2_##x##_machine, stream->x, to); \
		stream->x = to; \
		return true; \
	}
KH_H2_SETTER(life)
KH_H2_SETTER(hold)
KH_H2_SETTER(recv)
KH_H2_SETTER(delivery)
KH_H2_SETTER(put)
KH_H2_SETTER(sent)
KH_H2_SETTER(flow)
#undef KH_H2_SETTER
/* h2_state.c: as above, of a connection. */
bool kh_h2_set_state(struct kh_h2 *h2, enum kh_h2_state to);
bool kh_h2_set_peer(struct kh_h2 *h2, enum kh_h2_peer to);

/* All that may be done in this turn was. */
static inline bool kh_h2_turn_is_over(const struct kh_h2 *h2)
{
	return h2->turn_bytes >= h2->turn_most;
}

/* Nothing that comes is looked at any more, and nothing is put in line. */
static inline bool kh_h2_is_failed(const struct kh_h2 *h2)
{
	return h2->state >= KH_H2_STATE_BROKEN;
}

static inline bool kh_h2_got_head(const struct kh_h2_stream *stream)
{
	return stream->recv >= KH_H2_RECV_CONTENT;
}

static inline bool kh_h2_got_end(const struct kh_h2_stream *stream)
{
	return stream->recv >= KH_H2_RECV_END;
}

/* All of ours is in line. */
static inline bool kh_h2_has_put_end(const struct kh_h2_stream *stream)
{
	return stream->put >= KH_H2_PUT_WHOLE;
}

static inline bool kh_h2_is_paused(const struct kh_h2_stream *stream)
{
	return stream->delivery == KH_H2_DELIVERY_PAUSED ||
	       stream->delivery == KH_H2_DELIVERY_STOPPING;
}

/* h2_mem.c */
extern nghttp2_mem kh_h2_mem, kh_h2_mem_client;

/* h2_stream.c */
struct kh_h2_stream *kh_h2_stream_new(struct kh_h2 *h2, int32_t id);
struct kh_h2_stream *kh_h2_stream_find(struct kh_h2 *h2, int32_t id);
void kh_h2_stream_ref(struct kh_h2_stream *stream);
void kh_h2_stream_unref(struct kh_h2_stream *stream);
void kh_h2_stream_closed(struct kh_h2_stream *stream, uint32_t code);
/* Nothing ties it to the connection any more. */
void kh_h2_stream_leave(struct kh_h2_stream *stream);
/* Events. Each holds the stream while the callback runs. */
void kh_h2_tell(struct kh_h2 *h2, struct kh_h2_stream *stream, struct kh_h2_event *event);
void kh_h2_tell_reset(struct kh_h2_stream *stream, const struct kh_err *err, uint32_t code);
/* Content that came, and the end; kept while the stream is paused. Return: false without memory. */
bool kh_h2_take_body(struct kh_h2_stream *stream, struct kh_slice body);
void kh_h2_take_end(struct kh_h2_stream *stream);
enum kh_err_code kh_h2_malformed_code(const struct kh_h2 *h2);
enum kh_h2_asked kh_h2_asked_of(struct kh_slice method);

/* h2.c: GOAWAY, RESETs and KH_H2_ERROR; the first cause counts. */
void kh_h2_fail(struct kh_h2 *h2, uint32_t code, enum kh_err_code reason, const char *what);

/* h2_recv.c */
/* nghttp2 has taken so many bytes: charges those that it told nothing of. */
void kh_h2_recv_given(struct kh_h2 *h2, size_t bytes);
/* A frame of a type that nghttp2 ignores, with so many bytes. */
void kh_h2_recv_extension(struct kh_h2 *h2, size_t bytes);
/* h2_recv.c, h2_send.c: into `callbacks` */
void kh_h2_set_recv_callbacks(nghttp2_session_callbacks *callbacks);
void kh_h2_set_send_callbacks(nghttp2_session_callbacks *callbacks);

/* h2_send.c */
/* A head has gone, or never will: it needs no hiding any more. */
void kh_h2_show_head(struct kh_h2_stream *stream);
/* Hands nghttp2 the heads that were put since it was drained last. */
void kh_h2_submit_heads(struct kh_h2 *h2);
/* One that was put is not sent; nor what comes last. */
void kh_h2_drop_head(struct kh_h2_stream *stream);
void kh_h2_drop_trailers(struct kh_h2_stream *stream);

/* h2_line.c */
bool kh_h2_line_has_room(const struct kh_h2_stream *stream, const nghttp2_nv *nv, size_t n);
void kh_h2_line_put(struct kh_h2_stream *stream, const nghttp2_nv *nv, size_t n);
/* `stream` NULL: it is closed. */
void kh_h2_line_take(struct kh_h2 *h2, struct kh_h2_stream *stream, const nghttp2_nv *nv, size_t n);
/* A HEADERS frame has gone, or never will. `stream` likewise. */
void kh_h2_line_left(struct kh_h2 *h2, struct kh_h2_stream *stream, const nghttp2_headers *frame);
/* Something has gone: KH_H2_WRITABLE, where it is due. */
void kh_h2_line_tell_if_writable(struct kh_h2_stream *stream);
void kh_h2_line_set_callbacks(nghttp2_session_callbacks *callbacks);

/* h2_section.c */
bool kh_h2_section_begin(struct kh_h2 *h2, bool is_request);
/* Return: false when the connection has to end. */
bool kh_h2_section_add(struct kh_h2_section *section, struct kh_slice name, struct kh_slice value);
/* Crumbs are one field again, behind the others (RFC 9113 §8.2.3). */
void kh_h2_section_join_cookies(struct kh_h2_section *section);
void kh_h2_section_rest(struct kh_h2 *h2);
/* CONNECT, and not for a protocol. */
bool kh_h2_section_is_tunnel(const struct kh_h2_section *section);

/* h2_head.c: what the section says */
enum kh_h2_verdict { KH_H2_FINE = 1, KH_H2_MALFORMED, KH_H2_TO_REFUSE, KH_H2_NO_MEMORY };
enum kh_h2_verdict kh_h2_head_read(struct kh_h2 *h2, const struct kh_h2_stream *stream, bool end,
				   struct kh_h2_head **out, struct kh_err *err);
enum kh_h2_verdict kh_h2_trailers_read(struct kh_h2 *h2, struct kh_h2_head **out,
				       struct kh_err *err);
const struct kh_message *kh_h2_head_message(const struct kh_h2_head *head);
const struct kh_field *kh_h2_head_trailers(const struct kh_h2_head *head, size_t *count);
size_t kh_h2_head_bytes(const struct kh_h2_head *head); /* NULL is fine */
void kh_h2_head_free(struct kh_h2_head *head);		/* likewise */

/* h2_order.c: the peer's frames, a client's from the preface on. Return: the bytes up to and with
 * the head of the first frame that is of an extension (`is_extension`, which the caller resets), or
 * a connection error (RFC 9113 §5.1), of which *error is the code; or, with NGHTTP2_NO_ERROR, up to
 * the end of the first request that does not end with its head; or all. */
void kh_h2_order_init(struct kh_h2_order *order, enum kh_h2_role role);
size_t kh_h2_order_walk(struct kh_h2_order *order, struct kh_slice in, uint32_t *error);

/* h2_guard.c: what a peer may do for nothing */
void kh_h2_guard_init(struct kh_h2 *h2);
/* Return: false: that was one too many. */
bool kh_h2_guard_frame(struct kh_h2 *h2, const nghttp2_frame_hd *hd);
bool kh_h2_guard_untold(struct kh_h2 *h2, size_t bytes); /* content of streams that are over */
bool kh_h2_guard_idle(struct kh_h2 *h2);
bool kh_h2_guard_reset(struct kh_h2 *h2);
bool kh_h2_guard_queue(const struct kh_h2 *h2);
/* Something of use came or went. */
void kh_h2_guard_work(struct kh_h2 *h2);
/* Content went: the peer opens windows for it, of the stream and of the connection. */
void kh_h2_guard_sent(struct kh_h2 *h2, size_t bytes);

#endif
