/* lru.h - a map of bounded size that forgets what was not asked for longest */
#ifndef KEYHOLE_BASE_LRU_H
#define KEYHOLE_BASE_LRU_H

#include <stdbool.h>
#include <stddef.h>

#include <keyhole/base/slice.h>

/* Keys are bytes (copied); values are the map's own and go through `drop` when they leave it by any
 * way but kh_lru_take. Not locked. Hashing is seeded: hostile keys can't be made to collide. */
struct kh_lru;

struct kh_lru *kh_lru_new(size_t most, void (*drop)(void *value)); /* NULL: no memory */
void kh_lru_free(struct kh_lru *lru);				   /* NULL is fine */
/* The value, which is now the youngest; NULL: none. Valid until the map is changed. */
void *kh_lru_get(struct kh_lru *lru, struct kh_slice key);
/* In place of what is there under `key`; over `most`, the oldest leaves. Return: false without
 * memory, and the value stays the caller's. */
bool kh_lru_put(struct kh_lru *lru, struct kh_slice key, void *value);
/* Removes and hands over; NULL: none. */
void *kh_lru_take(struct kh_lru *lru, struct kh_slice key);
void kh_lru_clear(struct kh_lru *lru);
size_t kh_lru_count(const struct kh_lru *lru);

#endif
