/*
 * run_allow.c - rules of the command line: `--allow`, and `--observe`, which enforces none
 *
 * A rule of --allow comes after all others. So it only allows what no other rule decides: it
 * neither overrides a denial nor takes a request away from a rule that has a credential for it.
 */
#include <stdio.h>
#include <string.h>

#include <keyhole/base/escape.h>
#include <keyhole/net/guard.h>
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

static bool is_loopback(const struct kh_rule *rule)
{
	static const uint8_t six[16] = { [15] = 1 };
	struct kh_host_pattern pattern;
	struct kh_sockaddr known;
	kh_rule_host_expand(&rule->host, &pattern);
	const struct kh_cidr *range = &pattern.range;
	if (pattern.match == KH_MATCH_RANGE)
		return range->family == 4 ? range->addr[0] == 127
					  : range->family == 6 && range->prefix_bits == 128 &&
						    memcmp(range->addr, six, sizeof(six)) == 0;
	return pattern.match == KH_MATCH_EXACT &&
	       kh_guard_known(&pattern.host, rule->port, &known) && kh_sockaddr_is_loopback(&known);
}

/* Clients in a sandbox ask no proxy for its own loopback (NO_PROXY), so no rule is ever asked. */
static void warn_of_loopback(const struct kh_rule *rule)
{
	kh_cli_complain("--allow: warning: in a sandbox 127.0.0.1 and localhost are the sandbox "
			"itself, not this host. To reach a service of this host, allow another "
			"name, such as host.test, and give that its address in a file (-c FILE):");
	kh_cli_complain("  upstream: { resolve: { host.test: \"127.0.0.1:%u\" } }", rule->port);
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
	if (is_loopback(&rule))
		warn_of_loopback(&rule);
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

/* As warn_of_loopback, of the first such rule of a file. */
static void warn_of_loopback_in(const struct kh_rules *rules, struct kh_diagnostics *diags)
{
	for (size_t i = 0; i < rules->count; i++) {
		const struct kh_rule *rule = &rules->list[i];
		if (!rule->allow || rule->preset || !is_loopback(rule))
			continue;
		kh_diagnostics_add(
			diags, true, rule->where,
			"in a sandbox 127.0.0.1 and localhost are the sandbox itself, "
			"not this host: name the service in upstream.resolve (host.test: "
			"\"127.0.0.1:%u\"), and allow that name",
			rule->port);
		return;
	}
}

bool kh_run_allow_apply(const struct kh_run_options *options, struct kh_config *config,
			size_t tenant, struct kh_diagnostics *diags)
{
	warn_of_loopback_in(&config->tenants[tenant].rules, diags);
	for (size_t i = 0; i < options->n_allow; i++)
		if (!kh_config_allow(config, tenant, options->allow[i], diags))
			return false;
	if (options->n_allow > 0)
		warn_of_useless(config, diags);
	if (options->observe)
		config->tenants[tenant].mode = KH_MODE_OBSERVE;
	return true;
}
