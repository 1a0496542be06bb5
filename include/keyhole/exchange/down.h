/* down.h - the downstream side as an exchange sees it: the connection, and the stream that it is on
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

/* What an exchange needs to know about the connection from the sandbox, or about the tunnel inside
 * of it. The session owns it and keeps it up to date. */
struct kh_down_side {
	struct kh_loop *loop;
	struct kh_acceptor *acceptor;
	struct kh_account *account; /* its sandbox's at accept; a counted reference */
	struct kh_peer peer;
	bool tunnel;		       /* inside a tunnel to `authority` */
	bool tls;		       /* … with TLS */
	struct kh_authority authority; /* with `tunnel` */
	bool host_holds;	       /* the host name contains a real credential, … */
	uint16_t host_index;	       /* … of this index (struct kh_fingerprint_search) */
	const char *other_name; /* the SNI of the handshake, if it names another host; else NULL */
	const char *via;	/* how the request came in; NULL: as an HTTP proxy request */
	struct kh_down_limits *limits; /* NULL: none apply */
	/* While this waits, no output is written: the journal must take a refusal first. */
	struct kh_loop_call answer;
};

/* A complete answer of keyhole's own; views. The codec adds Content-Length and the fields of the
 * connection. */
struct kh_answer {
	uint16_t status;
	enum kh_err_code code;	/* why */
	struct kh_slice reason; /* reason phrase (HTTP/1.1); empty: the standard one */
	const struct kh_field *fields;
	size_t n_fields;
	struct kh_slice content; /* not sent if the request was HEAD */
};

enum kh_down_end {
	KH_DOWN_WHOLE = 1, /* the response, or an answer of our own, was put completely */
	KH_DOWN_CUT, /* it ends early; what was put is still sent, if the client can tell that it is
			cut */
	KH_DOWN_LOST, /* nothing more can be sent */
};

/* The functions of a stream towards the sandbox. What is put is sent in order, in `turn` or before.
 * If a put returns false, the connection failed or there is no memory; the exchange then fails. */
struct kh_down_ops {
	/* Heads as the upstream sent them; the stream drops hop-by-hop fields
	 * (kh_message_is_hop_field). An interim response that the client can't understand is
	 * dropped whole. */
	bool (*put_interim)(struct kh_down_stream *down, const struct kh_message *head);
	/* Would put_interim drop this one? NULL: never. */
	bool (*leaves_out)(struct kh_down_stream *down, const struct kh_message *interim);
	bool (*put_head)(struct kh_down_stream *down, const struct kh_message *head);
	bool (*put_content)(struct kh_down_stream *down, struct kh_slice piece);
	bool (*put_end)(struct kh_down_stream *down, const struct kh_field *trailers, size_t n);
	bool (*put_answer)(struct kh_down_stream *down, const struct kh_answer *answer);
	/* Takes back the head and all that was put after it. Return: false: some of it has left
	 * already. */
	bool (*take_back)(struct kh_down_stream *down);
	/* Should the exchange put no more content until `turn` has made room? One more read's worth
	 * still fits. */
	bool (*is_full)(struct kh_down_stream *down);
	/* The exchange has ended and has let go of the upstream and of this stream. `x` may be read
	 * for the last time. */
	void (*over)(struct kh_down_stream *down, const struct kh_exchange *x,
		     enum kh_down_end end);
	/* Every event of the exchange ends with this call. It writes what waits on both sides
	 * (kh_exchange_flush), takes content that there is room for, and sets what to wait for
	 * (kh_exchange_update). Afterwards the stream may be dead. */
	void (*turn)(struct kh_down_stream *down);
	/* Schedules one `turn` at the end of the loop's turn. */
	void (*touch)(struct kh_down_stream *down);
};

struct kh_down_stream {
	const struct kh_down_ops *ops;
	struct kh_session *session;   /* for the stream's own functions only */
	struct kh_exchange *exchange; /* NULL: none runs */
};

/* "tenant acme: requests 600/min". */
enum { KH_LIMIT_TEXT_BYTES = 320, KH_LIMIT_OWNER_BYTES = 256 };

/* A limit that was reached, with all that is needed to report it: the limit itself may be gone when
 * the record is written. */
struct kh_reached {
	struct kh_verdict verdict;	  /* NONE: nothing was reached, and the rest is empty */
	char owner[KH_LIMIT_OWNER_BYTES]; /* the name of its owner, cut to fit: "acme" */
};

/* quota.c: `connections` and `tunnel_lifetime` */
/* Counts this connection in the limit `connections`, unless that was done: when it is accepted, or
 * else with a later request. Return: false with `err` (may be NULL): the limit is reached. */
bool kh_down_take_place(struct kh_down_side *side, struct kh_err *err);
/* The same for the connection inside a tunnel of this one. *out becomes its `limits`;
 * kh_down_leave_place_within frees it. */
bool kh_down_take_place_within(struct kh_down_side *outer, struct kh_down_limits **out,
			       struct kh_err *err);
void kh_down_leave_place_within(struct kh_down_side *outer, struct kh_down_limits *limits);
/* No longer counts this connection. */
void kh_down_leave_place(struct kh_down_side *side);
/* After a reload: moves this connection to the limits that are in force now. The generation before
 * must still exist. */
void kh_down_change_limits(struct kh_down_side *side);
/* When a tunnel that begins now must end, on the loop's clock; 0: it has no lifetime. */
uint64_t kh_down_tunnel_ends(const struct kh_down_side *side);
/* The text of the limit `connections` that just refused this connection (kh_down_take_place with
 * an `err`), for the journal. Only once for each refusal, so no other refusal gets it. Return:
 * `out`; NULL: none. */
const char *kh_down_reached(struct kh_down_side *side, char out[KH_LIMIT_TEXT_BYTES]);

/* A tunnel to side->authority begins: sets whether its host name contains a real credential
 * (host_holds). */
void kh_down_look_at_host(struct kh_down_side *side);
/* down_deny.c: records a refusal without an exchange, of a request to the side's tunnel target or
 * to `authority` (NULL: none was named). The answer to it waits for the journal. */
void kh_down_deny(struct kh_down_side *side, const struct kh_err *err);
void kh_down_deny_to(struct kh_down_side *side, const struct kh_authority *authority,
		     const struct kh_err *err);

/* auth.c: checks the token of a TCP listener; other listeners, and requests inside a tunnel, need
 * none. Return: false with `err`: PROXY_AUTH, LIMIT … */
bool kh_auth_check(struct kh_down_side *side, const struct kh_message *message, struct kh_err *err);
/* The name of the field with that token, which is not forwarded; empty: no token is required. */
struct kh_slice kh_auth_field(const struct kh_down_side *side);
/* Is the user name or the password the token? Return: false with `err`. */
bool kh_auth_try(struct kh_down_side *side, struct kh_slice user, struct kh_slice password,
		 struct kh_err *err);

#endif
