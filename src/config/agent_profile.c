/* agent_profile.c - policies/agents/NAME.yaml: how a profile is read */
#include <keyhole/config/agent_profile.h>

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>

#include "config_internal.h"
#include "options_home.h"

enum { PROFILE_BYTES = 64 * 1024, WORDS_MOST = 64 };

#define IN(type, member) .offset = offsetof(struct type, member)

/* ---- checks ---- */

/* The last part of a command's path. */
static const char *check_command(struct kh_slice text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.ptr[i] <= 0x20 || text.ptr[i] > 0x7e || text.ptr[i] == '/')
			return "must be the name of a program, without a folder";
	return text.len == 0 ? "must be the name of a program" : NULL;
}

/* ---- readers ---- */

static void read_words(struct kh_reader *reader, const struct kh_option *option,
		       const struct kh_yaml_node *node, void *base)
{
	struct kh_words_of *words = (void *)((char *)base + option->offset);
	if (!kh_reader_wants(reader, option, node, KH_NODE_LIST))
		return;
	if (node->count > WORDS_MOST) {
		kh_reader_error(reader, node, "%s: has more than %d items", option->path,
				WORDS_MOST);
		return;
	}
	for (const struct kh_yaml_node *child = node->first; child; child = child->next) {
		if (!kh_reader_scalar(reader, option, child))
			return;
		const char *why = option->check(child->text);
		if (why) {
			kh_reader_error(reader, child, "%s: \"%s\" %s", option->path,
					kh_esc(child->text), why);
			return;
		}
		char **slot = kh_list_add(&words->list, &words->count, sizeof(*slot));
		if (!slot || !(*slot = kh_slice_dup(child->text))) {
			(void)kh_reader_no_memory(reader);
			return;
		}
	}
}

static void read_variables(struct kh_reader *reader, const struct kh_option *option,
			   const struct kh_yaml_node *node, void *base)
{
	struct kh_agent_profile *profile = base;
	if (!kh_reader_wants(reader, option, node, KH_NODE_MAP))
		return;
	for (const struct kh_yaml_node *child = node->first; child; child = child->next) {
		const char *why = kh_value_check_env(child->key->text);
		if (why)
			kh_reader_error(reader, child->key, "%s: \"%s\" %s", option->path,
					kh_esc(child->key->text), why);
		if (why || !kh_reader_scalar(reader, option, child))
			continue;
		struct kh_agent_variable *one =
			kh_list_add(&profile->variables, &profile->n_variables, sizeof(*one));
		if (!one || !(one->name = kh_slice_dup(child->key->text)) ||
		    !(one->value = kh_slice_dup(child->text))) {
			(void)kh_reader_no_memory(reader);
			return;
		}
	}
}

static void *add_preset(struct kh_reader *reader, void *parent, const struct kh_yaml_node *node)
{
	struct kh_agent_profile *profile = parent;
	struct kh_agent_preset *one =
		kh_list_add(&profile->presets, &profile->n_presets, sizeof(*one));
	(void)node;
	return one ? one : kh_reader_no_memory(reader);
}

static const struct kh_option rows[] = {
	{ .path = "description",
	  .type = KH_OPTION_TEXT,
	  .flags = KH_IN_FILE | KH_IS_REQUIRED,
	  .expects = "a text",
	  IN(kh_agent_profile, description),
	  .doc = "the agent, in one line" },
	{ .path = "commands",
	  .type = KH_OPTION_CUSTOM,
	  .flags = KH_IN_FILE | KH_IS_REQUIRED,
	  .expects = "a list of names of programs",
	  .check = check_command,
	  IN(kh_agent_profile, commands),
	  .read = read_words,
	  .doc = "the programs that the profile is for" },
	{ .path = "presets",
	  .type = KH_OPTION_LIST,
	  .flags = KH_IN_FILE,
	  .expects = "a list of presets",
	  .items = "presets[]",
	  .add = add_preset,
	  .doc = "what it may reach, unless -c or --use says that" },
	{ .path = "presets[].use",
	  .type = KH_OPTION_TEXT,
	  .flags = KH_IN_FILE | KH_IS_REQUIRED,
	  .expects = "a preset, as after --use",
	  IN(kh_agent_preset, use),
	  .doc = "the preset" },
	{ .path = "presets[].keys",
	  .type = KH_OPTION_CUSTOM,
	  .flags = KH_IN_FILE,
	  .expects = "a list of variables",
	  .check = kh_value_check_env,
	  IN(kh_agent_preset, keys),
	  .read = read_words,
	  .doc = "one of these variables must be set" },
	{ .path = "pass",
	  .type = KH_OPTION_CUSTOM,
	  .flags = KH_IN_FILE,
	  .expects = "a list of variables",
	  .check = kh_value_check_env,
	  IN(kh_agent_profile, pass),
	  .read = read_words,
	  .doc = "variables of the caller that it gets, if they are set" },
	{ .path = "environment",
	  .type = KH_OPTION_CUSTOM,
	  .flags = KH_IN_FILE,
	  .expects = "a map of variables",
	  .read = read_variables,
	  .doc = "variables; --env replaces them" },
	{ .path = "capture_range",
	  .type = KH_OPTION_TEXT,
	  .flags = KH_IN_FILE,
	  .expects = "a range of addresses",
	  IN(kh_agent_profile, capture_range),
	  .doc = "the addresses that names have; --capture-range replaces it" },
	KH_HOME_TEMPLATE_ROWS(KH_IN_FILE, 0, kh_agent_profile, files,
			      "what the agent finds in a home without it"),
	{ .path = "guide",
	  .type = KH_OPTION_TEXT,
	  .flags = KH_IN_FILE,
	  .expects = "a path below the home",
	  .check = kh_home_template_check_path,
	  IN(kh_agent_profile, guide),
	  .doc = "a file that the agent reads at its start: gets a text on the sandbox" },
};
static const struct kh_options options = { rows, sizeof(rows) / sizeof(rows[0]) };

/* ---- the whole ---- */

static void free_words(struct kh_words_of *words)
{
	for (size_t i = 0; i < words->count; i++)
		free(words->list[i]);
	free(words->list);
}

void kh_agent_profile_free(struct kh_agent_profile *profile)
{
	if (!profile)
		return;
	free_words(&profile->commands);
	free_words(&profile->pass);
	for (size_t i = 0; i < profile->n_presets; i++) {
		free(profile->presets[i].use);
		free_words(&profile->presets[i].keys);
	}
	for (size_t i = 0; i < profile->n_variables; i++) {
		free(profile->variables[i].name);
		free(profile->variables[i].value);
	}
	kh_home_templates_fini(&profile->files);
	free(profile->presets);
	free(profile->variables);
	free(profile->capture_range);
	free(profile->guide);
	free(profile->description);
	free(profile->path);
	free(profile->name);
	free(profile);
}

struct kh_agent_profile *kh_agent_profile_parse(const char *name, struct kh_slice yaml,
						struct kh_diagnostics *diags)
{
	struct kh_config *config = kh_config_new();
	struct kh_agent_profile *profile = calloc(1, sizeof(*profile));
	struct kh_reader reader = { .config = config, .diags = diags, .options = &options };
	struct kh_yaml_tree tree = { 0 };
	size_t errors = diags->errors;
	bool ok = config && profile && (profile->name = strdup(name)) &&
		  kh_config_add_file(config, name, &reader.file);
	if (!ok)
		(void)kh_reader_no_memory(&reader);
	else if (kh_tree_parse(&tree, yaml, &reader))
		kh_walk(&reader, tree.root, KH_IN_FILE, profile);
	kh_tree_free(&tree);
	kh_diagnostics_sort(diags);
	if (config)
		kh_diagnostics_take_files(diags, config);
	kh_config_free(config);
	if (ok && diags->errors == errors)
		return profile;
	kh_agent_profile_free(profile);
	return NULL;
}

static char *folder(void)
{
	return kh_strf("%s/agents", kh_preset_dir());
}

char **kh_agent_profile_names(size_t *n)
{
	kh_auto_free char *in = folder();
	*n = 0;
	return in ? kh_preset_names(in, n) : NULL;
}

struct kh_agent_profile *kh_agent_profile_load(const char *name, struct kh_diagnostics *diags)
{
	static const struct kh_where nowhere = { 0 };
	struct kh_buf yaml kh_cleanup(kh_buf_fini);
	struct kh_err err = KH_ERR_INIT;
	kh_auto_free char *in = folder();
	kh_auto_free char *path = in ? kh_strf("%s/%s.yaml", in, name) : NULL;
	kh_buf_init(&yaml, PROFILE_BYTES);
	if (!path || !kh_file_read(path, &yaml, &err)) {
		kh_diagnostics_add(diags, false, nowhere, "%s", path ? err.text : "no memory");
		return NULL;
	}
	struct kh_agent_profile *profile = kh_agent_profile_parse(path, kh_buf_view(&yaml), diags);
	if (!profile)
		return NULL;
	profile->path = profile->name;
	profile->name = strdup(name);
	if (profile->name)
		return profile;
	kh_agent_profile_free(profile);
	return NULL;
}
