/* values_internal.h - the values of a credential that the worker has: found, made, given up */
#ifndef KEYHOLE_LOOP_VALUES_INTERNAL_H
#define KEYHOLE_LOOP_VALUES_INTERNAL_H

#include <keyhole/base/fair_share.h>
#include <keyhole/loop/values.h>

struct kh_credential_value {
	struct kh_credential_value *next;
	enum kh_slot_state state;
	struct kh_secret *secret; /* FULL */
	bool asked;		  /* FULL: for the next one */
	uint64_t expires_ms;	  /* FULL: wall clock; 0: never */
	uint64_t ahead_ms;	  /* FULL: wall clock: when it is asked for anew; 0: never */
	uint64_t asked_ms;	  /* monotonic, of the answer that brought none */
	uint64_t used;		  /* the generation's counter */
	uint64_t used_ms;	  /* monotonic */
	struct kh_fair_share_asker asker; /* the sandbox that used it last */
	uint64_t refused_ms;		  /* monotonic: when one was dropped for a 401; 0: never */
	char *why;			  /* MISSING */
	uint16_t tenant;
	size_t scope_len;
	char scope[];
};

/* All of it under the generation's lock. */

bool kh_values_is_for(const struct kh_credential_value *value, const struct kh_credential_ref *want,
		      uint16_t tenant);
/* Where the pointer to it stands; the end of the list when it is not there. */
struct kh_credential_value **kh_values_find(struct kh_credential_slot *slot,
					    const struct kh_credential_ref *want, uint16_t tenant);
/* Return: NULL: there is no place for it, or no memory. */
struct kh_credential_value *kh_values_make(struct kh_generation *g,
					   const struct kh_credential_ref *want, uint16_t tenant,
					   const struct kh_fair_share_asker *asker);
void kh_values_remove_at(struct kh_credential_slot *slot, struct kh_credential_value **at);
/* A value for a scope has come, and may be larger than was reckoned with: others go for it. */
void kh_values_bound(struct kh_generation *g, const struct kh_credential_value *newcomer);

#endif
