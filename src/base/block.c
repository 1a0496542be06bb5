/*
 * block.c - a store of blocks, each thread's own
 *
 * Two sizes: what one message head takes, and one TLS record. What was given back last
 * is fetched first: it is still in the processor's cache. The store is bounded, and it holds what
 * all connections together use at one time, not what each of them could. Small sizes are left to
 * malloc, which has such a store for them itself.
 */
#include <keyhole/block.h>

#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>

#include <keyhole/limits.h>

enum {
	KINDS = 2,
	SMALL_BYTES = 1024,
	/* More than this above its kind: another size that happens to be larger. */
	SLACK_BYTES = 64,
};

/* A block in the store begins with the next one. */
struct block {
	struct block *next;
};

static const size_t kind_bytes[KINDS] = {
	5 * 1024,
	16 * 1024 + 1024,
};
static const unsigned kind_most[KINDS] = { 128, 64 };

static _Thread_local struct block *store[KINDS];
static _Thread_local unsigned stored[KINDS];

/* Return: KINDS for none. */
static unsigned kind_of(size_t size)
{
	unsigned kind = 0;
	if (size <= SMALL_BYTES)
		return KINDS;
	while (kind < KINDS && size > kind_bytes[kind])
		kind++;
	return kind;
}

/* A sanitizer has to see each end of life. */
#if defined(__SANITIZE_ADDRESS__)
#define STORING false
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define STORING false
#endif
#endif
#ifndef STORING
#define STORING true
#endif

void *kh_block_get(size_t *size)
{
	unsigned kind = STORING ? kind_of(*size) : KINDS;
	if (kind == KINDS)
		return malloc(*size);
	*size = kind_bytes[kind];
	struct block *block = store[kind];
	if (!block)
		return malloc(*size);
	store[kind] = block->next;
	stored[kind]--;
	return block;
}

static bool put_away(void *bytes)
{
	size_t size = malloc_usable_size(bytes);
	if (size < kind_bytes[0]) /* nearly always: a certificate alone is hundreds of these */
		return false;
	for (unsigned kind = 0; kind < KINDS; kind++) {
		if (size < kind_bytes[kind] || size >= kind_bytes[kind] + SLACK_BYTES)
			continue;
		if (stored[kind] >= kind_most[kind])
			return false;
		struct block *block = bytes;
		block->next = store[kind];
		store[kind] = block;
		stored[kind]++;
		return true;
	}
	return false;
}

void kh_block_give(void *block)
{
	if (!STORING || !block || !put_away(block))
		free(block);
}
