/*
 * expand.c - fills a preset's templates with the values of one use
 *
 * `{name}` in the text of a rule, or in a host of a credential, stands for a value of that list.
 * The rule (or host) is repeated for each value; the same name twice is the same value. `when`
 * keeps a rule or a file, or drops it. The tree that was read stays as it is: what changes is
 * copied, and each copy keeps the place of its template.
 */
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/limits.h>

#include "config_internal.h"

enum { TEXT_BYTES = 4096 };

struct expansion {
	struct kh_reader *reader;
	const struct kh_parameters *parameters;
	const struct kh_yaml_node *const *values; /* one for each parameter */
	struct kh_yaml_tree *tree;		  /* of the copies */
	size_t made;
};

static struct kh_yaml_node *copy(struct expansion *e, const struct kh_yaml_node *node)
{
	struct kh_yaml_node *out = kh_tree_alloc(e->tree, sizeof(*out));
	if (!out) {
		(void)kh_reader_no_memory(e->reader);
		return NULL;
	}
	*out = *node;
	out->next = NULL;
	return out;
}

static struct kh_yaml_node *copy_empty(struct expansion *e, const struct kh_yaml_node *node)
{
	struct kh_yaml_node *out = copy(e, node);
	if (out) {
		out->first = out->last = NULL;
		out->count = 0;
	}
	return out;
}

static void append(struct kh_yaml_node *list, struct kh_yaml_node *child)
{
	if (!child)
		return;
	if (list->last)
		list->last->next = child;
	else
		list->first = child;
	list->last = child;
	list->count++;
}

/* --- texts */

/* The next `{name}` from `at` on: its bounds, braces and all. Return: false when there is none. */
static bool next_hole(struct kh_slice text, size_t at, size_t *begin, size_t *end)
{
	*begin = kh_slice_find(text, '{', at);
	size_t close = kh_slice_find(text, '}', *begin);
	*end = close < text.len ? close + 1 : text.len;
	return *begin < text.len;
}

static bool has_hole(struct kh_slice text)
{
	return kh_slice_find(text, '{', 0) < text.len || kh_slice_find(text, '}', 0) < text.len;
}

static bool is_paired(struct kh_slice text)
{
	bool open = false;
	for (size_t i = 0; i < text.len; i++) {
		if (text.ptr[i] != '{' && text.ptr[i] != '}')
			continue;
		if (open == (text.ptr[i] == '{'))
			return false;
		open = !open;
	}
	return !open;
}

/* Where the host of a rule's text begins and ends; a text of `hosts` is one from end to end. */
static void find_host(struct kh_slice text, size_t *begin, size_t *end)
{
	const char *mark = memmem(text.ptr, text.len, "://", 3);
	*begin = mark ? (size_t)(mark - text.ptr) + 3 : 0;
	*end = mark ? kh_slice_find(text, '/', *begin) : text.len;
}

static bool is_star(struct kh_slice text, size_t at)
{
	return at < text.len && strchr("*{}", text.ptr[at]);
}

/* Why a value can't stand there, whatever it is; NULL when it can. */
static const char *place_fault(const struct kh_parameter *one, struct kh_slice text, size_t begin,
			       size_t end)
{
	size_t host, path;
	find_host(text, &host, &path);
	bool in_host = begin >= host && begin < path;
	if (one->type == KH_PARAMETER_BOOLEAN)
		return "only a list can be in a text: a boolean goes with `when`";
	if (begin < host || (in_host && kh_slice_find(text, ':', host) < begin))
		return "a value can only be in a host or in a path";
	if (in_host && one->type != KH_PARAMETER_LABEL && one->type != KH_PARAMETER_HOST)
		return "in a host a value is a label or a host";
	/* Two stars side by side would cross segments. */
	if ((begin > 0 && is_star(text, begin - 1)) || is_star(text, end))
		return "a value can't be beside a star or another value";
	return NULL;
}

/* Which lists a text names. Return: false when one of them is none, which was said. */
static bool find_holes(struct expansion *e, const struct kh_yaml_node *node,
		       bool used[KH_LIMIT_PRESET_PARAMETERS])
{
	if (!is_paired(node->text)) {
		kh_reader_error(e->reader, node, "\"%s\": a brace without its other half",
				kh_esc(node->text));
		return false;
	}
	size_t begin, end;
	for (size_t at = 0; next_hole(node->text, at, &begin, &end); at = end) {
		struct kh_slice name = kh_slice_sub(node->text, begin + 1, end - 1);
		const struct kh_parameter *one = kh_parameter_find(e->parameters, name);
		char hint[KH_NEAREST_BYTES];
		const char *fault = one ? place_fault(one, node->text, begin, end) : NULL;
		if (!one)
			kh_reader_error(e->reader, node, "\"%s\": no parameter is called \"%s\"%s",
					kh_esc(node->text), kh_esc(name),
					kh_parameter_hint(e->parameters, name, hint));
		else if (fault)
			kh_reader_error(e->reader, node, "\"%s\": {%s}: %s", kh_esc(node->text),
					kh_esc(name), fault);
		if (!one || fault)
			return false;
		used[one - e->parameters->list] = true;
	}
	return true;
}

/* The template with the value under each cursor. */
static struct kh_yaml_node *fill(struct expansion *e, const struct kh_yaml_node *node,
				 const struct kh_yaml_node *const *cursors)
{
	struct kh_buf text;
	kh_buf_init(&text, TEXT_BYTES);
	size_t begin, end, at = 0;
	bool ok = true;
	for (; ok && next_hole(node->text, at, &begin, &end); at = end) {
		const struct kh_parameter *one = kh_parameter_find(
			e->parameters, kh_slice_sub(node->text, begin + 1, end - 1));
		ok = one && kh_buf_append_slice(&text, kh_slice_sub(node->text, at, begin)) &&
		     kh_buf_append_slice(&text, cursors[one - e->parameters->list]->text);
	}
	ok = ok && kh_buf_append_slice(&text, kh_slice_sub(node->text, at, node->text.len));
	struct kh_yaml_node *out = ok ? copy(e, node) : NULL;
	char *bytes = out ? kh_tree_alloc(e->tree, kh_buf_len(&text) + 1) : NULL;
	if (bytes) {
		memcpy(bytes, kh_buf_view(&text).ptr, kh_buf_len(&text));
		out->text = kh_slice_of(bytes, kh_buf_len(&text));
	} else {
		kh_reader_error(e->reader, node, "\"%s\": too long", kh_esc(node->text));
	}
	kh_buf_fini(&text);
	return bytes ? out : NULL;
}

/* Every text that a template stands for, each given to `put`. */
static void each_text(struct expansion *e, const struct kh_yaml_node *node,
		      void (*put)(struct expansion *, struct kh_yaml_node *, void *), void *arg)
{
	bool used[KH_LIMIT_PRESET_PARAMETERS] = { false };
	const struct kh_yaml_node *cursors[KH_LIMIT_PRESET_PARAMETERS] = { NULL };
	if (!find_holes(e, node, used))
		return;
	size_t n = e->parameters->count;
	for (size_t i = 0; i < n; i++)
		if (used[i])
			cursors[i] = e->values[i]->kind == KH_NODE_LIST ? e->values[i]->first
									: e->values[i];
	for (;;) {
		if (++e->made > KH_LIMIT_PRESET_RULES) {
			kh_reader_error(e->reader, node,
					"\"%s\": more than %d rules and hosts: use fewer values at "
					"a time",
					kh_esc(node->text), KH_LIMIT_PRESET_RULES);
			return;
		}
		put(e, fill(e, node, cursors), arg);
		/* The last list turns fastest. */
		size_t i = n;
		for (; i > 0; i--) {
			if (!used[i - 1] || e->values[i - 1]->kind != KH_NODE_LIST)
				continue;
			cursors[i - 1] = cursors[i - 1]->next;
			if (cursors[i - 1])
				break;
			cursors[i - 1] = e->values[i - 1]->first;
		}
		if (i == 0)
			return;
	}
}

/* --- when */

/* "push", "not push", at an item of `list`. Return: it holds; false too where it is wrong, which
 * was said. */
static bool holds(struct expansion *e, const char *list, const struct kh_yaml_node *node)
{
	bool no = kh_slice_has_prefix(node->text, KH_SLICE("not "));
	struct kh_slice name = no ? kh_slice_sub(node->text, 4, node->text.len) : node->text;
	const struct kh_parameter *one =
		node->kind == KH_NODE_SCALAR ? kh_parameter_find(e->parameters, name) : NULL;
	char hint[KH_NEAREST_BYTES];
	if (one && one->type == KH_PARAMETER_BOOLEAN)
		return no !=
		       kh_slice_eq(e->values[one - e->parameters->list]->text, KH_SLICE("true"));
	if (node->kind != KH_NODE_SCALAR || one)
		kh_reader_error(e->reader, node,
				"%s[].when: expected the name of a boolean parameter, or \"not\" "
				"and it, or a list of them that must all hold",
				list);
	else
		kh_reader_error(e->reader, node, "%s[].when: no parameter is called \"%s\"%s", list,
				kh_esc(name), kh_parameter_hint(e->parameters, name, hint));
	return false;
}

static bool all_hold(struct expansion *e, const char *list, const struct kh_yaml_node *when)
{
	bool all = true;
	if (!when)
		return true;
	if (when->kind != KH_NODE_LIST)
		return holds(e, list, when);
	for (const struct kh_yaml_node *one = when->first; one; one = one->next)
		all = holds(e, list, one) && all;
	return all;
}

/* --- rules and credentials */

struct item {
	const struct kh_yaml_node *rule, *text; /* `text` is one of its values */
	struct kh_yaml_node *list;
};

static void put_rule(struct expansion *e, struct kh_yaml_node *text, void *arg)
{
	const struct item *item = arg;
	struct kh_yaml_node *rule = text ? copy_empty(e, item->rule) : NULL;
	for (const struct kh_yaml_node *one = rule ? item->rule->first : NULL; one; one = one->next)
		if (!kh_slice_eq(one->key->text, KH_SLICE("when")))
			append(rule, one == item->text ? text : copy(e, one));
	if (rule)
		append(item->list, rule);
}

static struct kh_yaml_node *expand_rules(struct expansion *e, const struct kh_yaml_node *rules)
{
	struct kh_yaml_node *out = copy_empty(e, rules);
	for (const struct kh_yaml_node *rule = out ? rules->first : NULL; rule; rule = rule->next) {
		const struct kh_yaml_node *text = NULL, *when = NULL;
		if (rule->kind == KH_NODE_MAP) {
			text = kh_node_get(rule, "allow");
			text = text ? text : kh_node_get(rule, "deny");
			when = kh_node_get(rule, "when");
		}
		if (!all_hold(e, "rules", when))
			continue;
		bool template = text && text->kind == KH_NODE_SCALAR;
		if (!template || (!when && !has_hole(text->text)))
			append(out, copy(e, rule)); /* whatever is wrong there is said later */
		else
			each_text(e, text, put_rule,
				  &(struct item){ .rule = rule, .text = text, .list = out });
	}
	return out;
}

static struct kh_yaml_node *expand_files(struct expansion *e, const struct kh_yaml_node *files)
{
	struct kh_yaml_node *out = copy_empty(e, files);
	for (const struct kh_yaml_node *file = out ? files->first : NULL; file; file = file->next)
		if (file->kind != KH_NODE_MAP || all_hold(e, "files", kh_node_get(file, "when")))
			append(out, copy(e, file));
	return out;
}

static void put_host(struct expansion *e, struct kh_yaml_node *host, void *arg)
{
	(void)e;
	append(arg, host);
}

static struct kh_yaml_node *expand_hosts(struct expansion *e, const struct kh_yaml_node *hosts)
{
	struct kh_yaml_node *out = copy_empty(e, hosts);
	for (const struct kh_yaml_node *one = out ? hosts->first : NULL; one; one = one->next) {
		if (one->kind == KH_NODE_SCALAR && has_hole(one->text))
			each_text(e, one, put_host, out);
		else
			append(out, copy(e, one));
	}
	return out;
}

static bool names(const struct kh_yaml_node *credential, struct kh_slice name)
{
	if (!credential || credential->kind == KH_NODE_SCALAR)
		return credential && kh_slice_eq(credential->text, name);
	for (const struct kh_yaml_node *one = credential->first; one; one = one->next)
		if (one->kind == KH_NODE_SCALAR && kh_slice_eq(one->text, name))
			return true;
	return false;
}

static bool is_used(const struct kh_yaml_node *rules, struct kh_slice name)
{
	for (const struct kh_yaml_node *rule = rules ? rules->first : NULL; rule; rule = rule->next)
		if (rule->kind == KH_NODE_MAP && (names(kh_node_get(rule, "credential"), name) ||
						  names(kh_node_get(rule, "credentials"), name)))
			return true;
	return false;
}

/* A credential whose rules are all dropped is not asked for. */
static struct kh_yaml_node *expand_credentials(struct expansion *e,
					       const struct kh_yaml_node *credentials,
					       const struct kh_yaml_node *rules)
{
	struct kh_yaml_node *out = copy_empty(e, credentials);
	for (const struct kh_yaml_node *one = out ? credentials->first : NULL; one;
	     one = one->next) {
		if (e->parameters->count > 0 && !is_used(rules, one->key->text))
			continue;
		struct kh_yaml_node *mine =
			one->kind == KH_NODE_MAP ? copy_empty(e, one) : copy(e, one);
		for (const struct kh_yaml_node *key = one->kind == KH_NODE_MAP && mine ? one->first
										       : NULL;
		     key; key = key->next) {
			bool hosts = key->kind == KH_NODE_LIST &&
				     kh_slice_eq(key->key->text, KH_SLICE("hosts"));
			append(mine, hosts ? expand_hosts(e, key) : copy(e, key));
		}
		append(out, mine);
	}
	return out;
}

const struct kh_yaml_node *kh_expand(struct kh_reader *reader, const struct kh_yaml_node *root,
				     const struct kh_parameters *parameters,
				     const struct kh_yaml_node *const *values,
				     struct kh_yaml_tree *tree)
{
	struct expansion e = {
		.reader = reader, .parameters = parameters, .values = values, .tree = tree
	};
	struct kh_yaml_node *out = copy_empty(&e, root);
	const struct kh_yaml_node *rules = kh_node_get(root, "rules"), *made = NULL;
	if (rules && rules->kind == KH_NODE_LIST)
		made = expand_rules(&e, rules);
	for (const struct kh_yaml_node *one = out ? root->first : NULL; one; one = one->next) {
		struct kh_slice key = one->key->text;
		if (kh_slice_eq(key, KH_SLICE("parameters")))
			continue;
		if (one == rules && made)
			append(out, copy(&e, made));
		else if (one->kind == KH_NODE_MAP && kh_slice_eq(key, KH_SLICE("credentials")))
			append(out, expand_credentials(&e, one, made));
		else if (one->kind == KH_NODE_LIST && kh_slice_eq(key, KH_SLICE("files")))
			append(out, expand_files(&e, one));
		else
			append(out, copy(&e, one));
	}
	return out;
}
