/* place.c - whose lists of countries and networks hold for what was allowed */
#include "policy_internal.h"

struct kh_geo_levels kh_policy_geo(const struct kh_policy *policy, uint16_t tenant,
				   const struct kh_decision *decision)
{
	const struct kh_config *config = kh_policy_config(policy);
	return (struct kh_geo_levels){
		.at = { [KH_GEO_SITE] = config->site_geo,
			[KH_GEO_TENANT] =
				tenant < config->n_tenants ? config->tenants[tenant].geo : NULL,
			[KH_GEO_SITE_RULE] = kh_rule_geo(decision->site_rule),
			[KH_GEO_RULE] = kh_rule_geo(decision->rule) },
	};
}
