/*
 * build.c - a list of rules becomes a table of patterns and runs of matchers (index.c)
 *
 * Three steps: count the rules of each pattern; assign the places of the runs; fill in the
 * matchers. The table is built in scratch memory that all lists use in turn, and copied into the
 * arena when its size is known.
 */
#include "index_internal.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 64, UNPLACED = -1 };

/* ---- paths ---- */

static bool paths_grow(struct kh_index_paths *paths, uint64_t seed)
{
	size_t n = paths->n_slots ? paths->n_slots * 2 : FIRST_SLOTS;
	uint32_t *slots = calloc(n, sizeof(*slots));
	if (!slots)
		return false;
	for (size_t i = 0; i < paths->n_slots; i++) {
		if (paths->slots[i] == 0)
			continue;
		struct kh_slice text = kh_slice_str(paths->texts + paths->slots[i] - 1);
		size_t at = kh_hostkey_text(text, seed);
		while (slots[at & (n - 1)] != 0)
			at++;
		slots[at & (n - 1)] = paths->slots[i];
	}
	free(paths->slots);
	paths->slots = slots;
	paths->n_slots = n;
	return true;
}

static bool paths_append(struct kh_index_paths *paths, struct kh_slice text)
{
	while (paths->room - paths->len < text.len + 1) {
		size_t room = paths->room ? paths->room * 2 : 1024;
		char *texts = realloc(paths->texts, room);
		if (!texts)
			return false;
		paths->texts = texts;
		paths->room = room;
	}
	memcpy(paths->texts + paths->len, text.ptr, text.len);
	paths->texts[paths->len + text.len] = '\0';
	paths->len += text.len + 1;
	return true;
}

static bool paths_add(struct kh_index_paths *paths, struct kh_slice text, uint64_t seed,
		      uint32_t *out)
{
	if (2 * (paths->used + 1) > paths->n_slots && !paths_grow(paths, seed))
		return false;
	size_t at = kh_hostkey_text(text, seed);
	for (;; at++) {
		uint32_t there = paths->slots[at & (paths->n_slots - 1)];
		if (there == 0)
			break;
		if (kh_slice_eq(kh_slice_str(paths->texts + there - 1), text)) {
			*out = there - 1;
			return true;
		}
	}
	size_t position = paths->len;
	if (position >= UINT32_MAX - UINT16_MAX || !paths_append(paths, text))
		return false;
	*out = (uint32_t)position;
	paths->slots[at & (paths->n_slots - 1)] = (uint32_t)position + 1;
	paths->used++;
	return true;
}

void kh_index_paths_freeze(struct kh_index_paths *paths)
{
	free(paths->slots);
	paths->slots = NULL;
	paths->n_slots = 0;
}

void kh_index_paths_fini(struct kh_index_paths *paths)
{
	free(paths->slots);
	free(paths->texts);
	*paths = (struct kh_index_paths){ 0 };
}

/* ---- the table ---- */

static void put(struct kh_index_entry *entries, size_t n_slots, const struct kh_index_entry *entry)
{
	uint32_t at = entry->key;
	while (entries[at & (n_slots - 1)].key != 0)
		at++;
	entries[at & (n_slots - 1)] = *entry;
}

static bool table_room(struct kh_list_builder *b)
{
	if (2 * (b->used + 1) <= b->n_slots)
		return true;
	size_t n = b->n_slots ? b->n_slots * 2 : FIRST_SLOTS;
	struct kh_index_entry *entries = calloc(n, sizeof(*entries));
	if (!entries)
		return false;
	for (size_t i = 0; i < b->n_slots; i++)
		if (b->entries[i].key != 0)
			put(entries, n, &b->entries[i]);
	free(b->entries);
	b->entries = entries;
	b->n_slots = n;
	return true;
}

/* A pattern: its key, its kind, its text. */
struct pattern {
	uint32_t key;
	enum kh_host_match kind;
	struct kh_slice text;
};

static bool is_pattern(const struct kh_list_builder *b, const struct kh_index_entry *entry,
		       const struct pattern *p)
{
	return entry->key == p->key && entry->count > 0 &&
	       kh_entry_is(b->names + entry->name, p->kind, p->text);
}

static bool add_text(struct kh_list_builder *b, const struct pattern *p, uint32_t *out)
{
	struct kh_slice name = p->text;
	while (b->room_names - b->n_names < name.len + 2) {
		size_t room = b->room_names ? b->room_names * 2 : 1024;
		char *names = realloc(b->names, room);
		if (!names)
			return false;
		b->names = names;
		b->room_names = room;
	}
	if (b->n_names >= UINT32_MAX - 512)
		return false;
	*out = (uint32_t)b->n_names;
	b->names[b->n_names] = (char)p->kind;
	b->names[b->n_names + 1] = (char)name.len;
	memcpy(b->names + b->n_names + 2, name.ptr, name.len);
	b->n_names += name.len + 2;
	return true;
}

/* A node on the way, which names nothing. */
static bool add_node(struct kh_list_builder *b, uint32_t key)
{
	if (!table_room(b))
		return false;
	uint32_t at = key;
	for (;; at++) {
		struct kh_index_entry *entry = &b->entries[at & (b->n_slots - 1)];
		if (entry->key == key)
			return true;
		if (entry->key != 0)
			continue;
		*entry = (struct kh_index_entry){ .key = key };
		b->used++;
		return true;
	}
}

/* One more rule of that pattern. */
static bool count_pattern(struct kh_list_builder *b, const struct pattern *p)
{
	if (!table_room(b))
		return false;
	for (uint32_t at = p->key;; at++) {
		struct kh_index_entry *entry = &b->entries[at & (b->n_slots - 1)];
		if (is_pattern(b, entry, p)) {
			entry->count++;
			return true;
		}
		if (entry->key != 0)
			continue;
		*entry = (struct kh_index_entry){ .key = p->key,
						  .first = (uint32_t)UNPLACED,
						  .count = 1 };
		b->used++;
		return add_text(b, p, &entry->name);
	}
}

/* Return: false when the rule has no host. The pattern's text is the rule's own. */
static bool pattern_of(const struct kh_list_builder *b, const struct kh_rule *rule,
		       struct kh_host_keys *keys, struct pattern *out)
{
	struct kh_host host;
	out->kind = rule->host.match;
	keys->n = 0;
	switch (rule->host.match) {
	case KH_MATCH_RANGE:
		out->key = kh_hostkey_range(&rule->host.range, b->seed);
		out->text = kh_slice_of(&rule->host.range, sizeof(rule->host.range));
		return rule->host.range.prefix_bits <= 128;
	case KH_MATCH_EXACT:
	case KH_MATCH_SUFFIX:
		out->text = kh_slice_str(rule->host.name);
		if (!kh_host_parse(&host, out->text, NULL) || host.kind != KH_HOST_NAME)
			return false;
		kh_hostkey_find(keys, &host, b->seed);
		out->key =
			out->kind == KH_MATCH_SUFFIX ? keys->nodes[keys->n - 1].key : keys->exact;
		return true;
	case KH_MATCH_ANY:
	case KH_MATCH_NOTHING:
	case KH_MATCH_KINDS:
		break;
	}
	return false;
}

static bool note_prefix(struct kh_list_builder *b, const struct kh_cidr *range,
			struct kh_list_index *out)
{
	if (!out->prefixes)
		out->prefixes = kh_arena_alloc(b->arena, sizeof(*out->prefixes));
	if (out->prefixes)
		out->prefixes->bits[range->family == 6][range->prefix_bits / 64] |=
			UINT64_C(1) << range->prefix_bits % 64;
	return out->prefixes != NULL;
}

static bool count_rule(struct kh_list_builder *b, const struct kh_rule *rule,
		       struct kh_list_index *out)
{
	struct kh_host_keys keys;
	struct pattern p;
	if (rule->host.match == KH_MATCH_ANY) {
		out->any_count++;
		return true;
	}
	if (!pattern_of(b, rule, &keys, &p))
		return kh_err_set(b->err, KH_ERR_CONFIG, "policy: a rule without a host");
	if (p.kind == KH_MATCH_RANGE && !note_prefix(b, &rule->host.range, out))
		return false;
	for (uint32_t i = 0; p.kind == KH_MATCH_SUFFIX && i + 1 < keys.n; i++)
		if (!add_node(b, keys.nodes[i].key))
			return false;
	return count_pattern(b, &p);
}

/* ---- matchers ---- */

uint32_t kh_policy_method_bit(struct kh_slice method)
{
	/* The first seven are KH_CREDENTIAL_METHODS. */
	static const struct kh_slice known[] = {
		KH_SLICE_INIT("GET"),	   KH_SLICE_INIT("POST"),     KH_SLICE_INIT("HEAD"),
		KH_SLICE_INIT("PUT"),	   KH_SLICE_INIT("DELETE"),   KH_SLICE_INIT("PATCH"),
		KH_SLICE_INIT("OPTIONS"),  KH_SLICE_INIT("PROPFIND"), KH_SLICE_INIT("REPORT"),
		KH_SLICE_INIT("MKCOL"),	   KH_SLICE_INIT("MOVE"),     KH_SLICE_INIT("COPY"),
		KH_SLICE_INIT("LOCK"),	   KH_SLICE_INIT("UNLOCK"),   KH_SLICE_INIT("TRACE"),
		KH_SLICE_INIT("PROPPATCH")
	};
	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (kh_slice_eq(method, known[i]))
			return UINT32_C(1) << i;
	return KH_METHOD_OTHER;
}

uint32_t kh_policy_method_bit_folded(struct kh_slice method)
{
	char text[sizeof("PROPPATCH")];
	if (method.len >= sizeof(text))
		return KH_METHOD_OTHER;
	for (size_t i = 0; i < method.len; i++) {
		char c = method.ptr[i];
		text[i] = (char)(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
	}
	return kh_policy_method_bit(kh_slice_of(text, method.len));
}

/* The pattern of a rule that denies, in the forms in which it is compared (forms.c). */
static bool add_forms(struct kh_list_builder *b, struct kh_slice path, struct kh_matcher *matcher)
{
	char *text = malloc(path.len + 1);
	if (!text)
		return false;
	size_t len = kh_policy_pattern_decode(path, text);
	bool ok = paths_add(b->paths, kh_slice_of(text, len), b->seed, &matcher->decoded);
	struct kh_slice folded = kh_slice_of(text, kh_policy_pattern_fold(path, text));
	ok = ok && paths_add(b->paths, folded, b->seed, &matcher->path);
	matcher->path_len = (uint16_t)folded.len;
	matcher->prefix_len = (uint16_t)kh_slice_find(folded, '*', 0);
	free(text);
	return ok;
}

static bool fill_matcher(struct kh_list_builder *b, struct kh_matcher *matcher,
			 const struct kh_rule *rule, size_t place)
{
	*matcher = (struct kh_matcher){
		.rule = rule,
		.index = (uint32_t)place,
		.port = rule->port,
		.scheme = (uint8_t)rule->scheme,
		.flags = (uint8_t)((rule->allow ? KH_ALLOWS : 0) |
				   (kh_rule_asks_more(rule) ? KH_ASKS_MORE : 0) |
				   (rule->more && rule->more->observe ? KH_OBSERVES : 0) |
				   (rule->no_websocket ? KH_NO_WEBSOCKET : 0) |
				   (rule->passthrough ? KH_PASSTHROUGH : 0) |
				   (rule->exact_spelling ? KH_EXACT : 0)),
	};
	if (kh_rule_has_common_methods_only(rule))
		matcher->methods = KH_CREDENTIAL_METHODS;
	for (size_t i = 0; i < rule->n_methods; i++)
		matcher->methods |= kh_policy_method_bit(kh_slice_str(rule->methods[i]));
	struct kh_slice path = kh_slice_str(rule->path);
	if (!rule->path)
		return true;
	if (path.len > UINT16_MAX)
		return kh_err_set(b->err, KH_ERR_CONFIG, "policy: a path too long");
	bool plain = kh_path_plainness(path) != KH_NOT_PLAIN;
	matcher->flags |= KH_ON_PATH | (plain ? KH_PLAIN_PATH : 0);
	matcher->path_len = (uint16_t)path.len;
	matcher->prefix_len = (uint16_t)kh_slice_find(path, '*', 0);
	if (!rule->allow && !rule->exact_spelling)
		return add_forms(b, path, matcher);
	return paths_add(b->paths, path, b->seed, &matcher->path);
}

/* The entry of a rule's pattern, NULL for "**". */
static struct kh_index_entry *entry_of(struct kh_list_builder *b, const struct kh_rule *rule)
{
	struct kh_host_keys keys;
	struct pattern p;
	if (rule->host.match == KH_MATCH_ANY || !pattern_of(b, rule, &keys, &p))
		return NULL;
	for (uint32_t at = p.key;; at++) {
		struct kh_index_entry *entry = &b->entries[at & (b->n_slots - 1)];
		if (entry->key == 0)
			return NULL;
		if (is_pattern(b, entry, &p))
			return entry;
	}
}

/* Runs get their places in the order in which they are first met; `first` runs along while a run is
 * filled, and goes back at the end. */
static bool place_rules(struct kh_list_builder *b, const struct kh_rules *rules,
			struct kh_matcher *matchers, struct kh_list_index *out)
{
	uint32_t any = 0, next = out->any_count;
	for (size_t r = 0; r < rules->count; r++) {
		const struct kh_rule *rule = &rules->list[r];
		struct kh_index_entry *entry = entry_of(b, rule);
		if (entry && entry->first == (uint32_t)UNPLACED) {
			entry->first = next;
			next += entry->count;
		}
		if (!fill_matcher(b, &matchers[entry ? entry->first++ : any++], rule, r))
			return false;
	}
	for (size_t i = 0; i < b->n_slots; i++)
		b->entries[i].first -= b->entries[i].count;
	return true;
}

/* As small as it may be: what is asked about often is often not there. */
static bool move_table(struct kh_list_builder *b, struct kh_list_index *out)
{
	size_t n = 4;
	while (n < b->used + b->used / 2 + 1)
		n *= 2;
	out->entries = kh_arena_alloc(b->arena, n * sizeof(*out->entries));
	char *names = kh_arena_alloc(b->arena, b->n_names);
	if (!out->entries || !names)
		return false;
	out->mask = (uint32_t)(n - 1);
	for (size_t i = 0; i < b->n_slots; i++)
		if (b->entries[i].key != 0)
			put(out->entries, n, &b->entries[i]);
	if (b->n_names > 0)
		memcpy(names, b->names, b->n_names);
	out->names = names;
	return true;
}

bool kh_list_build(struct kh_list_builder *b, const struct kh_rules *rules,
		   struct kh_list_index *out)
{
	*out = (struct kh_list_index){ 0 };
	if (rules->count == 0)
		return true;
	b->used = 0;
	b->n_names = 0;
	if (b->n_slots > 0)
		memset(b->entries, 0, b->n_slots * sizeof(*b->entries));
	if (!table_room(b))
		return false;
	for (size_t r = 0; r < rules->count; r++)
		if (!count_rule(b, &rules->list[r], out))
			return false;
	struct kh_matcher *matchers = kh_arena_alloc(b->arena, rules->count * sizeof(*matchers));
	if (!matchers || !place_rules(b, rules, matchers, out) || !move_table(b, out))
		return false;
	out->matchers = matchers;
	return true;
}

void kh_list_builder_fini(struct kh_list_builder *b)
{
	free(b->entries);
	free(b->names);
	*b = (struct kh_list_builder){ .err = b->err };
}
