/*
 * tunnels.c - decides about tunnels, and whether an authority is allowed at all
 *
 * A tunnel request has only host and port. Rules in mode observe do not decide how it is treated;
 * what they would deny is noted.
 */
#include "policy_internal.h"

/* A denial that is only observed. Enforced it would have the tunnel read, or refused, and in either
 * case what goes through unread would not. */
static void note(const struct kh_rule *rule, enum kh_list list, struct kh_decision *out)
{
	if (out->would != KH_ERR_NONE)
		return;
	out->would = KH_ERR_DENIED_BY_RULE;
	out->would_rule = rule;
	out->would_list = list;
}

/* The first rule of that scheme at this authority. */
static const struct kh_rule *first_at(const struct kh_index *index, size_t list,
				      const struct kh_host_keys *host, enum kh_scheme scheme,
				      uint16_t port, struct kh_decision *out)
{
	struct kh_index_walk walk;
	kh_index_walk_begin(&walk, index, list, host);
	for (const struct kh_matcher *m; (m = kh_index_walk_next(&walk));) {
		if (m->scheme != scheme || m->port != port)
			continue;
		if (!(m->flags & KH_OBSERVES))
			return m->rule;
		note(m->rule, KH_LIST_SITE, out); /* no narrowing observes */
	}
	return NULL;
}

/* The tenant's list alone. */
static enum kh_tunnel_kind ask_tunnel(const struct kh_policy *policy, uint16_t tenant,
				      const struct kh_host_keys *host, uint16_t port,
				      struct kh_decision *out)
{
	const struct kh_rule *denied = NULL;
	struct kh_index_walk walk;
	kh_index_walk_begin(&walk, kh_policy_index(policy), kh_tenant_list(tenant), host);
	for (const struct kh_matcher *m; (m = kh_index_walk_next(&walk));) {
		const struct kh_rule *rule = m->rule;
		if (m->port != port)
			continue;
		if (m->flags & KH_OBSERVES) {
			note(rule, KH_LIST_TENANT, out);
			continue;
		}
		out->rule = rule;
		if (rule->scheme != KH_SCHEME_TCP)
			return rule->passthrough ? KH_TUNNEL_PASS : KH_TUNNEL_READ;
		if (rule->allow && !denied)
			return KH_TUNNEL_RAW;
		denied = denied ? denied : rule;
	}
	out->rule = denied;
	return denied ? KH_TUNNEL_DENIED : KH_TUNNEL_READ;
}

/* Does a list that only takes away leave such a tunnel? *by is the rule that says so. */
static bool leaves_tunnel(const struct kh_index *index, size_t list,
			  const struct kh_host_keys *host, uint16_t port, enum kh_tunnel_kind kind,
			  struct kh_decision *out, const struct kh_rule **by)
{
	enum kh_scheme scheme = kind == KH_TUNNEL_RAW ? KH_SCHEME_TCP : KH_SCHEME_HTTPS;
	*by = first_at(index, list, host, scheme, port, out);
	return *by && (*by)->allow && kh_rule_covers_all(*by);
}

static enum kh_tunnel_kind deny(struct kh_decision *out, enum kh_list list,
				const struct kh_rule *by)
{
	*out = (struct kh_decision){ .list = list,
				     .rule = by,
				     .reason = by ? KH_ERR_DENIED_BY_RULE : KH_ERR_NO_RULE };
	return KH_TUNNEL_DENIED;
}

enum kh_tunnel_kind kh_policy_tunnel(const struct kh_policy *policy, uint16_t tenant,
				     const struct kh_narrowing *narrowing,
				     const struct kh_host *host, uint16_t port,
				     struct kh_decision *out)
{
	const struct kh_config *config = kh_policy_config(policy);
	const struct kh_index *index = kh_policy_index(policy);
	*out = (struct kh_decision){ .reason = KH_ERR_NO_RULE };
	if (tenant >= config->n_tenants || host->kind == KH_HOST_NONE || port == 0)
		return KH_TUNNEL_DENIED;
	struct kh_host_keys found;
	kh_index_find(index, host, &found);
	enum kh_tunnel_kind kind = ask_tunnel(policy, tenant, &found, port, out);
	/* What is inside is read, and then only observed. */
	if (kind == KH_TUNNEL_DENIED && kh_policy_observing(policy, tenant))
		kind = KH_TUNNEL_READ;
	if (kind == KH_TUNNEL_DENIED)
		return deny(out, KH_LIST_TENANT, out->rule);
	if (kind == KH_TUNNEL_READ) {
		*out = (struct kh_decision){ .reason = KH_ERR_NO_RULE, .rule = out->rule };
		return kind;
	}
	const struct kh_rule *site_rule = NULL, *own = NULL;
	if (config->site.count > 0 &&
	    !leaves_tunnel(index, KH_SITE_LIST, &found, port, kind, out, &site_rule))
		return deny(out, KH_LIST_SITE, site_rule);
	if (narrowing &&
	    !leaves_tunnel(narrowing->index, narrowing->list, &found, port, kind, out, &own))
		return deny(out, KH_LIST_SANDBOX, own);
	out->reason = KH_ERR_NONE;
	out->allow = true;
	out->site_rule = site_rule;
	out->narrow_rule = own;
	return kind;
}

static bool knows(const struct kh_index *index, size_t list, const struct kh_host_keys *host,
		  enum kh_scheme scheme, uint16_t port)
{
	struct kh_index_walk walk;
	kh_index_walk_begin(&walk, index, list, host);
	for (const struct kh_matcher *m; (m = kh_index_walk_next(&walk));) {
		if (m->scheme != scheme || m->port != port)
			continue;
		if (m->flags & KH_ALLOWS)
			return true;
		if (kh_rule_covers_all(m->rule))
			return false; /* nothing below it is ever asked */
	}
	return false;
}

bool kh_policy_list_knows(const struct kh_policy *policy, size_t list, enum kh_scheme scheme,
			  const struct kh_host *host, uint16_t port)
{
	struct kh_host_keys found;
	kh_index_find(kh_policy_index(policy), host, &found);
	return knows(kh_policy_index(policy), list, &found, scheme, port);
}

bool kh_policy_knows_host(const struct kh_policy *policy, uint16_t tenant,
			  const struct kh_narrowing *narrowing, enum kh_scheme scheme,
			  const struct kh_host *host, uint16_t port)
{
	const struct kh_config *config = kh_policy_config(policy);
	struct kh_host_keys found;
	if (tenant >= config->n_tenants || host->kind == KH_HOST_NONE)
		return false;
	kh_index_find(kh_policy_index(policy), host, &found);
	if (config->site.count > 0 &&
	    !knows(kh_policy_index(policy), KH_SITE_LIST, &found, scheme, port))
		return false;
	if (narrowing && !knows(narrowing->index, narrowing->list, &found, scheme, port))
		return false;
	if (kh_policy_observing(policy, tenant))
		return true;
	return knows(kh_policy_index(policy), kh_tenant_list(tenant), &found, scheme, port);
}

bool kh_policy_bars(const struct kh_policy *policy, uint16_t tenant,
		    const struct kh_narrowing *narrowing, const struct kh_host *host, uint16_t port,
		    struct kh_decision *out)
{
	if (kh_policy_knows_host(policy, tenant, narrowing, KH_SCHEME_HTTPS, host, port) ||
	    kh_policy_knows_host(policy, tenant, narrowing, KH_SCHEME_HTTP, host, port))
		return false;
	if (kh_policy_tunnel(policy, tenant, narrowing, host, port, out) == KH_TUNNEL_DENIED)
		return true;
	const struct kh_rule *rule = out->rule;
	bool denies = rule && !rule->allow && kh_rule_covers_all(rule);
	*out = (struct kh_decision){ .reason = denies ? KH_ERR_DENIED_BY_RULE : KH_ERR_NO_RULE,
				     .rule = denies ? rule : NULL };
	/* The tenant's rules alone would allow something. */
	if (!denies && narrowing &&
	    (kh_policy_knows_host(policy, tenant, NULL, KH_SCHEME_HTTPS, host, port) ||
	     kh_policy_knows_host(policy, tenant, NULL, KH_SCHEME_HTTP, host, port)))
		out->list = KH_LIST_SANDBOX;
	return true;
}
