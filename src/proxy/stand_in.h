/* stand_in.h - placeholders and real credentials in what leaves a sandbox */
#ifndef KEYHOLE_PROXY_STAND_IN_H
#define KEYHOLE_PROXY_STAND_IN_H

#include <keyhole/config.h>
#include <keyhole/message.h>
#include <keyhole/stand_in.h>

struct kh_exchange;

/* How placeholders are known under one configuration. Immutable. */
struct kh_recogniser {
	struct kh_marks *marks; /* NULL: there are no credentials, and no placeholders */
	size_t n_keys;
	struct kh_name_tag *names; /* of each credential, under each key */
};
bool kh_recogniser_init(struct kh_recogniser *r, const struct kh_config *config,
			struct kh_err *err);
void kh_recogniser_fini(struct kh_recogniser *r);

/* What is sought in the content of one request, and was found. */
struct kh_content_look;
void kh_content_look_free(struct kh_content_look *look);

/*
 * Is a real credential in the method, the fields and their names, the path or the query, whichever
 * way it is written? Asked before any rule is, also of a request that can't be understood. Return:
 * false with EXFILTRATION, whatever was in `err`, and target or method are hidden from who would
 * show them.
 */
bool kh_request_holds_no_secret(struct kh_exchange *x, struct kh_err *err);
/* The method for journal and answers: "(hidden)" where it held a real credential. */
struct kh_slice kh_request_method_shown(const struct kh_exchange *x);
/*
 * The decision has been made, and what goes in is chosen: is there a placeholder where it would
 * leave, or another sandbox's anywhere, or none where one must be? Return: false with EXFILTRATION
 * or PLACEHOLDER_MISSING.
 */
bool kh_request_settle_stand_ins(struct kh_exchange *x, struct kh_err *err);
/* The same of one field behind the content. */
bool kh_trailer_may_go(const struct kh_exchange *x, const struct kh_field *field,
		       struct kh_err *err);
/* trailers.c: those of the fields behind the content that go upstream. Return: false with `err`:
 * one of them may not, and so nothing of the request does. */
bool kh_exchange_trailers(const struct kh_exchange *x, const struct kh_field *trailers, size_t n,
			  struct kh_field kept[KH_LIMIT_FIELDS], size_t *n_kept,
			  struct kh_err *err);
/* Content as the sandbox sent it, in order. Return: false with EXFILTRATION: a placeholder is in
 * it, and the rule refuses that; nothing of this piece may go. */
bool kh_content_look_at(struct kh_exchange *x, struct kh_slice piece, struct kh_err *err);
/* No more comes: what was found, for the journal; NULL: nothing. */
const char *kh_content_found(struct kh_exchange *x);

#endif
