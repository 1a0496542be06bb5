/*
 * secret_key.c - a memory protection key, by which a thread opens and closes pages without a system
 * call
 *
 * A thread can read pages that have the key only while its own PKRU register allows it. That takes
 * two instructions instead of two mprotect(2) calls, and what one thread opens stays closed for all
 * others. Each thread has its own register; a new thread starts with the pages closed. x86-64 with
 * `ospke` has this. It is tried on a page before keyhole relies on it.
 */
#include "secret_internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__) && defined(SYS_pkey_alloc) && !defined(KH_LINT)

enum { NO_ACCESS = 1 }; /* PKEY_DISABLE_ACCESS */

static uint32_t rights_read(void)
{
	uint32_t low, high;
	__asm__ volatile("rdpkru" : "=a"(low), "=d"(high) : "c"(0));
	return low;
}

/* No access moves across it, in the compiler or in the processor. */
static void rights_write(uint32_t rights)
{
	__asm__ volatile("wrpkru" : : "a"(rights), "c"(0), "d"(0) : "memory");
}

/* Two bits a key: no access, no writing. */
static uint32_t shut_bits(int key)
{
	return 3u << (2 * (unsigned)key);
}

void kh_secret_key_open(int key)
{
	const uint32_t no_writing = 2u << (2 * (unsigned)key);
	rights_write((rights_read() & ~shut_bits(key)) | no_writing);
}

void kh_secret_key_shut(int key)
{
	rights_write(rights_read() | shut_bits(key));
}

bool kh_secret_key_protect(int key, void *map, size_t map_len, int prot)
{
	return syscall(SYS_pkey_mprotect, map, map_len, prot, key) == 0;
}

/* The kernel reads a page for a thread only if that thread may. */
static bool can_read(int fd, const void *page)
{
	return write(fd, page, sizeof(uint64_t)) == (ssize_t)sizeof(uint64_t);
}

static bool does_what_it_says(int key, void *page, size_t len)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fd < 0)
		return false;
	bool ok = can_read(fd, page) && kh_secret_key_protect(key, page, len, PROT_READ);
	kh_secret_key_shut(key);
	ok = ok && !can_read(fd, page) && errno == EFAULT;
	kh_secret_key_open(key);
	ok = ok && can_read(fd, page);
	kh_secret_key_shut(key);
	ok = ok && !can_read(fd, page) && errno == EFAULT;
	(void)close(fd);
	return ok;
}

static int find_key(void)
{
	size_t len = (size_t)sysconf(_SC_PAGESIZE);
	int key = (int)syscall(SYS_pkey_alloc, 0, NO_ACCESS);
	if (key < 0)
		return KH_SECRET_NO_KEY;
	void *page = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool ok = page != MAP_FAILED && does_what_it_says(key, page, len);
	if (page != MAP_FAILED)
		(void)munmap(page, len);
	if (ok)
		return key;
	(void)syscall(SYS_pkey_free, key);
	return KH_SECRET_NO_KEY;
}

#else

void kh_secret_key_open(int key)
{
	(void)key;
}

void kh_secret_key_shut(int key)
{
	(void)key;
}

bool kh_secret_key_protect(int key, void *map, size_t map_len, int prot)
{
	(void)key;
	(void)map;
	(void)map_len;
	(void)prot;
	return false;
}

static int find_key(void)
{
	return KH_SECRET_NO_KEY;
}

#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int found = KH_SECRET_NO_KEY;
static atomic_bool hidden;

static void find_once(void)
{
	found = find_key();
}

int kh_secret_key(void)
{
	(void)pthread_once(&once, find_once);
	return atomic_load(&hidden) ? KH_SECRET_NO_KEY : found;
}

void kh_secret_force_mprotect(bool on)
{
	atomic_store(&hidden, on);
}
