/* nearby.c - suggests allowed rules for the text of a refusal */
#include "policy_internal.h"

#include <string.h>

/* Rules that are looked at for places elsewhere: a tenant may have a million. */
enum { LOOKED_AT = 256, PLACES_MOST = 16 };

/* The texts of rules that allow, up to `most`. */
struct nearby {
	const char **texts;
	size_t n, most;
	bool more;
};

/* Return: there is room for another. */
static bool take_nearby(struct nearby *near, const struct kh_rule *rule)
{
	if (!rule->allow)
		return true;
	if (near->n == near->most)
		return !(near->more = true);
	near->texts[near->n++] = rule->text;
	return true;
}

static bool is_same_place(const struct kh_rule *a, const struct kh_rule *b)
{
	if (a->host.match != b->host.match || a->host.match == KH_MATCH_RANGE)
		return false;
	return a->host.match == KH_MATCH_ANY || strcmp(a->host.name, b->host.name) == 0;
}

/* A rule of each host: whoever asks for a mirror of pypi.org sees pypi.org, and not ten paths of
 * what comes first. */
static void take_places(struct nearby *near, const struct kh_rules *rules)
{
	const struct kh_rule *places[PLACES_MOST];
	size_t n = 0, i = 0;
	for (; i < rules->count && i < LOOKED_AT && n < PLACES_MOST; i++) {
		const struct kh_rule *rule = &rules->list[i];
		bool known = false;
		for (size_t j = 0; j < n && rule->allow && !known; j++)
			known = is_same_place(places[j], rule);
		if (!rule->allow)
			continue;
		if (known)
			near->more = true;
		else if (!take_nearby(near, rule))
			return;
		else
			places[n++] = rule;
	}
	near->more = near->more || i < rules->count;
}

size_t kh_policy_nearby(const struct kh_policy *policy, uint16_t tenant,
			const struct kh_narrowing *narrowing, const struct kh_host *host,
			const char **texts, size_t most, bool *more)
{
	const struct kh_config *config = kh_policy_config(policy);
	struct nearby near = { .texts = texts, .most = most };
	*more = false;
	if (tenant >= config->n_tenants)
		return 0;
	const struct kh_rules *rules =
		narrowing ? narrowing->rules : &config->tenants[tenant].rules;
	const struct kh_index *index = narrowing ? narrowing->index : kh_policy_index(policy);
	if (host && host->kind != KH_HOST_NONE) {
		struct kh_host_keys found;
		struct kh_index_walk walk;
		kh_index_find(index, host, &found);
		kh_index_walk_begin(&walk, index,
				    narrowing ? narrowing->list : kh_tenant_list(tenant), &found);
		for (const struct kh_matcher *m; (m = kh_index_walk_next(&walk));)
			if (!take_nearby(&near, m->rule))
				break;
	}
	if (near.n == 0 && !near.more)
		take_places(&near, rules);
	*more = near.more;
	return near.n;
}
