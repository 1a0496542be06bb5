/* check_cases.h - the cases of `expect`: what rules must allow or deny */
#ifndef KEYHOLE_CLI_CHECK_CASES_H
#define KEYHOLE_CLI_CHECK_CASES_H

#include <keyhole/policy/policy.h>

/* Adds an error for each case that the rules decide otherwise. For `keyhole check`, and for the
 * daemon's start and reload, which refuse such a configuration. */
void kh_check_cases(const struct kh_config *config, const struct kh_policy *policy,
		    struct kh_diagnostics *diags);

#endif
