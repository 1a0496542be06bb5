/* exchange_internal.h - shared by the files of an exchange */
#ifndef KEYHOLE_EXCHANGE_EXCHANGE_INTERNAL_H
#define KEYHOLE_EXCHANGE_EXCHANGE_INTERNAL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/log.h>

#include <keyhole/exchange/exchange.h>

/* exchange_state.c: the only ones who assign. Return: false with `err` (which may be NULL), and
 * nothing has changed: that can't follow, which is a fault of ours (machine.h). The exchange must
 * fail with it. */
bool kh_exchange_set_state(struct kh_exchange *x, enum kh_exchange_state state, struct kh_err *err);
bool kh_exchange_set_request(struct kh_exchange *x, enum kh_request_state state,
			     struct kh_err *err);
bool kh_exchange_set_answer(struct kh_exchange *x, enum kh_answer_state state, struct kh_err *err);
bool kh_exchange_set_record(struct kh_exchange *x, enum kh_record_state state, struct kh_err *err);
/* exchange.c */
/* By the rules, or not yet: then the content is held. */
void kh_exchange_decide(struct kh_exchange *x);
/* When it ends, however busy it is (timeouts.total). */
uint64_t kh_exchange_last_ms(const struct kh_exchange *x);
/* ask.c */
enum kh_ask {
	KH_ASK_NOT = 0, /* nobody is asked: it is refused as it was */
	KH_ASK_WAITS,	/* in state ASK; x->answer_by_ms says until when */
	KH_ASK_ALLOWED, /* a person has allowed it for this run: x->answered; decide again */
};
/* It was just denied. Is it one that a person may be asked about? */
enum kh_ask kh_exchange_ask(struct kh_exchange *x);
/* It waits no more. Does nothing if it does not wait. */
static inline void kh_exchange_ask_leave(struct kh_exchange *x)
{
	if (x->question)
		kh_questions_leave(x->side->loop->worker->questions, x->question);
	x->question = 0;
}
/* Return: it waited for that question, and x->answered says what to do. */
bool kh_exchange_ask_take(struct kh_exchange *x, uint32_t question,
			  const struct kh_answered *answered);
/* body_buffer.c */
/* Of content whose length was not announced: with this piece, does it keep to the max_body of the
 * rules that allow it? */
bool kh_exchange_is_within_max_body(const struct kh_exchange *x, struct kh_slice piece,
				    struct kh_err *err);
/* exchange_content.c */
/* Held, or on its way up: this was all of it. */
void kh_exchange_end_content(struct kh_exchange *x, const struct kh_field *trailers, size_t n);
/* In RELAY: of what is held, as much as the upstream takes. Return: false: the exchange is over. */
bool kh_exchange_send_held(struct kh_exchange *x);
/* exchange_up.c: `x` has its sandbox's side and its message. */
void kh_exchange_up_init(struct kh_exchange *x);
/* Its open record is in the journal: goes for a connection. `fresh` as of kh_up_acquire. It may be
 * over then.
 */
void kh_exchange_connect(struct kh_exchange *x, bool fresh);
/* exchange_end.c: "no rule allows it, and …". The exchange is over. */
void kh_exchange_refuse_asked(struct kh_exchange *x, const char *why);
/* exchange_end.c: the upstream has said something: there is no other try. */
void kh_exchange_settle(struct kh_exchange *x);

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

/* body_buffer.c: content that is looked into before anything is decided */
/* For a credential that goes into it; likewise kh_body_buffer_begin. */
bool kh_body_buffer_begin_for_credential(struct kh_exchange *x, struct kh_err *err);
bool kh_body_buffer_end_for_credential(struct kh_exchange *x, size_t n_trailers,
				       struct kh_err *err);
/* What the head says of the model. */
bool kh_body_buffer_look_at_head(struct kh_exchange *x, struct kh_err *err);
/* In BUFFER from here on. Return: false: it can't be (head, size). */
bool kh_body_buffer_begin(struct kh_exchange *x, struct kh_err *err);
bool kh_body_buffer_take(struct kh_exchange *x, struct kh_slice piece, struct kh_err *err);
/* All of it is there: which model does it name? Return: false: that can't be told. */
bool kh_body_buffer_read(struct kh_exchange *x, size_t n_trailers, struct kh_err *err);
/* Return: false, with MODEL_UNREADABLE. */
bool kh_body_buffer_refuse(const char *why, struct kh_err *err);
/* Something of it, or its end, has not gone up yet. */
bool kh_body_buffer_has(const struct kh_exchange *x);
/* With the memory: what has gone up of it still takes its room. */
void kh_body_buffer_let_go(struct kh_exchange *x);
void kh_body_buffer_fini(struct kh_exchange *x);

/* exchange_count.c */
void kh_exchange_count_begin(struct kh_exchange *x);
/* With its record in the journal; `opened`: it had an open one. */
void kh_exchange_count_end(const struct kh_exchange *x, bool opened);
void kh_exchange_count_gone(struct kh_exchange *x);
/* Another generation has decided it. */
void kh_exchange_count_anew(struct kh_exchange *x);
/* What passes between the two is somebody else's time. */
void kh_exchange_pause(struct kh_exchange *x);
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
/* The rule that decided (NULL: none), and where it is. */
void kh_exchange_audit_name_rule(struct kh_audit_open *out, const struct kh_config *config,
				 const struct kh_rule *rule);
/* What a record's views point into. */
struct kh_exchange_texts {
	char limit[KH_LIMIT_TEXT_BYTES];
	char credentials[KH_RULE_CREDENTIALS * (KH_NAME_MOST_BYTES + 1)];
};
void kh_exchange_describe(const struct kh_exchange *x, struct kh_audit_open *out,
			  struct kh_exchange_texts *texts);
/* It is decided anew before anything of it was sent: what was opened is closed, and the exchange
 * goes on under another id, without a record. Return: false with `err`: the journal has no room. */
bool kh_exchange_record_anew(struct kh_exchange *x, struct kh_err *err);
/* Its last record: of what was opened the close, else the refusal. */
void kh_exchange_record_end(struct kh_exchange *x);

/* internal_page.c: keyhole.internal */
/* The request that one to keyhole.internal stands for, or the page that it asks for. Return: false
 * with `err`: neither. */
bool kh_internal_page_resolve(struct kh_exchange *x, struct kh_err *err);

/* pages.c: answers x->page. The exchange is over. */
void kh_page_answer(struct kh_exchange *x);

/* dialect.c: the beginning of a JSON object, up to what is said to programs; `x` may be NULL. */
void kh_dialect_put(struct kh_buf *out, const struct kh_exchange *x, struct kh_slice message,
		    const struct kh_err *err);

/* request.c: the canonical request, the decision, and what goes upstream */
void kh_ruling_take(struct kh_ruling *ruling, const struct kh_standing *at,
		    const struct kh_decision *decision);
void kh_ruling_leave(struct kh_ruling *ruling);
bool kh_request_resolve(struct kh_exchange *x, struct kh_err *err);
bool kh_request_decide(struct kh_exchange *x, struct kh_err *err);
/* It was just denied. May a person be asked about it, and would it pass everything else that is
 * known now? Changes nothing. */
bool kh_request_could_be_allowed(struct kh_exchange *x);
/* Of a tunnel that was allowed before: is it still one of its kind? */
bool kh_request_decide_tunnel(struct kh_exchange *x, struct kh_err *err);
/* Would the rules in force allow it, there where it is connected to? Then it keeps to their geo and
 * their limits from here on. */
bool kh_request_is_allowed(struct kh_exchange *x);
/* Of an address that its host's name resolves into; NULL: nobody here knows it. Return: false with
 * `err`: a rule that names addresses denies it, and x->denied_there says which. */
bool kh_request_may_go_to(struct kh_exchange *x, const struct kh_sockaddr *addr,
			  struct kh_err *err);
void kh_request_settle_geo(struct kh_exchange *x, const struct kh_standing *standing,
			   const struct kh_decision *decision);
/* request_head.c: for the head that an up codec writes: the target (path and query), the authority
 * as Host or :authority, and which fields of the message go along. Behind them the credentials' own
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

/* client_auth.c: the authentication that the client sends itself */
/* The name of one of its carriers, wherever it is; len 0: there is none. */
struct kh_slice kh_client_auth_find(const struct kh_exchange *x);
/* Credentials are chosen: may it be there? What is taken out is noted in x->stripped. Return: false
 * with CLIENT_AUTH. */
bool kh_client_auth_settle(struct kh_exchange *x, struct kh_err *err);

/* observe.c: what goes through because it is only observed */
/*
 * The tenant's rules refuse it for that reason, by that rule. Where they only observe, it is
 * marked, and all that was chosen to go in (credentials, signatures, a client certificate) is
 * dropped: the one way to do either. Nothing of it has gone up. Return: false: they are enforced.
 */
bool kh_exchange_observe(struct kh_exchange *x, enum kh_err_code reason, const struct kh_rule *by);
/* The same for an address that was refused for it (x->observed_before), for once. Its open record
 * is in the journal already; `withheld` says whether it names a credential. Return: false: there
 * was none. */
bool kh_exchange_observe_there(struct kh_exchange *x);
/* It goes to the address that was asked about last: the mark of a rule that observes. */
void kh_exchange_mark_there(struct kh_exchange *x);

/* quota.c: limits */
/* The last part of the decision: takes what the exchange needs from the start. */
bool kh_exchange_take_limits(struct kh_exchange *x, struct kh_err *err);
void kh_exchange_leave_limits(struct kh_exchange *x);
/* Those of another generation are in force now, by which it was decided so. */
void kh_exchange_change_limits(struct kh_exchange *x, const struct kh_standing *standing,
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
const char *kh_reached_text(const struct kh_reached *reached, char out[KH_LIMIT_TEXT_BYTES]);

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

#endif
