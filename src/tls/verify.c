/*
 * verify.c - verifies an upstream's certificate chain
 *
 * OpenSSL builds the path and checks signatures, days, names and purposes. Afterwards this file
 * checks, in the chain that OpenSSL built, what OpenSSL accepts and a careful client would not. The
 * trust anchor is the choice of the operator or the system and is not checked (RFC 5280 §6.1: it is
 * an input), with one exception: a certificate that is not a CA issues nothing.
 *
 * Rules of form that private CAs made by hand often break (missing key identifiers, for example)
 * are not enforced; tests/unit/test_limbo.c names each.
 */
#include "verify_internal.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <keyhole/base/limits.h>

enum { DEPTH_MOST = 10, SERIAL_MOST_BYTES = 20 };

bool kh_verify_configure(X509_VERIFY_PARAM *param, const struct kh_host *host)
{
	X509_VERIFY_PARAM_set_depth(param, DEPTH_MOST);
	X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
						       X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
	switch (host->kind) {
	case KH_HOST_NAME:
		return X509_VERIFY_PARAM_set1_host(param, host->text, host->len) == 1;
	case KH_HOST_IPV4:
		return X509_VERIFY_PARAM_set1_ip(param, host->addr, 4) == 1;
	case KH_HOST_IPV6:
		return X509_VERIFY_PARAM_set1_ip(param, host->addr, 16) == 1;
	case KH_HOST_NONE:
		break;
	}
	return false; /* to verify against nothing would be to verify nothing */
}

/* ---- what every certificate below the anchor has to be ---- */

/* Something that stands in it must be readable, or nobody knows what was agreed to. */
static bool extensions_decode(const X509 *cert)
{
	for (int i = 0; i < X509_get_ext_count(cert); i++) {
		X509_EXTENSION *extension = X509_get_ext(cert, i);
		const X509V3_EXT_METHOD *method = X509V3_EXT_get(extension);
		if (!method)
			continue; /* unknown to OpenSSL; a critical one it has refused already */
		void *value = X509V3_EXT_d2i(extension);
		if (!value)
			return false;
		if (method->it)
			ASN1_item_free(value, ASN1_ITEM_ptr(method->it));
		else if (method->ext_free)
			method->ext_free(value);
	}
	return true;
}

static bool is_known_key(const EVP_PKEY *key)
{
	return key && (EVP_PKEY_is_a(key, "RSA") || EVP_PKEY_is_a(key, "RSA-PSS") ||
		       EVP_PKEY_is_a(key, "EC") || EVP_PKEY_is_a(key, "ED25519") ||
		       EVP_PKEY_is_a(key, "ED448"));
}

static bool is_known_signature(const X509 *cert)
{
	int digest = 0, key = 0;
	if (!OBJ_find_sigid_algs(X509_get_signature_nid(cert), &digest, &key))
		return false;
	return key == NID_rsaEncryption || key == NID_rsassaPss ||
	       key == NID_X9_62_id_ecPublicKey || key == NID_ED25519 || key == NID_ED448;
}

static bool is_empty(const STACK_OF(GENERAL_SUBTREE) * subtrees)
{
	return sk_GENERAL_SUBTREE_num(subtrees) <= 0;
}

/* RFC 5280 §4.2.1.10: in CAs alone, and not empty. */
static const char *check_constraints(const X509 *cert, bool is_leaf)
{
	NAME_CONSTRAINTS *constraints = X509_get_ext_d2i(cert, NID_name_constraints, NULL, NULL);
	if (!constraints)
		return NULL;
	bool empty =
		is_empty(constraints->permittedSubtrees) && is_empty(constraints->excludedSubtrees);
	NAME_CONSTRAINTS_free(constraints);
	if (is_leaf)
		return "name constraints in a certificate that is no CA";
	return empty ? "empty name constraints" : NULL;
}

static const char *check_any(const X509 *cert, bool is_leaf)
{
	if (X509_get0_serialNumber(cert)->length > SERIAL_MOST_BYTES)
		return "a serial number of more than 20 bytes";
	if (!extensions_decode(cert))
		return "an extension that can't be read";
	if (!is_known_key(X509_get0_pubkey(cert)))
		return "a key that is neither RSA, EC nor EdDSA";
	if (!is_known_signature(cert))
		return "a signature that is neither RSA, ECDSA nor EdDSA";
	return check_constraints(cert, is_leaf);
}

/* ---- the leaf ---- */

/* Letters, digits, hyphens, underscores and stars in labels that are not empty. */
static bool is_name(struct kh_slice name)
{
	char before = '.';
	for (size_t i = 0; i < name.len; i++) {
		char c = name.ptr[i];
		bool is_label =
			kh_is_alpha(c) || kh_is_digit(c) || c == '-' || c == '_' || c == '*';
		if (!is_label && (c != '.' || before == '.'))
			return false;
		before = c;
	}
	return name.len > 0;
}

static bool names_are_clean(const X509 *leaf)
{
	GENERAL_NAMES *names = X509_get_ext_d2i(leaf, NID_subject_alt_name, NULL, NULL);
	bool clean = true;
	for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
		int type = 0;
		const ASN1_STRING *name =
			GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &type);
		if (type != GEN_DNS)
			continue;
		clean = clean && is_name(kh_slice_of(ASN1_STRING_get0_data(name),
						     (size_t)ASN1_STRING_length(name)));
	}
	GENERAL_NAMES_free(names);
	return clean;
}

static const char *check_leaf(X509 *leaf)
{
	uint32_t flags = X509_get_extension_flags(leaf);
	if (flags & EXFLAG_CA)
		return "the certificate of a CA, shown by a server";
	if ((flags & EXFLAG_KUSAGE) && (X509_get_key_usage(leaf) & KU_KEY_CERT_SIGN))
		return "a server's certificate that may sign others";
	if (!names_are_clean(leaf))
		return "a name that is none";
	return NULL;
}

const char *kh_verify_chain_fault(STACK_OF(X509) * chain, int *depth)
{
	int anchor = sk_X509_num(chain) - 1;
	const char *fault = NULL;
	/* The leaf may be the anchor itself: a server's own certificate that was trusted by hand.
	 */
	for (*depth = 0; *depth < anchor && !fault; ++*depth) {
		X509 *cert = sk_X509_value(chain, *depth);
		fault = check_any(cert, *depth == 0);
		if (!fault && *depth == 0)
			fault = check_leaf(cert);
		if (fault)
			break;
	}
	if (!fault && anchor > 0) {
		X509 *root = sk_X509_value(chain, anchor);
		if (X509_get_version(root) == X509_VERSION_3 &&
		    !(X509_get_extension_flags(root) & EXFLAG_CA))
			fault = "a trusted certificate that is no CA, but issues others";
	}
	ERR_clear_error();
	return fault;
}

/* ---- what was sent, before anything is verified by it ---- */

static const char *check_cost(const EVP_PKEY *key)
{
	BIGNUM *e = NULL;

	if (!key || !(EVP_PKEY_is_a(key, "RSA") || EVP_PKEY_is_a(key, "RSA-PSS")))
		return NULL;
	if (EVP_PKEY_get_bits(key) > KH_LIMIT_TLS_RSA_BITS)
		return "an RSA key of more than 8192 bits";
	bool small = EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_E, &e) == 1 &&
		     BN_num_bits(e) <= KH_LIMIT_TLS_RSA_EXPONENT_BITS;
	BN_free(e);
	return small ? NULL : "an RSA key with an exponent of more than 64 bits";
}

const char *kh_verify_cost_fault(STACK_OF(X509) * sent, int *depth)
{
	const char *fault = NULL;

	for (*depth = 0; *depth < sk_X509_num(sent); ++*depth) {
		fault = check_cost(X509_get0_pubkey(sk_X509_value(sent, *depth)));
		if (fault)
			break;
	}
	ERR_clear_error(); /* a key that can't be read */
	return fault;
}

int kh_verify_chain(X509_STORE_CTX *ctx, const char **fault, int *depth)
{
	*fault = kh_verify_cost_fault(X509_STORE_CTX_get0_untrusted(ctx), depth);
	if (!*fault && X509_verify_cert(ctx) != 1)
		return 0;
	if (!*fault)
		*fault = kh_verify_chain_fault(X509_STORE_CTX_get0_chain(ctx), depth);
	if (!*fault)
		return 1;
	X509_STORE_CTX_set_error(ctx, X509_V_ERR_APPLICATION_VERIFICATION);
	X509_STORE_CTX_set_error_depth(ctx, *depth);
	return 0;
}
