/* load_policy.c - a configuration and its rules, for subcommands that ask them something */
#include <unistd.h>

#include <keyhole/policy/policy.h>

#include "cli_internal.h"

/* Each goes in front, so the last comes first. A tenant that there is not is the caller's to say.
 */
static bool add_presets(struct kh_config *config, const char *tenant, const char *const *presets,
			size_t n, struct kh_diagnostics *diags)
{
	int index = tenant ? kh_config_tenant(config, tenant) : 0;
	bool ok = true;
	for (size_t i = n; ok && i > 0 && index >= 0; i--)
		ok = kh_config_use(config, (size_t)index, presets[i - 1], NULL, diags);
	return ok;
}

bool kh_cli_load_presets(const char *path, const char *tenant, const char *const *presets, size_t n,
			 struct kh_config **config, struct kh_policy **policy)
{
	struct kh_diagnostics diags = { 0 };
	struct kh_err err = KH_ERR_INIT;
	*policy = NULL;
	*config = path ? kh_config_load(path, NULL, &diags)
		       : kh_config_from_presets(presets, n, NULL, &diags);
	bool ok = *config && (!path || add_presets(*config, tenant, presets, n, &diags));
	if (!ok)
		kh_diagnostics_print(&diags, NULL, STDERR_FILENO);
	kh_diagnostics_fini(&diags);
	if (!ok)
		return false;
	*policy = kh_policy_compile(*config, &err);
	if (!*policy)
		kh_cli_complain_err(&err);
	return *policy != NULL;
}

bool kh_cli_load_policy(const char *path, struct kh_config **config, struct kh_policy **policy)
{
	return kh_cli_load_presets(path, NULL, NULL, 0, config, policy);
}
