/*
 * placement.c - where the value of a credential goes: one of header, …, each an option of its own
 *
 * A kind is a row in the table of options, a line in `keys` (placement_kind.c), and a reader that
 * begins with kh_placement_begin. No message of this file shows a value of the section: people
 * paste keys where names belong.
 */
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/limits.h>

#include "config_internal.h"

enum { TEMPLATE_BYTES = 256, NAME_BYTES = 48, USERNAME_BYTES = 128 };

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
		return "its template must hold {} exactly once, where the value goes (such as "
		       "x-api-key: \"{}\")";
	for (size_t i = 0; i < text.len; i++)
		if (text.ptr[i] < 0x20 || text.ptr[i] > 0x7e)
			return "its template must be printable ASCII";
	if (text.len > TEMPLATE_BYTES)
		return "its template is too long";
	if (text.ptr[0] == ' ' || text.ptr[text.len - 1] == ' ')
		return "its template must not begin or end with a blank";
	return NULL;
}

static const char *field_fault(const struct kh_placement *placement,
			       const struct kh_yaml_node *node, size_t *hole)
{
	struct kh_slice name = node->key->text;
	if (kh_placement_name_fault(name))
		return kh_placement_name_fault(name);
	for (size_t i = 0; i < placement->n_fields; i++)
		if (kh_slice_eq_nocase(kh_slice_str(placement->fields[i].name), name))
			return "this field is set already";
	if (placement->n_fields == KH_PLACEMENT_FIELDS_MOST)
		return "more than 8 fields";
	if (node->kind != KH_NODE_SCALAR || kh_node_is_empty(node))
		return "expected a template such as \"Bearer {}\"";
	return template_fault(node->text, hole);
}

void kh_config_read_fields(struct kh_reader *reader, const struct kh_option *option,
			   const struct kh_yaml_node *node, void *base)
{
	struct kh_placement *placement =
		kh_placement_begin(reader, option, node, base, KH_PLACEMENT_FIELDS);
	if (!placement)
		return;
	if (!kh_reader_wants(reader, option, node, KH_NODE_MAP))
		return;
	for (const struct kh_yaml_node *child = node->first; child; child = child->next) {
		size_t hole = 0;
		const char *why = field_fault(placement, child, &hole);
		if (why) {
			kh_reader_error(reader, child->key, "%s: %s", option->path, why);
			continue;
		}
		struct kh_credential_field *field =
			kh_list_add(&placement->fields, &placement->n_fields, sizeof(*field));
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

/* ---- those that are a field with a template of ours ---- */

static void add_field(struct kh_reader *reader, struct kh_placement *placement, const char *name,
		      const char *prefix, enum kh_field_form form, char *username)
{
	struct kh_credential_field *field =
		kh_list_add(&placement->fields, &placement->n_fields, sizeof(*field));
	if (!field) {
		free(username);
		(void)kh_reader_no_memory(reader);
		return;
	}
	field->name = kh_slice_dup(kh_slice_str(name));
	field->prefix = kh_slice_dup(kh_slice_str(prefix));
	field->suffix = kh_slice_dup(KH_SLICE(""));
	field->form = form;
	field->username = username;
	if (!field->name || !field->prefix || !field->suffix)
		(void)kh_reader_no_memory(reader);
}

/* `bearer: true`: there is nothing to choose. */
static void read_fixed(struct kh_reader *reader, const struct kh_option *option,
		       const struct kh_yaml_node *node, struct kh_credential_config *credential,
		       const char *name, const char *prefix)
{
	struct kh_placement *placement =
		kh_placement_begin(reader, option, node, credential, KH_PLACEMENT_FIELDS);
	if (!placement)
		return;
	if (node->kind != KH_NODE_SCALAR || !kh_slice_eq(node->text, KH_SLICE("true")))
		kh_reader_error(reader, node,
				"%s: expected true (the value itself comes by `value`)",
				option->path);
	else
		add_field(reader, placement, name, prefix, KH_FIELD_PLAIN, NULL);
}

void kh_config_read_bearer(struct kh_reader *reader, const struct kh_option *option,
			   const struct kh_yaml_node *node, void *base)
{
	read_fixed(reader, option, node, base, "Authorization", "Bearer ");
}

void kh_config_read_azure(struct kh_reader *reader, const struct kh_option *option,
			  const struct kh_yaml_node *node, void *base)
{
	read_fixed(reader, option, node, base, "api-key", "");
}

/* RFC 7617 §2: no colon, no control character. */
static const char *username_fault(struct kh_slice text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.ptr[i] < 0x20 || text.ptr[i] == 0x7f || text.ptr[i] == ':')
			return "a user name contains neither ':' nor a control character";
	return text.len > 0 && text.len <= USERNAME_BYTES ? NULL : "too long for a user name";
}

static void put_basic(struct kh_reader *reader, struct kh_placement *placement, char *username)
{
	add_field(reader, placement, "Authorization", "Basic ", KH_FIELD_BASIC, username);
}

void kh_config_read_basic_user(struct kh_reader *reader, const struct kh_option *option,
			       const struct kh_yaml_node *node, void *base)
{
	struct kh_placement *placement =
		kh_placement_begin(reader, option, node, base, KH_PLACEMENT_FIELDS);
	if (!placement || !kh_reader_scalar(reader, option, node))
		return;
	const char *why = username_fault(node->text);
	char *username = why ? NULL : kh_slice_dup(node->text);
	if (why)
		kh_reader_error(reader, node, "%s: %s", option->path, why);
	else if (!username)
		(void)kh_reader_no_memory(reader);
	else
		put_basic(reader, placement, username);
}

void kh_placement_basic(struct kh_reader *reader, const struct kh_yaml_node *node,
			struct kh_credential_config *credential)
{
	static const struct kh_option option = { .path = "credentials.*.basic" };
	struct kh_placement *placement =
		kh_placement_begin(reader, &option, node, credential, KH_PLACEMENT_FIELDS);
	if (placement)
		put_basic(reader, placement, NULL);
}

/* ---- query, cookie ---- */

/* A name that needs no escaping in a query, and no two readings. */
static const char *query_fault(struct kh_slice name)
{
	for (size_t i = 0; i < name.len; i++)
		if (!kh_is_alpha(name.ptr[i]) && !kh_is_digit(name.ptr[i]) &&
		    (name.ptr[i] == '\0' || !strchr("-._~", name.ptr[i])))
			return "expected a parameter's name of letters, digits and -._~";
	if (name.len == 0 || name.len > NAME_BYTES)
		return "expected a parameter's name of 1 to 48 characters";
	if (kh_slice_eq_nocase(name, KH_SLICE("_method")) ||
	    kh_slice_eq_nocase(name, KH_SLICE("-method")))
		return "this parameter asks for another method: no credential goes there";
	return NULL;
}

static const char *cookie_fault(struct kh_slice name)
{
	return kh_placement_is_token(name) && name.len <= NAME_BYTES
		       ? NULL
		       : "expected a cookie's name, a token (RFC 6265) of 1 to 48 characters";
}

static void read_name(struct kh_reader *reader, const struct kh_option *option,
		      const struct kh_yaml_node *node, void *base, enum kh_placement_kind kind)
{
	struct kh_placement *placement = kh_placement_begin(reader, option, node, base, kind);
	if (!placement || !kh_reader_scalar(reader, option, node))
		return;
	const char *why =
		kind == KH_PLACEMENT_QUERY ? query_fault(node->text) : cookie_fault(node->text);
	if (why)
		kh_reader_error(reader, node, "%s: %s", option->path, why);
	else if (!(placement->name = kh_slice_dup(node->text)))
		(void)kh_reader_no_memory(reader);
}

void kh_config_read_query(struct kh_reader *reader, const struct kh_option *option,
			  const struct kh_yaml_node *node, void *base)
{
	read_name(reader, option, node, base, KH_PLACEMENT_QUERY);
}

void kh_config_read_cookie(struct kh_reader *reader, const struct kh_option *option,
			   const struct kh_yaml_node *node, void *base)
{
	read_name(reader, option, node, base, KH_PLACEMENT_COOKIE);
}

/* ---- body ---- */

static const char *pointer_fault(struct kh_slice pointer)
{
	size_t steps = 0;
	if (pointer.len == 0 || pointer.ptr[0] != '/')
		return "expected a pointer such as /auth/key (RFC 6901)";
	for (size_t at = 0; at < pointer.len; steps++) {
		size_t end = kh_slice_find(pointer, '/', at + 1);
		if (end - at - 1 > KH_LIMIT_BODY_NAME_BYTES || end - at < 2)
			return "each part of the pointer has 1 to 128 characters";
		at = end;
	}
	for (size_t i = 0; i < pointer.len; i++) {
		char c = pointer.ptr[i];
		if (c < 0x20 || c > 0x7e || c == '"' || c == '\\')
			return "a pointer is printable ASCII without quotes and backslashes";
		if (c == '~' && (i + 1 == pointer.len ||
				 (pointer.ptr[i + 1] != '0' && pointer.ptr[i + 1] != '1')))
			return "in a pointer ~0 is '~' and ~1 is '/'";
	}
	return steps <= KH_LIMIT_BODY_STEPS ? NULL : "a pointer of more than 16 parts";
}

/* What servers fold and cut in a member's name is not in it to begin with. */
static const char *form_fault(struct kh_slice name)
{
	return query_fault(name)
		       ? "expected a member's name of letters, digits and -._~, 48 at most"
		       : NULL;
}

static void read_body(struct kh_reader *reader, const struct kh_option *option,
		      const struct kh_yaml_node *node, void *base, bool json)
{
	struct kh_placement *placement =
		kh_placement_begin(reader, option, node, base, KH_PLACEMENT_BODY);
	if (!placement || !kh_reader_scalar(reader, option, node))
		return;
	const char *why = json ? pointer_fault(node->text) : form_fault(node->text);
	char **slot = json ? &placement->pointer : &placement->name;
	if (why)
		kh_reader_error(reader, node, "%s: %s", option->path, why);
	else if (!(*slot = kh_slice_dup(node->text)))
		(void)kh_reader_no_memory(reader);
}

void kh_config_read_body_json(struct kh_reader *reader, const struct kh_option *option,
			      const struct kh_yaml_node *node, void *base)
{
	read_body(reader, option, node, base, true);
}

void kh_config_read_body_form(struct kh_reader *reader, const struct kh_option *option,
			      const struct kh_yaml_node *node, void *base)
{
	read_body(reader, option, node, base, false);
}

/* ---- as a whole ---- */

static const char *fields_fault(const struct kh_placement *placement)
{
	for (size_t i = 0; i < placement->n_fields; i++) {
		const struct kh_credential_field *field = &placement->fields[i];
		struct kh_slice name = kh_slice_str(field->name);
		if (kh_placement_name_fault(name))
			return "a name that no credential's field has";
		if (field->username && (field->form != KH_FIELD_BASIC ||
					username_fault(kh_slice_str(field->username))))
			return "a user name out of place";
	}
	return NULL;
}

const char *kh_placement_fault(const struct kh_placement *placement)
{
	struct kh_slice name = kh_slice_str(placement->name);
	bool body = placement->kind == KH_PLACEMENT_BODY;
	bool named = placement->kind == KH_PLACEMENT_QUERY ||
		     placement->kind == KH_PLACEMENT_COOKIE || (body && !placement->pointer);
	if ((placement->kind == KH_PLACEMENT_FIELDS) != (placement->n_fields > 0))
		return "fields, or none, where it is the other way";
	if (named != (placement->name != NULL))
		return "a name, or none, where it is the other way";
	if (placement->pointer && (!body || pointer_fault(kh_slice_str(placement->pointer))))
		return "a pointer that is none, or out of place";
	if (body && placement->name && form_fault(name))
		return form_fault(name);
	if (placement->kind == KH_PLACEMENT_QUERY && query_fault(name))
		return query_fault(name);
	if (placement->kind == KH_PLACEMENT_COOKIE && cookie_fault(name))
		return cookie_fault(name);
	return kh_signing_config_fault(placement) ? kh_signing_config_fault(placement)
						  : fields_fault(placement);
}
