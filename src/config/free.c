/* free.c - the parts of a configuration that its readers make, freed */
#include <stdlib.h>

#include "config_internal.h"

void kh_limits_free(struct kh_limits *limits)
{
	if (!limits)
		return;
	free(limits->rates);
	free(limits);
}

void kh_geo_rules_free(struct kh_geo_rules *geo)
{
	if (!geo)
		return;
	free(geo->allow_countries.list);
	free(geo->deny_countries.list);
	free(geo->allow_asns.list);
	free(geo->deny_asns.list);
	free(geo);
}

void kh_condition_fini(struct kh_condition *condition)
{
	for (size_t i = 0; i < condition->n_patterns; i++)
		free(condition->patterns[i]);
	free(condition->patterns);
	free(condition->name);
	*condition = (struct kh_condition){ 0 };
}

void kh_rule_more_free(struct kh_rule_more *more)
{
	if (!more)
		return;
	for (size_t i = 0; i < more->n_conditions; i++)
		kh_condition_fini(&more->conditions[i]);
	kh_geo_rules_free(more->geo);
	free(more->conditions);
	kh_limits_free(more->limits);
	free(more);
}

void kh_rule_fini(struct kh_rule *rule)
{
	for (size_t i = 0; i < rule->n_methods; i++)
		free(rule->methods[i]);
	free(rule->methods);
	free(rule->text);
	free(rule->preset);
	free(rule->path);
	if (rule->host.match == KH_MATCH_EXACT || rule->host.match == KH_MATCH_SUFFIX)
		free(rule->host.name);
	kh_rule_more_free(rule->more);
	*rule = (struct kh_rule){ 0 };
}

void kh_rules_fini(struct kh_rules *rules)
{
	for (size_t i = 0; i < rules->count; i++)
		kh_rule_fini(&rules->list[i]);
	free(rules->list);
	for (size_t i = 0; i < rules->n_uses; i++) {
		free(rules->uses[i].preset);
		free(rules->uses[i].arguments);
	}
	free(rules->uses);
	kh_home_templates_fini(&rules->files);
	*rules = (struct kh_rules){ 0 };
}

/* ---- aws_sigv4 ---- */

void kh_sigv4_config_free(struct kh_sigv4_config *config)
{
	if (!config)
		return;
	free(config->region);
	free(config->service);
	free(config->access_key_id);
	free(config->session_token);
	free(config);
}

/* ---- mtls ---- */

void kh_mtls_config_free(struct kh_mtls_config *config)
{
	if (!config)
		return;
	free(config->certificate);
	free(config);
}

/* ---- hmac ---- */

void kh_hmac_config_free(struct kh_hmac_config *config)
{
	if (!config)
		return;
	for (size_t i = 0; i < config->n_fields; i++) {
		free(config->fields[i].name);
		free(config->fields[i].text);
	}
	free(config->fields);
	free(config->sign);
	free(config);
}

void kh_placement_free(struct kh_placement *placement)
{
	if (!placement)
		return;
	for (size_t i = 0; i < placement->n_fields; i++) {
		free(placement->fields[i].name);
		free(placement->fields[i].prefix);
		free(placement->fields[i].suffix);
		free(placement->fields[i].username);
	}
	free(placement->fields);
	free(placement->name);
	free(placement->pointer);
	kh_sigv4_config_free(placement->sigv4);
	kh_mtls_config_free(placement->mtls);
	kh_hmac_config_free(placement->hmac);
	free(placement);
}
