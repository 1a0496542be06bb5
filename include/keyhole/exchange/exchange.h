/*
 * exchange.h - one request and its response, above the codecs of both sides
 *
 *   codec ⇄ kh_down_stream ⇄ exchange ⇄ kh_up_stream ⇄ codec
 *
 * On each side an exchange has a stream: an HTTP/1 connection, which carries one exchange at a
 * time, or one of the many streams of an HTTP/2 connection. The exchange calls a stream through its
 * ops. The stream's codec calls the exchange through the functions below (kh_exchange_body,
 * kh_response_head …).
 *
 * Ownership: a down stream belongs to its session, and lives at least until the end of the turn in
 * which its exchange ends. An exchange belongs to its down stream (`exchange`), which can end it
 * with kh_exchange_gone; if it ends in any other way, the stream gets `over`. The exchange holds an
 * up stream from kh_up_acquire to `release`. An exchange is freed at once when it ends. So after a
 * call that may end it, only streams and sessions may be used, which live until the end of the
 * turn.
 */
#ifndef KEYHOLE_EXCHANGE_EXCHANGE_H
#define KEYHOLE_EXCHANGE_EXCHANGE_H

#include <keyhole/credential/credential.h>
#include <keyhole/llm/model.h>
#include <keyhole/policy/quota.h>
#include <keyhole/http/target.h>
#include <keyhole/http/ws.h>

#include <keyhole/exchange/down.h>
#include <keyhole/base/charge.h>
#include <keyhole/loop/questions.h>
#include <keyhole/loop/rechecks.h>
#include <keyhole/upstream/upstream.h>

struct kh_exchange;
struct kh_websocket;
struct kh_signing;

enum kh_exchange_state {
	KH_EXCHANGE_BEGUN = 0, /* its head is being processed */
	KH_EXCHANGE_BUFFER,    /* it waits for its content, which a rule, a signature or a placement
				needs */
	KH_EXCHANGE_ASK,       /* it waits for a person's answer */
	KH_EXCHANGE_SECRET,    /* it waits for the keeper to send a credential's value */
	KH_EXCHANGE_COMMIT,    /* it waits for its open record to be in the journal */
	KH_EXCHANGE_CONNECT,   /* it waits for an upstream connection */
	KH_EXCHANGE_RELAY,     /* its head was sent upstream */
	KH_EXCHANGE_ENDED,
};

/* How much of the sandbox's request was received. Each state includes those before it. */
enum kh_request_state {
	KH_REQUEST_COMING = 0,
	KH_REQUEST_DONE, /* all of it was received */
	KH_REQUEST_HELD, /* … and all its content was held or signed; its end is sent upstream later
			  */
	KH_REQUEST_SENT, /* … and all of it was sent upstream */
};

/* How much of the response was received. */
enum kh_answer_state {
	KH_ANSWER_NONE = 0,
	KH_ANSWER_BEGUN, /* the final head was put downstream */
	KH_ANSWER_DONE,	 /* all of it was */
};

/* Which records the journal has of it. */
enum kh_record_state {
	KH_RECORD_NONE = 0,
	KH_RECORD_OPEN,	      /* its open record is there, or will be */
	KH_RECORD_OPEN_WOULD, /* … and names the limit that would have been reached (`mode:
				 observe`) */
	KH_RECORD_CLOSED,     /* also its close record; or the one record of a refusal */
};

/* The pages of keyhole.internal that keyhole answers itself. */
enum kh_page { KH_PAGE_NONE = 0, KH_PAGE_HOME, KH_PAGE_DRY_RUN, KH_PAGE_CA, KH_PAGE_ENV };

/* A decision, and the generation whose rules made it. */
struct kh_ruling {
	struct kh_standing at; /* its `gen` is a counted reference; NULL: there is no decision */
	struct kh_decision decision;
};

struct kh_exchange {
	struct kh_loop_member member; /* in the loop's exchanges */
	struct kh_down_stream *down;
	struct kh_up_user up;	   /* its upstream side; has a stream from CONNECT on */
	struct kh_down_side *side; /* the downstream connection */
	/* The generation that it was decided under, a counted reference; then what of it applies to
	 * the sandbox. */
	struct kh_generation *gen;
	uint16_t tenant;
	const struct kh_listener_config *listener;
	const struct kh_narrowing *narrowing;
	enum kh_exchange_state state;
	enum kh_request_state request_state;
	enum kh_answer_state answer_state;
	enum kh_record_state record_state;
	struct kh_loop_call recorded; /* waits for its open record */
	struct kh_recheck recheck;    /* waits to be decided again, after a reload */
	char id[KH_EXCHANGE_ID_BYTES];
	const struct kh_message *message; /* owned by the codec, valid as long as the exchange */
	struct kh_target target;
	enum kh_tunnel_kind tunnel; /* PASS or RAW; 0: a request */
	enum kh_page page;	    /* not NONE: keyhole answers, and nothing goes upstream */
	enum kh_scheme scheme;
	struct kh_authority authority;
	struct kh_decision decision;
	struct kh_decision denied_there; /* by a rule for addresses: kh_request_may_go_to */
	/* Steps (KH_LIMIT_DECISION_STEPS) that such rules took so far, over all addresses and
	 * attempts. Reset by a reload. */
	uint64_t steps_there;
	/* Under `mode: observe`: the denial for the address that was checked last, and for the last
	 * address that was refused. To such an address it goes without a credential, or not at all.
	 */
	struct kh_decision observed_there, observed_before;
	struct kh_ruling ruling; /* of the rules in force: its own generation's, or those of a later
				    reload */
	struct kh_geo_levels geo; /* their `geo` lists, for addresses that are dialled for it */
	struct kh_injection injection; /* the credentials that go in, of `gen` */
	struct kh_body *body; /* the filter of this attempt, if a credential goes into the content;
				 else NULL */
	struct kh_form_carriers *form; /* the search for tokens in a form; NULL: none */
	uint64_t replaced_bytes;       /* of held content: how many bytes are replaced … */
	uint64_t value_bytes;	       /* … by how many */
	struct kh_signing *signing;    /* NULL: no credential signs */
	enum kh_model_state model_state;
	char *model;			      /* with KH_MODEL_NAMED */
	struct kh_model_reader *model_reader; /* of `content`; NULL: no rule asks for it */
	struct kh_buf content;	/* content that is held (body_buffer.c) and not sent yet */
	uint64_t content_bytes; /* bytes that were held in total */
	size_t share;		/* the part of it that is counted in the sandbox's listener_stats */
	char stripped[128];	/* names of the carriers that were removed */
	struct kh_charge descriptor;	 /* of the upstream connection */
	uint32_t question;		 /* in ASK: its number (questions.h); else 0 */
	uint64_t asked_ms, answer_by_ms; /* in ASK: since when, and until when */
	uint64_t waited_ms;		 /* how long it waited for answers in all */
	struct kh_answered answered;	 /* the answer, under `gen`; zero: nobody has answered */
	/* Facts, each of which may be true in any state: */
	bool base_url;		   /* it came as http://keyhole.internal/to/… */
	bool holds_for_credential; /* the last decision waits for the content, since a credential
				      goes into it or signs it */
	bool continued;		   /* we sent 100 Continue */
	bool settled; /* no other attempt: it was answered, or content was sent that is not kept */
	bool marked_there; /* it is only observed because of its address, which its open record does
			      not say … */
	bool withheld;	   /* … and it names a credential that was not sent */
	bool limits_held;  /* it is counted in its limits */
	/* It holds a real credential. The journal says so, and hides the parts that hold it. The
	 * sandbox sees what it would see otherwise, except that the request is not sent. */
	bool recognised, method_hidden, target_hidden, host_hidden;
	bool held_against;     /* the lists of fingerprints were opened for it (recognise.c) */
	uint32_t longest_text; /* the longest text that was searched */
	unsigned heads; /* heads that were sent upstream; all but the first for further attempts */
	struct kh_buf held; /* all content that was sent upstream, until it is settled */
	uint16_t status;
	unsigned interim;
	uint64_t up_bytes, down_bytes, started_ms, first_byte_ms, progress_ms;
	uint64_t began_us;    /* when its head was complete */
	uint64_t own_from_us; /* since when keyhole works on it; 0: it waits for something else */
	uint64_t own_us;      /* keyhole's own part of the time until it was sent upstream */
	struct kh_tally_row *tally;	/* its tenant's counters, owned by `gen`; NULL: none */
	struct kh_websocket *websocket; /* NULL: it asks for none */
	struct kh_quota limits;		/* the limits of `limited` that apply to it */
	struct kh_ruling limited;
	struct kh_reached reached;	      /* the limit that refused or ended it, if one did */
	struct kh_reached would_reach;	      /* the first limit that was only observed */
	struct kh_content_look *content_look; /* the search in its content; NULL: none */
	enum kh_err_code reason;
	char detail[256];
	char peer[KH_SOCKADDR_TEXT_BYTES];
	struct kh_place place;
	const char *tls; /* OpenSSL's name for it, or NULL */
};

/* What applies to its sandbox in the generation that it was decided under. */
static inline struct kh_standing kh_exchange_standing(const struct kh_exchange *x)
{
	return (struct kh_standing){ x->gen, x->tenant, x->listener, x->narrowing };
}

/* Other rules are in force than those that decided it, and it waits for its turn to be decided
 * again. Until then nothing of it moves, in either direction. */
static inline bool kh_exchange_stands_still(const struct kh_exchange *x)
{
	return kh_recheck_waits(&x->recheck);
}

/* All of the request was received. */
static inline bool kh_exchange_has_request(const struct kh_exchange *x)
{
	return x->request_state >= KH_REQUEST_DONE;
}

/* All of it was received, and its content was held, signed or sent. */
static inline bool kh_exchange_has_content(const struct kh_exchange *x)
{
	return x->request_state >= KH_REQUEST_HELD;
}

/* The final head was put downstream. */
static inline bool kh_exchange_has_answered(const struct kh_exchange *x)
{
	return x->answer_state >= KH_ANSWER_BEGUN;
}

/* All of the response, or an answer of our own, was put downstream. */
static inline bool kh_exchange_has_answer(const struct kh_exchange *x)
{
	return x->answer_state == KH_ANSWER_DONE;
}

/* ---- called by the down codec ---- */
/* exchange.c. Begins an exchange, which is then down->exchange, or has ended already (`over`).
 * Return: false without memory; there is no exchange. */
bool kh_exchange_begin(struct kh_down_stream *down, struct kh_down_side *side,
		       const struct kh_message *message);
/* The same for a tunnel to the side's authority whose bytes are forwarded unread. */
bool kh_exchange_begin_tunnel(struct kh_down_stream *down, struct kh_down_side *side,
			      enum kh_tunnel_kind kind, const struct kh_decision *decision);
/* The downstream stream has ended: frees the exchange, without a call of `over`. */
void kh_exchange_gone(struct kh_exchange *x, enum kh_err_code reason, const char *detail);
/* When its wait ends, on the loop's clock; 0: another object has the timer. */
uint64_t kh_exchange_deadline(const struct kh_exchange *x);
void kh_exchange_timed_out(struct kh_exchange *x);
/* The two parts of a stream's `turn`. */
void kh_exchange_flush(struct kh_exchange *x);
void kh_exchange_update(struct kh_exchange *x);
/* exchange_content.c. A piece of the request's content, a view. */
void kh_exchange_body(struct kh_exchange *x, struct kh_slice piece);
/* The request is complete. */
void kh_exchange_request_end(struct kh_exchange *x, const struct kh_field *trailers, size_t n);
/* May the codec give more content now, so that the upstream takes it? */
bool kh_exchange_takes_body(const struct kh_exchange *x);
/* Memory that it alone keeps. */
size_t kh_exchange_kept_bytes(const struct kh_exchange *x);
/* exchange_end.c */
/* Any failure or refusal: sends an answer if none was begun, else cuts the response. It frees the
 * exchange, except for a WebSocket, which it closes. */
void kh_exchange_fail(struct kh_exchange *x, const struct kh_err *err);
/* Both messages are complete, or will not get more. Calls `over` and frees the exchange. */
void kh_exchange_end(struct kh_exchange *x, enum kh_down_end end);

/* websocket_ask.c */
/* Have both sides switched to WebSocket frames? */
static inline bool kh_exchange_is_websocket(const struct kh_exchange *x)
{
	return x->up.switched;
}
/* Extended CONNECT (RFC 8441) as the equivalent GET; a copy on the heap, the caller's. NULL without
 * memory. */
struct kh_message *kh_websocket_as_get(const struct kh_message *connect);
/* The fields that the handshake adds to the 101 that goes downstream, or to the 200 of HTTP/2: *n
 * fields, views, also of `accept`. Return: false: the sandbox sent no key. */
enum { KH_WEBSOCKET_SWITCH_FIELDS = 4 };
bool kh_websocket_switch_fields(const struct kh_exchange *x, bool h2,
				char accept[KH_WS_ACCEPT_BYTES],
				struct kh_field fields[KH_WEBSOCKET_SWITCH_FIELDS], size_t *n);

/* internal_page.c: is it keyhole.internal? */
bool kh_internal_page_is(const struct kh_host *host);
/* request.c: sets `err` for a denial by the rules, with the owner of these. Return: false, always.
 */
bool kh_request_say_denied(const struct kh_decision *decision, struct kh_err *err);
/* denial.c: puts a refusal as a complete answer that an agent can use. `x` may be NULL (no request
 * was read). Return: false without memory. */
bool kh_denial_put(struct kh_down_stream *down, const struct kh_down_side *side,
		   const struct kh_exchange *x, const struct kh_err *err);

#endif
