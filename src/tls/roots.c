/*
 * roots.c - the trust roots that upstreams are verified against
 *
 * A store is built outside of the event threads and replaced in one step. A handshake holds a
 * reference to the store that it began with. Each load has a number: a session that was verified
 * against another load is not resumed.
 */
#include "roots_internal.h"

#include <pthread.h>
#include <stdatomic.h>

#include <keyhole/base/file.h>
#include <keyhole/base/log.h>

enum { FILE_BYTES = 16 * 1024 * 1024 };

struct kh_roots {
	pthread_mutex_t lock; /* store */
	X509_STORE *store;
	atomic_ulong generation; /* 0: not loaded yet */
};

struct kh_roots *kh_roots_new(void)
{
	struct kh_roots *roots = calloc(1, sizeof *roots);
	if (roots)
		pthread_mutex_init(&roots->lock, NULL);
	return roots;
}

void kh_roots_free(struct kh_roots *roots)
{
	if (!roots)
		return;
	X509_STORE_free(roots->store);
	pthread_mutex_destroy(&roots->lock);
	free(roots);
}

/* Every file's certificates; err says which file has none. */
static bool read_files(struct kh_roots_list *list, X509_STORE *store, const int *fds,
		       unsigned n_fds, struct kh_err *err)
{
	unsigned broken = 0;
	struct kh_buf pem;
	bool ok = true;
	kh_buf_init(&pem, FILE_BYTES);
	for (unsigned i = 0; ok && i < n_fds; i++) {
		kh_buf_clear(&pem);
		ok = kh_file_read_fd(fds[i], &pem, err);
		if (!ok)
			kh_err_wrap(err, "trust roots");
		else if (kh_roots_list_add(list, kh_buf_view(&pem), store, &broken) == 0)
			ok = kh_err_set(err, KH_ERR_CONFIG,
					"trust roots: file %u of %u contains no certificate in PEM",
					i + 1, n_fds);
	}
	kh_buf_fini(&pem);
	if (broken > 0)
		kh_log_warn("trust roots: %u certificates could not be read and are left out",
			    broken);
	return ok;
}

static bool fill(X509_STORE *store, const int *fds, unsigned n_fds, struct kh_err *err)
{
	struct kh_roots_list *list = store ? kh_roots_list_new() : NULL;
	if (!list)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "trust roots: no memory");
	if (!read_files(list, store, fds, n_fds, err)) {
		kh_roots_list_free(list);
		return false;
	}
	return kh_roots_list_serve(list, store) ||
	       kh_err_set(err, KH_ERR_NO_MEMORY, "trust roots: no memory");
}

bool kh_roots_load(struct kh_roots *roots, const int *fds, unsigned n_fds, struct kh_err *err)
{
	X509_STORE *store = X509_STORE_new();
	if (!fill(store, fds, n_fds, err)) {
		X509_STORE_free(store);
		return false;
	}
	pthread_mutex_lock(&roots->lock);
	X509_STORE *old = roots->store;
	roots->store = store;
	atomic_fetch_add(&roots->generation, 1);
	pthread_mutex_unlock(&roots->lock);
	X509_STORE_free(old);
	return true;
}

bool kh_roots_ready(const struct kh_roots *roots)
{
	return atomic_load(&roots->generation) != 0;
}

X509_STORE *kh_roots_get(struct kh_roots *roots, unsigned long *generation)
{
	pthread_mutex_lock(&roots->lock);
	X509_STORE *store = roots->store;
	if (store)
		X509_STORE_up_ref(store);
	*generation = atomic_load(&roots->generation);
	pthread_mutex_unlock(&roots->lock);
	return store;
}
