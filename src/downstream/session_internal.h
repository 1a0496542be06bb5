/* session_internal.h - a connection from a sandbox */
#ifndef KEYHOLE_DOWNSTREAM_SESSION_INTERNAL_H
#define KEYHOLE_DOWNSTREAM_SESSION_INTERNAL_H

#include <stdlib.h>
#include <string.h>

#include <keyhole/base/escape.h>
#include <keyhole/http/h1.h>
#include <keyhole/http/h2.h>
#include <keyhole/base/log.h>

#include <keyhole/downstream/session.h>
#include <keyhole/exchange/exchange.h>
#include <keyhole/base/charge.h>
#include <keyhole/loop/leg.h>

struct kh_socks;

enum kh_session_state {
	KH_SESSION_NEW = 0,
	KH_SESSION_HEAD,       /* a request's head is awaited */
	KH_SESSION_HEAD_BEGUN, /* some bytes of it are there */
	KH_SESSION_SOCKS,      /* SOCKS5 is spoken, up to its request */
	KH_SESSION_HELLO,      /* a ClientHello is read before it is known what becomes of it */
	KH_SESSION_TUNNEL,     /* a tunnel was accepted: its first byte is awaited */
	KH_SESSION_HANDSHAKE,  /* TLS with the sandbox */
	KH_SESSION_EXCHANGE,   /* one exchange runs */
	KH_SESSION_H2,	       /* HTTP/2: its streams have states of their own */
	KH_SESSION_RAW,	       /* a tunnel that nobody reads runs, as an exchange (raw.c) */
	KH_SESSION_DISCARD,    /* answered; the rest of the request's content is thrown away */
	KH_SESSION_LINGER, /* all is said: the peer's end is awaited, so that it can read the last
			      answer */
	KH_SESSION_DEAD,
};

/* What a connection is, by its first byte; what a tunnel holds, by its. */
enum kh_protocol_sniff {
	KH_PROTOCOL_SNIFF_UNSEEN = 0, /* it was not looked at */
	KH_PROTOCOL_SNIFF_OTHER,
	KH_PROTOCOL_SNIFF_HTTP, /* a letter: the method of a request */
	KH_PROTOCOL_SNIFF_SOCKS,
	KH_PROTOCOL_SNIFF_TLS, /* a handshake record */
};

/* The tunnel that a session is, or becomes. */
enum kh_tunnel_state {
	KH_TUNNEL_NONE = 0,
	KH_TUNNEL_ACCEPTED, /* whoever asked for it was told that it is open */
	KH_TUNNEL_ENTERED,  /* it is among the tunnels; who asked is told when the upstream is there
			     */
	KH_TUNNEL_OPEN,	    /* both */
};

/* The leaf that the handshake inside a tunnel shows. */
enum kh_leaf_state {
	KH_LEAF_STATE_NONE = 0,
	KH_LEAF_STATE_ORDERED, /* its token is spent; the handshake does not wait for it */
	KH_LEAF_STATE_AWAITED, /* the handshake rests until it is there */
	KH_LEAF_STATE_UNASKED, /* likewise, and the keeper was not asked yet */
};

/* HTTP/1: the one stream of a connection. */
struct kh_down_h1 {
	struct kh_down_stream stream;
	enum kh_framing framing; /* of the response */
	bool close;		 /* the connection ends with this exchange */
	bool continued;		 /* a 100 has gone down */
	uint64_t mark;		 /* where the response's head begins in all that goes down */
};

/*
 * HTTP/2: a stream of many, an exchange's or a tunnel's. It is freed when neither the codec nor the
 * session inside the tunnel knows it any more.
 */
struct kh_down_h2 {
	struct kh_deferred_free deferred_free;
	struct kh_down_stream stream; /* its session is NULL when that is dead */
	struct kh_loop *loop;
	struct kh_node link;	   /* in its mux's streams, or cut */
	struct kh_node ready_link; /* in its mux's ready or late */
	struct kh_h2_stream *h2;   /* NULL: the codec has it back */
	bool paused;
	bool is_cut;
	uint64_t discard_until_ms; /* answered; the rest of the request's content is thrown away */
	uint64_t discarded_bytes;
	bool ended;		 /* all of ours was put */
	size_t waiting_bytes;	 /* when it was looked at last, whether it moves at all */
	size_t beyond_bytes;	 /* that its exchange keeps, beyond what each stream counts for */
	struct kh_stream *inner; /* of the session inside the tunnel; NULL: none, or gone */
	struct kh_buf in;	 /* that it has not read yet */
	bool in_ended;
	bool is_tunnel;
	struct kh_message *get; /* Extended CONNECT as what it asks for */
};

/* What a session has when it speaks HTTP/2 (mux.c). */
/* How far a goodbye has come (RFC 9113 §6.8). */
enum kh_mux_goodbye {
	KH_MUX_GOODBYE_NONE = 0,
	KH_MUX_GOODBYE_NOTICE, /* no new streams are wanted; those on their way are taken */
	KH_MUX_GOODBYE_SAID,   /* … for a round trip, or a moment: nothing that begins is taken */
};

struct kh_mux {
	struct kh_session *session;
	struct kh_h2 *h2;
	struct kh_node streams; /* struct kh_down_h2.link */
	struct kh_node cut;	/* those that are reset once what was put has left */
	struct kh_node ready;	/* struct kh_down_h2.ready_link: they have something to do */
	struct kh_node late;	/* they had, when no share was left */
	size_t n_streams;	/* without those that were cut */
	size_t n_tunnels;	/* of them */
	size_t kept_bytes;	/* as the acceptor was told */
	size_t beyond_bytes;	/* struct kh_down_h2.beyond_bytes of all */
	uint64_t idle_since_ms;
	uint64_t earliest_ms; /* no exchange's wait ends before; 0: none does */
	enum kh_mux_goodbye goodbye;
	uint64_t notice_ends_ms; /* NOTICE: if no round trip ends it */
	bool broken;		 /* what is left to say is a goodbye */
};

/* A connection from a sandbox; or what a stream of one carries, being a tunnel. */
struct kh_session {
	struct kh_deferred_free deferred_free;
	struct kh_loop_member member;
	struct kh_down_side side;
	struct kh_loop_call touched;
	struct kh_work_place place;   /* its sandbox has done its share of this turn, or HTTP/2 its
					 own; what was read waits */
	struct kh_node acceptor_link; /* in its acceptor's sessions */
	enum kh_session_state state;
	struct kh_leg leg;
	struct kh_buf in;
	struct kh_h1 *h1;
	struct kh_down_h1 only;
	struct kh_mux *mux;		/* HTTP/2; else NULL */
	enum kh_protocol_sniff came_by; /* what its first byte said */
	enum kh_tunnel_state tunnel_state;
	enum kh_leaf_state leaf_state;
	struct kh_down_h2 *carrier; /* the stream that it runs in; NULL: on a descriptor */
	struct kh_socks *socks;	    /* in SOCKS */
	/* Facts that go with many states: */
	bool eof;	 /* the sandbox has sent its last byte */
	bool closing;	 /* after what waits is written, the connection ends */
	bool fin_sent;	 /* our last byte has left, be it in LINGER or in RAW */
	bool over_share; /* it was refused for what it keeps */
	bool unread;	 /* its share was spent before it could read what may have come */
	uint32_t exchanges;
	uint32_t exchanges_outside; /* of them, when its tunnel began */
	uint64_t tunnel_ends_ms;    /* with `tunnel`: its lifetime; 0: it has none */
	uint64_t discarded_bytes;
	size_t kept_bytes;	     /* of memory, as its account has it */
	struct kh_charge descriptor; /* likewise; none where it runs in a stream */
	struct event timer;
	uint64_t deadline_ms; /* what the state allows; 0: none */
	uint64_t timer_ms;    /* when the timer fires; it looks at deadline_ms then */
};

/* Its last byte has come, and was taken. */
static inline bool kh_session_has_said_all(const struct kh_session *session)
{
	return session->eof && kh_buf_len(&session->in) == 0;
}

static inline bool kh_session_awaits_head(const struct kh_session *session)
{
	return session->state == KH_SESSION_HEAD || session->state == KH_SESSION_HEAD_BEGUN;
}

/* It waits in its sandbox's line to go on with what was read. */
static inline bool kh_session_is_in_line(const struct kh_session *session)
{
	return kh_work_place_waits(&session->place);
}

/* It was told that its tunnel is open. */
static inline bool kh_session_is_accepted(const struct kh_session *session)
{
	return session->tunnel_state == KH_TUNNEL_ACCEPTED ||
	       session->tunnel_state == KH_TUNNEL_OPEN;
}

/* To its sandbox's share of the turn. */
static inline void kh_session_charge(struct kh_session *session, size_t work)
{
	kh_work_share_charge(&session->side.acceptor->work, work);
}

static inline bool kh_session_awaits_leaf(const struct kh_session *session)
{
	return session->leaf_state >= KH_LEAF_STATE_AWAITED;
}

/* The exchange of a connection that carries one at a time, or NULL. */
static inline struct kh_exchange *kh_session_exchange(const struct kh_session *session)
{
	return session->only.stream.exchange;
}

/* session.c, session_turn.c */
/* On a pipe, with a place at the acceptor that was taken. Return: NULL without memory; `pipe` and
 * place are the caller's then. */
struct kh_session *kh_session_new_over(struct kh_acceptor *acceptor, const struct kh_pipe_ops *ops,
				       void *pipe, const struct kh_peer *peer);
/* Ends it now; the exchange, if any, is closed with `reason`. */
void kh_session_kill(struct kh_session *session, enum kh_err_code reason, const char *detail);
/* kh_session_turn at the end of the loop's turn: once, however many ask for it. */
static inline void kh_session_touch(struct kh_session *session)
{
	if (session->state != KH_SESSION_DEAD)
		kh_loop_call(session->side.loop, KH_LOOP_DOWN, &session->touched);
}
/* A refusal is in the batch: its answer leaves when the journal has it (or can't take it). */
static inline void kh_session_wait_for_record(struct kh_session *session)
{
	kh_loop_call(session->side.loop, KH_LOOP_ANSWER, &session->side.answer);
}
/* The exchange is over: next request, or the end of the connection. */
void kh_session_exchange_over(struct kh_session *session, bool keep);
/* The last thing that every event does: takes what was read as far as the state allows, writes what
 * waits, and sets what both sides are watched for and until when. The session may be dead
 * afterwards. */
void kh_session_turn(struct kh_session *session);
/* An answer of our own for a request that has no exchange: then the connection ends. Without one,
 * where only a part of HTTP/2's preface has come. */
void kh_session_refuse(struct kh_session *session, const struct kh_err *err);
/* The same for a CONNECT that showed no token, or another: the next try may come on this connection
 * (Java's clients count on that). */
void kh_session_challenge(struct kh_session *session, const struct kh_err *err);

/* For the session's own files. */
enum {
	KH_SESSION_IN_BYTES = 64 * 1024,
	/* Content of a request that is answered already: it is read so that the answer can be.
	 * Beyond it the connection, or the stream, ends. */
	KH_SESSION_DISCARD_BYTES = 16 * 1024 * 1024,
	KH_SESSION_DISCARD_MS = 30 * 1000,
};
/* session_state.c: the only ones who assign. Return: false: that can't follow, which is a fault of
 * ours (machine.h); the session is dead. A new state is a new wait. */
bool kh_session_set_state(struct kh_session *session, enum kh_session_state state);
bool kh_session_set_tunnel(struct kh_session *session, enum kh_tunnel_state state);
bool kh_session_set_leaf(struct kh_session *session, enum kh_leaf_state state);
/* session.c */
/* What is left is written, then the peer's end is awaited. */
void kh_session_linger(struct kh_session *session);
/* session_take.c: may it work in this turn? If not, it is in line. */
bool kh_session_may_work(struct kh_session *session);
/* Feeds the codec, within the sandbox's share of the turn. */
void kh_session_process(struct kh_session *session);
/* kept.c */
/* Charges what it keeps of memory by now. Return: false: that is beyond its sandbox's share. It is
 * refused, or ended, and may be dead. */
bool kh_session_may_keep(struct kh_session *session);
/* session_wait.c */
unsigned kh_session_down_watch(const struct kh_session *session);
void kh_session_update(struct kh_session *session);
/* Is the connection's other end closed, both ways? */
bool kh_session_is_abandoned(const struct kh_session *session);
/* Every second: a timer that could not be set is set. */
void kh_session_tick(struct kh_session *session);
void kh_session_on_timer(evutil_socket_t fd, short what, void *arg);

/* raw.c: tunnels that nobody reads */
/* Becomes an exchange that passes bytes on: PASS or RAW. */
void kh_raw_begin(struct kh_session *session, enum kh_tunnel_kind kind);
/* In RAW: takes what was read; ends the exchange where both sides have. */
void kh_raw_process(struct kh_session *session);
/* What was read, or the end, waits for the upstream to take what was before it. */
bool kh_raw_is_blocked(const struct kh_session *session);
extern const struct kh_down_ops kh_raw_down_ops;

/* down_h1.c */
extern const struct kh_down_ops kh_down_h1_ops;

/* protocol_sniff.c: what the first bytes say, and what comes before the tunnel where that is not
 * CONNECT
 */
enum kh_protocol_sniff kh_protocol_sniff_of(struct kh_slice first_bytes);
/* Looks at a connection's first byte. Return: false: it is no HTTP, and the state another. */
bool kh_session_open(struct kh_session *session);
/* In SOCKS and HELLO: takes what was read. */
void kh_session_socks(struct kh_session *session);
void kh_session_hello(struct kh_session *session);

/* mux.c: a session that speaks HTTP/2 */
/* The rest of what was read, and all that comes, is HTTP/2. Return: false without memory. */
bool kh_mux_begin(struct kh_session *session);
/* kh_session_turn, for such a session. */
void kh_mux_turn(struct kh_session *session);
/* Heads are left in the session's input, or in the codec, for the loop's next turn. */
bool kh_mux_is_behind(const struct kh_mux *mux);
uint64_t kh_mux_deadline(const struct kh_mux *mux);
void kh_mux_timed_out(struct kh_session *session);
/* No new streams, after a round trip or a moment, or after a second call; it ends with the last
 * one. */
void kh_mux_drain(struct kh_session *session);
/* For the streams: */
extern const struct kh_down_ops kh_down_h2_ops; /* down_h2.c */
void kh_mux_end(struct kh_session *session);	/* the session dies */
void kh_mux_free(struct kh_mux *mux);
struct kh_down_h2 *kh_down_h2_new(struct kh_mux *mux, struct kh_h2_stream *h2);
/* Answered before all of the request's content had come. */
void kh_down_h2_discard(struct kh_down_h2 *s);
/* It is over; what was put still goes down, then it is reset. */
void kh_down_h2_cut(struct kh_down_h2 *s);
/* In the session's turn, something is to be done. */
void kh_down_h2_ready(struct kh_down_h2 *s);
/* Content is taken, or not, as the exchange or the session inside allows. */
void kh_down_h2_serve(struct kh_down_h2 *s);
/* Gives it back to the codec: complete, or as it is. */
void kh_down_h2_release(struct kh_down_h2 *s);
void kh_down_h2_reset(struct kh_down_h2 *s);
/* The sandbox's side is gone. */
void kh_down_h2_gone(struct kh_down_h2 *s, enum kh_err_code reason, const char *detail);
/* An answer of our own without an exchange; `authority`: what was named, or NULL. */
void kh_down_h2_refuse(struct kh_down_h2 *s, const struct kh_authority *authority,
		       const struct kh_err *err);
/* mux_tunnel.c: a CONNECT stream (RFC 9113 §8.5) */
void kh_mux_tunnel_open(struct kh_down_h2 *s, const struct kh_message *connect);
void kh_mux_tunnel_body(struct kh_down_h2 *s, struct kh_slice piece);
/* To who asked for it: it is open, or why not. Return: false: nobody is there any more. */
bool kh_mux_tunnel_accept(struct kh_down_h2 *s);
bool kh_mux_tunnel_answer(struct kh_down_h2 *s, const struct kh_answer *answer);

/* tunnel.c: from CONNECT to the first request inside */
void kh_tunnel_open(struct kh_session *session, const struct kh_message *connect);
/* What CONNECT names, if it may be opened on `session`. */
bool kh_tunnel_read(struct kh_session *session, const struct kh_message *connect,
		    struct kh_authority *out, struct kh_err *err);
/* How a tunnel to there is to be treated; DENIED with `err`. What is read inside is decided by
 * itself. */
enum kh_tunnel_kind kh_tunnel_may_open(struct kh_session *session,
				       const struct kh_authority *authority, struct kh_err *err);
/* From here on the session is inside a tunnel to session->authority, of that kind. */
void kh_tunnel_enter(struct kh_session *session, enum kh_tunnel_kind kind);
/* To session->authority, which is settled; says so in the protocol that asked for it. */
void kh_tunnel_begin(struct kh_session *session);
/* Says that the tunnel is open, in the protocol that asked for it. Return: false without memory. */
bool kh_tunnel_accept(struct kh_session *session);
/* Says what can be said: an HTTP answer, a reply of SOCKS5, an alert; then the connection ends. */
void kh_tunnel_refuse(struct kh_session *session, const struct kh_err *err);
/* The same without a record and without an end. */
bool kh_tunnel_put_refusal(struct kh_session *session, enum kh_err_code code);
/* Looks at the first bytes inside. */
void kh_tunnel_first_bytes(struct kh_session *session);
void kh_tunnel_event(struct kh_session *session, unsigned events);
/* tunnel_silence.c. Nothing was said in the tunnel yet, and all that could be would be refused:
 * *err says why. */
bool kh_tunnel_is_barred(const struct kh_session *session, struct kh_err *err);
/* The session ends: that is recorded as refused. */
void kh_tunnel_note_silence(struct kh_session *session, enum kh_err_code reason);
void kh_tunnel_leaf(struct kh_session *session, bool found);
/* It wants a leaf, and the keeper has time for it perhaps. */
void kh_tunnel_ask_again(struct kh_session *session);

#endif
