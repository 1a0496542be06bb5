/* test_upstream_chain.c - chains that OpenSSL lets pass and we do not */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <tls/verify_internal.h>

static EVP_PKEY *root_key, *leaf_key;

static int setup(void **state)
{
	(void)state;
	root_key = EVP_EC_gen("P-256");
	leaf_key = EVP_EC_gen("P-256");
	return root_key && leaf_key ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	EVP_PKEY_free(root_key);
	EVP_PKEY_free(leaf_key);
	return 0;
}

struct extension {
	int nid;
	const char *value;
};

enum { EXTENSIONS_MOST = 6 };

/* What a certificate is made of. */
struct recipe {
	const char *name;
	struct extension list[EXTENSIONS_MOST];
	unsigned serial_bits; /* 0: 64 */
	const char *raw_aia;  /* an Authority Information Access of these bytes */
};

static X509 *make(const struct recipe *r, EVP_PKEY *key, X509 *issuer, EVP_PKEY *issuer_key)
{
	X509 *cert = X509_new();
	X509V3_CTX ctx;
	BIGNUM *serial = BN_new();
	assert_int_equal(BN_set_bit(serial, r->serial_bits ? (int)r->serial_bits - 1 : 63), 1);
	assert_non_null(BN_to_ASN1_INTEGER(serial, X509_get_serialNumber(cert)));
	BN_free(serial);
	X509_set_version(cert, X509_VERSION_3);
	X509_gmtime_adj(X509_getm_notBefore(cert), -100);
	X509_gmtime_adj(X509_getm_notAfter(cert), 10000);
	X509_set_pubkey(cert, key);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
				   (const unsigned char *)r->name, -1, -1, 0);
	X509_set_issuer_name(cert, X509_get_subject_name(issuer ? issuer : cert));
	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, issuer ? issuer : cert, cert, NULL, NULL, 0);
	for (int i = 0; i < EXTENSIONS_MOST && r->list[i].value; i++) {
		X509_EXTENSION *ext =
			X509V3_EXT_conf_nid(NULL, &ctx, r->list[i].nid, r->list[i].value);
		if (!ext)
			fail_msg("%s", r->list[i].value);
		X509_add_ext(cert, ext, -1);
		X509_EXTENSION_free(ext);
	}
	if (r->raw_aia) {
		ASN1_OCTET_STRING *bytes = ASN1_OCTET_STRING_new();
		ASN1_OCTET_STRING_set(bytes, (const unsigned char *)r->raw_aia,
				      (int)strlen(r->raw_aia));
		X509_EXTENSION *ext = X509_EXTENSION_create_by_NID(NULL, NID_info_access, 0, bytes);
		X509_add_ext(cert, ext, -1);
		X509_EXTENSION_free(ext);
		ASN1_OCTET_STRING_free(bytes);
	}
	assert_true(X509_sign(cert, issuer_key, EVP_sha256()) > 0);
	return cert;
}

static const struct recipe good_root = {
	.name = "root",
	.list = { { NID_basic_constraints, "critical,CA:TRUE" },
		  { NID_key_usage, "critical,keyCertSign" } },
};

/* Return: NULL when the chain is accepted, else why not. */
static const char *refusal(const struct recipe *root_recipe, const struct recipe *leaf_recipe)
{
	struct kh_host host;
	const char *fault = NULL;
	int depth = -1;
	X509 *root = make(root_recipe, root_key, NULL, root_key);
	X509 *leaf = make(leaf_recipe, leaf_key, root, root_key);
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	X509_STORE_add_cert(store, root);
	assert_int_equal(X509_STORE_CTX_init(ctx, store, leaf, NULL), 1);
	assert_int_equal(X509_STORE_CTX_set_default(ctx, "ssl_server"), 1);
	assert_true(kh_host_parse(&host, KH_SLICE("api.example.com"), NULL));
	assert_true(kh_verify_configure(X509_STORE_CTX_get0_param(ctx), &host));
	int ok = kh_verify_chain(ctx, &fault, &depth);
	int error = X509_STORE_CTX_get_error(ctx);
	assert_int_equal(ok == 1, error == X509_V_OK);
	assert_int_equal(fault != NULL, error == X509_V_ERR_APPLICATION_VERIFICATION);
	X509_STORE_CTX_free(ctx);
	X509_STORE_free(store);
	X509_free(root);
	X509_free(leaf);
	ERR_clear_error();
	return ok ? NULL : fault ? fault : X509_verify_cert_error_string(error);
}

static void expect(const struct recipe *leaf, const char *words)
{
	const char *why = refusal(&good_root, leaf);
	if (!words != !why || (why && !strstr(why, words)))
		fail_msg("%s: %s", words ? words : "accepted", why ? why : "accepted");
}

#define SAN \
	{ \
		NID_subject_alt_name, "DNS:api.example.com" \
	}

static void test_plain_certificates_of_private_cas_are_accepted(void **state)
{
	(void)state;
	/* No usages, no key identifiers: as made by hand. */
	expect(&(struct recipe){ .name = "a", .list = { SAN } }, NULL);
	expect(&(struct recipe){ .name = "a",
				 .list = { SAN,
					   { NID_key_usage, "critical,digitalSignature" },
					   { NID_ext_key_usage, "serverAuth,clientAuth" } } },
	       NULL);
}

static void test_a_server_that_shows_a_ca_or_a_signer_is_refused(void **state)
{
	(void)state;
	expect(&(struct recipe){ .name = "a",
				 .list = { SAN, { NID_basic_constraints, "critical,CA:TRUE" } } },
	       "certificate of a CA");
	expect(&(struct recipe){ .name = "a",
				 .list = { SAN,
					   { NID_key_usage, "digitalSignature,keyCertSign" } } },
	       "may sign others");
}

static void test_a_certificate_for_something_else_than_servers_is_refused(void **state)
{
	(void)state;
	expect(&(struct recipe){ .name = "a",
				 .list = { SAN, { NID_ext_key_usage, "clientAuth" } } },
	       "purpose");
	expect(&(struct recipe){ .name = "a",
				 .list = { SAN, { NID_ext_key_usage, "anyExtendedKeyUsage" } } },
	       "purpose");
}

static void test_name_constraints_in_a_leaf_are_refused(void **state)
{
	(void)state;
	expect(
		&(struct recipe){
			.name = "a",
			.list = { SAN, { NID_name_constraints, "permitted;DNS:example.com" } } },
		"name constraints");
}

static void test_names_that_are_none_are_refused(void **state)
{
	static const char *const names[] = { "DNS:api.example.com,DNS:.example.com",
					     "DNS:api.example.com,DNS:a..example.com",
					     "DNS:api.example.com,DNS:a b.example.com",
					     "DNS:api.example.com,DNS:a/b" };
	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		expect(&(struct recipe){ .name = "a",
					 .list = { { NID_subject_alt_name, names[i] } } },
		       "a name that is none");
}

static void test_a_serial_number_beyond_the_standard_is_refused(void **state)
{
	(void)state;
	expect(&(struct recipe){ .name = "a", .list = { SAN }, .serial_bits = 160 }, NULL);
	expect(&(struct recipe){ .name = "a", .list = { SAN }, .serial_bits = 161 },
	       "more than 20 bytes");
}

static void test_an_extension_that_cannot_be_read_is_refused(void **state)
{
	(void)state;
	expect(&(struct recipe){ .name = "a", .list = { SAN }, .raw_aia = "garbage" },
	       "can't be read");
}

static void test_a_trusted_certificate_that_is_no_ca_issues_nothing(void **state)
{
	struct recipe leaf = { .name = "a", .list = { SAN } };
	(void)state;
	/* Somebody's own server certificate, trusted by hand, must not make its key a CA's. */
	assert_non_null(refusal(&(struct recipe){ .name = "r", .list = { SAN } }, &leaf));
	assert_non_null(refusal(
		&(struct recipe){ .name = "r",
				  .list = { SAN, { NID_key_usage, "critical,keyCertSign" } } },
		&leaf));
	assert_non_null(refusal(
		&(struct recipe){ .name = "r",
				  .list = { { NID_basic_constraints, "critical,CA:FALSE" } } },
		&leaf));
}

static void test_a_servers_own_certificate_that_was_trusted_by_hand_is_accepted(void **state)
{
	struct recipe own = { .name = "own",
			      .list = { SAN, { NID_basic_constraints, "critical,CA:TRUE" } } };
	struct kh_host host;
	const char *fault = NULL;
	int depth;
	(void)state;
	X509 *cert = make(&own, leaf_key, NULL, leaf_key);
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	X509_STORE_add_cert(store, cert);
	assert_int_equal(X509_STORE_CTX_init(ctx, store, cert, NULL), 1);
	assert_int_equal(X509_STORE_CTX_set_default(ctx, "ssl_server"), 1);
	assert_true(kh_host_parse(&host, KH_SLICE("api.example.com"), NULL));
	assert_true(kh_verify_configure(X509_STORE_CTX_get0_param(ctx), &host));
	assert_int_equal(kh_verify_chain(ctx, &fault, &depth), 1);
	X509_STORE_CTX_free(ctx);
	X509_STORE_free(store);
	X509_free(cert);
}

static void test_nobody_in_particular_is_nobody(void **state)
{
	X509_VERIFY_PARAM *param = X509_VERIFY_PARAM_new();
	struct kh_host none = { 0 };
	(void)state;
	assert_false(kh_verify_configure(param, &none));
	X509_VERIFY_PARAM_free(param);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain_certificates_of_private_cas_are_accepted),
		cmocka_unit_test(test_a_server_that_shows_a_ca_or_a_signer_is_refused),
		cmocka_unit_test(test_a_certificate_for_something_else_than_servers_is_refused),
		cmocka_unit_test(test_name_constraints_in_a_leaf_are_refused),
		cmocka_unit_test(test_names_that_are_none_are_refused),
		cmocka_unit_test(test_a_serial_number_beyond_the_standard_is_refused),
		cmocka_unit_test(test_an_extension_that_cannot_be_read_is_refused),
		cmocka_unit_test(test_a_trusted_certificate_that_is_no_ca_issues_nothing),
		cmocka_unit_test(
			test_a_servers_own_certificate_that_was_trusted_by_hand_is_accepted),
		cmocka_unit_test(test_nobody_in_particular_is_nobody),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
