/* placeholder_check.h - placeholders and real credentials in what leaves a sandbox (recognise.c) */
#ifndef KEYHOLE_EXCHANGE_PLACEHOLDER_CHECK_H
#define KEYHOLE_EXCHANGE_PLACEHOLDER_CHECK_H

#include <keyhole/base/err.h>
#include <keyhole/base/limits.h>
#include <keyhole/http/message.h>
#include <keyhole/http/target.h>

struct kh_exchange;

/* What is sought in the content of one request, and was found. */
struct kh_content_look;
void kh_content_look_free(struct kh_content_look *look);
size_t kh_content_look_kept_bytes(const struct kh_content_look *look); /* NULL is fine */

/*
 * Looks for a real credential in the host, the method, the fields and their names, the path and the
 * query, whichever way it is written; before any rule is asked, also in a request that can't be
 * understood. One that holds one is `recognised` from then on. Return: false: no memory.
 */
bool kh_recognise_request(struct kh_exchange *x, struct kh_err *err);
/*
 * The rules allow it: may it leave? The only place at which a sandbox sees whether something was
 * recognised. How often it may see that is bounded: beyond, nothing of the sandbox leaves for a
 * while, whatever it holds. Return: false with EXFILTRATION or SANDBOX_HELD.
 */
bool kh_recognise_may_leave(struct kh_exchange *x, struct kh_err *err);
/* It is refused before anything was sent: does what was done if it had a candidate, unless it had.
 */
void kh_recognise_even_out(struct kh_exchange *x);
/* The same of one field after the content, whose head has left: it is seen. */
bool kh_recognise_none_in_trailer(const struct kh_exchange *x, const struct kh_field *field,
				  struct kh_err *err);
/* For the journal: the same with "(hidden)" for a host that holds a real credential; does a text
 * that may name such a host, or a model, hold one? True where there is no memory to look.
 * `refused`: the work is the same whatever it is. */
const struct kh_authority *kh_authority_hidden(void);
struct kh_worker;
bool kh_recognise_in_text(struct kh_worker *worker, struct kh_slice text, bool refused);
/* Runs `fn` on every reading of a text. Return: false: `fn` said so, or there is no memory. */
bool kh_recognise_each_reading(struct kh_slice text, bool (*fn)(struct kh_slice text, void *arg),
			       void *arg);
/* The method for the journal: "(hidden)" where it holds a real credential. */
struct kh_slice kh_recognise_method_shown(const struct kh_exchange *x);
/* A text of the sandbox's own for an answer to it: "(hidden)" in place of one that may hold a
 * credential, since it is hard to guess; whether it holds one makes no difference. */
struct kh_slice kh_recognise_text_shown(struct kh_slice text);
/*
 * The decision has been made, and what goes in is chosen: is there a placeholder where it would
 * leave, or another sandbox's anywhere, or none where one must be? Where that is only observed,
 * nothing goes in. Return: false with EXFILTRATION or PLACEHOLDER_MISSING.
 */
bool kh_placeholder_settle(struct kh_exchange *x, struct kh_err *err);
/* The same, whether it is only observed or not; changes nothing. */
bool kh_placeholder_check(const struct kh_exchange *x, struct kh_err *err);
/* The same of one field after the content. */
bool kh_placeholder_trailer_may_go(const struct kh_exchange *x, const struct kh_field *field,
				   struct kh_err *err);
/* Content as the sandbox sent it, in order. Return: false with EXFILTRATION: a placeholder is in
 * it, and the rule refuses that; nothing of this piece may go. */
bool kh_content_look_at(struct kh_exchange *x, struct kh_slice piece, struct kh_err *err);
/* The same of a WebSocket's control frames. They come between pieces of a message, which go on
 * after them. */
bool kh_content_look_at_control(struct kh_exchange *x, struct kh_slice payload, struct kh_err *err);
/* No more comes: what was found, for the journal; NULL: nothing. */
const char *kh_placeholder_found_in_content(struct kh_exchange *x);

#endif
