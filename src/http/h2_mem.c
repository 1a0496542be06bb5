/*
 * h2_mem.c - nghttp2's allocator: memory that it frees is overwritten
 *
 * There are copies of a credential in arrays of names and values, in the HPACK deflater's buffers,
 * and in the frames made from them. All of that memory comes from here, and is wiped before it is
 * freed or moved. The one buffer that nghttp2 reuses from frame to frame is wiped where it is
 * written (h2_send.c), and a client's buffer is hidden (hidden.h). So is memory that nghttp2
 * allocates while it gets a head with a credential.
 *
 * nghttp2's queue of streams that have content to send must never fail to grow. If it does, nghttp2
 * (1.52) frees the new item, but the stream keeps it, and it is freed again with the session. So a
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
