/* inquiry_internal.h - one request during its decision: intermediate results that are computed
 * once */
#ifndef KEYHOLE_POLICY_INQUIRY_INTERNAL_H
#define KEYHOLE_POLICY_INQUIRY_INTERNAL_H

#include "policy_internal.h"

/* Results of comparing a rule that do not depend on method or host: without them a request with
 * many readings would compute them again for each. */
struct kh_remembered {
	const struct kh_rule *rule;	  /* NULL: nothing */
	uint16_t known_paths, with_paths; /* one bit per path of the request's readings */
	uint8_t known_why, why[2];	  /* enum kh_mismatch; [1]: of a path that nobody knows */
};

/* What a decision computes once for all lists. Most of it is only computed when it is needed. */
struct kh_inquiry {
	const struct kh_request_view *request;
	struct kh_reading_of reading;
	struct kh_steps steps;
	uint32_t method_bit;  /* in this reading */
	uint32_t denied_bits; /* and of the methods that differ in case only */
	/* The method that the bits above were computed from; most readings have the same. */
	const char *bits_of;
	uint8_t flags;		     /* of the rule that allows; 0: none does */
	const struct kh_rule *noted; /* the first denial that was only observed */
	bool asks_model;	     /* a rule that was reached needs the model, which is UNREAD */
	struct kh_host_keys host;
	struct kh_path_forms paths[KH_READING_PATHS];
	bool remembers; /* it has more readings than one */
	struct kh_remembered rules[256];
};
/* It begins in the plain reading. */
void kh_inquiry_init(struct kh_inquiry *q, const struct kh_request_view *request);
void kh_inquiry_fini(struct kh_inquiry *q);
/* Go to the request's first reading, and to the next. Return: false: there is no other. */
void kh_inquiry_begin(struct kh_inquiry *q);
bool kh_inquiry_next(struct kh_inquiry *q);
/* Does that rule match in this reading? Does not check host, scheme, port and spelling. */
enum kh_mismatch kh_inquiry_look(struct kh_inquiry *q, const struct kh_index *index,
				 const struct kh_matcher *m);

/* The list's first rule that decides in this reading, with the keys of its host in q->host. Return:
 * NULL when nothing matches. */
const struct kh_matcher *kh_inquiry_first(struct kh_inquiry *q, const struct kh_index *index,
					  size_t list);

/* Out of steps, so the request is denied. */
static inline void kh_decision_give_up(struct kh_decision *out)
{
	*out = (struct kh_decision){ .reason = KH_ERR_REQUEST_TOO_COMPLEX };
}

#endif
