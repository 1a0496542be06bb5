/* values_internal.h - the lists of credential values in the worker: find, add, evict */
#ifndef KEYHOLE_LOOP_VALUES_INTERNAL_H
#define KEYHOLE_LOOP_VALUES_INTERNAL_H

#include <keyhole/base/fair_share.h>
#include <keyhole/loop/values.h>

struct kh_credential_value {
	struct kh_credential_value *next;
	enum kh_slot_state state;
	struct kh_secret *secret; /* FULL */
	bool asked;		  /* FULL: the next value was requested */
	uint64_t expires_ms;	  /* FULL: wall clock; 0: never */
	uint64_t ahead_ms;	  /* FULL: wall clock: when the next value is requested; 0: never */
	uint64_t asked_ms; /* MISSING: monotonic: when the keeper answered that there is none */
	uint64_t used;	   /* kh_generation.uses at its last use */
	uint64_t used_ms;  /* monotonic */
	struct kh_fair_share_asker asker; /* the sandbox that used it last */
	uint64_t refused_ms;		  /* monotonic: when one was dropped for a 401; 0: never */
	char *why;			  /* MISSING */
	uint16_t tenant;
	size_t scope_len;
	char scope[];
};

/* Call all of these with the generation's lock held. */

bool kh_values_is_for(const struct kh_credential_value *value, const struct kh_credential_ref *ref,
		      uint16_t tenant);
/* The pointer in the list that points to the value; the list's final pointer if there is none. */
struct kh_credential_value **kh_values_find(struct kh_credential_slot *slot,
					    const struct kh_credential_ref *ref, uint16_t tenant);
/* Adds a value, evicting another if needed. Return: NULL: no place for it, or no memory. */
struct kh_credential_value *kh_values_make(struct kh_generation *g,
					   const struct kh_credential_ref *ref, uint16_t tenant,
					   const struct kh_fair_share_asker *asker);
void kh_values_remove_at(struct kh_credential_slot *slot, struct kh_credential_value **at);
/* A value for a scope has come, and may be larger than was reserved: evicts others if needed. */
void kh_values_bound(struct kh_generation *g, const struct kh_credential_value *newcomer);

#endif
