/* explain_rule.c - describes a rule that took part in a decision */
#include "explain_rule.h"

static const char *file_of(const struct kh_config *config, const struct kh_rule *rule)
{
	return rule->where.file < config->n_files ? config->files[rule->where.file] : "";
}

static json_t *text_of(const char *text)
{
	json_t *made = json_string(text);
	return made ? made : json_string("?");
}

json_t *kh_explain_rule(const struct kh_config *config, const struct kh_rule *rule,
			enum kh_list list)
{
	return json_pack("{s:s, s:o, s:o, s:i, s:i, s:s}", "list", kh_list_name(list), "rule",
			 text_of(rule->text), "file", text_of(file_of(config, rule)), "line",
			 (int)rule->where.line, "column", (int)rule->where.column, "kind",
			 rule->allow ? "allow" : "deny");
}

void kh_explain_tunnel(const struct kh_config *config, const struct kh_policy *policy,
		       uint16_t tenant, const struct kh_narrowing *narrowing,
		       const struct kh_dry_run *question, json_t *out)
{
	struct kh_decision by;
	(void)kh_policy_tunnel(policy, tenant, narrowing, &question->authority.host,
			       question->authority.port, &by);
	if (by.rule)
		(void)json_object_set_new(out, "tunnel_rule",
					  kh_explain_rule(config, by.rule, KH_LIST_TENANT));
}
