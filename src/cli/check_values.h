/* check_values.h - values that can't be used, or are easy to guess */
#ifndef KEYHOLE_CLI_CHECK_VALUES_H
#define KEYHOLE_CLI_CHECK_VALUES_H

struct kh_config;
struct kh_diagnostics;

/* Warns of each credential whose value can't be used, is easy to guess, or is missing where a rule
 * has no other one, as far as it comes from a file or a variable. Of others nothing is said. */
void kh_check_values(const struct kh_config *config, struct kh_diagnostics *diags);

#endif
