/* check_values.h - values that can't be used, or are easy to guess */
#ifndef KEYHOLE_CLI_CHECK_VALUES_H
#define KEYHOLE_CLI_CHECK_VALUES_H

struct kh_config;
struct kh_diagnostics;

/* Warns about each credential whose value is unusable, easy to guess, or missing while a rule has
 * no other credential. Checks only values from files and variables. */
void kh_check_values(const struct kh_config *config, struct kh_diagnostics *diags);

#endif
