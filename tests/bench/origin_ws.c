/* origin_ws.c - GET /ws: every WebSocket message comes back as it is */
#include "origin.h"

bool origin_switch(struct conn *c, struct kh_slice key)
{
	char accept[KH_WS_ACCEPT_BYTES];

	if (!kh_ws_accept_for(key, accept))
		return false;
	c->switched = true;
	c->in_request = false;
	kh_ws_init(&c->ws, KH_WS_MASKED);
	return kh_buf_printf(&c->out,
			     "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n"
			     "connection: upgrade\r\nsec-websocket-accept: %s\r\n\r\n",
			     accept);
}

bool origin_frames(struct conn *c, bool *ok)
{
	struct kh_ws_frame frame;
	char *at = c->in.data + c->in.head;
	size_t left = kh_buf_len(&c->in), before = left;

	enum kh_ws_event event = kh_ws_feed(&c->ws, kh_clock_mono_ms(), &at, &left, &frame);
	if (event == KH_WS_FRAME)
		*ok = kh_ws_put(&c->out, &frame, NULL);
	else if (event == KH_WS_ERROR)
		*ok = false;
	kh_buf_consume(&c->in, before - left);
	return *ok && event == KH_WS_FRAME;
}
