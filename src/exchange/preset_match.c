/* preset_match.c - which presets would allow a request, each used as it is */
#include "preset_match_internal.h"

#include <stdlib.h>
#include <string.h>

/* Return: false only when the preset is sound and can't be compiled. */
static bool add(struct kh_preset_match *match, const char *name, const char *preset_dir,
		struct kh_err *err)
{
	struct kh_diagnostics diags = { 0 };
	struct kh_config *config = kh_config_from_presets(&name, 1, preset_dir, &diags);
	kh_diagnostics_fini(&diags);
	if (!config)
		return true;
	struct kh_policy *policy = kh_policy_compile(config, err);
	char *copy = policy ? kh_slice_dup(kh_slice_str(name)) : NULL;
	if (!copy) {
		kh_policy_unref(policy);
		kh_config_free(config);
		return policy ? kh_err_set(err, KH_ERR_NO_MEMORY, "out of memory") : false;
	}
	struct kh_preset_one *one = &match->list[match->count++];
	*one = (struct kh_preset_one){ .name = copy, .config = config, .policy = policy };
	kh_preset_narrow_learn(match, one);
	return true;
}

struct kh_preset_match *kh_preset_match_new(const char *preset_dir, struct kh_err *err)
{
	struct kh_preset_match *match = calloc(1, sizeof(*match));
	size_t n = 0;
	bool ok = match || kh_err_set(err, KH_ERR_NO_MEMORY, "out of memory");
	if (ok && preset_dir)
		ok = (match->dir = kh_slice_dup(kh_slice_str(preset_dir))) ||
		     kh_err_set(err, KH_ERR_NO_MEMORY, "out of memory");
	char **names = ok ? kh_preset_names(preset_dir, &n) : NULL;
	for (size_t i = 0; i < n; i++) {
		if (ok && match->count == KH_PRESET_MATCH_MOST)
			match->left_out++;
		else
			ok = ok && add(match, names[i], preset_dir, err);
		free(names[i]);
	}
	free(names);
	if (ok)
		return match;
	kh_preset_match_free(match);
	return NULL;
}

void kh_preset_match_free(struct kh_preset_match *match)
{
	for (size_t i = 0; match && i < match->count; i++) {
		free(match->list[i].name);
		kh_policy_unref(match->list[i].policy);
		kh_config_free(match->list[i].config);
		free(match->list[i].parameter);
		free(match->list[i].fallback);
	}
	if (match) {
		kh_preset_narrow_fini(match);
		free(match->dir);
	}
	free(match);
}

size_t kh_preset_match_count(const struct kh_preset_match *match)
{
	return match->count;
}

size_t kh_preset_match_left_out(const struct kh_preset_match *match)
{
	return match->left_out;
}

const char *kh_preset_match_name(const struct kh_preset_match *match, size_t nth)
{
	return match->list[nth].name;
}

const struct kh_config *kh_preset_match_config(const struct kh_preset_match *match, size_t nth)
{
	return match->list[nth].config;
}

void kh_preset_match_ask(const struct kh_preset_match *match,
			 const struct kh_recorded_question *question, struct kh_preset_matches *out)
{
	const struct kh_dry_run *ask = &question->ask;
	*out = (struct kh_preset_matches){ 0 };
	for (size_t i = 0; i < match->count; i++) {
		const struct kh_preset_one *one = &match->list[i];
		uint64_t bit = UINT64_C(1) << i;
		struct kh_recorded_answer answer;
		/* Most presets do not know the host. */
		if (ask->tunnel || !kh_policy_knows_host(one->policy, 0, NULL, ask->scheme,
							 &ask->authority.host, ask->authority.port))
			continue;
		kh_recorded_decide(question, one->config, one->policy, 0, NULL, &answer);
		if (answer.fate == KH_RECORDED_ALLOWED)
			out->allow |= bit;
		else if (answer.fate == KH_RECORDED_UNDECIDED)
			out->may |= bit;
		else if (answer.outcome.reason == KH_ERR_DENIED_BY_RULE)
			out->deny |= bit;
		else
			out->refuse |= bit;
		kh_recorded_answer_fini(&answer);
	}
}
