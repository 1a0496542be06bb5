/*
 * secret.c - credential values in closed pages
 *
 * A value has whole pages of its own, from memfd_secret(2) if the kernel has it. Such pages are not
 * in the kernel's own map of memory. So neither ptrace, /proc/PID/mem, process_vm_readv nor a core
 * dump reads them, and the kernel clears them when the last user unmaps them. Otherwise it is a
 * memfd of fixed size, locked into memory and left out of dumps.
 *
 * The value is readable only inside kh_secret_expose, in a window. Pages of memfd_secret have a
 * memory protection key where such keys work (secret_key.c); then each thread has a window of its
 * own. Elsewhere the mapping is PROT_NONE outside of windows. Threads share it, so the windows are
 * counted, and the last one closes it.
 *
 * No descriptor is kept: what is not open can't be sent or reopened through /proc. For another
 * process kh_secret_fd makes a copy in fresh pages, and that process becomes their only user. So it
 * may overwrite them when it is done, and nothing that it does changes the value here. The caller
 * closes the copy's descriptor as soon as it is sent: one per value would use up the keeper's
 * descriptors.
 *
 * A child does not inherit the mapping (MADV_DONTFORK): the keeper forks only to exec.
 *
 * In a locked-in process that called kh_secret_prepare before, kh_secret_from_fd and all later
 * calls need only mmap, mprotect, pkey_mprotect, madvise, munmap and close.
 */
#include <keyhole/base/secret.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/hidden.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>

#include "secret_internal.h"

#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447 /* the same number on every architecture that has it */
#endif
#ifndef MFD_NOEXEC_SEAL /* Linux 6.3 */
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* What changes under a `const struct kh_secret`. */
struct window {
	pthread_mutex_t lock;
	unsigned open; /* threads that look at the value now */
};

struct kh_secret {
	atomic_uint refs;
	void *map;
	size_t map_len;
	size_t len;
	int key; /* KH_SECRET_NO_KEY: shut by mprotect */
	struct window *window;
};

enum backing { UNKNOWN = 0, MEMFD_SECRET, MEMFD };
static enum backing which_backing(void);
static atomic_int backing_known = UNKNOWN;
static atomic_size_t lockable; /* bytes; known with the backing */

void kh_secret_wipe(void *bytes, size_t len)
{
	if (len)
		explicit_bzero(bytes, len);
}

static size_t whole_pages(size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	return (len + page - 1) / page * page;
}

static int open_memfd_secret(void)
{
	return (int)syscall(SYS_memfd_secret, (unsigned)O_CLOEXEC);
}

static int open_memfd(void)
{
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = memfd_create("keyhole-secret", flags | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("keyhole-secret", flags);
	return fd;
}

/* The soft limit is often far under the hard one; the worker inherits what is set
 * here. */
static void raise_memlock(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_MEMLOCK, &limit);
	}
}

/* As the limit says, whatever this process may do besides: what CAP_IPC_LOCK allows may be taken
 * away from the next one. */
static void look_at_memlock(void)
{
	struct rlimit limit;
	raise_memlock();
	if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0)
		limit.rlim_cur = 0;
	atomic_store(&lockable, limit.rlim_cur < SIZE_MAX ? (size_t)limit.rlim_cur : SIZE_MAX);
}

size_t kh_secret_scoped_most_bytes(void)
{
	const size_t least = whole_pages(1) * 4, most = KH_LIMIT_SCOPED_BYTES;
	(void)which_backing();
	size_t quarter = atomic_load(&lockable) / 4;
	return quarter < least ? least : quarter < most ? quarter : most;
}

/* Asked once. Whatever the reason for a no (old kernel, switched off, a container's filter): the
 * fallback has to do. */
static enum backing which_backing(void)
{
	int known = atomic_load(&backing_known);
	if (known == UNKNOWN) {
		look_at_memlock();
		kh_auto_close int fd = open_memfd_secret();
		known = fd >= 0 ? MEMFD_SECRET : MEMFD;
		atomic_store(&backing_known, known);
	}
	return (enum backing)known;
}

bool kh_secret_is_memfd_secret(void)
{
	return which_backing() == MEMFD_SECRET;
}

const char *kh_secret_backing(void)
{
	return kh_secret_is_memfd_secret() ? "memfd_secret" : "memfd";
}

void kh_secret_prepare(void)
{
	(void)which_backing();
	(void)kh_secret_key();
	kh_hidden_prepare();
}

void kh_secret_force_memfd(bool on)
{
	look_at_memlock();
	atomic_store(&backing_known, on ? MEMFD : UNKNOWN);
}

/* A new file of whole pages, its size fixed for good. */
static int new_pages(size_t map_len, struct kh_err *err)
{
	bool secret = which_backing() == MEMFD_SECRET;
	kh_auto_close int fd = secret ? open_memfd_secret() : open_memfd();
	if (fd < 0) {
		kh_err_sys(err, KH_ERR_SYSTEM, errno, "pages for a secret can't be made");
		return -1;
	}
	/* memfd_secret takes a size once and no seals. Writing is not sealed off: whoever maps it
	   last overwrites it. */
	if (ftruncate(fd, (off_t)map_len) != 0 ||
	    (!secret && fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW) != 0)) {
		kh_err_sys(err, KH_ERR_SYSTEM, errno, "pages for a secret can't be sized");
		return -1;
	}
	return kh_steal_fd(&fd);
}

int kh_secret_open_pages(size_t len)
{
	return which_backing() == MEMFD_SECRET ? new_pages(len, NULL) : -1;
}

/* Locked, in no dump and in no child. (memfd_secret brings the first two by itself; asking twice
 * does no harm.) Readable for the moment, so that locking brings the pages in. */
static void *map_pages(int fd, size_t map_len, int prot, struct kh_err *err)
{
	void *map = mmap(NULL, map_len, prot, MAP_SHARED | MAP_LOCKED, fd, 0);
	if (map == MAP_FAILED) {
		int why = errno;
		kh_err_sys(err, KH_ERR_SYSTEM, why, "a secret can't be locked into memory%s",
			   why == EAGAIN || why == EPERM
				   ? " (raise RLIMIT_MEMLOCK: LimitMEMLOCK= of the "
				     "unit, or ulimit -l)"
				   : "");
		return NULL;
	}
	if (madvise(map, map_len, MADV_DONTFORK) != 0 ||
	    madvise(map, map_len, MADV_DONTDUMP) != 0) {
		kh_err_sys(err, KH_ERR_SYSTEM, errno, "a secret can't be kept out of dumps");
		(void)munmap(map, map_len);
		return NULL;
	}
	return map;
}

/* This thread's windows on pages with a key, one within the other. */
static _Thread_local unsigned keyed_windows;

/* A page that stays open is a promise broken: nothing goes on from there. */
static void shut(void *map, size_t map_len)
{
	if (mprotect(map, map_len, PROT_NONE) != 0) {
		kh_log_error("a secret's page can't be shut; stopping");
		abort();
	}
}

/* From here on it can be read in windows only. A key does not stop a debugger's process_vm_readv,
 * where PROT_NONE does: it takes pages that nobody but this process can read anyway. */
static void shut_for_good(struct kh_secret *secret)
{
	secret->key = which_backing() == MEMFD_SECRET ? kh_secret_key() : KH_SECRET_NO_KEY;
	if (secret->key != KH_SECRET_NO_KEY &&
	    kh_secret_key_protect(secret->key, secret->map, secret->map_len, PROT_READ))
		return;
	secret->key = KH_SECRET_NO_KEY;
	shut(secret->map, secret->map_len);
}

static bool is_len_fine(size_t len, struct kh_err *err)
{
	if (len >= 1 && len <= KH_LIMIT_SECRET_BYTES)
		return true;
	return kh_err_set(err, KH_ERR_CONFIG, "a secret must have 1 to %d bytes, this has %zu",
			  KH_LIMIT_SECRET_BYTES, len);
}

static struct kh_secret *new_shell(size_t len, struct kh_err *err)
{
	struct kh_secret *secret = calloc(1, sizeof(*secret));
	struct window *window = calloc(1, sizeof(*window));
	if (!secret || !window || pthread_mutex_init(&window->lock, NULL) != 0) {
		free(secret);
		free(window);
		kh_err_set(err, KH_ERR_NO_MEMORY, "no memory for a secret");
		return NULL;
	}
	atomic_init(&secret->refs, 1);
	secret->len = len;
	secret->map_len = whole_pages(len);
	secret->window = window;
	return secret;
}

static void free_shell(struct kh_secret *secret)
{
	(void)pthread_mutex_destroy(&secret->window->lock);
	free(secret->window);
	free(secret);
}

static bool fill(struct kh_secret *secret, const void *value, struct kh_err *err)
{
	kh_auto_close int fd = new_pages(secret->map_len, err);
	if (fd < 0)
		return false;
	void *map = map_pages(fd, secret->map_len, PROT_READ | PROT_WRITE, err);
	if (!map)
		return false;
	memcpy(map, value, secret->len);
	secret->map = map;
	shut_for_good(secret);
	return true;
}

struct kh_secret *kh_secret_new(void *value, size_t len, struct kh_err *err)
{
	struct kh_secret *secret = is_len_fine(len, err) ? new_shell(len, err) : NULL;
	if (secret && !fill(secret, value, err)) {
		free_shell(secret);
		secret = NULL;
	}
	kh_secret_wipe(value, len);
	return secret;
}

struct kh_secret *kh_secret_from_fd(int fd, size_t len, struct kh_err *err)
{
	kh_auto_close int owned = fd;
	struct kh_secret *secret = is_len_fine(len, err) ? new_shell(len, err) : NULL;
	if (!secret)
		return NULL;
	secret->map = map_pages(owned, secret->map_len, PROT_READ | PROT_WRITE, err);
	if (!secret->map) {
		free_shell(secret);
		return NULL;
	}
	shut_for_good(secret);
	return secret;
}

struct copy_args {
	void *to;
};

static bool copy_value(struct kh_slice value, void *arg)
{
	struct copy_args *args = arg;
	memcpy(args->to, value.ptr, value.len);
	return true;
}

/* The copy's pages are mapped here for no longer than it takes to fill them. */
int kh_secret_fd(const struct kh_secret *secret)
{
	kh_auto_close int fd = new_pages(secret->map_len, NULL);
	if (fd < 0)
		return -1;
	void *map = map_pages(fd, secret->map_len, PROT_READ | PROT_WRITE, NULL);
	if (!map)
		return -1;
	struct copy_args args = { map };
	bool ok = kh_secret_expose(secret, copy_value, &args);
	(void)munmap(map, secret->map_len);
	return ok ? kh_steal_fd(&fd) : -1;
}

struct kh_secret *kh_secret_ref(struct kh_secret *secret)
{
	(void)atomic_fetch_add_explicit(&secret->refs, 1, memory_order_relaxed);
	return secret;
}

bool kh_secret_is_shared(const struct kh_secret *secret)
{
	return atomic_load_explicit(&secret->refs, memory_order_relaxed) > 1;
}

static bool open_for_wiping(const struct kh_secret *secret)
{
	const int prot = PROT_READ | PROT_WRITE;
	if (secret->key != KH_SECRET_NO_KEY)
		return kh_secret_key_protect(0, secret->map, secret->map_len, prot);
	return mprotect(secret->map, secret->map_len, prot) == 0;
}

void kh_secret_unref(struct kh_secret *secret)
{
	if (!secret || atomic_fetch_sub_explicit(&secret->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (open_for_wiping(secret))
		kh_secret_wipe(secret->map, secret->map_len);
	else
		kh_log_error("a secret could not be overwritten before it was given back");
	(void)munmap(secret->map, secret->map_len);
	free_shell(secret);
}

size_t kh_secret_len(const struct kh_secret *secret)
{
	return secret->len;
}

size_t kh_secret_locked_bytes(const struct kh_secret *secret)
{
	return secret ? secret->map_len : whole_pages(1);
}

static bool open_window(const struct kh_secret *secret)
{
	if (secret->key != KH_SECRET_NO_KEY) {
		if (keyed_windows++ == 0)
			kh_secret_key_open(secret->key);
		return true;
	}
	struct window *window = secret->window;
	(void)pthread_mutex_lock(&window->lock);
	bool ok = window->open > 0 || mprotect(secret->map, secret->map_len, PROT_READ) == 0;
	if (ok)
		window->open++;
	(void)pthread_mutex_unlock(&window->lock);
	return ok;
}

static void close_window(const struct kh_secret *secret)
{
	if (secret->key != KH_SECRET_NO_KEY) {
		if (--keyed_windows == 0)
			kh_secret_key_shut(secret->key);
		return;
	}
	struct window *window = secret->window;
	(void)pthread_mutex_lock(&window->lock);
	if (--window->open == 0)
		shut(secret->map, secret->map_len);
	(void)pthread_mutex_unlock(&window->lock);
}

bool kh_secret_expose(const struct kh_secret *secret, bool (*use)(struct kh_slice value, void *arg),
		      void *arg)
{
	if (!open_window(secret))
		return false;
	kh_hidden_begin();
	bool answer = use(kh_slice_of(secret->map, secret->len), arg);
	kh_hidden_end();
	close_window(secret);
	return answer;
}

static bool equals(struct kh_slice value, void *arg)
{
	const struct kh_slice *candidate = arg;
	if (value.len != candidate->len)
		return false;
	unsigned char differ = 0;
	for (size_t i = 0; i < value.len; i++) {
		differ |= (unsigned char)(value.ptr[i] ^ candidate->ptr[i]);
		/* Hides from the optimiser that the answer may be known early. */
		__asm__ volatile("" : "+r"(differ));
	}
	return differ == 0;
}

bool kh_secret_equals(const struct kh_secret *secret, struct kh_slice candidate)
{
	return kh_secret_expose(secret, equals, &candidate);
}

struct pair {
	const struct kh_secret *other;
};

static bool equals_other(struct kh_slice value, void *arg)
{
	const struct pair *pair = arg;
	return kh_secret_equals(pair->other, value);
}

bool kh_secret_same(const struct kh_secret *a, const struct kh_secret *b)
{
	/* Windows may be within each other. */
	struct pair pair = { b };
	return kh_secret_expose(a, equals_other, &pair);
}
