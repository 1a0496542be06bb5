/* preset.c - finds policies/NAME.yaml, and inserts its rules into a list of rules */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/config/trusted_file.h>

#include "config_internal.h"

enum { PRESET_BYTES = 1024 * 1024, NAME_BYTES = 64 };

static bool has(const char *folder, const char *name)
{
	kh_auto_free char *path = kh_path_join(folder, name);
	return path && access(path, R_OK) == 0;
}

/* The folder of a source tree in which the program was built, some levels above it. */
static bool in_build_tree(const char *program, char *out, size_t size)
{
	kh_auto_free char *up = kh_slice_dup(kh_slice_str(program));
	for (unsigned level = 0; up && level < 4; level++) {
		char *slash = strrchr(up, '/');
		if (!slash || slash == up)
			return false;
		*slash = '\0';
		if (has(up, "include/keyhole/config/config.h") && has(up, "policies"))
			return snprintf(out, size, "%s/policies", up) < (int)size;
	}
	return false;
}

const char *kh_preset_dir(void)
{
	static char found[PATH_MAX];
	const char *asked = getenv("KEYHOLE_PRESETS");
	if (asked && asked[0])
		return asked;
	char program[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", program, sizeof(program) - 1);
	program[len > 0 ? len : 0] = '\0';
	char *slash = strrchr(program, '/');
	if (slash) {
		kh_auto_free char *installed =
			kh_strf("%.*s/../share/keyhole/policies", (int)(slash - program), program);
		kh_auto_free char *real = installed ? realpath(installed, NULL) : NULL;
		if (real && access(real, R_OK) == 0 &&
		    snprintf(found, sizeof(found), "%s", real) < (int)sizeof(found))
			return found;
		if (in_build_tree(program, found, sizeof(found)))
			return found;
	}
	return KH_DATADIR "/policies";
}

static bool is_name(struct kh_slice name)
{
	for (size_t i = 0; i < name.len; i++) {
		char c = name.ptr[i];
		if ((c < 'a' || c > 'z') && !kh_is_digit(c) && c != '-')
			return false;
	}
	return name.len > 0 && name.len <= NAME_BYTES;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

char **kh_preset_names(const char *preset_dir, size_t *n)
{
	char **names = NULL;
	*n = 0;
	DIR *dir = opendir(preset_dir ? preset_dir : kh_preset_dir());
	/* cppcheck-suppress readdirCalled ; nobody else has this stream */
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		struct kh_slice file = kh_slice_str(entry->d_name);
		struct kh_slice stem = kh_slice_sub(file, 0, file.len > 5 ? file.len - 5 : 0);
		if (!kh_slice_has_suffix(file, KH_SLICE(".yaml")) || !is_name(stem))
			continue;
		char *copy = kh_slice_dup(stem);
		char **slot = copy ? kh_list_add(&names, n, sizeof(*slot)) : NULL;
		if (slot)
			*slot = copy;
		else
			free(copy);
	}
	if (dir)
		(void)closedir(dir);
	if (names)
		qsort(names, *n, sizeof(*names), compare_names);
	return names;
}

static void say_unknown(struct kh_reader *reader, const struct kh_yaml_node *at,
			struct kh_slice name, const char *folder)
{
	struct kh_nearest nearest;
	kh_nearest_init(&nearest, name);
	size_t n;
	char **names = kh_preset_names(folder, &n);
	for (size_t i = 0; i < n; i++)
		kh_nearest_offer(&nearest, names[i]);
	char hint[KH_NEAREST_BYTES];
	kh_reader_error(reader, at, "no preset is called \"%s\"%s; presets are looked for in %s",
			kh_esc(name), kh_nearest_hint(&nearest, hint), kh_esc_str(folder));
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
}

/* The same preset may be used by many tenants: its name stands in the list once. */
static bool file_index(struct kh_config *config, const char *path, uint32_t *out)
{
	for (size_t i = 0; i < config->n_files; i++)
		if (strcmp(config->files[i], path) == 0) {
			*out = (uint32_t)i;
			return true;
		}
	return kh_config_add_file(config, path, out);
}

void kh_config_read_nothing(struct kh_reader *reader, const struct kh_option *option,
			    const struct kh_yaml_node *node, void *base)
{
	(void)reader;
	(void)option;
	(void)node;
	(void)base;
}

static bool is_page(const struct kh_yaml_node *node)
{
	bool good = node->kind == KH_NODE_SCALAR && node->text.len > 8 &&
		    kh_slice_has_prefix(node->text, KH_SLICE("https://"));
	for (size_t i = 0; good && i < node->text.len; i++)
		good = node->text.ptr[i] > 0x20 && node->text.ptr[i] < 0x7f;
	return good;
}

void kh_config_read_sources(struct kh_reader *reader, const struct kh_option *option,
			    const struct kh_yaml_node *node, void *base)
{
	struct kh_preset_draft *draft = base;
	bool list = node->kind == KH_NODE_LIST;
	bool good = !list || node->count > 0;
	for (const struct kh_yaml_node *one = list ? node->first : node; one;
	     one = list ? one->next : NULL) {
		good = good && is_page(one);
		draft->n_sources++;
	}
	if (!good)
		kh_reader_error(reader, node, "%s: expected %s", option->path, option->expects);
}

static void free_preset(struct kh_preset *preset)
{
	kh_parameters_fini(&preset->parameters);
	kh_tree_free(&preset->tree);
	free(preset->name);
	free(preset);
}

void kh_presets_fini(struct kh_reader *reader)
{
	for (size_t i = 0; i < reader->n_presets; i++)
		free_preset(reader->presets[i]);
	free(reader->presets);
	reader->presets = NULL;
	reader->n_presets = 0;
}

/* What reads a preset: its places are those of its file, and its errors are everybody's. */
static struct kh_reader reader_in(const struct kh_reader *outer, const char *name, uint32_t file)
{
	return (struct kh_reader){ .config = outer->config,
				   .diags = outer->diags,
				   .options = outer->options,
				   .preset_dir = outer->preset_dir,
				   .preset = name,
				   .file = file };
}

static bool read_parameters(struct kh_reader *reader, struct kh_preset *preset)
{
	struct kh_preset_draft draft = { 0 };
	size_t errors = reader->diags->errors;
	const struct kh_yaml_node *root = preset->tree.root;
	const struct kh_yaml_node *node =
		root->kind == KH_NODE_MAP ? kh_node_get(root, "parameters") : NULL;
	if (root->kind != KH_NODE_MAP)
		kh_walk(reader, root, KH_IN_PRESET, &draft); /* says so */
	else if (node)
		kh_walk_option(reader, "parameters", KH_IN_PRESET, node, &draft);
	preset->parameters = draft.parameters;
	return reader->diags->errors == errors;
}

struct kh_preset *kh_preset_read(struct kh_reader *reader, const char *name, uint32_t file,
				 struct kh_slice yaml)
{
	struct kh_preset *preset = calloc(1, sizeof(*preset));
	char *copy = preset ? kh_slice_dup(kh_slice_str(name)) : NULL;
	struct kh_preset **slot =
		copy ? kh_list_add(&reader->presets, &reader->n_presets, sizeof(*slot)) : NULL;
	if (!slot) {
		free(copy);
		free(preset);
		return kh_reader_no_memory(reader);
	}
	*slot = preset;
	preset->name = copy;
	preset->file = file;
	struct kh_reader inner = reader_in(reader, copy, file);
	preset->sound =
		kh_tree_parse(&preset->tree, yaml, &inner) && read_parameters(&inner, preset);
	return preset;
}

/* For a handover, which a daemon without an authority does not have. Return: false without memory.
 */
static bool note_text(struct kh_reader *reader, struct kh_slice text)
{
	char *digest = reader->config->presets_sha256;
	kh_cleanup(kh_buf_fini) struct kh_buf both;
	kh_buf_init(&both, PRESET_BYTES + KH_TRUSTED_HEX);
	return reader->authority.line == 0 ||
	       (kh_buf_append_str(&both, digest) && kh_buf_append_slice(&both, text) &&
		kh_trusted_file_digest(kh_buf_view(&both), digest));
}

const struct kh_preset *kh_preset_find(struct kh_reader *reader, struct kh_slice name,
				       const struct kh_yaml_node *at)
{
	for (size_t i = 0; i < reader->n_presets; i++)
		if (kh_slice_eq(kh_slice_str(reader->presets[i]->name), name))
			return reader->presets[i];
	if (!is_name(name)) {
		kh_reader_error(reader, at,
				"preset \"%s\": a name is small letters, digits and '-', and no "
				"path",
				kh_esc(name));
		return NULL;
	}
	const char *folder = reader->preset_dir ? reader->preset_dir : kh_preset_dir();
	char text[NAME_BYTES + 1];
	(void)snprintf(text, sizeof(text), "%.*s", KH_FMT(name));
	kh_auto_free char *path = kh_strf("%s/%s.yaml", folder, text);
	if (!path)
		return kh_reader_no_memory(reader);
	if (access(path, F_OK) != 0) {
		say_unknown(reader, at, name, folder);
		return NULL;
	}
	struct kh_buf yaml;
	struct kh_err err = KH_ERR_INIT;
	const struct kh_preset *preset = NULL;
	uint32_t file;
	kh_buf_init(&yaml, PRESET_BYTES);
	kh_reader_note_file(reader, "a preset", path);
	if (!kh_file_read(path, &yaml, &err))
		kh_reader_error(reader, at, "preset \"%s\": %s", text, err.text);
	else if (!file_index(reader->config, path, &file) || !note_text(reader, kh_buf_view(&yaml)))
		(void)kh_reader_no_memory(reader);
	else
		preset = kh_preset_read(reader, text, file, kh_buf_view(&yaml));
	kh_buf_fini(&yaml);
	return preset;
}

void kh_preset_use(struct kh_reader *reader, const struct kh_preset *preset,
		   const struct kh_yaml_node *at, const struct kh_yaml_node *arguments,
		   struct kh_rules *rules)
{
	const struct kh_yaml_node *values[KH_LIMIT_PRESET_PARAMETERS] = { NULL };
	if (!preset->sound ||
	    !kh_parameters_bind(reader, preset->name, &preset->parameters, at, arguments, values))
		return;
	struct kh_reader inner = reader_in(reader, preset->name, preset->file);
	inner.rules_only = reader->narrowing && rules == reader->narrowing;
	struct kh_yaml_tree copies = { 0 };
	struct kh_preset_draft draft = { 0 };
	const struct kh_yaml_node *root =
		kh_expand(&inner, preset->tree.root, &preset->parameters, values, &copies);
	if (root) {
		kh_walk(&inner, root, KH_IN_PRESET, &draft);
		kh_pending_resolve(&inner, &draft.rules);
		if (!kh_rules_append(rules, &draft.rules))
			(void)kh_reader_no_memory(reader);
	}
	kh_pending_fini(&inner);
	kh_rules_fini(&draft.rules);
	kh_parameters_fini(&draft.parameters);
	free(draft.description);
	kh_tree_free(&copies);
}

void kh_preset_splice(struct kh_reader *reader, struct kh_slice name, const struct kh_yaml_node *at,
		      const struct kh_yaml_node *arguments, struct kh_rules *rules)
{
	const struct kh_preset *preset = kh_preset_find(reader, name, at);
	if (!preset)
		return;
	kh_preset_use(reader, preset, at, arguments, rules);
	struct kh_where where = { .file = reader->file,
				  .line = at ? at->line : 0,
				  .column = at ? at->column : 0 };
	if (!kh_rules_note_use(rules, preset->name, where, arguments))
		(void)kh_reader_no_memory(reader);
}
