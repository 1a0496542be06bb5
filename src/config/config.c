/* config.c - makes a configuration: with the defaults, from a file, from memory, of presets; and
 * frees it */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/config/trusted_file.h>

#include "config_internal.h"

/* ---- freed: texts and paths of rows by the rows ---- */

static void free_texts(char **list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(list[i]);
	free(list);
}

static void credential_fini(struct kh_credential_config *credential)
{
	kh_walk_free(&kh_options, "credentials.*", credential);
	kh_placement_free(credential->placement);
	free(credential->hosts);
	free_texts(credential->paths, credential->n_paths);
	free_texts(credential->methods, credential->n_methods);
	free(credential->name);
	for (size_t i = 0; i < credential->n_sources; i++)
		kh_source_fini(&credential->sources[i]);
	free(credential->sources);
	free(credential->tenants);
	kh_mint_free(credential->mint);
	free(credential->preset);
}

void kh_admin_config_fini(struct kh_admin_config *admin)
{
	for (size_t i = 0; i < admin->n_acceptors; i++) {
		free(admin->acceptors[i].name);
		free(admin->acceptors[i].unix_path);
	}
	for (size_t i = 0; i < admin->n_grants; i++)
		free(admin->grants[i].tenants);
	free(admin->grants);
	free(admin->unix_path);
	free(admin->sandboxes);
	*admin = (struct kh_admin_config){ 0 };
}

static void expectation_fini(struct kh_expectation *expectation)
{
	for (size_t i = 0; i < expectation->n_fields; i++)
		kh_condition_fini(&expectation->fields[i]);
	free(expectation->fields);
	free(expectation->text);
	free(expectation->model);
	free(expectation->fault);
}

void kh_config_free(struct kh_config *config)
{
	if (!config)
		return;
	kh_names_end(config);
	kh_walk_free(&kh_options, "", config);
	for (size_t i = 0; i < config->n_files; i++)
		free(config->files[i]);
	for (size_t i = 0; i < config->n_listeners; i++) {
		kh_walk_free(&kh_options, "listen[]", &config->listeners[i]);
		free(config->listeners[i].name);
		free(config->listeners[i].placeholder_name);
		kh_rules_fini(&config->listeners[i].narrow);
		kh_limits_free(config->listeners[i].limits);
	}
	for (size_t i = 0; i < config->n_credentials; i++)
		credential_fini(&config->credentials[i]);
	for (size_t i = 0; i < config->n_tenants; i++) {
		free(config->tenants[i].name);
		free(config->tenants[i].allow_addresses);
		kh_geo_rules_free(config->tenants[i].geo);
		kh_limits_free(config->tenants[i].limits);
		kh_rules_fini(&config->tenants[i].rules);
	}
	kh_rules_fini(&config->site);
	kh_limits_free(config->site_limits);
	kh_admin_config_fini(&config->admin);
	for (size_t i = 0; i < config->n_expectations; i++)
		expectation_fini(&config->expectations[i]);
	free(config->expectations);
	free(config->files);
	kh_named_paths_free(config);
	free(config->listeners);
	free(config->pins);
	free(config->allow_addresses);
	free(config->nameservers);
	free(config->country_db.path);
	free(config->asn_db.path);
	kh_geo_rules_free(config->site_geo);
	free(config->proxy.no_proxy);
	free(config->credentials);
	free(config->tenants);
	free(config);
}

/* ---- made ---- */

struct kh_config *kh_config_new(void)
{
	struct kh_config *config = calloc(1, sizeof(*config));
	if (!config)
		return NULL;
	struct kh_diagnostics diags = { 0 };
	struct kh_reader reader = { .config = config, .diags = &diags, .options = &kh_options };
	kh_walk_defaults(&reader, "", config);
	bool ok = diags.errors == 0;
	kh_diagnostics_fini(&diags);
	if (!ok) {
		kh_config_free(config);
		return NULL;
	}
	return config;
}

static const struct kh_yaml_node *child(const struct kh_yaml_node *map, const char *name)
{
	return map && map->kind == KH_NODE_MAP ? kh_node_get(map, name) : NULL;
}

/* Reads and checks `yaml` into the reader's configuration. */
static void read_file(struct kh_reader *reader, struct kh_slice yaml)
{
	struct kh_yaml_tree tree;
	if (kh_tree_parse(&tree, yaml, reader)) {
		const struct kh_yaml_node *authority = child(tree.root, "authority");
		const struct kh_yaml_node *admin = child(tree.root, "admin");
		reader->authority = kh_reader_where(reader, authority ? authority->key : NULL);
		reader->config->admin.where = kh_reader_where(reader, admin ? admin->key : NULL);
		reader->config->says_connections =
			child(child(tree.root, "limits"), "connections") != NULL;
		kh_walk(reader, tree.root, KH_IN_FILE, reader->config);
		kh_pending_resolve(reader, NULL);
		kh_config_check(reader);
	}
	kh_pending_fini(reader);
	kh_presets_fini(reader);
	kh_tree_free(&tree);
}

/* The common end of everything that makes a configuration. */
static struct kh_config *finish(struct kh_config *config, struct kh_diagnostics *diags)
{
	/* Where there are others, no case is tried, and nobody else says these. */
	for (size_t i = 0; diags->errors > 0 && i < config->n_expectations; i++) {
		const struct kh_expectation *one = &config->expectations[i];
		if (one->fault)
			kh_diagnostics_add(diags, false, one->fault_where, "%s", one->fault);
	}
	kh_diagnostics_take_files(diags, config);
	kh_diagnostics_sort(diags);
	if (diags->errors == 0)
		return config;
	kh_config_free(config);
	return NULL;
}

struct kh_config *kh_config_parse(const char *name, struct kh_slice yaml, const char *folder,
				  const char *preset_dir, struct kh_diagnostics *diags)
{
	struct kh_config *config = kh_config_new();
	struct kh_reader reader = { .config = config,
				    .diags = diags,
				    .options = &kh_options,
				    .folder = folder,
				    .preset_dir = preset_dir };
	if (!config || !kh_config_add_file(config, name, &reader.file)) {
		kh_config_free(config);
		return kh_reader_no_memory(&reader);
	}
	kh_names_begin(config);
	read_file(&reader, yaml);
	kh_names_end(config);
	return finish(config, diags);
}

/* The absolute folder of a file, on the heap. */
static char *folder_of(const char *path)
{
	kh_auto_free char *copy = kh_slice_dup(kh_slice_str(path));
	if (!copy)
		return NULL;
	char *slash = strrchr(copy, '/');
	if (slash)
		*(slash == copy ? slash + 1 : slash) = '\0';
	return realpath(slash ? copy : ".", NULL);
}

/* An error of reading begins with the file's name, and so does the line that a diagnostic becomes.
 */
static const char *without_name(const char *text, const char *path)
{
	const char *name = kh_esc_str(path);
	size_t len = strlen(name);
	return strncmp(text, name, len) == 0 && strncmp(text + len, ": ", 2) == 0 ? text + len + 2
										  : text;
}

static struct kh_config *refuse(const char *path, const char *why, struct kh_diagnostics *diags)
{
	struct kh_where nowhere = { 0 };
	kh_diagnostics_add(diags, false, nowhere, "%s", why);
	char **slot = kh_list_add(&diags->files, &diags->n_files, sizeof(*slot));
	if (slot)
		*slot = kh_slice_dup(kh_slice_str(path));
	return NULL;
}

struct kh_config *kh_config_load_as(const char *path, const char *digest, const char *preset_dir,
				    struct kh_diagnostics *diags)
{
	kh_cleanup(kh_buf_fini) struct kh_buf text;
	struct kh_err err = KH_ERR_INIT;
	char found[KH_TRUSTED_HEX + 1];
	kh_buf_init(&text, KH_LIMIT_CONFIG_BYTES);
	kh_auto_free char *folder = folder_of(path);
	if (!folder || !kh_file_read(path, &text, &err))
		return refuse(path,
			      err.code ? without_name(err.text, path) : "its folder can't be read",
			      diags);
	if (digest &&
	    (!kh_trusted_file_digest(kh_buf_view(&text), found) || strcmp(found, digest) != 0))
		return refuse(path, "has changed since it was looked at (run the command again)",
			      diags);
	struct kh_config *config =
		kh_config_parse(path, kh_buf_view(&text), folder, preset_dir, diags);
	/* Who looks at a daemon asks for it, and so does a handover. It takes a millisecond. */
	if (config && (config->admin.n_acceptors > 0 || config->ca_certificate_path) &&
	    !kh_trusted_file_digest(kh_buf_view(&text), config->sha256))
		config->sha256[0] = '\0';
	return config;
}

bool kh_config_put_mark(const struct kh_config *config, struct kh_buf *out)
{
	return config->sha256[0] == '\0' ||
	       kh_buf_printf(out, "%s %s", config->sha256, config->presets_sha256);
}

struct kh_config *kh_config_load(const char *path, const char *preset_dir,
				 struct kh_diagnostics *diags)
{
	return kh_config_load_as(path, NULL, preset_dir, diags);
}

struct kh_config *kh_config_load_admin(const char *path)
{
	kh_cleanup(kh_buf_fini) struct kh_buf text;
	struct kh_diagnostics diags = { 0 };
	kh_auto_free char *folder = folder_of(path);
	struct kh_config *config = kh_config_new();
	struct kh_reader reader = {
		.config = config, .diags = &diags, .options = &kh_options, .folder = folder
	};
	kh_buf_init(&text, KH_LIMIT_CONFIG_BYTES);
	if (config && folder && kh_file_read(path, &text, NULL)) {
		struct kh_yaml_tree tree;
		/* What comes before a mistake of YAML is in the tree all the same. */
		(void)kh_tree_parse(&tree, kh_buf_view(&text), &reader);
		const struct kh_yaml_node *admin = child(tree.root, "admin");
		if (admin && admin->kind == KH_NODE_MAP)
			kh_config_read_admin_places(&reader, admin);
		kh_tree_free(&tree);
	}
	kh_diagnostics_fini(&diags);
	if (config && config->admin.unix_path && config->admin.sandboxes)
		return config;
	kh_config_free(config);
	return NULL;
}

/* A reader for what is added to a configuration that stands already. */
static struct kh_reader reader_of(struct kh_config *config, const char *preset_dir,
				  struct kh_diagnostics *diags)
{
	return (struct kh_reader){
		.config = config, .diags = diags, .options = &kh_options, .preset_dir = preset_dir
	};
}

struct kh_config *kh_config_from_presets(const char *const *presets, size_t n,
					 const char *preset_dir, struct kh_diagnostics *diags)
{
	struct kh_config *config = kh_config_new();
	struct kh_reader reader = reader_of(config, preset_dir, diags);
	struct kh_tenant_config *tenant = NULL;
	if (config && kh_config_add_file(config, "--use", &reader.file))
		tenant = kh_list_add(&config->tenants, &config->n_tenants, sizeof(*tenant));
	if (tenant)
		tenant->name = kh_slice_dup(KH_SLICE("default"));
	if (!tenant || !tenant->name) {
		kh_config_free(config);
		return kh_reader_no_memory(&reader);
	}
	for (size_t i = n; i > 0; i--)
		(void)kh_config_use(config, 0, presets[i - 1], preset_dir, diags);
	return finish(config, diags);
}

bool kh_config_use(struct kh_config *config, size_t tenant, const char *preset,
		   const char *preset_dir, struct kh_diagnostics *diags)
{
	struct kh_reader reader = reader_of(config, preset_dir, diags);
	size_t errors = diags->errors;
	if (tenant >= config->n_tenants) {
		kh_diagnostics_add(diags, false, (struct kh_where){ 0 }, "no such tenant");
		return false;
	}
	struct kh_rules front = { 0 };
	struct kh_yaml_tree tree = { 0 };
	struct kh_use_text use;
	if (!kh_config_add_file(config, "--use", &reader.file))
		(void)kh_reader_no_memory(&reader);
	else if (kh_use_text_read(&reader, preset, &tree, &use))
		kh_preset_splice(&reader, use.name, use.arguments, use.arguments, &front);
	kh_presets_fini(&reader);
	kh_tree_free(&tree);
	kh_config_check_rules(&reader, &front);
	struct kh_rules *rules = &config->tenants[tenant].rules;
	if (diags->errors == errors) {
		if (!kh_rules_append(&front, rules))
			(void)kh_reader_no_memory(&reader);
		*rules = front;
		front = (struct kh_rules){ 0 };
	}
	kh_rules_fini(&front);
	kh_diagnostics_take_files(diags, config);
	kh_diagnostics_sort(diags);
	return diags->errors == errors;
}
