/* body.h - a credential's place in a request's content: found and filled while the content passes
 */
#ifndef KEYHOLE_CREDENTIAL_BODY_H
#define KEYHOLE_CREDENTIAL_BODY_H

#include <keyhole/base/buf.h>
#include <keyhole/base/limits.h>
#include <keyhole/http/message.h>
#include <keyhole/config/placement.h>
#include <keyhole/base/secret.h>

/*
 * A push filter: content goes in in pieces of any size, and comes out as it was, but for the text
 * at the declared place, which is replaced by the value, escaped for where it stands. Memory is
 * bounded, however long the content is and whatever it holds. The place must be there, once, and
 * hold a text; whatever some reader could take for a second one of that name (another case, an
 * escape, a separator that not all know) is refused, since the server would choose between the two.
 *
 * What went out before a fault is the beginning of a content that never ends: whoever drives the
 * filter must cut the request off.
 */
struct kh_body;

/* Why the value can't go into this request's content, by its head; NULL: it may. */
const char *kh_body_head_fault(const struct kh_placement *placement,
			       const struct kh_message *message);
/* A field that speaks of the content's bytes, and would be wrong behind the filter: it is taken out
 * (Content-MD5, Content-Digest, Repr-Digest, Digest, x-amz-content-sha256 …). */
bool kh_body_is_digest_field(struct kh_slice name);

/* NULL without memory. `placement` must outlive it. */
struct kh_body *kh_body_new(const struct kh_placement *placement);
void kh_body_free(struct kh_body *body); /* NULL is fine */
/*
 * With `secret`: appends to `out`, a wiping buffer with room for the piece and for
 * KH_LIMIT_BODY_VALUE_BYTES three times. Without: only looks, and nothing is appended (`out` may be
 * NULL). Return: false: there is a fault, and nothing more must be fed.
 */
bool kh_body_feed(struct kh_body *body, struct kh_slice piece, const struct kh_secret *secret,
		  struct kh_buf *out);
/* The content is whole. Return: false: a fault (the place was not there, it ended too early). */
bool kh_body_end(struct kh_body *body);
const char *kh_body_fault(const struct kh_body *body); /* a literal; NULL: none */
/* The bytes of the client's text that were replaced. */
uint64_t kh_body_replaced_bytes(const struct kh_body *body);
/*
 * A name in a form, decoded while its bytes come. Escapes are undone as deep as they are nested.
 * What some server takes off in front is dropped, but for one bracket or '!' right before the name,
 * and further blanks are shortened, so that no number of them hides what follows, or the name's end
 * (kh_spelling_of_parameter).
 */
struct kh_form_name {
	size_t len;
	bool full; /* what comes now belongs to a name longer than any that is looked for */
	char text[2 * KH_LIMIT_BODY_NAME_BYTES];
};
void kh_form_name_begin(struct kh_form_name *name);
void kh_form_name_byte(struct kh_form_name *name, char c); /* a byte as it stands in the form */
/* Is it that name to some reader (kh_spelling_is_form_name)? */
bool kh_form_name_is(const struct kh_form_name *name, struct kh_slice wanted);
struct kh_slice kh_form_name_text(const struct kh_form_name *name);

/*
 * Does a form's content bring a token of the client's own (access_token, private_token and their
 * kin, in any spelling)? Zeroed but for `own` at the beginning, fed in pieces of any size. Return:
 * one was found.
 */
struct kh_form_carriers {
	struct kh_slice own; /* the name that a credential replaces the value of; empty: none */
	bool in_value, found;
	size_t looked_at; /* names that were decoded, for tests: most need no such look */
	struct kh_form_name name;
};
bool kh_form_carries(struct kh_form_carriers *form, struct kh_slice piece);
/* Is the content a form to some server: application/x-www-form-urlencoded anywhere in its type, or
 * a POST without a type? `query`: the request's own, which may name the method. */
bool kh_form_is_one(const struct kh_message *message, struct kh_slice query);
/* Content-Encoding: what stands in it can't be seen. */
bool kh_form_is_encoded(const struct kh_message *message);

/* How many bytes the value has once it is escaped. Return: false: it can't go there (too long, no
 * UTF-8), or its page can't be opened. */
bool kh_body_value_bytes(const struct kh_placement *placement, const struct kh_secret *secret,
			 size_t *out);

#endif
