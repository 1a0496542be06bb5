/* index_internal.h - the parts of an index: a list's table, and how it is built */
#ifndef KEYHOLE_POLICY_INDEX_INTERNAL_H
#define KEYHOLE_POLICY_INDEX_INTERNAL_H

#include <string.h>

#include "arena.h"
#include "policy_internal.h"

/* key 0: free. count 0: an inner node of the trie, without rules. */
struct kh_index_entry {
	uint32_t key;
	uint32_t name; /* in the list's names: kind, length, text */
	uint32_t first;
	uint32_t count;
};

/* Prefix lengths of ranges, of version 4 and of version 6. */
struct kh_prefixes {
	uint64_t bits[2][3];
};

/* A cache line of its own. */
struct kh_list_index {
	_Alignas(64) struct kh_index_entry *entries; /* NULL: no rules */
	uint32_t mask;				     /* slots - 1 */
	uint32_t any_count;			     /* rules for "**": the first matchers */
	const char *names;
	const struct kh_matcher *matchers;
	struct kh_prefixes *prefixes; /* NULL: no ranges */
};

/* Keys may collide, so the pattern's text is compared. */
static inline bool kh_entry_is(const char *name, enum kh_host_match kind, struct kh_slice text)
{
	return name[0] == (char)kind && (unsigned char)name[1] == text.len &&
	       memcmp(name + 2, text.ptr, text.len) == 0;
}

/* The first entry of that key, or a free one. */
const struct kh_index_entry *kh_index_entry_find(const struct kh_list_index *list, uint32_t key);

/* The paths of all rules, each once. */
struct kh_index_paths {
	char *texts;
	size_t len, room;
	uint32_t *slots; /* position + 1; NULL when frozen */
	size_t n_slots, used;
};
void kh_index_paths_freeze(struct kh_index_paths *paths);
void kh_index_paths_fini(struct kh_index_paths *paths);

/* Builds one list after the other, and reuses its scratch memory. */
struct kh_list_builder {
	uint64_t seed;
	struct kh_arena *arena;
	struct kh_index_paths *paths;
	struct kh_index_entry *entries;
	size_t n_slots, used;
	char *names;
	size_t n_names, room_names;
	struct kh_err *err;
};
bool kh_list_build(struct kh_list_builder *builder, const struct kh_rules *rules,
		   struct kh_list_index *out);
void kh_list_builder_fini(struct kh_list_builder *builder);

#endif
