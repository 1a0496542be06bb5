/*
 * h2_mem.c - the memory that nghttp2 works with: what it gives back is overwritten
 *
 * Copies of a credential lie in name/value arrays, in the deflater's buffers and in the frames made
 * of them. All of those come from here, and what is freed or moved is wiped first. The one buffer
 * that nghttp2 keeps from frame to frame is wiped where it is written (h2_send.c).
 */
#include "h2_internal.h"

#include <malloc.h>
#include <stdlib.h>

#include <keyhole/block.h>
#include <keyhole/secret.h>

/* What is as large as that lives as long as its connection, which may be idle: memory that nobody
 * has written to costs nothing there. */
enum { LASTING_BYTES = 1024 };

static void *mem_malloc(size_t size, void *user)
{
	(void)user;
	return size < LASTING_BYTES ? kh_block_get(&size) : malloc(size);
}

static void *mem_calloc(size_t n, size_t size, void *user)
{
	(void)user;
	if (n > 0 && size < LASTING_BYTES / n)
		return kh_block_new(n * size);
	return calloc(n, size);
}

static void mem_free(void *ptr, void *user)
{
	(void)user;
	if (ptr)
		kh_wipe(ptr, malloc_usable_size(ptr));
	kh_block_give(ptr);
}

static void *mem_realloc(void *ptr, size_t size, void *user)
{
	size_t had = ptr ? malloc_usable_size(ptr) : 0;
	void *moved = mem_malloc(size, user);

	if (!moved)
		return NULL;
	if (had > 0)
		memcpy(moved, ptr, had < size ? had : size);
	mem_free(ptr, user);
	return moved;
}

nghttp2_mem kh_h2_mem = {
	.malloc = mem_malloc,
	.free = mem_free,
	.calloc = mem_calloc,
	.realloc = mem_realloc,
};
