/* explain_addresses.h - what a request would be connected to, for `keyhole explain` */
#ifndef KEYHOLE_CLI_EXPLAIN_ADDRESSES_H
#define KEYHOLE_CLI_EXPLAIN_ADDRESSES_H

#include <jansson.h>

#include <keyhole/exchange/dry_run.h>
#include <keyhole/net/geo.h>
#include <keyhole/http/target.h>
#include <keyhole/policy/policy.h>

/* By whose word an address is judged. */
struct kh_explain_place {
	const struct kh_config *config;
	struct kh_geo *geo;
	struct kh_geo_levels levels;
	const struct kh_policy *policy;
	const struct kh_narrowing *narrowing;
	const struct kh_request_view *view; /* that its rules by address are asked of; NULL: none */
	bool unread;			    /* a tunnel */
	uint16_t tenant;
	bool resolve; /* a name is looked up */
};

/* What would be dialled for what is allowed: a list, each with whether it may be. Where none may,
 * or only since rules observe, that is the outcome from there on. */
json_t *kh_explain_addresses(const struct kh_explain_place *from,
			     const struct kh_authority *authority, struct kh_outcome *outcome);

#endif
