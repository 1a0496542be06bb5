/* explain_limits.c - the limits that apply to a request, for `keyhole explain` */
#include "explain_limits.h"

#include <stdio.h>
#include <string.h>

#include <keyhole/base/escape.h>
#include <keyhole/policy/quota.h>

struct owner {
	enum kh_quota_owner kind;
	const char *name;
	const struct kh_limits *limits;
};

struct list {
	json_t *rows;
	const struct owner *owner;
};

static void add(void *arg, const struct kh_verdict *limit)
{
	const struct list *list = arg;
	char text[KH_VERDICT_LIMIT_BYTES];
	json_t *one = json_pack("{s:s, s:s, s:s}", "of", kh_quota_owner_name(limit->owner), "limit",
				kh_quota_name(limit->kind), "text", kh_verdict_limit(limit, text));
	json_t *name = json_string(list->owner->name);
	if (one && name && list->owner->name[0])
		(void)json_object_set(one, "name", name);
	if (one)
		(void)json_object_set_new(one, "most", json_integer((json_int_t)limit->most));
	if (one && limit->rate.kind != KH_QUOTA_NONE)
		(void)json_object_set_new(one, "period_ms",
					  json_integer((json_int_t)limit->rate.period_ms));
	json_decref(name);
	(void)json_array_append_new(list->rows, one);
}

static const struct kh_limits *limits_of(const struct kh_rule *rule)
{
	return rule && rule->more ? rule->more->limits : NULL;
}

json_t *kh_explain_limits(const struct kh_config *config, uint16_t tenant, int listener,
			  const struct kh_decision *decision, bool rules)
{
	const struct kh_listener_config *sandbox =
		listener >= 0 ? &config->listeners[listener] : NULL;
	const struct kh_rule *rule = rules ? decision->rule : NULL;
	const struct kh_rule *site_rule = rules ? decision->site_rule : NULL;
	const struct owner owners[] = {
		{ KH_OF_SANDBOX, sandbox ? sandbox->sandbox : "",
		  sandbox ? sandbox->limits : NULL },
		{ KH_OF_RULE, rule ? rule->text : "", limits_of(rule) },
		{ KH_OF_TENANT, config->tenants[tenant].name, config->tenants[tenant].limits },
		{ KH_OF_SITE_RULE, site_rule ? site_rule->text : "", limits_of(site_rule) },
		{ KH_OF_SITE, "", config->site_limits },
	};
	const struct kh_quota_ledger nothing_counted = { 0 };
	json_t *rows = json_array();
	for (size_t i = 0; rows && i < sizeof(owners) / sizeof(owners[0]); i++) {
		struct list list = { rows, &owners[i] };
		kh_quota_look(owners[i].limits, owners[i].kind, &nothing_counted, 0, add, &list);
	}
	return rows;
}

static const char *str(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	return text ? kh_esc_str(text) : "";
}

/* "tenant", "the site": as they are called in a sentence. */
static const char *called(const char *of)
{
	if (strcmp(of, kh_quota_owner_name(KH_OF_SITE)) == 0)
		return "the site";
	return strcmp(of, kh_quota_owner_name(KH_OF_SITE_RULE)) == 0 ? "the site's rule" : of;
}

void kh_explain_print_limits(const json_t *list)
{
	size_t index;
	json_t *one;
	json_array_foreach(list, index, one)
	{
		bool named = json_object_get(one, "name") != NULL;
		printf("limit: %s, of %s%s%s%s\n", str(one, "text"), called(str(one, "of")),
		       named ? " \"" : "", str(one, "name"), named ? "\"" : "");
	}
}
