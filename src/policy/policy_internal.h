/* policy_internal.h - what only the policy's own files see */
#ifndef KEYHOLE_POLICY_INTERNAL_H
#define KEYHOLE_POLICY_INTERNAL_H

#include <keyhole/policy.h>

#include "hostset.h"

/* A rule as a decision looks at it: small, and beside the others of its list and host. */
struct kh_matcher {
	uint32_t index;	  /* of the rule in its list */
	uint32_t methods; /* bits of kh_method_bit; 0: any */
	const char *path; /* the rule's own; NULL: any */
	uint16_t path_len;
	uint16_t port;
	uint8_t scheme;
	bool allow;
};

/* index.c: which rules of a list can concern a host, in the order of the list. */
struct kh_index;

/* `lists` outlive the index. Return: NULL without memory or when a rule has no host. */
struct kh_index *kh_index_new(const struct kh_rules *const *lists, size_t n_lists,
			      struct kh_err *err);
void kh_index_free(struct kh_index *index);
size_t kh_index_bytes(const struct kh_index *index);

/* A host as the index knows it: found once, used for each list. */
struct kh_index_host {
	size_t n;
	uint32_t ids[KH_HOSTSET_MOST];
};
void kh_index_find(const struct kh_index *index, const struct kh_host *host,
		   struct kh_index_host *out);

/* Steps through the rules of one list whose host pattern matches, the first of the list first. */
struct kh_walk {
	size_t n;
	struct {
		const struct kh_matcher *next, *end;
	} runs[KH_HOSTSET_MOST];
};
void kh_walk_begin(struct kh_walk *walk, const struct kh_index *index, size_t list,
		   const struct kh_index_host *host);
/* Return: NULL at the end. */
const struct kh_matcher *kh_walk_next(struct kh_walk *walk);

/* The bit of a common method; for all others the one bit that says "compare the text". */
#define KH_METHOD_OTHER (UINT32_C(1) << 31)
uint32_t kh_method_bit(struct kh_slice method);

/* condition.c: does what the rule asks beside its text hold? */
bool kh_rule_conditions_hold(const struct kh_rule *rule, const struct kh_request_view *request);

/* match.c: as kh_path_matches, and also where only the spelling differs in a way that many servers
 * don't see: escaped reserved characters, repeated slashes, a segment's parameters. For rules that
 * deny. */
bool kh_path_matches_leniently(struct kh_slice pattern, struct kh_slice path);

#endif
