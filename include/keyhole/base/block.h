/* block.h - memory that is given back and fetched again all the time */
#ifndef KEYHOLE_BASE_BLOCK_H
#define KEYHOLE_BASE_BLOCK_H

#include <stddef.h>

/*
 * malloc and free, with a small store a thread of blocks that were given back last. A connection
 * that rests keeps no buffer, so each request takes the same few sizes and gives them back, and a
 * general allocator splits and merges them each time. All of it may be mixed with malloc, realloc
 * and free. Content is neither cleared nor wiped.
 */

/* *size: in: what is needed; out: what there is. Return: NULL without memory. */
void *kh_block_get(size_t *size);
/* Cleared. */
void *kh_block_new(size_t size);
void kh_block_give(void *block); /* NULL is fine */

#endif
