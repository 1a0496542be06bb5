/* load_ws.c - --websocket: one upgrade a connection, then message after message, each echoed */
#include "load.h"

bool load_ws_put(struct load_conn *c)
{
	struct load *load = c->load;
	const struct kh_ws_frame frame = {
		.opcode = KH_WS_BINARY,
		.begin = true,
		.end = true,
		.payload = kh_slice_of(load->body, (size_t)load->body_bytes),
	};
	/* Any will do here: nobody is to be kept from guessing it. */
	const uint8_t key[4] = { 0x5a, (uint8_t)c->id, (uint8_t)(c->id >> 8), 0xa5 };

	if (c->open)
		return kh_ws_put(&c->out, &frame, key);
	return kh_buf_printf(&c->out,
			     "GET %s HTTP/1.1\r\nhost: %s\r\nconnection: upgrade\r\n"
			     "upgrade: websocket\r\nsec-websocket-version: 13\r\n"
			     "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
			     load->path, load->authority_text);
}

/* The upgrade itself is not a message, and is not counted. */
int load_ws_take(struct load_conn *c)
{
	struct kh_ws_frame frame;
	struct kh_slice in = kh_buf_view(&c->in);
	const char *end;

	if (!c->open) {
		end = memmem(in.ptr, in.len, "\r\n\r\n", 4);
		if (!end)
			return 0;
		if (in.len < 12 || memcmp(in.ptr + 8, " 101", 4) != 0)
			return -1;
		kh_buf_consume(&c->in, (size_t)(end - in.ptr) + 4);
		c->open = true;
		kh_ws_init(&c->ws, KH_WS_BARE);
		return load_ws_put(c) ? 2 : -1;
	}
	for (;;) {
		char *at = c->in.data + c->in.head;
		size_t left = kh_buf_len(&c->in), before = left;
		enum kh_ws_event event = kh_ws_feed(&c->ws, kh_clock_mono_ms(), &at, &left, &frame);
		kh_buf_consume(&c->in, before - left);
		if (event != KH_WS_FRAME)
			return event == KH_WS_ERROR ? -1 : 0;
		c->load->bytes += frame.payload.len;
		if (frame.end)
			break;
	}
	c->response.status = 200; /* so that it counts as a request that went well */
	c->response.keep = true;
	return 1;
}
