/* tree.c - parses YAML into a tree in which every node has its line and column
 *
 * libyaml's events become nodes, and libyaml's memory is freed at once. Of YAML only maps, lists
 * and scalars are accepted. An anchor, an alias, a tag, a merge key or a second document is an
 * error, since each of them makes a file mean something other than it seems to say. Mistakes that
 * libyaml would explain badly (tabs, bytes that are not UTF-8) are looked for first.
 */
#include <stdlib.h>
#include <yaml.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/limits.h>

#include "config_internal.h"

enum { CHUNK_BYTES = 64 * 1024, SHOWN_BYTES = 48 };

struct kh_tree_chunk {
	struct kh_tree_chunk *next;
	size_t used;
	size_t size;
	max_align_t bytes[];
};

void *kh_tree_alloc(struct kh_yaml_tree *tree, size_t size)
{
	size = (size + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
	struct kh_tree_chunk *chunk = tree->chunks;
	if (!chunk || chunk->size - chunk->used < size) {
		size_t room = size > CHUNK_BYTES ? size : CHUNK_BYTES;
		chunk = calloc(1, sizeof(*chunk) + room);
		if (!chunk)
			return NULL;
		chunk->size = room;
		chunk->next = tree->chunks;
		tree->chunks = chunk;
	}
	char *bytes = (char *)chunk->bytes + chunk->used;
	chunk->used += size;
	return bytes;
}

void kh_tree_free(struct kh_yaml_tree *tree)
{
	while (tree->chunks) {
		struct kh_tree_chunk *next = tree->chunks->next;
		free(tree->chunks);
		tree->chunks = next;
	}
	tree->root = NULL;
}

static void complain(struct kh_reader *reader, uint32_t line, uint32_t column, const char *text)
{
	struct kh_where where = { .file = reader->file, .line = line, .column = column };
	kh_diagnostics_add(reader->diags, false, where, "%s", text);
}

/* Bytes of the well-formed UTF-8 sequence at `at` (RFC 3629), 0 for none. */
static size_t utf8_width(struct kh_slice s, size_t at)
{
	const unsigned char *p = (const unsigned char *)s.ptr + at;
	size_t left = s.len - at;
	if (p[0] < 0x80)
		return 1;
	size_t width = p[0] >= 0xc2 && p[0] < 0xe0   ? 2
		       : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
		       : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
						     : 0;
	if (width == 0 || width > left)
		return 0;
	for (size_t i = 1; i < width; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	bool overlong = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90);
	bool surrogate = p[0] == 0xed && p[1] >= 0xa0;
	bool beyond = p[0] == 0xf4 && p[1] >= 0x90;
	return overlong || surrogate || beyond ? 0 : width;
}

/* What moves or hides text: a reader would see another file than the one that is read. */
static bool is_hidden(struct kh_slice s, size_t at, size_t width)
{
	const unsigned char *p = (const unsigned char *)s.ptr + at;
	if (width == 1)
		return (p[0] < 0x20 && p[0] != '\t' && p[0] != '\n' && p[0] != '\r') ||
		       p[0] == 0x7f || (p[0] == '\r' && (at + 1 == s.len || s.ptr[at + 1] != '\n'));
	if (width == 2)
		return p[0] == 0xc2 && p[1] < 0xa0; /* U+0080 to U+009F */
	if (width == 4)
		return p[0] == 0xf3 && p[1] == 0xa0 && p[2] < 0x82; /* tags: U+E0000 to U+E007F */
	uint32_t c = (uint32_t)(p[0] & 0x0f) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
	/* Zero width and direction marks, line separators, embeddings, isolates, BOM. */
	return (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
	       (c >= 0x2060 && c <= 0x206f) || c == 0xfeff;
}

/* What libyaml would refuse without saying it well. Columns count characters, as libyaml's do. */
static bool check_bytes(struct kh_reader *reader, struct kh_slice yaml)
{
	uint32_t line = 1, column = 1;
	bool indent = true, good = true;
	for (size_t i = 0; i < yaml.len;) {
		size_t width = utf8_width(yaml, i);
		if (width == 0) {
			complain(reader, line, column, "a byte that is not UTF-8");
			return false;
		}
		char c = yaml.ptr[i];
		if (c == '\t' && indent) {
			complain(reader, line, column,
				 "a tab in the indentation: YAML takes spaces only");
			good = false;
			indent = false;
		} else if (is_hidden(yaml, i, width)) {
			complain(reader, line, column, "a control or invisible character");
			return false;
		}
		i += width;
		column++;
		if (c == '\n') {
			line++;
			column = 1;
			indent = true;
		} else if (c != ' ') {
			indent = false;
		}
	}
	return good;
}

/* A document being built: the containers that are open, innermost last. */
struct builder {
	struct kh_yaml_tree *tree;
	struct kh_reader *reader;
	struct kh_yaml_node *open[KH_LIMIT_CONFIG_DEPTH];
	struct kh_yaml_node *key[KH_LIMIT_CONFIG_DEPTH]; /* read, and waiting for its value */
	unsigned depth;
	unsigned documents;
	bool failed; /* the tree can't be used, but its other errors are still looked for */
	bool stop;   /* nothing can be read from here on */
	bool no_memory;
};

static struct kh_yaml_node *node_new(struct builder *b, enum kh_node_kind kind,
				     const yaml_event_t *event)
{
	struct kh_yaml_node *node = kh_tree_alloc(b->tree, sizeof(*node));
	if (!node) {
		b->no_memory = true;
		return NULL;
	}
	*node = (struct kh_yaml_node){ .kind = kind,
				       .line = (uint32_t)event->start_mark.line + 1,
				       .column = (uint32_t)event->start_mark.column + 1 };
	return node;
}

/* Hangs a node where it belongs: as the root, an item, a key, or a key's value. */
static void place(struct builder *b, struct kh_yaml_node *node)
{
	if (b->depth == 0) {
		if (!b->tree->root)
			b->tree->root = node;
		return;
	}
	struct kh_yaml_node *parent = b->open[b->depth - 1];
	struct kh_yaml_node **key = &b->key[b->depth - 1];
	if (parent->kind == KH_NODE_MAP) {
		if (!*key) {
			if (node->kind != KH_NODE_SCALAR) {
				complain(b->reader, node->line, node->column,
					 "a key must be plain text, not a map or a list");
				b->failed = true;
			} else if (node->plain && kh_slice_eq(node->text, KH_SLICE("<<"))) {
				complain(b->reader, node->line, node->column,
					 "a merge key (<<) is not taken: write the keys out");
				b->failed = true;
			}
			*key = node;
			return;
		}
		node->key = *key;
		*key = NULL;
	}
	if (parent->last)
		parent->last->next = node;
	else
		parent->first = node;
	parent->last = node;
	parent->count++;
}

static int compare_keys(const void *a, const void *b)
{
	const struct kh_yaml_node *x = *(const struct kh_yaml_node *const *)a;
	const struct kh_yaml_node *y = *(const struct kh_yaml_node *const *)b;
	size_t least = x->text.len < y->text.len ? x->text.len : y->text.len;
	int order = least ? memcmp(x->text.ptr, y->text.ptr, least) : 0;
	if (order == 0)
		order = (x->text.len > y->text.len) - (x->text.len < y->text.len);
	if (order == 0)
		order = (x->line > y->line) - (x->line < y->line);
	return order ? order : (x->column > y->column) - (x->column < y->column);
}

/* What stands below `value` may be a misplaced secret, and so may what is too long for a key. */
static bool may_show_key(const struct builder *b, const struct kh_yaml_node *key)
{
	for (unsigned i = 0; i < b->depth; i++)
		if (b->open[i]->key && kh_slice_eq(b->open[i]->key->text, KH_SLICE("value")))
			return false;
	return key->text.len <= SHOWN_BYTES;
}

static void check_duplicates(struct builder *b, const struct kh_yaml_node *map)
{
	if (map->count < 2)
		return;
	const struct kh_yaml_node **keys = calloc(map->count, sizeof(struct kh_yaml_node *));
	if (!keys) {
		b->no_memory = true;
		return;
	}
	size_t n = 0;
	for (const struct kh_yaml_node *child = map->first; child; child = child->next)
		keys[n++] = child->key;
	qsort(keys, n, sizeof(struct kh_yaml_node *), compare_keys);
	const struct kh_yaml_node *first = keys[0];
	for (size_t i = 1; i < n; i++) {
		if (!kh_slice_eq(keys[i]->text, first->text)) {
			first = keys[i];
			continue;
		}
		bool show = may_show_key(b, keys[i]);
		kh_reader_error(b->reader, keys[i], "duplicate key%s%s%s: it is already in line %u",
				show ? " \"" : "", show ? kh_esc(keys[i]->text) : "",
				show ? "\"" : "", first->line);
	}
	free(keys);
}

static void close_container(struct builder *b)
{
	if (b->depth == 0)
		return; /* libyaml never ends what it has not begun */
	struct kh_yaml_node *node = b->open[b->depth - 1];
	if (node && node->kind == KH_NODE_MAP)
		check_duplicates(b, node);
	b->depth--;
}

static void open_container(struct builder *b, enum kh_node_kind kind, const yaml_event_t *event)
{
	struct kh_yaml_node *node = node_new(b, kind, event);
	if (!node)
		return;
	if (b->depth == KH_LIMIT_CONFIG_DEPTH) {
		complain(b->reader, node->line, node->column,
			 "nested too deep: no option is so deep");
		b->stop = true;
		return;
	}
	place(b, node);
	b->open[b->depth] = node;
	b->key[b->depth] = NULL;
	b->depth++;
}

static void scalar(struct builder *b, const yaml_event_t *event)
{
	struct kh_yaml_node *node = node_new(b, KH_NODE_SCALAR, event);
	size_t len = event->data.scalar.length;
	char *text = node ? kh_tree_alloc(b->tree, len + 1) : NULL;
	if (!text) {
		b->no_memory = true;
		return;
	}
	memcpy(text, event->data.scalar.value, len);
	text[len] = '\0';
	node->text = kh_slice_of(text, len);
	node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	place(b, node);
}

/* Stands where the alias stood, so that what follows keeps its place. */
static void alias(struct builder *b, const yaml_event_t *event)
{
	struct kh_yaml_node *node = node_new(b, KH_NODE_SCALAR, event);
	if (!node)
		return;
	node->text = KH_SLICE("");
	place(b, node);
}

static void refuse_extras(struct builder *b, const yaml_event_t *event, const void *anchor,
			  const void *tag)
{
	uint32_t line = (uint32_t)event->start_mark.line + 1;
	uint32_t column = (uint32_t)event->start_mark.column + 1;
	if (anchor)
		complain(b->reader, line, column, "an anchor (&) is not taken: write it out");
	if (tag)
		complain(b->reader, line, column, "a tag (!) is not taken: types are known here");
}

static void take(struct builder *b, const yaml_event_t *event)
{
	uint32_t line = (uint32_t)event->start_mark.line + 1;
	uint32_t column = (uint32_t)event->start_mark.column + 1;
	switch (event->type) {
	case YAML_DOCUMENT_START_EVENT:
		if (event->data.document_start.tag_directives.start !=
		    event->data.document_start.tag_directives.end)
			complain(b->reader, line, column, "a %TAG directive is not taken");
		if (++b->documents == 2)
			complain(b->reader, line, column,
				 "a second document: a configuration is one");
		break;
	case YAML_ALIAS_EVENT:
		complain(b->reader, line, column,
			 "an alias (*) is not taken: write it out (a text that begins with * needs "
			 "quotes)");
		b->failed = true;
		alias(b, event);
		break;
	case YAML_SCALAR_EVENT:
		refuse_extras(b, event, event->data.scalar.anchor, event->data.scalar.tag);
		scalar(b, event);
		break;
	case YAML_SEQUENCE_START_EVENT:
		refuse_extras(b, event, event->data.sequence_start.anchor,
			      event->data.sequence_start.tag);
		open_container(b, KH_NODE_LIST, event);
		break;
	case YAML_MAPPING_START_EVENT:
		refuse_extras(b, event, event->data.mapping_start.anchor,
			      event->data.mapping_start.tag);
		open_container(b, KH_NODE_MAP, event);
		break;
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		close_container(b);
		break;
	case YAML_NO_EVENT:
	case YAML_STREAM_START_EVENT:
	case YAML_STREAM_END_EVENT:
	case YAML_DOCUMENT_END_EVENT:
		break;
	}
}

static bool is_said(const char *text, const char *of)
{
	return text && strcmp(text, of) == 0;
}

/* What people write where libyaml says that. A rule for any method begins with a `*`, which YAML
 * reads as an alias. */
static const char *hint(const yaml_parser_t *parser)
{
	static const struct {
		const char *problem, *context; /* NULL: any */
		const char *hint;
	} hints[] = {
		{ NULL, "while scanning an alias",
		  "; a text that begins with * needs quotes, as in deny: \"* https://…\"" },
		{ "found unexpected end of stream", "while scanning a quoted scalar",
		  "; the quote that begins in that line is not closed" },
		{ "did not find expected ',' or '}'", NULL,
		  "; the { in that line is not closed, or a comma is missing" },
		{ "did not find expected ',' or ']'", NULL,
		  "; the [ in that line is not closed, or a comma is missing" },
		{ "found character that cannot start any token", NULL,
		  "; a text that begins with @, ` or % needs quotes" },
		{ "found unknown escape character", NULL,
		  "; a \\ in double quotes begins an escape: write \\\\, or take single quotes" },
		{ NULL, "while parsing a block mapping", " (check the indentation)" },
		{ NULL, "while parsing a block collection", " (check the indentation)" },
		{ "block sequence entries are not allowed in this context", NULL,
		  " (check the indentation)" },
		{ "did not find expected <document start>", NULL, " (check the indentation)" },
		{ "mapping values are not allowed in this context", NULL,
		  " (check the indentation; a text with \": \" in it needs quotes)" },
		{ "could not find expected ':'", NULL,
		  "; a key is missing its \":\" and a blank after it, or a quote is not closed" },
	};
	for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++)
		if ((!hints[i].problem || is_said(parser->problem, hints[i].problem)) &&
		    (!hints[i].context || is_said(parser->context, hints[i].context)))
			return hints[i].hint;
	return "";
}

/* libyaml's own words, which never quote the file. */
static void syntax_error(struct builder *b, const yaml_parser_t *parser)
{
	struct kh_where where = { .file = b->reader->file,
				  .line = (uint32_t)parser->problem_mark.line + 1,
				  .column = (uint32_t)parser->problem_mark.column + 1 };
	const char *problem = parser->problem ? parser->problem : "no YAML";
	if (parser->context)
		kh_diagnostics_add(b->reader->diags, false, where, "YAML: %s, %s (from line %zu)%s",
				   problem, parser->context, parser->context_mark.line + 1,
				   hint(parser));
	else
		kh_diagnostics_add(b->reader->diags, false, where, "YAML: %s%s", problem,
				   hint(parser));
}

bool kh_tree_parse(struct kh_yaml_tree *tree, struct kh_slice yaml, struct kh_reader *reader)
{
	*tree = (struct kh_yaml_tree){ 0 };
	if (yaml.len > KH_LIMIT_CONFIG_BYTES) {
		complain(reader, 0, 0, "too large for a configuration");
		return false;
	}
	if (kh_slice_has_prefix(yaml, KH_SLICE("\xef\xbb\xbf")))
		yaml = kh_slice_sub(yaml, 3, yaml.len); /* a byte order mark */
	if (!check_bytes(reader, yaml))
		return false;
	yaml_parser_t parser;
	if (!yaml_parser_initialize(&parser)) {
		(void)kh_reader_no_memory(reader);
		return false;
	}
	yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&parser, (const unsigned char *)yaml.ptr, yaml.len);
	struct builder b = { .tree = tree, .reader = reader };
	for (bool end = false; !end && !b.stop && !b.no_memory && b.documents < 2;) {
		yaml_event_t event;
		if (!yaml_parser_parse(&parser, &event)) {
			syntax_error(&b, &parser);
			b.stop = true;
			break;
		}
		end = event.type == YAML_STREAM_END_EVENT;
		take(&b, &event);
		yaml_event_delete(&event);
	}
	yaml_parser_delete(&parser);
	if (b.no_memory)
		(void)kh_reader_no_memory(reader);
	if (b.failed || b.stop || b.no_memory)
		return false;
	if (!tree->root || kh_node_is_empty(tree->root)) {
		complain(reader, 1, 1, "an empty file: a configuration begins with \"version: 1\"");
		return false;
	}
	return true;
}
