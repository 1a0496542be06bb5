/*
 * preset_about.c - what a preset says about itself, for people who choose one
 *
 * All of it is read from the preset's own file, in the way in which `use` reads it. So there is no
 * second list.
 */
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/cleanup.h>

#include "preset_internal.h"

enum { FALLBACK_BYTES = 4096 };

static void free_all(char **list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(list[i]);
	free(list);
}

void kh_preset_about_fini(struct kh_preset_about *about)
{
	free(about->name);
	free(about->path);
	free(about->description);
	for (size_t i = 0; i < about->n_parameters; i++) {
		free(about->parameters[i].name);
		free(about->parameters[i].type);
		free(about->parameters[i].doc);
		free(about->parameters[i].fallback);
	}
	free(about->parameters);
	free_all(about->variables, about->n_variables);
	*about = (struct kh_preset_about){ 0 };
}

static const struct kh_yaml_node *member(const struct kh_yaml_node *map, const char *key)
{
	return map && map->kind == KH_NODE_MAP ? kh_node_get(map, key) : NULL;
}

/* Each once. */
static bool add_variable(struct kh_preset_about *about, struct kh_slice name)
{
	for (size_t i = 0; i < about->n_variables; i++)
		if (kh_slice_eq(kh_slice_str(about->variables[i]), name))
			return true;
	char *copy = kh_slice_dup(name);
	char **slot =
		copy ? kh_list_add(&about->variables, &about->n_variables, sizeof(*slot)) : NULL;
	if (slot)
		*slot = copy;
	else
		free(copy);
	return slot != NULL;
}

static bool add_variables(struct kh_preset_about *about, const struct kh_yaml_node *credential)
{
	const struct kh_yaml_node *env = member(member(credential, "value"), "env");
	const struct kh_yaml_node *aws = member(credential, "aws_sigv4");
	const struct kh_yaml_node *id = member(aws, "access_key_id");
	if (env && env->kind == KH_NODE_SCALAR && !add_variable(about, env->text))
		return false;
	/* The secret key goes with an id, which has a variable too. */
	return !aws || add_variable(about, id && id->kind == KH_NODE_SCALAR
						   ? id->text
						   : KH_SLICE("AWS_ACCESS_KEY_ID"));
}

/* A scalar, or the scalars of a list. */
static char *fallback_of(const struct kh_yaml_node *node)
{
	kh_cleanup(kh_buf_fini) struct kh_buf text;
	bool list = node->kind == KH_NODE_LIST, ok = true;
	kh_buf_init(&text, FALLBACK_BYTES);
	for (const struct kh_yaml_node *one = list ? node->first : node; ok && one;
	     one = list ? one->next : NULL)
		ok = (kh_buf_len(&text) == 0 || kh_buf_append_char(&text, ',')) &&
		     kh_buf_append_slice(&text, one->text);
	return ok ? kh_slice_dup(kh_buf_view(&text)) : NULL;
}

static bool add_parameter(struct kh_preset_about *about, const struct kh_parameter *from)
{
	struct kh_preset_parameter *one =
		kh_list_add(&about->parameters, &about->n_parameters, sizeof(*one));
	if (!one)
		return false;
	one->name = kh_slice_dup(kh_slice_str(from->name));
	one->type = kh_slice_dup(kh_slice_str(kh_parameter_types[from->type]));
	one->doc = kh_slice_dup(kh_slice_str(from->doc ? from->doc : ""));
	one->fallback = from->fallback ? fallback_of(from->fallback) : NULL;
	return one->name && one->type && one->doc && (!from->fallback || one->fallback);
}

static bool take(struct kh_preset_about *about, const struct kh_config *config,
		 const struct kh_preset *preset)
{
	const struct kh_yaml_node *root = preset->tree.root;
	const struct kh_yaml_node *description = member(root, "description");
	const struct kh_yaml_node *credentials = member(root, "credentials");
	about->name = kh_slice_dup(kh_slice_str(preset->name));
	about->path = kh_slice_dup(kh_slice_str(config->files[preset->file]));
	about->description =
		kh_slice_dup(description && description->kind == KH_NODE_SCALAR ? description->text
										: KH_SLICE(""));
	bool ok = about->name && about->path && about->description;
	for (size_t i = 0; ok && i < preset->parameters.count; i++)
		ok = add_parameter(about, &preset->parameters.list[i]);
	for (const struct kh_yaml_node *one =
		     credentials && credentials->kind == KH_NODE_MAP ? credentials->first : NULL;
	     ok && one; one = one->next)
		ok = add_variables(about, one);
	return ok;
}

bool kh_preset_about(const char *name, const char *preset_dir, struct kh_preset_about *out,
		     struct kh_diagnostics *diags)
{
	struct kh_config *config = kh_config_new();
	struct kh_reader reader = {
		.config = config, .diags = diags, .options = &kh_options, .preset_dir = preset_dir
	};
	size_t errors = diags->errors;
	*out = (struct kh_preset_about){ 0 };
	const struct kh_preset *preset =
		config ? kh_preset_find(&reader, kh_slice_str(name), NULL) : NULL;
	bool ok = preset && preset->sound && take(out, config, preset);
	if (!ok && diags->errors == errors)
		(void)kh_reader_no_memory(&reader);
	if (config)
		kh_diagnostics_take_files(diags, config);
	kh_presets_fini(&reader);
	kh_config_free(config);
	if (!ok)
		kh_preset_about_fini(out);
	return ok;
}
