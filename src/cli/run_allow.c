/*
 * run_allow.c - rules of the command line: `--allow`, and `--observe`, which enforces none
 *
 * A rule of --allow stands behind all others. So it opens what nothing decides, and neither
 * overrides a denial nor takes a request away from a rule that has a credential for it.
 */
#include <stdio.h>
#include <string.h>

#include <keyhole/base/escape.h>
#include <keyhole/policy/policy.h>

#include "run_internal.h"

/* The text again, and below it a mark at the byte where it goes wrong. */
static void point_at(struct kh_slice text, size_t at)
{
	enum { WIDTH_MOST = 100 };
	const char *before = kh_esc(kh_slice_sub(text, 0, at)), *all = kh_esc(text);
	if (strlen(all) > WIDTH_MOST)
		return;
	kh_cli_complain("  %s", all);
	kh_cli_complain("  %*s^", (int)strlen(before), "");
}

bool kh_run_allow(struct kh_run_options *out, const char *text)
{
	struct kh_slice rule_text = kh_slice_trim(kh_slice_str(text));
	struct kh_err err = KH_ERR_INIT;
	struct kh_rule rule;
	size_t at;
	if (!kh_allow_text_parse(&rule, rule_text, &at, &err)) {
		kh_cli_complain("--allow: %s", err.text);
		point_at(rule_text, at);
		return false;
	}
	kh_rule_fini(&rule);
	return kh_run_add_word(&out->allow, &out->n_allow, kh_slice_dup(rule_text));
}

/* Which of them never decide, or are left nothing of by the site's rules. */
static void warn_of_useless(struct kh_config *config, struct kh_diagnostics *diags)
{
	struct kh_diagnostics found = { 0 };
	struct kh_err err = KH_ERR_INIT;
	struct kh_policy *policy = kh_policy_compile(config, &err);
	if (policy)
		kh_policy_inspect(policy, &found);
	for (size_t i = 0; i < found.count; i++) {
		uint32_t file = found.list[i].where.file;
		if (file < config->n_files && strcmp(config->files[file], KH_ALLOW_FILE) == 0)
			kh_diagnostics_add(diags, true, found.list[i].where, "%s",
					   found.list[i].text);
	}
	kh_diagnostics_fini(&found);
	kh_policy_unref(policy);
}

bool kh_run_allow_apply(const struct kh_run_options *options, struct kh_config *config,
			size_t tenant, struct kh_diagnostics *diags)
{
	for (size_t i = 0; i < options->n_allow; i++)
		if (!kh_config_allow(config, tenant, options->allow[i], diags))
			return false;
	if (options->n_allow > 0)
		warn_of_useless(config, diags);
	if (options->observe)
		config->tenants[tenant].mode = KH_MODE_OBSERVE;
	return true;
}
