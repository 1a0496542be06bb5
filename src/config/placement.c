/*
 * placement.c - where the value of a credential goes: one of header, …, each an option of its own
 *
 * A kind is a row in the table of options, a line in `keys`, and a reader that begins with
 * kh_placement_begin. No message of this file shows what stands there: people paste keys where
 * names belong.
 */
#include <stdlib.h>
#include <string.h>

#include "config_internal.h"

enum { TEMPLATE_BYTES = 256, FIELD_NAME_BYTES = 64 };

static const struct {
	const char *key;
	enum kh_placement_kind kind;
} keys[] = {
	{ "header", KH_PLACEMENT_FIELDS },
};
const char kh_placement_options[] = "header";

const char *kh_placement_find(struct kh_slice key, enum kh_placement_kind kind)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (keys[i].kind == kind && kh_slice_eq(key, kh_slice_str(keys[i].key)))
			return keys[i].key;
	return NULL;
}

void kh_placement_free(struct kh_placement *placement)
{
	if (!placement)
		return;
	for (size_t i = 0; i < placement->n_fields; i++) {
		free(placement->fields[i].name);
		free(placement->fields[i].prefix);
		free(placement->fields[i].suffix);
		free(placement->fields[i].username);
	}
	free(placement->fields);
	free(placement);
}

struct kh_placement *kh_placement_begin(struct kh_reader *reader, const struct kh_option *option,
					const struct kh_node *node,
					struct kh_credential_config *credential,
					enum kh_placement_kind kind)
{
	struct kh_slice key = kh_slice_str(strrchr(option->path, '.') + 1);
	if (credential->placement) {
		kh_reader_error(reader, node->key,
				"%s: a credential goes to one place, and this one has %s already",
				option->path, credential->placement->key);
		return NULL;
	}
	struct kh_placement *placement = calloc(1, sizeof(*placement));
	if (!placement)
		return kh_reader_no_memory(reader);
	placement->kind = kind;
	placement->key = kh_placement_find(key, kind);
	credential->placement = placement;
	return placement;
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

static const char *field_fault(const struct kh_placement *placement, const struct kh_node *node,
			       size_t *hole)
{
	struct kh_slice name = node->key->text;
	if (!is_token(name))
		return "a field's name must be a token (RFC 9110 section 5.6.2)";
	if (is_reserved(name))
		return "this field frames or routes the message: no credential goes there";
	for (size_t i = 0; i < placement->n_fields; i++)
		if (kh_slice_eq_nocase(kh_slice_str(placement->fields[i].name), name))
			return "this field is set already";
	if (placement->n_fields == KH_PLACEMENT_FIELDS_MOST)
		return "more than 8 fields";
	if (node->kind != KH_NODE_SCALAR || kh_node_is_empty(node))
		return "expected a template such as \"Bearer {}\"";
	return template_fault(node->text, hole);
}

void kh_read_fields(struct kh_reader *reader, const struct kh_option *option,
		    const struct kh_node *node, void *base)
{
	struct kh_placement *placement =
		kh_placement_begin(reader, option, node, base, KH_PLACEMENT_FIELDS);
	if (!placement)
		return;
	if (node->kind != KH_NODE_MAP || node->count == 0) {
		kh_reader_error(reader, node, "%s: expected %s, got %s", option->path,
				option->expects,
				node->kind == KH_NODE_MAP ? "none" : kh_node_what(node));
		return;
	}
	for (const struct kh_node *child = node->first; child; child = child->next) {
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
