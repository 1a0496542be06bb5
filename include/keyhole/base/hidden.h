/* hidden.h - memory that no debugger reads, for what is made of a credential on its way out */
#ifndef KEYHOLE_BASE_HIDDEN_H
#define KEYHOLE_BASE_HIDDEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <keyhole/base/err.h>

/*
 * A head with a credential in it, its copies in nghttp2 and OpenSSL, a private key that is being
 * used: all that a window (secret.h) is opened for lies in memory for a moment. That memory is one
 * region of memfd_secret pages, which neither ptrace, /proc/PID/mem nor a core dump reads. Unlike
 * a secret's own pages it is open to this process: this is against readers from outside.
 *
 * The region has a fixed size, made by kh_hidden_prepare. Where it is used up, and where there is
 * none (the kernel has no memfd_secret, RLIMIT_MEMLOCK or RLIMIT_FSIZE is too small, nobody has
 * prepared it, a sanitizer watches), memory is malloc's; who used it overwrites it either way.
 *
 * After a fork the child has the region as its parent has, for as long as it takes to exec, and
 * must give nothing back; what it asks for is malloc's.
 */

/* Once, before threads and before a lock-in; any further call does nothing. */
void kh_hidden_prepare(void);
/*
 * After kh_hidden_prepare: is there as much as a busy process needs (KH_LIMIT_HIDDEN_LEAST_BYTES)?
 * Return: false with `why`, which names the limit and what to do. Where the kernel has no
 * memfd_secret, or a sanitizer watches, there never is any: true.
 */
bool kh_hidden_suffices(struct kh_err *why);

/* LASTING: lives as long as a connection; has half of the region at most. */
enum kh_hidden_life { KH_HIDDEN_BRIEF = 0, KH_HIDDEN_LASTING };

/* *size: in: what is needed; out: what there is. Return: NULL without memory. Not cleared. */
void *kh_hidden_get(size_t *size, enum kh_hidden_life life);
/* Also what is malloc's; NULL is fine. Not overwritten. */
void kh_hidden_give(void *block);
/* How much there is in such a block. */
size_t kh_hidden_usable(void *block);
/* Bytes of the region that are in use. */
size_t kh_hidden_used(void);

extern uintptr_t kh_hidden_from, kh_hidden_bytes; /* not to be changed */

/* Does it lie in the region? */
static inline bool kh_hidden_has(const void *at)
{
	return (uintptr_t)at - kh_hidden_from < kh_hidden_bytes;
}

/*
 * Between the two, what OpenSSL and nghttp2 fetch for themselves on this thread is hidden
 * (wipe_libraries.c, h2_mem.c). They may lie within each other. kh_secret_expose does it for its
 * window.
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
