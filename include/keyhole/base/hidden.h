/* hidden.h - memory that no debugger reads, for copies of a credential on its way out */
#ifndef KEYHOLE_BASE_HIDDEN_H
#define KEYHOLE_BASE_HIDDEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <keyhole/base/err.h>

/*
 * Whatever a secret's window (secret.h) is opened for is in memory for a moment: a head with a
 * credential in it, its copies in nghttp2 and OpenSSL, a private key in use. That memory comes from
 * one region of memfd_secret pages, which neither ptrace, /proc/PID/mem nor a core dump can read.
 * Unlike a secret's own pages it is open to this process: it protects against readers from outside.
 *
 * The region has a fixed size and is made by kh_hidden_prepare. If it is full, or if there is none
 * (the kernel has no memfd_secret, RLIMIT_MEMLOCK or RLIMIT_FSIZE is too small, kh_hidden_prepare
 * was not called, a sanitizer runs), memory comes from malloc. In either case its user overwrites
 * it.
 *
 * After a fork the child has the parent's region, for as long as it takes to exec. It must free
 * nothing in it; what it allocates comes from malloc.
 */

/* To be called before threads start and before a lock-in. Only the first call has an effect. */
void kh_hidden_prepare(void);
/*
 * After kh_hidden_prepare: is the region as large as a busy process needs
 * (KH_LIMIT_HIDDEN_LEAST_BYTES)? Return: false with `why`, which names the limit and says what to
 * do. True if the kernel has no memfd_secret or a sanitizer runs, since nothing would help there.
 */
bool kh_hidden_suffices(struct kh_err *why);

/* LASTING: for what lives as long as a connection; such blocks may take half of the region at most.
 */
enum kh_hidden_life { KH_HIDDEN_BRIEF = 0, KH_HIDDEN_LASTING };

/* *size: in: the bytes needed; out: the bytes usable. Not cleared. The caller frees with
 * kh_hidden_give. Return: NULL without memory. */
void *kh_hidden_get(size_t *size, enum kh_hidden_life life);
/* Frees a block of kh_hidden_get or malloc; NULL is fine. Does not overwrite it. */
void kh_hidden_give(void *block);
/* The usable bytes of such a block. */
size_t kh_hidden_usable(void *block);
/* Bytes of the region that are in use. */
size_t kh_hidden_used(void);

extern uintptr_t kh_hidden_from, kh_hidden_bytes; /* only hidden.c changes these */

/* Is it in the region? */
static inline bool kh_hidden_has(const void *at)
{
	return (uintptr_t)at - kh_hidden_from < kh_hidden_bytes;
}

/*
 * Between begin and end, memory that OpenSSL and nghttp2 allocate on this thread is hidden
 * (wipe_libraries.c, h2_mem.c). Pairs may be nested. kh_secret_expose does this around its
 * callback.
 */
extern _Thread_local unsigned kh_hidden_depth;

static inline void kh_hidden_begin(void)
{
	kh_hidden_depth++;
}

static inline void kh_hidden_end(void)
{
	kh_hidden_depth--;
}

static inline bool kh_hidden_is_on(void)
{
	return kh_hidden_depth > 0;
}

#endif
