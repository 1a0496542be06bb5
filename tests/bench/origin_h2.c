/*
 * origin_h2.c - HTTP/2 (--h2-name): /echo, /sink, /bytes/N and /count, many streams at a time
 *
 * Bytes go through the connection's own buffers; nghttp2 has the rest. An /echo of
 * application/grpc ends with trailers.
 */
#include <nghttp2/nghttp2.h>

#include "origin.h"

enum { MOST_STREAMS = 1000, STREAM_WINDOW_BYTES = 1024 * 1024, WINDOW_BYTES = 64 * 1024 * 1024 };

struct stream {
	struct kh_node link;
	struct conn *conn;
	struct kh_buf content; /* of /echo and of short answers */
	enum answer answer;
	uint64_t left, body_bytes; /* of the answer to make; of the request */
	bool grpc;
	char method[16], path[256], x_id[80];
};

static void stream_free(struct stream *s)
{
	kh_list_remove(&s->link);
	kh_buf_fini(&s->content);
	free(s);
}

/* ---- answers ---- */

static nghttp2_nv pair(const char *name, const char *value)
{
	return (nghttp2_nv){ .name = (uint8_t *)(uintptr_t)name,
			     .value = (uint8_t *)(uintptr_t)value,
			     .namelen = strlen(name),
			     .valuelen = strlen(value),
			     .flags = NGHTTP2_NV_FLAG_NO_COPY_NAME };
}

static ssize_t on_read(nghttp2_session *session, int32_t id, uint8_t *into, size_t room,
		       uint32_t *flags, nghttp2_data_source *source, void *arg)
{
	struct stream *s = source->ptr;
	struct kh_slice content = kh_buf_view(&s->content);
	nghttp2_nv trailer = pair("grpc-status", "0");
	size_t len = s->left < room ? (size_t)s->left : room;

	(void)arg;
	if (s->answer == ANSWER_BYTES)
		memset(into, 'x', len);
	else
		memcpy(into, content.ptr, len);
	if (s->answer != ANSWER_BYTES)
		kh_buf_consume(&s->content, len);
	s->left -= len;
	if (s->left > 0)
		return (ssize_t)len;
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	if (s->grpc) {
		*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
		if (nghttp2_submit_trailer(session, id, &trailer, 1) != 0)
			return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	return (ssize_t)len;
}

static bool put_answer(struct stream *s, int32_t id, const char *status)
{
	nghttp2_data_provider provider = { .source.ptr = s, .read_callback = on_read };
	char length[24];
	nghttp2_nv nv[3];

	if (s->answer != ANSWER_BYTES)
		s->left = kh_buf_len(&s->content);
	snprintf(length, sizeof(length), "%" PRIu64, s->left);
	nv[0] = pair(":status", status);
	nv[1] = pair("content-type", s->grpc ? "application/grpc" : "application/octet-stream");
	nv[2] = pair("content-length", length);
	return nghttp2_submit_response(s->conn->h2, id, nv, s->grpc ? 2 : 3, &provider) == 0;
}

static bool answer(struct stream *s, int32_t id)
{
	struct origin *o = s->conn->origin;
	struct kh_slice path = kh_slice_str(s->path);
	const char *status = "200";
	bool ok = true;

	switch (s->answer) {
	case ANSWER_ECHO:
	case ANSWER_BYTES:
		break;
	case ANSWER_SINK:
		ok = kh_buf_printf(&s->content, "{\"bytes\":%" PRIu64 "}\n", s->body_bytes);
		break;
	case ANSWER_NONE:
	case ANSWER_CHUNKS:
	case ANSWER_SSE:
		if (kh_slice_has_prefix(path, KH_SLICE("/count"))) {
			ok = kh_buf_printf(&s->content,
					   "{\"requests\":%" PRIu64 ",\"connections\":%" PRIu64
					   "}\n",
					   o->requests, o->connections);
			break;
		}
		status = "404";
		ok = kh_buf_append_str(&s->content, "{}\n");
		break;
	}
	return ok && put_answer(s, id, status);
}

/* ---- requests ---- */

static int on_begin(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct stream *s;

	if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	s->conn = arg;
	kh_list_append(&s->conn->streams, &s->link);
	kh_buf_init(&s->content, ECHO_BYTES);
	return nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, s);
}

static void copy(char *into, size_t size, const uint8_t *value, size_t len)
{
	len = len < size ? len : size - 1;
	memcpy(into, value, len);
	into[len] = '\0';
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
		     void *arg)
{
	struct stream *s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	struct kh_slice which = kh_slice_of(name, name_len);

	(void)flags;
	(void)arg;
	if (!s)
		return 0;
	if (kh_slice_eq(which, KH_SLICE(":path")))
		copy(s->path, sizeof(s->path), value, value_len);
	else if (kh_slice_eq(which, KH_SLICE(":method")))
		copy(s->method, sizeof(s->method), value, value_len);
	else if (kh_slice_eq(which, KH_SLICE("x-id")))
		copy(s->x_id, sizeof(s->x_id), value, value_len);
	else if (kh_slice_eq(which, KH_SLICE("content-type")))
		s->grpc = kh_slice_eq(kh_slice_of(value, value_len), KH_SLICE("application/grpc"));
	return 0;
}

static void begin(struct stream *s)
{
	struct kh_slice path = kh_slice_str(s->path);
	uint64_t unused;

	s->conn->origin->requests++;
	origin_log(s->conn->origin, kh_slice_str(s->x_id), kh_slice_str(s->method), path);
	if (kh_slice_has_prefix(path, KH_SLICE("/echo")))
		s->answer = ANSWER_ECHO;
	else if (kh_slice_has_prefix(path, KH_SLICE("/sink")))
		s->answer = ANSWER_SINK;
	else if (origin_numbers(path, KH_SLICE("/bytes/"), &s->left, &unused))
		s->answer = ANSWER_BYTES;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
		   size_t len, void *arg)
{
	struct stream *s = nghttp2_session_get_stream_user_data(session, id);

	(void)flags;
	(void)arg;
	if (!s)
		return 0;
	s->body_bytes += len;
	if (s->answer == ANSWER_ECHO && !kh_buf_append(&s->content, data, len))
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct stream *s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

	(void)arg;
	if (!s)
		return 0;
	if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
		begin(s);
	if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
	    (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) && !answer(s, frame->hd.stream_id))
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
	struct stream *s = nghttp2_session_get_stream_user_data(session, id);

	(void)code;
	(void)arg;
	if (!s)
		return 0;
	(void)nghttp2_session_set_stream_user_data(session, id, NULL);
	stream_free(s);
	return 0;
}

/* ---- a connection ---- */

bool origin_h2_begin(struct conn *c)
{
	const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, MOST_STREAMS },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW_BYTES },
	};
	const unsigned char *alpn = NULL;
	nghttp2_session_callbacks *callbacks;
	unsigned len = 0;
	bool ok;

	kh_list_init(&c->streams);
	if (c->ssl)
		SSL_get0_alpn_selected(c->ssl, &alpn, &len);
	if (!kh_slice_eq(kh_slice_of(alpn, len), KH_SLICE("h2")))
		return true;
	if (nghttp2_session_callbacks_new(&callbacks) != 0)
		return false;
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
	ok = nghttp2_session_server_new(&c->h2, callbacks, c) == 0 &&
	     nghttp2_submit_settings(c->h2, NGHTTP2_FLAG_NONE, settings,
				     sizeof(settings) / sizeof(*settings)) == 0 &&
	     nghttp2_session_set_local_window_size(c->h2, NGHTTP2_FLAG_NONE, 0, WINDOW_BYTES) == 0;
	nghttp2_session_callbacks_del(callbacks);
	return ok;
}

bool origin_h2_step(struct conn *c, bool *ok)
{
	struct kh_slice in = kh_buf_view(&c->in);

	if (in.len == 0)
		return false;
	*ok = nghttp2_session_mem_recv(c->h2, (const uint8_t *)in.ptr, in.len) >= 0;
	kh_buf_consume(&c->in, in.len);
	return *ok;
}

bool origin_h2_make(struct conn *c)
{
	const uint8_t *bytes;
	ssize_t n;

	while (kh_buf_len(&c->out) < AHEAD_BYTES &&
	       (n = nghttp2_session_mem_send(c->h2, &bytes)) != 0)
		if (n < 0 || !kh_buf_append(&c->out, bytes, (size_t)n))
			return false;
	return kh_buf_len(&c->out) > 0 || nghttp2_session_want_read(c->h2) != 0;
}

bool origin_h2_has_more(const struct conn *c)
{
	return nghttp2_session_want_write(c->h2) != 0;
}

void origin_h2_end(struct conn *c)
{
	if (!c->h2)
		return;
	nghttp2_session_del(c->h2);
	while (!kh_list_is_empty(&c->streams))
		stream_free(kh_container_of(c->streams.next, struct stream, link));
}
