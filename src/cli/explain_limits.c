/* explain_limits.c - the limits that a request would be under, for `keyhole explain` */
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

static void add(json_t *list, const struct owner *owner, const struct kh_verdict *limit)
{
	char text[KH_VERDICT_LIMIT_BYTES];
	json_t *one = json_pack("{s:s, s:s, s:s}", "of", kh_quota_owner_name(owner->kind), "limit",
				kh_quota_name(limit->kind), "text", kh_verdict_limit(limit, text));
	json_t *name = json_string(owner->name);
	if (one && name && owner->name[0])
		(void)json_object_set(one, "name", name);
	if (one)
		(void)json_object_set_new(one, "most", json_integer((json_int_t)limit->most));
	if (one && limit->rate)
		(void)json_object_set_new(one, "period_ms",
					  json_integer((json_int_t)limit->rate->period_ms));
	json_decref(name);
	(void)json_array_append_new(list, one);
}

static void add_all(json_t *list, const struct owner *owner)
{
	const struct kh_limits *limits = owner->limits;
	for (size_t i = 0; limits && i < limits->n_rates; i++)
		add(list, owner,
		    &(struct kh_verdict){ .kind = limits->rates[i].kind,
					  .rate = &limits->rates[i],
					  .most = limits->rates[i].burst });
	if (!limits)
		return;
	const struct kh_verdict plain[] = {
		{ .kind = KH_QUOTA_CONCURRENCY, .most = limits->concurrency },
		{ .kind = KH_QUOTA_CONNECTIONS, .most = limits->connections },
		{ .kind = KH_QUOTA_MAX_BODY, .most = limits->max_body },
		{ .kind = KH_QUOTA_TUNNEL_LIFETIME, .most = limits->tunnel_lifetime_ms },
	};
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		if (plain[i].most > 0)
			add(list, owner, &plain[i]);
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
	json_t *list = json_array();
	for (size_t i = 0; list && i < sizeof(owners) / sizeof(owners[0]); i++)
		add_all(list, &owners[i]);
	return list;
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
