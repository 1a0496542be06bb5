/* explain_limits.h - the limits that a request would be under, for `keyhole explain` */
#ifndef KEYHOLE_CLI_EXPLAIN_LIMITS_H
#define KEYHOLE_CLI_EXPLAIN_LIMITS_H

#include <jansson.h>

#include <keyhole/policy/policy.h>

/* A list, the narrowest first; what is used of them only the daemon knows. `listener`: -1 where no
 * sandbox is named; `rules`: the decision's are meant too. */
json_t *kh_explain_limits(const struct kh_config *config, uint16_t tenant, int listener,
			  const struct kh_decision *decision, bool rules);
void kh_explain_print_limits(const json_t *list);

#endif
