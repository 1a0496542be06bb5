/*
 * exchange.h - one request and its response, above the codecs of both sides
 *
 *   codec ⇄ kh_down_stream ⇄ exchange ⇄ kh_up_stream ⇄ codec
 *
 * Towards each side an exchange has a stream: that of a connection which carries one exchange at a
 * time (HTTP/1), or one of many (HTTP/2). It calls a stream through its ops; the stream's codec
 * calls the exchange through the functions below (kh_exchange_body, kh_response_head …).
 *
 * Ownership: a down stream belongs to its session and outlives the exchange on it until the end of
 * the turn. An exchange belongs to its down stream (`exchange`), which ends it with
 * kh_exchange_gone; whatever else ends it comes back to the stream as `over`. Of an up stream the
 * exchange is the holder from kh_up_acquire to `release`. An exchange is freed at once: after a
 * call that may end it, only streams and sessions may be touched, which last until the turn's end.
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
#include <keyhole/loop/loop.h>
#include <keyhole/upstream/upstream.h>

struct kh_exchange;
struct kh_websocket;
struct kh_signing;

enum kh_exchange_state {
	KH_EXCHANGE_BEGUN = 0, /* its head is looked at */
	KH_EXCHANGE_HOLD,      /* its content is awaited, since a rule asks for what is in it */
	KH_EXCHANGE_SECRET,    /* the keeper was asked for the credential */
	KH_EXCHANGE_COMMIT,    /* the open record is on its way into the journal */
	KH_EXCHANGE_CONNECT,   /* an upstream connection is being made */
	KH_EXCHANGE_RELAY,     /* the head has gone upstream */
	KH_EXCHANGE_ENDED,
};

/* How far the sandbox's request has come. Each includes those before it. */
enum kh_request_state {
	KH_REQUEST_COMING = 0,
	KH_REQUEST_DONE, /* all of it has come */
	KH_REQUEST_HELD, /* … and its content was held, or signed, to the end: its end goes up later
			  */
	KH_REQUEST_SENT, /* … and has gone up, with its end */
};

/* How far the answer to it has come. */
enum kh_answer_state {
	KH_ANSWER_NONE = 0,
	KH_ANSWER_BEGUN, /* the final head has gone down */
	KH_ANSWER_DONE,	 /* it has come to its end */
};

/* What the journal has of it. */
enum kh_record_state {
	KH_RECORD_NONE = 0,
	KH_RECORD_OPEN,	      /* its open record stands there, or will */
	KH_RECORD_OPEN_WOULD, /* … and says which limit it would have reached */
	KH_RECORD_CLOSED,     /* its close record too, or the one record of a refusal */
};

/* What keyhole.internal answers itself. */
enum kh_page { KH_PAGE_NONE = 0, KH_PAGE_HOME, KH_PAGE_WHY, KH_PAGE_CA, KH_PAGE_ENV };

/* Rules that have decided, and what. */
struct kh_ruling {
	struct kh_standing at; /* its `gen` is a reference; NULL: none have */
	struct kh_decision decision;
};

struct kh_exchange {
	struct kh_loop_member member; /* in the loop's exchanges */
	struct kh_down_stream *down;
	struct kh_up_user up;	   /* its upstream side; with a stream from CONNECT on */
	struct kh_down_side *side; /* where it comes from */
	/* That it was decided under; a reference, and the sandbox's standing in it. */
	struct kh_generation *gen;
	uint16_t tenant;
	const struct kh_listener_config *listener;
	const struct kh_narrowing *narrowing;
	enum kh_exchange_state state;
	enum kh_request_state request_state;
	enum kh_answer_state answer_state;
	enum kh_record_state record_state;
	struct kh_loop_call recorded; /* waits for its open record */
	char id[KH_EXCHANGE_ID_BYTES];
	const struct kh_message *message; /* the codec holds it as long as the exchange lasts */
	struct kh_target target;
	enum kh_tunnel_kind tunnel; /* PASS or RAW; 0: a request */
	enum kh_page page;	    /* one of them: nothing goes out */
	enum kh_scheme scheme;
	struct kh_authority authority;
	struct kh_decision decision;
	struct kh_decision denied_there; /* by a rule that names addresses: kh_request_may_go_to */
	/* That such rules took so far, over all addresses of all tries. A reload begins anew. */
	uint64_t steps_there;
	/* What is only observed at the address that was asked about last, and at the last one that
	 * it was refused for: there it goes without a credential, or not. */
	struct kh_decision observed_there, observed_before;
	struct kh_ruling ruling;  /* of the rules in force: its own, or those of a later reload */
	struct kh_geo_levels geo; /* theirs: where an address has to lie that is dialled for it */
	struct kh_injection injection; /* the credentials that go in, of `gen` */
	struct kh_body *body; /* one goes into the content: the filter of this try, else NULL */
	struct kh_form_carriers *form; /* what is looked for in a form; NULL: nothing */
	uint64_t replaced_bytes;       /* of a content that was held: what of it is replaced */
	uint64_t value_bytes;	       /* by so much */
	struct kh_signing *signing;    /* NULL: none of them signs */
	enum kh_model_state model_state;
	char *model;			      /* with KH_MODEL_NAMED */
	struct kh_model_reader *model_reader; /* of `content`; NULL: nobody has asked */
	struct kh_buf content;		      /* held (body_buffer.c), and not sent yet */
	uint64_t content_bytes;		      /* that were held, all in all */
	size_t share;			      /* of it, as the sandbox's listener_stats was told */
	char stripped[128];		      /* names of carriers that were taken out */
	struct kh_charge descriptor;	      /* for the upstream, of its session's account */
	/* Facts, each of which may be true in any state: */
	bool base_url;		   /* it came as a path of keyhole.internal */
	bool holds_for_credential; /* the last decision waits for the content: a credential goes
				      into it, or signs it */
	bool continued;		   /* we said 100 Continue */
	bool settled;	   /* it was answered, or content has gone that is not held: no other try */
	bool marked_there; /* it is only observed by its address: its open record does not say so */
	bool withheld;	   /* … and names a credential that did not go in */
	bool limits_held;  /* it has taken its request and its places */
	/* It holds a real credential. The journal says so, and hides where; the sandbox sees what
	 * it would have seen without, but that the request does not leave. */
	bool recognised, method_hidden, target_hidden, host_hidden;
	bool held_against;     /* the lists were opened for it (recognise.c) */
	uint32_t longest_text; /* of those that were looked through */
	unsigned heads;	       /* that went upstream: beyond the first, of other tries */
	struct kh_buf held;    /* all content that has gone upstream, until it is settled */
	uint16_t status;
	unsigned interim;
	uint64_t up_bytes, down_bytes, started_ms, first_byte_ms, progress_ms;
	uint64_t began_us;	    /* when its head was there */
	uint64_t own_from_us;	    /* 0: something else is waited for */
	uint64_t own_us;	    /* that were ours, of the time until it left for the upstream */
	struct kh_tally_row *tally; /* of its tenant and thread; NULL: none. `gen` keeps it */
	struct kh_websocket *websocket; /* one was asked for; NULL: none */
	struct kh_quota limits;		/* that it is under, of `limited` (without one: none) */
	struct kh_ruling limited;
	struct kh_reached reached;     /* why it was refused or ended, where that was a limit */
	struct kh_reached would_reach; /* the first that was only observed */
	struct kh_content_look *content_look; /* NULL: nothing is sought in it */
	enum kh_err_code reason;
	char detail[160];
	char peer[KH_SOCKADDR_TEXT_BYTES];
	struct kh_place place;
	const char *tls; /* OpenSSL's name for it, or NULL */
};

/* Of the generation that it was decided under. */
static inline struct kh_standing kh_exchange_standing(const struct kh_exchange *x)
{
	return (struct kh_standing){ x->gen, x->tenant, x->listener, x->narrowing };
}

/* The request has come to its end; all of its content was held. */
static inline bool kh_exchange_has_request(const struct kh_exchange *x)
{
	return x->request_state >= KH_REQUEST_DONE;
}

static inline bool kh_exchange_has_content(const struct kh_exchange *x)
{
	return x->request_state >= KH_REQUEST_HELD;
}

/* The answer's final head has gone down; all of it has, or an answer of our own. */
static inline bool kh_exchange_has_answered(const struct kh_exchange *x)
{
	return x->answer_state >= KH_ANSWER_BEGUN;
}

static inline bool kh_exchange_has_answer(const struct kh_exchange *x)
{
	return x->answer_state == KH_ANSWER_DONE;
}

/* Called by the down codec: */
/* exchange.c. Return: false without memory, and there is no exchange. It may be over already. */
bool kh_exchange_begin(struct kh_down_stream *down, struct kh_down_side *side,
		       const struct kh_message *message);
/* A tunnel whose bytes are passed on as they are, to the side's authority. */
bool kh_exchange_begin_tunnel(struct kh_down_stream *down, struct kh_down_side *side,
			      enum kh_tunnel_kind kind, const struct kh_decision *decision);
/* The sandbox's side is gone; no `over` follows. */
void kh_exchange_gone(struct kh_exchange *x, enum kh_err_code reason, const char *detail);
/* When its wait ends; 0: something else has a timer. */
uint64_t kh_exchange_deadline(const struct kh_exchange *x);
void kh_exchange_timed_out(struct kh_exchange *x);
/* Parts of `turn`. */
void kh_exchange_flush(struct kh_exchange *x);
void kh_exchange_update(struct kh_exchange *x);
/* exchange_content.c */
void kh_exchange_body(struct kh_exchange *x, struct kh_slice piece);
/* The request is whole. */
void kh_exchange_request_end(struct kh_exchange *x, const struct kh_field *trailers, size_t n);
/* May the codec go on with the request's content now (and the upstream take it)? */
bool kh_exchange_takes_body(const struct kh_exchange *x);
/* Of memory, for it alone. */
size_t kh_exchange_kept_bytes(const struct kh_exchange *x);
/* exchange_end.c */
/* Whatever went wrong: an answer if none was begun, else the end of the stream. It is over. */
void kh_exchange_fail(struct kh_exchange *x, const struct kh_err *err);
/* Both its messages are whole, or as much as there will be. */
void kh_exchange_end(struct kh_exchange *x, enum kh_down_end end);

/* websocket_ask.c */
/* Both ways are frames from here on. */
static inline bool kh_exchange_is_websocket(const struct kh_exchange *x)
{
	return x->up.switched;
}
/* Extended CONNECT (RFC 8441) as the GET that it stands for; a copy, on the heap. NULL without
 * memory. */
struct kh_message *kh_websocket_as_get(const struct kh_message *connect);
/* What the handshake adds to the 101 that goes down, or to the 200 that stands for it in HTTP/2:
 * *n fields, views, of `accept` too. Return: false: the sandbox has sent no key. */
enum { KH_WEBSOCKET_SWITCH_FIELDS = 4 };
bool kh_websocket_switch_fields(const struct kh_exchange *x, bool h2,
				char accept[KH_WS_ACCEPT_BYTES],
				struct kh_field fields[KH_WEBSOCKET_SWITCH_FIELDS], size_t *n);

/* internal_page.c: is it keyhole.internal? */
bool kh_internal_page_is(const struct kh_host *host);
/* request.c: what a denial by the rules is told as, and whose rules they are. Return: false. */
bool kh_request_say_denied(const struct kh_decision *decision, struct kh_err *err);
/* denial.c: a refusal that an agent can use, as a whole answer. `x` may be NULL (nothing could be
 * read). Return: false without memory. */
bool kh_denial_put(struct kh_down_stream *down, const struct kh_down_side *side,
		   const struct kh_exchange *x, const struct kh_err *err);

#endif
