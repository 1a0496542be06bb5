/*
 * h2_line.c - counts what a stream has queued and not sent
 *
 * Windows hold data back, but nothing holds back heads and trailers: nghttp2 keeps them until the
 * peer reads, and those of a closed stream until their turn comes. They are counted from when they
 * are put until nghttp2 has sent them or says that it never will, by the bytes that it keeps for
 * each.
 */
#include "h2_internal.h"

enum { FRAME_BYTES = 16 * 1024 };

/* One that holds less than a frame is never in anybody's way. */
static bool is_full(const struct kh_h2_stream *stream)
{
	const struct kh_h2 *h2 = stream->h2;
	size_t len = kh_buf_len(&stream->out) + stream->line_bytes;

	return len >= KH_LIMIT_RELAY_BYTES ||
	       (len >= FRAME_BYTES && h2 &&
		h2->out_bytes + h2->line_bytes >= KH_LIMIT_H2_OUT_BYTES);
}

void kh_h2_line_tell_if_writable(struct kh_h2_stream *stream)
{
	if (stream->flow != KH_H2_FLOW_FULL || is_full(stream))
		return;
	(void)kh_h2_set_flow(stream, KH_H2_FLOW_ON);
	if (!kh_list_has_node(&stream->writable_link))
		kh_list_append(&stream->h2->writable, &stream->writable_link);
}

static size_t line_bytes_of(const nghttp2_nv *nv, size_t n)
{
	size_t sum = n * sizeof(*nv);

	for (size_t i = 0; i < n; i++)
		sum += nv[i].namelen + nv[i].valuelen;
	return sum;
}

bool kh_h2_line_has_room(const struct kh_h2_stream *stream, const nghttp2_nv *nv, size_t n)
{
	return stream->line_interims == 0 ||
	       stream->line_bytes + line_bytes_of(nv, n) <= FRAME_BYTES;
}

bool kh_h2_has_room_for_interim(const struct kh_h2_stream *stream, uint16_t status, size_t bytes)
{
	if (status == 100)
		return !stream->line_100;
	return stream->line_interims == 0 || stream->line_bytes + bytes <= FRAME_BYTES;
}

void kh_h2_line_put(struct kh_h2_stream *stream, const nghttp2_nv *nv, size_t n)
{
	size_t bytes = line_bytes_of(nv, n);

	stream->line_bytes += bytes;
	stream->h2->line_bytes += bytes;
}

void kh_h2_line_take(struct kh_h2 *h2, struct kh_h2_stream *stream, const nghttp2_nv *nv, size_t n)
{
	size_t bytes = line_bytes_of(nv, n);

	h2->line_bytes -= bytes;
	if (stream)
		stream->line_bytes -= bytes;
}

void kh_h2_line_left(struct kh_h2 *h2, struct kh_h2_stream *stream, const nghttp2_headers *frame)
{
	kh_h2_line_take(h2, stream, frame->nva, frame->nvlen);
	if (!stream)
		return;
	/* Of ours, `:status` comes first. */
	if (frame->nvlen > 0 && frame->nva[0].valuelen == 3 && frame->nva[0].value[0] == '1') {
		if (memcmp(frame->nva[0].value, "100", 3) == 0)
			stream->line_100 = false;
		else
			stream->line_interims--;
	}
	kh_h2_line_tell_if_writable(stream);
}

static int on_frame_not_sent(nghttp2_session *session, const nghttp2_frame *frame, int error,
			     void *arg)
{
	struct kh_h2 *h2 = arg;

	(void)session;
	(void)error;
	if (frame->hd.type == NGHTTP2_HEADERS)
		kh_h2_line_left(h2, kh_h2_stream_find(h2, frame->hd.stream_id), &frame->headers);
	return 0;
}

bool kh_h2_is_full(struct kh_h2_stream *stream)
{
	if (!is_full(stream))
		return false;
	if (stream->flow != KH_H2_FLOW_FULL)
		(void)kh_h2_set_flow(stream, KH_H2_FLOW_FULL);
	return true;
}

size_t kh_h2_head_bytes_in_line(const struct kh_h2_stream *stream)
{
	return stream->line_bytes;
}

void kh_h2_line_set_callbacks(nghttp2_session_callbacks *callbacks)
{
	nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_frame_not_sent);
}
