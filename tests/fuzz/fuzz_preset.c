/*
 * fuzz_preset.c - a preset: its parameters, what a use makes of them, and the cases of its own
 *
 * Whatever comes in is refused with a message, or gives rules of which each reads as what it was
 * made of, files below the home alone, and a configuration that makes a policy.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/policy/policy.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_BYTES = 64 * 1024 };

static void require(bool condition)
{
	if (!condition)
		abort();
}

static void look_at(const struct kh_rule *rule)
{
	struct kh_rule again;
	require(rule->preset && strcmp(rule->preset, "fuzz") == 0);
	require(rule->where.line > 0);
	require(!strchr(rule->text, '{') && !strchr(rule->text, '}'));
	require(kh_rule_parse(&again, kh_slice_str(rule->text), NULL));
	require(again.scheme == rule->scheme && again.port == rule->port &&
		again.host.match == rule->host.match && again.n_methods == rule->n_methods);
	kh_rule_fini(&again);
}

static void look_at_file(const struct kh_home_template *file)
{
	require(file->path && file->content && file->needs);
	require(file->path[0] && file->path[0] != '/' && strncmp(file->path, "../", 3) != 0);
	require(strcmp(file->path, "..") != 0 && !strstr(file->path, "/../"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > INPUT_BYTES)
		return 0;
	struct kh_diagnostics diags = { 0 };
	struct kh_config *config = kh_preset_cases_parse("fuzz", kh_slice_of(data, size), &diags);
	require((config == NULL) == (diags.errors > 0));
	for (size_t i = 0; i < diags.count; i++)
		require(diags.list[i].text != NULL);
	for (size_t t = 0; config && t < config->n_tenants; t++) {
		const struct kh_rules *rules = &config->tenants[t].rules;
		for (size_t i = 0; i < rules->count; i++)
			look_at(&rules->list[i]);
		for (size_t i = 0; i < rules->files.count; i++)
			look_at_file(&rules->files.list[i]);
	}
	for (size_t i = 0; config && i < config->n_expectations; i++)
		require(config->expectations[i].tenant < config->n_tenants);
	if (config) {
		struct kh_policy *policy = kh_policy_compile(config, NULL);
		require(policy != NULL);
		kh_policy_unref(policy);
	}
	kh_config_free(config);
	kh_diagnostics_fini(&diags);
	return 0;
}
