/*
 * index.c - which rules of a list can concern a host
 *
 * The rules of a list that share a host pattern are a run of matchers, in the order of the list. A
 * list has a hash table from patterns to runs. Its keys are exact names, ranges of addresses, and
 * the nodes of a trie of labels, which is walked from the rightmost label until there is no node.
 * Only a handful of patterns match a host, so a list has a handful of runs for it. They are merged
 * in the order of the rules: the result is the list without the rules for other hosts. The cost
 * does not depend on the number of rules, lists or tenants.
 *
 * A key is the hash of a whole path through the trie (hostkey.c), so that the steps of a walk don't
 * depend on each other, and the data of a list is contiguous. A hash collision does no harm: before
 * a run is used, its pattern's text is compared.
 */
#include "index_internal.h"

#include <stdlib.h>
#include <string.h>

struct kh_index {
	uint64_t seed;
	struct kh_list_index *lists;
	size_t n_lists;
	struct kh_arena arena;
	struct kh_index_paths paths;
};

const struct kh_index_entry *kh_index_entry_find(const struct kh_list_index *list, uint32_t key)
{
	for (uint32_t at = key;; at++) {
		const struct kh_index_entry *entry = &list->entries[at & list->mask];
		if (entry->key == key || entry->key == 0)
			return entry;
	}
}

struct kh_index *kh_index_new(const struct kh_rules *const *lists, size_t n_lists,
			      struct kh_err *err)
{
	enum { BYTES_A_RULE = 96 };
	struct kh_index *index = calloc(1, sizeof(*index));
	size_t n = 0;
	for (size_t i = 0; i < n_lists; i++)
		n += lists[i]->count;
	if (index)
		index->lists = aligned_alloc(_Alignof(struct kh_list_index),
					     n_lists * sizeof(*index->lists));
	bool ok = index && index->lists && n < UINT32_MAX / 2 && kh_hostkey_seed(&index->seed);
	if (ok) {
		index->n_lists = n_lists;
		kh_arena_init(&index->arena, n * BYTES_A_RULE);
	}
	struct kh_list_builder builder = { .err = err };
	for (size_t i = 0; ok && i < n_lists; i++) {
		builder.seed = index->seed;
		builder.arena = &index->arena;
		builder.paths = &index->paths;
		ok = kh_list_build(&builder, lists[i], &index->lists[i]);
	}
	kh_list_builder_fini(&builder);
	if (index)
		kh_index_paths_freeze(&index->paths);
	if (ok)
		return index;
	if (!err || err->code == KH_ERR_NONE)
		(void)kh_err_set(err, KH_ERR_NO_MEMORY, "policy: out of memory");
	kh_index_free(index);
	return NULL;
}

void kh_index_free(struct kh_index *index)
{
	if (!index)
		return;
	kh_arena_fini(&index->arena);
	kh_index_paths_fini(&index->paths);
	free(index->lists);
	free(index);
}

size_t kh_index_bytes(const struct kh_index *index)
{
	return sizeof(*index) + index->n_lists * sizeof(*index->lists) + index->arena.bytes +
	       index->paths.room;
}

bool kh_index_has_ranges(const struct kh_index *index, size_t list)
{
	return index->lists[list].prefixes != NULL;
}

const char *kh_index_path(const struct kh_index *index, const struct kh_matcher *matcher)
{
	return index->paths.texts + matcher->path;
}

const char *kh_index_decoded(const struct kh_index *index, const struct kh_matcher *matcher)
{
	return index->paths.texts + matcher->decoded;
}

void kh_index_find(const struct kh_index *index, const struct kh_host *host,
		   struct kh_host_keys *out)
{
	kh_hostkey_find(out, host, index->seed);
}

void kh_index_prefetch_list(const struct kh_index *index, size_t list)
{
	__builtin_prefetch(&index->lists[list]);
}

void kh_index_prefetch(const struct kh_index *index, size_t list, const struct kh_host_keys *keys)
{
	const struct kh_list_index *of = &index->lists[list];
	if (!of->entries)
		return;
	__builtin_prefetch(of->matchers);
	__builtin_prefetch(of->names);
	for (uint32_t i = 0; i < keys->n && i < 8; i++)
		__builtin_prefetch(&of->entries[keys->nodes[i].key & of->mask]);
	__builtin_prefetch(&of->entries[keys->exact & of->mask]);
}

static void add_run(struct kh_index_walk *walk, const struct kh_list_index *list, uint32_t first,
		    uint32_t count)
{
	if (count == 0 || walk->n == KH_INDEX_WALK_RUNS)
		return;
	walk->runs[walk->n].next = &list->matchers[first];
	walk->runs[walk->n++].end = &list->matchers[first + count];
}

static void add_pattern(struct kh_index_walk *walk, const struct kh_list_index *list, uint32_t key,
			enum kh_host_match kind, struct kh_slice text)
{
	for (uint32_t at = key;; at++) {
		const struct kh_index_entry *entry = &list->entries[at & list->mask];
		if (entry->key == 0)
			return;
		if (entry->key == key && entry->count > 0 &&
		    kh_entry_is(list->names + entry->name, kind, text)) {
			add_run(walk, list, entry->first, entry->count);
			return;
		}
	}
}

static void add_names(struct kh_index_walk *walk, const struct kh_list_index *list,
		      const struct kh_host_keys *keys)
{
	struct kh_slice name = kh_host_view(keys->host);
	/* The last node is the host itself, which a suffix never matches. */
	for (uint32_t i = 0; i + 1 < keys->n; i++) {
		const struct kh_index_entry *entry = kh_index_entry_find(list, keys->nodes[i].key);
		if (entry->key == 0)
			break;
		add_pattern(walk, list, keys->nodes[i].key, KH_MATCH_SUFFIX,
			    kh_slice_sub(name, keys->nodes[i].begin, name.len));
	}
	add_pattern(walk, list, keys->exact, KH_MATCH_EXACT, name);
}

static void add_ranges(struct kh_index_walk *walk, const struct kh_index *index,
		       const struct kh_list_index *list, const struct kh_host *host)
{
	bool six = host->kind == KH_HOST_IPV6;
	for (unsigned bits = 0; list->prefixes && bits <= (six ? 128u : 32u); bits++) {
		if (!(list->prefixes->bits[six][bits / 64] >> bits % 64 & 1))
			continue;
		struct kh_cidr range = { .family = six ? 6 : 4, .prefix_bits = (uint8_t)bits };
		memcpy(range.addr, host->addr, (bits + 7) / 8);
		if (bits % 8)
			range.addr[bits / 8] &= (uint8_t)(0xff << (8 - bits % 8));
		add_pattern(walk, list, kh_hostkey_range(&range, index->seed), KH_MATCH_RANGE,
			    kh_slice_of(&range, sizeof(range)));
	}
}

void kh_index_walk_begin(struct kh_index_walk *walk, const struct kh_index *index, size_t list,
			 const struct kh_host_keys *keys)
{
	const struct kh_list_index *of = &index->lists[list];
	walk->n = 0;
	if (keys->host->kind == KH_HOST_NONE || !of->entries)
		return;
	add_run(walk, of, 0, of->any_count);
	if (keys->host->kind == KH_HOST_NAME)
		add_names(walk, of, keys);
	else
		add_ranges(walk, index, of, keys->host);
}

const struct kh_matcher *kh_index_walk_next(struct kh_index_walk *walk)
{
	size_t best = walk->n;
	for (size_t i = 0; i < walk->n; i++) {
		if (walk->runs[i].next != walk->runs[i].end &&
		    (best == walk->n || walk->runs[i].next->index < walk->runs[best].next->index))
			best = i;
	}
	return best < walk->n ? walk->runs[best].next++ : NULL;
}
