/*
 * h2_send.c - heads and data on their way out
 *
 * nghttp2 asks for data when windows allow it. What the caller has put waits in the stream until
 * then, and goes straight from there into the connection's buffer. Heads come out of a buffer that
 * nghttp2 reuses for the next frame; it is wiped once its bytes are taken.
 */
#include "h2_internal.h"

#include <keyhole/base/block.h>
#include <keyhole/base/hidden.h>
#include <keyhole/base/secret.h>

#include "chars.h"
#include "message_internal.h"

static bool drain_is_full(const struct kh_h2 *h2)
{
	return kh_buf_len(h2->drain) >= KH_LIMIT_RELAY_BYTES;
}

static ssize_t on_send(nghttp2_session *session, const uint8_t *data, size_t len, int flags,
		       void *arg)
{
	struct kh_h2 *h2 = arg;

	(void)session;
	(void)flags;
	if (drain_is_full(h2))
		return NGHTTP2_ERR_WOULDBLOCK;
	if (!kh_buf_append(h2->drain, data, len))
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	/* nghttp2's own memory, which it does not look at again; but for the preface, a constant.
	 */
	if (h2->greeted || h2->settings.role == KH_H2_SERVER)
		kh_secret_wipe((void *)(uintptr_t)data, len);
	h2->greeted = true;
	return (ssize_t)len;
}

static int on_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *framehd,
			size_t len, nghttp2_data_source *source, void *arg)
{
	struct kh_h2 *h2 = arg;
	struct kh_h2_stream *stream = source->ptr;

	(void)session;
	(void)frame;
	if (drain_is_full(h2))
		return NGHTTP2_ERR_WOULDBLOCK;
	if ((stream->out.hide && !kh_buf_hide(h2->drain)) ||
	    !kh_buf_append(h2->drain, framehd, KH_H2_FRAME_HEAD_BYTES) ||
	    !kh_buf_append(h2->drain, kh_buf_view(&stream->out).ptr, len))
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	kh_buf_consume(&stream->out, len);
	h2->out_bytes -= len;
	/* Not where the peer's window cut it short. */
	if (kh_buf_len(&stream->out) == 0 || len >= 1024)
		kh_h2_guard_work(h2);
	kh_h2_guard_sent(h2, len);
	kh_h2_line_tell_if_writable(stream);
	return 0;
}

static void free_trailers(struct kh_h2_stream *stream)
{
	kh_block_give(stream->put_tail);
	stream->put_tail = NULL;
	stream->n_put_tail = 0;
}

static ssize_t on_read_data(nghttp2_session *session, int32_t stream_id, uint8_t *buf, size_t room,
			    uint32_t *data_flags, nghttp2_data_source *source, void *arg)
{
	struct kh_h2_stream *stream = source->ptr;
	size_t len = kh_buf_len(&stream->out);

	(void)buf;
	(void)arg;
	if (len == 0 && !kh_h2_has_put_end(stream)) {
		(void)kh_h2_set_flow(stream, KH_H2_FLOW_DRY);
		return NGHTTP2_ERR_DEFERRED;
	}
	*data_flags |= NGHTTP2_DATA_FLAG_NO_COPY;
	if (len > room)
		return (ssize_t)room;
	if (kh_h2_has_put_end(stream)) {
		*data_flags |= NGHTTP2_DATA_FLAG_EOF;
		if (stream->n_put_tail > 0) {
			*data_flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
			if (nghttp2_submit_trailer(session, stream_id, stream->put_tail,
						   stream->n_put_tail) != 0)
				return NGHTTP2_ERR_CALLBACK_FAILURE;
			free_trailers(stream); /* nghttp2 has its own */
		}
	}
	return (ssize_t)len;
}

/* One that nobody here wanted: nghttp2 found its content to be wrong, and says so nowhere else. */
static void on_reset_sent(struct kh_h2_stream *stream, uint32_t code)
{
	struct kh_h2 *h2 = stream->h2;
	struct kh_err err = KH_ERR_INIT;

	if (stream->life == KH_H2_LIFE_DROPPED)
		return;
	if (!kh_h2_guard_reset(h2))
		kh_h2_fail(h2, NGHTTP2_ENHANCE_YOUR_CALM, KH_ERR_LIMIT,
			   "too many streams that had to be reset");
	kh_err_set(&err, kh_h2_malformed_code(h2), "%s: content that its head does not announce",
		   h2->settings.role == KH_H2_SERVER ? "request" : "response");
	kh_h2_tell_reset(stream, &err, code);
}

void kh_h2_show_head(struct kh_h2_stream *stream)
{
	if (stream->hidden_head && stream->h2)
		stream->h2->n_hidden--;
	stream->hidden_head = false;
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct kh_h2 *h2 = arg;
	struct kh_h2_stream *stream = kh_h2_stream_find(h2, frame->hd.stream_id);

	/* nghttp2 ends a connection by itself where the peer broke the protocol. */
	if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR)
		kh_h2_fail(h2, frame->goaway.error_code, kh_h2_malformed_code(h2),
			   "the peer broke the protocol");
	if (frame->hd.type == NGHTTP2_HEADERS)
		kh_h2_line_left(h2, stream, &frame->headers);
	if (!stream)
		return 0;
	if (frame->hd.type == NGHTTP2_RST_STREAM) {
		on_reset_sent(stream, frame->rst_stream.error_code);
		return 0;
	}
	if (frame->hd.type == NGHTTP2_HEADERS) {
		if (stream->sent == KH_H2_SENT_NONE)
			(void)kh_h2_set_sent(stream, KH_H2_SENT_HEAD);
		kh_h2_show_head(stream);
	}
	if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
	    (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) {
		(void)kh_h2_set_sent(stream, KH_H2_SENT_END);
		/* RFC 9113 §8.1: answered before all of the request was here. Or a tunnel that its
		   client has left. */
		if (stream->hold == KH_H2_HOLD_RELEASED && !kh_h2_got_end(stream)) {
			if (stream->life != KH_H2_LIFE_DROPPED)
				(void)kh_h2_set_life(stream, KH_H2_LIFE_DROPPED);
			(void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream->id,
							h2->settings.role == KH_H2_SERVER
								? NGHTTP2_NO_ERROR
								: NGHTTP2_CANCEL);
		}
	}
	return 0;
}

void kh_h2_set_send_callbacks(nghttp2_session_callbacks *callbacks)
{
	nghttp2_session_callbacks_set_send_callback(callbacks, on_send);
	nghttp2_session_callbacks_set_send_data_callback(callbacks, on_send_data);
	nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
	kh_h2_line_set_callbacks(callbacks);
}

/* ---- name/value pairs for nghttp2, which copies them ---- */

struct pairs {
	nghttp2_nv *nv; /* names in lower case behind them, in the same memory */
	size_t n;
	bool own; /* the values too */
};

static size_t text_bytes(const struct kh_field *fields, size_t n, bool values)
{
	size_t len = 0;

	for (size_t i = 0; i < n; i++)
		len += fields[i].name.len + (values ? fields[i].value.len : 0);
	return len;
}

static bool is_sendable(const struct kh_field *field)
{
	return kh_chars_are_token(field->name) &&
	       kh_slice_trim(field->value).len == field->value.len &&
	       kh_chars_clean_run(field->value.ptr, field->value.len) == field->value.len;
}

/* `own`: they outlive the fields. */
static bool pairs_new(struct pairs *pairs, size_t n_pseudo, const struct kh_field *fields, size_t n,
		      bool own)
{
	*pairs = (struct pairs){ .n = n_pseudo, .own = own };
	for (size_t i = 0; i < n; i++)
		if (!is_sendable(&fields[i]))
			return false;
	size_t size = (n_pseudo + n) * sizeof(*pairs->nv) + text_bytes(fields, n, own) + 1;
	pairs->nv = kh_block_get(&size);
	return pairs->nv != NULL;
}

static void pair_set(nghttp2_nv *nv, struct kh_slice name, struct kh_slice value, uint8_t flags)
{
	*nv = (nghttp2_nv){ .name = (uint8_t *)(uintptr_t)name.ptr,
			    .value = (uint8_t *)(uintptr_t)value.ptr,
			    .namelen = name.len,
			    .valuelen = value.len,
			    .flags = flags };
}

static void pairs_add(struct pairs *pairs, size_t n_pseudo, const struct kh_field *fields, size_t n,
		      size_t n_secret)
{
	char *text = (void *)(pairs->nv + n_pseudo + n);

	for (size_t i = 0; i < n; i++) {
		struct kh_slice name = { text, fields[i].name.len }, value = fields[i].value;

		for (size_t at = 0; at < name.len; at++)
			text[at] = kh_lower(fields[i].name.ptr[at]);
		text += name.len;
		if (pairs->own) {
			if (value.len > 0)
				memcpy(text, value.ptr, value.len);
			value.ptr = text;
			text += value.len;
		}
		pair_set(&pairs->nv[pairs->n++], name, value,
			 i + n_secret >= n ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE);
	}
}

/* Return: false for what could not be read back as it is. */
static bool is_request_sendable(const struct kh_h2_request *request)
{
	const struct kh_slice parts[] = { request->scheme, request->authority, request->path,
					  request->protocol };

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		for (size_t at = 0; at < parts[i].len; at++)
			if ((unsigned char)parts[i].ptr[at] < 0x21 ||
			    (unsigned char)parts[i].ptr[at] > 0x7e)
				return false;
	return kh_chars_are_token(request->method) && request->authority.len > 0;
}

static void add_request(struct pairs *pairs, const struct kh_h2_request *request)
{
	const struct {
		struct kh_slice name, value;
		bool secret;
	} parts[] = {
		{ KH_SLICE(":method"), request->method, false },
		{ KH_SLICE(":scheme"), request->scheme, false },
		{ KH_SLICE(":authority"), request->authority, false },
		{ KH_SLICE(":path"), request->path, request->path_is_secret },
		{ KH_SLICE(":protocol"), request->protocol, false },
	};

	pairs->n = 0;
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (parts[i].value.len > 0)
			pair_set(&pairs->nv[pairs->n++], parts[i].name, parts[i].value,
				 parts[i].secret ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE);
}

struct kh_h2_stream *kh_h2_put_request(struct kh_h2 *h2, const struct kh_h2_request *request,
				       const struct kh_field *fields, size_t n_fields,
				       size_t n_secret, bool end)
{
	enum { PSEUDO = 5 };
	struct pairs pairs;

	if (h2->settings.role != KH_H2_CLIENT || kh_h2_capacity(h2) == 0 ||
	    !is_request_sendable(request) || !pairs_new(&pairs, PSEUDO, fields, n_fields, false))
		return NULL;
	struct kh_h2_stream *stream = kh_h2_stream_new(h2, 0);
	if (!stream) {
		kh_block_give(pairs.nv);
		return NULL;
	}
	add_request(&pairs, request);
	pairs_add(&pairs, PSEUDO, fields, n_fields, n_secret);
	nghttp2_data_provider provider = { .source.ptr = stream, .read_callback = on_read_data };
	bool hides = n_secret > 0 || request->path_is_secret;
	if (hides)
		kh_hidden_begin();
	stream->id = nghttp2_submit_request(h2->session, NULL, pairs.nv, pairs.n,
					    end ? NULL : &provider, stream);
	if (hides)
		kh_hidden_end();
	stream->hidden_head = hides;
	h2->n_hidden += hides;
	if (stream->id > 0)
		kh_h2_line_put(stream, pairs.nv, pairs.n);
	kh_block_give(pairs.nv);
	stream->asked = kh_h2_asked_of(request->method);
	if (stream->id > 0) {
		(void)kh_h2_set_put(stream, end ? KH_H2_PUT_WHOLE : KH_H2_PUT_HEAD);
		(void)kh_h2_set_hold(stream, KH_H2_HOLD_HELD);
		stream->refs++;
		return stream;
	}
	h2->n_streams--;
	kh_h2_stream_leave(stream);
	kh_h2_stream_unref(stream);
	return NULL;
}

static bool is_open(const struct kh_h2_stream *stream)
{
	return stream->h2 && stream->life == KH_H2_LIFE_LIVE && !kh_h2_is_failed(stream->h2);
}

/* A head may be taken back until the connection is drained. */
static bool keep_head(struct kh_h2_stream *stream, const struct pairs *pairs, bool end)
{
	if (!kh_h2_set_put(stream, end ? KH_H2_PUT_WHOLE : KH_H2_PUT_HEAD)) {
		kh_block_give(pairs->nv);
		return false;
	}
	stream->put_head = pairs->nv;
	stream->n_put_head = pairs->n;
	kh_h2_line_put(stream, pairs->nv, pairs->n);
	kh_list_append(&stream->h2->heads, &stream->head_link);
	return true;
}

/* Each may be left out (RFC 9110 §15.2), and is where others of the stream that have not gone take
 * the room: an upstream can send any number to a peer that reads none. A 100, which somebody waits
 * for, has a place of its own. */
static bool put_interim(struct kh_h2_stream *stream, uint16_t status, const struct pairs *pairs)
{
	bool goes = status == 100 ? !stream->line_100
				  : kh_h2_line_has_room(stream, pairs->nv, pairs->n);
	int rv = 0;

	if (goes)
		rv = nghttp2_submit_headers(stream->h2->session, NGHTTP2_FLAG_NONE, stream->id,
					    NULL, pairs->nv, pairs->n, NULL);
	if (goes && rv == 0) {
		kh_h2_line_put(stream, pairs->nv, pairs->n);
		if (status == 100)
			stream->line_100 = true;
		else
			stream->line_interims++;
	}
	kh_block_give(pairs->nv);
	return rv == 0;
}

bool kh_h2_put_response(struct kh_h2_stream *stream, uint16_t status, const struct kh_field *fields,
			size_t n_fields, bool end)
{
	const char code[3] = { (char)('0' + status / 100), (char)('0' + status / 10 % 10),
			       (char)('0' + status % 10) };
	bool interim = status < 200;
	struct pairs pairs;

	if (!is_open(stream) || stream->put != KH_H2_PUT_NONE || status < 100 || status > 599 ||
	    status == 101 || (interim && end) || !pairs_new(&pairs, 1, fields, n_fields, !interim))
		return false;
	memcpy(stream->status, code, sizeof(code));
	pair_set(&pairs.nv[0], KH_SLICE(":status"), kh_slice_of(stream->status, sizeof(code)),
		 NGHTTP2_NV_FLAG_NONE);
	pairs_add(&pairs, 1, fields, n_fields, 0);
	if (interim)
		return put_interim(stream, status, &pairs);
	return keep_head(stream, &pairs, end);
}

static void free_head(struct kh_h2_stream *stream)
{
	kh_list_remove(&stream->head_link);
	kh_block_give(stream->put_head);
	stream->put_head = NULL;
}

void kh_h2_drop_head(struct kh_h2_stream *stream)
{
	if (stream->put_head && stream->h2)
		kh_h2_line_take(stream->h2, stream, stream->put_head, stream->n_put_head);
	free_head(stream);
}

void kh_h2_drop_trailers(struct kh_h2_stream *stream)
{
	if (stream->put_tail && stream->h2)
		kh_h2_line_take(stream->h2, stream, stream->put_tail, stream->n_put_tail);
	free_trailers(stream);
}

void kh_h2_submit_heads(struct kh_h2 *h2)
{
	while (!kh_list_is_empty(&h2->heads)) {
		struct kh_h2_stream *stream =
			kh_container_of(h2->heads.next, struct kh_h2_stream, head_link);
		nghttp2_data_provider provider = { .source.ptr = stream,
						   .read_callback = on_read_data };

		kh_list_remove(&stream->head_link);
		/* It fails without memory only; then the stream does. */
		if (nghttp2_submit_response(
			    h2->session, stream->id, stream->put_head, stream->n_put_head,
			    stream->put == KH_H2_PUT_WHOLE ? NULL : &provider) == 0) {
			free_head(stream); /* nghttp2 has its own */
			continue;
		}
		kh_h2_drop_head(stream);
		(void)nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, stream->id,
						NGHTTP2_INTERNAL_ERROR);
	}
}

bool kh_h2_take_back(struct kh_h2_stream *stream)
{
	if (!stream->put_head || !is_open(stream) || !kh_h2_set_put(stream, KH_H2_PUT_NONE))
		return false;
	kh_h2_drop_head(stream);
	stream->h2->out_bytes -= kh_buf_len(&stream->out);
	kh_buf_clear(&stream->out);
	kh_h2_drop_trailers(stream);
	if (stream->flow == KH_H2_FLOW_FULL)
		(void)kh_h2_set_flow(stream, KH_H2_FLOW_ON);
	return true;
}

static void wake(struct kh_h2_stream *stream)
{
	if (stream->flow != KH_H2_FLOW_DRY)
		return;
	(void)kh_h2_set_flow(stream, KH_H2_FLOW_ON);
	(void)nghttp2_session_resume_data(stream->h2->session, stream->id);
}

void kh_h2_wipe_content(struct kh_h2_stream *stream)
{
	stream->out.wipe = stream->out.hide = true;
}

bool kh_h2_put_data(struct kh_h2_stream *stream, struct kh_slice bytes)
{
	if (!is_open(stream) || stream->put != KH_H2_PUT_HEAD ||
	    !kh_buf_append_slice(&stream->out, bytes))
		return false;
	stream->h2->out_bytes += bytes.len;
	if (bytes.len > 0)
		wake(stream);
	return true;
}

size_t kh_h2_waiting_bytes(const struct kh_h2_stream *stream)
{
	return kh_buf_len(&stream->out);
}

/* Return: false without memory. nghttp2 takes them when the data in front has gone. */
static bool keep_trailers(struct kh_h2_stream *stream, const struct kh_field *trailers, size_t n)
{
	struct kh_field kept[KH_LIMIT_FIELDS];
	struct pairs pairs;
	size_t n_kept = 0;

	for (size_t i = 0; i < n && n_kept < KH_LIMIT_FIELDS; i++)
		if (is_sendable(&trailers[i]) && !kh_message_is_listed_no_trailer(trailers[i].name))
			kept[n_kept++] = trailers[i];
	if (n_kept == 0)
		return true;
	if (!pairs_new(&pairs, 0, kept, n_kept, true))
		return false;
	pairs_add(&pairs, 0, kept, n_kept, 0);
	stream->put_tail = pairs.nv;
	stream->n_put_tail = pairs.n;
	kh_h2_line_put(stream, pairs.nv, pairs.n);
	return true;
}

bool kh_h2_put_end(struct kh_h2_stream *stream, const struct kh_field *trailers, size_t n)
{
	if (!is_open(stream) || stream->put != KH_H2_PUT_HEAD ||
	    !keep_trailers(stream, trailers, n) || !kh_h2_set_put(stream, KH_H2_PUT_END))
		return false;
	wake(stream);
	return true;
}
