/* policy_internal.h - what only the policy's own files see */
#ifndef KEYHOLE_POLICY_INTERNAL_H
#define KEYHOLE_POLICY_INTERNAL_H

#include <stdatomic.h>
#include <stdlib.h>

#include <keyhole/policy/policy.h>

#include "hostkey.h"

/* A rule as a decision uses it: small, and contiguous with the others of its list and host. */
struct kh_matcher {
	const struct kh_rule *rule;
	uint32_t index;	  /* of the rule in its list */
	uint32_t methods; /* bits of kh_policy_method_bit; 0: any */
	uint32_t path;	  /* in the index's texts; with KH_ON_PATH; of a denial in lower case */
	uint32_t decoded; /* of a denial: its path decoded (forms.c), there too */
	uint16_t path_len;
	uint16_t prefix_len; /* of the path: bytes in front of the first star */
	uint16_t port;
	uint8_t scheme;
	uint8_t flags;
};

enum {
	KH_ALLOWS = 1,
	KH_ON_PATH = 2,	   /* it looks at the path */
	KH_PLAIN_PATH = 4, /* the path's pattern has only one spelling, except for case */
	KH_ASKS_MORE = 8,  /* it has conditions (condition.c) */
	KH_OBSERVES = 16,  /* a denial that is only noted */
	KH_NO_WEBSOCKET = 32,
	KH_PASSTHROUGH = 64,
	KH_EXACT = 128, /* spelling: exact */
};

/* index.c: which rules of a list can concern a host, in the order of the list. */
struct kh_index;

/* `lists` outlive the index. Return: NULL without memory or when a rule has no host. */
struct kh_index *kh_index_new(const struct kh_rules *const *lists, size_t n_lists,
			      struct kh_err *err);
void kh_index_free(struct kh_index *index);
size_t kh_index_bytes(const struct kh_index *index);
bool kh_index_has_ranges(const struct kh_index *index, size_t list);
const char *kh_index_path(const struct kh_index *index, const struct kh_matcher *matcher);
const char *kh_index_decoded(const struct kh_index *index, const struct kh_matcher *matcher);

/* A host's keys in this index: worked out once, used for each list. */
void kh_index_find(const struct kh_index *index, const struct kh_host *host,
		   struct kh_host_keys *out);

/* Prefetches the list itself, which has the pointers to its data. */
void kh_index_prefetch_list(const struct kh_index *index, size_t list);
/* Prefetches what a walk through that list will read, while something else is done. */
void kh_index_prefetch(const struct kh_index *index, size_t list, const struct kh_host_keys *keys);

/* A list's patterns that match a host: one a label of the longest name, its exact pattern, "**"; an
 * address has at most 129 ranges. */
enum { KH_INDEX_WALK_RUNS = 132 };

/* Steps through the rules of one list whose host pattern matches, the first of the list first. */
struct kh_index_walk {
	size_t n;
	struct kh_run {
		const struct kh_matcher *next, *end;
	} runs[KH_INDEX_WALK_RUNS];
};
void kh_index_walk_begin(struct kh_index_walk *walk, const struct kh_index *index, size_t list,
			 const struct kh_host_keys *keys);
/* Return: NULL at the end. */
const struct kh_matcher *kh_index_walk_next(struct kh_index_walk *walk);

/* The bit of a common method; for all others the one bit that says "compare the text". */
#define KH_METHOD_OTHER (UINT32_C(1) << 31)
uint32_t kh_policy_method_bit(struct kh_slice method);
/* Of the method in capitals. */
uint32_t kh_policy_method_bit_folded(struct kh_slice method);

/* Not decided: the content has to be read first. */
static inline void kh_decision_ask_model(struct kh_decision *out)
{
	*out = (struct kh_decision){ .reason = KH_ERR_MODEL_UNREADABLE, .asks_model = true };
}
static inline const struct kh_geo_rules *kh_rule_geo(const struct kh_rule *rule)
{
	return rule && rule->more ? rule->more->geo : NULL;
}

struct kh_reading_of;
/* condition.c: checks the rule's conditions in that reading. Return: the first that does not
 * hold. */
enum kh_mismatch kh_rule_conditions_miss(const struct kh_rule *rule,
					 const struct kh_request_view *request,
					 const struct kh_reading_of *reading);
/* The same for a deny rule with `spelling: exact`. */
enum kh_mismatch kh_rule_conditions_miss_exactly(const struct kh_rule *rule,
						 const struct kh_request_view *request,
						 const struct kh_reading_of *reading);

/* A list of an index: of the policy's for a listener of the configuration, else of its own. */
struct kh_narrowing {
	const struct kh_index *index;
	size_t list;
	const struct kh_rules *rules; /* NULL: there is no such narrowing */
	struct kh_rules own;	      /* of one that is not the configuration's */
	struct kh_index *own_index;
	atomic_uint refs;
};
/* narrowing.c: refuses the same rules that the configuration's parser refuses, since they may come
 * another way. */
bool kh_narrowing_check(const struct kh_rules *rules, struct kh_err *err);
/* What else is asked when all other lists allow: `own` is what the narrowing says of it, and
 * whether of a WebSocket too. */
void kh_decision_narrow(const struct kh_decision *own, bool websocket, struct kh_decision *out);

struct kh_steps;
/* reading.c: the ways in which a request may be read, the plain one first. */
enum {
	KH_READING_PATHS = 4 + KH_PATH_CUTS
}; /* of `nth_path`: what follows is a path that nobody knows */
struct kh_reading_of {
	enum kh_reading how;
	bool any_method, any_path; /* nobody knows which */
	bool no_host;		   /* nor which host: no rule allows that */
	bool source;		   /* what a field has the server copy, by a request of its own */
	bool respelled;		   /* only the spelling differs from what was written */
	uint16_t port;
	struct kh_slice method;
	struct kh_slice path;
	struct kh_slice cut_query; /* what follows the path; ptr NULL: it is not cut */
	const struct kh_host *host;
	size_t nth_method, nth_path, nth_host;
	struct kh_steps *steps; /* of whoever asks; kh_reading_begin leaves it as it is */
	struct kh_host carried; /* room for `host`; not set where it is not used */
};
void kh_reading_begin(const struct kh_request_view *request, struct kh_reading_of *out);
/* Return: false when there is no other. */
bool kh_reading_next(const struct kh_request_view *request, struct kh_reading_of *reading);
/* Most requests have one reading. */
static inline bool kh_request_has_readings(const struct kh_request_view *request)
{
	return request->path_slashed.ptr || request->path_decoded.ptr || request->path_cuts ||
	       request->overrides || request->host->kind == KH_HOST_IPV6;
}
/* Two readings of one request lead to one decision; `reading` is the other's. Either rule may be
 * NULL. */
const struct kh_rule *kh_reading_both(const struct kh_rule *one, const struct kh_rule *other,
				      const struct kh_reading_of *reading);
/* Does a rule hold for a path that nobody knows? One that denies does. */
bool kh_rule_holds_for_any_path(const struct kh_rule *rule);
/* And for the reading's method, which may be such a one too? */
bool kh_rule_holds_for_method(const struct kh_rule *rule, const struct kh_reading_of *reading);
/* Of a rule that denies in the reading: which spelling it took for what it names. */
enum kh_reading kh_reading_of_denial(const struct kh_rule *rule,
				     const struct kh_request_view *request,
				     const struct kh_reading_of *reading);
/* Where a rule names no methods its credential goes with these only. */
#define KH_CREDENTIAL_METHODS UINT32_C(0x7f)
static inline bool kh_rule_has_common_methods_only(const struct kh_rule *rule)
{
	return rule->n_methods == 0 && rule->n_credentials > 0;
}
/* What is known when a tenant's list has been asked. It holds what is said of the rule, so that the
 * rule itself, which is far away, need not be looked at. */
struct kh_heard {
	uint8_t flags;	     /* of the rule that allows; 0: none does */
	bool site_websocket; /* the site's rule does not refuse one */
	const struct kh_rule *site_noted,
		*noted; /* the first denial of either list that observes */
};
void kh_decision_finish(const struct kh_policy *policy, uint16_t tenant,
			const struct kh_heard *heard, struct kh_decision *out);
const struct kh_config *kh_policy_config(const struct kh_policy *policy);
const struct kh_index *kh_policy_index(const struct kh_policy *policy);
/* Do the rules of that list allow anything there? */
bool kh_policy_list_knows(const struct kh_policy *policy, size_t list, enum kh_scheme scheme,
			  const struct kh_host *host, uint16_t port);
/* Where the lists are in the policy's index. */
enum { KH_SITE_LIST = 0 };
static inline size_t kh_tenant_list(size_t tenant)
{
	return tenant + 1;
}

/* lint.c: the first rule of the list, in front of this one of it, that leaves nothing for it.
 * `left`: rules that may be compared with it, of which those are taken off that were; NULL also
 * when none is left. */
const struct kh_rule *kh_policy_shadow_of(const struct kh_index *index, size_t list,
					  const struct kh_rule *rule, unsigned *left);
/* Does the first one deny all that the other one allows? */
bool kh_policy_hides(const struct kh_rule *denial, const struct kh_rule *rule);

/* The work of one decision, in steps of about a nanosecond, mostly compared bytes. */
struct kh_steps {
	uint64_t done, most;
};
static inline bool kh_steps_are_over(const struct kh_steps *steps)
{
	return steps->done > steps->most;
}

/* match.c: as kh_path_matches, with or without a '/' at the path's end. Return: false also when the
 * steps are over. */
enum kh_path_end { KH_END_EXACTLY = 0, KH_END_LOOSELY };
bool kh_path_search(struct kh_slice pattern, struct kh_slice path, enum kh_path_end end,
		    struct kh_steps *steps);

/* forms.c: does a lenient comparison of a path differ from an exact one? More than in case
 * (NOT_PLAIN), only in case, or not at all. */
enum kh_plainness { KH_NOT_PLAIN = 0, KH_PLAIN_BUT_CASE, KH_PLAIN };
enum kh_plainness kh_path_plainness(struct kh_slice path);

/* The forms of one path that deny rules are compared with. */
struct kh_path_forms {
	const char *of;		 /* the path; NULL: not set yet */
	enum kh_plainness plain; /* of it */
	unsigned n;		 /* 0: not written yet */
	bool same;		 /* the first two are */
	struct kh_slice texts[7];
	char *heap; /* of a long path's */
	char room[1024];
};
static inline void kh_forms_begin(struct kh_path_forms *forms)
{
	forms->of = NULL;
	forms->n = 0;
	forms->heap = NULL;
}
static inline void kh_forms_end(struct kh_path_forms *forms)
{
	if (forms->heap)
		free(forms->heap);
}
/* Computes them, unless that is done. Return: false without memory. */
bool kh_forms_fill(struct kh_path_forms *forms, struct kh_slice path, struct kh_steps *steps);
/* Does a pattern match one of them? It is given in the forms that follow. */
bool kh_forms_match(const struct kh_path_forms *forms, struct kh_slice folded,
		    struct kh_slice decoded, struct kh_steps *steps);
/* A denial's pattern as it is compared, without a '/' at its end: in lower case; decoded. `to` has
 * room for pattern.len bytes. Return: bytes written. */
size_t kh_policy_pattern_fold(struct kh_slice pattern, char *to);
size_t kh_policy_pattern_decode(struct kh_slice pattern, char *to);
/* All of that at once: as kh_path_matches, and also where only the spelling differs in a way that
 * some servers don't see. Allocates; without memory it matches. */
bool kh_path_matches_leniently(struct kh_slice pattern, struct kh_slice path);

#endif
