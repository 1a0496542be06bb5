/* condition.c - the conditions of a rule: query, headers, content_type, models, max_body */
#include <stdlib.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/limits.h>

#include "config_internal.h"

/* Which conditions a key makes, and what it is called in messages. */
struct key {
	enum kh_condition_kind kind;
	const char *name;
	const char *expects;
};

static const struct key query_key = { KH_CONDITION_QUERY, "query",
				      "a map of parameters to patterns such as { v: \"2*\" }" };
static const struct key headers_key = {
	KH_CONDITION_HEADER, "headers", "a map of field names to patterns such as { x-mode: read }"
};
static const struct key type_key = { KH_CONDITION_CONTENT_TYPE, "content_type",
				     "a media type such as application/json or image/*, or several "
				     "in a list" };

static const struct key models_key = { KH_CONDITION_MODEL, "models",
				       "a model's name such as claude-*, or several in a list" };

static bool is_token_byte(char c)
{
	return kh_is_alpha(c) || kh_is_digit(c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* Fields that say how the message is cut and where it goes are not the rule's to look at: they are
 * written anew. */
static bool is_ours(struct kh_slice name)
{
	static const char *const ours[] = { "host",    "connection", "content-length",
					    "te",      "trailer",    "transfer-encoding",
					    "upgrade", "keep-alive", "content-type" };
	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		if (kh_slice_eq(name, kh_slice_str(ours[i])))
			return true;
	return kh_slice_has_prefix(name, KH_SLICE("proxy-"));
}

static const char *model_fault(struct kh_slice pattern)
{
	for (size_t i = 0; i < pattern.len; i++)
		if (pattern.ptr[i] == ' ' || (unsigned char)pattern.ptr[i] > 0x7e)
			return "a model's name contains neither blanks nor letters beyond ASCII";
	return NULL;
}

static const char *content_type_fault(struct kh_slice pattern)
{
	for (size_t i = 0; i < pattern.len; i++)
		if (pattern.ptr[i] != '/' && !is_token_byte(pattern.ptr[i]))
			return "expected a media type such as application/json or image/*, "
			       "without parameters";
	if (kh_slice_find(pattern, '/', 0) == pattern.len &&
	    kh_slice_find(pattern, '*', 0) == pattern.len)
		return "expected a media type such as application/json or image/*";
	return NULL;
}

static const char *name_fault(enum kh_condition_kind kind, struct kh_slice name)
{
	if (name.len == 0 || name.len > KH_LIMIT_PATTERN_BYTES)
		return "a name must have 1 to 256 bytes";
	for (size_t i = 0; i < name.len; i++) {
		if (kind == KH_CONDITION_HEADER &&
		    (!is_token_byte(name.ptr[i]) || name.ptr[i] != kh_lower(name.ptr[i])))
			return "a field's name is written in small letters";
		if ((unsigned char)name.ptr[i] < 0x20 || name.ptr[i] == 0x7f)
			return "a name holds no control characters";
	}
	return NULL;
}

static const char *header_fault(struct kh_slice name, struct kh_slice pattern)
{
	if (kh_slice_find(pattern, ',', 0) < pattern.len)
		return "a pattern holds no comma: each member of a field's list is compared";
	if (!is_ours(name))
		return NULL;
	return kh_slice_eq(name, KH_SLICE("content-type"))
		       ? "the content type has a key of its own, content_type"
		       : "this field frames or routes the message, and is written anew";
}

static const char *unnamed_fault(const char *fault, const char *name)
{
	return !fault && name ? "has no name" : fault;
}

const char *kh_condition_fault(enum kh_condition_kind kind, const char *name, const char *pattern)
{
	struct kh_slice n = kh_slice_str(name), p = kh_slice_str(pattern);
	if (p.len == 0 || p.len > KH_LIMIT_PATTERN_BYTES)
		return "a pattern must have 1 to 256 bytes";
	for (size_t i = 0; i < p.len; i++)
		if ((unsigned char)p.ptr[i] < 0x20 || p.ptr[i] == 0x7f)
			return "a pattern holds no control characters";
	switch (kind) {
	case KH_CONDITION_MODEL:
		return unnamed_fault(model_fault(p), name);
	case KH_CONDITION_CONTENT_TYPE:
		return unnamed_fault(content_type_fault(p), name);
	case KH_CONDITION_HEADER:
		return name_fault(kind, n) ? name_fault(kind, n) : header_fault(n, p);
	case KH_CONDITION_QUERY:
		return name_fault(kind, n);
	case KH_CONDITION_NONE:
	case KH_CONDITION_KINDS:
		break;
	}
	return "is no condition";
}

static void add_pattern(struct kh_reader *reader, const struct key *key,
			struct kh_condition *condition, const struct kh_yaml_node *node)
{
	if (node->kind != KH_NODE_SCALAR || kh_node_is_empty(node)) {
		kh_reader_error(reader, node, "rules[].%s: expected %s, got %s", key->name,
				key->expects, kh_node_what(node));
		return;
	}
	char *pattern = kh_slice_dup(node->text);
	const char *fault = pattern ? kh_condition_fault(condition->kind, condition->name, pattern)
				    : "holds a NUL";
	if (fault) {
		kh_reader_error(reader, node, "rules[].%s: \"%s\": %s", key->name,
				kh_esc(node->text), fault);
		free(pattern);
		return;
	}
	char **slot = kh_list_add(&condition->patterns, &condition->n_patterns, sizeof(*slot));
	if (slot) {
		*slot = pattern;
		return;
	}
	free(pattern);
	(void)kh_reader_no_memory(reader);
}

/* One name with its pattern, or a list of them. */
static void add_condition(struct kh_reader *reader, const struct key *key, struct kh_rule *rule,
			  const struct kh_yaml_node *name, const struct kh_yaml_node *patterns)
{
	struct kh_rule_more *more = kh_rule_more(rule);
	if (more && more->n_conditions == KH_LIMIT_CONDITIONS) {
		kh_reader_error(reader, patterns, "rules[].%s: more than %d conditions", key->name,
				KH_LIMIT_CONDITIONS);
		return;
	}
	struct kh_condition *condition =
		more ? kh_list_add(&more->conditions, &more->n_conditions, sizeof(*condition))
		     : NULL;
	if (condition && name)
		condition->name = kh_slice_dup(name->text);
	if (!condition || (name && !condition->name)) {
		(void)kh_reader_no_memory(reader);
		return;
	}
	condition->kind = key->kind;
	const char *fault = name ? kh_condition_fault(key->kind, condition->name, "*") : NULL;
	if (fault) {
		kh_reader_error(reader, name, "rules[].%s: \"%s\": %s", key->name,
				kh_esc(name->text), fault);
		return;
	}
	if (patterns->kind != KH_NODE_LIST) {
		add_pattern(reader, key, condition, patterns);
		return;
	}
	if (patterns->count == 0 || patterns->count > KH_LIMIT_PATTERNS)
		kh_reader_error(reader, patterns, "rules[].%s: expected 1 to %d patterns",
				key->name, KH_LIMIT_PATTERNS);
	else
		for (const struct kh_yaml_node *child = patterns->first; child; child = child->next)
			add_pattern(reader, key, condition, child);
}

static void take_map(struct kh_reader *reader, const struct key *key, struct kh_rule *rule,
		     const struct kh_yaml_node *node)
{
	if (node->kind != KH_NODE_MAP || node->count == 0) {
		kh_reader_error(reader, node, "rules[].%s: expected %s, got %s", key->name,
				key->expects,
				node->kind == KH_NODE_MAP ? "an empty one" : kh_node_what(node));
		return;
	}
	for (const struct kh_yaml_node *child = node->first; child; child = child->next)
		add_condition(reader, key, rule, child->key, child);
}

static void take_max_body(struct kh_reader *reader, struct kh_rule *rule,
			  const struct kh_yaml_node *node)
{
	uint64_t bytes;
	if (node->kind != KH_NODE_SCALAR || !kh_value_size(node->text, &bytes)) {
		kh_reader_error(reader, node,
				"rules[].max_body: expected a size such as 512B, 64KiB or 32MiB");
		return;
	}
	if (!rule->allow) {
		kh_reader_error(reader, node,
				"rules[].max_body: belongs to a rule that allows: a body's size is "
				"not always known when a request is judged");
		return;
	}
	struct kh_rule_more *more = kh_rule_more(rule);
	if (!more) {
		(void)kh_reader_no_memory(reader);
		return;
	}
	more->has_max_body = true;
	more->max_body = bytes;
}

static void take_mode(struct kh_reader *reader, struct kh_rule *rule,
		      const struct kh_yaml_node *node)
{
	bool scalar = node->kind == KH_NODE_SCALAR;
	if (scalar && kh_slice_eq(node->text, KH_SLICE("enforce")))
		return;
	if (!scalar || !kh_slice_eq(node->text, KH_SLICE("observe"))) {
		kh_reader_error(reader, node, "rules[].mode: expected enforce or observe");
		return;
	}
	if (rule->allow) {
		kh_reader_error(reader, node,
				"rules[].mode: observe belongs to a rule that denies: one that "
				"allows denies nothing");
		return;
	}
	struct kh_rule_more *more = kh_rule_more(rule);
	if (more)
		more->observe = true;
	else
		(void)kh_reader_no_memory(reader);
}

void kh_conditions_take(struct kh_reader *reader, struct kh_rule *rule,
			const struct kh_rule_draft *draft)
{
	if (draft->query)
		take_map(reader, &query_key, rule, draft->query);
	if (draft->headers)
		take_map(reader, &headers_key, rule, draft->headers);
	if (draft->content_type)
		add_condition(reader, &type_key, rule, NULL, draft->content_type);
	if (draft->models)
		add_condition(reader, &models_key, rule, NULL, draft->models);
	if (draft->max_body)
		take_max_body(reader, rule, draft->max_body);
	if (draft->mode)
		take_mode(reader, rule, draft->mode);
}
