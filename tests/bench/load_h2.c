/*
 * load_h2.c - --h2 N: HTTP/2 with N requests under way on each connection
 *
 * Each of the N has a slot that sends one request after another. With --grpc a request is a unary
 * call: one message, and an answer whose trailers say grpc-status 0.
 */
#include <nghttp2/nghttp2.h>

#include "load.h"

enum {
	STREAM_WINDOW_BYTES = 1024 * 1024,
	CONNECTION_WINDOW_BYTES = 16 * 1024 * 1024,
	OUT_AT_ONCE = 64 * 1024,
	NO_GRPC_STATUS = -1
};

struct load_slot {
	struct load_conn *conn;
	bool busy;
	unsigned status;
	int grpc_status;
	uint64_t began_us, id, sent;
	char path[300], x_id[80];
};

struct load_h2 {
	nghttp2_session *session;
	uint64_t n_slots, n_busy;
	struct load_slot slots[];
};

static bool put_request(struct load_slot *slot);

/* ---- what came ---- */

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
		     void *arg)
{
	struct load_slot *slot = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	struct kh_slice which = kh_slice_of(name, name_len);
	bool status = kh_slice_eq(which, KH_SLICE(":status"));
	uint64_t number;

	(void)flags;
	(void)arg;
	if (!slot || (!status && !kh_slice_eq(which, KH_SLICE("grpc-status"))) ||
	    !kh_slice_to_u64(kh_slice_of(value, value_len), &number) || number >= STATUSES)
		return 0;
	if (status)
		slot->status = (unsigned)number;
	else
		slot->grpc_status = (int)number;
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
		   size_t len, void *arg)
{
	struct load_conn *c = arg;

	(void)session;
	(void)flags;
	(void)id;
	(void)data;
	c->load->bytes += len;
	return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
	struct load_conn *c = arg;
	struct load_slot *slot = nghttp2_session_get_stream_user_data(session, id);
	bool ok = code == NGHTTP2_NO_ERROR && slot && slot->status >= 200;

	if (!slot)
		return 0;
	slot->busy = false;
	c->h2->n_busy--;
	if (ok && c->load->grpc && slot->grpc_status != 0)
		load_count_fault(c->load, LOAD_FAULT_GRPC);
	if (ok)
		load_count(c->load, slot->id, slot->status, slot->began_us);
	else
		load_count_lost(c->load, slot->id, LOAD_FAULT_RESET);
	if (!c->load->hold)
		(void)put_request(slot);
	return 0;
}

/* ---- what goes ---- */

static ssize_t on_read(nghttp2_session *session, int32_t id, uint8_t *into, size_t room,
		       uint32_t *flags, nghttp2_data_source *source, void *arg)
{
	struct load_slot *slot = source->ptr;
	struct load *load = slot->conn->load;
	uint64_t left = load->body_bytes - slot->sent;
	size_t len = left < room ? (size_t)left : room;

	(void)session;
	(void)id;
	(void)arg;
	memcpy(into, load->body + slot->sent, len);
	slot->sent += len;
	load->sent_bytes += len;
	if (slot->sent == load->body_bytes)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)len;
}

static nghttp2_nv pair(const char *name, const char *value)
{
	return (nghttp2_nv){ .name = (uint8_t *)(uintptr_t)name,
			     .value = (uint8_t *)(uintptr_t)value,
			     .namelen = strlen(name),
			     .valuelen = strlen(value),
			     .flags = NGHTTP2_NV_FLAG_NO_COPY_NAME };
}

static size_t fields_of(struct load_slot *slot, nghttp2_nv *nv)
{
	const struct load *load = slot->conn->load;
	size_t n = 0;

	nv[n++] = pair(":method", load->method);
	nv[n++] = pair(":scheme", "https");
	nv[n++] = pair(":authority", load->authority_text);
	nv[n++] = pair(":path", load->ids ? slot->path : load->path);
	if (load->ids)
		nv[n++] = pair("x-id", slot->x_id);
	if (load->grpc) {
		nv[n++] = pair("content-type", "application/grpc");
		nv[n++] = pair("te", "trailers");
	} else if (load->body_bytes > 0) {
		nv[n++] = pair("content-length", load->length_text);
	}
	return n;
}

static bool put_request(struct load_slot *slot)
{
	enum { MOST_FIELDS = 8 };
	struct load_conn *c = slot->conn;
	nghttp2_nv nv[MOST_FIELDS];
	nghttp2_data_provider provider = { .source.ptr = slot, .read_callback = on_read };

	slot->id = load_next_id(c->load);
	if (slot->id == 0)
		return false;
	if (c->load->ids) {
		snprintf(slot->x_id, sizeof(slot->x_id), "%s-%" PRIu64, c->load->ids, slot->id);
		snprintf(slot->path, sizeof(slot->path), "%s/%s", c->load->path, slot->x_id);
	}
	slot->status = 0;
	slot->grpc_status = NO_GRPC_STATUS;
	slot->sent = 0;
	slot->began_us = kh_clock_mono_us();
	if (nghttp2_submit_request(c->h2->session, NULL, nv, fields_of(slot, nv),
				   c->load->body_bytes > 0 ? &provider : NULL, slot) < 0) {
		load_count_lost(c->load, slot->id, LOAD_FAULT_HTTP);
		return false;
	}
	slot->busy = true;
	c->h2->n_busy++;
	return true;
}

/* ---- a connection ---- */

static nghttp2_session *new_session(struct load_conn *c)
{
	const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW_BYTES },
	};
	nghttp2_session_callbacks *callbacks;
	nghttp2_session *session;

	if (nghttp2_session_callbacks_new(&callbacks) != 0)
		bench_die("load: no memory");
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
	if (nghttp2_session_client_new(&session, callbacks, c) != 0 ||
	    nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings,
				    sizeof(settings) / sizeof(*settings)) != 0 ||
	    nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0,
						  CONNECTION_WINDOW_BYTES) != 0)
		bench_die("load: no memory");
	nghttp2_session_callbacks_del(callbacks);
	return session;
}

bool load_h2_begin(struct load_conn *c)
{
	const unsigned char *alpn;
	unsigned len;

	SSL_get0_alpn_selected(c->ssl, &alpn, &len);
	if (!kh_slice_eq(kh_slice_of(alpn, len), KH_SLICE("h2")))
		return false;
	c->h2 = calloc(1, sizeof(*c->h2) + c->load->h2 * sizeof(*c->h2->slots));
	if (!c->h2)
		bench_die("load: no memory");
	c->h2->n_slots = c->load->h2;
	c->h2->session = new_session(c);
	for (uint64_t i = 0; i < c->h2->n_slots; i++) {
		c->h2->slots[i].conn = c;
		(void)put_request(&c->h2->slots[i]);
	}
	return true;
}

bool load_h2_turn(struct load_conn *c)
{
	nghttp2_session *session = c->h2->session;
	struct kh_slice in = kh_buf_view(&c->in);
	const uint8_t *bytes;
	ssize_t n;

	if (in.len > 0) {
		if (nghttp2_session_mem_recv(session, (const uint8_t *)in.ptr, in.len) < 0)
			return false;
		kh_buf_consume(&c->in, in.len);
	}
	while (kh_buf_len(&c->out) < OUT_AT_ONCE &&
	       (n = nghttp2_session_mem_send(session, &bytes)) != 0)
		if (n < 0 || !kh_buf_append(&c->out, bytes, (size_t)n))
			return false;
	return kh_buf_len(&c->out) > 0 || nghttp2_session_want_read(session) != 0;
}

bool load_h2_has_more(const struct load_conn *c)
{
	return nghttp2_session_want_write(c->h2->session) != 0;
}

bool load_h2_is_idle(const struct load_conn *c)
{
	return c->h2->n_busy == 0;
}

void load_h2_end(struct load_conn *c)
{
	struct load_h2 *h2 = c->h2;

	if (!h2)
		return;
	/* What goes down with it has its end, too. */
	for (uint64_t i = 0; i < h2->n_slots; i++)
		if (h2->slots[i].busy)
			load_count_lost(c->load, h2->slots[i].id, LOAD_FAULT_COUNT);
	nghttp2_session_del(h2->session);
	free(h2);
	c->h2 = NULL;
}
