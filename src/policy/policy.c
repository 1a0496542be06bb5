/* policy.c - may this request leave, and with which credential
 *
 * A policy is the configuration's lists of rules and an index over all of them: the site's is list
 * 0, a tenant's its number and one; a sandbox's narrowing has an index of its own. A list is walked
 * from top to bottom, without the rules of other hosts: the first rule that matches decides. What
 * comes out is the rule itself; a decision that nothing filled in denies.
 */
#include <keyhole/policy.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "policy_internal.h"

static const char observed[] = "mode: observe";

struct kh_policy {
	atomic_uint refs;
	char observing_text[sizeof(observed)];
	struct kh_rule observing; /* what observing tenants' requests go by that nothing allows */
	const struct kh_config *config;
	struct kh_index *index;
	struct kh_narrowing *narrowings; /* one a listener */
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

const char *kh_list_name(enum kh_list list)
{
	switch (list) {
	case KH_LIST_SITE:
		return "site";
	case KH_LIST_SANDBOX:
		return "sandbox";
	case KH_LIST_TENANT:
		break;
	}
	return "tenant";
}

static void free_policy(struct kh_policy *policy)
{
	free(policy->narrowings);
	kh_index_free(policy->index);
	free(policy);
}

static bool check_all(const struct kh_config *config, struct kh_err *err)
{
	if (!check_rules(config, &config->site, err))
		return false;
	for (size_t i = 0; i < config->n_tenants; i++)
		if (!check_rules(config, &config->tenants[i].rules, err))
			return false;
	for (size_t i = 0; i < config->n_listeners; i++)
		if (!kh_narrowing_check(&config->listeners[i].narrow, err))
			return false;
	return true;
}

/* All lists, each at its place: the site's, the tenants', the narrowings'. */
static size_t collect_lists(struct kh_policy *policy, const struct kh_rules **lists)
{
	const struct kh_config *config = policy->config;
	size_t n = kh_tenant_list(config->n_tenants);
	lists[KH_SITE_LIST] = &config->site;
	for (size_t i = 0; i < config->n_tenants; i++)
		lists[kh_tenant_list(i)] = &config->tenants[i].rules;
	for (size_t i = 0; i < config->n_listeners; i++) {
		if (!config->listeners[i].narrowed)
			continue;
		lists[n] = &config->listeners[i].narrow;
		policy->narrowings[i].list = n++;
	}
	return n;
}

static bool compile(struct kh_policy *policy, const struct kh_rules **lists, struct kh_err *err)
{
	const struct kh_config *config = policy->config;
	policy->index = kh_index_new(lists, collect_lists(policy, lists), err);
	for (size_t i = 0; policy->index && i < config->n_listeners; i++) {
		policy->narrowings[i].index = policy->index;
		if (config->listeners[i].narrowed)
			policy->narrowings[i].rules = &config->listeners[i].narrow;
	}
	return policy->index != NULL;
}

struct kh_policy *kh_policy_compile(const struct kh_config *config, struct kh_err *err)
{
	if (!check_all(config, err))
		return NULL;
	struct kh_policy *policy = calloc(1, sizeof(*policy));
	size_t most = kh_tenant_list(config->n_tenants) + config->n_listeners;
	const struct kh_rules **lists = calloc(most, sizeof(const struct kh_rules *));
	bool ok = policy && lists;
	if (ok) {
		atomic_init(&policy->refs, 1);
		policy->observing = (struct kh_rule){ .allow = true,
						      .client_auth_pass = true,
						      .text = policy->observing_text };
		memcpy(policy->observing_text, observed, sizeof(observed));
		policy->config = config;
		policy->narrowings = calloc(config->n_listeners + 1, sizeof(*policy->narrowings));
		ok = policy->narrowings != NULL;
	}
	if (!ok)
		(void)kh_err_set(err, KH_ERR_NO_MEMORY, "policy: out of memory");
	ok = ok && compile(policy, lists, err);
	free(lists);
	if (ok)
		return policy;
	if (policy)
		free_policy(policy);
	return NULL;
}

struct kh_policy *kh_policy_ref(struct kh_policy *policy)
{
	atomic_fetch_add_explicit(&policy->refs, 1, memory_order_relaxed);
	return policy;
}

void kh_policy_unref(struct kh_policy *policy)
{
	if (policy && atomic_fetch_sub_explicit(&policy->refs, 1, memory_order_acq_rel) == 1)
		free_policy(policy);
}

const struct kh_narrowing *kh_policy_narrowing(const struct kh_policy *policy, size_t listener)
{
	if (listener >= policy->config->n_listeners || !policy->narrowings[listener].rules)
		return NULL;
	return &policy->narrowings[listener];
}

const struct kh_config *kh_policy_config(const struct kh_policy *policy)
{
	return policy->config;
}

const struct kh_index *kh_policy_index(const struct kh_policy *policy)
{
	return policy->index;
}

struct kh_policy_size kh_policy_size(const struct kh_policy *policy)
{
	struct kh_policy_size size = { policy->config->site.count,
				       sizeof(*policy) + kh_index_bytes(policy->index) };
	for (size_t i = 0; i < policy->config->n_tenants; i++)
		size.rules += policy->config->tenants[i].rules.count;
	for (size_t i = 0; i < policy->config->n_listeners; i++)
		size.rules += policy->config->listeners[i].narrow.count;
	size.bytes += policy->config->n_listeners * sizeof(*policy->narrowings);
	return size;
}

/* What a decision works out once, for all lists. */
struct question {
	const struct kh_request_view *request;
	struct kh_reading_of reading;
	uint32_t method_bit;	     /* in this reading */
	uint8_t flags;		     /* of the rule that allows; 0: none does */
	const struct kh_rule *noted; /* the first denial that was only observed */
	bool asks_model;	     /* a rule does that was reached, and it was not read */
	struct kh_host_keys host;
};

/* The search behind the first star, which most patterns don't need. */
static bool matches_exactly(const char *pattern, const struct kh_matcher *m, struct kh_slice path)
{
	size_t prefix = m->prefix_len, rest = (size_t)(m->path_len - m->prefix_len);
	if (path.len < prefix || memcmp(pattern, path.ptr, prefix) != 0)
		return false;
	if (rest == 0)
		return path.len == prefix;
	if (rest == 2 && pattern[prefix + 1] == '*')
		return true;
	return kh_path_matches(kh_slice_of(pattern + prefix, rest),
			       kh_slice_sub(path, prefix, path.len));
}

static bool covers_path(const struct question *q, const struct kh_index *index,
			const struct kh_matcher *m)
{
	struct kh_slice path = q->reading.path;
	if (!(m->flags & KH_ON_PATH))
		return true;
	if (q->reading.any_path)
		return kh_rule_holds_for_any_path(m->rule);
	const char *pattern = kh_index_path(index, m);
	if ((m->flags & KH_ALLOWS) || ((m->flags & KH_PLAIN_PATH) && kh_path_is_plain(path)))
		return matches_exactly(pattern, m, path);
	return kh_path_matches_leniently(kh_slice_of(pattern, m->path_len), path);
}

/* Return: NULL when nothing matches. */
static const struct kh_matcher *first_match(struct question *q, const struct kh_index *index,
					    size_t list)
{
	const struct kh_request_view *request = q->request;
	struct kh_walk walk;
	kh_walk_begin(&walk, index, list, &q->host);
	for (const struct kh_matcher *m; (m = kh_walk_next(&walk));) {
		if (m->scheme != request->scheme || m->port != request->port ||
		    (m->methods != 0 && !(m->methods & q->method_bit)) || !covers_path(q, index, m))
			continue;
		/* Among the uncommon methods, and of one that may be any, the bit does not tell. */
		if ((q->method_bit & KH_METHOD_OTHER) &&
		    !kh_rule_holds_for_method(m->rule, &q->reading))
			continue;
		enum kh_mismatch why =
			m->flags & KH_ASKS_MORE
				? kh_rule_conditions_miss(m->rule, request, &q->reading)
				: KH_MATCHES;
		if (why == KH_MODEL_NOT_READ) {
			q->asks_model = true;
			return NULL;
		}
		if (why != KH_MATCHES)
			continue;
		if (!(m->flags & KH_OBSERVES))
			return m;
		q->noted = q->noted ? q->noted : m->rule;
	}
	return NULL;
}

/* The further readings of what the plain one allows. */
static const struct kh_rule *read_on(struct question *q, const struct kh_index *index, size_t list,
				     const struct kh_rule *rule)
{
	while (rule && rule->allow && kh_reading_next(q->request, &q->reading)) {
		q->method_bit =
			q->reading.any_method ? UINT32_MAX : kh_method_bit(q->reading.method);
		/* Where two readings have two outcomes nobody can say which is meant. */
		const struct kh_matcher *other = first_match(q, index, list);
		rule = kh_both_readings(rule, other ? other->rule : NULL);
	}
	return rule;
}

/* One list, in all readings. Return: it allows, by out->rule (which is not looked at here: it lies
 * far away). */
static bool ask(struct question *q, const struct kh_index *index, size_t list,
		struct kh_decision *out)
{
	const struct kh_request_view *request = q->request;
	kh_reading_begin(request, &q->reading);
	q->method_bit = kh_method_bit(request->method);
	const struct kh_matcher *m = first_match(q, index, list);
	bool allows = m && (m->flags & KH_ALLOWS);
	out->rule = m ? m->rule : NULL;
	if (allows && (request->path_slashed.ptr || request->overrides)) {
		out->rule = read_on(q, index, list, out->rule);
		allows = out->rule && out->rule->allow;
	}
	q->flags = allows ? m->flags : 0;
	out->reading = allows ? KH_READ_PLAIN : q->reading.how;
	out->reason = out->rule ? KH_ERR_DENIED_BY_RULE : KH_ERR_NO_RULE;
	return allows;
}

const struct kh_rule *kh_policy_observing(const struct kh_policy *policy, uint16_t tenant)
{
	const struct kh_config *config = policy->config;
	bool observes =
		tenant < config->n_tenants && config->tenants[tenant].mode == KH_MODE_OBSERVE;
	return observes ? &policy->observing : NULL;
}

void kh_decision_finish(const struct kh_policy *policy, uint16_t tenant,
			const struct kh_heard *heard, struct kh_decision *out)
{
	if (heard->flags & KH_ALLOWS) {
		if (heard->flags & KH_PASSTHROUGH) {
			out->reason = KH_ERR_TUNNEL_ONLY;
			return;
		}
		out->would = heard->noted ? KH_ERR_DENIED_BY_RULE : KH_ERR_NONE;
		out->would_rule = heard->noted;
		out->would_list = heard->noted_in;
	} else {
		const struct kh_rule *instead = kh_policy_observing(policy, tenant);
		if (!instead)
			return;
		out->would = out->reason;
		out->would_rule = out->rule;
		out->rule = instead;
	}
	out->reason = KH_ERR_NONE;
	out->allow = true;
	out->websocket = heard->site_websocket && !(heard->flags & KH_NO_WEBSOCKET);
}

static bool bounds_body(const struct kh_rule *rule)
{
	return rule && rule->more && rule->more->has_max_body;
}

const struct kh_rule *kh_decision_max_body(const struct kh_decision *decision)
{
	const struct kh_rule *rules[] = { decision->rule, decision->site_rule,
					  decision->narrow_rule };
	const struct kh_rule *least = NULL;
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (bounds_body(rules[i]) &&
		    (!least || rules[i]->more->max_body < least->more->max_body))
			least = rules[i];
	return least;
}

const struct kh_rule *kh_decision_no_websocket(const struct kh_decision *decision,
					       enum kh_list *list)
{
	const struct kh_rule *rules[] = { [KH_LIST_TENANT] = decision->rule,
					  [KH_LIST_SITE] = decision->site_rule,
					  [KH_LIST_SANDBOX] = decision->narrow_rule };
	static const enum kh_list order[] = { KH_LIST_SITE, KH_LIST_TENANT, KH_LIST_SANDBOX };
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		const struct kh_rule *rule = rules[order[i]];
		if (!rule || !rule->no_websocket)
			continue;
		if (list)
			*list = order[i];
		return rule;
	}
	return NULL;
}

void kh_decision_narrow(const struct kh_decision *own, bool websocket, struct kh_decision *out)
{
	if (own->allow) {
		out->narrow_rule = own->rule;
		out->websocket = out->websocket && websocket;
		return;
	}
	*out = (struct kh_decision){ .reason = own->reason,
				     .rule = own->rule,
				     .reading = own->reading,
				     .list = KH_LIST_SANDBOX };
}

void kh_policy_decide(const struct kh_policy *policy, uint16_t tenant,
		      const struct kh_narrowing *narrowing, const struct kh_request_view *request,
		      struct kh_decision *out)
{
	const struct kh_config *config = policy->config;
	*out = (struct kh_decision){ .reason = KH_ERR_NO_RULE };
	if (tenant >= config->n_tenants || !request->host || request->host->kind == KH_HOST_NONE ||
	    request->scheme == KH_SCHEME_NONE)
		return;
	const struct kh_index *index = policy->index;
	struct question q; /* of which most stays as it is */
	q.request = request;
	q.noted = NULL;
	q.asks_model = false;
	kh_index_prefetch_list(index, kh_tenant_list(tenant));
	if (narrowing)
		kh_index_prefetch_list(narrowing->index, narrowing->list);
	kh_index_find(index, request->host, &q.host);
	kh_index_prefetch(index, kh_tenant_list(tenant), &q.host);
	if (narrowing)
		kh_index_prefetch(narrowing->index, narrowing->list, &q.host);
	q.flags = 0;
	if (config->site.count > 0 && !ask(&q, index, KH_SITE_LIST, out)) {
		out->list = KH_LIST_SITE;
		if (q.asks_model)
			kh_decision_ask_model(out);
		return;
	}
	out->site_rule = out->rule;
	struct kh_heard heard = { .site_websocket = !(q.flags & KH_NO_WEBSOCKET),
				  .noted_in = q.noted ? KH_LIST_SITE : KH_LIST_TENANT };
	(void)ask(&q, index, kh_tenant_list(tenant), out);
	if (q.asks_model) {
		kh_decision_ask_model(out);
		return;
	}
	heard.flags = q.flags;
	heard.noted = q.noted;
	kh_decision_finish(policy, tenant, &heard, out);
	if (!narrowing || !out->allow)
		return;
	struct kh_decision own = { .allow = false };
	own.allow = ask(&q, narrowing->index, narrowing->list, &own);
	if (q.asks_model)
		kh_decision_ask_model(out);
	else
		kh_decision_narrow(&own, !(q.flags & KH_NO_WEBSOCKET), out);
}
