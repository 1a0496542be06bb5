/* proxy_internal.h - one event thread's objects: loop, session, exchange, upstream connection */
#ifndef KEYHOLE_PROXY_INTERNAL_H
#define KEYHOLE_PROXY_INTERNAL_H

#include <event2/event.h>
#include <event2/event_struct.h>

#include <keyhole/buf.h>
#include <keyhole/credential.h>
#include <keyhole/dialer.h>
#include <keyhole/escape.h>
#include <keyhole/h1.h>
#include <keyhole/list.h>
#include <keyhole/listener.h>
#include <keyhole/log.h>
#include <keyhole/resolver.h>
#include <keyhole/target.h>

#include "worker_internal.h"

/*
 * Ownership: the loop owns its sessions (down connections) and its idle upstream connections. A
 * session owns at most one exchange; an exchange owns at most one upstream connection while it
 * lasts. Everything of one connection happens on one thread. What ends is taken out of its lists at
 * once and freed at the end of the loop turn.
 */
struct kh_loop {
	struct kh_worker *worker;
	struct kh_generation *gen; /* in force */
	unsigned index;
	struct event_base *base;
	struct kh_resolver *resolver;
	SSL_CTX *down_ctx;
	SSL_CTX *up_ctx;
	struct kh_sessions *sessions;
	struct kh_batch batch;
	struct kh_node live; /* struct kh_session.link */
	size_t n_live;
	struct kh_node graves; /* struct kh_grave: freed at the end of the turn */
	struct kh_node
		commits; /* struct kh_exchange.commit_link: their open records are in the batch */
	struct kh_node held;	 /* struct kh_session.held_link: their refusals are in the batch */
	struct kh_node idle_ups; /* struct kh_up.link, oldest first */
	size_t n_idle_ups;
	struct kh_door **doors; /* one a listener */
	size_t n_doors;
	struct event *wake;
	struct event *tick; /* every second: idle upstreams, a journal that failed */
	int wake_fd;
	pthread_mutex_t mail_lock;
	struct kh_mail *mail;
	bool draining;
	bool journal_failed; /* said once in the log */
	uint64_t now_ms;     /* of this turn */
};

/* Freed at the end of the turn by `free_fn`. */
struct kh_grave {
	struct kh_node link;
	void (*free_fn)(struct kh_grave *grave);
};

/* A listener as one thread sees it. */
struct kh_door {
	struct kh_grave grave;
	struct kh_loop *loop;
	struct kh_gate *gate;
	const struct kh_listener_config *config;
	uint16_t index;
	struct event *event;
	struct event *resume; /* after running out of descriptors */
	unsigned resolving;   /* names, for its exchanges on this thread */
	double leaf_tokens;   /* this thread's share of the sandbox's leaves */
	uint64_t leaf_tokens_ms;
};

/* A connection with what waits to be written to it. */
struct kh_leg {
	struct kh_stream *stream; /* NULL: not connected */
	struct kh_buf out;
	uint64_t written_bytes;
	bool failed; /* a write failed: nothing more is written */
};

/* What one side may read ahead before it has to wait for the other. */
enum { KH_LEG_HIGH_BYTES = KH_LIMIT_RELAY_BYTES, KH_LEG_READ_BYTES = 16 * 1024 };

void kh_leg_init(struct kh_leg *leg, bool wiping);
void kh_leg_fini(struct kh_leg *leg);
/* Writes now what goes when nothing waits, keeps the rest. Return: false when the connection failed
 * or the cap is reached. */
bool kh_leg_put(struct kh_leg *leg, struct kh_slice bytes);
/* Writes what waits. Return: false when the connection failed. */
bool kh_leg_flush(struct kh_leg *leg);
/* Position behind all that was put. */
uint64_t kh_leg_position(const struct kh_leg *leg);
/* Takes back what was put since, if none of it has left. */
bool kh_leg_rewind(struct kh_leg *leg, uint64_t position);
static inline bool kh_leg_is_full(const struct kh_leg *leg)
{
	return kh_buf_len(&leg->out) >= KH_LEG_HIGH_BYTES;
}

enum kh_session_state {
	KH_SESSION_HEAD = 1,  /* a request's head is awaited */
	KH_SESSION_TUNNEL,    /* CONNECT was accepted: its first byte is awaited */
	KH_SESSION_HANDSHAKE, /* TLS with the sandbox */
	KH_SESSION_EXCHANGE,  /* one exchange runs */
	KH_SESSION_DISCARD,   /* answered; the rest of the request's content is thrown away */
	KH_SESSION_LINGER, /* all is said: the peer's end is awaited, so that it can read the last
			      answer */
	KH_SESSION_DEAD,
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
	struct kh_leg down;
	struct kh_buf in;
	struct kh_h1 *h1;
	bool tunnel; /* inside a CONNECT to `authority` */
	bool tls;
	bool eof;		       /* the sandbox has sent its last byte */
	bool head_begun;	       /* some bytes of the next head are there */
	struct kh_authority authority; /* with `tunnel` */
	bool leaf_ordered;	       /* its token is spent */
	bool wants_leaf;	       /* the handshake rests until it is there */
	bool closing;		       /* after what waits is written, the connection ends */
	bool fin_sent;
	struct kh_exchange *exchange;
	uint32_t exchanges;
	uint64_t discarded_bytes;
	struct event timer;
	uint64_t deadline_ms; /* what the state allows; 0: none */
	uint64_t timer_ms;    /* when the timer fires; it looks at deadline_ms then */
};

enum kh_exchange_state {
	KH_EXCHANGE_SECRET = 1, /* the keeper was asked for the credential */
	KH_EXCHANGE_COMMIT,	/* the open record is on its way into the journal */
	KH_EXCHANGE_CONNECT,	/* an upstream connection is being made */
	KH_EXCHANGE_RELAY,	/* the head has gone upstream */
	KH_EXCHANGE_ENDED,
};

struct kh_up;

struct kh_exchange {
	struct kh_session *session;
	struct kh_generation *gen; /* that it was decided under; a reference */
	uint16_t tenant;
	struct kh_up *up;
	enum kh_exchange_state state;
	struct kh_node commit_link;
	char id[KH_EXCHANGE_ID_BYTES];
	const struct kh_message *message; /* the session's codec holds it */
	struct kh_target target;
	enum kh_scheme scheme;
	struct kh_authority authority;
	struct kh_decision decision;
	const struct kh_credential_config *credential; /* NULL: none goes in */
	uint16_t credential_index;
	struct kh_secret *secret;
	char stripped[128]; /* names of carriers that were taken out */
	bool opened;	    /* its open record stands in the journal, or will */
	bool request_done;
	bool response_begun; /* the final head has gone down */
	bool response_done;
	bool retried;
	bool body_sent;	 /* content has gone upstream: no second try */
	bool close_down; /* the connection ends with this exchange */
	enum kh_framing up_framing, down_framing;
	uint16_t status;
	unsigned interim;
	uint64_t down_mark; /* where the response's head begins in all that goes down */
	uint64_t up_bytes, down_bytes, started_ms, first_byte_ms, progress_ms;
	enum kh_err_code reason;
	char detail[160];
	char peer[KH_SOCKADDR_TEXT_BYTES];
	char tls[12];
	bool reused;
};

/* Connections are shared by requests that agree in all of this. */
struct kh_up_key {
	struct kh_host host;
	uint16_t port;
	enum kh_scheme scheme;
	uint32_t generation; /* that the next two belong to */
	uint16_t tenant;
	int32_t credential; /* -1: none */
	int32_t door;	    /* -1, or the one listener whose own authentication rides along */
};

enum kh_up_state {
	KH_UP_RESOLVING = 1,
	KH_UP_PASSWORD, /* the keeper was asked for upstream.proxy's */
	KH_UP_DIALING,
	KH_UP_TUNNEL, /* upstream.proxy was asked for it (up_proxy.c) */
	KH_UP_HANDSHAKE,
	KH_UP_BUSY, /* belongs to an exchange */
	KH_UP_IDLE, /* in the pool */
	KH_UP_DEAD,
};

/* A connection to an upstream. */
struct kh_up {
	struct kh_grave grave;
	struct kh_node link; /* in the loop's pool while idle */
	struct kh_loop *loop;
	enum kh_up_state state;
	struct kh_up_key key;
	struct kh_exchange *exchange;
	struct kh_lookup *lookup;
	struct kh_door *resolving_for; /* while there is a lookup */
	struct kh_dial *dial;
	struct kh_up_proxy *proxy; /* on the way through upstream.proxy; NULL: direct, or there */
	struct kh_leg leg;
	struct kh_buf in;
	struct kh_h1 *h1;
	char peer[KH_SOCKADDR_TEXT_BYTES];
	bool reused;
	bool reusable; /* the response said that the connection stays open */
	bool answered; /* a byte of this exchange's response has come */
	uint64_t idle_since_ms;
};

/* loop.c */
void kh_loop_bury(struct kh_loop *loop, struct kh_grave *grave, void (*free_fn)(struct kh_grave *));
/* The exchange goes on (kh_exchange_committed) when its record is in the journal. */
void kh_loop_commit(struct kh_loop *loop, struct kh_exchange *exchange);
/* A refusal is in the batch: its answer leaves when the journal has it (or can't take it). */
void kh_loop_hold(struct kh_session *session);
/* Before a record is made: a batch that is half full is written at once. The other half is for the
 * ends of what was begun, while the journal can't be written. Return: false: nothing new is
 * recorded, so nothing new is begun. */
bool kh_loop_make_room(struct kh_loop *loop);

/* doors.c */
/* Opens them at first as well. Return: false without memory. */
bool kh_doors_reload(struct kh_loop *loop);
void kh_doors_shut(struct kh_loop *loop);
void kh_doors_free(struct kh_loop *loop);
void kh_door_left(struct kh_door *door); /* one of its connections ended */
/* One more leaf for this sandbox within its rate? */
bool kh_door_may_mint(struct kh_door *door);

/* session.c */
void kh_session_new(struct kh_door *door, int fd, const struct kh_peer *peer);
/* Ends it now; the exchange, if any, is closed with `reason`. */
void kh_session_kill(struct kh_session *session, enum kh_err_code reason, const char *detail);
void kh_session_drain(struct kh_session *session);
/* Other rules are in force now. */
void kh_session_recheck(struct kh_session *session);
/* The exchange is over and freed: next request, or the end of the connection. */
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

/* tunnel.c: from CONNECT to the first request inside */
void kh_tunnel_open(struct kh_session *session, const struct kh_message *connect);
/* Looks at the first bytes inside. */
void kh_tunnel_first_bytes(struct kh_session *session);
void kh_tunnel_event(struct kh_session *session, unsigned events);
void kh_tunnel_leaf(struct kh_session *session, bool found);
/* A refusal without an exchange, for the journal. */
void kh_tunnel_deny(struct kh_session *session, const struct kh_err *err);

/* exchange.c: from the head to the request upstream */
void kh_exchange_begin(struct kh_session *session, const struct kh_message *message);
void kh_exchange_committed(struct kh_exchange *x, bool written);
void kh_exchange_secret_came(struct kh_exchange *x);
/* Other rules are in force: it ends if they forbid it; one that waits for a credential is decided
 * anew. */
void kh_exchange_recheck(struct kh_exchange *x);
void kh_exchange_body(struct kh_exchange *x, struct kh_slice piece);
void kh_exchange_request_end(struct kh_exchange *x);
/* May the codec go on with the request's content now (and the upstream take it)? */
bool kh_exchange_takes_body(const struct kh_exchange *x);
/* Whatever went wrong: an answer if none was begun, else the end of the connection. */
void kh_exchange_fail(struct kh_exchange *x, const struct kh_err *err);
/* Writes the close record, lets go of upstream and secret, frees. */
void kh_exchange_free(struct kh_exchange *x);
void kh_exchange_up_ready(struct kh_exchange *x);
void kh_exchange_up_failed(struct kh_exchange *x, const struct kh_err *err);
void kh_exchange_note(struct kh_exchange *x, enum kh_err_code reason, const char *detail);
void kh_exchange_describe(const struct kh_exchange *x, struct kh_audit_open *out);

/* request.c: the canonical request, the decision, and the head that goes upstream */
bool kh_request_resolve(struct kh_exchange *x, struct kh_err *err);
bool kh_request_decide(struct kh_exchange *x, struct kh_err *err);
/* Would these rules allow it? */
bool kh_request_is_allowed(const struct kh_exchange *x, const struct kh_generation *g);
bool kh_request_put_head(struct kh_exchange *x, struct kh_buf *out, struct kh_err *err);

/* response.c: what comes back */
void kh_response_readable(struct kh_exchange *x);

/* upstream.c: pool and making of connections */
void kh_up_acquire(struct kh_exchange *x, bool fresh);
/* Gives the connection back: kept idle when `keep`, else closed. */
void kh_up_release(struct kh_up *up, bool keep);
void kh_up_close(struct kh_up *up);
void kh_up_tick(struct kh_loop *loop);
void kh_up_close_idle(struct kh_loop *loop);
/* Other rules are in force: what waits for an answer to the old ones begins again. */
void kh_up_recheck(struct kh_exchange *x);
/* The making of it has failed: the exchange does. Last thing that a callback does. */
void kh_up_failed(struct kh_up *up, const struct kh_err *err);
/* Within the listener's share. Return: false without memory or above that. `cb` begins with
 * kh_up_forget_lookup. */
bool kh_up_look_up(struct kh_up *up, const struct kh_host *host, uint16_t port, kh_lookup_cb *cb);
void kh_up_forget_lookup(struct kh_up *up);
void kh_up_dial(struct kh_up *up, const struct kh_addresses *addresses);
/* The bytes of `leg` reach the upstream: TLS where that is due, then the exchange. */
void kh_up_connected(struct kh_up *up);

/* up_proxy.c: the way there through upstream.proxy */
bool kh_up_proxy_is_for(const struct kh_config *config, const struct kh_host *host);
/* Return: false with `err`; the caller fails the connection. */
bool kh_up_proxy_begin(struct kh_up *up, struct kh_err *err);
void kh_up_proxy_dialled(struct kh_up *up);
void kh_up_proxy_event(struct kh_up *up, unsigned events);
void kh_up_proxy_password_came(struct kh_up *up, uint32_t generation, uint16_t index);
void kh_up_proxy_end(struct kh_up *up);

/* denial.c: refusals that an agent can use */
/* Puts a whole response into `out`. `x` may be NULL (nothing could be read). Return: false without
 * memory. */
bool kh_denial_put(struct kh_buf *out, const struct kh_session *session,
		   const struct kh_exchange *x, const struct kh_err *err, bool keep_alive);

#endif
