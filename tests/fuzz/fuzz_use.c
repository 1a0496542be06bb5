/*
 * fuzz_use.c - a preset as it is written on a command line
 *
 * What is taken has a name and, where it has parameters, a map of them; a name stands there once.
 * Else it is said what is wrong.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../src/config/config_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
	if (!condition)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum { INPUT_BYTES = 4096 };
	char text[INPUT_BYTES + 1];
	struct kh_diagnostics diags = { 0 };
	struct kh_config *config = kh_config_new();
	struct kh_reader reader = { .config = config, .diags = &diags, .options = &kh_options };
	struct kh_yaml_tree tree = { 0 };
	struct kh_use_text use;
	if (size > INPUT_BYTES || !config || memchr(data, '\0', size)) {
		kh_config_free(config);
		return 0;
	}
	memcpy(text, data, size);
	text[size] = '\0';
	bool ok = kh_use_text_read(&reader, text, &tree, &use);
	require(ok == (diags.errors == 0));
	if (ok && use.arguments) {
		require(use.arguments->kind == KH_NODE_MAP);
		require(use.name.ptr[use.name.len] == '\0');
		for (const struct kh_yaml_node *one = use.arguments->first; one; one = one->next)
			for (const struct kh_yaml_node *two = one->next; two; two = two->next)
				require(!kh_slice_eq(one->key->text, two->key->text));
	}
	kh_tree_free(&tree);
	kh_config_free(config);
	kh_diagnostics_fini(&diags);
	return 0;
}
