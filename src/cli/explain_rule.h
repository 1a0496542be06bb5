/* explain_rule.h - describes a rule that took part in a decision */
#ifndef KEYHOLE_CLI_EXPLAIN_RULE_H
#define KEYHOLE_CLI_EXPLAIN_RULE_H

#include <jansson.h>

#include <keyhole/exchange/dry_run.h>

/* Its list, text, place and kind. NULL: no memory. */
json_t *kh_explain_rule(const struct kh_config *config, const struct kh_rule *rule,
			enum kh_list list);
/* Adds `tunnel_rule` to `out`, the reason why a tunnel is read: the tenant's first rule with its
 * host and port. Adds nothing if there is none. */
void kh_explain_tunnel(const struct kh_config *config, const struct kh_policy *policy,
		       uint16_t tenant, const struct kh_narrowing *narrowing,
		       const struct kh_dry_run *question, json_t *out);

#endif
