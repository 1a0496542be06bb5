/*
 * arena.c - memory of an index: taken in large pieces, written once, freed as a whole
 *
 * Data of one list is contiguous, and large pieces use huge pages: a decision among a million rules
 * reads a few places that are in no cache. The huge pages spare it most TLB misses.
 */
#include "arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LINE = 64, HUGE_PAGE = 2 * 1024 * 1024, LEAST_BYTES = 4096, MOST_BYTES = 16 * HUGE_PAGE };

struct kh_arena_piece {
	struct kh_arena_piece *next;
	char *bytes;
	size_t used, size;
};

void kh_arena_init(struct kh_arena *arena, size_t expected_bytes)
{
	*arena = (struct kh_arena){ .piece_bytes = expected_bytes };
	if (arena->piece_bytes < LEAST_BYTES)
		arena->piece_bytes = LEAST_BYTES;
	if (arena->piece_bytes > MOST_BYTES)
		arena->piece_bytes = MOST_BYTES;
}

void kh_arena_fini(struct kh_arena *arena)
{
	while (arena->pieces) {
		struct kh_arena_piece *next = arena->pieces->next;
		free(arena->pieces->bytes);
		free(arena->pieces);
		arena->pieces = next;
	}
}

static size_t round_up(size_t bytes, size_t to)
{
	return (bytes + to - 1) / to * to;
}

static struct kh_arena_piece *add_piece(struct kh_arena *arena, size_t least)
{
	size_t size = least > arena->piece_bytes ? least : arena->piece_bytes;
	bool huge = size >= HUGE_PAGE;
	struct kh_arena_piece *piece = calloc(1, sizeof(*piece));
	if (!piece)
		return NULL;
	piece->size = round_up(size, huge ? HUGE_PAGE : LINE);
	piece->bytes = aligned_alloc(huge ? HUGE_PAGE : LINE, piece->size);
	if (!piece->bytes) {
		free(piece);
		return NULL;
	}
	/* A wish: without huge pages it is slower, and nothing else. */
	if (huge)
		(void)madvise(piece->bytes, piece->size, MADV_HUGEPAGE);
	piece->next = arena->pieces;
	arena->pieces = piece;
	return piece;
}

void *kh_arena_alloc(struct kh_arena *arena, size_t bytes)
{
	if (bytes > SIZE_MAX / 2)
		return NULL;
	bytes = round_up(bytes ? bytes : 1, LINE);
	struct kh_arena_piece *piece = arena->pieces;
	if (!piece || piece->size - piece->used < bytes)
		piece = add_piece(arena, bytes);
	if (!piece)
		return NULL;
	void *out = piece->bytes + piece->used;
	piece->used += bytes;
	arena->bytes += bytes;
	memset(out, 0, bytes);
	return out;
}
