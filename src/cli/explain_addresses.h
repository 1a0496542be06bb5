/* explain_addresses.h - what a request would be connected to, for `keyhole explain` */
#ifndef KEYHOLE_CLI_EXPLAIN_ADDRESSES_H
#define KEYHOLE_CLI_EXPLAIN_ADDRESSES_H

#include <jansson.h>

#include <keyhole/net/geo.h>
#include <keyhole/http/target.h>
#include <keyhole/policy/policy.h>

/* By whose word an address is judged. */
struct kh_explain_place {
	const struct kh_config *config;
	struct kh_geo *geo;
	struct kh_geo_levels levels;
	uint16_t tenant;
	bool resolve; /* a name is looked up */
};

/* What would be dialled: a list, each with whether it may be. */
json_t *kh_explain_addresses(const struct kh_explain_place *from,
			     const struct kh_authority *authority);
/* None that is known may be dialled. */
bool kh_explain_all_refused(const json_t *list);

#endif
