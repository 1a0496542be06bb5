/* tls_internal.h - what only src/tls sees */
#ifndef KEYHOLE_TLS_INTERNAL_H
#define KEYHOLE_TLS_INTERNAL_H

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <keyhole/tls/ca.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/tls/tls.h>

KH_DEFINE_CLEANUP(X509, X509_free)
KH_DEFINE_CLEANUP(EVP_PKEY, EVP_PKEY_free)
KH_DEFINE_CLEANUP(BIO, BIO_free_all)

/* certificate.c: building and reading certificates. */

enum { KH_SERIAL_BITS = 128 };

/* The digest that goes with this kind of key; NULL for a kind that is not used here. */
const EVP_MD *kh_certificate_digest_for(const EVP_PKEY *key);
bool kh_certificate_set_serial(X509 *cert);
/* From now + `from_s` to now + `until_s`. */
bool kh_certificate_set_validity(X509 *cert, long from_s, long until_s);
/* By OpenSSL's configuration syntax: `value` must be a constant of ours, never a peer's text. */
bool kh_certificate_add(X509 *cert, X509 *issuer, int nid, const char *value);
bool kh_certificate_add_host(X509 *cert, const struct kh_host *host, bool critical);
bool kh_certificate_set_name(X509_NAME *name, const char *common_name, const char *organisation);
/* DER into memory of malloc's; the caller frees. Return: NULL, with OpenSSL's queue filled. */
uint8_t *kh_certificate_to_der(X509 *cert, size_t *len);
/* Decodes one certificate with no trailing bytes, and settles it (below). NULL: malformed. */
X509 *kh_certificate_from_der(struct kh_slice der);
/* Makes OpenSSL compute its cached fields now, while only one thread has the certificate. */
void kh_certificate_settle(X509 *cert);

/* ca.c: a fresh pair. */
bool kh_ca_make(EVP_PKEY **key, X509 **certificate, struct kh_err *err);
/* ca_rotate.c: the next CA's key; *key NULL: there is no next CA. */
bool kh_ca_next_load(const char *certificate_path, const char *key_path, EVP_PKEY **key,
		     struct kh_err *err);

/* ca_placeholder.c: the digest that placeholders are derived from; the old CA's is kept as long as
 * that CA is trusted. `out` all zeros: none was kept. */
bool kh_ca_derive_placeholder(EVP_PKEY *key, struct kh_placeholder_key *out, struct kh_err *err);
bool kh_ca_old_placeholder_write(const char *key_path, EVP_PKEY *old, struct kh_err *err);
bool kh_ca_old_placeholder_read(const char *certificate_path, const char *key_path,
				struct kh_placeholder_key *out, struct kh_err *err);
bool kh_ca_old_placeholder_remove(const char *key_path, struct kh_err *err);

/* ca_files.c: where the CA is kept. */

/* Fills key and certificate from the two files, or says why not. */
bool kh_ca_files_load(const char *certificate_path, const char *key_path, EVP_PKEY **key,
		      X509 **certificate, struct kh_err *err);
/* Neither may exist. */
bool kh_ca_files_store(const char *certificate_path, const char *key_path, EVP_PKEY *key,
		       X509 *certificate, struct kh_err *err);
/* Is what is there a CA that can be used? */
bool kh_ca_files_check(const char *certificate_path, const char *key_path, struct kh_err *err);
/* Waits for another process that makes or changes a CA there. Return: a descriptor for
 * kh_ca_files_unlock; -1 with `err`. */
int kh_ca_files_lock(const char *key_path, struct kh_err *err);
void kh_ca_files_unlock(const char *key_path, int lock); /* -1 is fine */

#endif
