/* explain_addresses.h - which addresses a request would connect to, for `keyhole explain` */
#ifndef KEYHOLE_CLI_EXPLAIN_ADDRESSES_H
#define KEYHOLE_CLI_EXPLAIN_ADDRESSES_H

#include <jansson.h>

#include <keyhole/exchange/dry_run.h>
#include <keyhole/net/geo.h>
#include <keyhole/http/target.h>
#include <keyhole/policy/policy.h>

/* What an address is judged by. */
struct kh_explain_place {
	const struct kh_config *config;
	struct kh_geo *geo;
	struct kh_geo_levels levels;
	const struct kh_policy *policy;
	const struct kh_narrowing *narrowing;
	const struct kh_request_view *view; /* the request for rules by address; NULL: none */
	bool unread;			    /* a tunnel */
	uint16_t tenant;
	bool resolve; /* look names up */
};

/* The addresses that an allowed request would connect to: a list, each with whether it is allowed.
 * If none is, or only because of mode observe, *outcome is changed accordingly. */
json_t *kh_explain_addresses(const struct kh_explain_place *from,
			     const struct kh_authority *authority, struct kh_outcome *outcome);

#endif
