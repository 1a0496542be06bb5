/* explain_remedy.h - what would allow a request that the rules refuse, for `keyhole explain` */
#ifndef KEYHOLE_CLI_EXPLAIN_REMEDY_H
#define KEYHOLE_CLI_EXPLAIN_REMEDY_H

#include <jansson.h>

#include <keyhole/exchange/dry_run.h>

/*
 * As `remedy` of `out`: in whose list something is missing (`list`), a preset by its name,
 * parameter and variables or the text of a rule, and the rule above which it has to stand, if one
 * denies. Nothing where no rule can open it: what something else refuses, and tunnels.
 */
void kh_explain_remedy(const struct kh_config *config, uint16_t tenant,
		       const struct kh_dry_run *question, const struct kh_outcome *outcome,
		       json_t *out);
void kh_explain_print_remedy(const json_t *remedy);

#endif
