/* certificate.c - the parts that certificates are built of, CA and leaf alike */
#include "tls_internal.h"

#include <string.h>

#include <openssl/bn.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

const EVP_MD *kh_certificate_digest_for(const EVP_PKEY *key)
{
	return EVP_PKEY_is_a(key, "EC") || EVP_PKEY_is_a(key, "RSA") ? EVP_sha256() : NULL;
}

bool kh_certificate_set_serial(X509 *cert)
{
	BIGNUM *number = BN_new();
	bool ok = number && BN_rand(number, KH_SERIAL_BITS, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) &&
		  !BN_is_zero(number) &&
		  BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert)) != NULL;
	BN_free(number);
	return ok;
}

bool kh_certificate_set_validity(X509 *cert, long from_s, long until_s)
{
	return X509_gmtime_adj(X509_getm_notBefore(cert), from_s) &&
	       X509_gmtime_adj(X509_getm_notAfter(cert), until_s);
}

bool kh_certificate_add(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	bool ok = extension && X509_add_ext(cert, extension, -1) == 1;
	X509_EXTENSION_free(extension);
	return ok;
}

static GENERAL_NAME *general_name(const struct kh_host *host)
{
	bool is_name = host->kind == KH_HOST_NAME;
	const void *bytes = is_name ? (const void *)host->text : host->addr;
	int len = is_name ? host->len : host->kind == KH_HOST_IPV4 ? 4 : 16;
	GENERAL_NAME *name = GENERAL_NAME_new();
	ASN1_STRING *value = is_name ? ASN1_IA5STRING_new() : ASN1_OCTET_STRING_new();
	if (!name || !value || !ASN1_STRING_set(value, bytes, len)) {
		GENERAL_NAME_free(name);
		ASN1_STRING_free(value);
		return NULL;
	}
	GENERAL_NAME_set0_value(name, is_name ? GEN_DNS : GEN_IPADD, value);
	return name;
}

bool kh_certificate_add_host(X509 *cert, const struct kh_host *host, bool critical)
{
	GENERAL_NAMES *names = GENERAL_NAMES_new();
	GENERAL_NAME *name = general_name(host);
	if (!names || !name || !sk_GENERAL_NAME_push(names, name)) {
		GENERAL_NAME_free(name);
		GENERAL_NAMES_free(names);
		return false;
	}
	bool ok = X509_add1_ext_i2d(cert, NID_subject_alt_name, names, critical,
				    X509V3_ADD_DEFAULT) == 1;
	GENERAL_NAMES_free(names);
	return ok;
}

bool kh_certificate_set_name(X509_NAME *name, const char *common_name, const char *organisation)
{
	if (organisation &&
	    X509_NAME_add_entry_by_NID(name, NID_organizationName, MBSTRING_UTF8,
				       (const unsigned char *)organisation, -1, -1, 0) != 1)
		return false;
	return X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_UTF8,
					  (const unsigned char *)common_name, -1, -1, 0) == 1;
}

uint8_t *kh_certificate_to_der(X509 *cert, size_t *len)
{
	unsigned char *der = NULL;
	int n = i2d_X509(cert, &der);
	if (n <= 0)
		return NULL;
	uint8_t *copy = malloc((size_t)n);
	if (copy) {
		memcpy(copy, der, (size_t)n);
		*len = (size_t)n;
	}
	OPENSSL_free(der);
	return copy;
}

X509 *kh_certificate_from_der(struct kh_slice der)
{
	const unsigned char *at = (const unsigned char *)der.ptr;
	if (der.len == 0 || der.len > (size_t)1 << 20)
		return NULL;
	X509 *cert = d2i_X509(NULL, &at, (long)der.len);
	if (cert && at != (const unsigned char *)der.ptr + der.len) {
		X509_free(cert);
		return NULL;
	}
	if (cert)
		kh_certificate_settle(cert);
	return cert;
}

void kh_certificate_settle(X509 *cert)
{
	(void)X509_check_purpose(cert, -1, 0);
	ERR_clear_error();
}
