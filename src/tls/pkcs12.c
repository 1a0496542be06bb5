/*
 * pkcs12.c - the CA as a trust store for Java
 *
 * Java trusts a certificate only if its bag has an attribute of Oracle's that lists the trusted
 * usages (here: any). The password is public and protects nothing. So the certificate is not
 * encrypted, and the MAC is one that every Java can check (SHA-1; releases before 2021 know no
 * other).
 */
#include "tls_internal.h"

#include <stdio.h>

#include <openssl/err.h>
#include <openssl/pkcs12.h>
#include <openssl/objects.h>

#define TRUSTED_KEY_USAGE "2.16.840.1.113894.746875.1.1"
#define STORE_PASSWORD "changeit"
#define STORE_ALIAS "keyhole"

enum { MAC_ROUNDS = 2048 };

static void free_bags(STACK_OF(PKCS12_SAFEBAG) * bags)
{
	sk_PKCS12_SAFEBAG_pop_free(bags, PKCS12_SAFEBAG_free);
}

static void free_safes(STACK_OF(PKCS7) * safes)
{
	sk_PKCS7_pop_free(safes, PKCS7_free);
}

/* The first is "keyhole", others have their number. */
static bool dress_bag(PKCS12_SAFEBAG *bag, unsigned n)
{
	char alias[32];
	size_t plain = sizeof STORE_ALIAS - 1;
	int len = snprintf(alias, sizeof alias, STORE_ALIAS "-%u", n);
	ASN1_OBJECT *any_usage = OBJ_nid2obj(NID_anyExtendedKeyUsage);
	return bag && any_usage &&
	       PKCS12_add_friendlyname_utf8(bag, alias, n > 1 ? len : (int)plain) == 1 &&
	       PKCS12_add1_attr_by_txt(bag, TRUSTED_KEY_USAGE, V_ASN1_OBJECT,
				       (const unsigned char *)any_usage, -1) == 1;
}

static bool add_all(STACK_OF(PKCS12_SAFEBAG) * *bags, struct kh_slice der)
{
	const unsigned char *at = (const unsigned char *)der.ptr, *end = at + der.len;
	bool ok = der.len > 0;
	for (unsigned n = 1; ok && at < end; n++) {
		kh_cleanup(X509_free_slot) X509 *cert = d2i_X509(NULL, &at, end - at);
		ok = cert && dress_bag(PKCS12_add_cert(bags, cert), n);
	}
	return ok;
}

static PKCS12 *make_store(struct kh_slice der, const char *password)
{
	STACK_OF(PKCS12_SAFEBAG) *bags = NULL;
	STACK_OF(PKCS7) *safes = NULL;
	PKCS12 *store = NULL;
	if (add_all(&bags, der) && PKCS12_add_safe(&safes, bags, -1, 0, NULL) == 1)
		store = PKCS12_add_safes(safes, 0);
	if (store && PKCS12_set_mac(store, password, -1, NULL, 0, MAC_ROUNDS, EVP_sha1()) != 1) {
		PKCS12_free(store);
		store = NULL;
	}
	free_bags(bags);
	free_safes(safes);
	return store;
}

bool kh_ca_pkcs12_with(struct kh_slice der, const char *password, struct kh_buf *out,
		       struct kh_err *err)
{
	PKCS12 *store = make_store(der, password);
	unsigned char *bytes = NULL;
	int len = store ? i2d_PKCS12(store, &bytes) : -1;
	PKCS12_free(store);
	if (len <= 0)
		return kh_err_openssl(err, KH_ERR_INTERNAL, "trust store for Java: can't be made");
	bool ok = kh_buf_append(out, bytes, (size_t)len);
	OPENSSL_free(bytes);
	return ok ? true : kh_err_set(err, KH_ERR_NO_MEMORY, "trust store for Java: no memory");
}

bool kh_ca_pkcs12_from_der(struct kh_slice der, struct kh_buf *out, struct kh_err *err)
{
	return kh_ca_pkcs12_with(der, STORE_PASSWORD, out, err);
}

bool kh_ca_pkcs12(const struct kh_ca *ca, struct kh_buf *out, struct kh_err *err)
{
	return kh_ca_pkcs12_from_der(kh_ca_der(ca), out, err);
}
