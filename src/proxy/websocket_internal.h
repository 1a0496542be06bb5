/* websocket_internal.h - an exchange that asks for a WebSocket, and is one once it was answered */
#ifndef KEYHOLE_PROXY_WEBSOCKET_INTERNAL_H
#define KEYHOLE_PROXY_WEBSOCKET_INTERNAL_H

#include <keyhole/ws.h>

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
	bool open;		    /* answered with 101; from then on both ways are frames */
	bool by_h2;		    /* the upstream does not speak HTTP/1.1 */
	unsigned connections;	    /* of HTTP/2 that were made for it */
	char key[KH_WS_KEY_BYTES];  /* that the upstream is asked with */
	struct kh_buf protocols;    /* what it is offered: a list, perhaps empty */
	struct kh_slice protocol;   /* what it chose; while the 101's head is there */
	struct kh_websocket_way up; /* from the sandbox to the upstream */
	struct kh_websocket_way down;
	uint16_t code;	     /* of the first close frame; 0: none yet */
	const char *code_by; /* "sandbox", "upstream", "keyhole" */
	uint64_t closing_ms; /* since when a close frame waits for its answer; 0: none does */
};

static inline bool kh_exchange_is_websocket(const struct kh_exchange *x)
{
	return x->websocket && x->websocket->open;
}

/* websocket_ask.c: the handshake */
/* Checks what the sandbox asked for and makes x->websocket. */
bool kh_websocket_ask(struct kh_exchange *x, struct kh_err *err);
void kh_websocket_free(struct kh_websocket *websocket);
/* Extended CONNECT (RFC 8441) as the GET that it stands for; a copy, on the heap. NULL without
 * memory. */
struct kh_message *kh_websocket_as_get(const struct kh_message *connect);
/* HTTP/1: what the handshake adds to the head that goes upstream, and to the 101 that goes down. */
bool kh_websocket_put_request(const struct kh_exchange *x, struct kh_buf *out);
bool kh_websocket_put_switch(const struct kh_exchange *x, struct kh_buf *out);
/* HTTP/2: what goes beside the fields of the head. Return: how many. */
enum { KH_WEBSOCKET_H2_FIELDS = 2 };
size_t kh_websocket_h2_fields(const struct kh_exchange *x, struct kh_field *fields);
/* The upstream's 101, or 200 in HTTP/2. Return: false: the exchange is over. */
bool kh_websocket_answered(struct kh_exchange *x, const struct kh_message *response);

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
