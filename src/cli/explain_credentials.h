/* explain_credentials.h - what would go into a request: which, where, and what it is bound to */
#ifndef KEYHOLE_CLI_EXPLAIN_CREDENTIALS_H
#define KEYHOLE_CLI_EXPLAIN_CREDENTIALS_H

#include <jansson.h>

#include <keyhole/exchange/dry_run.h>

/* The rule's, into `out`: `credentials` (names), `credential_kinds`, and `credentials_all` where
 * all of them go in. Nothing where it has none. */
void kh_explain_credentials(const struct kh_config *config, const struct kh_rule *rule,
			    const struct kh_dry_run *question, json_t *out);
/* Of an outcome with a fault: `credential`, `binding`, and `leaves_out`. */
void kh_explain_fault(const struct kh_outcome *outcome, json_t *out);

#endif
