/* secret.h - pages that hold a credential, shut but for the moment in which it is used */
#ifndef KEYHOLE_BASE_SECRET_H
#define KEYHOLE_BASE_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#include <keyhole/base/err.h>
#include <keyhole/base/slice.h>

/*
 * A value in pages of its own: memfd_secret where the kernel has it (neither ptrace nor a core dump
 * reads it), else a sealed memfd, locked and left out of dumps. Nothing in the process can read the
 * pages outside kh_secret_expose: a memory protection key opens them for the one thread that is in
 * it (and with them all other secrets), or, where there is none, they are PROT_NONE and windows of
 * several threads on one secret are counted. There is no accessor that gives the value.
 * Reference-counted (atomically): a reload replaces a secret while exchanges still use the old one;
 * the last unref wipes and unmaps.
 */
struct kh_secret;

/* Copies `value` in (1 … KH_LIMIT_SECRET_BYTES bytes) and overwrites the caller's copy. */
struct kh_secret *kh_secret_new(void *value, size_t len, struct kh_err *err);
/*
 * For crossing to another process: a descriptor to be sent (the caller's, who closes it as soon as
 * it is sent; -1 when none can be made), and the receiver's side. Each call makes a copy in fresh
 * pages, of which the receiver is the only user: it overwrites them at its last unref, and can't
 * change the value here. kh_secret_from_fd takes the descriptor over, also when it
 * fails; it works in a worker that has locked itself in (mmap, mprotect, pkey_mprotect, madvise,
 * munmap, close) and called kh_secret_prepare before that.
 */
int kh_secret_fd(const struct kh_secret *secret);
struct kh_secret *kh_secret_from_fd(int fd, size_t len, struct kh_err *err);

struct kh_secret *kh_secret_ref(struct kh_secret *secret);
void kh_secret_unref(struct kh_secret *secret); /* NULL is fine */

size_t kh_secret_len(const struct kh_secret *secret);
/* What it takes of the memory that may be locked; of one that is not there yet (NULL), a page. */
size_t kh_secret_locked_bytes(const struct kh_secret *secret);
/*
 * How much of that memory the values of scopes, which sandboxes choose, may take in this process: a
 * quarter, and KH_LIMIT_SCOPED_BYTES at most. The rest is for values without a scope, the hidden
 * pages, fingerprints, copies on their way, and the start of the next worker.
 */
size_t kh_secret_scoped_most_bytes(void);
/*
 * Opens the page, runs `use` (which writes the bytes into a wiping buffer and keeps no pointer),
 * shuts it. What OpenSSL and nghttp2 fetch for themselves meanwhile is hidden (hidden.h). Return:
 * what `use` returned; false when the page could not be opened.
 */
bool kh_secret_expose(const struct kh_secret *secret, bool (*use)(struct kh_slice value, void *arg),
		      void *arg);
/* In time that depends on the lengths only. */
bool kh_secret_equals(const struct kh_secret *secret, struct kh_slice candidate);
/* Do the two hold the same bytes? */
bool kh_secret_same(const struct kh_secret *a, const struct kh_secret *b);
/* Finds out how this machine shuts pages, and makes hidden.h's. */
void kh_secret_prepare(void);
/* "memfd_secret" or "memfd": for doctor and the log. */
const char *kh_secret_backing(void);

/*
 * From here on OpenSSL and jansson overwrite what they give back, and what they fetch between
 * kh_hidden_begin and kh_hidden_end is hidden: for a process that reads private keys, documents
 * that hold one, or values of credentials. `but_records`: TLS records are not overwritten, for a
 * process that reads none of those out of one. Before either is used. Return: false: OpenSSL is in
 * use already.
 */
bool kh_wipe_libraries(bool but_records);
/* Overwrites; never optimised away. */
void kh_secret_wipe(void *bytes, size_t len);

#endif
