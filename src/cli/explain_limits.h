/* explain_limits.h - the limits that apply to a request, for `keyhole explain` */
#ifndef KEYHOLE_CLI_EXPLAIN_LIMITS_H
#define KEYHOLE_CLI_EXPLAIN_LIMITS_H

#include <jansson.h>

#include <keyhole/policy/policy.h>

/* A list, the narrowest first. It does not show how much is used, which only the daemon knows.
 * `listener`: -1 if no sandbox is named. `rules`: include the limits of the decision's rules. */
json_t *kh_explain_limits(const struct kh_config *config, uint16_t tenant, int listener,
			  const struct kh_decision *decision, bool rules);
void kh_explain_print_limits(const json_t *list);

#endif
