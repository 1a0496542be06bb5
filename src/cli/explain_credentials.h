/* explain_credentials.h - which credentials a request would get, where, and their bindings */
#ifndef KEYHOLE_CLI_EXPLAIN_CREDENTIALS_H
#define KEYHOLE_CLI_EXPLAIN_CREDENTIALS_H

#include <jansson.h>

#include <keyhole/exchange/dry_run.h>

/* Adds the rule's credentials to `out`: `credentials` (names), `credential_kinds`, and
 * `credentials_all` if all of them go in. Adds nothing if it has none. */
void kh_explain_credentials(const struct kh_config *config, const struct kh_rule *rule,
			    const struct kh_dry_run *question, json_t *out);
/* If the outcome has a fault, adds `credential`, `binding` and `leaves_out`. */
void kh_explain_fault(const struct kh_outcome *outcome, json_t *out);

#endif
