/* preset.c - policies/NAME.yaml: where they lie, and how one is spliced into a list of rules */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include <keyhole/cleanup.h>
#include <keyhole/escape.h>
#include <keyhole/file.h>

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
		if (has(up, "include/keyhole/config.h") && has(up, "policies"))
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
		int n = snprintf(found, sizeof(found), "%.*s/../share/keyhole/policies",
				 (int)(slash - program), program);
		if (n > 0 && n < (int)sizeof(found) && access(found, R_OK) == 0)
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

static void say_unknown(struct kh_reader *reader, const struct kh_node *at, struct kh_slice name,
			const char *folder)
{
	struct kh_nearest nearest;
	kh_nearest_init(&nearest, name);
	char best[NAME_BYTES + 1] = "";
	DIR *dir = opendir(folder);
	/* cppcheck-suppress readdirCalled ; nobody else has this stream */
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		struct kh_slice file = kh_slice_str(entry->d_name);
		struct kh_slice stem = kh_slice_sub(file, 0, file.len > 5 ? file.len - 5 : 0);
		if (!kh_slice_has_suffix(file, KH_SLICE(".yaml")) || !is_name(stem))
			continue;
		entry->d_name[stem.len] = '\0';
		nearest.best = NULL;
		kh_nearest_offer(&nearest, entry->d_name);
		if (nearest.best)
			(void)snprintf(best, sizeof(best), "%.*s", KH_FMT(stem));
	}
	if (dir)
		(void)closedir(dir);
	nearest.best = best[0] ? best : NULL;
	char hint[KH_NEAREST_BYTES];
	kh_reader_error(reader, at, "no preset is called \"%s\"%s; presets are looked for in %s",
			kh_esc(name), kh_nearest_hint(&nearest, hint), kh_esc_str(folder));
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

static void read_preset(struct kh_reader *reader, struct kh_slice yaml, struct kh_rules *rules)
{
	struct kh_tree tree;
	struct kh_preset_draft draft = { 0 };
	if (kh_tree_parse(&tree, yaml, reader)) {
		kh_walk(reader, tree.root, KH_IN_PRESET, &draft);
		kh_pending_resolve(reader, &draft.rules);
		if (!kh_rules_append(rules, &draft.rules))
			(void)kh_reader_no_memory(reader);
	}
	kh_pending_fini(reader);
	kh_rules_fini(&draft.rules);
	free(draft.description);
	kh_tree_free(&tree);
}

void kh_preset_splice(struct kh_reader *reader, struct kh_slice name, const struct kh_node *at,
		      struct kh_rules *rules)
{
	if (!is_name(name)) {
		kh_reader_error(reader, at,
				"preset \"%s\": a name is small letters, digits and '-', and no "
				"path",
				kh_esc(name));
		return;
	}
	const char *folder = reader->preset_dir ? reader->preset_dir : kh_preset_dir();
	char text[NAME_BYTES + 1];
	(void)snprintf(text, sizeof(text), "%.*s", KH_FMT(name));
	kh_auto_free char *path = kh_strf("%s/%s.yaml", folder, text);
	struct kh_reader inner = { .config = reader->config,
				   .diags = reader->diags,
				   .preset_dir = reader->preset_dir,
				   .preset = text,
				   .rules_only = reader->narrowing && rules == reader->narrowing };
	if (!path) {
		(void)kh_reader_no_memory(reader);
		return;
	}
	if (access(path, F_OK) != 0) {
		say_unknown(reader, at, name, folder);
		return;
	}
	struct kh_buf yaml;
	struct kh_err err = KH_ERR_INIT;
	kh_buf_init(&yaml, PRESET_BYTES);
	if (!kh_file_read(path, &yaml, &err))
		kh_reader_error(reader, at, "preset \"%s\": %s", text, err.text);
	else if (!file_index(reader->config, path, &inner.file))
		(void)kh_reader_no_memory(reader);
	else
		read_preset(&inner, kh_buf_view(&yaml), rules);
	kh_buf_fini(&yaml);
}
