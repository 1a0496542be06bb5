/*
 * exchange_internal.h - one request and its response, above the codecs of both sides
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
#ifndef KEYHOLE_PROXY_EXCHANGE_INTERNAL_H
#define KEYHOLE_PROXY_EXCHANGE_INTERNAL_H

#include <keyhole/credential.h>
#include <keyhole/model.h>
#include <keyhole/quota.h>
#include <keyhole/target.h>

#include "loop_internal.h"

struct kh_up;
struct kh_down_stream;
struct kh_up_stream;
struct kh_websocket;
struct kh_signing;

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
};

struct kh_down_stream {
	const struct kh_down_ops *ops;
	struct kh_session *session;
	struct kh_exchange *exchange; /* NULL: none runs */
};

/* Towards the upstream, once the exchange is in RELAY. */
struct kh_up_ops {
	/* The request's head with the credential in it, made by what request.c offers. A message
	 * with KH_FRAMING_NONE is whole with its head; for any other `put_end` follows. */
	bool (*put_head)(struct kh_up_stream *up, struct kh_err *err);
	/* What can't be sent any more is dropped: the answer is still read, it may say why. */
	void (*put_content)(struct kh_up_stream *up, struct kh_slice piece);
	void (*put_end)(struct kh_up_stream *up, const struct kh_field *trailers, size_t n);
	bool (*is_full)(const struct kh_up_stream *up);
	void (*flush)(struct kh_up_stream *up);
	/* Is more of the response wanted now? */
	void (*update)(struct kh_up_stream *up, bool wanted);
	/* In any state of the exchange: it is over. `clean`: both messages came to their end, so
	 * the connection may be used again; else the request is cancelled. */
	void (*release)(struct kh_up_stream *up, bool clean);
};

struct kh_up_stream {
	const struct kh_up_ops *ops;
	struct kh_up *conn;
	struct kh_exchange *exchange; /* NULL: nobody's */
};

/* "tenant acme: requests 600/min". */
enum { KH_LIMIT_TEXT_BYTES = 320 };

enum kh_exchange_state {
	KH_EXCHANGE_HOLD = 1, /* its content is awaited, since a rule asks for what is in it */
	KH_EXCHANGE_SECRET,   /* the keeper was asked for the credential */
	KH_EXCHANGE_COMMIT,   /* the open record is on its way into the journal */
	KH_EXCHANGE_CONNECT,  /* an upstream connection is being made */
	KH_EXCHANGE_RELAY,    /* the head has gone upstream */
	KH_EXCHANGE_ENDED,
};

/* What keyhole.internal answers itself. */
enum kh_page { KH_PAGE_NONE = 0, KH_PAGE_HOME, KH_PAGE_WHY, KH_PAGE_CA, KH_PAGE_ENV };

struct kh_exchange {
	struct kh_node link; /* in the loop's exchanges */
	struct kh_down_stream *down;
	struct kh_up_stream *up;    /* from CONNECT on */
	struct kh_session *session; /* down->session: where it comes from */
	struct kh_generation *gen;  /* that it was decided under; a reference */
	uint16_t tenant;
	enum kh_exchange_state state;
	struct kh_node commit_link;
	char id[KH_EXCHANGE_ID_BYTES];
	const struct kh_message *message; /* the codec holds it as long as the exchange lasts */
	struct kh_target target;
	enum kh_tunnel_kind tunnel; /* PASS or RAW; 0: a request */
	bool base_url;		    /* it came as a path of keyhole.internal */
	enum kh_page page;	    /* one of them: nothing goes out */
	enum kh_scheme scheme;
	struct kh_authority authority;
	struct kh_decision decision;
	/* Where an address has to lie that is dialled for it, by the rules in force: its own, or
	 * those of a later reload. */
	struct kh_geo_levels geo;
	struct kh_generation *geo_gen; /* that has them; a reference */
	struct kh_injection injection; /* the credentials that go in, of `gen` */
	bool holds_for_credential;     /* HOLD: one goes into the content, or signs it */
	struct kh_body *body;	       /* … and the filter of this try, else NULL (content.c) */
	uint64_t replaced_bytes;       /* of a content that was held: what of it is replaced */
	uint64_t value_bytes;	       /* by so much */
	struct kh_signing *signing;    /* NULL: none of them signs */
	enum kh_model_state model_state;
	char *model;		/* with KH_MODEL_NAMED */
	struct kh_buf content;	/* held (hold.c), and not sent yet */
	uint64_t content_bytes; /* that were held, all in all */
	size_t share;		/* of it, as the sandbox's gate was told */
	bool content_whole;	/* all of the request's content was held */
	bool content_ended;	/* and has gone up, with its end */
	bool continued;		/* we said 100 Continue */
	char stripped[128];	/* names of carriers that were taken out */
	bool method_hidden;	/* it holds a real credential: neither journal nor answer has it */
	bool opened;		/* its open record stands in the journal, or will */
	bool request_done;
	bool response_begun; /* the final head has gone down */
	bool response_done;
	unsigned heads; /* that went upstream: beyond the first, of other tries */
	unsigned moves; /* to other connections */
	bool settled;	/* it was answered, or content has gone that is not held: no other try */
	struct kh_buf held; /* all content that has gone upstream, until then */
	uint16_t status;
	unsigned interim;
	uint64_t up_bytes, down_bytes, started_ms, first_byte_ms, progress_ms;
	uint64_t began_us;	    /* when its head was there */
	uint64_t own_from_us;	    /* 0: something else is waited for */
	uint64_t own_us;	    /* that were ours, of the time until it left for the upstream */
	struct kh_tally_row *tally; /* of its tenant and thread; NULL: none. `gen` keeps it */
	struct kh_websocket *websocket; /* one was asked for; NULL: none */
	struct kh_quota limits;		/* that it is under, of limits_gen (NULL: none) */
	struct kh_generation *limits_gen;
	bool limits_held;	       /* it has taken its request and its places */
	bool would_opened;	       /* would_reach stands in the open record */
	struct kh_verdict reached;     /* why it was refused or ended, where that was a limit */
	struct kh_verdict would_reach; /* the first that was only observed */
	struct kh_content_look *content_look; /* NULL: nothing is sought in it */
	enum kh_err_code reason;
	char detail[160];
	char peer[KH_SOCKADDR_TEXT_BYTES];
	struct kh_place place;
	const char *tls; /* OpenSSL's name for it, or NULL */
	bool reused;
};

/* exchange.c: from the head to the request upstream. Called by the down codec: */
/* Return: false without memory, and there is no exchange. It may be over already. */
bool kh_exchange_begin(struct kh_down_stream *down, const struct kh_message *message);
/* A tunnel whose bytes are passed on as they are, to the session's authority. */
bool kh_exchange_begin_tunnel(struct kh_down_stream *down, enum kh_tunnel_kind kind,
			      const struct kh_decision *decision);
/* By the rules, or not yet: then the content is held. */
void kh_exchange_decide(struct kh_exchange *x);
/* The sandbox's side is gone; no `over` follows. */
void kh_exchange_gone(struct kh_exchange *x, enum kh_err_code reason, const char *detail);
/* When it ends, however busy it is (timeouts.total). */
uint64_t kh_exchange_last_ms(const struct kh_exchange *x);
/* When its wait ends; 0: something else has a timer. */
uint64_t kh_exchange_deadline(const struct kh_exchange *x);
void kh_exchange_timed_out(struct kh_exchange *x);
/* Parts of `turn`. */
void kh_exchange_flush(struct kh_exchange *x);
void kh_exchange_update(struct kh_exchange *x);

/* exchange_content.c: called by the down codec */
void kh_exchange_body(struct kh_exchange *x, struct kh_slice piece);
/* The request is whole. */
void kh_exchange_request_end(struct kh_exchange *x, const struct kh_field *trailers, size_t n);
/* May the codec go on with the request's content now (and the upstream take it)? */
bool kh_exchange_takes_body(const struct kh_exchange *x);

/* Called by the loop: */
void kh_exchange_committed(struct kh_exchange *x, bool written);
void kh_exchange_secret_came(struct kh_exchange *x);
/* Is it this one's value that it waits for? */
bool kh_exchange_waits_for(const struct kh_exchange *x, uint32_t generation, uint16_t index);
/* Other rules are in force: it ends if they forbid it; one that waits for a credential is decided
 * anew. */
void kh_exchange_recheck(struct kh_exchange *x);
/* The daemon ends: what would go on for ever is ended, what comes to an end by itself is not. */
void kh_exchange_drain(struct kh_exchange *x);

/* Called by the upstream side: */
void kh_exchange_up_ready(struct kh_exchange *x);
void kh_exchange_up_failed(struct kh_exchange *x, const struct kh_err *err);
/* Whatever went wrong: an answer if none was begun, else the end of the stream. It is over. */
void kh_exchange_fail(struct kh_exchange *x, const struct kh_err *err);
/* RFC 9110 §9.2.2, once, and only while nothing of the request's content has gone. */
bool kh_exchange_may_retry(const struct kh_exchange *x);
/* RFC 9113 §8.7: what the upstream has not looked at, whatever the method, as long as the content
 * that went is held. */
bool kh_exchange_may_repeat(const struct kh_exchange *x);
/* On another connection, with the content that went. */
void kh_exchange_retry(struct kh_exchange *x);
/* The upstream has said something: there is no other try. */
void kh_exchange_settle(struct kh_exchange *x);

/* Both its messages are whole, or as much as there will be. */
void kh_exchange_end(struct kh_exchange *x, enum kh_down_end end);

/* One piece of content, to the upstream. Return: false: the exchange is over. */
bool kh_exchange_forward(struct kh_exchange *x, struct kh_slice piece);

/* content.c: content with a credential in it */
/* Can one that goes into the content, go there? Return: false: no, or (holds_for_credential) not
 * before all of it is there. */
bool kh_content_decide(struct kh_exchange *x, struct kh_err *err);
/* A field that speaks of the content as it came. */
bool kh_content_drops_field(const struct kh_exchange *x, struct kh_slice name);
/* How the content goes up; *length with LENGTH. Behind kh_content_begin. */
enum kh_framing kh_content_framing(const struct kh_exchange *x, uint64_t *length);
/* In front of each head. */
bool kh_content_begin(struct kh_exchange *x, struct kh_err *err);
/* To the upstream. Return: false with `err`: the request must be cut off. */
bool kh_content_put(struct kh_exchange *x, struct kh_slice piece, struct kh_err *err);
bool kh_content_end(struct kh_exchange *x, const struct kh_field *trailers, size_t n,
		    struct kh_err *err);
void kh_content_fini(struct kh_exchange *x);

/* hold.c: content that is looked into before anything is decided */
/* For a credential that goes into it; likewise kh_hold_begin. */
bool kh_hold_begin_for_credential(struct kh_exchange *x, struct kh_err *err);
bool kh_hold_end_for_credential(struct kh_exchange *x, size_t n_trailers, struct kh_err *err);
/* What the head says of the model. */
bool kh_hold_look_at_head(struct kh_exchange *x, struct kh_err *err);
/* In HOLD from here on. Return: false: it can't be (head, size). */
bool kh_hold_begin(struct kh_exchange *x, struct kh_err *err);
bool kh_hold_take(struct kh_exchange *x, struct kh_slice piece, struct kh_err *err);
/* All of it is there: which model does it name? Return: false: that can't be told. */
bool kh_hold_read(struct kh_exchange *x, size_t n_trailers, struct kh_err *err);
/* Return: false, with MODEL_UNREADABLE. */
bool kh_hold_refuse(const char *why, struct kh_err *err);
/* Something of it, or its end, has not gone up yet. */
bool kh_hold_has(const struct kh_exchange *x);
/* In RELAY: as much as the upstream takes. Return: false: the exchange is over. */
bool kh_hold_send(struct kh_exchange *x);
void kh_hold_fini(struct kh_exchange *x);

/* exchange_count.c */
void kh_exchange_count_begin(struct kh_exchange *x);
/* With its record in the journal. */
void kh_exchange_count_end(const struct kh_exchange *x);
void kh_exchange_count_gone(struct kh_exchange *x);
/* Another generation has decided it. */
void kh_exchange_count_anew(struct kh_exchange *x);
/* What passes between the two is somebody else's time. */
void kh_exchange_rest(struct kh_exchange *x);
void kh_exchange_go_on(struct kh_exchange *x);
/* Content that moved. */
static inline void kh_exchange_moved_up(struct kh_exchange *x, uint64_t bytes)
{
	x->up_bytes += bytes;
	if (x->tally)
		kh_counter_add(&x->tally->up_bytes, bytes);
}

static inline void kh_exchange_moved_down(struct kh_exchange *x, uint64_t bytes)
{
	x->down_bytes += bytes;
	if (x->tally)
		kh_counter_add(&x->tally->down_bytes, bytes);
}

/* exchange_audit.c */
void kh_exchange_note(struct kh_exchange *x, enum kh_err_code reason, const char *detail);
/* The rule that decided (NULL: none), and where it stands. */
void kh_audit_name_rule(struct kh_audit_open *out, const struct kh_config *config,
			const struct kh_rule *rule);
/* What a record's views point into. */
struct kh_exchange_texts {
	char limit[KH_LIMIT_TEXT_BYTES];
	char credentials[KH_RULE_CREDENTIALS * (KH_NAME_MOST_BYTES + 1)];
};
void kh_exchange_describe(const struct kh_exchange *x, struct kh_audit_open *out,
			  struct kh_exchange_texts *texts);
void kh_exchange_record_end(struct kh_exchange *x);

/* own.c: keyhole.internal */
bool kh_own_is(const struct kh_host *host);
/* The request that one to keyhole.internal stands for, or the page that it asks for. Return: false
 * with `err`: neither. */
bool kh_own_resolve(struct kh_exchange *x, struct kh_err *err);

/* pages.c: answers x->page. The exchange is over. */
void kh_page_answer(struct kh_exchange *x);

/* dialect.c: the beginning of a JSON object, up to what is said to programs; `x` may be NULL. */
void kh_dialect_put(struct kh_buf *out, const struct kh_exchange *x, struct kh_slice message,
		    const struct kh_err *err);

/* request.c: the canonical request, the decision, and what goes upstream */
bool kh_request_resolve(struct kh_exchange *x, struct kh_err *err);
bool kh_request_decide(struct kh_exchange *x, struct kh_err *err);
/* What a denial by the rules is told as, and whose rules they are. Return: false. */
bool kh_request_say_denied(const struct kh_decision *decision, struct kh_err *err);
/* Would these rules allow it, there where it is connected to? Then it keeps to their geo and their
 * limits from here on. */
bool kh_request_is_allowed(struct kh_exchange *x, struct kh_generation *g);
void kh_request_settle_geo(struct kh_exchange *x, struct kh_generation *g,
			   const struct kh_decision *decision);
/* For the head that an up codec writes: the target (path and query), the authority as Host or
 * :authority, and which fields of the message go along. Behind them the credentials' own
 * (kh_request_put_credentials). The target may hold one too: `out` is a wiping buffer. */
bool kh_request_put_target(const struct kh_exchange *x, struct kh_buf *out, struct kh_err *err);
/* Does it hold one? */
bool kh_request_target_is_secret(const struct kh_exchange *x);
/* The fields of the credentials; `out` is a wiping buffer. */
bool kh_request_put_credentials(const struct kh_exchange *x, struct kh_buf *out,
				struct kh_err *err);
bool kh_request_put_authority(const struct kh_exchange *x, struct kh_buf *out);
bool kh_request_forwards(const struct kh_exchange *x, const struct kh_field *field);
/* Does a parameter of the query stay here, as the client's own authentication? */
bool kh_request_drops_parameter(const struct kh_exchange *x, struct kh_slice name);

/* quota.c: limits */
/* The last part of the decision: takes what the exchange needs from the start. */
bool kh_exchange_take_limits(struct kh_exchange *x, struct kh_err *err);
void kh_exchange_leave_limits(struct kh_exchange *x);
/* Those of another generation are in force now, by which it was decided so. */
void kh_exchange_change_limits(struct kh_exchange *x, struct kh_generation *g,
			       const struct kh_decision *decision);
/* Content that is about to go: BYTES_UP or BYTES_DOWN. Return: how many bytes may; fewer than asked
 * for: `err` says why, and the exchange ends with them. */
size_t kh_exchange_spend(struct kh_exchange *x, enum kh_quota_kind kind, size_t bytes,
			 struct kh_err *err);
/* A message of a WebSocket. */
bool kh_exchange_may_be_so_large(struct kh_exchange *x, uint64_t bytes, struct kh_err *err);
/* tunnel_lifetime, of a WebSocket or a tunnel that nobody reads; UINT64_MAX: it has none. */
uint64_t kh_exchange_lifetime_ends(const struct kh_exchange *x);
void kh_exchange_lifetime_over(struct kh_exchange *x, struct kh_err *err);
/* For the journal; NULL for none. */
const char *kh_exchange_limit_text(const struct kh_exchange *x, const struct kh_verdict *verdict,
				   char out[KH_LIMIT_TEXT_BYTES]);
/* "acme". */
const char *kh_exchange_limit_owner(const struct kh_exchange *x, const struct kh_verdict *verdict);

/* reflection.c: where a credential went into the target, the answer's head with it taken out.
 * Return: false: it can't be looked through. *out NULL: there is nothing to look for. */
struct kh_reflection;
bool kh_reflection_take(const struct kh_exchange *x, const struct kh_message *head,
			struct kh_reflection **out);
const struct kh_message *kh_reflection_head(const struct kh_reflection *r,
					    const struct kh_message *head);
void kh_reflection_free(struct kh_reflection *r); /* NULL is fine */

/* response.c: what comes back. Return: false: the exchange is over. */
/* Interim ones too. Behind a 101 that was asked for (kh_exchange_is_websocket then says so) both
 * codecs hand over bytes as they come, as content. */
bool kh_response_head(struct kh_exchange *x, const struct kh_message *response);
bool kh_response_body(struct kh_exchange *x, struct kh_slice piece);
/* The exchange is over. */
void kh_response_end(struct kh_exchange *x, const struct kh_field *trailers, size_t n);

/* denial.c: refusals that an agent can use */
/* Puts a whole answer. `x` may be NULL (nothing could be read). Return: false without memory. */
bool kh_denial_put(struct kh_down_stream *down, const struct kh_exchange *x,
		   const struct kh_err *err);

/* repository.c. Return: false: the credential is one for a repository, and the request names none.
 */
bool kh_exchange_find_repository(const struct kh_exchange *x, struct kh_injected *one,
				 struct kh_err *err);

#endif
