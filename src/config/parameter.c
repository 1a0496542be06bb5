/*
 * parameter.c - the parameters of a preset: their declarations, and checks of their values in a use
 *
 * A value of a list becomes a part of a rule's text, so each type says exactly what a value may be.
 * No type allows a '/' outside of its own form, a ':', an '@', a blank, a brace, or a dot that
 * would add a label to a host. So whatever a use says, a rule keeps the scheme, the methods, the
 * port and the number of labels that the preset gave it.
 */
#include <stdlib.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/host.h>
#include <keyhole/base/limits.h>

#include "config_internal.h"

enum { NAME_BYTES = 32, VALUE_BYTES = 255, SEGMENT_BYTES = 100, PROJECT_SEGMENTS = 20 };

const char *const kh_parameter_types[] = { "boolean", "label",	 "host", "segment",
					   "repo",    "project", "word", NULL };

static bool is_word_byte(char c)
{
	return kh_is_alpha(c) || kh_is_digit(c);
}

/* A segment of a path, or '*' for any one. Dots alone are a way elsewhere. */
static bool is_segment(struct kh_slice text)
{
	if (kh_slice_eq(text, KH_SLICE("*")))
		return true;
	bool good = text.len > 0 && text.len <= SEGMENT_BYTES && text.ptr[0] != '-';
	bool dots = true;
	for (size_t i = 0; good && i < text.len; i++) {
		char c = text.ptr[i];
		good = is_word_byte(c) || c == '.' || c == '_' || c == '-';
		dots = dots && c == '.';
	}
	return good && !dots;
}

static bool is_label(struct kh_slice text)
{
	bool good = text.len > 0 && text.len <= 63 && text.ptr[0] != '-' &&
		    text.ptr[text.len - 1] != '-';
	for (size_t i = 0; good && i < text.len; i++) {
		char c = text.ptr[i];
		good = (c >= 'a' && c <= 'z') || kh_is_digit(c) || c == '-';
	}
	return good;
}

static bool is_host(struct kh_slice text)
{
	struct kh_host host;
	if (!kh_host_parse(&host, text, NULL) || host.kind != KH_HOST_NAME)
		return false;
	size_t labels = 0;
	for (size_t at = 0; at <= text.len; labels++) {
		size_t dot = kh_slice_find(text, '.', at);
		if (!is_label(kh_slice_sub(text, at, dot)))
			return false;
		at = dot + 1;
	}
	return labels >= 2;
}

/* Segments with '/' between: from `least` to `most` of them. */
static bool is_segments(struct kh_slice text, size_t least, size_t most)
{
	size_t n = 0;
	for (size_t at = 0; at <= text.len; n++) {
		size_t slash = kh_slice_find(text, '/', at);
		if (n == most || !is_segment(kh_slice_sub(text, at, slash)))
			return false;
		at = slash + 1;
	}
	return n >= least && !kh_slice_has_suffix(text, KH_SLICE(".git"));
}

static bool is_one_of(struct kh_slice text, const struct kh_yaml_node *values)
{
	for (const struct kh_yaml_node *one = values ? values->first : NULL; one; one = one->next)
		if (one->kind == KH_NODE_SCALAR && kh_slice_eq(one->text, text))
			return true;
	return false;
}

/* What a value must be, NULL when it is that. */
static const char *value_fault(const struct kh_parameter *parameter, struct kh_slice text)
{
	bool good = text.len <= VALUE_BYTES;
	switch ((enum kh_parameter_type)parameter->type) {
	case KH_PARAMETER_LABEL:
		return good && is_label(text) ? NULL
					      : "one label of a host: small letters, digits and "
						"'-', as us-east-1";
	case KH_PARAMETER_HOST:
		return good && is_host(text)
			       ? NULL
			       : "a host's name of two labels or more, as api.example.com, without "
				 "a wildcard, a port or a path";
	case KH_PARAMETER_SEGMENT:
		return good && is_segment(text) ? NULL
						: "one segment of a path: letters, digits, '.', "
						  "'_' and '-', or * for "
						  "any";
	case KH_PARAMETER_REPO:
		return good && is_segments(text, 2, 2)
			       ? NULL
			       : "OWNER/NAME without .git, where * stands for any name";
	case KH_PARAMETER_PROJECT:
		return good && is_segments(text, 2, PROJECT_SEGMENTS)
			       ? NULL
			       : "GROUP/NAME or GROUP/SUBGROUP/NAME without .git, where * stands "
				 "for "
				 "any name";
	case KH_PARAMETER_WORD:
		return good && is_one_of(text, parameter->values) ? NULL : "one of its words";
	case KH_PARAMETER_BOOLEAN:
		break;
	}
	return "true or false";
}

static bool is_bool(const struct kh_yaml_node *node)
{
	return node->kind == KH_NODE_SCALAR && node->plain &&
	       (kh_slice_eq(node->text, KH_SLICE("true")) ||
		kh_slice_eq(node->text, KH_SLICE("false")));
}

static void offer_words(const struct kh_parameter *parameter, const struct kh_yaml_node *node,
			char hint[KH_NEAREST_BYTES])
{
	struct kh_nearest nearest;
	kh_nearest_init(&nearest, node->text);
	for (const struct kh_yaml_node *one = parameter->values ? parameter->values->first : NULL;
	     one; one = one->next)
		if (one->kind == KH_NODE_SCALAR)
			kh_nearest_offer(&nearest, one->text.ptr);
	(void)kh_nearest_hint(&nearest, hint);
}

static bool check_value(struct kh_reader *reader, const struct kh_parameter *parameter,
			const char *what, const struct kh_yaml_node *node)
{
	if (node->kind != KH_NODE_SCALAR || kh_node_is_empty(node)) {
		kh_reader_error(reader, node, "%s.%s: expected text, got %s", what, parameter->name,
				kh_node_what(node));
		return false;
	}
	const char *fault = value_fault(parameter, node->text);
	char hint[KH_NEAREST_BYTES] = "";
	if (fault && parameter->type == KH_PARAMETER_WORD)
		offer_words(parameter, node, hint);
	if (fault)
		kh_reader_error(reader, node, "%s.%s: expected %s, got \"%s\"%s", what,
				parameter->name, fault, kh_esc(node->text), hint);
	return !fault;
}

bool kh_parameter_check(struct kh_reader *reader, const struct kh_parameter *parameter,
			const char *what, const struct kh_yaml_node *node)
{
	if (parameter->type == KH_PARAMETER_BOOLEAN) {
		if (is_bool(node))
			return true;
		kh_reader_error(reader, node, "%s.%s: expected true or false, got %s%s%s", what,
				parameter->name, node->kind == KH_NODE_SCALAR ? "\"" : "",
				node->kind == KH_NODE_SCALAR ? kh_esc(node->text)
							     : kh_node_what(node),
				node->kind == KH_NODE_SCALAR ? "\"" : "");
		return false;
	}
	if (node->kind != KH_NODE_LIST)
		return check_value(reader, parameter, what, node);
	if (node->count == 0 || node->count > KH_LIMIT_PRESET_VALUES) {
		kh_reader_error(reader, node, "%s.%s: expected 1 to %d values, got %zu", what,
				parameter->name, KH_LIMIT_PRESET_VALUES, node->count);
		return false;
	}
	bool good = true;
	for (const struct kh_yaml_node *one = node->first; one; one = one->next) {
		if (!check_value(reader, parameter, what, one)) {
			good = false;
			continue;
		}
		for (const struct kh_yaml_node *other = node->first; other != one;
		     other = other->next)
			if (other->kind == KH_NODE_SCALAR && kh_slice_eq(other->text, one->text)) {
				kh_reader_error(reader, one, "%s.%s: \"%s\" is there twice", what,
						parameter->name, kh_esc(one->text));
				good = false;
				break;
			}
	}
	return good;
}

/* --- the declaration */

static bool is_name(struct kh_slice name)
{
	for (size_t i = 0; i < name.len; i++) {
		char c = name.ptr[i];
		if ((c < 'a' || c > 'z') && (i == 0 || (!kh_is_digit(c) && c != '_')))
			return false;
	}
	return name.len > 0 && name.len <= NAME_BYTES;
}

void *kh_parameter_add(struct kh_reader *reader, void *parent, const struct kh_yaml_node *node)
{
	struct kh_parameters *all = parent;
	if (!is_name(node->key->text)) {
		kh_reader_error(reader, node->key,
				"parameters: a name is small letters, digits and '_', %d at most",
				NAME_BYTES);
		return NULL;
	}
	if (all->count == KH_LIMIT_PRESET_PARAMETERS) {
		kh_reader_error(reader, node->key, "parameters: more than %d",
				KH_LIMIT_PRESET_PARAMETERS);
		return NULL;
	}
	struct kh_parameter *one = kh_list_add(&all->list, &all->count, sizeof(*one));
	if (!one)
		return kh_reader_no_memory(reader);
	one->name = kh_slice_dup(node->key->text);
	if (!one->name)
		(void)kh_reader_no_memory(reader);
	return one;
}

void kh_parameter_done(struct kh_reader *reader, void *parent, void *item,
		       const struct kh_yaml_node *node)
{
	struct kh_parameter *one = item;
	(void)parent;
	bool words = one->values && one->values->kind == KH_NODE_LIST && one->values->count > 0;
	for (const struct kh_yaml_node *word = words ? one->values->first : NULL; word;
	     word = word->next)
		words = word->kind == KH_NODE_SCALAR && is_segment(word->text) &&
			!kh_slice_eq(word->text, KH_SLICE("*"));
	if ((one->type == KH_PARAMETER_WORD) != (one->values != NULL) || (one->values && !words))
		kh_reader_error(
			reader, one->values ? one->values : node,
			"parameters.*.values: goes with the type word, and is a list of words");
	else if (one->fallback)
		(void)kh_parameter_check(reader, one, "parameters", one->fallback);
}

void kh_parameters_fini(struct kh_parameters *all)
{
	for (size_t i = 0; i < all->count; i++) {
		free(all->list[i].name);
		free(all->list[i].doc);
	}
	free(all->list);
	*all = (struct kh_parameters){ 0 };
}

/* --- a use */

const struct kh_parameter *kh_parameter_find(const struct kh_parameters *all, struct kh_slice name)
{
	for (size_t i = 0; i < all->count; i++)
		if (all->list[i].name && kh_slice_eq(kh_slice_str(all->list[i].name), name))
			return &all->list[i];
	return NULL;
}

const char *kh_parameter_hint(const struct kh_parameters *all, struct kh_slice name,
			      char hint[KH_NEAREST_BYTES])
{
	struct kh_nearest nearest;
	kh_nearest_init(&nearest, name);
	for (size_t i = 0; i < all->count; i++)
		if (all->list[i].name)
			kh_nearest_offer(&nearest, all->list[i].name);
	return kh_nearest_hint(&nearest, hint);
}

static void say_unknown(struct kh_reader *reader, const char *preset,
			const struct kh_parameters *all, const struct kh_yaml_node *key)
{
	char hint[KH_NEAREST_BYTES];
	if (all->count == 0)
		kh_reader_error(reader, key,
				"preset \"%s\" has no parameters: it is used as \"use: %s\"",
				preset, preset);
	else
		kh_reader_error(reader, key, "preset \"%s\" has no parameter \"%s\"%s", preset,
				kh_esc(key->text), kh_parameter_hint(all, key->text, hint));
}

bool kh_parameters_bind(struct kh_reader *reader, const char *preset,
			const struct kh_parameters *all, const struct kh_yaml_node *at,
			const struct kh_yaml_node *arguments, const struct kh_yaml_node **values)
{
	bool good = true;
	for (size_t i = 0; i < all->count; i++)
		values[i] = all->list[i].fallback;
	for (const struct kh_yaml_node *one = arguments ? arguments->first : NULL; one;
	     one = one->next) {
		const struct kh_parameter *parameter = kh_parameter_find(all, one->key->text);
		if (!parameter)
			say_unknown(reader, preset, all, one->key);
		if (!parameter || !kh_parameter_check(reader, parameter, preset, one))
			good = false;
		else
			values[parameter - all->list] = one;
	}
	for (size_t i = 0; good && i < all->count; i++) {
		const struct kh_parameter *one = &all->list[i];
		if (values[i])
			continue;
		const char *doc = one->doc ? one->doc : "";
		/* Without a place it was said on a command line. */
		if (at && at->line > 0)
			kh_reader_error(reader, at,
					"preset \"%s\" needs the parameter \"%s\" (%s): use: { %s: "
					"{ %s: VALUE } }",
					preset, one->name, doc, preset, one->name);
		else
			kh_reader_error(
				reader, at,
				"preset \"%s\" needs the parameter \"%s\" (%s): %s:%s=VALUE",
				preset, one->name, doc, preset, one->name);
		good = false;
	}
	return good;
}
