/*
 * roots.c - whom upstreams are verified against
 *
 * A store is built away from the event threads and put in place in one step; a handshake takes a
 * reference and keeps the store that it began with. Each load has a number of its own: a session
 * that was verified against other roots is not resumed.
 */
#include "roots_internal.h"

#include <pthread.h>
#include <stdatomic.h>

#include <openssl/err.h>
#include <openssl/pem.h>

#include <keyhole/file.h>
#include <keyhole/log.h>

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

/* A certificate that can't be read is left out, which trusts less, not more. */
static unsigned add_file(X509_STORE *store, struct kh_slice pem)
{
	kh_cleanup(BIO_free_all_slot) BIO *bio = BIO_new_mem_buf(pem.ptr, (int)pem.len);
	unsigned added = 0, broken = 0;
	while (bio && BIO_pending(bio) > 0) {
		size_t before = (size_t)BIO_pending(bio);
		kh_cleanup(X509_free_slot) X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
		if (cert)
			kh_x509_settle(cert);
		if (cert && X509_STORE_add_cert(store, cert) == 1)
			added++;
		else if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
			broken++;
		ERR_clear_error();
		if ((size_t)BIO_pending(bio) >= before) /* every turn takes something */
			break;
	}
	if (broken > 0)
		kh_log_warn("trust roots: %u certificates could not be read and are left out",
			    broken);
	return added;
}

bool kh_roots_load(struct kh_roots *roots, const int *fds, unsigned n_fds, struct kh_err *err)
{
	X509_STORE *store = X509_STORE_new();
	struct kh_buf pem;
	bool ok = store != NULL;
	kh_buf_init(&pem, FILE_BYTES);
	if (!ok)
		kh_err_set(err, KH_ERR_NO_MEMORY, "trust roots: no memory");
	for (unsigned i = 0; ok && i < n_fds; i++) {
		kh_buf_clear(&pem);
		ok = kh_file_read_fd(fds[i], &pem, err);
		if (!ok)
			kh_err_wrap(err, "trust roots");
		else if (add_file(store, kh_buf_view(&pem)) == 0)
			ok = kh_err_set(err, KH_ERR_CONFIG,
					"trust roots: file %u of %u holds no certificate in PEM",
					i + 1, n_fds);
	}
	kh_buf_fini(&pem);
	if (!ok) {
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
