/* private_key.h - a private key in PEM, whoever may have written its file */
#ifndef KEYHOLE_TLS_PRIVATE_KEY_H
#define KEYHOLE_TLS_PRIVATE_KEY_H

#include <openssl/evp.h>

#include <keyhole/base/slice.h>

enum {
	KH_PRIVATE_KEY_BITS = 8192,	     /* of RSA: a signature takes about 40 ms */
	KH_PRIVATE_KEY_DER_BYTES = 5 * 1024, /* RSA of so many bits: 4.7 KB */
	KH_PRIVATE_KEY_EC_DER_BYTES = 300,   /* of EC with P-521: 241 */
};

/*
 * The first private key in `pem`: PKCS #8, or the older forms of RSA and EC (RFC 5958, 8017,
 * 5915). Tenants may write such files, and a file can hold a key that takes OpenSSL hours to decode
 * or to sign with: of DSA or DH it computes the public part with any numbers. So only RSA, EC,
 * Ed25519 and Ed448 are decoded, and no number of an RSA key is longer than such a key's are.
 *
 * Return: the caller's. NULL with *why, a clause ("its key is ..."): it can't be read, or is longer
 * than the bounds above, or has a passphrase, which nobody is asked for. OpenSSL's queue of errors
 * is empty then.
 */
EVP_PKEY *kh_private_key_read(struct kh_slice pem, const char **why);

#endif
