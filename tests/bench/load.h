/* load.h - the parts of the load generator: what it counts (load.c), a connection's life
 * (load_conn.c), SOCKS5 (load_socks.c), responses (load_http.c), messages (load_ws.c), HTTP/2
 * (load_h2.c) */
#ifndef KEYHOLE_TESTS_LOAD_H
#define KEYHOLE_TESTS_LOAD_H

#include <sys/socket.h>

#include <event2/event.h>
#include <openssl/ssl.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/clock.h>
#include <keyhole/http/target.h>
#include <keyhole/http/ws.h>

#include "bench.h"

enum { READ_BYTES = 16 * 1024, STATUSES = 600 };

/* What went wrong with a connection, one counter each. */
#define LOAD_FAULTS(X) \
	X(CONNECT, "connect") /* the proxy's socket did not take it */ \
	X(TUNNEL, "tunnel")   /* CONNECT was not answered by 200 */ \
	X(TLS, "tls")	      /* handshake, certificate */ \
	X(CLOSED, "closed")   /* the end came inside a request */ \
	X(HTTP, "http")	      /* what came is no response */ \
	X(RESET, "reset")     /* HTTP/2: the stream was given up */ \
	X(GRPC, "grpc")	      /* a call that did not end with grpc-status 0 */ \
	X(TIMEOUT, "timeout")
enum load_fault {
#define LOAD_ENUM(name, text) LOAD_FAULT_##name,
	LOAD_FAULTS(LOAD_ENUM)
#undef LOAD_ENUM
		LOAD_FAULT_COUNT
};

struct load {
	struct event_base *base;
	SSL_CTX *tls; /* NULL: plain */
	struct sockaddr_storage to;
	socklen_t to_len;
	bool direct; /* no CONNECT */
	struct kh_authority authority;
	char authority_text[300];
	uint64_t h2; /* requests under way on a connection; 0: HTTP/1.1 */

	const char *method, *path, *field, *ids;
	char *body;
	char length_text[24];
	uint64_t body_bytes, timeout_ms;
	bool new_tunnels, events, hold, mark, websocket, socks, grpc;
	FILE *log;

	struct load_conn **conns;
	uint64_t n_conns, begun_conns, held;

	uint64_t most; /* requests; 0: no bound */
	uint64_t begun, over, warm_us;
	bool ended;

	struct bench_times times, event_times;
	uint64_t statuses[STATUSES], faults[LOAD_FAULT_COUNT], bytes, sent_bytes, tunnels;
};

enum load_body {
	BODY_HEAD = 0,
	BODY_LENGTH,
	BODY_CHUNK_SIZE,
	BODY_CHUNK,
	BODY_CHUNK_END,
	BODY_TRAILER
};

/* A response that is being read. */
struct load_response {
	enum load_body body;
	unsigned status;
	bool keep;
	uint64_t left;
	char line[160]; /* of an event stream */
	size_t line_len;
};

/* Takes what it can from `in`. Return: 1 the response is whole, 0 more is needed, -1 it is none. */
int load_response_take(struct load *load, struct load_response *response, struct kh_buf *in);

enum load_state {
	LOAD_CONNECTING = 1,
	LOAD_TUNNEL,
	LOAD_HANDSHAKE,
	LOAD_REQUEST,
	LOAD_HELD,
	LOAD_RESTING
};

struct load_conn {
	struct load *load;
	enum load_state state;
	int fd;
	SSL *ssl;
	struct event *event, *timer;
	struct kh_buf in, out;
	struct load_response response;
	uint64_t began_us, tunnel_us, id;
	uint64_t body_left; /* of a body too long for `out` */
	bool open;	    /* a WebSocket */
	bool greeted;	    /* SOCKS5: the proxy has chosen how */
	struct kh_ws ws;
	struct load_h2 *h2;
};

/* What is next on a WebSocket: its upgrade, or a message. */
bool load_ws_put(struct load_conn *c);
/* Return: as load_response_take, and 2: its first message is to be sent. */
int load_ws_take(struct load_conn *c);

/* The first words, and what is next. Return: as load_ws_take; 1: the tunnel is there. */
bool load_socks_put(struct load_conn *c);
int load_socks_take(struct load_conn *c);

/* After the handshake: the session, and as many requests as may be under way. Return: false: the
 * other side does not speak it. */
bool load_h2_begin(struct load_conn *c);
/* Takes what is in `in` and puts what is to go into `out`. Return: false: no HTTP/2, or its end. */
bool load_h2_turn(struct load_conn *c);
/* It would put more into `out`. */
bool load_h2_has_more(const struct load_conn *c);
bool load_h2_is_idle(const struct load_conn *c);
void load_h2_end(struct load_conn *c);

/* The number of the next request, 0: there are enough. */
uint64_t load_next_id(struct load *load);
/* A request has its end: an answer, or none (of LOAD_FAULT_COUNT nothing is counted). */
void load_count(struct load *load, uint64_t id, unsigned status, uint64_t began_us);
void load_count_lost(struct load *load, uint64_t id, enum load_fault fault);
void load_count_fault(struct load *load, enum load_fault fault);

struct load_conn *load_conn_new(struct load *load);
/* The next of load->conns that did not begin yet, if there is one. */
void load_conn_begin_next(struct load *load);
void load_conn_free(struct load_conn *c);

#endif
