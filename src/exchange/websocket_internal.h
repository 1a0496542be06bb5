/* websocket_internal.h - an exchange that asks for a WebSocket, and the WebSocket once it is open
 */
#ifndef KEYHOLE_EXCHANGE_WEBSOCKET_INTERNAL_H
#define KEYHOLE_EXCHANGE_WEBSOCKET_INTERNAL_H

#include <keyhole/http/ws.h>

#include "exchange_internal.h"

/* One direction. */
struct kh_websocket_way {
	struct kh_ws ws;
	struct kh_buf in; /* a head or a piece that is not all there yet */
	uint64_t messages;
	bool ended; /* a close frame has come from its beginning */
	bool shut;  /* a close frame was sent to its end: nothing may follow */
};

struct kh_websocket {
	char key[KH_WS_KEY_BYTES];  /* that the upstream is asked with */
	struct kh_buf protocols;    /* what it is offered: a list, perhaps empty */
	struct kh_slice protocol;   /* what it chose; while the 101's head is there */
	struct kh_websocket_way up; /* from the sandbox to the upstream */
	struct kh_websocket_way down;
	uint16_t code;	     /* of the first close frame; 0: none yet */
	const char *code_by; /* "sandbox", "upstream", "keyhole" */
	uint64_t closing_ms; /* since when a close frame waits for its answer; 0: none does */
};

/* websocket_ask.c: the handshake */
/* Checks what the sandbox asked for and makes x->websocket. */
bool kh_websocket_ask(struct kh_exchange *x, struct kh_err *err);
/* What the handshake adds to the head that goes upstream: views. Return: how many. */
size_t kh_websocket_request_fields(const struct kh_exchange *x, bool h2,
				   struct kh_field fields[KH_UP_UPGRADE_FIELDS]);
/* The upstream's 101, or 200 in HTTP/2. Return: false: the exchange is over. */
bool kh_websocket_answered(struct kh_exchange *x, const struct kh_message *response);

void kh_websocket_free(struct kh_websocket *websocket); /* websocket.c; NULL is fine */
size_t kh_websocket_kept_bytes(const struct kh_websocket *websocket); /* NULL is fine */

/* websocket.c: frames. Bytes as they came from either side; a piece is taken whole. Return: false:
 * the exchange is over. */
bool kh_websocket_from_down(struct kh_exchange *x, struct kh_slice bytes);
bool kh_websocket_from_up(struct kh_exchange *x, struct kh_slice bytes);
/* The connection of that side came to its end. The exchange is over. */
void kh_websocket_down_ended(struct kh_exchange *x);
void kh_websocket_up_ended(struct kh_exchange *x, const struct kh_err *err);
/* Ends it from here: both sides are told (1001) and may answer. Return: false: the exchange is
 * over.
 */
bool kh_websocket_leave(struct kh_exchange *x, enum kh_err_code reason, const char *text);
/* Whatever else went wrong. The exchange is over. */
void kh_websocket_fail(struct kh_exchange *x, const struct kh_err *err);
uint64_t kh_websocket_deadline(const struct kh_exchange *x);
void kh_websocket_timed_out(struct kh_exchange *x);

#endif
