/*
 * h2_recv.c - nghttp2's callbacks for received frames
 *
 * nghttp2 checks frames against stream states and windows, and decodes them. Here field sections
 * become messages, and every frame is counted before it has any effect.
 */
#include "h2_internal.h"

static int32_t to_stream(const nghttp2_frame *frame)
{
	return frame->hd.stream_id;
}

static void calm_down(struct kh_h2 *h2, const char *what)
{
	kh_h2_fail(h2, NGHTTP2_ENHANCE_YOUR_CALM, KH_ERR_LIMIT, what);
}

static void idle(struct kh_h2 *h2)
{
	if (!kh_h2_is_failed(h2) && !kh_h2_guard_idle(h2))
		calm_down(h2, "too many frames that carry nothing");
}

/* At the end of what a turn takes, nghttp2 stops behind what it has given. */
static int pause_or_go_on(struct kh_h2 *h2)
{
	h2->behind = kh_h2_turn_is_over(h2);
	return h2->behind ? NGHTTP2_ERR_PAUSE : 0;
}

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *arg)
{
	struct kh_h2 *h2 = arg;

	(void)session;
	h2->untold_bytes -= KH_H2_FRAME_HEAD_BYTES + (int64_t)hd->length;
	h2->turn_bytes += KH_LIMIT_WORK_PER_PIECE;
	/* A new window is given to each stream that is open. */
	if (hd->type == NGHTTP2_SETTINGS && !(hd->flags & NGHTTP2_FLAG_ACK))
		h2->turn_bytes += h2->n_streams / KH_LIMIT_WORK_STREAMS;
	if (!kh_h2_is_failed(h2) && !kh_h2_guard_frame(h2, hd))
		calm_down(h2, hd->type == NGHTTP2_CONTINUATION
				      ? "a field section in too many frames"
				      : "too many frames that carry nothing");
	return 0;
}

void kh_h2_recv_given(struct kh_h2 *h2, size_t bytes)
{
	/* So many may be the beginning of a frame's head. */
	enum { OF_A_HEAD = KH_H2_FRAME_HEAD_BYTES - 1 };

	h2->untold_bytes += (int64_t)bytes;
	if (h2->untold_bytes <= OF_A_HEAD)
		return;
	size_t untold = (size_t)h2->untold_bytes - OF_A_HEAD;
	h2->untold_bytes = OF_A_HEAD;
	h2->turn_bytes += untold / KH_LIMIT_WORK_CONTENT;
	if (!kh_h2_is_failed(h2) && !kh_h2_guard_untold(h2, untold))
		calm_down(h2, "too much content of streams that are over");
}

void kh_h2_recv_extension(struct kh_h2 *h2, size_t bytes)
{
	h2->untold_bytes -= KH_H2_FRAME_HEAD_BYTES + (int64_t)bytes;
	h2->turn_bytes += KH_LIMIT_WORK_PER_PIECE + bytes / KH_LIMIT_WORK_CONTENT;
	idle(h2);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct kh_h2 *h2 = arg;

	if (kh_h2_is_failed(h2))
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	if (!kh_h2_section_begin(h2, h2->settings.role == KH_H2_SERVER))
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	h2->turn_bytes += KH_LIMIT_WORK_PER_HEAD;
	if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	struct kh_h2_stream *stream = kh_h2_stream_new(h2, to_stream(frame));
	if (!stream)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	(void)nghttp2_session_set_stream_user_data(session, stream->id, stream);
#ifdef NGHTTP2_EXTPRI_DEFAULT_URGENCY
	/* Fair among streams, whatever the peer says of their priority. */
	static const nghttp2_extpri fair = { .urgency = NGHTTP2_EXTPRI_DEFAULT_URGENCY, .inc = 1 };
	(void)nghttp2_session_change_extpri_stream_priority(session, stream->id, &fair, 1);
#endif
	return 0;
}

static struct kh_slice rcbuf_view(nghttp2_rcbuf *rcbuf)
{
	nghttp2_vec vec = nghttp2_rcbuf_get_buf(rcbuf);

	return kh_slice_of(vec.base, vec.len);
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, nghttp2_rcbuf *name,
		     nghttp2_rcbuf *value, uint8_t flags, void *arg)
{
	struct kh_h2 *h2 = arg;

	(void)session;
	(void)frame;
	(void)flags;
	if (kh_h2_is_failed(h2))
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	size_t before = h2->section->decoded_bytes;
	if (!kh_h2_section_add(h2->section, rcbuf_view(name), rcbuf_view(value))) {
		calm_down(h2, "a field section that is far too large");
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	}
	h2->turn_bytes += h2->section->decoded_bytes - before;
	return pause_or_go_on(h2);
}

/* Never left out and passed over. */
static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame,
			     nghttp2_rcbuf *name, nghttp2_rcbuf *value, uint8_t flags, void *arg)
{
	(void)session;
	(void)frame;
	(void)name;
	(void)value;
	(void)flags;
	(void)arg;
	return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static void turn_down(struct kh_h2_stream *stream, const struct kh_err *err, uint32_t code)
{
	(void)nghttp2_submit_rst_stream(stream->h2->session, NGHTTP2_FLAG_NONE, stream->id, code);
	kh_h2_tell_reset(stream, err, code);
}

static void malformed(struct kh_h2_stream *stream, const struct kh_err *err)
{
	turn_down(stream, err, NGHTTP2_PROTOCOL_ERROR);
}

/* Of the streams that may be open, most are for tunnels alone. Return: false: it is one too many,
 * which was told to try again (RFC 9113 §8.7). */
static bool count_exchange(struct kh_h2_stream *stream)
{
	struct kh_h2 *h2 = stream->h2;
	struct kh_err err = KH_ERR_INIT;

	if (h2->settings.role != KH_H2_SERVER || kh_h2_section_is_tunnel(h2->section))
		return true;
	if (h2->settings.max_exchanges > 0 && h2->n_exchanges >= h2->settings.max_exchanges) {
		kh_err_set(&err, KH_ERR_LIMIT, "too many requests on one HTTP/2 connection");
		turn_down(stream, &err, NGHTTP2_REFUSED_STREAM);
		return false;
	}
	stream->is_exchange = true;
	h2->n_exchanges++;
	return true;
}

/* Its answer may be read; what still comes of it is dropped. */
static void refuse(struct kh_h2_stream *stream, const struct kh_err *err)
{
	struct kh_h2_event event = { .kind = KH_H2_REFUSED, .err = err };

	if (!kh_h2_set_recv(stream, KH_H2_RECV_CONTENT) || !kh_h2_set_hold(stream, KH_H2_HOLD_HELD))
		return;
	stream->refs++;
	kh_h2_tell(stream->h2, stream, &event);
}

static void take_head(struct kh_h2_stream *stream, bool end)
{
	struct kh_h2 *h2 = stream->h2;
	struct kh_h2_event event = { .kind = KH_H2_HEAD };
	struct kh_err err = KH_ERR_INIT;
	struct kh_h2_head *head;

	if (!count_exchange(stream))
		return;
	switch (kh_h2_head_read(h2, stream, end, &head, &err)) {
	case KH_H2_FINE:
		break;
	case KH_H2_TO_REFUSE:
		refuse(stream, &err);
		return;
	case KH_H2_MALFORMED:
		malformed(stream, &err);
		return;
	case KH_H2_NO_MEMORY:
		kh_h2_fail(h2, NGHTTP2_INTERNAL_ERROR, KH_ERR_NO_MEMORY, err.text);
		return;
	}
	event.message = kh_h2_head_message(head);
	if (h2->settings.role == KH_H2_CLIENT && event.message->status < 200) {
		stream->interim_bytes += h2->section->decoded_bytes;
		if (++stream->interims > KH_LIMIT_INTERIM_RESPONSES ||
		    stream->interim_bytes > KH_LIMIT_INTERIM_BYTES) {
			kh_err_set(&err, KH_ERR_RESPONSE_MALFORMED, "too many interim responses");
			malformed(stream, &err);
		} else {
			kh_h2_tell(h2, stream, &event);
		}
		kh_h2_head_free(head);
		return;
	}
	stream->head = head;
	h2->head_bytes += kh_h2_head_bytes(head);
	if (!kh_h2_set_recv(stream, KH_H2_RECV_CONTENT))
		return;
	if (h2->settings.role == KH_H2_SERVER) {
		stream->asked = kh_h2_asked_of(event.message->method);
		if (!kh_h2_set_hold(stream, KH_H2_HOLD_HELD))
			return;
		stream->refs++;
	}
	kh_h2_tell(h2, stream, &event);
}

/* §8.5: nothing but DATA follows. */
static bool is_connected(const struct kh_h2_stream *stream)
{
	return stream->asked == KH_H2_ASKED_CONNECT &&
	       (stream->h2->settings.role == KH_H2_SERVER ||
		kh_h2_head_message(stream->head)->status / 100 == 2);
}

static bool take_trailers(struct kh_h2_stream *stream)
{
	struct kh_err err = KH_ERR_INIT;

	if (is_connected(stream)) {
		kh_err_set(&err, kh_h2_malformed_code(stream->h2),
			   "HTTP/2: fields after what CONNECT has opened");
		malformed(stream, &err);
		return false;
	}
	switch (kh_h2_trailers_read(stream->h2, &stream->tail, &err)) {
	case KH_H2_FINE:
		stream->h2->head_bytes += kh_h2_head_bytes(stream->tail);
		return true;
	case KH_H2_NO_MEMORY:
		kh_h2_fail(stream->h2, NGHTTP2_INTERNAL_ERROR, KH_ERR_NO_MEMORY, err.text);
		return false;
	case KH_H2_TO_REFUSE:
	case KH_H2_MALFORMED:
		break;
	}
	malformed(stream, &err);
	return false;
}

static void on_headers(struct kh_h2_stream *stream, const nghttp2_frame *frame)
{
	struct kh_h2 *h2 = stream->h2;
	bool end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

	kh_h2_stream_ref(stream);
	if (kh_h2_got_head(stream)) {
		if (!take_trailers(stream))
			end = false;
	} else if (stream->life == KH_H2_LIFE_LIVE) {
		take_head(stream, end);
	}
	if (end && stream->life == KH_H2_LIFE_LIVE && kh_h2_got_head(stream) && stream->h2)
		kh_h2_take_end(stream);
	kh_h2_section_rest(h2);
	kh_h2_stream_unref(stream);
}

static void on_settings(struct kh_h2 *h2, const nghttp2_frame *frame)
{
	struct kh_h2_event event = { .kind = KH_H2_SETTINGS };

	if (frame->hd.flags & NGHTTP2_FLAG_ACK)
		return;
	bool extended = nghttp2_session_get_remote_settings(
				h2->session, NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL) == 1;
	if (kh_h2_set_peer(h2, extended ? KH_H2_PEER_EXTENDED : KH_H2_PEER_PLAIN))
		kh_h2_tell(h2, NULL, &event);
}

static void on_goaway(struct kh_h2 *h2, const nghttp2_frame *frame)
{
	struct kh_h2_event event = { .kind = KH_H2_GOAWAY, .code = frame->goaway.error_code };

	if (h2->state == KH_H2_STATE_OPEN)
		(void)kh_h2_set_state(h2, KH_H2_STATE_PEER_LEAVES);
	else if (h2->state == KH_H2_STATE_WE_LEAVE)
		(void)kh_h2_set_state(h2, KH_H2_STATE_BOTH_LEAVE);
	kh_h2_tell(h2, NULL, &event);
}

/* Padding alone is nothing. */
static void on_data_frame(struct kh_h2 *h2, const nghttp2_frame *frame)
{
	if (frame->hd.length > frame->data.padlen || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		kh_h2_guard_work(h2);
	else if (frame->hd.length > 0)
		idle(h2);
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct kh_h2 *h2 = arg;
	struct kh_h2_event pong = { .kind = KH_H2_PONG };
	struct kh_h2_stream *stream;

	(void)session;
	if (kh_h2_is_failed(h2))
		return 0;
	switch (frame->hd.type) {
	case NGHTTP2_HEADERS:
		kh_h2_guard_work(h2);
		stream = kh_h2_stream_find(h2, to_stream(frame));
		if (stream)
			on_headers(stream, frame);
		break;
	case NGHTTP2_DATA:
		on_data_frame(h2, frame);
		stream = kh_h2_stream_find(h2, to_stream(frame));
		if (stream && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) &&
		    stream->life == KH_H2_LIFE_LIVE)
			kh_h2_take_end(stream);
		break;
	case NGHTTP2_RST_STREAM:
		stream = kh_h2_stream_find(h2, to_stream(frame));
		/* What is complete on both sides costs nothing to give up. */
		if (!stream)
			idle(h2);
		else if (!(kh_h2_got_end(stream) && stream->sent == KH_H2_SENT_END) &&
			 !kh_h2_guard_reset(h2))
			calm_down(h2, "too many streams given up");
		break;
	case NGHTTP2_SETTINGS:
		on_settings(h2, frame);
		break;
	case NGHTTP2_GOAWAY:
		on_goaway(h2, frame);
		break;
	case NGHTTP2_PING:
		if (frame->hd.flags & NGHTTP2_FLAG_ACK)
			kh_h2_tell(h2, NULL, &pong);
		break;
	default:
		break;
	}
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *data,
		   size_t len, void *arg)
{
	struct kh_h2 *h2 = arg;
	struct kh_h2_stream *stream = kh_h2_stream_find(h2, stream_id);

	(void)flags;
	if (!stream || kh_h2_is_failed(h2))
		return nghttp2_session_consume(session, stream_id, len) == NGHTTP2_ERR_NOMEM
			       ? NGHTTP2_ERR_CALLBACK_FAILURE
			       : 0;
	/* nghttp2 has held it against the window, which is the cap. */
	if (len > 0 && !kh_h2_take_body(stream, kh_slice_of(data, len)))
		kh_h2_fail(h2, NGHTTP2_INTERNAL_ERROR, KH_ERR_NO_MEMORY, "no memory for content");
	h2->turn_bytes += len / KH_LIMIT_WORK_CONTENT;
	return pause_or_go_on(h2);
}

/* A stream error that nghttp2 has found: it resets the stream itself. */
static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int lib_error,
			    void *arg)
{
	struct kh_h2 *h2 = arg;
	struct kh_h2_stream *stream =
		kh_h2_is_failed(h2) ? NULL : kh_h2_stream_find(h2, to_stream(frame));
	struct kh_err err = KH_ERR_INIT;

	(void)session;
	/* One that is refused, past our settings, was counted as a frame that carries nothing. */
	if (!stream)
		return 0;
	kh_err_set(&err, kh_h2_malformed_code(h2), "%s: HTTP/2: %s",
		   h2->settings.role == KH_H2_SERVER ? "request" : "response",
		   nghttp2_strerror(lib_error));
	kh_h2_tell_reset(stream, &err, NGHTTP2_PROTOCOL_ERROR);
	return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t code, void *arg)
{
	struct kh_h2_stream *stream = nghttp2_session_get_stream_user_data(session, stream_id);

	(void)arg;
	if (stream) {
		(void)nghttp2_session_set_stream_user_data(session, stream_id, NULL);
		kh_h2_stream_closed(stream, code);
	}
	return 0;
}

void kh_h2_set_recv_callbacks(nghttp2_session_callbacks *callbacks)
{
	nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback2(callbacks, on_header);
	nghttp2_session_callbacks_set_on_invalid_header_callback2(callbacks, on_invalid_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
}
