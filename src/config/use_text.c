/*
 * use_text.c - parses a preset as it is written on a command line (`keyhole run --use`)
 *
 * NAME, or NAME:KEY=VALUE[,KEY=VALUE…], in which a repeated key makes a list; or a map in braces,
 * as `use` takes it in a file. The second form is converted to the third, so that there is only one
 * reader of parameters. The way back, from a use to its text, is for words to paste.
 */
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/cleanup.h>

#include "config_internal.h"

enum { USE_BYTES = 64 * 1024 };

/* A scalar of YAML that is nothing but this text; true and false are what they say. */
static bool put_scalar(struct kh_buf *yaml, struct kh_slice text)
{
	if (kh_slice_eq(text, KH_SLICE("true")) || kh_slice_eq(text, KH_SLICE("false")))
		return kh_buf_append_slice(yaml, text);
	bool ok = kh_buf_append_char(yaml, '\'');
	for (size_t i = 0; ok && i < text.len; i++)
		ok = (text.ptr[i] != '\'' || kh_buf_append_char(yaml, '\'')) &&
		     kh_buf_append_char(yaml, text.ptr[i]);
	return ok && kh_buf_append_char(yaml, '\'');
}

struct pair {
	struct kh_slice key, value;
};

/* The next of "KEY=VALUE,…". Return: false: there is none, or it is no such thing (key.len 0). */
static bool next_pair(struct kh_slice *rest, struct pair *out)
{
	size_t end = kh_slice_find(*rest, ',', 0);
	struct kh_slice one = kh_slice_sub(*rest, 0, end);
	size_t equals = kh_slice_find(one, '=', 0);
	*out = (struct pair){ .key = kh_slice_trim(kh_slice_sub(one, 0, equals)) };
	if (rest->len == 0 || equals >= one.len || out->key.len == 0) {
		out->key.len = 0;
		return false;
	}
	out->value = kh_slice_trim(kh_slice_sub(one, equals + 1, one.len));
	*rest = kh_slice_sub(*rest, end + 1, rest->len);
	return true;
}

/* Does a pair of this key stand in front of `up_to`, and how many are there in all? */
static size_t count_key(struct kh_slice pairs, struct kh_slice key, const char *up_to, bool *before)
{
	struct pair one;
	size_t n = 0;
	*before = false;
	while (next_pair(&pairs, &one)) {
		if (!kh_slice_eq(one.key, key))
			continue;
		n++;
		*before = *before || one.key.ptr < up_to;
	}
	return n;
}

static bool put_values(struct kh_buf *yaml, struct kh_slice pairs, struct kh_slice key, size_t n)
{
	struct pair one;
	bool ok = kh_buf_append_str(yaml, n > 1 ? "[ " : ""), first = true;
	while (ok && next_pair(&pairs, &one)) {
		if (!kh_slice_eq(one.key, key))
			continue;
		ok = (first || kh_buf_append_str(yaml, ", ")) && put_scalar(yaml, one.value);
		first = false;
	}
	return ok && kh_buf_append_str(yaml, n > 1 ? " ]" : "");
}

/* "{ 'NAME': { 'KEY': VALUE, … } }". Return: false without memory or place, or *what is no pair. */
static bool put_yaml(struct kh_buf *yaml, struct kh_slice name, struct kh_slice pairs,
		     struct kh_slice *what)
{
	struct kh_slice rest = pairs;
	struct pair one;
	bool ok = kh_buf_append_str(yaml, "{ ") && put_scalar(yaml, name) &&
		  kh_buf_append_str(yaml, ": {");
	for (bool before, first = true; ok && next_pair(&rest, &one);) {
		size_t n = count_key(pairs, one.key, one.key.ptr, &before);
		if (before)
			continue;
		ok = kh_buf_append_str(yaml, first ? " " : ", ") && put_scalar(yaml, one.key) &&
		     kh_buf_append_str(yaml, ": ") && put_values(yaml, pairs, one.key, n);
		first = false;
	}
	*what = rest;
	return ok && rest.len == 0 && kh_buf_append_str(yaml, " } }");
}

/* What was made here stands at no line of anybody's. */
static void unplace(struct kh_yaml_node *node)
{
	struct kh_yaml_node *key = (struct kh_yaml_node *)(uintptr_t)node->key;
	node->line = node->column = 0;
	if (key)
		key->line = key->column = 0;
	for (struct kh_yaml_node *child = node->first; child; child = child->next)
		unplace(child);
}

static bool parse(struct kh_reader *reader, struct kh_slice yaml, struct kh_yaml_tree *tree,
		  struct kh_use_text *out)
{
	if (!kh_tree_parse(tree, yaml, reader))
		return false;
	const struct kh_yaml_node *root = tree->root;
	if (root->kind != KH_NODE_MAP || root->count != 1 || root->first->kind != KH_NODE_MAP) {
		kh_reader_error(reader, root, "use: expected { PRESET: { PARAMETER: VALUE } }");
		return false;
	}
	out->name = root->first->key->text;
	out->arguments = root->first;
	return true;
}

bool kh_use_text_read(struct kh_reader *reader, const char *text, struct kh_yaml_tree *tree,
		      struct kh_use_text *out)
{
	struct kh_slice all = kh_slice_trim(kh_slice_str(text)), wrong;
	size_t colon = kh_slice_find(all, ':', 0);
	*out = (struct kh_use_text){ .name = all };
	if (kh_slice_has_prefix(all, KH_SLICE("{")))
		return parse(reader, all, tree, out);
	if (colon >= all.len)
		return true;
	kh_cleanup(kh_buf_fini) struct kh_buf yaml;
	kh_buf_init(&yaml, USE_BYTES);
	struct kh_slice name = kh_slice_trim(kh_slice_sub(all, 0, colon)),
			pairs = kh_slice_sub(all, colon + 1, all.len);
	if (put_yaml(&yaml, name, pairs, &wrong) && parse(reader, kh_buf_view(&yaml), tree, out)) {
		unplace(tree->root);
		return true;
	}
	if (wrong.len == 0)
		return false;
	kh_reader_error(reader, NULL,
			"use: \"%.*s\": a parameter is KEY=VALUE (PRESET:KEY=VALUE,KEY=VALUE)",
			(int)(wrong.len < 100 ? wrong.len : 100), wrong.ptr);
	return false;
}

/* ---- the way back ---- */

/* Nothing that a pair or a shell reads as more than itself, but for a star, which needs quotes. */
static bool is_plain(struct kh_slice text)
{
	for (size_t i = 0; i < text.len; i++)
		if (!kh_is_alpha(text.ptr[i]) && !kh_is_digit(text.ptr[i]) &&
		    (text.ptr[i] == '\0' || !strchr("-._:@+/*", text.ptr[i])))
			return false;
	return text.len > 0;
}

static bool is_boolean(const struct kh_yaml_node *node)
{
	return node->kind == KH_NODE_SCALAR && (kh_slice_eq(node->text, KH_SLICE("true")) ||
						kh_slice_eq(node->text, KH_SLICE("false")));
}

/* Return: false without memory. What can't be said so makes *plain false. */
static bool put_argument(struct kh_buf *text, const struct kh_yaml_node *argument, bool *plain)
{
	bool many = argument->kind == KH_NODE_LIST, ok = true;
	/* An empty list says something, which no pair can say. */
	*plain = *plain && (!many || argument->first);
	for (const struct kh_yaml_node *value = many ? argument->first : argument; ok && value;
	     value = many ? value->next : NULL) {
		*plain = *plain && value->kind == KH_NODE_SCALAR && is_plain(value->text) &&
			 is_plain(argument->key->text);
		if (!*plain)
			return true;
		ok = kh_buf_printf(text, "%s%.*s=%.*s", kh_buf_len(text) ? "," : "",
				   (int)argument->key->text.len, argument->key->text.ptr,
				   (int)value->text.len, value->text.ptr);
	}
	return ok;
}

bool kh_rules_note_use(struct kh_rules *rules, const char *preset, struct kh_where where,
		       const struct kh_yaml_node *arguments)
{
	kh_cleanup(kh_buf_fini) struct kh_buf text;
	struct kh_preset_use use = { .preset = kh_slice_dup(kh_slice_str(preset)), .where = where };
	bool plain = true, ok = use.preset != NULL;
	kh_buf_init(&text, USE_BYTES);
	for (const struct kh_yaml_node *one = arguments ? arguments->first : NULL; ok && one;
	     one = one->next) {
		use.narrowed = use.narrowed || !is_boolean(one);
		plain = plain && put_argument(&text, one, &plain);
	}
	use.arguments = ok && plain ? kh_slice_dup(kh_buf_view(&text)) : NULL;
	struct kh_preset_use *slot =
		ok ? kh_list_add(&rules->uses, &rules->n_uses, sizeof(*slot)) : NULL;
	if (slot) {
		*slot = use;
		return true;
	}
	free(use.preset);
	free(use.arguments);
	return false;
}
