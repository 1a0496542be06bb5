/* nearby.c - what is allowed near a request that was refused, for the text that says so */
#include "policy_internal.h"

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
		struct kh_walk walk;
		kh_index_find(index, host, &found);
		kh_walk_begin(&walk, index, narrowing ? narrowing->list : kh_tenant_list(tenant),
			      &found);
		for (const struct kh_matcher *m; (m = kh_walk_next(&walk));)
			if (!take_nearby(&near, m->rule))
				break;
	}
	/* Where there are none at the same host: the list's first. */
	if (near.n == 0 && !near.more)
		for (size_t i = 0; i < rules->count && take_nearby(&near, &rules->list[i]); i++)
			continue;
	*more = near.more;
	return near.n;
}
