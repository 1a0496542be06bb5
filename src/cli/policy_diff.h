/* policy_diff.h - `keyhole policy diff`: what new rules would decide differently */
#ifndef KEYHOLE_CLI_POLICY_DIFF_H
#define KEYHOLE_CLI_POLICY_DIFF_H

#include <stddef.h>

struct kh_policy_diff_options {
	const char *old_path, *new_path;
	const char *tenant; /* only this one's requests; NULL: all */
	const char *const *journals;
	size_t n_journals;
};
/* Return: exit status. */
int kh_cli_policy_diff(const struct kh_policy_diff_options *options);

#endif
