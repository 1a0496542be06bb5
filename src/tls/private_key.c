/*
 * private_key.c - reads a private key in PEM without computing with it
 *
 * OpenSSL's own reader takes every kind of key that it knows, also under a label that names another
 * kind. So the label and the identifier in the key are looked at first.
 */
#include <keyhole/tls/private_key.h>

#include <stdint.h>
#include <string.h>

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

static const char no_key[] = "its key is not a private key in PEM";
static const char other_kind[] = "its key is of another kind than RSA, EC, Ed25519 and Ed448";
static const char too_long[] =
	"its key is too long (RSA of 8192 bits, or EC with a curve that has a name, at the most)";
static const char locked[] = "its key has a passphrase (take it away: openssl pkey)";

struct block {
	char *label, *header;
	unsigned char *der;
	long len;
};

static void fini(struct block *block)
{
	OPENSSL_free(block->label);
	OPENSSL_free(block->header);
	OPENSSL_clear_free(block->der, (size_t)block->len);
	*block = (struct block){ .len = 0 };
}

static bool ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), end_len = strlen(end);

	return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

/* The first block whose label says that it is a private key. */
static bool find(BIO *bio, struct block *block)
{
	while (PEM_read_bio(bio, &block->label, &block->header, &block->der, &block->len) == 1) {
		if (ends_with(block->label, "PRIVATE KEY"))
			return true;
		fini(block);
	}
	return false;
}

static bool is_labelled(const struct block *block, const char *label)
{
	return strcmp(block->label, label) == 0;
}

static bool is_known(const struct block *block, const PKCS8_PRIV_KEY_INFO *info)
{
	const ASN1_OBJECT *kind;

	if (!info)
		return is_labelled(block, PEM_STRING_RSA) ||
		       is_labelled(block, PEM_STRING_ECPRIVATEKEY) ||
		       is_labelled(block, PEM_STRING_PKCS8INF);
	if (PKCS8_pkey_get0(&kind, NULL, NULL, NULL, info) != 1)
		return false;
	switch (OBJ_obj2nid(kind)) {
	case NID_rsaEncryption:
	case NID_rsassaPss:
	case NID_X9_62_id_ecPublicKey:
	case NID_ED25519:
	case NID_ED448:
		return true;
	default:
		return false;
	}
}

/* As long as a real one. With parameters of its own, a key of EC makes OpenSSL multiply by a number
 * of any length; they take more room than a name. */
static bool has_a_length(const struct block *block, const PKCS8_PRIV_KEY_INFO *info)
{
	const ASN1_OBJECT *kind = NULL;
	bool is_rsa = is_labelled(block, PEM_STRING_RSA);

	if (info && PKCS8_pkey_get0(&kind, NULL, NULL, NULL, info) == 1)
		is_rsa = OBJ_obj2nid(kind) == NID_rsaEncryption ||
			 OBJ_obj2nid(kind) == NID_rsassaPss;
	return block->len <= (is_rsa ? KH_PRIVATE_KEY_DER_BYTES : KH_PRIVATE_KEY_EC_DER_BYTES);
}

static EVP_PKEY *decode(const struct block *block, const char **why)
{
	const unsigned char *at = block->der;
	/* Also where the label names the kind: OpenSSL looks for this form there, too. */
	PKCS8_PRIV_KEY_INFO *info = d2i_PKCS8_PRIV_KEY_INFO(NULL, &at, block->len);
	EVP_PKEY *key = NULL;

	*why = no_key;
	at = block->der;
	if (!is_known(block, info))
		*why = other_kind;
	else if (!has_a_length(block, info))
		*why = too_long;
	else if (info)
		key = EVP_PKCS82PKEY(info);
	else if (is_labelled(block, PEM_STRING_RSA))
		key = d2i_PrivateKey(EVP_PKEY_RSA, NULL, &at, block->len);
	else if (is_labelled(block, PEM_STRING_ECPRIVATEKEY))
		key = d2i_PrivateKey(EVP_PKEY_EC, NULL, &at, block->len);
	PKCS8_PRIV_KEY_INFO_free(info);
	return key;
}

static bool is_within(const EVP_PKEY *key, const char *name, int bits)
{
	BIGNUM *number = NULL;

	if (EVP_PKEY_get_bn_param(key, name, &number) != 1)
		return true; /* it has none */
	bool within = BN_num_bits(number) <= bits;
	BN_clear_free(number);
	return within;
}

/* No number is longer than in a key that was made as RFC 8017 says. With more primes than two there
 * are more numbers, which nobody needs. */
static bool is_short_enough(const EVP_PKEY *key)
{
	enum { EXPONENT_BITS = 64 };
	static const char *const halves[] = {
		OSSL_PKEY_PARAM_RSA_FACTOR1,	  OSSL_PKEY_PARAM_RSA_FACTOR2,
		OSSL_PKEY_PARAM_RSA_EXPONENT1,	  OSSL_PKEY_PARAM_RSA_EXPONENT2,
		OSSL_PKEY_PARAM_RSA_COEFFICIENT1,
	};
	int bits = EVP_PKEY_get_bits(key);
	BIGNUM *third = NULL;

	if (!EVP_PKEY_is_a(key, "RSA") && !EVP_PKEY_is_a(key, "RSA-PSS"))
		return true;
	bool ok = bits <= KH_PRIVATE_KEY_BITS &&
		  EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_FACTOR3, &third) != 1;
	BN_clear_free(third);
	ok = ok && is_within(key, OSSL_PKEY_PARAM_RSA_E, EXPONENT_BITS) &&
	     is_within(key, OSSL_PKEY_PARAM_RSA_D, bits);
	for (size_t i = 0; ok && i < sizeof(halves) / sizeof(halves[0]); i++)
		ok = is_within(key, halves[i], bits / 2 + 8);
	return ok;
}

EVP_PKEY *kh_private_key_read(struct kh_slice pem, const char **why)
{
	BIO *bio = pem.len <= INT32_MAX ? BIO_new_mem_buf(pem.ptr, (int)pem.len) : NULL;
	struct block block = { .len = 0 };
	EVP_PKEY *key = NULL;

	*why = no_key;
	if (!bio || !find(bio, &block)) {
		*why = no_key;
	} else if (strstr(block.header, "ENCRYPTED") || strstr(block.label, "ENCRYPTED")) {
		*why = locked;
	} else if ((key = decode(&block, why)) && !is_short_enough(key)) {
		*why = too_long;
		EVP_PKEY_free(key);
		key = NULL;
	}
	fini(&block);
	BIO_free(bio);
	ERR_clear_error();
	return key;
}
