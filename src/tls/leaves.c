/*
 * leaves.c - one key, and the certificates that the keeper signed for it
 *
 * All leaves share the worker's one P-256 key: making a key a host would cost more than the
 * handshake, and whoever could read one could read them all. The key of the session tickets that
 * the sandbox gets is here too, so that a client that comes back to another thread can resume.
 */
#include "leaves_internal.h"

#include <pthread.h>
#include <time.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>

#include <keyhole/buf.h>
#include <keyhole/limits.h>
#include <keyhole/lru.h>

enum { LEAST_LIFE_S = 24 * 3600 };

struct kh_leaves {
	EVP_PKEY *key;
	unsigned char *spki; /* OpenSSL's memory */
	size_t spki_len;
	unsigned char ticket_keys[KH_TICKET_KEY_BYTES];
	pthread_mutex_t lock; /* issuer, cache */
	X509 *issuer;
	uint64_t issuers;     /* how many there have been */
	char *trusted;	      /* all that a sandbox is to trust, PEM */
	struct kh_lru *cache; /* host → struct leaf */
};

struct leaf {
	X509 *cert;
	time_t ends;
	uint64_t issuer; /* which of them signed it; one of before is shown to nobody */
};

static void free_leaf(struct leaf *leaf)
{
	X509_free(leaf->cert);
	free(leaf);
}

static void drop_leaf(void *value)
{
	free_leaf(value);
}

void kh_leaves_free(struct kh_leaves *leaves)
{
	if (!leaves)
		return;
	EVP_PKEY_free(leaves->key);
	OPENSSL_free(leaves->spki);
	OPENSSL_cleanse(leaves->ticket_keys, sizeof leaves->ticket_keys);
	X509_free(leaves->issuer);
	free(leaves->trusted);
	kh_lru_free(leaves->cache);
	pthread_mutex_destroy(&leaves->lock);
	free(leaves);
}

struct kh_leaves *kh_leaves_new(struct kh_err *err)
{
	struct kh_leaves *leaves = calloc(1, sizeof *leaves);
	if (!leaves) {
		kh_err_set(err, KH_ERR_NO_MEMORY, "leaves: no memory");
		return NULL;
	}
	pthread_mutex_init(&leaves->lock, NULL);
	leaves->cache = kh_lru_new(KH_LIMIT_LEAF_CACHE, drop_leaf);
	leaves->key = EVP_EC_gen("P-256");
	int len = leaves->key ? i2d_PUBKEY(leaves->key, &leaves->spki) : -1;
	if (!leaves->cache || len <= 0 ||
	    RAND_bytes(leaves->ticket_keys, sizeof leaves->ticket_keys) != 1) {
		kh_err_openssl(err, KH_ERR_INTERNAL, "leaves: no key can be made");
		kh_leaves_free(leaves);
		return NULL;
	}
	leaves->spki_len = (size_t)len;
	return leaves;
}

struct kh_slice kh_leaves_spki(const struct kh_leaves *leaves)
{
	return kh_slice_of(leaves->spki, leaves->spki_len);
}

EVP_PKEY *kh_leaves_key(const struct kh_leaves *leaves)
{
	return leaves->key;
}

const unsigned char *kh_leaves_ticket_keys(const struct kh_leaves *leaves)
{
	return leaves->ticket_keys;
}

bool kh_leaves_set_issuer(struct kh_leaves *leaves, struct kh_slice ca_der, struct kh_err *err)
{
	X509 *issuer = kh_x509_from_der(ca_der);
	if (!issuer)
		return kh_err_openssl(err, KH_ERR_INTERNAL, "leaves: the issuer is no certificate");
	pthread_mutex_lock(&leaves->lock);
	X509 *old = leaves->issuer;
	bool other = old && X509_cmp(old, issuer) != 0;
	leaves->issuer = issuer;
	if (other) /* what another CA signed fits no longer */
		leaves->issuers++;
	pthread_mutex_unlock(&leaves->lock);
	X509_free(old);
	return true;
}

bool kh_leaves_set_trusted(struct kh_leaves *leaves, struct kh_slice pem, struct kh_err *err)
{
	char *text = kh_slice_dup(pem);
	if (!text)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "leaves: no memory");
	pthread_mutex_lock(&leaves->lock);
	char *old = leaves->trusted;
	leaves->trusted = text;
	pthread_mutex_unlock(&leaves->lock);
	free(old);
	return true;
}

bool kh_leaves_put_trusted(struct kh_leaves *leaves, struct kh_buf *out)
{
	pthread_mutex_lock(&leaves->lock);
	bool ok = leaves->trusted && kh_buf_append_str(out, leaves->trusted);
	pthread_mutex_unlock(&leaves->lock);
	return ok;
}

/* Read once: OpenSSL reads the text of the date anew each time that it compares. */
static struct leaf *new_leaf(X509 *cert)
{
	struct tm end;
	if (ASN1_TIME_to_tm(X509_get0_notAfter(cert), &end) != 1)
		return NULL;
	struct leaf *leaf = malloc(sizeof *leaf);
	if (leaf)
		*leaf = (struct leaf){ .cert = cert, .ends = timegm(&end) };
	return leaf;
}

bool kh_leaves_put(struct kh_leaves *leaves, const struct kh_host *host, struct kh_slice der,
		   struct kh_err *err)
{
	kh_cleanup(X509_free_slot) X509 *cert = kh_x509_from_der(der);
	if (!cert)
		return kh_err_openssl(err, KH_ERR_LEAF_UNAVAILABLE,
				      "leaf for %s: not a certificate", host->text);
	if (X509_check_private_key(cert, leaves->key) != 1) {
		ERR_clear_error();
		return kh_err_set(err, KH_ERR_LEAF_UNAVAILABLE,
				  "leaf for %s: signed for another key", host->text);
	}
	struct leaf *leaf = new_leaf(cert);
	if (!leaf)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "leaf for %s: no memory", host->text);
	cert = NULL; /* the leaf's now */
	pthread_mutex_lock(&leaves->lock);
	leaf->issuer = leaves->issuers;
	bool ok = kh_lru_put(leaves->cache, kh_host_view(host), leaf);
	pthread_mutex_unlock(&leaves->lock);
	if (ok)
		return true; /* the cache's now */
	free_leaf(leaf);
	return kh_err_set(err, KH_ERR_NO_MEMORY, "leaf for %s: no memory", host->text);
}

/* A leaf that ends within a day is taken out, so that a new one is asked for. */
static X509 *find_locked(struct kh_leaves *leaves, const struct kh_host *host)
{
	const struct leaf *leaf = kh_lru_get(leaves->cache, kh_host_view(host));
	if (!leaf || leaf->issuer != leaves->issuers)
		return NULL;
	if (leaf->ends > time(NULL) + LEAST_LIFE_S)
		return leaf->cert;
	free_leaf(kh_lru_take(leaves->cache, kh_host_view(host)));
	return NULL;
}

bool kh_leaves_has(struct kh_leaves *leaves, const struct kh_host *host)
{
	pthread_mutex_lock(&leaves->lock);
	bool has = find_locked(leaves, host) != NULL;
	pthread_mutex_unlock(&leaves->lock);
	return has;
}

bool kh_leaves_had(struct kh_leaves *leaves, const struct kh_host *host)
{
	pthread_mutex_lock(&leaves->lock);
	const struct leaf *leaf = kh_lru_get(leaves->cache, kh_host_view(host));
	bool had = leaf && leaf->issuer != leaves->issuers;
	pthread_mutex_unlock(&leaves->lock);
	return had;
}

bool kh_leaves_get(struct kh_leaves *leaves, const struct kh_host *host, X509 **leaf, X509 **issuer)
{
	pthread_mutex_lock(&leaves->lock);
	*leaf = find_locked(leaves, host);
	*issuer = *leaf ? leaves->issuer : NULL;
	if (*leaf)
		X509_up_ref(*leaf);
	if (*issuer)
		X509_up_ref(*issuer);
	pthread_mutex_unlock(&leaves->lock);
	return *leaf != NULL;
}
