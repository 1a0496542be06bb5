/* fair_share.h - which entry a full table evicts, when sandboxes share the table */
#ifndef KEYHOLE_BASE_FAIR_SHARE_H
#define KEYHOLE_BASE_FAIR_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A sandbox chooses what its requests need a value for (a repository, a region), so it can fill any
 * table of such values. So its users share the places: when all are taken, the user with the most
 * places loses the one that it has not used for longest. A sandbox that floods the table evicts its
 * own entries, and takes a place from another sandbox only while that one has more.
 *
 * Places are shared among tenants first, and within a tenant among its sandboxes. So a tenant does
 * not get more places by having or adding many sandboxes. (An attacker is one agent in one sandbox;
 * the other sandboxes of its tenant are its neighbours.) If only sandboxes are known, all places
 * have the same tenant.
 *
 * A place belongs to its last user, so that a value which two sandboxes need is not lost when one
 * of them floods. The caller marks a place as KH_FAIR_SHARE_NOBODY if nobody used it for
 * KH_FAIR_SHARE_IDLE_MS, or if its value has expired. Such a place goes first: else idle sandboxes
 * would keep all places from active ones.
 */
enum { KH_FAIR_SHARE_NOBODY = 0, KH_FAIR_SHARE_IDLE_MS = 10 * 60 * 1000 };

/* Who asks for a place. */
struct kh_fair_share_asker {
	uint64_t number; /* a sandbox's, or KH_FAIR_SHARE_NOBODY */
	uint16_t tenant;
};

struct kh_fair_share_place {
	uint32_t tenant;
	uint64_t whose; /* a sandbox's number; KH_FAIR_SHARE_NOBODY */
	uint64_t used;	/* the time of the last use, or a counter; greater is later */
	bool fixed;	/* a request waits for it: it counts and is not evicted */
	void *at;	/* for the caller */
};

/* All places are taken, and the sandbox `newcomer` of `tenant` wants one: which place is evicted?
 * May reorder `places`. Return: an element of `places`; NULL: none, since the newcomer has its
 * share already, or requests wait for all places that could go. */
struct kh_fair_share_place *kh_fair_share_pick(struct kh_fair_share_place *places, size_t count,
					       uint32_t tenant, uint64_t newcomer);

#endif
