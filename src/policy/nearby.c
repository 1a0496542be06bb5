/* nearby.c - suggests allowed rules for the text of a refusal */
#include "policy_internal.h"

#include <string.h>

/* Rules that are looked at for places elsewhere: a tenant may have a million. */
enum { LOOKED_AT = 256, PLACES_MOST = 16 };
/* Rules that are held against those that are listed. Whoever is refused makes this work. */
enum { COMPARED_MOST = 2048 };

/* The texts of rules that allow, up to `most`. */
struct nearby {
	const char **texts;
	size_t n, most;
	bool more;
	const struct kh_policy *policy;
	const struct kh_index *index; /* of the list that the rules are of */
	size_t list;
	unsigned left; /* of COMPARED_MOST */
};

/* Do the site's rules allow nothing of what it allows? Said of exact hosts only: of other ones a
 * rule for a host among them may allow something. */
static bool is_hidden_by_site(struct nearby *near, const struct kh_rule *rule)
{
	struct kh_host host;
	struct kh_host_keys keys;
	struct kh_index_walk walk;
	if (kh_policy_config(near->policy)->site.count == 0 || rule->host.match != KH_MATCH_EXACT ||
	    !kh_host_parse(&host, kh_slice_str(rule->host.name), NULL))
		return false;
	kh_index_find(kh_policy_index(near->policy), &host, &keys);
	kh_index_walk_begin(&walk, kh_policy_index(near->policy), KH_SITE_LIST, &keys);
	for (const struct kh_matcher *m; (m = kh_index_walk_next(&walk)); near->left--) {
		if (near->left == 0 || m->rule->allow)
			return false;
		if (kh_policy_hides(m->rule, rule))
			return true;
	}
	return true;
}

static bool is_hidden(struct nearby *near, const struct kh_rule *rule)
{
	const struct kh_rule *above =
		kh_policy_shadow_of(near->index, near->list, rule, &near->left);
	return (above && !above->allow) || is_hidden_by_site(near, rule);
}

/* Return: there is room for another. */
static bool take_nearby(struct nearby *near, const struct kh_rule *rule)
{
	if (!rule->allow || is_hidden(near, rule))
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
		size_t before = near->n;
		if (!rule->allow)
			continue;
		if (known)
			near->more = true;
		else if (!take_nearby(near, rule))
			return;
		else if (near->n > before)
			places[n++] = rule;
	}
	near->more = near->more || i < rules->count;
}

size_t kh_policy_nearby(const struct kh_policy *policy, uint16_t tenant,
			const struct kh_narrowing *narrowing, const struct kh_host *host,
			const char **texts, size_t most, bool *more)
{
	const struct kh_config *config = kh_policy_config(policy);
	struct nearby near = { .texts = texts,
			       .most = most,
			       .policy = policy,
			       .index = narrowing ? narrowing->index : kh_policy_index(policy),
			       .list = narrowing ? narrowing->list : kh_tenant_list(tenant),
			       .left = COMPARED_MOST };
	*more = false;
	if (tenant >= config->n_tenants)
		return 0;
	const struct kh_rules *rules =
		narrowing ? narrowing->rules : &config->tenants[tenant].rules;
	if (host && host->kind != KH_HOST_NONE) {
		struct kh_host_keys found;
		struct kh_index_walk walk;
		kh_index_find(near.index, host, &found);
		kh_index_walk_begin(&walk, near.index, near.list, &found);
		for (const struct kh_matcher *m; (m = kh_index_walk_next(&walk));)
			if (!take_nearby(&near, m->rule))
				break;
	}
	if (near.n == 0 && !near.more)
		take_places(&near, rules);
	*more = near.more;
	return near.n;
}
