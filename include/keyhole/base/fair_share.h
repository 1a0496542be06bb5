/* fair_share.h - who gives up a place, where sandboxes fill a table that has an end */
#ifndef KEYHOLE_BASE_FAIR_SHARE_H
#define KEYHOLE_BASE_FAIR_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A sandbox chooses what its requests need a value for (a repository, a region), so it can fill any
 * table of such values. The places are therefore shared out among those who use them: when all are
 * taken, whoever has the most gives up the one that it has not used for longest. One that floods
 * the table throws out its own, and takes from another only as long as that one has more.
 *
 * Shares are a tenant's first, and in it a sandbox's. A tenant that has many sandboxes, or adds
 * some, gets no more places from other tenants for that. What is hostile inside a tenant is one
 * agent in one sandbox, and the tenant's other sandboxes are its neighbours. Where only sandboxes
 * are known, all places have the same tenant.
 *
 * A place belongs to whoever used it last, so that a value which two sandboxes need is not lost
 * when one of them floods. One that nobody has used for KH_FAIR_SHARE_IDLE_MS, or whose value has
 * ended, is nobody's and goes first: else the sandboxes of an hour ago would leave those of now
 * nothing.
 */
enum { KH_FAIR_SHARE_NOBODY = 0, KH_FAIR_SHARE_IDLE_MS = 10 * 60 * 1000 };

/* Whose share it is that something takes. */
struct kh_fair_share_asker {
	uint64_t number; /* a sandbox's, or KH_FAIR_SHARE_NOBODY */
	uint16_t tenant;
};

struct kh_fair_share_place {
	uint32_t tenant;
	uint64_t whose; /* a sandbox's number; KH_FAIR_SHARE_NOBODY */
	uint64_t used;	/* greater: later */
	bool fixed;	/* somebody waits for it: it counts and stays */
	void *at;	/* the caller's */
};

/* All places are taken, and the sandbox `newcomer` of `tenant` wants one: the one that is given up.
 * Sorts them. Return: NULL: none; the newcomer has its share, or all that might go is waited for.
 */
struct kh_fair_share_place *kh_fair_share_pick(struct kh_fair_share_place *places, size_t count,
					       uint32_t tenant, uint64_t newcomer);

#endif
