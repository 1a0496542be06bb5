/*
 * h2_stream.c - the life of a stream, and its events
 *
 * Three parties may hold a stream: nghttp2 (until the stream is closed), the caller (from HEAD,
 * REFUSED or kh_h2_put_request to kh_h2_release), and a running callback. The last one frees it.
 */
#include "h2_internal.h"

#include <keyhole/base/block.h>

enum { OUT_CAP_BYTES = KH_LIMIT_RELAY_BYTES + 4 * 16 * 1024 };

enum kh_err_code kh_h2_malformed_code(const struct kh_h2 *h2)
{
	return h2->settings.role == KH_H2_SERVER ? KH_ERR_REQUEST_MALFORMED
						 : KH_ERR_RESPONSE_MALFORMED;
}

struct kh_h2_stream *kh_h2_stream_new(struct kh_h2 *h2, int32_t id)
{
	struct kh_h2_stream *stream = kh_block_new(sizeof(*stream));

	if (!stream)
		return NULL;
	stream->h2 = h2;
	stream->id = id;
	stream->refs = 1;
	kh_buf_init(&stream->in, h2->settings.stream_window_most_bytes
					 ? h2->settings.stream_window_most_bytes
					 : h2->settings.stream_window_bytes);
	kh_buf_init(&stream->out, OUT_CAP_BYTES);
	kh_list_append(&h2->streams, &stream->link);
	h2->n_streams++;
	return stream;
}

struct kh_h2_stream *kh_h2_stream_find(struct kh_h2 *h2, int32_t id)
{
	return nghttp2_session_get_stream_user_data(h2->session, id);
}

void kh_h2_stream_ref(struct kh_h2_stream *stream)
{
	stream->refs++;
}

void kh_h2_stream_unref(struct kh_h2_stream *stream)
{
	if (--stream->refs > 0)
		return;
	kh_h2_head_free(stream->head);
	kh_h2_head_free(stream->tail);
	kh_h2_drop_trailers(stream);
	kh_buf_fini(&stream->in);
	kh_buf_fini(&stream->out);
	kh_block_give(stream);
}

/* What of a stream counts against the connection, was taken or dropped. */
static void open_connection(struct kh_h2 *h2, size_t len)
{
	if (!h2->settings.streams_apart)
		(void)nghttp2_session_consume_connection(h2->session, len);
}

/* What came of an open stream was taken. */
static void open_both(struct kh_h2 *h2, int32_t id, size_t len)
{
	open_connection(h2, len);
	(void)nghttp2_session_consume_stream(h2->session, id, len);
}

/* What was counted for the connection is not any more. */
static void drop_out(struct kh_h2_stream *stream)
{
	if (stream->h2)
		stream->h2->out_bytes -= kh_buf_len(&stream->out);
	kh_buf_clear(&stream->out);
	kh_buf_release(&stream->out);
	kh_list_remove(&stream->writable_link);
}

static void drop_in(struct kh_h2_stream *stream)
{
	size_t len = kh_buf_len(&stream->in);

	if (stream->h2 && len > 0) {
		stream->h2->in_bytes -= len;
		open_connection(stream->h2, len);
	}
	kh_buf_clear(&stream->in);
	kh_buf_release(&stream->in);
}

void kh_h2_tell(struct kh_h2 *h2, struct kh_h2_stream *stream, struct kh_h2_event *event)
{
	event->stream = stream;
	if (!stream) {
		h2->cb(event, h2->arg);
		return;
	}
	event->user = stream->user;
	kh_h2_stream_ref(stream);
	h2->cb(event, h2->arg);
	kh_h2_stream_unref(stream);
}

enum kh_h2_asked kh_h2_asked_of(struct kh_slice method)
{
	if (kh_slice_eq(method, KH_SLICE("HEAD")))
		return KH_H2_ASKED_HEAD;
	return kh_slice_eq(method, KH_SLICE("CONNECT")) ? KH_H2_ASKED_CONNECT : KH_H2_ASKED_OTHER;
}

/* One that the caller has never seen is of interest too. */
static void give_reset(struct kh_h2_stream *stream, const struct kh_err *err, uint32_t code)
{
	struct kh_h2 *h2 = stream->h2;
	struct kh_h2_event event = {
		.kind = KH_H2_RESET,
		.err = err,
		.code = code,
		.unprocessed = h2->settings.role == KH_H2_CLIENT &&
			       (code == NGHTTP2_REFUSED_STREAM || stream->sent == KH_H2_SENT_NONE),
	};

	if (stream->hold != KH_H2_HOLD_RELEASED)
		kh_h2_tell(h2, stream, &event);
}

void kh_h2_tell_reset(struct kh_h2_stream *stream, const struct kh_err *err, uint32_t code)
{
	if (stream->life == KH_H2_LIFE_LIVE && kh_h2_set_life(stream, KH_H2_LIFE_LOST))
		give_reset(stream, err, code);
}

/* Is anything lost by the stream's end, of which nobody has heard yet? */
static bool is_cut(const struct kh_h2_stream *stream)
{
	if (stream->life != KH_H2_LIFE_LIVE)
		return false;
	if (stream->h2->settings.role == KH_H2_CLIENT)
		return !kh_h2_got_end(stream);
	return !kh_h2_got_end(stream) || stream->sent != KH_H2_SENT_END;
}

void kh_h2_stream_closed(struct kh_h2_stream *stream, uint32_t code)
{
	struct kh_h2 *h2 = stream->h2;
	bool client = h2->settings.role == KH_H2_CLIENT;
	bool cut = is_cut(stream);
	struct kh_err err = KH_ERR_INIT;

	(void)kh_h2_set_life(stream, KH_H2_LIFE_CLOSED);
	h2->n_streams--;
	h2->n_exchanges -= stream->is_exchange;
	kh_h2_drop_head(stream);
	kh_h2_drop_trailers(stream);
	kh_h2_show_head(stream);
	drop_out(stream);
	if (!kh_h2_got_end(stream) || stream->hold != KH_H2_HOLD_HELD)
		drop_in(stream);
	if (cut) {
		kh_err_set(&err, client ? KH_ERR_RESPONSE_INCOMPLETE : KH_ERR_DOWN_CLOSED,
			   "%s reset the stream: %s", client ? "the upstream" : "the sandbox",
			   nghttp2_http2_strerror(code));
		if (client && !kh_h2_got_head(stream))
			err.code = KH_ERR_UP_CLOSED;
		give_reset(stream, &err, code);
	}
	/* A response that is all here stays until the caller has taken it. */
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): nghttp2's reference is let go last */
	if (stream->hold != KH_H2_HOLD_HELD)
		kh_h2_stream_leave(stream);
	kh_h2_stream_unref(stream);
}

void kh_h2_stream_leave(struct kh_h2_stream *stream)
{
	kh_h2_drop_head(stream);
	kh_h2_drop_trailers(stream);
	kh_h2_show_head(stream);
	drop_out(stream);
	drop_in(stream);
	if (stream->h2)
		stream->h2->head_bytes -=
			kh_h2_head_bytes(stream->head) + kh_h2_head_bytes(stream->tail);
	kh_list_remove(&stream->link);
	stream->h2 = NULL;
}

static void give_end(struct kh_h2_stream *stream)
{
	struct kh_h2_event event = { .kind = KH_H2_END };

	if (!kh_h2_set_recv(stream, KH_H2_RECV_TOLD))
		return;
	event.trailers = kh_h2_head_trailers(stream->tail, &event.n_trailers);
	kh_h2_tell(stream->h2, stream, &event);
}

/* The window opens again by what the caller has taken. */
static void give_body(struct kh_h2_stream *stream, struct kh_slice body)
{
	struct kh_h2 *h2 = stream->h2;
	struct kh_h2_event event = { .kind = KH_H2_BODY, .body = body };
	int32_t id = stream->id;
	bool open = stream->life != KH_H2_LIFE_CLOSED;

	kh_h2_tell(h2, stream, &event);
	if (open)
		open_both(h2, id, body.len);
	else
		open_connection(h2, body.len);
}

bool kh_h2_take_body(struct kh_h2_stream *stream, struct kh_slice body)
{
	if (stream->h2->settings.streams_apart)
		(void)nghttp2_session_consume_connection(stream->h2->session, body.len);
	if (stream->hold != KH_H2_HOLD_HELD || stream->life != KH_H2_LIFE_LIVE) {
		open_both(stream->h2, stream->id, body.len);
		return true;
	}
	if (kh_h2_is_paused(stream) || kh_buf_len(&stream->in) > 0) {
		if (!kh_buf_append_slice(&stream->in, body))
			return false;
		stream->h2->in_bytes += body.len;
		return true;
	}
	give_body(stream, body);
	return true;
}

void kh_h2_take_end(struct kh_h2_stream *stream)
{
	if (kh_h2_set_recv(stream, KH_H2_RECV_END) && stream->hold == KH_H2_HOLD_HELD &&
	    stream->life == KH_H2_LIFE_LIVE && !kh_h2_is_paused(stream) &&
	    kh_buf_len(&stream->in) == 0)
		give_end(stream);
}

bool kh_h2_widen(struct kh_h2_stream *stream, uint32_t window_bytes)
{
	return stream->h2 && stream->life == KH_H2_LIFE_LIVE && !kh_h2_got_end(stream) &&
	       window_bytes <= stream->h2->settings.stream_window_most_bytes &&
	       nghttp2_session_set_local_window_size(stream->h2->session, NGHTTP2_FLAG_NONE,
						     stream->id, (int32_t)window_bytes) == 0;
}

void kh_h2_pause(struct kh_h2_stream *stream)
{
	if (stream->delivery == KH_H2_DELIVERY_ON)
		(void)kh_h2_set_delivery(stream, KH_H2_DELIVERY_PAUSED);
	else if (stream->delivery == KH_H2_DELIVERY_RESUMING)
		(void)kh_h2_set_delivery(stream, KH_H2_DELIVERY_STOPPING);
}

/* What is left of the kept content goes back where it was, or to the window. */
static void keep_rest(struct kh_h2_stream *stream, struct kh_h2 *h2, struct kh_buf *held)
{
	size_t left = kh_buf_len(held);

	if (left > 0 && stream->hold == KH_H2_HOLD_HELD && stream->h2) {
		stream->in = *held;
		return;
	}
	h2->in_bytes -= left;
	if (left > 0)
		open_connection(h2, left);
	kh_buf_fini(held);
}

void kh_h2_resume(struct kh_h2_stream *stream)
{
	enum { PIECE = 16 * 1024 };
	struct kh_h2 *h2 = stream->h2;
	struct kh_buf held = stream->in;

	/* From inside the callback: what runs already goes on. */
	if (stream->delivery == KH_H2_DELIVERY_RESUMING)
		return;
	bool runs = stream->delivery == KH_H2_DELIVERY_STOPPING;
	if (!kh_h2_set_delivery(stream, KH_H2_DELIVERY_RESUMING) || runs)
		return;
	if (!h2) {
		(void)kh_h2_set_delivery(stream, KH_H2_DELIVERY_ON);
		return;
	}
	/* The callback may let go of the stream: what it looks at then is not the stream's. */
	kh_h2_stream_ref(stream);
	kh_buf_init(&stream->in, held.cap);
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): a reference is held */
	while (stream->hold == KH_H2_HOLD_HELD && !kh_h2_is_paused(stream) &&
	       kh_buf_len(&held) > 0) {
		struct kh_slice piece = kh_slice_sub(kh_buf_view(&held), 0, PIECE);

		h2->in_bytes -= piece.len;
		give_body(stream, piece);
		kh_buf_consume(&held, piece.len);
	}
	keep_rest(stream, h2, &held);
	if (stream->hold == KH_H2_HOLD_HELD && !kh_h2_is_paused(stream) &&
	    stream->recv == KH_H2_RECV_END)
		give_end(stream);
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): as above */
	(void)kh_h2_set_delivery(stream, kh_h2_is_paused(stream) ? KH_H2_DELIVERY_PAUSED
								 : KH_H2_DELIVERY_ON);
	kh_h2_stream_unref(stream);
}

size_t kh_h2_kept_content(const struct kh_h2_stream *stream)
{
	return kh_buf_len(&stream->in);
}

void kh_h2_set_user(struct kh_h2_stream *stream, void *user)
{
	stream->user = user;
}

void *kh_h2_user(const struct kh_h2_stream *stream)
{
	return stream->user;
}

uint32_t kh_h2_id(const struct kh_h2_stream *stream)
{
	return (uint32_t)stream->id;
}

const struct kh_message *kh_h2_message(const struct kh_h2_stream *stream)
{
	return kh_h2_got_head(stream) && stream->head ? kh_h2_head_message(stream->head) : NULL;
}
