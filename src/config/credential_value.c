/* credential_value.c - where the value of a credential comes from: `value`
 *
 * A value has one source, or one per tenant. The rows of the table fill the source that was begun
 * last; `tenants` begins one source after the other, which the same rows fill.
 *
 * No message of this file shows a value of the section: people paste keys where names belong.
 */
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>

#include "config_internal.h"

#define EXPECTED "{ env: NAME }, { file: PATH }, { exec: [ COMMAND, … ] } or { systemd: NAME }"

enum {
	EXEC_TIMEOUT_MS = 30 * 1000,
	MEMBER_BYTES = 256,
};

void kh_config_read_literal(struct kh_reader *reader, const struct kh_option *option,
			    const struct kh_yaml_node *node, void *base)
{
	(void)base;
	if (node->kind == KH_NODE_SCALAR && !kh_node_is_empty(node))
		kh_reader_error(
			reader, node,
			"%s: a secret is never written in this file; put it into a variable "
			"or a file and write { env: NAME } or { file: PATH }",
			option->path);
	else
		kh_reader_error(reader, node, "%s: expected " EXPECTED ", got %s", option->path,
				kh_node_what(node));
}

static struct kh_source *begin_source(struct kh_reader *reader,
				      struct kh_credential_config *credential)
{
	struct kh_source *source =
		kh_list_add(&credential->sources, &credential->n_sources, sizeof(*source));
	if (!source)
		return kh_reader_no_memory(reader);
	source->whose = UINT16_MAX;
	return source;
}

/* The one that is being read. */
static struct kh_source *current(struct kh_reader *reader, struct kh_credential_config *credential)
{
	return credential->n_sources > 0 ? &credential->sources[credential->n_sources - 1]
					 : begin_source(reader, credential);
}

static void set_source(struct kh_reader *reader, const struct kh_option *option,
		       const struct kh_yaml_node *node, struct kh_credential_config *credential,
		       enum kh_source_kind kind, char *name)
{
	struct kh_source *source = current(reader, credential);
	if (!source || !name) {
		free(name);
		(void)kh_reader_no_memory(reader);
	} else if (source->kind != KH_SOURCE_NONE) {
		kh_reader_error(reader, node,
				"%s: a value has one source, and this one has %s already",
				option->path, kh_source_kind_name(source->kind));
		free(name);
	} else {
		source->kind = kind;
		source->name = name;
	}
}

void kh_config_read_source_env(struct kh_reader *reader, const struct kh_option *option,
			       const struct kh_yaml_node *node, void *base)
{
	if (!kh_reader_scalar(reader, option, node))
		return;
	const char *why = kh_value_check_env(node->text);
	if (why)
		kh_reader_error(reader, node, "%s: %s", option->path, why);
	else
		set_source(reader, option, node, base, KH_SOURCE_ENV, kh_slice_dup(node->text));
}

void kh_config_read_source_file(struct kh_reader *reader, const struct kh_option *option,
				const struct kh_yaml_node *node, void *base)
{
	if (!kh_reader_scalar(reader, option, node))
		return;
	if (reader->preset) {
		kh_reader_error(reader, node, "%s: a preset knows no file of this host",
				option->path);
		return;
	}
	if (memchr(node->text.ptr, '\0', node->text.len)) {
		kh_reader_error(reader, node, "%s: contains a NUL", option->path);
		return;
	}
	char *path = kh_reader_path(reader, option, node);
	if (path)
		set_source(reader, option, node, base, KH_SOURCE_FILE, path);
}

void kh_config_read_source_systemd(struct kh_reader *reader, const struct kh_option *option,
				   const struct kh_yaml_node *node, void *base)
{
	if (!kh_reader_scalar(reader, option, node))
		return;
	bool good = node->text.len <= 255 && node->text.ptr[0] != '.';
	for (size_t i = 0; i < node->text.len; i++)
		good = good && node->text.ptr[i] > ' ' && node->text.ptr[i] < 0x7f &&
		       node->text.ptr[i] != '/';
	if (good)
		set_source(reader, option, node, base, KH_SOURCE_SYSTEMD, kh_slice_dup(node->text));
	else
		kh_reader_error(reader, node,
				"%s: expected the name that LoadCredential= gives it, which is a "
				"file's name",
				option->path);
}

/* --- exec ------------------------------------------------------------------------------------- */

static struct kh_exec *exec_of(struct kh_reader *reader, struct kh_credential_config *credential)
{
	struct kh_source *source = current(reader, credential);
	if (source && !source->exec) {
		source->exec = calloc(1, sizeof(*source->exec));
		if (source->exec)
			source->exec->timeout_ms = EXEC_TIMEOUT_MS;
	}
	return source && source->exec ? source->exec : kh_reader_no_memory(reader);
}

/* Return: false when one of them is no text, which was said. */
static bool read_texts(struct kh_reader *reader, const struct kh_option *option,
		       const struct kh_yaml_node *node, char ***list, size_t *count)
{
	if (!kh_reader_wants(reader, option, node, KH_NODE_LIST))
		return false;
	for (const struct kh_yaml_node *one = node->first; one; one = one->next) {
		if (one->kind != KH_NODE_SCALAR || memchr(one->text.ptr, '\0', one->text.len) ||
		    one->text.len > KH_LIMIT_EXEC_ARGUMENT_BYTES ||
		    *count == KH_LIMIT_EXEC_ARGUMENTS) {
			kh_reader_error(reader, one,
					"%s: expected a list of at most %d texts, each of at most "
					"%d bytes",
					option->path, (int)KH_LIMIT_EXEC_ARGUMENTS,
					(int)KH_LIMIT_EXEC_ARGUMENT_BYTES);
			return false;
		}
		char **slot = kh_list_add(list, count, sizeof(*slot));
		if (slot)
			*slot = kh_slice_dup(one->text);
		if (!slot || !*slot) {
			(void)kh_reader_no_memory(reader);
			return false;
		}
	}
	return true;
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

void kh_config_read_source_exec(struct kh_reader *reader, const struct kh_option *option,
				const struct kh_yaml_node *node, void *base)
{
	struct kh_exec *exec = exec_of(reader, base);
	if (!exec || !read_texts(reader, option, node, &exec->argv, &exec->n_argv) ||
	    !kh_reader_path_is_plain(reader, option, node->first))
		return;
	/* A relative path would be another file wherever the daemon is started. */
	if (strchr(exec->argv[0], '/') && exec->argv[0][0] != '/') {
		char *whole = kh_path_join(reader->folder, exec->argv[0]);
		if (!whole)
			(void)kh_reader_no_memory(reader);
		free(exec->argv[0]);
		exec->argv[0] = whole;
	}
	for (size_t i = 0; i < exec->n_argv; i++)
		/* The bare name of a program is looked for on PATH (program.h). */
		if (exec->argv[i] && (i > 0 || strchr(exec->argv[i], '/')))
			kh_reader_note_word(reader, option, exec->argv[i]);
	for (size_t i = 1; i < exec->n_argv; i++)
		if (exec->argv[i] && kh_shell_runs(exec, i))
			kh_reader_note_script(reader, option, exec, exec->argv[i]);
	if (!exec->argv[0] || !exec->argv[0][0])
		kh_reader_error(reader, node, "%s: the first is the program, and it is empty",
				option->path);
	else
		set_source(reader, option, node, base, KH_SOURCE_EXEC,
			   kh_slice_dup(kh_slice_str(last_part(exec->argv[0]))));
}

void kh_config_read_exec_environment(struct kh_reader *reader, const struct kh_option *option,
				     const struct kh_yaml_node *node, void *base)
{
	struct kh_exec *exec = exec_of(reader, base);
	if (!exec || !read_texts(reader, option, node, &exec->environment, &exec->n_environment))
		return;
	for (size_t i = 0; i < exec->n_environment; i++) {
		const char *text = exec->environment[i];
		const char *equals = strchr(text, '=');
		struct kh_slice name =
			kh_slice_of(text, equals ? (size_t)(equals - text) : strlen(text));
		const char *why = kh_value_check_env(name);
		if (why)
			kh_reader_error(reader, node, "%s: %s", option->path, why);
		else if (equals)
			kh_reader_note_word(reader, option, equals + 1);
	}
}

const char *kh_config_check_exec_member(struct kh_slice text)
{
	bool good = text.len <= MEMBER_BYTES;
	for (size_t i = 0; i < text.len; i++)
		good = good && text.ptr[i] > ' ' && text.ptr[i] < 0x7f;
	return good ? NULL : "";
}

void kh_config_read_exec(struct kh_reader *reader, const struct kh_option *option,
			 const struct kh_yaml_node *node, void *base)
{
	kh_value_part(reader, option, node, exec_of(reader, base));
}

/* What is said beside a source fits it. */
static void check_source(struct kh_reader *reader, const struct kh_yaml_node *node,
			 const struct kh_source *source)
{
	const struct kh_exec *exec = source->exec;
	if (source->kind == KH_SOURCE_NONE)
		kh_reader_error(reader, node, "credentials.*.value: expected " EXPECTED);
	else if (exec && source->kind != KH_SOURCE_EXEC)
		kh_reader_error(
			reader, node,
			"credentials.*.value: refresh, timeout, max_age, environment, json, "
			"expires, first_line and format belong to exec");
	else if (exec && exec->first_line &&
		 (exec->json || exec->expires || exec->format == KH_EXEC_JSON))
		kh_reader_error(reader, node,
				"credentials.*.value: what is read as JSON has no first line: "
				"write json or first_line");
	else if (exec && exec->format == KH_EXEC_TEXT && (exec->json || exec->expires))
		kh_reader_error(reader, node,
				"credentials.*.value: format: text has no members: leave it out, "
				"or json and expires");
}

/* --- tenants ---------------------------------------------------------------------------------- */

static void read_tenants_source(struct kh_reader *reader, const struct kh_yaml_node *node,
				struct kh_credential_config *credential)
{
	if (node->kind != KH_NODE_MAP || node->count == 0) {
		kh_reader_error(reader, node, "credentials.*.value.tenants: expected " EXPECTED);
		return;
	}
	if (credential->n_sources == UINT16_MAX) {
		kh_reader_error(reader, node, "credentials.*.value.tenants: more than %d",
				UINT16_MAX);
		return;
	}
	struct kh_source *source = begin_source(reader, credential);
	if (!source)
		return;
	source->tenant = kh_slice_dup(node->key->text);
	if (!source->tenant)
		(void)kh_reader_no_memory(reader);
	kh_walk_map(reader, "credentials.*.value", KH_IN_TENANT, node, credential);
	check_source(reader, node, &credential->sources[credential->n_sources - 1]);
}

void kh_config_read_source_tenants(struct kh_reader *reader, const struct kh_option *option,
				   const struct kh_yaml_node *node, void *base)
{
	struct kh_credential_config *credential = base;
	if (credential->n_sources > 0) {
		kh_reader_error(reader, node,
				"%s: a value has one source, or one for each tenant, not both",
				option->path);
		return;
	}
	if (!kh_reader_wants(reader, option, node, KH_NODE_MAP))
		return;
	credential->by_tenant = true;
	for (const struct kh_yaml_node *one = node->first; one; one = one->next)
		read_tenants_source(reader, one, credential);
}

void kh_config_check_sources(struct kh_reader *reader)
{
	struct kh_config *config = reader->config;
	for (size_t i = 0; i < config->n_credentials; i++) {
		struct kh_credential_config *credential = &config->credentials[i];
		if (credential->mint)
			credential->mint->client_secret.allow_short = true;
		for (size_t j = 0; j < credential->n_sources; j++) {
			struct kh_source *source = &credential->sources[j];
			/* What goes into no request is not sought in any either. */
			source->allow_short = credential->allow_short || !credential->placement;
			credential->renewable |= source->kind == KH_SOURCE_EXEC;
			int tenant = source->tenant ? kh_names_find(config, KH_NAMES_TENANTS,
								    kh_slice_str(source->tenant))
						    : -1;
			if (tenant >= 0)
				source->whose = (uint16_t)tenant;
			else if (source->tenant)
				kh_diagnostics_add(reader->diags, false, credential->where,
						   "credential \"%s\": value.tenants: there is no "
						   "tenant \"%s\"",
						   kh_esc_str(credential->name),
						   kh_esc_str(source->tenant));
		}
		if (!kh_credential_make_presence(credential))
			(void)kh_reader_no_memory(reader);
	}
}

void kh_source_done(struct kh_reader *reader, struct kh_credential_config *credential,
		    const struct kh_yaml_node *value)
{
	if (!value || value->kind != KH_NODE_MAP || credential->by_tenant)
		return;
	struct kh_source *source = current(reader, credential);
	if (source)
		check_source(reader, value, source);
}
