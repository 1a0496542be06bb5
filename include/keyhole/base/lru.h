/* lru.h - a map of bounded size that evicts the least recently used entry */
#ifndef KEYHOLE_BASE_LRU_H
#define KEYHOLE_BASE_LRU_H

#include <stdbool.h>
#include <stddef.h>

#include <keyhole/base/slice.h>

/* Keys are bytes, which are copied. The map owns its values, and calls `drop` for each that leaves
 * it other than by kh_lru_take. Not thread-safe. Hashes are seeded, so that hostile keys can't be
 * made to collide. */
struct kh_lru;

struct kh_lru *kh_lru_new(size_t most, void (*drop)(void *value)); /* NULL: no memory */
void kh_lru_free(struct kh_lru *lru);				   /* NULL is fine */
/* The value, which is now the most recently used; NULL: none. Valid until the map changes. */
void *kh_lru_get(struct kh_lru *lru, struct kh_slice key);
/* Replaces the value of `key`, or adds it; if the map then has more than `most` entries, the least
 * recently used one is dropped. Return: false without memory; the value is still the caller's. */
bool kh_lru_put(struct kh_lru *lru, struct kh_slice key, void *value);
/* Removes the entry and gives its value to the caller; NULL: none. */
void *kh_lru_take(struct kh_lru *lru, struct kh_slice key);
void kh_lru_clear(struct kh_lru *lru);
size_t kh_lru_count(const struct kh_lru *lru);

#endif
