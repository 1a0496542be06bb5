/* check_values.h - values that can't be used, or are easy to guess */
#ifndef KEYHOLE_CLI_CHECK_VALUES_H
#define KEYHOLE_CLI_CHECK_VALUES_H

#include <stdbool.h>

struct kh_config;
struct kh_diagnostics;

/* Warns about each credential whose value is unusable, easy to guess, or missing while a rule has
 * no other credential. Checks only values from files and variables. `in_daemon`: a variable that is
 * empty is one that the daemon has read and then overwritten, so nothing is said of it. */
void kh_check_values(const struct kh_config *config, bool in_daemon, struct kh_diagnostics *diags);

#endif
