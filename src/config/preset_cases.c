/*
 * preset_cases.c - checks a preset against its own test cases
 *
 * It makes a configuration in which tenants use the preset: "default" with every default, and one
 * tenant for each case that names parameters.
 */
#include <stdio.h>
#include <stdlib.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>

#include "config_internal.h"

static bool has_defaults(const struct kh_parameters *parameters)
{
	for (size_t i = 0; i < parameters->count; i++)
		if (!parameters->list[i].fallback)
			return false;
	return true;
}

static void read_cases(struct kh_reader *reader, struct kh_preset *preset)
{
	struct kh_config *config = reader->config;
	const struct kh_yaml_node *root = preset->tree.root;
	const struct kh_yaml_node *expect = kh_node_get(root, "expect");
	reader->file = preset->file;
	reader->preset = preset->name;
	reader->cases = preset;
	if (!kh_preset_case_tenant_add(reader))
		return;
	if (has_defaults(&preset->parameters))
		kh_preset_use(reader, preset, root, NULL, &config->tenants[0].rules);
	if (expect)
		kh_walk_option(reader, "expect", KH_IN_PRESET, expect, config);
	for (size_t i = 0; i < config->n_tenants; i++)
		kh_config_check_rules(reader, &config->tenants[i].rules);
	if (reader->diags->errors > 0)
		return;
	if (!kh_node_get(root, "source"))
		kh_reader_warn(reader, root, "preset \"%s\" names no `source` of its hosts",
			       preset->name);
	if (config->n_expectations == 0)
		kh_reader_warn(reader, root, "preset \"%s\" has no cases (`expect`)", preset->name);
}

static struct kh_config *finish(struct kh_reader *reader, struct kh_config *config)
{
	kh_presets_fini(reader);
	kh_diagnostics_take_files(reader->diags, config);
	kh_diagnostics_sort(reader->diags);
	if (reader->diags->errors == 0)
		return config;
	kh_config_free(config);
	return NULL;
}

struct kh_config *kh_preset_cases(const char *preset, const char *preset_dir,
				  struct kh_diagnostics *diags)
{
	struct kh_config *config = kh_config_new();
	struct kh_reader reader = {
		.config = config, .diags = diags, .options = &kh_options, .preset_dir = preset_dir
	};
	if (!config)
		return kh_reader_no_memory(&reader);
	const struct kh_preset *found = kh_preset_find(&reader, kh_slice_str(preset), NULL);
	for (size_t i = 0; found && i < reader.n_presets; i++)
		if (reader.presets[i]->sound)
			read_cases(&reader, reader.presets[i]);
	return finish(&reader, config);
}

struct kh_config *kh_preset_cases_parse(const char *name, struct kh_slice yaml,
					struct kh_diagnostics *diags)
{
	struct kh_config *config = kh_config_new();
	struct kh_reader reader = { .config = config, .diags = diags, .options = &kh_options };
	uint32_t file;
	if (!config || !kh_config_add_file(config, name, &file)) {
		kh_config_free(config);
		return kh_reader_no_memory(&reader);
	}
	struct kh_preset *preset = kh_preset_read(&reader, name, file, yaml);
	if (preset && preset->sound)
		read_cases(&reader, preset);
	return finish(&reader, config);
}
