/* origin.h - the parts of the origin: connections (origin.c), HTTP (origin_http.c), HTTP/2
 * (origin_h2.c), WebSocket (origin_ws.c) */
#ifndef KEYHOLE_TESTS_ORIGIN_H
#define KEYHOLE_TESTS_ORIGIN_H

#include <event2/event.h>
#include <openssl/ssl.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/host.h>
#include <keyhole/base/list.h>
#include <keyhole/http/ws.h>

#include "bench.h"

enum {
	MOST_NAMES = 16,
	HEAD_BYTES = 64 * 1024,
	ECHO_BYTES = 16 * 1024 * 1024,
	READ_BYTES = 16 * 1024,
	OUT_BYTES = ECHO_BYTES + HEAD_BYTES,
	/* Content that is made ahead of what the client takes. */
	AHEAD_BYTES = 64 * 1024,
};

struct origin {
	struct event_base *base;
	struct kh_host names[MOST_NAMES];
	SSL_CTX *contexts[MOST_NAMES];
	bool in_h2[MOST_NAMES]; /* HTTP/2 is offered */
	size_t n_names;
	FILE *log;
	uint64_t requests, connections;
	char filler[READ_BYTES];
};

enum body { BODY_NONE = 0, BODY_LENGTH, BODY_CHUNK_SIZE, BODY_CHUNK, BODY_CHUNK_END, BODY_TRAILER };
enum answer { ANSWER_NONE = 0, ANSWER_ECHO, ANSWER_SINK, ANSWER_BYTES, ANSWER_CHUNKS, ANSWER_SSE };

struct conn {
	struct origin *origin;
	int fd;
	SSL *ssl; /* NULL: plain */
	struct event *readable, *writable, *timer;
	bool handshaken, write_blocked, close;

	struct kh_buf in, out, content;
	enum body body;
	uint64_t body_left, body_bytes;
	/* What is being answered; BYTES and later ones make their content as it is taken. */
	enum answer answer;
	uint64_t left, size, step_ms, next_ms;
	bool in_request; /* its head was read, its body not yet */
	bool switched;	 /* to WebSocket */
	struct kh_ws ws;
	struct nghttp2_session *h2;
	struct kh_node streams;
};

/* One step through what came. Return: false when more is needed; *ok false: it is no HTTP. */
bool origin_step(struct conn *c, bool *ok);
/* More of the answer, as far ahead as allowed. Return: false when it broke. *waits: for the time of
 * the next event. */
bool origin_make(struct conn *c, bool *waits);

/* A line of the log, where there is one. */
void origin_log(const struct origin *o, struct kh_slice id, struct kh_slice method,
		struct kh_slice path);
/* Numbers behind a prefix: "/chunks/3/100" gives 3 and 100. */
bool origin_numbers(struct kh_slice path, struct kh_slice prefix, uint64_t *a, uint64_t *b);

/* After the handshake: c->h2, where that was agreed upon. */
bool origin_h2_begin(struct conn *c);
/* As origin_step and origin_make. */
bool origin_h2_step(struct conn *c, bool *ok);
bool origin_h2_make(struct conn *c);
bool origin_h2_has_more(const struct conn *c);
void origin_h2_end(struct conn *c);

/* Answers an upgrade with this key. */
bool origin_switch(struct conn *c, struct kh_slice key);
/* As origin_step, once it has switched. */
bool origin_frames(struct conn *c, bool *ok);

#endif
