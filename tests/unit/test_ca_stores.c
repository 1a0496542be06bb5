/* test_ca_stores.c - the CA in Java's trust store */
#include "ca_files.h"

static void test_the_java_trust_store_opens_with_its_password_and_holds_the_ca(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_ca *ca = kh_ca_new(&err);
	struct kh_buf out, from_der;
	STACK_OF(X509) *certs = NULL;
	EVP_PKEY *key = NULL;
	X509 *own = NULL;
	(void)state;
	kh_buf_init(&out, 65536);
	kh_buf_init(&from_der, 65536);
	assert_true(kh_ca_pkcs12(ca, &out, &err));
	assert_true(kh_ca_pkcs12_from_der(kh_ca_der(ca), &from_der, &err));
	assert_int_equal(kh_buf_len(&out), kh_buf_len(&from_der));
	const unsigned char *at = (const unsigned char *)kh_buf_view(&out).ptr;
	PKCS12 *p12 = d2i_PKCS12(NULL, &at, (long)kh_buf_len(&out));
	assert_non_null(p12);
	assert_int_equal(PKCS12_verify_mac(p12, "changeit", -1), 1);
	assert_int_equal(PKCS12_verify_mac(p12, "changedit", -1), 0);
	assert_int_equal(PKCS12_parse(p12, "changeit", &key, &own, &certs), 1);
	assert_null(key);
	assert_int_equal(sk_X509_num(certs), 1);
	X509 *cert = x509_of(kh_ca_der(ca));
	assert_int_equal(X509_cmp(sk_X509_value(certs, 0), cert), 0);
	X509_free(cert);
	sk_X509_pop_free(certs, X509_free);
	PKCS12_free(p12);
	assert_false(kh_ca_pkcs12_from_der(KH_SLICE("no"), &out, &err));
	kh_buf_fini(&out);
	kh_buf_fini(&from_der);
	kh_ca_free(ca);
	ERR_clear_error();
}

static void test_keytool_calls_it_a_trusted_entry(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_ca *ca = kh_ca_new(&err);
	struct kh_buf out;
	char output[4096];
	char *path = kh_strf("%s/trust.p12", folder);
	(void)state;
	kh_buf_init(&out, 65536);
	assert_true(kh_ca_pkcs12(ca, &out, &err));
	assert_true(kh_file_write(path, kh_buf_view(&out), 0644, &err));
	kh_buf_fini(&out);
	kh_ca_free(ca);
	const char *argv[] = { "keytool",  "-list",	 "-keystore", path, "-storepass",
			       "changeit", "-storetype", "PKCS12",    NULL };
	int status = run(argv, output, sizeof output);
	free(path);
	if (status == 127) {
		print_message("skipped: no keytool here\n");
		skip();
	}
	assert_int_equal(status, 0);
	if (!strstr(output, "trustedCertEntry") || !strstr(output, "keyhole"))
		fail_msg("%s", output);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_the_java_trust_store_opens_with_its_password_and_holds_the_ca),
		T(test_keytool_calls_it_a_trusted_entry),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
