/*
 * remedy.c - what would allow a request that the rules refuse
 *
 * Which preset it is, is found by asking each of them, not by a list of hosts: a preset of one's
 * own (KEYHOLE_PRESETS) is found as well. Where the rules use a preset and narrow it, the words
 * keep what narrows it: they would open more than was meant otherwise, in front of the narrowed
 * one.
 */
#include <keyhole/exchange/remedy.h>

#include <inttypes.h>
#include <stdlib.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>

enum { VARIABLES_BYTES = 4096, RULE_BYTES = 1024 };

/* A preset as it is, or with a parameter. */
struct candidate {
	struct kh_remedy remedy;
	struct kh_config *config;
	struct kh_policy *policy;
	bool given;
};

struct kh_remedies {
	const char *preset_dir;
	const struct kh_rules *rules; /* which the words are to be added to; NULL: none */
	struct candidate *list;
	size_t n;
	bool has_plain, has_turned; /* what was read */
};

struct kh_remedies *kh_remedies_new(const char *preset_dir, const struct kh_rules *rules)
{
	struct kh_remedies *all = calloc(1, sizeof(*all));
	if (all)
		*all = (struct kh_remedies){ .preset_dir = preset_dir, .rules = rules };
	return all;
}

static void candidate_fini(struct candidate *one)
{
	kh_policy_unref(one->policy);
	kh_config_free(one->config);
	free(one->remedy.use);
	free(one->remedy.preset);
	free(one->remedy.parameter);
	free(one->remedy.variables);
	free(one->remedy.narrows);
}

void kh_remedies_free(struct kh_remedies *all)
{
	for (size_t i = 0; all && i < all->n; i++)
		candidate_fini(&all->list[i]);
	if (all)
		free(all->list);
	free(all);
}

/* ---- candidates ---- */

static bool has_name(struct kh_slice list, struct kh_slice name)
{
	for (size_t at = 0; at < list.len;) {
		size_t end = kh_slice_find(list, ',', at);
		if (kh_slice_eq(kh_slice_trim(kh_slice_sub(list, at, end)), name))
			return true;
		at = end + 1;
	}
	return false;
}

/* Of the credentials that are left in this use of it. */
static char *variables_of(const struct kh_config *config)
{
	kh_cleanup(kh_buf_fini) struct kh_buf text;
	const struct kh_source *source;
	bool ok = true;
	kh_buf_init(&text, VARIABLES_BYTES);
	for (size_t i = 0; ok && i < config->n_credentials; i++)
		for (size_t j = 0;
		     ok && (source = kh_source_of_credential(&config->credentials[i], j)); j++)
			if (source->kind == KH_SOURCE_ENV &&
			    !has_name(kh_buf_view(&text), kh_slice_str(source->name)))
				ok = kh_buf_printf(&text, "%s%s", kh_buf_len(&text) ? ", " : "",
						   source->name);
	return ok ? kh_slice_dup(kh_buf_view(&text)) : NULL;
}

/* Has "KEY=VALUE,…" that key? */
static bool has_key(const char *arguments, const char *key)
{
	size_t len = strlen(key);
	for (const char *at = arguments; *at; at += strcspn(at, ","), at += *at == ',')
		if (strncmp(at, key, len) == 0 && at[len] == '=')
			return true;
	return false;
}

/* Repositories, projects, hosts: what it opens may be less. */
static char *narrows_of(const char *preset, const char *preset_dir, const char *arguments)
{
	kh_cleanup(kh_buf_fini) struct kh_buf text;
	struct kh_diagnostics diags = { 0 };
	struct kh_preset_about about;
	kh_buf_init(&text, VARIABLES_BYTES);
	bool ok = kh_preset_about(preset, preset_dir, &about, &diags);
	for (size_t i = 0; ok && i < about.n_parameters; i++)
		if (strcmp(about.parameters[i].type, "boolean") != 0 &&
		    strcmp(about.parameters[i].type, "word") != 0 &&
		    !has_key(arguments, about.parameters[i].name))
			ok = kh_buf_printf(&text, "%s%s", kh_buf_len(&text) ? ", " : "",
					   about.parameters[i].name);
	kh_preset_about_fini(&about);
	kh_diagnostics_fini(&diags);
	return ok ? kh_slice_dup(kh_buf_view(&text)) : NULL;
}

/* "NAME:ARGUMENTS,PARAMETER": what the arguments say of the same parameter is left out. */
static char *use_with(const char *preset, const char *arguments, const char *parameter)
{
	kh_cleanup(kh_buf_fini) struct kh_buf use;
	size_t key = strcspn(parameter, "=") + 1;
	kh_buf_init(&use, VARIABLES_BYTES);
	bool ok = kh_buf_printf(&use, "%s:", preset);
	for (const char *at = arguments; ok && *at;) {
		size_t len = strcspn(at, ",");
		if (strncmp(at, parameter, key) != 0)
			ok = kh_buf_printf(&use, "%.*s,", (int)len, at);
		at += len + (at[len] == ',');
	}
	return ok && kh_buf_append_str(&use, parameter) ? kh_slice_dup(kh_buf_view(&use)) : NULL;
}

/* With a parameter on top of those that a use has. One that can't be used so is none. */
static void add(struct kh_remedies *all, const char *preset, const char *arguments,
		const char *parameter)
{
	struct kh_diagnostics diags = { 0 };
	struct candidate one = { 0 };
	one.remedy.preset = kh_slice_dup(kh_slice_str(preset));
	one.remedy.parameter = parameter ? kh_slice_dup(kh_slice_str(parameter)) : NULL;
	one.remedy.use = parameter ? use_with(preset, arguments, parameter)
				   : kh_slice_dup(kh_slice_str(preset));
	const char *use = one.remedy.use;
	if (use)
		one.config = kh_config_from_presets(&use, 1, all->preset_dir, &diags);
	kh_diagnostics_fini(&diags);
	if (one.config) {
		one.policy = kh_policy_compile(one.config, NULL);
		one.remedy.variables = variables_of(one.config);
		one.remedy.narrows = narrows_of(preset, all->preset_dir, arguments);
	}
	struct candidate *more = one.policy && one.remedy.variables && one.remedy.narrows &&
						 one.remedy.preset &&
						 (!parameter || one.remedy.parameter)
					 ? reallocarray(all->list, all->n + 1, sizeof(*more))
					 : NULL;
	if (!more) {
		candidate_fini(&one);
		return;
	}
	all->list = more;
	more[all->n++] = one;
}

/* Do the rules use no more than a part of it? */
static bool is_narrowed(const struct kh_remedies *all, const char *preset)
{
	for (size_t i = 0; all->rules && i < all->rules->n_uses; i++)
		if (all->rules->uses[i].narrowed && strcmp(all->rules->uses[i].preset, preset) == 0)
			return true;
	return false;
}

/* For each use of the preset that there is. Of a preset that is narrowed only narrowed ones. */
static void add_for_uses(struct kh_remedies *all, const char *preset, const char *parameter)
{
	bool narrowed = is_narrowed(all, preset);
	size_t n = 0;
	for (size_t i = 0; all->rules && i < all->rules->n_uses; i++) {
		const struct kh_preset_use *use = &all->rules->uses[i];
		if (use->narrowed != narrowed || strcmp(use->preset, preset) != 0)
			continue;
		n++;
		if (use->arguments)
			add(all, preset, use->arguments, parameter);
	}
	if (n == 0)
		add(all, preset, "", parameter);
}

static void add_turned(struct kh_remedies *all, const char *preset)
{
	struct kh_diagnostics diags = { 0 };
	struct kh_preset_about about;
	if (kh_preset_about(preset, all->preset_dir, &about, &diags))
		for (size_t i = 0; i < about.n_parameters; i++) {
			const struct kh_preset_parameter *p = &about.parameters[i];
			bool turns = strcmp(p->type, "boolean") == 0 && p->fallback;
			kh_auto_free char *parameter =
				turns ? kh_strf("%s=%s", p->name,
						strcmp(p->fallback, "true") == 0 ? "false" : "true")
				      : NULL;
			if (parameter)
				add_for_uses(all, preset, parameter);
		}
	kh_preset_about_fini(&about);
	kh_diagnostics_fini(&diags);
}

static void read_presets(struct kh_remedies *all, void (*take)(struct kh_remedies *, const char *))
{
	size_t n = 0;
	char **names = kh_preset_names(all->preset_dir, &n);
	for (size_t i = 0; i < n; i++) {
		take(all, names[i]);
		free(names[i]);
	}
	free(names);
}

static void add_plain(struct kh_remedies *all, const char *preset)
{
	if (!is_narrowed(all, preset))
		add(all, preset, "", NULL);
}

/* ---- the question ---- */

enum fit { FITS_NOT = 0, FITS_PERHAPS, FITS };

struct look {
	bool over; /* a rule has decided */
	enum fit fit;
};

static void look_at(void *arg, const struct kh_looked_at *at)
{
	struct look *look = arg;
	bool beside = at->why == KH_OTHER_QUERY || at->why == KH_OTHER_HEADERS ||
		      at->why == KH_OTHER_CONTENT_TYPE || at->why == KH_BODY_TOO_LARGE ||
		      at->why == KH_OTHER_MODEL || at->why == KH_MODEL_NOT_READ;
	if (look->over || at->reading != KH_READ_PLAIN)
		return;
	if (beside && at->rule->allow)
		look->fit = FITS_PERHAPS;
	look->over = at->why == KH_MATCHES;
}

static enum fit fits(const struct candidate *one, const struct kh_dry_run *q)
{
	struct kh_outcome outcome;
	struct kh_decision decision;
	struct look look = { .over = false };
	kh_dry_run_answer(q, one->config, one->policy, 0, NULL, &outcome);
	if (outcome.allow)
		return FITS;
	if (!q->tunnel)
		kh_policy_explain(one->policy, 0, NULL, &q->view, look_at, &look, &decision);
	return look.fit;
}

static bool is_better(const struct candidate *one, enum fit fit, const struct candidate *than,
		      enum fit their_fit)
{
	bool keyed = one->remedy.variables[0] != '\0',
	     their_keyed = than->remedy.variables[0] != '\0';
	if (fit != their_fit)
		return fit > their_fit;
	if (!one->remedy.parameter != !than->remedy.parameter)
		return !one->remedy.parameter;
	if (one->given != than->given)
		return one->given;
	if (keyed != their_keyed)
		return their_keyed;
	return one->config->tenants[0].rules.count < than->config->tenants[0].rules.count;
}

static struct candidate *best_from(struct kh_remedies *all, size_t from, const struct kh_dry_run *q)
{
	struct candidate *best = NULL;
	enum fit best_fit = FITS_NOT;
	for (size_t i = from; i < all->n; i++) {
		enum fit fit = fits(&all->list[i], q);
		if (fit == FITS_NOT || (best && !is_better(&all->list[i], fit, best, best_fit)))
			continue;
		best = &all->list[i];
		best_fit = fit;
	}
	return best;
}

const struct kh_remedy *kh_remedies_find(struct kh_remedies *all, const struct kh_dry_run *question)
{
	if (!all->has_plain)
		read_presets(all, add_plain);
	all->has_plain = true;
	struct candidate *best = best_from(all, 0, question);
	if (!best && !all->has_turned) {
		size_t before = all->n;
		read_presets(all, add_turned);
		all->has_turned = true;
		best = best_from(all, before, question);
	}
	if (!best)
		return NULL;
	best->given = true;
	return &best->remedy;
}

/* ---- a rule ---- */

/* Nothing that a shell, YAML or the grammar of rules reads as more than itself between quotes; a
 * star is the grammar's, and stands in a path alone. */
static bool is_plain(const char *text, bool stars)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "-._~:@+,=/[]%";
	for (; *text; text++)
		if (!strchr(plain, *text) && !(stars && *text == '*'))
			return false;
	return true;
}

bool kh_remedy_rule(struct kh_buf *out, const char *methods, const char *scheme, const char *host,
		    uint16_t port, const char *path)
{
	kh_cleanup(kh_buf_fini) struct kh_buf text;
	struct kh_rule rule;
	size_t at;
	bool tcp = strcmp(scheme, "tcp") == 0, six = strchr(host, ':') && host[0] != '[';
	bool usual = port == 0 || port == (strcmp(scheme, "https") == 0	 ? 443
					   : strcmp(scheme, "http") == 0 ? 80
									 : 0);
	kh_buf_init(&text, RULE_BYTES);
	if (!is_plain(methods, false) || !is_plain(host, false) || (path && !is_plain(path, true)))
		return false;
	bool ok =
		(tcp || !methods[0] || kh_buf_printf(&text, "%s ", methods)) &&
		kh_buf_printf(&text, "%s://%s%s%s", scheme, six ? "[" : "", host, six ? "]" : "") &&
		(usual || kh_buf_printf(&text, ":%u", port)) &&
		(tcp || !path || kh_buf_append_str(&text, path));
	if (!ok || !kh_allow_text_parse(&rule, kh_buf_view(&text), &at, NULL))
		return false;
	kh_rule_fini(&rule);
	return kh_buf_append_slice(out, kh_buf_view(&text));
}
