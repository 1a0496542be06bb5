/* credential_value.c - where the value of a credential comes from: `value`
 *
 * No message of this file shows what stands there: people paste keys where names belong.
 */
#include <stdlib.h>

#include <keyhole/file.h>

#include "config_internal.h"

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
