/* credential.c - the `credentials` section: where a value comes from, where it goes, what stands in
 *
 * No message of this file shows a value of the section: people paste keys where names belong.
 */
#include <stdlib.h>

#include <keyhole/cleanup.h>
#include <keyhole/escape.h>
#include <keyhole/file.h>
#include <keyhole/limits.h>

#include "config_internal.h"

enum { MOST_FIELDS = 8, TEMPLATE_BYTES = 256, FIELD_NAME_BYTES = 64 };

static void add_host(struct kh_reader *reader, const struct kh_option *option,
		     const struct kh_node *node, struct kh_credential_config *credential);

/* A preset that is used again, with other parameters: its credential may go there as well. */
static void widen(struct kh_reader *reader, struct kh_credential_config *credential,
		  const struct kh_node *hosts)
{
	static const struct kh_option option = { .path = "credentials.*.hosts" };
	for (const struct kh_node *one = hosts ? hosts->first : NULL; one; one = one->next)
		add_host(reader, &option, one, credential);
}

void *kh_credential_add(struct kh_reader *reader, void *parent, const struct kh_node *node)
{
	(void)parent;
	struct kh_config *config = reader->config;
	struct kh_slice name = node->key->text;
	const char *why = kh_value_check_id(name);
	if (why) {
		kh_reader_error(reader, node->key, "credentials: a name %s", why);
		return NULL;
	}
	if (reader->rules_only)
		return NULL;
	int there = kh_config_credential(config, name);
	if (there >= 0 && reader->preset) {
		/* The file's own goes before the preset's; a preset may be used more than once. */
		const char *preset = config->credentials[there].preset;
		if (preset && strcmp(preset, reader->preset) != 0)
			kh_reader_error(reader, node->key,
					"credential \"%s\" comes from the preset \"%s\" already",
					kh_esc(name), preset);
		else if (preset)
			widen(reader, &config->credentials[there], kh_node_get(node, "hosts"));
		return NULL;
	}
	if (there >= 0)
		return NULL; /* a duplicate key, which was said */
	if (config->n_credentials >= UINT16_MAX) {
		kh_reader_error(reader, node->key, "credentials: more than %d", UINT16_MAX);
		return NULL;
	}
	struct kh_credential_config *credential =
		kh_list_add(&config->credentials, &config->n_credentials, sizeof(*credential));
	if (!credential)
		return kh_reader_no_memory(reader);
	credential->name = kh_slice_dup(name);
	credential->where = kh_reader_where(reader, node->key);
	if (reader->preset)
		credential->preset = kh_slice_dup(kh_slice_str(reader->preset));
	if (!credential->name || (reader->preset && !credential->preset))
		(void)kh_reader_no_memory(reader);
	return credential;
}

void kh_credential_done(struct kh_reader *reader, void *parent, void *item,
			const struct kh_node *node)
{
	(void)parent;
	struct kh_credential_config *credential = item;
	const struct kh_node *value = kh_node_get(node, "value");
	if (value && value->kind == KH_NODE_MAP && value->count == 0)
		kh_reader_error(reader, value,
				"credentials.*.value: expected { env: NAME } or { file: PATH }");
	/* Clients look for it where its source is, unless something else is said. */
	if (!credential->env_name && credential->source == KH_SOURCE_ENV) {
		credential->env_name = kh_slice_dup(kh_slice_str(credential->source_name));
		if (!credential->env_name)
			(void)kh_reader_no_memory(reader);
	}
}

void kh_read_literal(struct kh_reader *reader, const struct kh_option *option,
		     const struct kh_node *node, void *base)
{
	(void)base;
	if (node->kind == KH_NODE_SCALAR && !kh_node_is_empty(node))
		kh_reader_error(reader, node,
				"%s: a secret never stands in this file; put it into a variable "
				"or a file and write { env: NAME } or { file: PATH }",
				option->path);
	else
		kh_reader_error(reader, node,
				"%s: expected { env: NAME } or { file: PATH }, got %s",
				option->path, kh_node_what(node));
}

static void set_source(struct kh_reader *reader, const struct kh_option *option,
		       const struct kh_node *node, struct kh_credential_config *credential,
		       enum kh_source_kind kind, char *name)
{
	if (!name) {
		(void)kh_reader_no_memory(reader);
	} else if (credential->source != KH_SOURCE_NONE) {
		kh_reader_error(reader, node, "%s: a value has one source, env or file",
				option->path);
		free(name);
	} else {
		credential->source = kind;
		credential->source_name = name;
	}
}

void kh_read_source_env(struct kh_reader *reader, const struct kh_option *option,
			const struct kh_node *node, void *base)
{
	if (!kh_walk_scalar(reader, option, node))
		return;
	const char *why = kh_value_check_env(node->text);
	if (why)
		kh_reader_error(reader, node, "%s: %s", option->path, why);
	else
		set_source(reader, option, node, base, KH_SOURCE_ENV, kh_slice_dup(node->text));
}

void kh_read_source_file(struct kh_reader *reader, const struct kh_option *option,
			 const struct kh_node *node, void *base)
{
	if (!kh_walk_scalar(reader, option, node))
		return;
	if (reader->preset) {
		kh_reader_error(reader, node, "%s: a preset knows no file of this host",
				option->path);
		return;
	}
	if (memchr(node->text.ptr, '\0', node->text.len)) {
		kh_reader_error(reader, node, "%s: holds a NUL", option->path);
		return;
	}
	set_source(reader, option, node, base, KH_SOURCE_FILE,
		   kh_path_join(reader->folder, node->text.ptr));
}

static bool is_token(struct kh_slice name)
{
	for (size_t i = 0; i < name.len; i++) {
		char c = name.ptr[i];
		if (!kh_is_alpha(c) && !kh_is_digit(c) &&
		    (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c)))
			return false;
	}
	return name.len > 0 && name.len <= FIELD_NAME_BYTES;
}

/* What frames a message, or belongs to one hop, is written by the codec alone. */
static bool is_reserved(struct kh_slice name)
{
	static const char *const reserved[] = {
		"host",		  "content-length",   "transfer-encoding",
		"connection",	  "keep-alive",	      "te",
		"trailer",	  "upgrade",	      "expect",
		"http2-settings", "content-encoding", "content-type"
	};
	for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
		if (kh_slice_eq_nocase(name, kh_slice_str(reserved[i])))
			return true;
	return kh_slice_eq_nocase(kh_slice_sub(name, 0, 6), KH_SLICE("proxy-"));
}

/* Position of the only `{}` of a template. */
static bool find_hole(struct kh_slice text, size_t *out)
{
	unsigned holes = 0;
	for (size_t i = 0; i + 1 < text.len; i++)
		if (text.ptr[i] == '{' && text.ptr[i + 1] == '}') {
			*out = i;
			holes++;
		}
	return holes == 1;
}

static const char *template_fault(struct kh_slice text, size_t *hole)
{
	if (!find_hole(text, hole))
		return "its template must hold {} exactly once, where the value goes";
	for (size_t i = 0; i < text.len; i++)
		if (text.ptr[i] < 0x20 || text.ptr[i] > 0x7e)
			return "its template must be printable ASCII";
	if (text.len > TEMPLATE_BYTES)
		return "its template is too long";
	if (text.ptr[0] == ' ' || text.ptr[text.len - 1] == ' ')
		return "its template must not begin or end with a blank";
	return NULL;
}

static const char *field_fault(const struct kh_credential_config *credential,
			       const struct kh_node *node, size_t *hole)
{
	struct kh_slice name = node->key->text;
	if (!is_token(name))
		return "a field's name must be a token (RFC 9110 section 5.6.2)";
	if (is_reserved(name))
		return "this field frames or routes the message: no credential goes there";
	for (size_t i = 0; i < credential->n_fields; i++)
		if (kh_slice_eq_nocase(kh_slice_str(credential->fields[i].name), name))
			return "this field is set already";
	if (credential->n_fields == MOST_FIELDS)
		return "more than 8 fields";
	if (node->kind != KH_NODE_SCALAR || kh_node_is_empty(node))
		return "expected a template such as \"Bearer {}\"";
	return template_fault(node->text, hole);
}

void kh_read_fields(struct kh_reader *reader, const struct kh_option *option,
		    const struct kh_node *node, void *base)
{
	struct kh_credential_config *credential = base;
	if (node->kind != KH_NODE_MAP || node->count == 0) {
		kh_reader_error(reader, node, "%s: expected %s, got %s", option->path,
				option->expects,
				node->kind == KH_NODE_MAP ? "none" : kh_node_what(node));
		return;
	}
	for (const struct kh_node *child = node->first; child; child = child->next) {
		size_t hole = 0;
		const char *why = field_fault(credential, child, &hole);
		if (why) {
			kh_reader_error(reader, child->key, "%s: %s", option->path, why);
			continue;
		}
		struct kh_credential_field *field =
			kh_list_add(&credential->fields, &credential->n_fields, sizeof(*field));
		if (!field) {
			(void)kh_reader_no_memory(reader);
			return;
		}
		field->name = kh_slice_dup(child->key->text);
		field->prefix = kh_slice_dup(kh_slice_sub(child->text, 0, hole));
		field->suffix = kh_slice_dup(kh_slice_sub(child->text, hole + 2, child->text.len));
		if (!field->name || !field->prefix || !field->suffix)
			(void)kh_reader_no_memory(reader);
	}
}

static void add_host(struct kh_reader *reader, const struct kh_option *option,
		     const struct kh_node *node, struct kh_credential_config *credential)
{
	if (node->kind != KH_NODE_SCALAR || kh_node_is_empty(node)) {
		kh_reader_error(reader, node, "%s: expected a host, got %s", option->path,
				kh_node_what(node));
		return;
	}
	struct kh_err err = KH_ERR_INIT;
	struct kh_host_pattern pattern;
	if (!kh_host_pattern_parse(&pattern, node->text, &err)) {
		/* The parser quotes what it refuses; here that may be a key. */
		kh_reader_error(reader, node,
				"%s: expected a host such as api.example.com or *.example.com%s",
				option->path,
				kh_slice_has_prefix(node->text, KH_SLICE("*."))
					? " (a wildcard stands over two labels at least)"
					: "");
		return;
	}
	if (pattern.match == KH_MATCH_SUFFIX &&
	    !kh_config_check_suffix(reader, node, pattern.match, pattern.host.text, NULL))
		return;
	bool wide = pattern.match == KH_MATCH_RANGE &&
		    pattern.range.prefix_bits < (pattern.range.family == 4 ? 32 : 128);
	if (pattern.match == KH_MATCH_ANY || wide) {
		kh_reader_error(reader, node,
				"%s: a credential is bound to hosts: name them, no \"**\" and no "
				"range",
				option->path);
		return;
	}
	for (size_t i = 0; i < credential->n_hosts; i++)
		if (kh_host_pattern_covers(&credential->hosts[i], &pattern))
			return;
	if (credential->n_hosts == KH_LIMIT_CREDENTIAL_HOSTS) {
		kh_reader_error(reader, node,
				"%s: more than %d hosts: give some tenants a credential of their "
				"own",
				option->path, KH_LIMIT_CREDENTIAL_HOSTS);
		return;
	}
	struct kh_host_pattern *slot =
		kh_list_add(&credential->hosts, &credential->n_hosts, sizeof(*slot));
	if (slot)
		*slot = pattern;
	else
		(void)kh_reader_no_memory(reader);
}

void kh_read_hosts(struct kh_reader *reader, const struct kh_option *option,
		   const struct kh_node *node, void *base)
{
	if (node->kind == KH_NODE_LIST && node->count > 0) {
		for (const struct kh_node *child = node->first; child; child = child->next)
			add_host(reader, option, child, base);
	} else if (node->kind == KH_NODE_SCALAR && !kh_node_is_empty(node)) {
		add_host(reader, option, node, base);
	} else {
		kh_reader_error(reader, node, "%s: expected %s, got %s", option->path,
				option->expects,
				node->kind == KH_NODE_LIST ? "none" : kh_node_what(node));
	}
}
