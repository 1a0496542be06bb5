/*
 * suggest_text.c - the text of `keyhole suggest`: YAML, with what was counted in comments
 *
 * A comment has only text that passed kh_esc, which is printable ASCII in one line; a value is the
 * text of a rule that was parsed, as a JSON string, which YAML reads alike.
 */
#include "suggest_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/escape.h>

enum { CLOSED_SHOWN = 64, VARIABLES_SHOWN = 6 };

static const char head[] = "# Suggested by keyhole from a journal. People take a trusted host for "
			   "a trusted action: read\n"
			   "# which methods and paths each rule allows before you use it, and "
			   "remove what is not needed.\n"
			   "# No rule here sets a credential of its own.\n";

/* " (2 refused, 3 only observed)" */
static bool put_fates(struct kh_buf *out, uint64_t refused, uint64_t observed)
{
	bool both = refused > 0 && observed > 0;
	return (refused + observed == 0 || kh_buf_append_str(out, " (")) &&
	       (refused == 0 || kh_buf_printf(out, "%" PRIu64 " refused", refused)) &&
	       (!both || kh_buf_append_str(out, ", ")) &&
	       (observed == 0 || kh_buf_printf(out, "%" PRIu64 " only observed", observed)) &&
	       (refused + observed == 0 || kh_buf_append_char(out, ')'));
}

static bool put_count(struct kh_buf *out, uint64_t requests, uint64_t refused, uint64_t observed,
		      const char *example)
{
	return kh_buf_printf(out, "      # %" PRIu64 " request%s", requests,
			     requests == 1 ? "" : "s") &&
	       put_fates(out, refused, observed) &&
	       kh_buf_printf(out, ", such as %.240s\n", example);
}

/* ---- presets ---- */

/* What one preset would cover of a tenant's requests. */
struct cover {
	uint64_t requests, refused, observed, unsure, score;
	const char *example;
};

static bool is_covered(const struct kh_path_group *group, uint64_t presets)
{
	return ((group->marks[0] | group->marks[1]) & presets) != 0;
}

/* Of groups that `chosen` does not cover yet. */
static struct cover cover_of(const struct kh_suggest *s, const char *tenant, uint64_t bit,
			     uint64_t chosen)
{
	struct cover cover = { 0 };
	for (size_t i = 0; i < s->preset.count; i++) {
		const struct kh_path_group *group = &s->preset.list[i];
		bool sure = (group->marks[0] & bit) != 0;
		if (strcmp(group->kind, tenant) != 0 || !is_covered(group, bit) ||
		    is_covered(group, chosen))
			continue;
		cover.requests += group->requests;
		cover.refused += group->refused;
		cover.observed += group->observed;
		cover.unsure += sure ? 0 : group->requests;
		cover.score += sure ? 2 : 1;
		cover.example = cover.example ? cover.example : group->example;
	}
	return cover;
}

/* As few presets as a greedy choice finds, which cover all that a preset covers; a preset that
 * allows requests for sure counts more than one that may. */
static uint64_t choose_presets(const struct kh_suggest *s, const char *tenant)
{
	uint64_t chosen = 0;
	for (;;) {
		uint64_t best = 0, score = 0;
		for (size_t i = 0; i < kh_preset_match_count(s->presets); i++) {
			uint64_t bit = UINT64_C(1) << i;
			struct cover cover = cover_of(s, tenant, bit, chosen);
			if (cover.score > score) {
				score = cover.score;
				best = bit;
			}
		}
		if (!best)
			return chosen;
		chosen |= best;
	}
}

/* The variables that its credentials come from, each once. */
static bool put_variables(struct kh_buf *out, const struct kh_config *config)
{
	size_t shown = 0;
	bool ok = true;
	for (size_t i = 0; ok && i < config->n_credentials && shown < VARIABLES_SHOWN; i++) {
		const struct kh_source *source =
			kh_source_of_credential(&config->credentials[i], 0);
		bool again = !source || source->kind != KH_SOURCE_ENV;
		for (size_t k = 0; k < i && !again; k++)
			again = kh_source_is_variable(&config->credentials[k], source->name);
		if (again)
			continue;
		ok = kh_buf_append_str(
			     out,
			     shown ? ", "
				   : "      # Credentials that it injects, if they are set: ") &&
		     kh_buf_append_str(out, source->name);
		shown++;
	}
	return ok && (shown == 0 || kh_buf_append_char(out, '\n'));
}

/* Requests that this preset denies and another chosen one allows. */
static uint64_t count_contested(const struct kh_suggest *s, const char *tenant, uint64_t bit,
				uint64_t chosen)
{
	uint64_t n = 0;
	for (size_t i = 0; i < s->preset.count; i++) {
		const struct kh_path_group *group = &s->preset.list[i];
		if (strcmp(group->kind, tenant) == 0 && (group->marks[2] & bit) &&
		    is_covered(group, chosen))
			n += group->requests;
	}
	return n;
}

static bool put_contested(struct kh_buf *out, uint64_t n)
{
	return n == 0 ||
	       kh_buf_printf(out,
			     "      # It denies %" PRIu64 " requests that another preset here "
			     "allows: the upper one decides.\n",
			     n);
}

/* The values of its parameter that were asked for. Return: false: it can't be narrowed to them. */
static bool find_values(const struct kh_suggest *s, const char *tenant, const char *preset,
			const char *values[KH_SUGGEST_VALUES], size_t *n)
{
	*n = 0;
	for (size_t i = 0; i < s->value.count; i++) {
		const struct kh_path_group *group = &s->value.list[i];
		if (strcmp(group->kind, tenant) != 0 || strcmp(group->method, preset) != 0)
			continue;
		if (!group->place[0] || *n == KH_SUGGEST_VALUES)
			return false;
		values[(*n)++] = group->place;
	}
	return s->value.left_out == 0;
}

/* "- use: { github: { repos: [ "a/b" ] } }" */
static bool put_use(const struct kh_suggest *s, struct kh_buf *out, const char *tenant, size_t nth)
{
	const char *values[KH_SUGGEST_VALUES];
	const char *preset = kh_preset_match_name(s->presets, nth);
	const char *parameter = kh_preset_match_narrowed_by(s->presets, nth);
	size_t n;
	bool narrow = find_values(s, tenant, preset, values, &n);
	if (!parameter || n == 0)
		return kh_buf_printf(out, "      - use: %s\n", preset);
	if (!narrow)
		return kh_buf_printf(
			out,
			"      # It opens any: say which are needed, as in - use: { %s: "
			"{ %s: [ NAME ] } }\n      - use: %s\n",
			preset, parameter, preset);
	bool ok = kh_buf_printf(out, "      - use: { %s: { %s: [ ", preset, parameter);
	for (size_t i = 0; ok && i < n; i++)
		ok = kh_buf_append_str(out, i ? ", " : "") &&
		     kh_json_string(out, kh_slice_str(values[i]));
	return ok && kh_buf_append_str(out, " ] } }\n");
}

static bool put_presets(const struct kh_suggest *s, struct kh_buf *out, const char *tenant,
			uint64_t chosen)
{
	bool ok = true;
	for (size_t i = 0; ok && i < kh_preset_match_count(s->presets); i++) {
		uint64_t bit = UINT64_C(1) << i;
		if (!(chosen & bit))
			continue;
		struct cover cover = cover_of(s, tenant, bit, 0);
		ok = put_count(out, cover.requests, cover.refused, cover.observed, cover.example) &&
		     (cover.unsure == 0 ||
		      kh_buf_printf(out,
				    "      # For %" PRIu64 " of them it depends on values that a "
				    "journal does not record.\n",
				    cover.unsure)) &&
		     put_variables(out, kh_preset_match_config(s->presets, i)) &&
		     put_contested(out, count_contested(s, tenant, bit, chosen)) &&
		     put_use(s, out, tenant, i);
	}
	return ok;
}

/* What the presets deny on purpose is not opened beside them. */
static void set_apart(struct kh_suggest *s, const char *tenant, uint64_t chosen)
{
	for (size_t i = 0; i < s->rule.count; i++) {
		struct kh_path_group *group = &s->rule.list[i];
		if (strcmp(group->kind, tenant) != 0)
			continue;
		group->marks[1] = group->marks[0] & chosen;
		group->apart = group->marks[1] != 0;
	}
}

/* ---- rules ---- */

static const char *first_of(const struct kh_suggest *s, uint64_t mask)
{
	for (size_t i = 0; i < kh_preset_match_count(s->presets); i++)
		if (mask & UINT64_C(1) << i)
			return kh_preset_match_name(s->presets, i);
	return "";
}

/* "github: { push: true }"; NULL: no parameter of a preset allows it. */
static const char *turned_of(const struct kh_suggest *s, uint64_t mask)
{
	for (size_t i = 0; i < KH_PRESET_MATCH_MOST; i++)
		if (mask & UINT64_C(1) << i)
			return kh_preset_match_turned_text(s->presets, i);
	return NULL;
}

static bool put_rule(const struct kh_suggest *s, struct kh_buf *out,
		     const struct kh_suggestion *one)
{
	bool ok = put_count(out, one->requests, one->refused, one->observed, one->example);
	if (ok && one->with_credential > 0)
		ok = kh_buf_printf(out,
				   "      # A credential was injected into %" PRIu64
				   " of them. This rule "
				   "injects none.\n",
				   one->with_credential);
	if (ok && one->marks[2])
		ok = kh_buf_printf(
			out, "      # The preset %s is for this host, and does not allow it.\n",
			first_of(s, one->marks[2]));
	const char *turned = turned_of(s, one->marks[3]);
	if (ok && turned)
		ok = kh_buf_printf(out,
				   "      # A parameter of it opens this, or a part of it: "
				   "- use: { %s }\n",
				   turned);
	return ok && kh_buf_append_str(out, "      - allow: ") &&
	       kh_json_string(out, kh_slice_str(one->text)) && kh_buf_append_char(out, '\n');
}

static bool put_rules(const struct kh_suggest *s, struct kh_buf *out, const char *tenant, size_t *n)
{
	struct kh_suggestions rules;
	bool ok = kh_suggest_rules(&s->rule, tenant, &rules);
	for (size_t i = 0; ok && i < rules.count; i++)
		ok = put_rule(s, out, &rules.list[i]);
	if (ok && rules.unwritten > 0)
		ok = kh_buf_printf(out,
				   "      # %zu kinds of requests have a method or path that "
				   "no rule can name\n",
				   rules.unwritten);
	*n = rules.count;
	kh_suggestions_fini(&rules);
	return ok;
}

static bool put_tenant(struct kh_suggest *s, struct kh_buf *out, const char *tenant, bool *any)
{
	uint64_t chosen = choose_presets(s, tenant);
	size_t before = kh_buf_len(out), n = 0;
	set_apart(s, tenant, chosen);
	bool ok = kh_buf_append_str(out, *any ? "  " : "tenants:\n  ") &&
		  kh_json_string(out, kh_slice_str(tenant)) &&
		  kh_buf_append_str(out, ":\n    rules:\n") &&
		  put_presets(s, out, tenant, chosen) && put_rules(s, out, tenant, &n);
	if (ok && n == 0 && !chosen)
		kh_buf_truncate(out, before);
	else
		*any = true;
	return ok;
}

static bool is_first(const struct kh_path_groups *groups, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (strcmp(groups->list[i].kind, groups->list[index].kind) == 0)
			return false;
	return true;
}

static bool has_kind(const struct kh_path_groups *groups, const char *kind)
{
	for (size_t i = 0; i < groups->count; i++)
		if (strcmp(groups->list[i].kind, kind) == 0)
			return true;
	return false;
}

static bool put_tenants(struct kh_suggest *s, struct kh_buf *out, bool *any)
{
	bool ok = kh_buf_append_str(out, "version: 1\n");
	for (size_t i = 0; ok && i < s->preset.count; i++)
		if (is_first(&s->preset, i))
			ok = put_tenant(s, out, s->preset.list[i].kind, any);
	for (size_t i = 0; ok && i < s->rule.count; i++)
		if (is_first(&s->rule, i) && !has_kind(&s->preset, s->rule.list[i].kind))
			ok = put_tenant(s, out, s->rule.list[i].kind, any);
	return ok;
}

/* What to do with it. `any`: there are rules. */
static bool put_next(const struct kh_suggest *s, struct kh_buf *out, bool any)
{
	static const char rules[] =
		"\n# Next: save this as FILE (keyhole suggest > FILE), take out what is not "
		"needed, and\n"
		"#   keyhole check -c FILE                           shows its mistakes\n"
		"#   keyhole run -c FILE COMMAND                     uses it for one run\n"
		"#   keyhole trust                                   where it is a project's "
		"keyhole.yaml: for all runs\n"
		"#   keyhole policy diff OLD FILE --journal JOURNAL  compares it with rules that "
		"you "
		"have\n";
	static const char none[] = "\n# Next: no rule would help. What the requests were: keyhole "
				   "audit show JOURNAL\n";
	return s->requests == 0 || kh_buf_append_str(out, any ? rules : none);
}

/* ---- what was not opened ---- */

static bool put_closed(struct kh_buf *out, const struct kh_path_group *group, const char *why)
{
	bool ok = kh_buf_printf(out, "#   %" PRIu64 " x %.480s\n", group->requests, group->example);
	for (size_t len; ok && *why; why += len + (why[len] == '\n')) {
		len = strcspn(why, "\n");
		ok = kh_buf_printf(out, "#     %.*s\n", (int)len, why);
	}
	return ok;
}

static bool put_all_closed(const struct kh_suggest *s, struct kh_buf *out)
{
	size_t shown = 0, more = 0;
	bool ok = true;
	for (size_t i = 0; ok && i < s->closed.count + s->rule.count; i++) {
		bool of_preset = i >= s->closed.count;
		const struct kh_path_group *group =
			of_preset ? &s->rule.list[i - s->closed.count] : &s->closed.list[i];
		char why[256];
		if (of_preset && !group->apart)
			continue;
		if (shown == CLOSED_SHOWN) {
			more++;
			continue;
		}
		const char *turned = of_preset ? turned_of(s, group->marks[3]) : NULL;
		(void)snprintf(why, sizeof(why), "the preset %s denies it%s%s%s",
			       first_of(s, group->marks[1]),
			       turned ? ". If it is meant: - use: { " : "", turned ? turned : "",
			       turned ? " }" : "");
		ok = (shown++ > 0 ||
		      kh_buf_append_str(out, "\n# No rule is suggested for these:\n")) &&
		     put_closed(out, group, of_preset ? why : group->kind);
	}
	return ok &&
	       (more == 0 || kh_buf_printf(out, "#   and %zu more kinds of requests\n", more));
}

static bool put_left_out(const struct kh_suggest *s, struct kh_buf *out)
{
	uint64_t left_out = s->preset.left_out + s->rule.left_out + s->closed.left_out;
	return (s->telemetry == 0 ||
		kh_buf_printf(out,
			      "# %" PRIu64 " of them are known telemetry of agents, and have no "
			      "rule.\n",
			      s->telemetry)) &&
	       (s->counted == 0 ||
		kh_buf_printf(out,
			      "# %" PRIu64
			      " more refusals were only counted: nobody knows of which "
			      "requests.\n",
			      s->counted)) &&
	       (s->astray == 0 ||
		kh_buf_printf(out,
			      "# %" PRIu64 " requests are left out: their records do not continue "
			      "the journal's chain.\n",
			      s->astray)) &&
	       (left_out == 0 ||
		kh_buf_printf(out,
			      "# %" PRIu64
			      " requests are left out: there are more than %d kinds of "
			      "them.\n",
			      left_out, KH_LIMIT_PATH_GROUPS));
}

bool kh_suggest_put(struct kh_suggest *s, struct kh_buf *out)
{
	bool any = false;
	return kh_buf_append_str(out, head) &&
	       kh_buf_printf(out, "# %" PRIu64 " request%s read, %" PRIu64 " of them refused",
			     s->requests, s->requests == 1 ? " was" : "s were", s->refused) &&
	       (s->observed == 0 ||
		kh_buf_printf(out, ", %" PRIu64 " only observed (not refused)", s->observed)) &&
	       kh_buf_append_str(out, ".\n") && put_left_out(s, out) && put_tenants(s, out, &any) &&
	       put_all_closed(s, out) && put_next(s, out, any);
}
