/* h2_internal.h - a connection and its streams, as the files of the HTTP/2 codec share them */
#ifndef KEYHOLE_HTTP_H2_INTERNAL_H
#define KEYHOLE_HTTP_H2_INTERNAL_H

#include <keyhole/h2.h>
#include <keyhole/list.h>

#include <nghttp2/nghttp2.h>

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
	unsigned refs;	   /* nghttp2's stream, the caller, a callback that runs */
	bool open;	   /* nghttp2 knows it */
	bool owned;	   /* the caller has it */
	bool released;	   /* … and has no more */
	bool told;	   /* RESET was given */
	bool got_final;	   /* a request's head, or the final one of a response */
	bool got_end;	   /* all of it has come */
	bool gave_end;	   /* … and was handed on */
	bool head_request; /* what is answered is a HEAD */
	bool connect;
	bool paused;
	bool resuming;
	bool hidden_head; /* a credential is in it, and it has not gone */
	bool sent_head;	  /* a client's request went */
	bool put_final;	  /* our final head is in line */
	bool whole_head;  /* … and ends the stream */
	bool put_end;	  /* all of ours is in line */
	bool sent_end;	  /* … and went */
	bool deferred;	  /* nghttp2 waits for kh_h2_put_data */
	bool was_full;	  /* and somebody was told so */
	bool reset_by_us; /* kh_h2_reset, kh_h2_release: no fault of the peer's */
	uint8_t interims;
	struct kh_h2_head *head;
	struct kh_h2_head *tail; /* trailers that came */
	nghttp2_nv *put_tail;	 /* … that go */
	size_t n_put_tail;
	nghttp2_nv *put_head; /* the final head, until the connection is drained */
	size_t n_put_head;
	char status[3];	  /* in it */
	struct kh_buf in; /* while paused */
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

/* What of a client's newest streams is known from its frames (h2_order.c). */
enum { KH_H2_ORDER_STREAMS = 256 };
struct kh_h2_order {
	uint32_t highest; /* identifier so far; 0: none */
	uint64_t opened[KH_H2_ORDER_STREAMS / 64];
	uint64_t ended[KH_H2_ORDER_STREAMS / 64]; /* by the client: END_STREAM, RST_STREAM */
	uint32_t skip;	 /* bytes of the preface or of a payload until the next frame's head */
	uint8_t head[9]; /* of a frame, as far as it has come */
	uint8_t n_head;
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
	size_t out_bytes;  /* of all streams */
	size_t in_bytes;   /* … content that waits for kh_h2_resume */
	size_t head_bytes; /* … and their heads */
	size_t n_hidden;   /* streams with hidden_head */
	struct kh_h2_section *section;
	struct kh_h2_bucket resets, idle_frames;
	struct kh_h2_order order; /* SERVER */
	unsigned continuations;
	size_t sent_bytes; /* of content, that brought no idle frame yet */
	uint64_t now_ms;
	struct kh_buf *drain; /* while kh_h2_drain runs */
	bool drain_failed;
	bool greeted; /* the first bytes have gone */
	bool got_settings;
	bool told_goaway; /* the peer has said it */
	bool said_notice; /* we have */
	bool failed;
	bool peer_connect; /* ENABLE_CONNECT_PROTOCOL */
	struct kh_err err;
};

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

/* h2.c: GOAWAY, RESETs and KH_H2_ERROR; the first cause counts. */
void kh_h2_fail(struct kh_h2 *h2, uint32_t code, enum kh_err_code reason, const char *what);

/* h2_recv.c, h2_send.c: into `callbacks` */
void kh_h2_set_recv_callbacks(nghttp2_session_callbacks *callbacks);
void kh_h2_set_send_callbacks(nghttp2_session_callbacks *callbacks);

/* h2_send.c */
/* A head has gone, or never will: it needs no hiding any more. */
void kh_h2_show_head(struct kh_h2_stream *stream);
/* Hands nghttp2 the heads that were put since it was drained last. */
void kh_h2_submit_heads(struct kh_h2 *h2);
/* One that was put is not sent. */
void kh_h2_drop_head(struct kh_h2_stream *stream);

/* h2_section.c */
bool kh_h2_section_begin(struct kh_h2 *h2, bool is_request);
/* Return: false when the connection has to end. */
bool kh_h2_section_add(struct kh_h2_section *section, struct kh_slice name, struct kh_slice value);
/* Crumbs are one field again, behind the others (RFC 9113 §8.2.3). */
void kh_h2_section_join_cookies(struct kh_h2_section *section);
void kh_h2_section_rest(struct kh_h2 *h2);

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

/* h2_order.c: a client's frames, from the preface on. Return: the bytes up to and with the head of
 * the first frame that is a connection error (RFC 9113 §5.1), of which *error is the code; all of
 * them, and NGHTTP2_NO_ERROR, where there is none. */
void kh_h2_order_init(struct kh_h2_order *order);
size_t kh_h2_order_walk(struct kh_h2_order *order, struct kh_slice in, uint32_t *error);

/* h2_guard.c: what a peer may do for nothing */
void kh_h2_guard_init(struct kh_h2 *h2);
/* Return: false: that was one too many. */
bool kh_h2_guard_frame(struct kh_h2 *h2, const nghttp2_frame_hd *hd);
bool kh_h2_guard_idle(struct kh_h2 *h2);
bool kh_h2_guard_reset(struct kh_h2 *h2);
bool kh_h2_guard_queue(const struct kh_h2 *h2);
/* Something of use came or went. */
void kh_h2_guard_work(struct kh_h2 *h2);
/* Content went: the peer opens windows for it, of the stream and of the connection. */
void kh_h2_guard_sent(struct kh_h2 *h2, size_t bytes);

#endif
