/* narrowing.c - a sandbox's own list of rules, which can only deny more, with its index */
#include <stdlib.h>

#include "policy_internal.h"

bool kh_narrowing_check(const struct kh_rules *rules, struct kh_err *err)
{
	for (size_t i = 0; i < rules->count; i++) {
		const struct kh_rule *rule = &rules->list[i];
		if (rule->host.match == KH_MATCH_NOTHING || rule->scheme == KH_SCHEME_NONE ||
		    rule->port == 0 || !rule->text)
			return kh_err_set(err, KH_ERR_CONFIG, "narrowing: a rule without a host");
		if (rule->n_credentials > 0 || rule->client_auth_pass || rule->passthrough ||
		    rule->closes_after_content ||
		    (rule->more && (rule->more->observe || rule->more->geo || rule->more->limits)))
			return kh_err_set(err, KH_ERR_CONFIG,
					  "narrowing: a rule that does not only take away");
	}
	return true;
}

struct kh_narrowing *kh_narrowing_new(struct kh_rules *rules, struct kh_err *err)
{
	struct kh_narrowing *made = calloc(1, sizeof(*made));
	if (!made) {
		kh_rules_fini(rules);
		(void)kh_err_set(err, KH_ERR_NO_MEMORY, "narrowing: out of memory");
		return NULL;
	}
	atomic_init(&made->refs, 1);
	made->own = *rules;
	*rules = (struct kh_rules){ 0 };
	made->rules = &made->own;
	if (kh_narrowing_check(made->rules, err))
		made->own_index = kh_index_new(&made->rules, 1, err);
	made->index = made->own_index;
	if (made->index)
		return made;
	kh_narrowing_unref(made);
	return NULL;
}

const struct kh_rules *kh_narrowing_rules(const struct kh_narrowing *narrowing)
{
	return narrowing->rules;
}

struct kh_narrowing *kh_narrowing_ref(struct kh_narrowing *narrowing)
{
	atomic_fetch_add_explicit(&narrowing->refs, 1, memory_order_relaxed);
	return narrowing;
}

void kh_narrowing_unref(struct kh_narrowing *narrowing)
{
	if (!narrowing || atomic_fetch_sub_explicit(&narrowing->refs, 1, memory_order_acq_rel) != 1)
		return;
	kh_index_free(narrowing->own_index);
	kh_rules_fini(&narrowing->own);
	free(narrowing);
}
