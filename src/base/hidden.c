/*
 * hidden.c - an allocator over one region of memfd_secret pages
 *
 * One bit per granule says whether it is taken. The length of each block is stored outside of the
 * region. The first run that is long enough is taken. Each thread starts its search in a stripe of
 * its own, so that threads do not pull each other's cache lines. Pages that were never allocated
 * cost nothing.
 */
#include <keyhole/base/hidden.h>

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <keyhole/base/block.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/limits.h>

#include "sanitized.h"
#include "secret_internal.h"

enum {
	GRANULE_BYTES = 256,
	GRANULES = KH_LIMIT_HIDDEN_BYTES / GRANULE_BYTES,
	WORD_BITS = 64,
	STRIPES = 8,
	/* A connection's whole backlog is not what this is for. */
	MOST_BYTES = 256 * 1024,
	/* Of what this process may lock into memory; the rest is for the secrets themselves. */
	SHARE = 4,
};

uintptr_t kh_hidden_from, kh_hidden_bytes;
_Thread_local unsigned kh_hidden_depth;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t taken[GRANULES / WORD_BITS];
static uint16_t lengths[GRANULES]; /* of the block that begins there, in granules */
static uint32_t granules, used, lasting;
static bool is_lasting[GRANULES];
static atomic_uint threads;
static _Thread_local unsigned stripe; /* one more than it is */
static atomic_bool forked;

static void in_child(void)
{
	atomic_store_explicit(&forked, true, memory_order_relaxed);
}

static size_t at_most(size_t bytes, rlim_t limit)
{
	return limit < bytes ? (size_t)limit : bytes;
}

static size_t wanted_bytes(void)
{
	struct rlimit limit;
	size_t most = KH_LIMIT_HIDDEN_BYTES, page = (size_t)sysconf(_SC_PAGESIZE);
	if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0)
		most = at_most(most, limit.rlim_cur / SHARE);
	/* The pages are a file's: one that is larger than a file may be ends the process. */
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0)
		most = at_most(most, limit.rlim_cur);
	return most / page * page;
}

static void prepare(void)
{
	size_t len = wanted_bytes();
	kh_auto_close int fd = kh_secret_open_pages(len);
	if (len == 0 || fd < 0)
		return;
	void *map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return;
	if (pthread_atfork(NULL, NULL, in_child) != 0) {
		(void)munmap(map, len);
		return;
	}
	granules = (uint32_t)(len / GRANULE_BYTES);
	kh_hidden_from = (uintptr_t)map;
	kh_hidden_bytes = len;
}

void kh_hidden_prepare(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	if (!KH_SANITIZED)
		(void)pthread_once(&once, prepare);
}

bool kh_hidden_suffices(struct kh_err *why)
{
	struct rlimit lock_limit, file_limit;
	if (KH_SANITIZED || kh_hidden_bytes >= KH_LIMIT_HIDDEN_LEAST_BYTES ||
	    !kh_secret_is_memfd_secret())
		return true;
	bool file = getrlimit(RLIMIT_FSIZE, &file_limit) == 0 &&
		    getrlimit(RLIMIT_MEMLOCK, &lock_limit) == 0 &&
		    file_limit.rlim_cur < lock_limit.rlim_cur / SHARE;
	return kh_err_set(why, KH_ERR_SYSTEM,
			  "%zu KiB of hidden pages are all that %s allows: what is made of a "
			  "credential on its way out may lie in ordinary memory, which can be "
			  "swapped out (raise it: %s)",
			  (size_t)kh_hidden_bytes / 1024, file ? "RLIMIT_FSIZE" : "RLIMIT_MEMLOCK",
			  file ? "LimitFSIZE= of the unit, or ulimit -f"
			       : "LimitMEMLOCK=64M of the unit, or ulimit -l 65536");
}

/* ---- bits ---- */

static void mark(uint32_t at, uint32_t n, bool as)
{
	for (uint32_t end = at + n; at < end;) {
		uint32_t bit = at % WORD_BITS, count = WORD_BITS - bit;
		if (count > end - at)
			count = end - at;
		uint64_t mask = (count == WORD_BITS ? ~0ULL : (1ULL << count) - 1) << bit;
		if (as)
			taken[at / WORD_BITS] |= mask;
		else
			taken[at / WORD_BITS] &= ~mask;
		at += count;
	}
}

/* The first granule at or behind `at` that is taken, or that is not. Return: `end` for none. */
static uint32_t first(bool that_is_taken, uint32_t at, uint32_t end)
{
	while (at < end) {
		uint64_t word = that_is_taken ? taken[at / WORD_BITS] : ~taken[at / WORD_BITS];
		uint64_t rest = word >> (at % WORD_BITS);
		if (rest) {
			at += (uint32_t)__builtin_ctzll(rest);
			break;
		}
		at = (at / WORD_BITS + 1) * WORD_BITS;
	}
	return at < end ? at : end;
}

/* A run of n in [from, end). Return: `end` for none. */
static uint32_t find_run(uint32_t from, uint32_t end, uint32_t n)
{
	uint32_t at = first(false, from, end);
	while (end - at >= n) {
		uint32_t until = first(true, at, at + n);
		if (until == at + n)
			return at;
		at = first(false, until, end);
	}
	return end;
}

static uint32_t stripe_begin(void)
{
	if (stripe == 0)
		stripe = 1 + atomic_fetch_add(&threads, 1) % STRIPES;
	return granules / STRIPES * (stripe - 1);
}

/* ---- blocks ---- */

static void *take(uint32_t n, enum kh_hidden_life life)
{
	uint32_t begin = stripe_begin();
	void *block = NULL;
	(void)pthread_mutex_lock(&lock);
	uint32_t at = granules;
	if (granules - used >= n && (life == KH_HIDDEN_BRIEF || lasting + n <= granules / 2)) {
		at = find_run(begin, granules, n);
		if (at == granules)
			at = find_run(0, granules, n);
	}
	if (at < granules) {
		mark(at, n, true);
		lengths[at] = (uint16_t)n;
		is_lasting[at] = life == KH_HIDDEN_LASTING;
		used += n;
		lasting += is_lasting[at] ? n : 0;
		block = (char *)kh_hidden_from + (size_t)at * GRANULE_BYTES;
	}
	(void)pthread_mutex_unlock(&lock);
	return block;
}

void *kh_hidden_get(size_t *size, enum kh_hidden_life life)
{
	size_t n = (*size + GRANULE_BYTES - 1) / GRANULE_BYTES;
	if (kh_hidden_bytes > 0 && n > 0 && n <= MOST_BYTES / GRANULE_BYTES &&
	    !atomic_load_explicit(&forked, memory_order_relaxed)) {
		void *block = take((uint32_t)n, life);
		if (block) {
			*size = n * GRANULE_BYTES;
			return block;
		}
	}
	return kh_block_get(size);
}

static uint32_t granule_of(const void *block)
{
	return (uint32_t)(((uintptr_t)block - kh_hidden_from) / GRANULE_BYTES);
}

void kh_hidden_give(void *block)
{
	if (!kh_hidden_has(block)) {
		kh_block_give(block);
		return;
	}
	if (atomic_load_explicit(&forked, memory_order_relaxed))
		return; /* it is the parent's */
	uint32_t at = granule_of(block);
	(void)pthread_mutex_lock(&lock);
	uint32_t n = lengths[at];
	mark(at, n, false);
	lengths[at] = 0;
	used -= n;
	lasting -= is_lasting[at] ? n : 0;
	(void)pthread_mutex_unlock(&lock);
}

size_t kh_hidden_usable(void *block)
{
	if (!kh_hidden_has(block))
		return malloc_usable_size(block);
	return (size_t)lengths[granule_of(block)] * GRANULE_BYTES;
}

size_t kh_hidden_used(void)
{
	(void)pthread_mutex_lock(&lock);
	size_t bytes = (size_t)used * GRANULE_BYTES;
	(void)pthread_mutex_unlock(&lock);
	return bytes;
}
