/* walk.c - fills structs from a tree by the table of options
 *
 * A row's path says where it stands: "timeouts.header" is the key `header` of the map `timeouts`.
 * Sections share the struct of what is around them; items of a list or a named map ("listen[]",
 * "credentials.*") have a struct each. Rows are read in the order of the table, not of the file, so
 * that what others refer to comes first; the diagnostics are put into the file's order afterwards.
 */
#include <string.h>

#include <keyhole/escape.h>

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

static void unknown_key(struct kh_reader *reader, const char *prefix, unsigned in,
			const struct kh_node *key)
{
	struct kh_nearest nearest;
	kh_nearest_init(&nearest, key->text);
	size_t len = strlen(prefix);
	bool quiet = false;
	for (size_t i = 0; i < kh_options_count; i++) {
		const char *name = child_name(&kh_options[i], prefix, len);
		if (name && (kh_options[i].flags & in)) {
			kh_nearest_offer(&nearest, name);
			quiet = quiet || (kh_options[i].flags & KH_IS_QUIET);
		}
	}
	char hint[KH_NEAREST_BYTES];
	(void)kh_nearest_hint(&nearest, hint);
	/* Where a secret is not far, what stands there by mistake may be one. */
	bool show = key->text.len <= 48 && (!quiet || nearest.best);
	kh_reader_error(reader, key, "unknown key%s%s%s%s%s%s", show ? " \"" : "",
			show ? kh_esc(key->text) : "", show ? "\"" : "", len ? " in " : "", prefix,
			hint);
}

static void read_map(struct kh_reader *reader, const char *prefix, unsigned in,
		     const struct kh_node *map, void *base);

static const char *due(const struct kh_option *option)
{
	if (option->expects)
		return option->expects;
	switch (option->type) {
	case KH_OPTION_SECTION:
	case KH_OPTION_MAP:
		return "a map";
	case KH_OPTION_LIST:
		return "a list";
	case KH_OPTION_PATH:
		return "a path";
	case KH_OPTION_BOOL:
		return "true or false";
	case KH_OPTION_COUNT:
		return "a whole number";
	case KH_OPTION_DURATION:
		return "a duration";
	case KH_OPTION_SIZE:
		return "a size";
	case KH_OPTION_CHOICE:
		return "a word";
	case KH_OPTION_TEXT:
	case KH_OPTION_NODE:
	case KH_OPTION_CUSTOM:
		break;
	}
	return "a text";
}

static void wrong_type(struct kh_reader *reader, const struct kh_option *option,
		       const struct kh_node *node)
{
	kh_reader_error(reader, node, "%s: expected %s, got %s", option->path, due(option),
			kh_node_what(node));
}

bool kh_walk_scalar(struct kh_reader *reader, const struct kh_option *option,
		    const struct kh_node *node)
{
	if (node->kind == KH_NODE_SCALAR && !kh_node_is_empty(node))
		return true;
	wrong_type(reader, option, node);
	return false;
}

static void read_items(struct kh_reader *reader, const struct kh_option *option, unsigned in,
		       const struct kh_node *node, void *base)
{
	bool is_list = option->type == KH_OPTION_LIST;
	if (node->kind != (is_list ? KH_NODE_LIST : KH_NODE_MAP)) {
		wrong_type(reader, option, node);
		return;
	}
	char *parent = (char *)base + option->offset;
	for (const struct kh_node *child = node->first; child; child = child->next) {
		if (child->kind != KH_NODE_MAP) {
			kh_reader_error(reader, child, "%s: expected a map, got %s", option->items,
					kh_node_what(child));
			continue;
		}
		void *item = option->add(reader, parent, child);
		if (!item)
			continue;
		kh_walk_defaults(reader, option->items, item);
		read_map(reader, option->items, in, child, item);
		if (option->done)
			option->done(reader, parent, item, child);
	}
}

static void read_option(struct kh_reader *reader, const struct kh_option *option, unsigned in,
			const struct kh_node *node, void *base)
{
	switch (option->type) {
	case KH_OPTION_SECTION:
		if (node->kind == KH_NODE_MAP)
			read_map(reader, option->path, in, node, base);
		else if (option->read)
			option->read(reader, option, node, base);
		else
			wrong_type(reader, option, node);
		return;
	case KH_OPTION_LIST:
	case KH_OPTION_MAP:
		read_items(reader, option, in, node, base);
		return;
	case KH_OPTION_CUSTOM:
		option->read(reader, option, node, base);
		return;
	case KH_OPTION_NODE: {
		const struct kh_node **slot = (void *)((char *)base + option->offset);
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
		     const struct kh_node *map, void *base)
{
	size_t len = strlen(prefix), known = 0;
	for (size_t i = 0; i < kh_options_count; i++) {
		const struct kh_option *option = &kh_options[i];
		const char *name = child_name(option, prefix, len);
		if (!name || !(option->flags & in))
			continue;
		const struct kh_node *node = kh_node_get(map, name);
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
	for (const struct kh_node *child = map->first; child; child = child->next) {
		bool found = false;
		for (size_t i = 0; i < kh_options_count && !found; i++) {
			const char *name = child_name(&kh_options[i], prefix, len);
			found = name && (kh_options[i].flags & in) &&
				kh_slice_eq(child->key->text, kh_slice_str(name));
		}
		if (!found)
			unknown_key(reader, prefix, in, child->key);
	}
}

void kh_walk_map(struct kh_reader *reader, const char *path, unsigned in, const struct kh_node *map,
		 void *base)
{
	read_map(reader, path, in, map, base);
}

void kh_walk(struct kh_reader *reader, const struct kh_node *root, unsigned in, void *base)
{
	if (root->kind != KH_NODE_MAP) {
		kh_reader_error(reader, root, "expected a map at the top, got %s",
				kh_node_what(root));
		return;
	}
	read_map(reader, "", in, root, base);
}

void kh_walk_option(struct kh_reader *reader, const char *path, unsigned in,
		    const struct kh_node *node, void *base)
{
	for (size_t i = 0; i < kh_options_count; i++)
		if (strcmp(kh_options[i].path, path) == 0 && (kh_options[i].flags & in))
			read_option(reader, &kh_options[i], in, node, base);
}

void kh_walk_defaults(struct kh_reader *reader, const char *prefix, void *base)
{
	size_t len = strlen(prefix);
	for (size_t i = 0; i < kh_options_count; i++) {
		const struct kh_option *option = &kh_options[i];
		if (!option->fallback)
			continue;
		const char *rest = option->path;
		if (len > 0) {
			if (strncmp(rest, prefix, len) != 0 || rest[len] != '.')
				continue;
			rest += len + 1;
		}
		if (strpbrk(rest, "[*"))
			continue; /* of an item further down */
		struct kh_node node = { .kind = KH_NODE_SCALAR,
					.plain = true,
					.text = kh_slice_str(option->fallback) };
		read_option(reader, option, option->flags, &node, base);
	}
}
