/* arena.h - memory of an index: taken in large pieces, written once, freed as a whole */
#ifndef KEYHOLE_POLICY_ARENA_H
#define KEYHOLE_POLICY_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct kh_arena {
	struct kh_arena_piece *pieces; /* the one in use first */
	size_t piece_bytes;
	size_t bytes; /* taken so far */
};

/* `expected_bytes`: about how much will be allocated in total. */
void kh_arena_init(struct kh_arena *arena, size_t expected_bytes);
void kh_arena_fini(struct kh_arena *arena);
/* Zeroed, aligned for a cache line. Return: NULL without memory. */
void *kh_arena_alloc(struct kh_arena *arena, size_t bytes);

#endif
