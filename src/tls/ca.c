/*
 * ca.c - the certificate authority: made, opened, and signing leaves
 *
 * It is in the keeper. The arguments of kh_ca_sign come from the worker: a host, which the keeper
 * has parsed again, and a public key, which is decoded strictly here. Neither is ever put into a
 * text that OpenSSL parses.
 */
#include "tls_internal.h"

#include <stdio.h>
#include <time.h>

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <keyhole/base/encode.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/hidden.h>

enum {
	HOUR_S = 3600,
	DAY_S = 24 * HOUR_S,
	/* A sandbox's clock may be behind ours: a microVM that was resumed, a container on another
	   host. */
	CA_BACK_S = DAY_S,
	CA_AHEAD_S = 3652 * DAY_S,
	LEAF_BACK_S = HOUR_S,
	CN_MOST = 64, /* ub-common-name of RFC 5280 */
	RSA_LEAST_BITS = 2048,
};

struct kh_ca {
	EVP_PKEY *key;
	X509 *cert;
	uint8_t *der;
	size_t der_len;
	char *pem;
	size_t pem_len;
	EVP_PKEY *next_key;	  /* of the one that signs next; NULL: there is none */
	struct kh_ca_trust trust; /* from files; count 0: this one alone */
	struct kh_placeholder_key old_placeholder; /* of the one that signed before; zeros: none */
};

void kh_ca_free(struct kh_ca *ca)
{
	if (!ca)
		return;
	EVP_PKEY_free(ca->key);
	EVP_PKEY_free(ca->next_key);
	kh_ca_trust_fini(&ca->trust);
	X509_free(ca->cert);
	free(ca->der);
	free(ca->pem);
	free(ca);
}

KH_DEFINE_CLEANUP(struct kh_ca, kh_ca_free)

static char *to_pem(X509 *cert, size_t *len)
{
	kh_cleanup(BIO_free_all_slot) BIO *bio = BIO_new(BIO_s_mem());
	char *bytes = NULL;
	if (!bio || PEM_write_bio_X509(bio, cert) != 1)
		return NULL;
	long n = BIO_get_mem_data(bio, &bytes);
	char *pem = n > 0 ? malloc((size_t)n + 1) : NULL;
	if (pem) {
		memcpy(pem, bytes, (size_t)n);
		pem[n] = '\0';
		*len = (size_t)n;
	}
	return pem;
}

/* Takes both over, also when it fails. */
static struct kh_ca *assemble(EVP_PKEY *key, X509 *cert, struct kh_err *err)
{
	struct kh_ca *ca = calloc(1, sizeof *ca);
	if (!ca) {
		EVP_PKEY_free(key);
		X509_free(cert);
		kh_err_set(err, KH_ERR_NO_MEMORY, "CA: no memory");
		return NULL;
	}
	ca->key = key;
	ca->cert = cert;
	ca->der = kh_certificate_to_der(cert, &ca->der_len);
	ca->pem = to_pem(cert, &ca->pem_len);
	if (!ca->der || !ca->pem) {
		kh_err_openssl(err, KH_ERR_INTERNAL, "CA: its certificate can't be written");
		kh_ca_free(ca);
		return NULL;
	}
	return ca;
}

/* Two CAs with one subject and different keys confuse every client that has seen both, so the
 * subject names the key. */
static bool name_after_key(X509_NAME *name, X509 *cert)
{
	uint8_t digest[EVP_MAX_MD_SIZE];
	unsigned len = 0;
	static const char prefix[] = "keyhole CA ";
	char text[sizeof(prefix) + 16];
	if (X509_pubkey_digest(cert, EVP_sha256(), digest, &len) != 1 || len < 8)
		return false;
	memcpy(text, prefix, sizeof(prefix) - 1);
	kh_hex_encode(digest, 8, text + sizeof(prefix) - 1);
	return kh_certificate_set_name(name, text, "keyhole");
}

static X509 *make_certificate(EVP_PKEY *key)
{
	kh_cleanup(X509_free_slot) X509 *cert = X509_new();
	if (!cert || X509_set_version(cert, X509_VERSION_3) != 1 ||
	    !kh_certificate_set_serial(cert) ||
	    !kh_certificate_set_validity(cert, -(long)CA_BACK_S, CA_AHEAD_S) ||
	    X509_set_pubkey(cert, key) != 1)
		return NULL;
	X509_NAME *name = X509_get_subject_name(cert);
	if (!name_after_key(name, cert) || X509_set_issuer_name(cert, name) != 1)
		return NULL;
	if (!kh_certificate_add(cert, cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
	    !kh_certificate_add(cert, cert, NID_key_usage, "critical,keyCertSign,cRLSign") ||
	    !kh_certificate_add(cert, cert, NID_subject_key_identifier, "hash") ||
	    !kh_certificate_add(cert, cert, NID_authority_key_identifier, "keyid:always"))
		return NULL;
	if (X509_sign(cert, key, EVP_sha256()) <= 0)
		return NULL;
	return kh_steal_ptr(&cert);
}

bool kh_ca_make(EVP_PKEY **key, X509 **cert, struct kh_err *err)
{
	kh_hidden_prepare();
	kh_hidden_begin();
	kh_cleanup(EVP_PKEY_free_slot) EVP_PKEY *made = EVP_EC_gen("P-256");
	*cert = made ? make_certificate(made) : NULL;
	kh_hidden_end();
	if (!*cert)
		return kh_err_openssl(err, KH_ERR_INTERNAL, "CA: can't be made");
	*key = kh_steal_ptr(&made);
	return true;
}

struct kh_ca *kh_ca_new(struct kh_err *err)
{
	EVP_PKEY *key = NULL;
	X509 *cert = NULL;
	return kh_ca_make(&key, &cert, err) ? assemble(key, cert, err) : NULL;
}

/* Is this a certificate that clients will take leaves from? */
static bool check_usable(const struct kh_ca *ca, const char *certificate_path, const char *key_path,
			 struct kh_err *err)
{
	const char *file = kh_esc_str(certificate_path);
	if (X509_check_private_key(ca->cert, ca->key) != 1) {
		ERR_clear_error();
		return kh_err_set(
			err, KH_ERR_CONFIG,
			"CA: the key %s is not the one of the certificate %s (restore the "
			"pair, or move both away to have a new CA made)",
			kh_esc_str(key_path), file);
	}
	if (!kh_certificate_digest_for(ca->key) ||
	    (EVP_PKEY_is_a(ca->key, "RSA") && EVP_PKEY_get_bits(ca->key) < RSA_LEAST_BITS))
		return kh_err_set(err, KH_ERR_CONFIG,
				  "CA: %s has a key that is neither EC nor RSA of at least %d bits",
				  file, RSA_LEAST_BITS);
	/* 1: basicConstraints says so; the older ways to be a CA are not accepted by clients. */
	if (X509_check_ca(ca->cert) != 1 || !(X509_get_extension_flags(ca->cert) & EXFLAG_KUSAGE) ||
	    !(X509_get_key_usage(ca->cert) & KU_KEY_CERT_SIGN))
		return kh_err_set(err, KH_ERR_CONFIG,
				  "CA: %s is no CA certificate (it needs basicConstraints CA:TRUE "
				  "and keyUsage keyCertSign)",
				  file);
	if (!X509_get0_subject_key_id(ca->cert))
		return kh_err_set(err, KH_ERR_CONFIG,
				  "CA: %s has no subject key identifier, which strict clients ask "
				  "for",
				  file);
	if (X509_cmp_current_time(X509_get0_notAfter(ca->cert)) <= 0)
		return kh_err_set(err, KH_ERR_CONFIG,
				  "CA: %s has expired (move certificate and key away to have a new "
				  "CA made)",
				  file);
	if (X509_cmp_current_time(X509_get0_notBefore(ca->cert)) >= 0)
		return kh_err_set(err, KH_ERR_CONFIG,
				  "CA: %s is not valid yet (is the clock right?)", file);
	return true;
}

static bool exists(const char *path)
{
	return access(path, F_OK) == 0;
}

static struct kh_ca *read_files(const char *certificate_path, const char *key_path,
				struct kh_err *err)
{
	EVP_PKEY *key = NULL;
	X509 *cert = NULL;

	if (!kh_ca_files_load(certificate_path, key_path, &key, &cert, err))
		return NULL;
	kh_cleanup(kh_ca_free_slot) struct kh_ca *ca = assemble(key, cert, err);
	if (!ca || !check_usable(ca, certificate_path, key_path, err) ||
	    !kh_ca_next_load(certificate_path, key_path, &ca->next_key, err) ||
	    !kh_ca_trust_read(&ca->trust, certificate_path, err) ||
	    !kh_ca_old_placeholder_read(certificate_path, key_path, &ca->old_placeholder, err))
		return NULL;
	return kh_steal_ptr(&ca);
}

bool kh_ca_files_check(const char *certificate_path, const char *key_path, struct kh_err *err)
{
	struct kh_ca *ca = read_files(certificate_path, key_path, err);
	kh_ca_free(ca);
	return ca != NULL;
}

/* A change may be between two files right now: once more under its lock. */
static struct kh_ca *read_twice(const char *certificate_path, const char *key_path,
				struct kh_err *err)
{
	struct kh_err first = KH_ERR_INIT;
	struct kh_ca *ca = read_files(certificate_path, key_path, &first);
	if (ca)
		return ca;
	struct kh_err why_not = KH_ERR_INIT;
	int lock = kh_ca_files_lock(key_path, &why_not);
	if (lock >= 0) {
		ca = read_files(certificate_path, key_path, err);
		kh_ca_files_unlock(key_path, lock);
		return ca;
	}
	/* What is wrong with the files is what can be mended, not that nothing could be locked. */
	if (err)
		*err = first;
	return NULL;
}

/* Under the lock. */
static struct kh_ca *make_or_read(const char *certificate_path, const char *key_path,
				  struct kh_err *err)
{
	EVP_PKEY *key = NULL;
	X509 *cert = NULL;

	if (exists(certificate_path) || exists(key_path))
		return read_files(certificate_path, key_path, err);
	if (!kh_ca_make(&key, &cert, err))
		return NULL;
	if (kh_ca_files_store(certificate_path, key_path, key, cert, err))
		return assemble(key, cert, err);
	EVP_PKEY_free(key);
	X509_free(cert);
	return NULL;
}

struct kh_ca *kh_ca_open(const char *certificate_path, const char *key_path, struct kh_err *err)
{
	if (exists(certificate_path) && exists(key_path))
		return read_twice(certificate_path, key_path, err);
	/* Another start may be between the two files right now: ask again under the lock. */
	int lock = kh_ca_files_lock(key_path, err);
	if (lock < 0)
		return NULL;
	struct kh_ca *ca = make_or_read(certificate_path, key_path, err);
	kh_ca_files_unlock(key_path, lock);
	return ca;
}

char *kh_ca_tenant_path(const char *key_path, const char *tenant, const char *kind)
{
	return kh_strf("%s.tenants/%s.%s", key_path, tenant, kind);
}

struct kh_ca *kh_ca_load(const char *certificate_path, const char *key_path, struct kh_err *err)
{
	if (!exists(certificate_path) && !exists(key_path)) {
		kh_err_set(err, KH_ERR_CONFIG,
			   "CA: neither %s nor %s is there any more (restore them; `keyhole ca "
			   "init` makes another CA, which no sandbox that runs trusts)",
			   kh_esc_str(certificate_path), kh_esc_str(key_path));
		return NULL;
	}
	return read_twice(certificate_path, key_path, err);
}

struct kh_slice kh_ca_der(const struct kh_ca *ca)
{
	return kh_slice_of(ca->der, ca->der_len);
}

struct kh_slice kh_ca_pem(const struct kh_ca *ca)
{
	return kh_slice_of(ca->pem, ca->pem_len);
}

struct kh_slice kh_ca_trusted_pem(const struct kh_ca *ca)
{
	return ca->trust.count > 1 ? kh_buf_view(&ca->trust.pem) : kh_ca_pem(ca);
}

void kh_ca_name(const struct kh_ca *ca, char out[KH_CA_NAME_BYTES])
{
	out[0] = '\0';
	(void)X509_NAME_get_text_by_NID(X509_get_subject_name(ca->cert), NID_commonName, out,
					KH_CA_NAME_BYTES);
}

size_t kh_ca_placeholder_keys(const struct kh_ca *ca, struct kh_placeholder_key out[KH_MARK_KEYS],
			      struct kh_err *err)
{
	size_t n = 0;

	memset(out, 0, KH_MARK_KEYS * sizeof(*out));
	if ((ca->next_key && !kh_ca_derive_placeholder(ca->next_key, &out[n++], err)) ||
	    !kh_ca_derive_placeholder(ca->key, &out[n++], err))
		return 0;
	if (n < KH_MARK_KEYS && kh_placeholder_key_is_set(&ca->old_placeholder))
		out[n++] = ca->old_placeholder;
	return n;
}

/* P-256 and nothing else: it is what our worker makes, so anything else is not our worker's. */
static EVP_PKEY *read_leaf_key(struct kh_slice spki_der, struct kh_err *err)
{
	const unsigned char *at = (const unsigned char *)spki_der.ptr;
	char group[32] = "";
	kh_cleanup(EVP_PKEY_free_slot) EVP_PKEY *key = NULL;
	if (spki_der.len > 0 && spki_der.len < 1024)
		key = d2i_PUBKEY(NULL, &at, (long)spki_der.len);
	if (!key || at != (const unsigned char *)spki_der.ptr + spki_der.len ||
	    !EVP_PKEY_is_a(key, "EC") ||
	    EVP_PKEY_get_group_name(key, group, sizeof group, NULL) != 1 ||
	    strcmp(group, "prime256v1") != 0) {
		ERR_clear_error();
		kh_err_set(err, KH_ERR_LEAF_UNAVAILABLE,
			   "leaf: the public key is not one of EC P-256");
		return NULL;
	}
	return kh_steal_ptr(&key);
}

/* From an hour back, within the CA's own days. */
static bool set_leaf_validity(X509 *leaf, const X509 *ca, uint32_t life_s)
{
	time_t begin = time(NULL) - LEAF_BACK_S, end = time(NULL) + life_s;
	const ASN1_TIME *ca_begin = X509_get0_notBefore(ca), *ca_end = X509_get0_notAfter(ca);
	bool clamp_begin = ASN1_TIME_cmp_time_t(ca_begin, begin) > 0;
	bool clamp_end = ASN1_TIME_cmp_time_t(ca_end, end) < 0;
	return (clamp_begin ? X509_set1_notBefore(leaf, ca_begin) == 1
			    : ASN1_TIME_set(X509_getm_notBefore(leaf), begin) != NULL) &&
	       (clamp_end ? X509_set1_notAfter(leaf, ca_end) == 1
			  : ASN1_TIME_set(X509_getm_notAfter(leaf), end) != NULL);
}

static bool fill_leaf(X509 *leaf, const struct kh_ca *ca, EVP_PKEY *leaf_key,
		      const struct kh_host *host, uint32_t life_s)
{
	bool named = host->len <= CN_MOST;
	if (X509_set_version(leaf, X509_VERSION_3) != 1 || !kh_certificate_set_serial(leaf) ||
	    !set_leaf_validity(leaf, ca->cert, life_s) || X509_set_pubkey(leaf, leaf_key) != 1 ||
	    X509_set_issuer_name(leaf, X509_get_subject_name(ca->cert)) != 1)
		return false;
	if (named && !kh_certificate_set_name(X509_get_subject_name(leaf), host->text, NULL))
		return false;
	/* RFC 5280 §4.2.1.6: where the subject is empty, the alternative name is critical. */
	return kh_certificate_add(leaf, ca->cert, NID_basic_constraints, "critical,CA:FALSE") &&
	       kh_certificate_add(leaf, ca->cert, NID_key_usage, "critical,digitalSignature") &&
	       kh_certificate_add(leaf, ca->cert, NID_ext_key_usage, "serverAuth") &&
	       kh_certificate_add(leaf, ca->cert, NID_subject_key_identifier, "hash") &&
	       kh_certificate_add(leaf, ca->cert, NID_authority_key_identifier, "keyid:always") &&
	       kh_certificate_add_host(leaf, host, !named);
}

/* What signing makes of the private number on its way is no more readable than the number. */
static bool sign_hidden(X509 *leaf, EVP_PKEY *key)
{
	kh_hidden_begin();
	bool ok = X509_sign(leaf, key, kh_certificate_digest_for(key)) > 0;
	kh_hidden_end();
	return ok;
}

bool kh_ca_sign(const struct kh_ca *ca, struct kh_slice spki_der, const struct kh_host *host,
		uint32_t life_s, struct kh_buf *out, struct kh_err *err)
{
	if (host->kind != KH_HOST_NAME && host->kind != KH_HOST_IPV4 && host->kind != KH_HOST_IPV6)
		return kh_err_set(err, KH_ERR_LEAF_UNAVAILABLE, "leaf: no host to sign for");
	if (X509_cmp_current_time(X509_get0_notAfter(ca->cert)) <= 0)
		return kh_err_set(err, KH_ERR_LEAF_UNAVAILABLE,
				  "leaf for %s: the CA has expired (make a new one and reload)",
				  host->text);
	kh_cleanup(EVP_PKEY_free_slot) EVP_PKEY *key = read_leaf_key(spki_der, err);
	if (!key)
		return false;
	kh_cleanup(X509_free_slot) X509 *leaf = X509_new();
	if (!leaf || !fill_leaf(leaf, ca, key, host, life_s) || !sign_hidden(leaf, ca->key))
		return kh_err_openssl(err, KH_ERR_LEAF_UNAVAILABLE, "leaf for %s: can't be signed",
				      host->text);
	size_t len = 0;
	kh_auto_free uint8_t *der = kh_certificate_to_der(leaf, &len);
	if (!der || !kh_buf_append(out, der, len))
		return kh_err_set(err, KH_ERR_NO_MEMORY, "leaf for %s: no memory", host->text);
	return true;
}
