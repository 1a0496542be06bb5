/* signing.h - an exchange whose request is signed when it is sent (aws_sigv4, hmac) */
#ifndef KEYHOLE_EXCHANGE_SIGNING_H
#define KEYHOLE_EXCHANGE_SIGNING_H

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>
#include <keyhole/http/message.h>

struct kh_exchange;
struct kh_signing;

/* The credentials are chosen: does one of them sign, and can this request be signed? Return: false:
 * it can't, or its content has to be held, whole, before anything goes (holds_for_credential). */
bool kh_signing_begin(struct kh_exchange *x, struct kh_err *err);
/* With the values in hand: makes what the head is written with. Once; a further try has the same.
 */
bool kh_signing_make(struct kh_exchange *x, struct kh_err *err);
/* Is the target one that was made? Then it is a secret. */
bool kh_signing_sets_target(const struct kh_exchange *x);
/* Appends `text` with what the signature put into the target replaced, as kh_injection_hide does:
 * whoever has it could repeat the request without us. Where nothing is signed, as it is. */
bool kh_signing_hide(const struct kh_exchange *x, struct kh_slice text, struct kh_buf *out,
		     bool *found);
bool kh_signing_put_target(const struct kh_exchange *x, struct kh_buf *out);
bool kh_signing_put_fields(const struct kh_exchange *x, struct kh_buf *out);

/* Is each chunk of the content signed by itself? Then the content goes through here, and out of
 * `x->content`. */
bool kh_signing_has_chunks(const struct kh_exchange *x);
bool kh_signing_take_content(struct kh_exchange *x, struct kh_slice piece, struct kh_err *err);
bool kh_signing_end_content(struct kh_exchange *x, struct kh_err *err);

/* The final answer: says in the log where its clock and ours differ. */
void kh_signing_answered(const struct kh_exchange *x, const struct kh_message *response);
/* Bytes of memory for its chunks. */
size_t kh_signing_share(const struct kh_exchange *x);
void kh_signing_free(struct kh_exchange *x);

#endif
