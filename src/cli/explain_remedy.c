/* explain_remedy.c - what would allow a request that the rules refuse: a preset, or a rule to add
 */
#include "explain_remedy.h"

#include <stdio.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/exchange/remedy.h>
#include <keyhole/net/guard.h>

#include "explain_rule.h"

enum { RULE_BYTES = 1024 };

static void add_preset(const struct kh_remedy *preset, json_t *remedy)
{
	(void)json_object_set_new(remedy, "preset", json_string(preset->preset));
	(void)json_object_set_new(remedy, "use", json_string(preset->use));
	if (preset->parameter)
		(void)json_object_set_new(remedy, "parameter", json_string(preset->parameter));
	if (preset->variables[0])
		(void)json_object_set_new(remedy, "variables", json_string(preset->variables));
	if (preset->narrows[0])
		(void)json_object_set_new(remedy, "narrows", json_string(preset->narrows));
}

/* One by which each reading of the request is allowed. */
static void add_rule(const struct kh_dry_run *q, json_t *remedy)
{
	kh_cleanup(kh_buf_fini) struct kh_buf rule, method, host, path;
	bool one_reading = !q->target.path_slashed.ptr && !q->target.path_decoded.ptr &&
			   q->target.path_cuts.n == 0 && !kh_overrides_any(&q->overrides);
	bool literal = kh_slice_find(q->target.path, '*', 0) == q->target.path.len;
	kh_buf_init(&rule, RULE_BYTES);
	kh_buf_init(&method, RULE_BYTES);
	kh_buf_init(&host, RULE_BYTES);
	kh_buf_init(&path, RULE_BYTES);
	if (one_reading && literal && kh_buf_append_slice(&method, q->message.method) &&
	    kh_buf_append_slice(&host, kh_host_view(&q->authority.host)) &&
	    kh_buf_append_slice(&path, q->target.path) &&
	    kh_remedy_rule(&rule, kh_buf_cstr(&method), kh_scheme_name(q->scheme),
			   kh_buf_cstr(&host), q->authority.port, kh_buf_cstr(&path)))
		(void)json_object_set_new(remedy, "rule", json_string(kh_buf_cstr(&rule)));
}

/* Says so of an address that no rule opens. */
static bool is_guarded(const struct kh_config *config, uint16_t tenant, const struct kh_dry_run *q,
		       json_t *out)
{
	struct kh_sockaddr known;
	size_t n;
	const struct kh_cidr *allow = kh_config_allowed_addresses(config, tenant, &n);
	const char *class_name =
		!kh_config_pin(config, tenant, &q->authority.host) &&
				kh_guard_known(&q->authority.host, q->authority.port, &known)
			? kh_guard_refuses(&known, allow, n)
			: NULL;
	if (class_name)
		(void)json_object_set_new(
			out, "detail",
			json_sprintf("no rule alone allows it: sandboxes may not connect to this "
				     "address (%s), unless allow_addresses opens it",
				     class_name));
	return class_name != NULL;
}

/* The first line of the file that uses the preset of this rule. */
static void add_used_at(const struct kh_config *config, const struct kh_rules *rules,
			const struct kh_rule *rule, json_t *remedy)
{
	for (size_t i = 0; rule->preset && i < rules->n_uses; i++) {
		const struct kh_preset_use *use = &rules->uses[i];
		if (use->where.line == 0 || use->where.file >= config->n_files ||
		    strcmp(use->preset, rule->preset) != 0)
			continue;
		(void)json_object_set_new(remedy, "used_at",
					  json_pack("{s:s,s:i,s:s}", "file",
						    config->files[use->where.file], "line",
						    (int)use->where.line, "preset", use->preset));
		return;
	}
}

void kh_explain_remedy(const struct kh_config *config, uint16_t tenant,
		       const struct kh_dry_run *question, const struct kh_outcome *outcome,
		       json_t *out)
{
	const struct kh_decision *decision = &outcome->decision;
	bool denied = outcome->reason == KH_ERR_DENIED_BY_RULE;
	if (outcome->allow || question->tunnel || (!denied && outcome->reason != KH_ERR_NO_RULE) ||
	    is_guarded(config, tenant, question, out))
		return;
	const struct kh_rules *rules =
		decision->list == KH_LIST_SITE ? &config->site : &config->tenants[tenant].rules;
	struct kh_remedies *remedies = kh_remedies_new(NULL, rules);
	const struct kh_remedy *preset = remedies ? kh_remedies_find(remedies, question) : NULL;
	json_t *remedy = json_pack("{s:s}", "list", kh_list_name(decision->list));
	if (preset)
		add_preset(preset, remedy);
	else
		add_rule(question, remedy);
	if (decision->rule)
		(void)json_object_set_new(remedy, "above",
					  kh_explain_rule(config, decision->rule, decision->list));
	if (decision->rule)
		add_used_at(config, rules, decision->rule, remedy);
	kh_remedies_free(remedies);
	if (json_object_get(remedy, "use") || json_object_get(remedy, "rule"))
		(void)json_object_set_new(out, "remedy", remedy);
	else
		json_decref(remedy);
}

static const char *str(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

/* Nothing that YAML needs quotes for. */
static void print_value(const char *value, int len)
{
	const char *quote = memchr(value, '*', (size_t)len) || memchr(value, ':', (size_t)len) ||
					    strchr("@-+.", value[0])
				    ? "\""
				    : "";
	printf("%s%.*s%s", quote, len, value, quote);
}

/* All pairs of the key that stands at `first`: a list, where there are several. */
static void print_pairs(const char *first)
{
	size_t key = strcspn(first, "=") + 1, n = 0;
	for (const char *at = first; *at; at += strcspn(at, ","), at += *at == ',')
		n += strncmp(at, first, key) == 0;
	printf("%.*s: %s", (int)key - 1, first, n > 1 ? "[ " : "");
	for (const char *at = first, *comma = ""; *at; at += strcspn(at, ","), at += *at == ',') {
		if (strncmp(at, first, key) != 0)
			continue;
		printf("%s", comma);
		print_value(at + key, (int)(strcspn(at, ",") - key));
		comma = ", ";
	}
	printf("%s", n > 1 ? " ]" : "");
}

static bool is_again(const char *pairs, const char *pair)
{
	size_t key = strcspn(pair, "=") + 1;
	for (const char *at = pairs; at < pair; at += strcspn(at, ",") + 1)
		if (strncmp(at, pair, key) == 0)
			return true;
	return false;
}

/* "github:repos=a/b,push=true" as YAML has it. */
static void print_use(const char *use)
{
	const char *pairs = use + strcspn(use, ":");
	printf(*pairs ? "- use: { %.*s: { " : "- use: %.*s", (int)(pairs - use), use);
	if (!*pairs)
		return;
	pairs++;
	for (const char *at = pairs; *at; at += strcspn(at, ","), at += *at == ',')
		if (!is_again(pairs, at)) {
			printf("%s", at > pairs ? ", " : "");
			print_pairs(at);
		}
	printf(" } }");
}

void kh_explain_print_remedy(const json_t *remedy)
{
	const json_t *above = json_object_get(remedy, "above");
	const json_t *used_at = json_object_get(remedy, "used_at");
	const char *rule = str(remedy, "rule"), *variables = str(remedy, "variables");
	const char *narrows = str(remedy, "narrows");
	printf("to allow it: ");
	if (rule)
		printf("- allow: \"%s\"", rule);
	else
		print_use(str(remedy, "use"));
	printf(" in the %s's rules", str(remedy, "list"));
	if (used_at)
		printf(", above %s:%lld, where it uses %s", kh_esc_str(str(used_at, "file")),
		       json_integer_value(json_object_get(used_at, "line")),
		       kh_esc_str(str(used_at, "preset")));
	else if (above)
		printf(", above %s:%lld", kh_esc_str(str(above, "file")),
		       json_integer_value(json_object_get(above, "line")));
	if (variables)
		printf(" (its key comes from %s)", kh_esc_str(variables));
	if (narrows)
		printf(" (%s opens less of it)", kh_esc_str(narrows));
	printf("\n");
}
