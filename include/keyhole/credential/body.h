/* body.h - finds and fills a credential's place in a request's content, in a stream */
#ifndef KEYHOLE_CREDENTIAL_BODY_H
#define KEYHOLE_CREDENTIAL_BODY_H

#include <keyhole/base/buf.h>
#include <keyhole/base/limits.h>
#include <keyhole/http/message.h>
#include <keyhole/config/placement.h>
#include <keyhole/base/secret.h>

/*
 * A push filter: content goes in in pieces of any size, and comes out unchanged, except that the
 * text at the configured place is replaced by the value, escaped as that place needs it. Memory is
 * bounded, whatever the content is. The place must occur exactly once and hold text. A second name
 * that some server could take for the same (other case, an escape, a separator that not all know)
 * is refused, since the server would choose between the two.
 *
 * If a fault is found after a part of the content was sent, the caller must abort the request, so
 * that the upstream never gets a complete one.
 */
struct kh_body;

/* Why the value can't go into this request's content, judged by its head, a literal; NULL: it can.
 */
const char *kh_body_head_fault(const struct kh_placement *placement,
			       const struct kh_message *message);
/* Is it a field with a digest of the content, which would be wrong after the filter and is dropped
 * (Content-MD5, Content-Digest, Repr-Digest, Digest, x-amz-content-sha256 …)? */
bool kh_body_is_digest_field(struct kh_slice name);

/* `placement` must outlive the filter. Return: NULL without memory. */
struct kh_body *kh_body_new(const struct kh_placement *placement);
void kh_body_free(struct kh_body *body); /* NULL is fine */
/*
 * With `secret`: appends to `out`, a wiping buffer with room for the piece and three times
 * KH_LIMIT_BODY_VALUE_BYTES. Without: only checks, and appends nothing (`out` may be NULL). Return:
 * false: a fault (kh_body_fault); nothing more may be fed.
 */
bool kh_body_feed(struct kh_body *body, struct kh_slice piece, const struct kh_secret *secret,
		  struct kh_buf *out);
/* The content is complete. Return: false: a fault (the place did not occur, or the content ended
 * too early). */
bool kh_body_end(struct kh_body *body);
const char *kh_body_fault(const struct kh_body *body); /* a literal; NULL: none */
/* How many bytes of the client's text were replaced so far. */
uint64_t kh_body_replaced_bytes(const struct kh_body *body);
/*
 * A name in a form, decoded byte by byte. Nested escapes are undone. Characters that some server
 * drops before a name are dropped, except for one bracket or '!' right before it, and runs of
 * blanks are shortened. So no number of them hides the name or its end (kh_spelling_of_parameter).
 */
struct kh_form_name {
	size_t len;
	bool full; /* the rest is dropped: the name is longer than any that is searched */
	char text[2 * KH_LIMIT_BODY_NAME_BYTES];
};
void kh_form_name_begin(struct kh_form_name *name);
void kh_form_name_byte(struct kh_form_name *name, char c); /* a byte of the form, still escaped */
/* Does some server take it for that name (kh_spelling_is_form_name)? */
bool kh_form_name_is(const struct kh_form_name *name, struct kh_slice wanted);
struct kh_slice kh_form_name_text(const struct kh_form_name *name);

/*
 * Does the content of a form hold a token of the client's own (access_token, private_token and
 * similar, in any spelling)? The struct is zeroed at first, except `own`; content is fed in pieces
 * of any size. Return: true: one was found.
 */
struct kh_form_carriers {
	struct kh_slice own; /* a name that does not count, since a credential replaces its value;
				empty: none */
	bool in_value, found;
	size_t looked_at; /* for tests: names that were compared; most need not be */
	struct kh_form_name name;
};
bool kh_form_carries(struct kh_form_carriers *form, struct kh_slice piece);
/* Does some server take the content for a form: does its Content-Type contain
 * application/x-www-form-urlencoded anywhere, or is it a POST without a type? `query`: the
 * request's own, which may name the method. */
bool kh_form_is_one(const struct kh_message *message, struct kh_slice query);
/* Has the content a Content-Encoding other than identity, so that it can't be read? */
bool kh_form_is_encoded(const struct kh_message *message);

/* How many bytes the value takes once it is escaped. Return: false: it can't go there (too long,
 * not UTF-8), or its pages can't be opened. */
bool kh_body_value_bytes(const struct kh_placement *placement, const struct kh_secret *secret,
			 size_t *out);

#endif
