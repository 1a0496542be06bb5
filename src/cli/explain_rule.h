/* explain_rule.h - a rule that has a say, and where it stands */
#ifndef KEYHOLE_CLI_EXPLAIN_RULE_H
#define KEYHOLE_CLI_EXPLAIN_RULE_H

#include <jansson.h>

#include <keyhole/exchange/dry_run.h>

/* Its list, text, place and kind. NULL: no memory. */
json_t *kh_explain_rule(const struct kh_config *config, const struct kh_rule *rule,
			enum kh_list list);
/* Why a tunnel is read, as `tunnel_rule` of `out`: the tenant's first rule that names its host and
 * port. Nothing where there is none. */
void kh_explain_tunnel(const struct kh_config *config, const struct kh_policy *policy,
		       uint16_t tenant, const struct kh_narrowing *narrowing,
		       const struct kh_dry_run *question, json_t *out);

#endif
