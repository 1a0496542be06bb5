/* policy.c - the policy: all lists of rules, and the index over them
 *
 * A policy is the configuration's lists of rules with one index over all of them. The site's list
 * is number 0, the list of tenant N is number N + 1; a dynamic sandbox's narrowing has an index of
 * its own. A list is walked from top to bottom, without the rules for other hosts, and the first
 * rule that matches decides. The result is the rule itself; a zeroed decision denies. */
#include <keyhole/policy/policy.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "policy_internal.h"

static const char observed[] = "mode: observe", answered[] = "a person's answer";

struct kh_policy {
	atomic_uint refs;
	char observing_text[sizeof(observed)];
	struct kh_rule observing; /* what observing tenants' requests go by that nothing allows */
	char answered_text[sizeof(answered)];
	struct kh_rule answered; /* what requests go by that a person has allowed */
	const struct kh_config *config;
	struct kh_index *index;
	struct kh_narrowing *narrowings; /* one a listener */
};

/* What the configuration's reader refuses must not come in another way. */
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
		policy->answered = (struct kh_rule){ .allow = true,
						     .no_websocket = true,
						     .text = policy->answered_text };
		memcpy(policy->answered_text, answered, sizeof(answered));
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

const struct kh_rule *kh_policy_observing(const struct kh_policy *policy, uint16_t tenant)
{
	const struct kh_config *config = policy->config;
	bool observes =
		tenant < config->n_tenants && config->tenants[tenant].mode == KH_MODE_OBSERVE;
	return observes ? &policy->observing : NULL;
}

bool kh_decision_observe(const struct kh_policy *policy, uint16_t tenant, enum kh_err_code reason,
			 const struct kh_rule *by, struct kh_decision *out)
{
	const struct kh_rule *observing = kh_policy_observing(policy, tenant);
	if (!observing)
		return false;
	if (!out->bare) {
		out->would = reason;
		out->would_rule = by;
		out->would_list = KH_LIST_TENANT;
	}
	out->bare = true;
	/* What a rule that allows says of the connection and of limits stays. */
	if (!out->rule || !out->rule->allow || !out->allow)
		out->rule = observing;
	out->allow = true;
	out->reason = KH_ERR_NONE;
	return true;
}

/* Is there nothing about it that a rule could have matched, but did not get to see? */
static bool is_plain(const struct kh_request_view *request)
{
	return request->host && request->host->kind != KH_HOST_NONE &&
	       request->scheme != KH_SCHEME_NONE && request->model_state == KH_MODEL_UNREAD &&
	       !kh_request_has_readings(request);
}

bool kh_policy_may_ask(const struct kh_policy *policy, uint16_t tenant,
		       const struct kh_narrowing *narrowing, const struct kh_request_view *request,
		       const struct kh_decision *decision)
{
	return tenant < policy->config->n_tenants && !narrowing && is_plain(request) &&
	       !decision->allow && decision->reason == KH_ERR_NO_RULE && !decision->rule &&
	       decision->list == KH_LIST_TENANT && decision->reading == KH_READ_PLAIN &&
	       !decision->asks_model;
}

bool kh_policy_take_answer(const struct kh_policy *policy, uint16_t tenant,
			   const struct kh_narrowing *narrowing,
			   const struct kh_request_view *request, struct kh_decision *out)
{
	if (!kh_policy_may_ask(policy, tenant, narrowing, request, out))
		return false;
	out->rule = &policy->answered;
	out->allow = true;
	out->reason = KH_ERR_NONE;
	return true;
}

bool kh_decision_mark_there(const struct kh_decision *there, struct kh_decision *out)
{
	if (there->would == KH_ERR_NONE || out->would != KH_ERR_NONE)
		return false;
	out->would = there->would;
	out->would_rule = there->would_rule;
	out->would_list = there->would_list;
	return true;
}

/* A denial of a list that goes on below it. */
static void note(const struct kh_policy *policy, uint16_t tenant, const struct kh_heard *heard,
		 struct kh_decision *out)
{
	bool own = heard->noted && (!heard->site_noted || kh_policy_observing(policy, tenant));
	const struct kh_rule *noted = own ? heard->noted : heard->site_noted;
	if (!noted)
		return;
	out->would = KH_ERR_DENIED_BY_RULE;
	out->would_rule = noted;
	out->would_list = own ? KH_LIST_TENANT : KH_LIST_SITE;
	/* As one of those that all of its tenant's only observe. */
	out->bare = own && kh_policy_observing(policy, tenant);
}

void kh_decision_finish(const struct kh_policy *policy, uint16_t tenant,
			const struct kh_heard *heard, struct kh_decision *out)
{
	if (heard->flags & KH_ALLOWS) {
		if (heard->flags & KH_PASSTHROUGH) {
			out->reason = KH_ERR_TUNNEL_ONLY;
			return;
		}
		note(policy, tenant, heard, out);
		out->reason = KH_ERR_NONE;
		out->allow = true;
	} else if (!kh_decision_observe(policy, tenant, out->reason, out->rule, out)) {
		return;
	}
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

struct kh_geo_levels kh_policy_geo(const struct kh_policy *policy, uint16_t tenant,
				   const struct kh_decision *decision)
{
	const struct kh_config *config = kh_policy_config(policy);
	return (struct kh_geo_levels){
		.at = { [KH_GEO_SITE] = config->site_geo,
			[KH_GEO_TENANT] =
				tenant < config->n_tenants ? config->tenants[tenant].geo : NULL,
			[KH_GEO_SITE_RULE] = kh_rule_geo(decision->site_rule),
			[KH_GEO_RULE] = kh_rule_geo(decision->rule) },
	};
}
