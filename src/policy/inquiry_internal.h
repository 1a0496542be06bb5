/* inquiry_internal.h - one request, held against rules: what is worked out of it once */
#ifndef KEYHOLE_POLICY_INQUIRY_INTERNAL_H
#define KEYHOLE_POLICY_INQUIRY_INTERNAL_H

#include "policy_internal.h"

/* What is known of a rule whatever the method and the host: in a request with many readings each
 * would be worked out again for each of these. */
struct kh_remembered {
	const struct kh_rule *rule;	  /* NULL: nothing */
	uint16_t known_paths, with_paths; /* a bit a path of the request's readings */
	uint8_t known_why, why[2];	  /* enum kh_mismatch; [1]: of a path that nobody knows */
};

/* What a decision works out once, for all lists. Most of it stays as it is until it is used. */
struct kh_inquiry {
	const struct kh_request_view *request;
	struct kh_reading_of reading;
	struct kh_steps steps;
	uint32_t method_bit;  /* in this reading */
	uint32_t denied_bits; /* and of the methods that differ in case only */
	/* What the above was worked out of: most readings of most lists have the same. */
	const char *bits_of;
	uint8_t flags;		     /* of the rule that allows; 0: none does */
	const struct kh_rule *noted; /* the first denial that was only observed */
	bool asks_model;	     /* a rule does that was reached, and it was not read */
	struct kh_host_keys host;
	struct kh_path_forms paths[KH_READING_PATHS];
	bool remembers; /* it has more readings than one */
	struct kh_remembered rules[256];
};
/* It begins in the plain reading. */
void kh_inquiry_init(struct kh_inquiry *q, const struct kh_request_view *request);
void kh_inquiry_fini(struct kh_inquiry *q);
/* The request's first reading, and each of the others. Return: false when there is no other. */
void kh_inquiry_begin(struct kh_inquiry *q);
bool kh_inquiry_next(struct kh_inquiry *q);
/* Does that rule match in this reading, beside its host, scheme, port and spelling? */
enum kh_mismatch kh_inquiry_look(struct kh_inquiry *q, const struct kh_index *index,
				 const struct kh_matcher *m);

/* The list's first rule that decides in this reading, with the keys of its host in q->host. Return:
 * NULL when nothing matches. */
const struct kh_matcher *kh_inquiry_first(struct kh_inquiry *q, const struct kh_index *index,
					  size_t list);

/* Nobody can say what the rules make of it: it is denied. */
static inline void kh_decision_give_up(struct kh_decision *out)
{
	*out = (struct kh_decision){ .reason = KH_ERR_REQUEST_TOO_COMPLEX };
}

#endif
