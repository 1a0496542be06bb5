/* load_policy.c - a configuration and its rules, for subcommands that ask them something */
#include <unistd.h>

#include <keyhole/policy/policy.h>

#include "cli_internal.h"

bool kh_cli_load_policy(const char *path, struct kh_config **config, struct kh_policy **policy)
{
	struct kh_diagnostics diags = { 0 };
	struct kh_err err = KH_ERR_INIT;
	*policy = NULL;
	*config = kh_config_load(path, NULL, &diags);
	if (!*config)
		kh_diagnostics_print(&diags, NULL, STDERR_FILENO);
	kh_diagnostics_fini(&diags);
	if (!*config)
		return false;
	*policy = kh_policy_compile(*config, &err);
	if (!*policy)
		kh_cli_complain_err(&err);
	return *policy != NULL;
}
