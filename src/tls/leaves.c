/*
 * leaves.c - one key, and the certificates that the keeper signed for it
 *
 * All leaves share the worker's one P-256 key: a key per host would cost more than the handshake,
 * and would protect nothing, since whoever can read one key of the process can read all. The
 * session ticket key is here too, so that a client that returns to another thread can resume.
 *
 * If each tenant has its own CA, each has a branch: a branch has its own issuer, and its leaves are
 * in the trunk's cache under its number. So one bound holds for all of them.
 */
#include "leaves_internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/lru.h>

/* A leaf is made anew when less than this part of its life is left. */
enum { RENEWED_AT = 5, BACKDATED_S = 3600 };

/* What all branches share. */
struct trunk {
	EVP_PKEY *key;
	unsigned char *spki; /* OpenSSL's memory */
	size_t spki_len;
	unsigned char ticket_keys[KH_TICKET_KEY_BYTES];
	pthread_mutex_t lock; /* cache, and each branch's issuer and what is trusted */
	struct kh_lru *cache; /* number of the branch and host → struct leaf */
	atomic_uint_fast64_t branches;
};

struct kh_leaves {
	struct trunk *trunk;
	atomic_uint refs;
	uint64_t number; /* 0: it owns the trunk */
	X509 *issuer;
	uint64_t issuers; /* how many there have been */
	char *trusted;	  /* all that a sandbox is to trust, PEM */
};

struct leaf_key {
	char bytes[sizeof(uint64_t) + KH_HOST_MAX_BYTES];
};

static struct kh_slice key_of(struct leaf_key *key, const struct kh_leaves *leaves,
			      const struct kh_host *host)
{
	memcpy(key->bytes, &leaves->number, sizeof leaves->number);
	memcpy(key->bytes + sizeof leaves->number, host->text, host->len);
	return kh_slice_of(key->bytes, sizeof leaves->number + host->len);
}

struct leaf {
	X509 *cert;
	time_t renewed;	 /* from then on another one is asked for */
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

static void free_trunk(struct trunk *trunk)
{
	EVP_PKEY_free(trunk->key);
	OPENSSL_free(trunk->spki);
	OPENSSL_cleanse(trunk->ticket_keys, sizeof trunk->ticket_keys);
	kh_lru_free(trunk->cache);
	pthread_mutex_destroy(&trunk->lock);
	free(trunk);
}

struct kh_leaves *kh_leaves_ref(struct kh_leaves *leaves)
{
	atomic_fetch_add_explicit(&leaves->refs, 1, memory_order_relaxed);
	return leaves;
}

void kh_leaves_free(struct kh_leaves *leaves)
{
	if (!leaves || atomic_fetch_sub_explicit(&leaves->refs, 1, memory_order_acq_rel) != 1)
		return;
	X509_free(leaves->issuer);
	free(leaves->trusted);
	if (leaves->number == 0)
		free_trunk(leaves->trunk);
	free(leaves);
}

static struct kh_leaves *leaves_on(struct trunk *trunk, uint64_t number)
{
	struct kh_leaves *leaves = calloc(1, sizeof *leaves);
	if (!leaves)
		return NULL;
	leaves->trunk = trunk;
	leaves->number = number;
	atomic_init(&leaves->refs, 1);
	return leaves;
}

struct kh_leaves *kh_leaves_branch(struct kh_leaves *of)
{
	return leaves_on(of->trunk, atomic_fetch_add(&of->trunk->branches, 1) + 1);
}

static bool make_key(struct trunk *trunk)
{
	trunk->key = EVP_EC_gen("P-256");
	int len = trunk->key ? i2d_PUBKEY(trunk->key, &trunk->spki) : -1;
	trunk->spki_len = len > 0 ? (size_t)len : 0;
	return len > 0 && RAND_bytes(trunk->ticket_keys, sizeof trunk->ticket_keys) == 1;
}

struct kh_leaves *kh_leaves_new(struct kh_err *err)
{
	struct trunk *trunk = calloc(1, sizeof *trunk);
	struct kh_leaves *leaves = trunk ? leaves_on(trunk, 0) : NULL;
	if (!leaves) {
		free(trunk);
		kh_err_set(err, KH_ERR_NO_MEMORY, "leaves: no memory");
		return NULL;
	}
	pthread_mutex_init(&trunk->lock, NULL);
	trunk->cache = kh_lru_new(KH_LIMIT_LEAF_CACHE, drop_leaf);
	if (!trunk->cache || !make_key(trunk)) {
		kh_err_openssl(err, KH_ERR_INTERNAL, "leaves: no key can be made");
		kh_leaves_free(leaves);
		return NULL;
	}
	return leaves;
}

struct kh_slice kh_leaves_spki(const struct kh_leaves *leaves)
{
	return kh_slice_of(leaves->trunk->spki, leaves->trunk->spki_len);
}

EVP_PKEY *kh_leaves_key(const struct kh_leaves *leaves)
{
	return leaves->trunk->key;
}

const unsigned char *kh_leaves_ticket_keys(const struct kh_leaves *leaves)
{
	return leaves->trunk->ticket_keys;
}

uint64_t kh_leaves_number(const struct kh_leaves *leaves)
{
	return leaves->number;
}

bool kh_leaves_has_issuer(struct kh_leaves *leaves)
{
	pthread_mutex_lock(&leaves->trunk->lock);
	bool has = leaves->issuer != NULL;
	pthread_mutex_unlock(&leaves->trunk->lock);
	return has;
}

bool kh_leaves_set_issuer(struct kh_leaves *leaves, struct kh_slice ca_der, struct kh_err *err)
{
	X509 *issuer = kh_certificate_from_der(ca_der);
	if (!issuer)
		return kh_err_openssl(err, KH_ERR_INTERNAL, "leaves: the issuer is no certificate");
	pthread_mutex_lock(&leaves->trunk->lock);
	X509 *old = leaves->issuer;
	bool other = old && X509_cmp(old, issuer) != 0;
	leaves->issuer = issuer;
	if (other) /* what another CA signed fits no longer */
		leaves->issuers++;
	pthread_mutex_unlock(&leaves->trunk->lock);
	X509_free(old);
	return true;
}

bool kh_leaves_set_trusted(struct kh_leaves *leaves, struct kh_slice pem, struct kh_err *err)
{
	char *text = kh_slice_dup(pem);
	if (!text)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "leaves: no memory");
	pthread_mutex_lock(&leaves->trunk->lock);
	char *old = leaves->trusted;
	leaves->trusted = text;
	pthread_mutex_unlock(&leaves->trunk->lock);
	free(old);
	return true;
}

bool kh_leaves_put_trusted(struct kh_leaves *leaves, struct kh_buf *out)
{
	pthread_mutex_lock(&leaves->trunk->lock);
	bool ok = leaves->trusted && kh_buf_append_str(out, leaves->trusted);
	pthread_mutex_unlock(&leaves->trunk->lock);
	return ok;
}

/* Read once: OpenSSL reads the text of the date anew each time that it compares. */
static struct leaf *new_leaf(X509 *cert)
{
	struct tm begin, end;
	if (ASN1_TIME_to_tm(X509_get0_notBefore(cert), &begin) != 1 ||
	    ASN1_TIME_to_tm(X509_get0_notAfter(cert), &end) != 1)
		return NULL;
	time_t ends = timegm(&end), life = ends - timegm(&begin) - BACKDATED_S;
	struct leaf *leaf = malloc(sizeof *leaf);
	if (leaf)
		*leaf = (struct leaf){ .cert = cert, .renewed = ends - life / RENEWED_AT };
	return leaf;
}

bool kh_leaves_put(struct kh_leaves *leaves, const struct kh_host *host, struct kh_slice der,
		   struct kh_err *err)
{
	kh_cleanup(X509_free_slot) X509 *cert = kh_certificate_from_der(der);
	if (!cert)
		return kh_err_openssl(err, KH_ERR_LEAF_UNAVAILABLE,
				      "leaf for %s: not a certificate", host->text);
	if (X509_check_private_key(cert, leaves->trunk->key) != 1) {
		ERR_clear_error();
		return kh_err_set(err, KH_ERR_LEAF_UNAVAILABLE,
				  "leaf for %s: signed for another key", host->text);
	}
	struct leaf *leaf = new_leaf(cert);
	if (!leaf)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "leaf for %s: no memory", host->text);
	cert = NULL; /* the leaf's now */
	struct leaf_key key;
	pthread_mutex_lock(&leaves->trunk->lock);
	leaf->issuer = leaves->issuers;
	bool ok = kh_lru_put(leaves->trunk->cache, key_of(&key, leaves, host), leaf);
	pthread_mutex_unlock(&leaves->trunk->lock);
	if (ok)
		return true; /* the cache's now */
	free_leaf(leaf);
	return kh_err_set(err, KH_ERR_NO_MEMORY, "leaf for %s: no memory", host->text);
}

/* A leaf that ends soon is taken out, so that a new one is asked for. */
static const struct leaf *find_locked(struct kh_leaves *leaves, const struct kh_host *host)
{
	struct leaf_key key;
	struct kh_slice named = key_of(&key, leaves, host);
	const struct leaf *leaf = kh_lru_get(leaves->trunk->cache, named);
	if (!leaf || leaf->issuer != leaves->issuers)
		return NULL;
	if (time(NULL) < leaf->renewed)
		return leaf;
	free_leaf(kh_lru_take(leaves->trunk->cache, named));
	return NULL;
}

bool kh_leaves_has(struct kh_leaves *leaves, const struct kh_host *host)
{
	pthread_mutex_lock(&leaves->trunk->lock);
	bool has = find_locked(leaves, host) != NULL;
	pthread_mutex_unlock(&leaves->trunk->lock);
	return has;
}

bool kh_leaves_had(struct kh_leaves *leaves, const struct kh_host *host)
{
	struct leaf_key key;
	pthread_mutex_lock(&leaves->trunk->lock);
	const struct leaf *leaf = kh_lru_get(leaves->trunk->cache, key_of(&key, leaves, host));
	bool had = leaf && leaf->issuer != leaves->issuers;
	pthread_mutex_unlock(&leaves->trunk->lock);
	return had;
}

bool kh_leaves_get(struct kh_leaves *leaves, const struct kh_host *host, X509 **leaf, X509 **issuer,
		   long *left_s)
{
	pthread_mutex_lock(&leaves->trunk->lock);
	const struct leaf *found = find_locked(leaves, host);
	*leaf = found ? found->cert : NULL;
	*left_s = found ? (long)(found->renewed - time(NULL)) : 0;
	*issuer = *leaf ? leaves->issuer : NULL;
	if (*leaf)
		X509_up_ref(*leaf);
	if (*issuer)
		X509_up_ref(*issuer);
	pthread_mutex_unlock(&leaves->trunk->lock);
	return *leaf != NULL;
}
