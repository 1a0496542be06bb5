/* policy.c - may this request leave, and with which credential
 *
 * A policy is the configuration's lists of rules with what is asked often worked out beforehand.
 * Lists are walked from top to bottom: the first rule that matches decides. What comes out is the
 * rule itself; a decision that nothing filled in denies.
 */
#include <keyhole/policy.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "policy_internal.h"

struct kh_policy {
	atomic_uint refs;
	const struct kh_config *config;
};

/* What the configuration's reader refuses must not come in by another door. */
static bool check_rules(const struct kh_config *config, const struct kh_rules *rules,
			struct kh_err *err)
{
	for (size_t i = 0; i < rules->count; i++) {
		const struct kh_rule *rule = &rules->list[i];
		if (rule->host.match == KH_MATCH_NOTHING || rule->scheme == KH_SCHEME_NONE ||
		    rule->port == 0 || !rule->text)
			return kh_err_set(err, KH_ERR_CONFIG, "policy: a rule without a host");
		if (rule->n_credentials > KH_RULE_CREDENTIALS)
			return kh_err_set(err, KH_ERR_CONFIG, "policy: too many credentials");
		for (size_t j = 0; j < rule->n_credentials; j++)
			if (rule->credentials[j] >= config->n_credentials)
				return kh_err_set(err, KH_ERR_CONFIG,
						  "policy: a rule names a credential that is not "
						  "there");
	}
	return true;
}

struct kh_policy *kh_policy_compile(const struct kh_config *config, struct kh_err *err)
{
	if (!check_rules(config, &config->site, err))
		return NULL;
	for (size_t i = 0; i < config->n_tenants; i++)
		if (!check_rules(config, &config->tenants[i].rules, err))
			return NULL;
	struct kh_policy *policy = calloc(1, sizeof(*policy));
	if (!policy) {
		(void)kh_err_set(err, KH_ERR_NO_MEMORY, "policy: out of memory");
		return NULL;
	}
	atomic_init(&policy->refs, 1);
	policy->config = config;
	return policy;
}

struct kh_policy *kh_policy_ref(struct kh_policy *policy)
{
	atomic_fetch_add_explicit(&policy->refs, 1, memory_order_relaxed);
	return policy;
}

void kh_policy_unref(struct kh_policy *policy)
{
	if (policy && atomic_fetch_sub_explicit(&policy->refs, 1, memory_order_acq_rel) == 1)
		free(policy);
}

static bool covers_authority(const struct kh_rule *rule, enum kh_scheme scheme,
			     const struct kh_host *host, uint16_t port)
{
	return rule->scheme == scheme && rule->port == port &&
	       kh_host_pattern_matches(&rule->host, host);
}

static bool covers_method(const struct kh_rule *rule, struct kh_slice method)
{
	if (rule->n_methods == 0)
		return true;
	for (size_t i = 0; i < rule->n_methods; i++)
		if (kh_slice_eq(kh_slice_str(rule->methods[i]), method))
			return true;
	return false;
}

static bool covers_path(const struct kh_rule *rule, struct kh_slice path)
{
	if (!rule->path)
		return true;
	struct kh_slice pattern = kh_slice_str(rule->path);
	return rule->allow ? kh_path_matches(pattern, path)
			   : kh_path_matches_leniently(pattern, path);
}

static const struct kh_rule *first_match(const struct kh_rules *rules,
					 const struct kh_request_view *request,
					 struct kh_slice path)
{
	for (size_t i = 0; i < rules->count; i++) {
		const struct kh_rule *rule = &rules->list[i];
		if (covers_authority(rule, request->scheme, request->host, request->port) &&
		    covers_method(rule, request->method) && covers_path(rule, path))
			return rule;
	}
	return NULL;
}

static bool same_effect(const struct kh_rule *a, const struct kh_rule *b)
{
	return a->passthrough == b->passthrough && a->client_auth_pass == b->client_auth_pass &&
	       a->n_credentials == b->n_credentials &&
	       memcmp(a->credentials, b->credentials,
		      a->n_credentials * sizeof(a->credentials[0])) == 0;
}

/* One list. Return: it allows, by out->rule. */
static bool ask(const struct kh_rules *rules, const struct kh_request_view *request,
		struct kh_decision *out)
{
	out->rule = first_match(rules, request, request->path);
	if (out->rule && out->rule->allow && request->path_slashed.ptr) {
		const struct kh_rule *other = first_match(rules, request, request->path_slashed);
		/* Two readings of one path with two outcomes: nobody can say which is meant. */
		if (!other || !other->allow || !same_effect(out->rule, other))
			out->rule = other && !other->allow ? other : NULL;
	}
	out->reason = out->rule ? KH_ERR_DENIED_BY_RULE : KH_ERR_NO_RULE;
	return out->rule && out->rule->allow;
}

void kh_policy_decide(const struct kh_policy *policy, uint16_t tenant,
		      const struct kh_request_view *request, struct kh_decision *out)
{
	const struct kh_config *config = policy->config;
	*out = (struct kh_decision){ .reason = KH_ERR_NO_RULE };
	if (tenant >= config->n_tenants || !request->host || request->host->kind == KH_HOST_NONE ||
	    request->scheme == KH_SCHEME_NONE)
		return;
	if (config->site.count > 0 && !ask(&config->site, request, out)) {
		out->at_site = true;
		return;
	}
	if (!ask(&config->tenants[tenant].rules, request, out))
		return;
	if (out->rule->passthrough) {
		out->reason = KH_ERR_TUNNEL_ONLY;
		return;
	}
	out->reason = KH_ERR_NONE;
	out->allow = true;
}

/* The first rule of that scheme at this authority. */
static const struct kh_rule *first_at(const struct kh_rules *rules, enum kh_scheme scheme,
				      const struct kh_host *host, uint16_t port)
{
	for (size_t i = 0; i < rules->count; i++)
		if (covers_authority(&rules->list[i], scheme, host, port))
			return &rules->list[i];
	return NULL;
}

/* The tenant's list alone. */
static enum kh_tunnel_kind ask_tunnel(const struct kh_rules *rules, const struct kh_host *host,
				      uint16_t port, const struct kh_rule **decided)
{
	const struct kh_rule *denied = NULL;
	for (size_t i = 0; i < rules->count; i++) {
		const struct kh_rule *rule = &rules->list[i];
		if (!covers_authority(rule, rule->scheme, host, port))
			continue;
		*decided = rule;
		if (rule->scheme != KH_SCHEME_TCP)
			return rule->passthrough ? KH_TUNNEL_PASS : KH_TUNNEL_READ;
		if (rule->allow && !denied)
			return KH_TUNNEL_RAW;
		denied = denied ? denied : rule;
	}
	*decided = denied;
	return denied ? KH_TUNNEL_DENIED : KH_TUNNEL_READ;
}

enum kh_tunnel_kind kh_policy_tunnel(const struct kh_policy *policy, uint16_t tenant,
				     const struct kh_host *host, uint16_t port,
				     struct kh_decision *out)
{
	const struct kh_config *config = policy->config;
	*out = (struct kh_decision){ .reason = KH_ERR_NO_RULE };
	if (tenant >= config->n_tenants || host->kind == KH_HOST_NONE || port == 0)
		return KH_TUNNEL_DENIED;
	enum kh_tunnel_kind kind =
		ask_tunnel(&config->tenants[tenant].rules, host, port, &out->rule);
	if (kind == KH_TUNNEL_DENIED)
		out->reason = KH_ERR_DENIED_BY_RULE;
	if (kind == KH_TUNNEL_DENIED || kind == KH_TUNNEL_READ)
		return kind;
	if (config->site.count > 0) {
		const struct kh_rule *above = first_at(
			&config->site, kind == KH_TUNNEL_RAW ? KH_SCHEME_TCP : KH_SCHEME_HTTPS,
			host, port);
		if (!above || !above->allow || !kh_rule_covers_all(above)) {
			out->rule = above;
			out->reason = above ? KH_ERR_DENIED_BY_RULE : KH_ERR_NO_RULE;
			out->at_site = true;
			return KH_TUNNEL_DENIED;
		}
	}
	out->reason = KH_ERR_NONE;
	out->allow = true;
	return kind;
}

static bool knows(const struct kh_rules *rules, enum kh_scheme scheme, const struct kh_host *host,
		  uint16_t port)
{
	for (size_t i = 0; i < rules->count; i++) {
		const struct kh_rule *rule = &rules->list[i];
		if (!covers_authority(rule, scheme, host, port))
			continue;
		if (rule->allow)
			return true;
		if (rule->n_methods == 0 && (!rule->path || strcmp(rule->path, "/**") == 0))
			return false; /* nothing below it is ever asked */
	}
	return false;
}

bool kh_policy_knows_host(const struct kh_policy *policy, uint16_t tenant, enum kh_scheme scheme,
			  const struct kh_host *host, uint16_t port)
{
	const struct kh_config *config = policy->config;
	if (tenant >= config->n_tenants || host->kind == KH_HOST_NONE)
		return false;
	if (config->site.count > 0 && !knows(&config->site, scheme, host, port))
		return false;
	return knows(&config->tenants[tenant].rules, scheme, host, port);
}

size_t kh_policy_nearby(const struct kh_policy *policy, uint16_t tenant, const struct kh_host *host,
			const char **texts, size_t most, bool *more)
{
	const struct kh_config *config = policy->config;
	size_t n = 0;
	*more = false;
	if (tenant >= config->n_tenants)
		return 0;
	const struct kh_rules *rules = &config->tenants[tenant].rules;
	/* Those at the same host; where there are none, all. */
	for (unsigned all = 0; all < 2 && n == 0 && !*more; all++) {
		for (size_t i = 0; i < rules->count; i++) {
			const struct kh_rule *rule = &rules->list[i];
			if (!rule->allow ||
			    (!all && !(host && kh_host_pattern_matches(&rule->host, host))))
				continue;
			if (n < most)
				texts[n++] = rule->text;
			else
				*more = true;
		}
	}
	return n;
}
