/*
 * resolved.c - applies deny rules for addresses to the addresses that a name resolves to
 *
 * A request is decided by its host name, before its addresses are known. Later each address that
 * may be dialled is compared with the rules for addresses that come before the rule that allowed
 * the request, as if they named every host with such an address. In each reading of the request the
 * first of them that matches decides, so that a range can be exempted from a wider one that is
 * denied. Which rule allows the request is determined again in each reading, since the rule that
 * allows the plain reading may not match another one (for example, its path may not match with %2F
 * as '/').
 */
#include "inquiry_internal.h"

struct asked {
	struct kh_inquiry *q;
	bool unread;		     /* a tunnel: whatever is asked for in it */
	const struct kh_rule *noted; /* of one list: the first denial that observes */
};

/* Does that rule decide, in the reading that is looked at? */
static bool decides(const struct asked *a, const struct kh_index *index, const struct kh_matcher *m)
{
	bool allow = m->rule->allow;
	if (a->unread)
		return !allow || kh_rule_covers_all(m->rule);
	enum kh_mismatch why = kh_inquiry_look(a->q, index, m);
	/* What nobody read may name any model. */
	return why == KH_MATCHES || (!allow && why == KH_MODEL_NOT_READ);
}

/* In that reading: the first rule by address of the list, in front of the one of that number. */
static const struct kh_rule *first_of(struct asked *a, const struct kh_index *index, size_t list,
				      size_t before, const struct kh_host_keys *keys)
{
	struct kh_index_walk walk;
	kh_index_walk_begin(&walk, index, list, keys);
	for (const struct kh_matcher *m; !kh_steps_are_over(&a->q->steps) &&
					 (m = kh_index_walk_next(&walk)) && m->index < before;) {
		const struct kh_request_view *request = a->q->request;
		a->q->steps.done++;
		if (m->rule->host.match != KH_MATCH_RANGE || m->scheme != request->scheme ||
		    m->port != request->port || (m->flags & KH_EXACT) || !decides(a, index, m))
			continue;
		if (!(m->flags & KH_OBSERVES))
			return m->rule;
		a->noted = a->noted ? a->noted : m->rule;
	}
	return NULL;
}

/* The rule of the list that lets the name through in this reading: its number. */
static size_t allows_by(struct asked *a, const struct kh_index *index, size_t list)
{
	const struct kh_matcher *m = kh_inquiry_first(a->q, index, list);
	return m ? m->index : SIZE_MAX;
}

/* What lets one reading through says nothing of the others. `by`: the number of the rule that
 * allows a tunnel. Return: NULL: no reading is denied. */
static const struct kh_rule *denial(struct asked *a, const struct kh_index *index, size_t list,
				    size_t by, const struct kh_host *addr)
{
	struct kh_host_keys keys;
	kh_index_find(index, addr, &keys);
	kh_index_find(index, a->q->request->host, &a->q->host);
	kh_inquiry_begin(a->q);
	do {
		if (a->q->reading.nth_host > 0)
			break;
		size_t before = a->unread ? by : allows_by(a, index, list);
		const struct kh_rule *rule = first_of(a, index, list, before, &keys);
		if (rule && !rule->allow)
			return rule;
	} while (!a->unread && !kh_steps_are_over(&a->q->steps) && kh_inquiry_next(a->q));
	return NULL;
}

/* One list, for the address and for what it carries. `by`: its rule that allows. */
static bool list_denies(struct asked *a, const struct kh_index *index, size_t list,
			const struct kh_rules *rules, const struct kh_rule *by,
			const struct kh_host *addr, struct kh_decision *out)
{
	a->noted = NULL;
	if (!kh_index_has_ranges(index, list))
		return false;
	bool inside = by >= rules->list && by < rules->list + rules->count;
	size_t before = inside ? (size_t)(by - rules->list) : SIZE_MAX;
	const struct kh_rule *rule = denial(a, index, list, before, addr);
	uint8_t v4[2][4];
	unsigned n = addr->kind == KH_HOST_IPV6 ? kh_address_carried(addr->addr, v4) : 0;
	for (unsigned i = 0; i < n && !rule; i++) {
		struct kh_host host;
		kh_host_of_v4(&host, v4[i]);
		rule = denial(a, index, list, before, &host);
	}
	if (rule)
		*out = (struct kh_decision){ .reason = KH_ERR_DENIED_BY_RULE,
					     .rule = rule,
					     .reading = KH_READ_RESOLVED };
	return rule != NULL;
}

/* The list that was asked last goes on below a denial. */
static void note(const struct asked *asked, enum kh_list list, struct kh_decision *out)
{
	if (!asked->noted || out->would != KH_ERR_NONE)
		return;
	out->would = KH_ERR_DENIED_BY_RULE;
	out->would_rule = asked->noted;
	out->would_list = list;
}

/* Where all of the tenant's rules only observe, its denial is noted. */
static bool tenant_denies(const struct kh_policy *policy, uint16_t tenant, struct asked *asked,
			  const struct kh_decision *decision, const struct kh_host *addr,
			  struct kh_decision *out)
{
	struct kh_decision own = { .allow = false };
	bool denied = list_denies(asked, kh_policy_index(policy), kh_tenant_list(tenant),
				  &kh_policy_config(policy)->tenants[tenant].rules, decision->rule,
				  addr, &own);
	if (!denied && asked->noted)
		own.rule = asked->noted;
	if (own.rule &&
	    kh_decision_observe(policy, tenant, KH_ERR_DENIED_BY_RULE, own.rule, &own)) {
		*out = own;
		return false;
	}
	if (denied)
		*out = own;
	else
		note(asked, KH_LIST_TENANT, out);
	return denied;
}

static bool any_list_denies(const struct kh_policy *policy, uint16_t tenant,
			    const struct kh_narrowing *narrowing, struct asked *asked,
			    const struct kh_decision *decision, const struct kh_host *addr,
			    struct kh_decision *out)
{
	const struct kh_config *config = kh_policy_config(policy);
	const struct kh_index *index = kh_policy_index(policy);
	if (config->site.count > 0 && list_denies(asked, index, KH_SITE_LIST, &config->site,
						  decision->site_rule, addr, out)) {
		out->list = KH_LIST_SITE;
		return true;
	}
	note(asked, KH_LIST_SITE, out);
	if (tenant_denies(policy, tenant, asked, decision, addr, out)) {
		out->list = KH_LIST_TENANT;
		return true;
	}
	if (!narrowing || !list_denies(asked, narrowing->index, narrowing->list, narrowing->rules,
				       decision->narrow_rule, addr, out))
		return false;
	out->list = KH_LIST_SANDBOX;
	return true;
}

bool kh_policy_looks_at_addresses(const struct kh_policy *policy, uint16_t tenant,
				  const struct kh_narrowing *narrowing)
{
	const struct kh_config *config = kh_policy_config(policy);
	const struct kh_index *index = kh_policy_index(policy);

	return tenant >= config->n_tenants || /* which is denied */
	       (config->site.count > 0 && kh_index_has_ranges(index, KH_SITE_LIST)) ||
	       kh_index_has_ranges(index, kh_tenant_list(tenant)) ||
	       (narrowing && kh_index_has_ranges(narrowing->index, narrowing->list));
}

bool kh_policy_denies_address(const struct kh_policy *policy, uint16_t tenant,
			      const struct kh_narrowing *narrowing,
			      const struct kh_request_view *request, bool unread,
			      const struct kh_decision *decision, const struct kh_host *addr,
			      uint64_t *steps, struct kh_decision *out)
{
	*out = (struct kh_decision){ .allow = false };
	/* An address was decided as what it is. */
	if (request->host->kind != KH_HOST_NAME)
		return false;
	if (tenant >= kh_policy_config(policy)->n_tenants) { /* nobody's rules allow anything */
		*out = (struct kh_decision){ .reason = KH_ERR_NO_RULE };
		return true;
	}
	struct kh_inquiry q;
	struct asked asked = { &q, unread, NULL };
	kh_inquiry_init(&q, request);
	q.steps.done = *steps;
	bool denied = !kh_steps_are_over(&q.steps) &&
		      any_list_denies(policy, tenant, narrowing, &asked, decision, addr, out);
	if (kh_steps_are_over(&q.steps)) {
		kh_decision_give_up(out);
		denied = true;
	}
	*steps = q.steps.done;
	kh_inquiry_fini(&q);
	return denied;
}
