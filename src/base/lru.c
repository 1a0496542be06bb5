/*
 * lru.c - a map of bounded size that evicts the least recently used entry
 *
 * A hash table with chaining, which doubles as it fills. All entries are also in one list, most
 * recently used first. The hash has a random seed per map.
 */
#include <keyhole/base/lru.h>

#include <stdlib.h>
#include <sys/random.h>

struct entry {
	struct entry *chain;
	struct entry *younger, *older;
	void *value;
	uint64_t hash;
	size_t key_len;
	char key[];
};

struct kh_lru {
	struct entry **table;
	size_t n_table; /* a power of two */
	struct entry *youngest, *oldest;
	size_t count, most;
	uint64_t seed;
	void (*drop)(void *value);
};

enum { FIRST_TABLE = 16 };

__extension__ typedef unsigned __int128 u128;

struct kh_lru *kh_lru_new(size_t most, void (*drop)(void *value))
{
	struct kh_lru *lru = calloc(1, sizeof *lru);
	if (!lru)
		return NULL;
	lru->table = calloc(FIRST_TABLE, sizeof(struct entry *));
	if (!lru->table || getrandom(&lru->seed, sizeof lru->seed, 0) != sizeof lru->seed) {
		free(lru->table);
		free(lru);
		return NULL;
	}
	lru->n_table = FIRST_TABLE;
	lru->most = most > 0 ? most : 1;
	lru->drop = drop;
	return lru;
}

/* Multiply and fold, eight bytes a step; the seed enters before every product. */
static uint64_t hash_of(const struct kh_lru *lru, struct kh_slice key)
{
	uint64_t h = lru->seed ^ (key.len * 0x9e3779b97f4a7c15u);
	for (size_t at = 0; at < key.len; at += 8) {
		uint64_t word = 0;
		memcpy(&word, key.ptr + at, key.len - at < 8 ? key.len - at : 8);
		u128 product = (u128)(h ^ word ^ 0xa0761d6478bd642fu) * (lru->seed | 1);
		h = (uint64_t)product ^ (uint64_t)(product >> 64) ^ (h << 7 | h >> 57);
	}
	return h ^ h >> 32;
}

static struct entry **slot_of(struct kh_lru *lru, struct kh_slice key, uint64_t hash)
{
	struct entry **slot = &lru->table[hash & (lru->n_table - 1)];
	while (*slot && !((*slot)->hash == hash && (*slot)->key_len == key.len &&
			  memcmp((*slot)->key, key.ptr, key.len) == 0))
		slot = &(*slot)->chain;
	return slot;
}

static void unlink_age(struct kh_lru *lru, struct entry *e)
{
	*(e->younger ? &e->younger->older : &lru->youngest) = e->older;
	*(e->older ? &e->older->younger : &lru->oldest) = e->younger;
}

static void link_youngest(struct kh_lru *lru, struct entry *e)
{
	e->younger = NULL;
	e->older = lru->youngest;
	*(lru->youngest ? &lru->youngest->younger : &lru->oldest) = e;
	lru->youngest = e;
}

void *kh_lru_get(struct kh_lru *lru, struct kh_slice key)
{
	struct entry *e = *slot_of(lru, key, hash_of(lru, key));
	if (!e)
		return NULL;
	if (lru->youngest != e) {
		unlink_age(lru, e);
		link_youngest(lru, e);
	}
	return e->value;
}

/* Takes the entry out and gives its value. */
static void *pull(struct kh_lru *lru, struct entry **slot)
{
	struct entry *e = *slot;
	// NOLINTNEXTLINE(clang-analyzer-core.NullDereference): callers have looked
	void *value = e->value;
	*slot = e->chain;
	unlink_age(lru, e);
	lru->count--;
	free(e);
	return value;
}

void *kh_lru_take(struct kh_lru *lru, struct kh_slice key)
{
	struct entry **slot = slot_of(lru, key, hash_of(lru, key));
	return *slot ? pull(lru, slot) : NULL;
}

static void drop_oldest(struct kh_lru *lru)
{
	struct entry *e = lru->oldest;
	struct entry **slot = slot_of(lru, kh_slice_of(e->key, e->key_len), e->hash);
	lru->drop(pull(lru, slot));
}

/* A table that could not be doubled only gets slower. */
static void grow(struct kh_lru *lru)
{
	size_t n = lru->n_table * 2;
	struct entry **table = calloc(n, sizeof(struct entry *));
	if (!table)
		return;
	for (struct entry *e = lru->oldest; e; e = e->younger) {
		struct entry **slot = &table[e->hash & (n - 1)];
		e->chain = *slot;
		*slot = e;
	}
	free(lru->table);
	lru->table = table;
	lru->n_table = n;
}

bool kh_lru_put(struct kh_lru *lru, struct kh_slice key, void *value)
{
	uint64_t hash = hash_of(lru, key);
	struct entry *e = *slot_of(lru, key, hash);
	if (e) {
		if (e->value != value)
			lru->drop(e->value);
		e->value = value;
		unlink_age(lru, e);
		link_youngest(lru, e);
		return true;
	}
	e = malloc(sizeof *e + key.len);
	if (!e)
		return false;
	*e = (struct entry){ .value = value, .hash = hash, .key_len = key.len };
	memcpy(e->key, key.ptr, key.len);
	if (lru->count >= lru->most)
		drop_oldest(lru);
	if (lru->count >= lru->n_table)
		grow(lru);
	struct entry **slot = &lru->table[hash & (lru->n_table - 1)];
	e->chain = *slot;
	*slot = e;
	link_youngest(lru, e);
	lru->count++;
	return true;
}

void kh_lru_clear(struct kh_lru *lru)
{
	while (lru->oldest)
		drop_oldest(lru);
}

void kh_lru_free(struct kh_lru *lru)
{
	if (!lru)
		return;
	kh_lru_clear(lru);
	free(lru->table);
	free(lru);
}

size_t kh_lru_count(const struct kh_lru *lru)
{
	return lru->count;
}
