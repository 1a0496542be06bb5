/* session_internal.h - a connection from a sandbox */
#ifndef KEYHOLE_PROXY_SESSION_INTERNAL_H
#define KEYHOLE_PROXY_SESSION_INTERNAL_H

#include <keyhole/h1.h>

#include "exchange_internal.h"
#include "socks.h"

enum kh_session_state {
	KH_SESSION_HEAD = 1,  /* a request's head is awaited */
	KH_SESSION_SOCKS,     /* SOCKS5 is spoken, up to its request */
	KH_SESSION_TUNNEL,    /* a tunnel was accepted: its first byte is awaited */
	KH_SESSION_HANDSHAKE, /* TLS with the sandbox */
	KH_SESSION_EXCHANGE,  /* one exchange runs */
	KH_SESSION_DISCARD,   /* answered; the rest of the request's content is thrown away */
	KH_SESSION_LINGER, /* all is said: the peer's end is awaited, so that it can read the last
			      answer */
	KH_SESSION_DEAD,
};

/* What a connection is, by its first byte; what a tunnel holds, by its. */
enum kh_opening {
	KH_OPENING_OTHER = 0,
	KH_OPENING_HTTP, /* a letter: the method of a request */
	KH_OPENING_SOCKS,
	KH_OPENING_TLS, /* a handshake record */
};

/* HTTP/1: the one stream of a connection. */
struct kh_down_h1 {
	struct kh_down_stream stream;
	enum kh_framing framing; /* of the response */
	bool close;		 /* the connection ends with this exchange */
	uint64_t mark;		 /* where the response's head begins in all that goes down */
};

/* A connection from a sandbox. */
struct kh_session {
	struct kh_grave grave;
	struct kh_node link;
	struct kh_node held_link; /* what waits to be written waits for the journal */
	struct kh_loop *loop;
	struct kh_door *door;
	struct kh_peer peer;
	enum kh_session_state state;
	struct kh_leg leg;
	struct kh_buf in;
	struct kh_h1 *h1;
	struct kh_down_h1 only;
	bool opened;		 /* its first byte was looked at */
	enum kh_opening came_by; /* what that said */
	struct kh_socks *socks;	 /* in SOCKS */
	bool tunnel;		 /* inside a tunnel to `authority` */
	bool tls;
	bool eof;		       /* the sandbox has sent its last byte */
	bool head_begun;	       /* some bytes of the next head are there */
	struct kh_authority authority; /* with `tunnel` */
	bool leaf_ordered;	       /* its token is spent */
	bool wants_leaf;	       /* the handshake rests until it is there */
	bool closing;		       /* after what waits is written, the connection ends */
	bool fin_sent;
	uint32_t exchanges;
	uint64_t discarded_bytes;
	struct event timer;
	uint64_t deadline_ms; /* what the state allows; 0: none */
	uint64_t timer_ms;    /* when the timer fires; it looks at deadline_ms then */
};

/* The exchange of a connection that carries one at a time, or NULL. */
static inline struct kh_exchange *kh_session_exchange(const struct kh_session *session)
{
	return session->only.stream.exchange;
}

/* session.c */
void kh_session_new(struct kh_door *door, int fd, const struct kh_peer *peer);
/* Ends it now; the exchange, if any, is closed with `reason`. */
void kh_session_kill(struct kh_session *session, enum kh_err_code reason, const char *detail);
void kh_session_drain(struct kh_session *session);
/* Other rules are in force now (exchanges are asked by themselves). */
void kh_session_recheck(struct kh_session *session);
/* The exchange is over: next request, or the end of the connection. */
void kh_session_exchange_over(struct kh_session *session, bool keep);
/* The last thing that every event does: takes what was read as far as the state allows, writes what
 * waits, and sets what both sides are watched for and until when. The session may be dead
 * afterwards. */
void kh_session_turn(struct kh_session *session);
/* An answer of our own for a request that has no exchange: then the connection ends. */
void kh_session_refuse(struct kh_session *session, const struct kh_err *err);

/* For the session's own files. */
enum { KH_SESSION_IN_BYTES = 64 * 1024 };
/* A wait that is new begins anew. */
void kh_session_set_state(struct kh_session *session, enum kh_session_state state);
/* session_take.c: feeds the codec. */
void kh_session_process(struct kh_session *session);
/* session_wait.c */
unsigned kh_session_down_watch(const struct kh_session *session);
void kh_session_update(struct kh_session *session);
void kh_session_on_timer(evutil_socket_t fd, short what, void *arg);

/* down_h1.c */
extern const struct kh_down_ops kh_down_h1_ops;

/* opening.c: what the first bytes say, and what comes before the tunnel where that is not CONNECT
 */
enum kh_opening kh_opening_of(struct kh_slice first_bytes);
/* Looks at a connection's first byte. Return: false: it is no HTTP, and the state another. */
bool kh_session_open(struct kh_session *session);
/* In SOCKS: takes what was read. */
void kh_session_socks(struct kh_session *session);
/* How the sandbox came in, for the journal: NULL for an HTTP proxy's client. */
const char *kh_session_via(const struct kh_session *session);

/* tunnel.c: from CONNECT to the first request inside */
void kh_tunnel_open(struct kh_session *session, const struct kh_message *connect);
/* To session->authority, which is settled; says so in the protocol that asked for it. */
void kh_tunnel_begin(struct kh_session *session);
/* Looks at the first bytes inside. */
void kh_tunnel_first_bytes(struct kh_session *session);
void kh_tunnel_event(struct kh_session *session, unsigned events);
void kh_tunnel_leaf(struct kh_session *session, bool found);
/* A refusal without an exchange, for the journal. */
void kh_tunnel_deny(struct kh_session *session, const struct kh_err *err);

#endif
