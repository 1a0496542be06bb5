/*
 * h2_mem.c - the memory that nghttp2 works with: what it gives back is overwritten
 *
 * Copies of a credential lie in name/value arrays, in the deflater's buffers and in the frames made
 * of them. All of those come from here, and what is freed or moved is wiped first. The one buffer
 * that nghttp2 keeps from frame to frame is wiped where it is written (h2_send.c), and a client's
 * is hidden (hidden.h), as is what it fetches while it is handed a head with a credential.
 *
 * Its line of streams that have content to send never fails to grow: where it does, nghttp2 (1.52)
 * gives the new item back and the stream keeps it, which is freed again with the session. So a
 * small realloc falls back on a reserve.
 */
#include "h2_internal.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <keyhole/base/block.h>
#include <keyhole/base/hidden.h>
#include <keyhole/base/secret.h>

/* What is as large as that lives as long as its connection, and goes back to malloc. */
enum { LASTING_BYTES = 1024, PAGES_BYTES = 16 * 1024 };

/* Of all threads together. A line has a pointer for each stream of its connection. */
enum { RESERVE_BLOCKS = 32, RESERVE_BYTES = 2048 };
static _Alignas(max_align_t) char reserve[RESERVE_BLOCKS][RESERVE_BYTES];
static atomic_bool reserve_taken[RESERVE_BLOCKS];

static bool is_of_reserve(const void *ptr)
{
	return (uintptr_t)ptr - (uintptr_t)reserve < sizeof(reserve);
}

/* Without any a worker ends: the keeper starts another one. */
static void *take_reserve(void)
{
	for (size_t i = 0; i < RESERVE_BLOCKS; i++)
		if (!atomic_exchange(&reserve_taken[i], true))
			return reserve[i];
	abort();
}

static size_t usable(void *ptr)
{
	return is_of_reserve(ptr) ? (size_t)RESERVE_BYTES : kh_hidden_usable(ptr);
}

/* The buffer for a frame is 16 KiB, of which the frames of most connections use the beginning. What
 * an earlier owner of this memory left in the rest would stay in memory for as long as the
 * connection idles. */
static void *untouched(void *bytes, size_t size)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from, to;

	if (bytes && size >= PAGES_BYTES) {
		from = ((uintptr_t)bytes + page - 1) / page * page;
		to = ((uintptr_t)bytes + size) / page * page;
		if (to > from)
			(void)madvise((void *)from, to - from, MADV_DONTNEED);
	}
	return bytes;
}

/* `user`: not NULL for a client, whose heads may hold a credential. */
static void *mem_malloc(size_t size, void *user)
{
	if (user && size >= PAGES_BYTES)
		return kh_hidden_get(&size, KH_HIDDEN_LASTING);
	if (kh_hidden_is_on())
		return kh_hidden_get(&size, KH_HIDDEN_BRIEF);
	return size < LASTING_BYTES ? kh_block_get(&size) : untouched(malloc(size), size);
}

static void *mem_calloc(size_t n, size_t size, void *user)
{
	(void)user;
	if (n == 0 || size < LASTING_BYTES / n)
		return kh_block_new(n * size);
	return calloc(n, size);
}

static void mem_free(void *ptr, void *user)
{
	(void)user;
	if (ptr)
		kh_secret_wipe(ptr, usable(ptr));
	if (is_of_reserve(ptr))
		atomic_store(&reserve_taken[((char *)ptr - reserve[0]) / RESERVE_BYTES], false);
	else
		kh_hidden_give(ptr);
}

static void *mem_realloc(void *ptr, size_t size, void *user)
{
	size_t had = ptr ? usable(ptr) : 0;
	void *moved = mem_malloc(size, user);

	if (!moved && size <= RESERVE_BYTES)
		moved = take_reserve();
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

nghttp2_mem kh_h2_mem_client = {
	.mem_user_data = &kh_h2_mem_client,
	.malloc = mem_malloc,
	.free = mem_free,
	.calloc = mem_calloc,
	.realloc = mem_realloc,
};
