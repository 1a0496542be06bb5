/*
 * lint.c - warns about rules that are valid but probably a mistake
 *
 * A rule that an earlier one covers never decides. An allow rule allows nothing if the site's rules
 * deny all that it would allow. A rule for any host is often written because nobody looked for a
 * preset.
 */
#include <keyhole/base/escape.h>

#include <string.h>

#include "policy_internal.h"

/* Of the rules in front of one, so many are held against it: what a list of a hundred thousand
 * rules for one host would cost otherwise. */
enum { MOST_COMPARED = 1000 };

static bool covers_host(const struct kh_rule_host *outer, const struct kh_rule_host *inner)
{
	struct kh_host_pattern a, b;
	kh_rule_host_expand(outer, &a);
	kh_rule_host_expand(inner, &b);
	return kh_host_pattern_covers(&a, &b);
}

static bool covers_methods(const struct kh_rule *outer, const struct kh_rule *inner)
{
	if (kh_rule_has_common_methods_only(outer)) {
		bool common = kh_rule_has_common_methods_only(inner) || inner->n_methods > 0;
		for (size_t i = 0; i < inner->n_methods && common; i++)
			common = kh_policy_method_bit(kh_slice_str(inner->methods[i])) &
				 KH_CREDENTIAL_METHODS;
		return common;
	}
	if (outer->n_methods == 0)
		return true;
	for (size_t i = 0; i < inner->n_methods; i++) {
		bool found = false;
		for (size_t j = 0; j < outer->n_methods && !found; j++)
			found = strcmp(inner->methods[i], outer->methods[j]) == 0;
		if (!found)
			return false;
	}
	return inner->n_methods > 0;
}

static bool begins_with(const char *text, const char *with, size_t len, bool folded)
{
	struct kh_slice a = kh_slice_sub(kh_slice_str(text), 0, len), b = kh_slice_of(with, len);
	return folded ? kh_slice_eq_nocase(a, b) : kh_slice_eq(a, b);
}

/* Two stars at the end cover what begins with what comes before them; any other pattern covers
 * itself. */
static bool covers_path(const struct kh_rule *outer, const struct kh_rule *inner, bool folded)
{
	if (!outer->path)
		return true;
	if (!inner->path)
		return strcmp(outer->path, "/**") == 0;
	struct kh_slice path = kh_slice_str(outer->path);
	if (strlen(inner->path) == path.len && begins_with(inner->path, path.ptr, path.len, folded))
		return true;
	size_t star = kh_slice_find(path, '*', 0);
	return star + 2 == path.len && path.ptr[star + 1] == '*' &&
	       begins_with(inner->path, path.ptr, star, folded);
}

static bool covers_but_path(const struct kh_rule *outer, const struct kh_rule *inner)
{
	return !kh_rule_asks_more(outer) && outer->scheme == inner->scheme &&
	       outer->port == inner->port && covers_methods(outer, inner) &&
	       covers_host(&outer->host, &inner->host);
}

static bool covers(const struct kh_rule *outer, const struct kh_rule *inner)
{
	return covers_but_path(outer, inner) && covers_path(outer, inner, false);
}

/* A denial that an allowance would get past but for its case: the denial reads it without. */
static bool covers_but_for_case(const struct kh_rule *outer, const struct kh_rule *inner)
{
	return !outer->allow && !outer->exact_spelling && inner->allow &&
	       covers_but_path(outer, inner) && covers_path(outer, inner, true);
}

bool kh_policy_hides(const struct kh_rule *denial, const struct kh_rule *rule)
{
	return !denial->allow && (covers(denial, rule) || covers_but_for_case(denial, rule));
}

/* A host that the pattern matches, and no pattern that does not cover it, but for exact ones. */
static void host_below(const struct kh_rule_host *pattern, struct kh_host *out)
{
	*out = (struct kh_host){ .kind = KH_HOST_NAME, .len = 1, .text = "?" };
	if (pattern->match == KH_MATCH_RANGE) {
		bool six = pattern->range.family == 6;
		out->kind = six ? KH_HOST_IPV6 : KH_HOST_IPV4;
		memcpy(out->addr, pattern->range.addr, sizeof(out->addr));
	} else if (pattern->match == KH_MATCH_EXACT || pattern->match == KH_MATCH_SUFFIX) {
		struct kh_slice name = kh_slice_str(pattern->name);
		size_t front = pattern->match == KH_MATCH_SUFFIX && name.len + 2 < KH_HOST_MAX_BYTES
				       ? 2
				       : 0;
		memcpy(out->text, "?.", front);
		memcpy(out->text + front, name.ptr, name.len);
		out->len = (uint8_t)(front + name.len);
		out->text[out->len] = '\0';
	}
}

const struct kh_rule *kh_policy_shadow_of(const struct kh_index *index, size_t list,
					  const struct kh_rule *rule, unsigned *left)
{
	struct kh_host host;
	struct kh_host_keys keys;
	struct kh_index_walk walk;
	host_below(&rule->host, &host);
	kh_index_find(index, &host, &keys);
	kh_index_walk_begin(&walk, index, list, &keys);
	for (const struct kh_matcher *m; (m = kh_index_walk_next(&walk)) && m->rule < rule;) {
		if (*left == 0)
			return NULL;
		(*left)--;
		if (covers(m->rule, rule) || covers_but_for_case(m->rule, rule))
			return m->rule;
	}
	return NULL;
}

static void warn_of_shadow(const struct kh_rule *above, const struct kh_rule *rule,
			   struct kh_diagnostics *diags)
{
	if (!covers(above, rule))
		kh_diagnostics_add(diags, true, rule->where,
				   "rule \"%s\" never decides: \"%s\" in line %u is above it, "
				   "differs in case only, and a denial is read without case "
				   "(spelling: exact there takes it as it is written)",
				   kh_esc_str(rule->text), kh_esc_str(above->text),
				   above->where.line);
	else if (above->allow == rule->allow)
		kh_diagnostics_add(diags, true, rule->where,
				   "rule \"%s\" never decides: \"%s\" in line %u %s all that it "
				   "means",
				   kh_esc_str(rule->text), kh_esc_str(above->text),
				   above->where.line, above->allow ? "allows" : "denies");
	else
		kh_diagnostics_add(diags, true, rule->where,
				   "rule \"%s\" never decides: \"%s\" in line %u is above it, "
				   "and %s all that it %s (put exceptions above)",
				   kh_esc_str(rule->text), kh_esc_str(above->text),
				   above->where.line, above->allow ? "allows" : "denies",
				   rule->allow ? "would allow" : "would deny");
}

static void inspect_list(const struct kh_index *index, size_t list, const struct kh_rules *rules,
			 struct kh_diagnostics *diags)
{
	for (size_t i = 0; i < rules->count; i++) {
		const struct kh_rule *rule = &rules->list[i];
		unsigned left = MOST_COMPARED;
		const struct kh_rule *above = kh_policy_shadow_of(index, list, rule, &left);
		/* Presets overlap, and nobody can change them where they are used. */
		if (above && !rule->preset)
			warn_of_shadow(above, rule, diags);
	}
}

/* Only of exact hosts can it be said without going through all of their names. */
static void warn_of_ceiling(const struct kh_policy *policy, const struct kh_rules *rules,
			    size_t other, struct kh_diagnostics *diags)
{
	for (size_t i = 0; i < rules->count; i++) {
		const struct kh_rule *rule = &rules->list[i];
		struct kh_host host;
		if (!rule->allow || rule->host.match != KH_MATCH_EXACT ||
		    !kh_host_parse(&host, kh_slice_str(rule->host.name), NULL) ||
		    kh_policy_list_knows(policy, other, rule->scheme, &host, rule->port))
			continue;
		kh_diagnostics_add(diags, true, rule->where,
				   "rule \"%s\" lets nothing out: the %s's rules allow nothing "
				   "there",
				   kh_esc_str(rule->text),
				   other == KH_SITE_LIST ? "site" : "tenant");
	}
}

static void warn_of_any_host(const struct kh_rules *rules, struct kh_diagnostics *diags)
{
	for (size_t i = 0; i < rules->count; i++) {
		const struct kh_rule *rule = &rules->list[i];
		if (rule->allow && rule->host.match == KH_MATCH_ANY && kh_rule_covers_all(rule))
			kh_diagnostics_add(diags, true, rule->where,
					   "rule \"%s\" lets everything out to any host: name the "
					   "hosts, or use presets (as `use: npm`)",
					   kh_esc_str(rule->text));
	}
}

static bool allows_something(const struct kh_rules *rules)
{
	for (size_t i = 0; i < rules->count; i++)
		if (rules->list[i].allow)
			return true;
	return false;
}

static void inspect_narrowing(const struct kh_policy *policy, size_t listener,
			      struct kh_diagnostics *diags)
{
	const struct kh_narrowing *narrowing = kh_policy_narrowing(policy, listener);
	const struct kh_listener_config *config = &kh_policy_config(policy)->listeners[listener];
	if (!narrowing)
		return;
	inspect_list(narrowing->index, narrowing->list, &config->narrow, diags);
	if (!kh_policy_observing(policy, config->tenant))
		warn_of_ceiling(policy, &config->narrow, kh_tenant_list(config->tenant), diags);
	if (!allows_something(&config->narrow))
		kh_diagnostics_add(diags, true, config->where,
				   "listen[].narrow: allows nothing, so every request of \"%s\" is "
				   "refused (below what it denies it needs what it leaves, as in "
				   "allow: \"https://**\")",
				   kh_esc_str(config->sandbox));
}

void kh_policy_inspect(const struct kh_policy *policy, struct kh_diagnostics *diags)
{
	const struct kh_config *config = kh_policy_config(policy);
	const struct kh_index *index = kh_policy_index(policy);
	inspect_list(index, KH_SITE_LIST, &config->site, diags);
	for (size_t i = 0; i < config->n_tenants; i++) {
		const struct kh_rules *rules = &config->tenants[i].rules;
		inspect_list(index, kh_tenant_list(i), rules, diags);
		warn_of_any_host(rules, diags);
		if (config->site.count > 0)
			warn_of_ceiling(policy, rules, KH_SITE_LIST, diags);
	}
	for (size_t i = 0; i < config->n_listeners; i++)
		inspect_narrowing(policy, i, diags);
	kh_diagnostics_sort(diags);
}
