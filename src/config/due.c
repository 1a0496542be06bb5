/* due.c - messages that say what an option expects */
#include "config_internal.h"

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

void kh_reader_wrong_type(struct kh_reader *reader, const struct kh_option *option,
			  const struct kh_yaml_node *node)
{
	kh_reader_error(reader, node, "%s: expected %s, got %s", option->path, due(option),
			kh_node_what(node));
}

bool kh_reader_scalar(struct kh_reader *reader, const struct kh_option *option,
		      const struct kh_yaml_node *node)
{
	if (node->kind == KH_NODE_SCALAR && !kh_node_is_empty(node))
		return true;
	kh_reader_wrong_type(reader, option, node);
	return false;
}

bool kh_reader_wants(struct kh_reader *reader, const struct kh_option *option,
		     const struct kh_yaml_node *node, enum kh_node_kind kind)
{
	if (node->kind == kind && node->count > 0)
		return true;
	kh_reader_error(reader, node, "%s: expected %s, got %s", option->path, option->expects,
			node->kind == kind ? "none" : kh_node_what(node));
	return false;
}
