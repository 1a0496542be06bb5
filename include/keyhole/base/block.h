/* block.h - malloc for blocks that are freed and allocated again all the time */
#ifndef KEYHOLE_BASE_BLOCK_H
#define KEYHOLE_BASE_BLOCK_H

#include <stddef.h>

/*
 * malloc and free with a small cache per thread of recently freed blocks. An idle connection keeps
 * no buffer, so each request allocates and frees the same few sizes, which a general allocator
 * would split and merge each time. These functions may be mixed with malloc, realloc and free. A
 * block is neither cleared nor wiped when it is freed.
 */

/* *size: in: the bytes needed; out: the bytes usable, at least as many. Return: NULL without
 * memory. */
void *kh_block_get(size_t *size);
/* As calloc: zeroed. Return: NULL without memory. */
void *kh_block_new(size_t size);
void kh_block_give(void *block); /* NULL is fine */

#endif
