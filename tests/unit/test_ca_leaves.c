/* test_ca_leaves.c - the certificate of the CA, and what it signs, as strict clients want them */
#include "ca_files.h"

static struct kh_host host_of(const char *text)
{
	struct kh_host host;
	assert_true(kh_host_parse(&host, kh_slice_str(text), NULL));
	return host;
}

/* ---- the certificate ---- */

static void test_the_ca_is_what_strict_clients_ask_for(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_ca *ca = kh_ca_new(&err), *other = kh_ca_new(&err);
	char name[128], others_name[128];
	int days = 0, seconds = 0;
	(void)state;
	X509 *cert = x509_of(kh_ca_der(ca)), *others = x509_of(kh_ca_der(other));
	assert_int_equal(X509_check_ca(cert), 1);
	assert_int_equal(X509_get_pathlen(cert), 0);
	assert_int_equal(X509_get_key_usage(cert), KU_KEY_CERT_SIGN | KU_CRL_SIGN);
	assert_non_null(X509_get0_subject_key_id(cert));
	assert_int_equal(EVP_PKEY_get_bits(X509_get0_pubkey(cert)), 256);
	assert_int_equal(ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(cert)), 1);
	assert_in_range(days, 3650, 3653);
	assert_true(X509_cmp_current_time(X509_get0_notBefore(cert)) < 0);
	X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, name, sizeof name);
	X509_NAME_get_text_by_NID(X509_get_subject_name(others), NID_commonName, others_name,
				  sizeof others_name);
	assert_int_equal(strncmp(name, "keyhole CA ", 11), 0);
	assert_int_equal(strlen(name), 11 + 16);
	assert_string_not_equal(name, others_name);
	X509_free(cert);
	X509_free(others);
	kh_ca_free(ca);
	kh_ca_free(other);
}

/* ---- leaves ---- */

static X509 *sign(const struct kh_ca *ca, const struct kh_leaves *leaves, const char *name)
{
	struct kh_host host = host_of(name);
	struct kh_err err = KH_ERR_INIT;
	struct kh_buf der;
	kh_buf_init(&der, 8192);
	if (!kh_ca_sign(ca, kh_leaves_spki(leaves), &host, KH_CA_LEAF_S, &der, &err))
		fail_msg("%s", err.text);
	X509 *leaf = x509_of(kh_buf_view(&der));
	kh_buf_fini(&der);
	return leaf;
}

/* X509_V_FLAG_X509_STRICT, server purpose, and the host. */
static int verify(struct kh_slice ca_der, X509 *leaf, const struct kh_host *host)
{
	X509 *ca = x509_of(ca_der);
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	X509_STORE_add_cert(store, ca);
	X509_STORE_CTX_init(ctx, store, leaf, NULL);
	X509_VERIFY_PARAM *param = X509_STORE_CTX_get0_param(ctx);
	X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_X509_STRICT);
	X509_VERIFY_PARAM_set_purpose(param, X509_PURPOSE_SSL_SERVER);
	if (host->kind == KH_HOST_NAME)
		X509_VERIFY_PARAM_set1_host(param, host->text, host->len);
	else
		X509_VERIFY_PARAM_set1_ip(param, host->addr, host->kind == KH_HOST_IPV4 ? 4 : 16);
	X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
	(void)X509_verify_cert(ctx);
	int result = X509_STORE_CTX_get_error(ctx);
	X509_STORE_CTX_free(ctx);
	X509_STORE_free(store);
	X509_free(ca);
	return result;
}

static const char long_name[] =
	"a-rather-long-label-of-a-resource.and-another-one-in-front-of-it.example.com";

static void test_leaves_verify_strictly_for_names_and_addresses(void **state)
{
	static const char *const names[] = { "api.example.com",		"127.0.0.1", "2001:db8::1",
					     "under_score.example.com", long_name,   "localhost" };
	struct kh_err err = KH_ERR_INIT;
	struct kh_ca *ca = kh_ca_new(&err);
	struct kh_leaves *leaves = kh_leaves_new(&err);
	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		struct kh_host host = host_of(names[i]), wrong = host_of("wrong.example.com");
		X509 *leaf = sign(ca, leaves, names[i]);
		int result = verify(kh_ca_der(ca), leaf, &host);
		if (result != X509_V_OK)
			fail_msg("%s: %s", names[i], X509_verify_cert_error_string((long)result));
		assert_int_not_equal(verify(kh_ca_der(ca), leaf, &wrong), X509_V_OK);
		X509_free(leaf);
	}
	kh_leaves_free(leaves);
	kh_ca_free(ca);
}

static void test_a_leaf_has_the_extensions_that_the_header_promises(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_ca *ca = kh_ca_new(&err);
	struct kh_leaves *leaves = kh_leaves_new(&err);
	(void)state;
	X509 *leaf = sign(ca, leaves, "api.example.com");
	X509 *again = sign(ca, leaves, "api.example.com");
	X509 *issuer = x509_of(kh_ca_der(ca));
	time_t now = time(NULL), hour_back = now - 3600 + 5, bit_more = now - 3600 - 60;
	time_t less = now + KH_CA_LEAF_S - 60, more = now + KH_CA_LEAF_S + 60;
	int critical = -1;

	assert_int_equal(X509_check_ca(leaf), 0);
	assert_int_equal(X509_get_key_usage(leaf), KU_DIGITAL_SIGNATURE);
	assert_int_equal(X509_get_extended_key_usage(leaf), XKU_SSL_SERVER);
	assert_int_equal(ASN1_OCTET_STRING_cmp(X509_get0_authority_key_id(leaf),
					       X509_get0_subject_key_id(issuer)),
			 0);
	assert_non_null(X509_get0_subject_key_id(leaf));
	BASIC_CONSTRAINTS *bc = X509_get_ext_d2i(leaf, NID_basic_constraints, &critical, NULL);
	assert_non_null(bc);
	assert_int_equal(critical, 1);
	BASIC_CONSTRAINTS_free(bc);
	assert_true(X509_cmp_time(X509_get0_notBefore(leaf), &hour_back) < 0);
	assert_true(X509_cmp_time(X509_get0_notBefore(leaf), &bit_more) > 0);
	assert_true(X509_cmp_time(X509_get0_notAfter(leaf), &less) > 0);
	assert_true(X509_cmp_time(X509_get0_notAfter(leaf), &more) < 0);
	assert_int_not_equal(
		ASN1_INTEGER_cmp(X509_get0_serialNumber(leaf), X509_get0_serialNumber(again)), 0);
	BIGNUM *serial = ASN1_INTEGER_to_BN(X509_get0_serialNumber(leaf), NULL);
	assert_in_range(BN_num_bits(serial), 90, 128);
	assert_false(BN_is_negative(serial));
	BN_free(serial);
	assert_int_equal(X509_get_signature_nid(leaf), NID_ecdsa_with_SHA256);
	X509_free(leaf);
	X509_free(again);
	X509_free(issuer);
	kh_leaves_free(leaves);
	kh_ca_free(ca);
}

static void test_a_name_too_long_for_a_common_name_is_in_a_critical_san(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_ca *ca = kh_ca_new(&err);
	struct kh_leaves *leaves = kh_leaves_new(&err);
	int critical = -1;
	(void)state;
	X509 *leaf = sign(ca, leaves, long_name);
	assert_int_equal(X509_NAME_entry_count(X509_get_subject_name(leaf)), 0);
	GENERAL_NAMES *names = X509_get_ext_d2i(leaf, NID_subject_alt_name, &critical, NULL);
	assert_int_equal(sk_GENERAL_NAME_num(names), 1);
	assert_int_equal(critical, 1);
	GENERAL_NAMES_free(names);
	X509_free(leaf);
	kh_leaves_free(leaves);
	kh_ca_free(ca);
}

static void test_a_leaf_never_outlives_the_ca(void **state)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	struct kh_err err = KH_ERR_INIT;
	struct kh_leaves *leaves = kh_leaves_new(&err);
	(void)state;
	store_odd(key, -100, 3600, "critical,CA:TRUE", "critical,keyCertSign", true);
	struct kh_ca *ca = must_open();
	X509 *issuer = x509_of(kh_ca_der(ca)), *leaf = sign(ca, leaves, "api.example.com");
	assert_int_equal(ASN1_TIME_compare(X509_get0_notAfter(leaf), X509_get0_notAfter(issuer)),
			 0);
	assert_int_equal(ASN1_TIME_compare(X509_get0_notBefore(leaf), X509_get0_notBefore(issuer)),
			 0);
	X509_free(issuer);
	X509_free(leaf);
	kh_ca_free(ca);
	kh_leaves_free(leaves);
	EVP_PKEY_free(key);
}

static void test_a_ca_with_an_rsa_key_signs_too(void **state)
{
	EVP_PKEY *key = EVP_RSA_gen(2048);
	struct kh_err err = KH_ERR_INIT;
	struct kh_leaves *leaves = kh_leaves_new(&err);
	struct kh_host host = host_of("api.example.com");
	(void)state;
	store_odd(key, -100, 100000, "critical,CA:TRUE", "critical,keyCertSign", true);
	struct kh_ca *ca = must_open();
	X509 *leaf = sign(ca, leaves, "api.example.com");
	assert_int_equal(verify(kh_ca_der(ca), leaf, &host), X509_V_OK);
	X509_free(leaf);
	kh_ca_free(ca);
	kh_leaves_free(leaves);
	EVP_PKEY_free(key);
}

static void test_a_key_that_is_not_the_workers_kind_is_not_signed(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_ca *ca = kh_ca_new(&err);
	struct kh_host host = host_of("api.example.com"), none = { 0 };
	struct kh_leaves *leaves = kh_leaves_new(&err);
	EVP_PKEY *keys[] = { EVP_RSA_gen(2048), EVP_EC_gen("P-384"),
			     EVP_PKEY_Q_keygen(NULL, NULL, "ED25519") };
	struct kh_buf out;
	(void)state;
	kh_buf_init(&out, 8192);
	for (size_t i = 0; i < 3; i++) {
		unsigned char *spki = NULL;
		int len = i2d_PUBKEY(keys[i], &spki);
		assert_true(len > 0);
		assert_false(kh_ca_sign(ca, kh_slice_of(spki, (size_t)len), &host, KH_CA_LEAF_S,
					&out, &err));
		assert_int_equal(err.code, KH_ERR_LEAF_UNAVAILABLE);
		OPENSSL_free(spki);
		EVP_PKEY_free(keys[i]);
	}
	struct kh_slice good = kh_leaves_spki(leaves);
	assert_false(kh_ca_sign(ca, KH_SLICE(""), &host, KH_CA_LEAF_S, &out, &err));
	assert_false(kh_ca_sign(ca, KH_SLICE("garbage"), &host, KH_CA_LEAF_S, &out, &err));
	assert_false(kh_ca_sign(ca, kh_slice_sub(good, 0, good.len - 1), &host, KH_CA_LEAF_S, &out,
				&err));
	char longer[256];
	memcpy(longer, good.ptr, good.len);
	longer[good.len] = 0;
	assert_false(
		kh_ca_sign(ca, kh_slice_of(longer, good.len + 1), &host, KH_CA_LEAF_S, &out, &err));
	assert_false(kh_ca_sign(ca, good, &none, KH_CA_LEAF_S, &out, &err));
	assert_int_equal(kh_buf_len(&out), 0);
	assert_int_equal(ERR_peek_error(), 0);
	/* Too small a buffer: nothing half. */
	struct kh_buf small;
	kh_buf_init(&small, 10);
	assert_false(kh_ca_sign(ca, good, &host, KH_CA_LEAF_S, &small, &err));
	assert_int_equal(err.code, KH_ERR_NO_MEMORY);
	assert_int_equal(kh_buf_len(&small), 0);
	kh_buf_fini(&small);
	kh_buf_fini(&out);
	kh_leaves_free(leaves);
	kh_ca_free(ca);
}

static void test_openssl_verify_agrees_strictly(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_ca *ca = must_open();
	struct kh_leaves *leaves = kh_leaves_new(&err);
	char output[1024];
	(void)state;
	char *leaf_path = kh_strf("%s/leaf.pem", folder);
	X509 *leaf = sign(ca, leaves, "api.example.com");
	BIO *bio = BIO_new_file(leaf_path, "w");
	assert_int_equal(PEM_write_bio_X509(bio, leaf), 1);
	BIO_free_all(bio);
	const char *argv[] = { "openssl",	  "verify",    "-x509_strict",
			       "-purpose",	  "sslserver", "-verify_hostname",
			       "api.example.com", "-CAfile",   cert_path,
			       leaf_path,	  NULL };
	int status = run(argv, output, sizeof output);
	if (status == 127) {
		print_message("skipped: no openssl command here\n");
	} else if (status != 0) {
		fail_msg("%s", output);
	}
	free(leaf_path);
	X509_free(leaf);
	kh_leaves_free(leaves);
	kh_ca_free(ca);
	if (status == 127)
		skip();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_the_ca_is_what_strict_clients_ask_for),
		T(test_leaves_verify_strictly_for_names_and_addresses),
		T(test_a_leaf_has_the_extensions_that_the_header_promises),
		T(test_a_name_too_long_for_a_common_name_is_in_a_critical_san),
		T(test_a_leaf_never_outlives_the_ca),
		T(test_a_ca_with_an_rsa_key_signs_too),
		T(test_a_key_that_is_not_the_workers_kind_is_not_signed),
		T(test_openssl_verify_agrees_strictly),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
