/* down.h - the sandbox's side, as an exchange sees it: where it comes from, and the stream it is on
 */
#ifndef KEYHOLE_EXCHANGE_DOWN_H
#define KEYHOLE_EXCHANGE_DOWN_H

#include <keyhole/base/err.h>
#include <keyhole/http/message.h>
#include <keyhole/http/target.h>
#include <keyhole/policy/quota.h>

#include <keyhole/loop/acceptor.h>

struct kh_down_limits;
struct kh_down_stream;
struct kh_exchange;
struct kh_session;

/* The connection from a sandbox, or the tunnel inside of one: what an exchange has to know of it.
 * Its session owns it, and keeps it up to date. */
struct kh_down_side {
	struct kh_loop *loop;
	struct kh_acceptor *acceptor;
	struct kh_account *account; /* of its sandbox when it came; a reference */
	struct kh_peer peer;
	bool tunnel;		       /* inside a tunnel to `authority` */
	bool tls;		       /* … which is TLS */
	struct kh_authority authority; /* with `tunnel` */
	bool host_holds;	       /* that host holds a real credential, */
	uint16_t host_index;	       /* of this number (struct kh_fingerprint_search) */
	const char *other_name;	       /* the handshake named that one instead; NULL: it did not */
	const char *
		via; /* how the sandbox came in, for the journal; NULL: as an HTTP proxy's client */
	struct kh_down_limits *limits; /* NULL: none were met */
	/* What waits to be written waits for the journal, which has a refusal to take first. */
	struct kh_loop_call answer;
};

/* An answer of our own, whole; views. Content-Length, and what speaks of the connection, are the
 * codec's to add. */
struct kh_answer {
	uint16_t status;
	enum kh_err_code code;	/* why */
	struct kh_slice reason; /* reason phrase, where there are any; empty: the status's own */
	const struct kh_field *fields;
	size_t n_fields;
	struct kh_slice content; /* left out where the request was HEAD */
};

enum kh_down_end {
	KH_DOWN_WHOLE = 1, /* the response, or an answer of our own, was put to its end */
	KH_DOWN_CUT,	   /* it ends early; what was put still goes down, if the cut can be seen */
	KH_DOWN_LOST,	   /* nothing can be said any more */
};

/* Towards the sandbox. What is put is kept in order and leaves in `turn`, or before. A `false` of a
 * put: the connection failed, or no memory; the exchange fails then. */
struct kh_down_ops {
	/* Heads as the upstream sent them: fields that speak of its connection
	 * (kh_message_is_hop_field) are left out here. Interim: what the client can't understand is
	 * left out whole. */
	bool (*put_interim)(struct kh_down_stream *down, const struct kh_message *head);
	/* It would leave that one out in any case. NULL: it never does. */
	bool (*leaves_out)(struct kh_down_stream *down, const struct kh_message *interim);
	bool (*put_head)(struct kh_down_stream *down, const struct kh_message *head);
	bool (*put_content)(struct kh_down_stream *down, struct kh_slice piece);
	bool (*put_end)(struct kh_down_stream *down, const struct kh_field *trailers, size_t n);
	bool (*put_answer)(struct kh_down_stream *down, const struct kh_answer *answer);
	/* Takes the head back, and all that was put behind it, if nothing of it has left. */
	bool (*take_back)(struct kh_down_stream *down);
	/* No more content should be put before `turn` has made room; what is put still fits, as
	 * much as was read in one go. */
	bool (*is_full)(struct kh_down_stream *down);
	/* The exchange is over: it holds neither the upstream nor this stream any more (`x` may be
	 * looked at, for the last time). */
	void (*over)(struct kh_down_stream *down, const struct kh_exchange *x,
		     enum kh_down_end end);
	/* The last thing that every event of the exchange does: writes on both sides what waits
	 * (kh_exchange_flush), takes content that there is room for, and sets what is waited for
	 * (kh_exchange_update). The stream may be dead afterwards. */
	void (*turn)(struct kh_down_stream *down);
	/* The same at the end of the loop's turn, once. */
	void (*touch)(struct kh_down_stream *down);
};

struct kh_down_stream {
	const struct kh_down_ops *ops;
	struct kh_session *session;   /* whose it is; nobody else looks into it */
	struct kh_exchange *exchange; /* NULL: none runs */
};

/* "tenant acme: requests 600/min". */
enum { KH_LIMIT_TEXT_BYTES = 320, KH_LIMIT_OWNER_BYTES = 256 };

/* A limit that was reached, with all that is ever said of it: the limits themselves may be gone
 * when its record is written. */
struct kh_reached {
	struct kh_verdict verdict;	  /* NONE: nothing was reached, and the rest is empty */
	char owner[KH_LIMIT_OWNER_BYTES]; /* whose it is by name, cut short: "acme" */
};

/* quota.c: `connections` and `tunnel_lifetime` */
/* A place for this connection, unless it has one: at first when it comes, else with each request.
 * Return: false with `err` (which may be NULL). */
bool kh_down_take_place(struct kh_down_side *side, struct kh_err *err);
/* One for the connection inside a tunnel of this one, whose `limits` it becomes. */
bool kh_down_take_place_within(struct kh_down_side *outer, struct kh_down_limits **out,
			       struct kh_err *err);
void kh_down_leave_place_within(struct kh_down_side *outer, struct kh_down_limits *limits);
void kh_down_leave_place(struct kh_down_side *side);
/* Other limits are in force. The generation before is still there. */
void kh_down_change_limits(struct kh_down_side *side);
/* When a tunnel that begins now ends; 0: it has no lifetime. */
uint64_t kh_down_tunnel_ends(const struct kh_down_side *side);
/* The limit of connections that it was just refused for, for the journal, once; NULL: none. */
const char *kh_down_reached(struct kh_down_side *side, char out[KH_LIMIT_TEXT_BYTES]);

/* down_deny.c: a refusal without an exchange, for the journal, of what the side's tunnel leads to;
 * or of what was named (NULL: nothing was). Its answer waits for the journal. */
/* A tunnel to side->authority begins: does its host hold a real credential? */
void kh_down_look_at_host(struct kh_down_side *side);
void kh_down_deny(struct kh_down_side *side, const struct kh_err *err);
void kh_down_deny_to(struct kh_down_side *side, const struct kh_authority *authority,
		     const struct kh_err *err);

/* auth.c: the token of a TCP listener. Return: false with `err`: PROXY_AUTH, LIMIT … */
bool kh_auth_check(struct kh_down_side *side, const struct kh_message *message, struct kh_err *err);
/* The field that was meant for us and goes no further; empty where none is asked for. */
struct kh_slice kh_auth_field(const struct kh_down_side *side);
/* Either is the token. */
bool kh_auth_try(struct kh_down_side *side, struct kh_slice user, struct kh_slice password,
		 struct kh_err *err);

#endif
