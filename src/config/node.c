/* node.c - questions about a node of the YAML tree */
#include "config_internal.h"

const struct kh_yaml_node *kh_node_get(const struct kh_yaml_node *map, const char *key)
{
	for (const struct kh_yaml_node *child = map->first; child; child = child->next)
		if (child->key && kh_slice_eq(child->key->text, kh_slice_str(key)))
			return child;
	return NULL;
}

bool kh_node_is_empty(const struct kh_yaml_node *node)
{
	return node->kind == KH_NODE_SCALAR && node->plain &&
	       (node->text.len == 0 || kh_slice_eq(node->text, KH_SLICE("~")) ||
		kh_slice_eq(node->text, KH_SLICE("null")));
}

const char *kh_node_what(const struct kh_yaml_node *node)
{
	if (node->kind == KH_NODE_MAP)
		return "a map";
	if (node->kind == KH_NODE_LIST)
		return "a list";
	return kh_node_is_empty(node) ? "nothing" : "text";
}
