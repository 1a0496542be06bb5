/* narrowing.c - a sandbox's own list: rules that only take away, and an index over them */
#include <stdatomic.h>
#include <stdlib.h>

#include "policy_internal.h"

struct kh_narrowing {
	atomic_uint refs;
	struct kh_rules own; /* of one that is not the configuration's */
	const struct kh_rules *rules;
	struct kh_index *index;
};

/* What the configuration's reader refuses must not come in by another door. */
static bool check(const struct kh_rules *rules, struct kh_err *err)
{
	for (size_t i = 0; i < rules->count; i++) {
		const struct kh_rule *rule = &rules->list[i];
		if (rule->host.match == KH_MATCH_NOTHING || rule->scheme == KH_SCHEME_NONE ||
		    rule->port == 0 || !rule->text)
			return kh_err_set(err, KH_ERR_CONFIG, "narrowing: a rule without a host");
		if (rule->n_credentials > 0 || rule->client_auth_pass || rule->passthrough ||
		    (rule->more && (rule->more->observe || rule->more->geo)))
			return kh_err_set(err, KH_ERR_CONFIG,
					  "narrowing: a rule that does not only take away");
	}
	return true;
}

static struct kh_narrowing *make(struct kh_rules *own, const struct kh_rules *rules,
				 struct kh_err *err)
{
	struct kh_narrowing *made = calloc(1, sizeof(*made));
	if (!made) {
		(void)kh_err_set(err, KH_ERR_NO_MEMORY, "narrowing: out of memory");
		return NULL;
	}
	atomic_init(&made->refs, 1);
	if (own)
		made->own = *own;
	made->rules = own ? &made->own : rules;
	if (check(made->rules, err))
		made->index = kh_index_new(&made->rules, 1, err);
	if (made->index)
		return made;
	if (own)
		made->own = (struct kh_rules){ 0 }; /* its owner still has them */
	kh_narrowing_unref(made);
	return NULL;
}

struct kh_narrowing *kh_narrowing_of(const struct kh_rules *rules, struct kh_err *err)
{
	return make(NULL, rules, err);
}

struct kh_narrowing *kh_narrowing_new(struct kh_rules *rules, struct kh_err *err)
{
	struct kh_narrowing *made = make(rules, NULL, err);
	if (!made)
		kh_rules_fini(rules);
	*rules = (struct kh_rules){ 0 };
	return made;
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
	kh_index_free(narrowing->index);
	kh_rules_fini(&narrowing->own);
	free(narrowing);
}

const struct kh_rules *kh_narrowing_rules(const struct kh_narrowing *narrowing)
{
	return narrowing->rules;
}

const struct kh_index *kh_narrowing_index(const struct kh_narrowing *narrowing)
{
	return narrowing->index;
}
