/* walk.c - fills structs from a YAML tree by the table of options
 *
 * A row's path says where it is: "timeouts.header" is the key `header` of the map `timeouts`.
 * Sections share the struct of the map around them. Items of a list or a named map ("listen[]",
 * "credentials.*") have a struct each. Rows are read in the order of the table, not of the file, so
 * that a row comes after those that it refers to. The diagnostics are sorted into the file's order
 * afterwards.
 */
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/escape.h>

#include "config_internal.h"

/* The name of a row that stands directly below `prefix`, NULL for any other row. */
static const char *child_name(const struct kh_option *option, const char *prefix, size_t len)
{
	const char *rest = option->path;
	if (len > 0) {
		if (rest[0] != prefix[0] || strncmp(rest, prefix, len) != 0 || rest[len] != '.')
			return NULL;
		rest += len + 1;
	}
	return strpbrk(rest, ".[*") ? NULL : rest;
}

/* What other programs call these keys. */
static void offer_other_words(struct kh_nearest *nearest, const char *name)
{
	static const struct {
		const char *other, *name;
	} words[] = {
		{ "command", "exec" },	 { "cmd", "exec" },	{ "path", "file" },
		{ "variable", "env" },	 { "host", "hosts" },	{ "domains", "hosts" },
		{ "headers", "header" }, { "token", "bearer" },
	};
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(words[i].name, name) == 0)
			kh_nearest_offer_for(nearest, words[i].other, name);
}

static void unknown_key(struct kh_reader *reader, const char *prefix, unsigned in,
			const struct kh_yaml_node *key)
{
	struct kh_nearest nearest;
	kh_nearest_init(&nearest, key->text);
	size_t len = strlen(prefix);
	bool quiet = false;
	for (size_t i = 0; i < reader->options->count; i++) {
		const char *name = child_name(&reader->options->rows[i], prefix, len);
		if (name && (reader->options->rows[i].flags & in)) {
			kh_nearest_offer(&nearest, name);
			offer_other_words(&nearest, name);
			quiet = quiet || (reader->options->rows[i].flags & KH_IS_QUIET);
		}
	}
	char hint[KH_NEAREST_BYTES];
	(void)kh_nearest_hint(&nearest, hint);
	/* Where a secret is not far, what is there by mistake may be one. */
	bool show = key->text.len <= 48 && (!quiet || nearest.best);
	kh_reader_error(reader, key, "unknown key%s%s%s%s%s%s", show ? " \"" : "",
			show ? kh_esc(key->text) : "", show ? "\"" : "", len ? " in " : "", prefix,
			hint);
}

static void read_map(struct kh_reader *reader, const char *prefix, unsigned in,
		     const struct kh_yaml_node *map, void *base);

static void read_items(struct kh_reader *reader, const struct kh_option *option, unsigned in,
		       const struct kh_yaml_node *node, void *base)
{
	bool is_list = option->type == KH_OPTION_LIST;
	if (node->kind != (is_list ? KH_NODE_LIST : KH_NODE_MAP)) {
		kh_reader_wrong_type(reader, option, node);
		return;
	}
	char *parent = (char *)base + option->offset;
	for (const struct kh_yaml_node *child = node->first; child; child = child->next) {
		if (child->kind != KH_NODE_MAP) {
			kh_reader_error(reader, child, "%s: expected a map, got %s", option->items,
					kh_node_what(child));
			continue;
		}
		void *item = option->add(reader, parent, child);
		if (!item)
			continue;
		const struct kh_reader_item named = { reader->item, option->items,
						      is_list ? (struct kh_slice){ 0 }
							      : child->key->text };
		if (!is_list)
			reader->item = &named;
		kh_walk_defaults(reader, option->items, item);
		read_map(reader, option->items, in, child, item);
		if (option->done)
			option->done(reader, parent, item, child);
		if (!is_list)
			reader->item = named.above;
	}
}

static void read_option(struct kh_reader *reader, const struct kh_option *option, unsigned in,
			const struct kh_yaml_node *node, void *base)
{
	switch (option->type) {
	case KH_OPTION_SECTION:
		if (node->kind == KH_NODE_MAP)
			read_map(reader, option->path, in, node, base);
		else if (option->read)
			option->read(reader, option, node, base);
		else
			kh_reader_wrong_type(reader, option, node);
		return;
	case KH_OPTION_LIST:
	case KH_OPTION_MAP:
		read_items(reader, option, in, node, base);
		return;
	case KH_OPTION_CUSTOM:
		option->read(reader, option, node, base);
		return;
	case KH_OPTION_NODE: {
		const struct kh_yaml_node **slot = (void *)((char *)base + option->offset);
		*slot = node;
		return;
	}
	case KH_OPTION_TEXT:
	case KH_OPTION_PATH:
	case KH_OPTION_BOOL:
	case KH_OPTION_COUNT:
	case KH_OPTION_DURATION:
	case KH_OPTION_SIZE:
	case KH_OPTION_CHOICE:
		kh_value_set(reader, option, node, base);
		return;
	}
}

static void read_map(struct kh_reader *reader, const char *prefix, unsigned in,
		     const struct kh_yaml_node *map, void *base)
{
	size_t len = strlen(prefix), known = 0;
	for (size_t i = 0; i < reader->options->count; i++) {
		const struct kh_option *option = &reader->options->rows[i];
		const char *name = child_name(option, prefix, len);
		if (!name || !(option->flags & in))
			continue;
		const struct kh_yaml_node *node = kh_node_get(map, name);
		if (node) {
			known++;
			read_option(reader, option, in, node, base);
		} else if (option->flags & KH_IS_REQUIRED) {
			kh_reader_error(reader, map, "%s is missing%s%s", option->path,
					option->expects ? ": it is " : "",
					option->expects ? option->expects : "");
		}
	}
	if (known == map->count)
		return;
	for (const struct kh_yaml_node *child = map->first; child; child = child->next) {
		bool found = false;
		for (size_t i = 0; i < reader->options->count && !found; i++) {
			const char *name = child_name(&reader->options->rows[i], prefix, len);
			found = name && (reader->options->rows[i].flags & in) &&
				kh_slice_eq(child->key->text, kh_slice_str(name));
		}
		if (!found)
			unknown_key(reader, prefix, in, child->key);
	}
}

void kh_walk_map(struct kh_reader *reader, const char *path, unsigned in,
		 const struct kh_yaml_node *map, void *base)
{
	read_map(reader, path, in, map, base);
}

void kh_walk(struct kh_reader *reader, const struct kh_yaml_node *root, unsigned in, void *base)
{
	if (root->kind != KH_NODE_MAP) {
		kh_reader_error(reader, root, "expected a map at the top, got %s",
				kh_node_what(root));
		return;
	}
	read_map(reader, "", in, root, base);
}

const struct kh_option *kh_walk_row(const struct kh_reader *reader, const char *path)
{
	for (size_t i = 0; i < reader->options->count; i++)
		if (strcmp(reader->options->rows[i].path, path) == 0)
			return &reader->options->rows[i];
	return NULL;
}

void kh_walk_option(struct kh_reader *reader, const char *path, unsigned in,
		    const struct kh_yaml_node *node, void *base)
{
	for (size_t i = 0; i < reader->options->count; i++)
		if (strcmp(reader->options->rows[i].path, path) == 0 &&
		    (reader->options->rows[i].flags & in))
			read_option(reader, &reader->options->rows[i], in, node, base);
}

/* What is left of the path of a row of the same struct; NULL for a row of another, and of the items
 * further down. */
static const char *rest_below(const struct kh_option *option, const char *prefix, size_t len)
{
	const char *rest = option->path;
	if (len > 0) {
		if (strncmp(rest, prefix, len) != 0 || rest[len] != '.')
			return NULL;
		rest += len + 1;
	}
	return strpbrk(rest, "[*") ? NULL : rest;
}

void kh_walk_defaults(struct kh_reader *reader, const char *prefix, void *base)
{
	size_t len = strlen(prefix);
	for (size_t i = 0; i < reader->options->count; i++) {
		const struct kh_option *option = &reader->options->rows[i];
		if (!option->fallback)
			continue;
		if (!rest_below(option, prefix, len))
			continue;
		struct kh_yaml_node node = { .kind = KH_NODE_SCALAR,
					     .plain = true,
					     .text = kh_slice_str(option->fallback) };
		read_option(reader, option, option->flags, &node, base);
	}
}

void kh_walk_free(const struct kh_options *options, const char *prefix, void *base)
{
	size_t len = strlen(prefix);
	for (size_t i = 0; i < options->count; i++) {
		const struct kh_option *option = &options->rows[i];
		const char *rest = rest_below(option, prefix, len);
		bool text = option->type == KH_OPTION_TEXT || option->type == KH_OPTION_PATH;
		if (!text || !rest || !(option->flags & KH_IN_FILE))
			continue;
		char **slot = (void *)((char *)base + option->offset);
		free(*slot);
		*slot = NULL;
	}
}
