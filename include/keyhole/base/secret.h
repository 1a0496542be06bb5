/* secret.h - memory pages that hold a credential and are closed except while it is used */
#ifndef KEYHOLE_BASE_SECRET_H
#define KEYHOLE_BASE_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#include <keyhole/base/err.h>
#include <keyhole/base/slice.h>

/*
 * Each value has pages of its own: of memfd_secret if the kernel has it (neither ptrace nor a core
 * dump reads them), else of a sealed memfd, locked into memory and left out of dumps. Nothing in
 * the process can read them outside of kh_secret_expose. A memory protection key opens them, and
 * all other secrets, for the one thread that is inside it. Where there is no such key, the pages
 * are PROT_NONE, and the threads that have one secret open are counted. There is no accessor that
 * returns the value.
 *
 * Reference-counted (atomically): a reload replaces a secret while exchanges still use the old one.
 * The last unref wipes and unmaps it.
 */
struct kh_secret;

/* Copies `value` (1 to KH_LIMIT_SECRET_BYTES bytes) and overwrites the caller's copy, also on
 * failure. Return: NULL with `err`. */
struct kh_secret *kh_secret_new(void *value, size_t len, struct kh_err *err);
/*
 * To pass a secret to another process. kh_secret_fd makes a copy in fresh pages and returns its
 * descriptor, which the caller closes as soon as it is sent; -1: none can be made. The receiver is
 * the only user of these pages: it overwrites them at its last unref, and can't change the value
 * here.
 *
 * kh_secret_from_fd is the receiver's side. It takes the descriptor over, also when it fails. In a
 * locked-in worker it needs only mmap, mprotect, pkey_mprotect, madvise, munmap and close, if
 * kh_secret_prepare was called before the lock-in. Return: NULL with `err`.
 */
int kh_secret_fd(const struct kh_secret *secret);
struct kh_secret *kh_secret_from_fd(int fd, size_t len, struct kh_err *err);

struct kh_secret *kh_secret_ref(struct kh_secret *secret);
void kh_secret_unref(struct kh_secret *secret); /* NULL is fine */
/* Is there another reference? Then an unref gives no page back. */
bool kh_secret_is_shared(const struct kh_secret *secret);

size_t kh_secret_len(const struct kh_secret *secret);
/* The lockable memory (RLIMIT_MEMLOCK) that it takes; NULL, for one that is not there yet: one
 * page. */
size_t kh_secret_locked_bytes(const struct kh_secret *secret);
/*
 * How much lockable memory the values of scopes may take in this process. Sandboxes choose scopes.
 * So it is a quarter, and at most KH_LIMIT_SCOPED_BYTES; the rest is for values without a scope,
 * hidden pages, fingerprints, copies to other processes, and the start of the next worker.
 */
size_t kh_secret_scoped_most_bytes(void);
/*
 * Opens the pages, calls `use` (which writes the bytes into a wiping buffer and keeps no pointer),
 * and closes them. Memory that OpenSSL and nghttp2 allocate meanwhile is hidden (hidden.h). Calls
 * may be nested. Return: what `use` returned; false: the pages could not be opened.
 */
bool kh_secret_expose(const struct kh_secret *secret, bool (*use)(struct kh_slice value, void *arg),
		      void *arg);
/* Compares in time that depends only on the lengths. Return: false also if the pages can't be
 * opened. */
bool kh_secret_equals(const struct kh_secret *secret, struct kh_slice candidate);
/* Do both hold the same bytes? In the same way. */
bool kh_secret_same(const struct kh_secret *a, const struct kh_secret *b);
/* Finds out how this machine protects such pages, and makes the region of hidden.h. Before threads
 * and the lock-in. */
void kh_secret_prepare(void);
/* "memfd_secret" or "memfd": for doctor and the log. */
const char *kh_secret_backing(void);

/*
 * From now on OpenSSL and jansson overwrite memory that they free, and what they allocate between
 * kh_hidden_begin and kh_hidden_end is hidden. For a process that reads private keys, documents
 * with one in them, or values of credentials. `but_records`: TLS records are not overwritten, for a
 * process that reads none of these out of a record. To be called before either library is used.
 * Return: false: OpenSSL is in use already.
 */
bool kh_wipe_libraries(bool but_records);
/* Overwrites; never optimised away. */
void kh_secret_wipe(void *bytes, size_t len);

#endif
