/*
 * websocket_ask.c - the opening handshake of a WebSocket, towards both sides
 *
 * Each side has a handshake of its own. The upstream's has a key that keyhole makes, no extensions
 * (so that frames can be read), and only the subprotocols that carry no key. keyhole answers the
 * sandbox's key. Everything else in both heads is forwarded as in any exchange. An answer other
 * than 101 is a response like any other.
 */

#include "exchange_internal.h"
#include "websocket_internal.h"

enum { PROTOCOLS_BYTES = 8 * 1024 };

/* One frame's head and a piece that are not all there, and what was read behind them. */
static void init_way(struct kh_websocket_way *way, enum kh_ws_side side)
{
	kh_ws_init(&way->ws, side);
	kh_buf_init(&way->in, KH_WS_HEAD_BYTES + KH_WS_PIECE_BYTES + KH_LIMIT_RELAY_BYTES);
}

/* Where no credential goes in, keys among them were refused, or the rule lets them pass. */
static bool put_protocols(const struct kh_exchange *x, struct kh_buf *out)
{
	struct kh_slice list, token;

	if (x->injection.count > 0)
		return kh_carrier_strip_protocols(out, x->message);
	for (size_t i = 0; i < x->message->n_fields; i++) {
		const struct kh_field *field = &x->message->fields[i];
		list = field->value;
		if (!kh_slice_eq_nocase(field->name, KH_SLICE("Sec-WebSocket-Protocol")))
			continue;
		while (kh_ws_next_protocol(&list, &token))
			if ((kh_buf_len(out) && !kh_buf_append_str(out, ", ")) ||
			    !kh_buf_append_slice(out, token))
				return false;
	}
	return true;
}

bool kh_websocket_ask(struct kh_exchange *x, struct kh_err *err)
{
	if (!kh_ws_check_request(x->message, err))
		return false;
	kh_websocket_free(x->websocket); /* decided anew */
	x->websocket = calloc(1, sizeof(*x->websocket));
	if (!x->websocket)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory for a WebSocket");
	kh_buf_init(&x->websocket->protocols, PROTOCOLS_BYTES);
	init_way(&x->websocket->up, KH_WS_MASKED);
	init_way(&x->websocket->down, KH_WS_BARE);
	x->up.upgrades = true;
	x->up.by_h2 = false;
	x->up.connections = 0;
	/* It is all in the head. */
	if (x->message->h2 && !kh_exchange_has_request(x) &&
	    !kh_exchange_set_request(x, KH_REQUEST_DONE, err))
		return false;
	if (!kh_ws_key_new(x->websocket->key))
		return kh_err_set(err, KH_ERR_INTERNAL, "no random bytes for a WebSocket's key");
	if (!put_protocols(x, &x->websocket->protocols))
		return kh_err_set(err, KH_ERR_REQUEST_HEAD_TOO_LARGE,
				  "WebSocket: too many subprotocols");
	return true;
}

struct kh_message *kh_websocket_as_get(const struct kh_message *connect)
{
	struct kh_message *get = malloc(sizeof(*get));

	if (!get)
		return NULL;
	*get = *connect;
	get->method = KH_SLICE("GET");
	get->upgrade = true;
	get->framing = KH_FRAMING_NONE; /* frames are no content */
	return get;
}

size_t kh_websocket_request_fields(const struct kh_exchange *x, bool h2,
				   struct kh_field fields[KH_UP_UPGRADE_FIELDS])
{
	const struct kh_websocket *w = x->websocket;
	struct kh_slice protocols = kh_buf_view(&w->protocols);
	size_t n = 0;

	if (h2) {
		fields[n++] =
			(struct kh_field){ KH_SLICE("sec-websocket-version"), KH_SLICE("13") };
	} else {
		fields[n++] = (struct kh_field){ KH_SLICE("Connection"), KH_SLICE("Upgrade") };
		fields[n++] = (struct kh_field){ KH_SLICE("Upgrade"), KH_SLICE("websocket") };
		fields[n++] =
			(struct kh_field){ KH_SLICE("Sec-WebSocket-Version"), KH_SLICE("13") };
		fields[n++] =
			(struct kh_field){ KH_SLICE("Sec-WebSocket-Key"), kh_slice_str(w->key) };
	}
	if (protocols.len > 0)
		fields[n++] = (struct kh_field){ h2 ? KH_SLICE("sec-websocket-protocol")
						    : KH_SLICE("Sec-WebSocket-Protocol"),
						 protocols };
	return n;
}

bool kh_websocket_switch_fields(const struct kh_exchange *x, bool h2,
				char accept[KH_WS_ACCEPT_BYTES],
				struct kh_field fields[KH_WEBSOCKET_SWITCH_FIELDS], size_t *n)
{
	const struct kh_field *key = kh_message_field(x->message, KH_SLICE("Sec-WebSocket-Key"));
	struct kh_slice protocol = x->websocket->protocol;

	*n = 0;
	if (!h2) {
		if (!key || !kh_ws_accept_for(key->value, accept))
			return false;
		fields[(*n)++] = (struct kh_field){ KH_SLICE("Connection"), KH_SLICE("Upgrade") };
		fields[(*n)++] = (struct kh_field){ KH_SLICE("Upgrade"), KH_SLICE("websocket") };
		fields[(*n)++] =
			(struct kh_field){ KH_SLICE("Sec-WebSocket-Accept"), kh_slice_str(accept) };
	}
	if (protocol.len > 0)
		fields[(*n)++] = (struct kh_field){ h2 ? KH_SLICE("sec-websocket-protocol")
						       : KH_SLICE("Sec-WebSocket-Protocol"),
						    protocol };
	return true;
}

bool kh_websocket_answered(struct kh_exchange *x, const struct kh_message *response)
{
	struct kh_websocket *w = x->websocket;
	struct kh_message switching = *response;
	struct kh_err err = KH_ERR_INIT;

	if (!kh_ws_check_response(response, kh_slice_str(w->key), kh_buf_view(&w->protocols),
				  &w->protocol, &err)) {
		kh_exchange_fail(x, &err);
		return false;
	}
	switching.status = 101;
	if (response->h2)
		switching.reason = KH_SLICE("Switching Protocols");
	if (!kh_exchange_set_answer(x, KH_ANSWER_BEGUN, &err)) {
		kh_exchange_fail(x, &err);
		return false;
	}
	x->status = switching.status;
	x->first_byte_ms = x->side->loop->now_ms;
	struct kh_reflection *reflection = NULL;
	bool ok = kh_reflection_take(x, &switching, &reflection) &&
		  x->down->ops->put_head(x->down, kh_reflection_head(reflection, &switching));
	kh_reflection_free(reflection);
	w->protocol = KH_SLICE("");
	if (!ok) {
		kh_err_set(&err, KH_ERR_RESPONSE_HEAD_TOO_LARGE,
			   "the response's head is too large");
		kh_exchange_fail(x, &err);
		return false;
	}
	x->up.switched = true;
	kh_buf_fini(&w->protocols);
	return !x->side->loop->draining ||
	       kh_websocket_leave(x, KH_ERR_DRAINING, "the daemon ends");
}
