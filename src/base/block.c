/*
 * block.c - each thread's cache of free blocks
 *
 * Two large sizes: a message head, and a TLS record. The block that was freed last is reused first,
 * since it is still in the processor's cache. The store is bounded. It holds what all connections
 * together use at a time, not what each of them could use.
 *
 * And some small sizes. malloc caches these itself, but only seven of a size, and the streams of an
 * HTTP/2 connection come and go by the dozen.
 */
#include <keyhole/base/block.h>

#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/limits.h>

#include "sanitized.h"

enum {
	KINDS = 11,
	SMALL_BYTES = 1536,
	/* Every kind is a multiple of it. What has more than that above its kind is another size
	   that happens to be larger. */
	STEP_BYTES = 64,
};

/* A block in the store begins with the next one. */
struct block {
	struct block *next;
};

static const size_t kind_bytes[KINDS] = {
	64, 128, 192, 256, 384, 512, 768, 1024, 1536, 5 * 1024, 16 * 1024 + 1024,
};
static const unsigned kind_most[KINDS] = { 256, 256, 256, 256, 128, 128, 64, 64, 64, 128, 64 };

static _Thread_local struct block *store[KINDS];
static _Thread_local unsigned stored[KINDS];

/* By the number of steps, rounded up. */
static const unsigned char kind_of_steps[SMALL_BYTES / STEP_BYTES + 1] = {
	0, 0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7, 8, 8, 8, 8, 8, 8, 8, 8,
};

/* Return: KINDS for none. */
static unsigned kind_of(size_t size)
{
	unsigned kind = KINDS - 2;
	if (size <= SMALL_BYTES)
		return kind_of_steps[(size + STEP_BYTES - 1) / STEP_BYTES];
	while (kind < KINDS && size > kind_bytes[kind])
		kind++;
	return kind;
}

void *kh_block_get(size_t *size)
{
	unsigned kind = KH_SANITIZED ? KINDS : kind_of(*size);
	if (kind == KINDS)
		return malloc(*size);
	/* Who asks for little has a use for just that. */
	if (kind_bytes[kind] > SMALL_BYTES)
		*size = kind_bytes[kind];
	struct block *block = store[kind];
	if (!block)
		return malloc(kind_bytes[kind]);
	store[kind] = block->next;
	stored[kind]--;
	return block;
}

static bool put_away(void *bytes)
{
	size_t steps = malloc_usable_size(bytes) / STEP_BYTES;
	unsigned kind = kind_of(steps * STEP_BYTES);
	if (steps == 0 || kind == KINDS || kind_bytes[kind] != steps * STEP_BYTES ||
	    stored[kind] >= kind_most[kind])
		return false;
	struct block *block = bytes;
	block->next = store[kind];
	store[kind] = block;
	stored[kind]++;
	return true;
}

void *kh_block_new(size_t size)
{
	size_t got = size;
	void *block = kh_block_get(&got);
	if (block)
		memset(block, 0, size);
	return block;
}

void kh_block_give(void *block)
{
	if (KH_SANITIZED || !block || !put_away(block))
		free(block);
}
