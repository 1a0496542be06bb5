/* narrow.c - reads a sandbox's narrowing from a file of its own */
#include <keyhole/base/escape.h>

#include "config_internal.h"

static void read_narrowing(struct kh_reader *reader, const struct kh_yaml_node *root,
			   struct kh_listener_config *into)
{
	const struct kh_yaml_node *list =
		root->kind == KH_NODE_MAP ? kh_node_get(root, "narrow") : NULL;
	if (!list) {
		kh_reader_error(reader, root,
				"expected a map with the key \"narrow\" and a list of rules");
		return;
	}
	for (const struct kh_yaml_node *child = root->first; child; child = child->next)
		if (child != list)
			kh_reader_error(reader, child->key,
					"unknown key \"%s\": only \"narrow\" is allowed here",
					kh_esc(child->key->text));
	reader->narrowing = &into->narrow;
	kh_walk_option(reader, "listen[].narrow", KH_IN_FILE, list, into);
}

bool kh_narrow_parse(const char *name, struct kh_slice yaml, const char *preset_dir,
		     struct kh_rules *out, struct kh_diagnostics *diags)
{
	struct kh_config *config = kh_config_new();
	struct kh_listener_config listener = { 0 };
	struct kh_reader reader = {
		.config = config, .diags = diags, .options = &kh_options, .preset_dir = preset_dir
	};
	struct kh_yaml_tree tree;
	size_t errors = diags->errors;
	*out = (struct kh_rules){ 0 };
	if (!config || !kh_config_add_file(config, name, &reader.file)) {
		kh_config_free(config);
		(void)kh_reader_no_memory(&reader);
		return false;
	}
	if (kh_tree_parse(&tree, yaml, &reader))
		read_narrowing(&reader, tree.root, &listener);
	kh_pending_fini(&reader);
	kh_presets_fini(&reader);
	kh_tree_free(&tree);
	kh_diagnostics_take_files(diags, config);
	kh_diagnostics_sort(diags);
	kh_config_free(config);
	bool ok = diags->errors == errors;
	for (size_t i = 0; i < listener.narrow.count; i++)
		listener.narrow.list[i].where.file = KH_NO_FILE;
	if (ok)
		*out = listener.narrow;
	else
		kh_rules_fini(&listener.narrow);
	return ok;
}
