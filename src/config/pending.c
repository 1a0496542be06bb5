/* pending.c - looks up the credentials that rules name, after everything was read */
#include <stdlib.h>

#include <keyhole/base/escape.h>

#include "config_internal.h"

/* A credential named by a rule, before it is known whether there is one of that name. Lists move
 * while they grow, so it says where the rule is, not which. */
enum { OF_SITE = -1, OF_EXTRA = -2 };
struct kh_pending {
	long tenant; /* or OF_SITE, OF_EXTRA */
	size_t rule;
	struct kh_slice name; /* in the tree */
	struct kh_where where;
};

static long list_of(const struct kh_config *config, const struct kh_rules *rules)
{
	if (rules == &config->site)
		return OF_SITE;
	for (size_t i = config->n_tenants; i > 0; i--)
		if (rules == &config->tenants[i - 1].rules)
			return (long)(i - 1);
	return OF_EXTRA;
}

void kh_pending_add(struct kh_reader *reader, const struct kh_rules *rules,
		    const struct kh_yaml_node *name)
{
	if (name->kind != KH_NODE_SCALAR || kh_node_is_empty(name)) {
		kh_reader_error(reader, name, "rules[].credential: expected a name, got %s",
				kh_node_what(name));
		return;
	}
	struct kh_pending *one = kh_list_add(&reader->pending, &reader->n_pending, sizeof(*one));
	if (!one) {
		(void)kh_reader_no_memory(reader);
		return;
	}
	one->tenant = list_of(reader->config, rules);
	one->rule = rules->count - 1;
	one->name = name->text;
	one->where = kh_reader_where(reader, name);
}

static void resolve(struct kh_reader *reader, const struct kh_pending *one, struct kh_rule *rule)
{
	struct kh_config *config = reader->config;
	int index = kh_config_credential(config, one->name);
	if (index < 0) {
		struct kh_nearest nearest;
		kh_nearest_init(&nearest, one->name);
		for (size_t i = 0; i < config->n_credentials; i++)
			if (!config->credentials[i].of_proxy && !config->credentials[i].of_listener)
				kh_nearest_offer(&nearest, config->credentials[i].name);
		char hint[KH_NEAREST_BYTES];
		kh_diagnostics_add(reader->diags, false, one->where,
				   "no credential is called \"%s\"%s", kh_esc(one->name),
				   kh_nearest_hint(&nearest, hint));
		return;
	}
	for (size_t i = 0; i < rule->n_credentials; i++)
		if (rule->credentials[i] == index) {
			kh_diagnostics_add(reader->diags, false, one->where,
					   "credential \"%s\" is there twice", kh_esc(one->name));
			return;
		}
	if (rule->n_credentials < KH_RULE_CREDENTIALS)
		rule->credentials[rule->n_credentials++] = (uint16_t)index;
}

void kh_pending_resolve(struct kh_reader *reader, struct kh_rules *extra)
{
	for (size_t i = 0; i < reader->n_pending; i++) {
		const struct kh_pending *one = &reader->pending[i];
		struct kh_rules *rules = one->tenant == OF_EXTRA ? extra
					 : one->tenant == OF_SITE
						 ? &reader->config->site
						 : &reader->config->tenants[one->tenant].rules;
		resolve(reader, one, &rules->list[one->rule]);
	}
	kh_pending_fini(reader);
}

void kh_pending_fini(struct kh_reader *reader)
{
	free(reader->pending);
	reader->pending = NULL;
	reader->n_pending = 0;
}
