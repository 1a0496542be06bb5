/* test_client_cert.c - a client certificate and its key: two files that are replaced one after the
 * other
 */
/* wrap: kh_clock_mono_ms */
#include "config_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <keeper/keeper_internal.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/tls/identity.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/base/fair_share.h>

enum { DAY_S = 24 * 3600, TEXT_BYTES = 16 * 1024 };

/* Time that has gone by between two looks at the files. */
static uint64_t gone_by_ms;

uint64_t __real_kh_clock_mono_ms(void);
uint64_t __wrap_kh_clock_mono_ms(void);
uint64_t __wrap_kh_clock_mono_ms(void)
{
	return __real_kh_clock_mono_ms() + gone_by_ms;
}

/* A pair in PEM. */
struct made {
	char key[TEXT_BYTES], certificate[TEXT_BYTES];
};

static char folder[64];
static struct made one, other, renewed; /* `renewed` has the key of `one` */
static unsigned n_stale;

static void put_text(BIO *bio, char out[TEXT_BYTES])
{
	int n = BIO_read(bio, out, TEXT_BYTES - 1);
	assert_true(n > 0);
	out[n] = '\0';
	BIO_free(bio);
}

static void make_certificate(EVP_PKEY *key, long from_s, long until_s, char out[TEXT_BYTES])
{
	X509 *cert = X509_new();
	static long serial;
	assert_true(X509_set_version(cert, X509_VERSION_3) &&
		    ASN1_INTEGER_set(X509_get_serialNumber(cert), ++serial) &&
		    X509_gmtime_adj(X509_getm_notBefore(cert), from_s) &&
		    X509_gmtime_adj(X509_getm_notAfter(cert), until_s) &&
		    X509_set_pubkey(cert, key) && X509_sign(cert, key, EVP_sha256()) > 0);
	BIO *bio = BIO_new(BIO_s_mem());
	assert_int_equal(PEM_write_bio_X509(bio, cert), 1);
	put_text(bio, out);
	X509_free(cert);
}

static void make_key(EVP_PKEY *key, const char *passphrase, char out[TEXT_BYTES])
{
	BIO *bio = BIO_new(BIO_s_mem());
	assert_int_equal(PEM_write_bio_PKCS8PrivateKey(bio, key,
						       passphrase ? EVP_aes_128_cbc() : NULL, NULL,
						       0, NULL, (void *)(uintptr_t)passphrase),
			 1);
	put_text(bio, out);
}

static void make(struct made *out, EVP_PKEY *key)
{
	make_certificate(key, -DAY_S, DAY_S, out->certificate);
	make_key(key, NULL, out->key);
}

static void put(const char *name, const char *text)
{
	kh_auto_free char *path = kh_strf("%s/%s", folder, name);
	assert_true(kh_file_write(path, kh_slice_str(text), 0600, NULL));
}

static int setup(void **state)
{
	(void)state;
	memcpy(folder, "/tmp/kh-pair-XXXXXX", sizeof("/tmp/kh-pair-XXXXXX"));
	EVP_PKEY *a = EVP_EC_gen("P-256"), *b = EVP_EC_gen("P-256");
	if (!mkdtemp(folder) || !a || !b)
		return -1;
	make(&one, a);
	make(&other, b);
	make(&renewed, a);
	EVP_PKEY_free(a);
	EVP_PKEY_free(b);
	kh_log_set_level(KH_LOG_ERROR);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	static const char *const names[] = { "key", "certificate", "elsewhere" };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		kh_auto_free char *path = kh_strf("%s/%s", folder, names[i]);
		(void)unlink(path);
	}
	return rmdir(folder);
}

/* ---- the vault ---- */

static void count_stale(void *arg, const struct kh_credential_ref *want, bool whole)
{
	(void)arg;
	assert_true(whole && want->index == 0);
	n_stale++;
}

static struct kh_config *configure(const char *certificate)
{
	kh_auto_free char *yaml = kh_strf(
		"version: 1\nlisten: [ { unix: d/s, tenant: acme } ]\n"
		"credentials: { own: { value: { file: key }, mtls: { certificate: %s }, "
		"hosts: [ a.test ] } }\n"
		"tenants: { acme: { rules: [ { allow: \"https://a.test\", credential: own } ] "
		"} }\n",
		certificate);
	return config_in(folder, yaml);
}

static void begin(struct kh_vault *vault, const struct made *key, const struct made *certificate)
{
	struct kh_err err = KH_ERR_INIT;
	put("key", key->key);
	put("certificate", certificate->certificate);
	assert_true(kh_vault_open(vault, configure("certificate"), false, &err));
	vault->stale = count_stale;
	n_stale = 0;
}

static void end(struct kh_vault *vault)
{
	struct kh_config *config = vault->config;
	kh_vault_close(vault);
	kh_config_free(config);
}

/* The vault's own reference; NULL: there is none. */
static struct kh_secret *get(struct kh_vault *vault)
{
	const struct kh_credential_ref want = { 0, KH_NO_TENANT, { "", 0 } };
	struct kh_value value;
	struct kh_err err = KH_ERR_INIT;
	gone_by_ms += KH_LIMIT_FILES_LOOK_MS;
	kh_vault_turn(vault);
	const struct kh_fair_share_asker nobody = { KH_FAIR_SHARE_NOBODY, KH_NO_TENANT };
	if (kh_vault_get(vault, &want, &nobody, &value, &err) == KH_VAULT_GOT)
		return value.secret;
	assert_non_null(strstr(err.text, "client certificate can't be used"));
	assert_null(strstr(err.text, folder)); /* a sandbox reads it */
	return NULL;
}

struct search {
	const struct made *key, *certificate;
};

static bool holds(struct kh_slice packed, void *arg)
{
	const struct search *s = arg;
	size_t key = strlen(s->key->key) - 1; /* without the line's end */
	return memmem(packed.ptr, packed.len, s->key->key, key) &&
	       memmem(packed.ptr, packed.len, s->certificate->certificate,
		      strlen(s->certificate->certificate));
}

static void assert_pair(struct kh_vault *vault, const struct made *key,
			const struct made *certificate)
{
	struct search s = { key, certificate };
	struct kh_secret *secret = get(vault);
	assert_non_null(secret);
	assert_true(kh_secret_expose(secret, holds, &s));
}

static const char *why(const struct kh_vault *vault)
{
	struct kh_vault_state state;
	kh_vault_state(vault, 0, 0, &state);
	return state.why ? state.why : "";
}

static void what_does_not_belong_together_is_known_at_the_start_and_mended_by_its_file(void **state)
{
	struct kh_vault vault;
	struct kh_vault_state seen;
	(void)state;
	begin(&vault, &one, &other);
	assert_non_null(strstr(why(&vault), "do not belong together"));
	assert_non_null(strstr(why(&vault), folder));
	assert_false(kh_credential_is_present(vault.config->credentials, 0));
	kh_vault_state(&vault, 0, 0, &seen);
	assert_false(seen.ready);
	assert_null(get(&vault));
	put("certificate", one.certificate);
	assert_pair(&vault, &one, &one);
	assert_true(kh_credential_is_present(vault.config->credentials, 0));
	assert_string_equal(why(&vault), "");
	kh_vault_state(&vault, 0, 0, &seen);
	assert_true(seen.ready && seen.expires_ms > 0);
	end(&vault);
}

static void a_certificate_that_is_renewed_for_the_same_key_is_taken(void **state)
{
	struct kh_vault vault;
	(void)state;
	begin(&vault, &one, &one);
	assert_pair(&vault, &one, &one);
	put("certificate", renewed.certificate);
	assert_pair(&vault, &one, &renewed);
	assert_int_equal(n_stale, 1);
	end(&vault);
}

static void until_both_files_are_new_the_pair_before_serves(void **state)
{
	(void)state;
	for (int key_first = 0; key_first < 2; key_first++) {
		struct kh_vault vault;
		begin(&vault, &one, &one);
		struct kh_secret *before = get(&vault);
		put(key_first ? "key" : "certificate", key_first ? other.key : other.certificate);
		assert_ptr_equal(get(&vault), before);
		assert_int_equal(n_stale, 0);
		assert_non_null(strstr(why(&vault), "do not belong together"));
		put(key_first ? "certificate" : "key", key_first ? other.certificate : other.key);
		assert_pair(&vault, &other, &other);
		assert_int_equal(n_stale, 1);
		assert_string_equal(why(&vault), "");
		end(&vault);
	}
}

static void what_is_cut_off_or_gone_leaves_the_pair_before(void **state)
{
	struct kh_vault vault;
	(void)state;
	begin(&vault, &one, &one);
	struct kh_secret *before = get(&vault);
	static const char *const bad[] = { "", "-----BEGIN CERTIFICATE-----\nMII" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		put("certificate", bad[i]);
		assert_ptr_equal(get(&vault), before);
		assert_non_null(strstr(why(&vault), i == 0 ? "is empty" : "is none"));
	}
	kh_auto_free char *path = kh_strf("%s/certificate", folder);
	assert_int_equal(unlink(path), 0);
	assert_ptr_equal(get(&vault), before);
	put("certificate", one.certificate);
	assert_ptr_equal(get(&vault), before); /* the same bytes: nobody is told of anything */
	assert_string_equal(why(&vault), "");
	assert_int_equal(n_stale, 0);
	end(&vault);
}

static void reload(struct kh_vault *vault, const char *certificate)
{
	struct kh_config *before = vault->config;
	struct kh_vault next;
	struct kh_err err = KH_ERR_INIT;
	assert_true(kh_vault_reopen(&next, vault, configure(certificate), &err));
	kh_vault_adopt(vault, &next);
	kh_config_free(before);
}

static void a_reload_in_between_leaves_the_pair_before(void **state)
{
	struct kh_vault vault;
	(void)state;
	begin(&vault, &one, &one);
	assert_pair(&vault, &one, &one);
	put("key", other.key);
	reload(&vault, "certificate");
	assert_pair(&vault, &one, &one);
	assert_non_null(strstr(why(&vault), "do not belong together"));
	put("certificate", other.certificate);
	assert_pair(&vault, &other, &other);
	end(&vault);
}

static void a_reload_that_names_another_certificate_means_that_one(void **state)
{
	struct kh_vault vault;
	(void)state;
	begin(&vault, &one, &one);
	assert_pair(&vault, &one, &one);
	put("elsewhere", other.certificate);
	reload(&vault, "elsewhere");
	assert_null(get(&vault));
	put("elsewhere", renewed.certificate);
	assert_pair(&vault, &one, &renewed);
	end(&vault);
}

/* ---- what is no good ---- */

static void refuses(const char *certificate, const char *key, const char *says)
{
	struct kh_buf out;
	struct kh_err err = KH_ERR_INIT;
	uint64_t expires_ms = 0;
	kh_buf_init_wiping(&out, KH_LIMIT_SECRET_BYTES);
	assert_false(kh_identity_pack(&out, kh_slice_str(certificate), kh_slice_str(key),
				      &expires_ms, &err));
	kh_buf_fini(&out);
	if (!strstr(err.text, says))
		fail_msg("\"%s\" does not say \"%s\"", err.text, says);
}

static void each_fault_is_named(void **state)
{
	static char text[TEXT_BYTES], weak_key[TEXT_BYTES];
	EVP_PKEY *key = EVP_EC_gen("P-256"), *weak = EVP_RSA_gen(1024);
	(void)state;
	assert_non_null(weak);
	make_certificate(key, -2 * DAY_S, -DAY_S, text);
	static char plain[TEXT_BYTES], locked[TEXT_BYTES];
	make_key(key, NULL, plain);
	refuses(text, plain, "has expired, at ");
	make_certificate(key, DAY_S, 2 * DAY_S, text);
	refuses(text, plain, "is not valid before ");
	make_key(key, "word", locked);
	refuses(text, locked, "has a passphrase");
	make_key(weak, NULL, weak_key);
	make_certificate(weak, -DAY_S, DAY_S, text);
	refuses(text, weak_key, "too weak");
	refuses(text, "nothing", "its key is not a private key in PEM");
	refuses("nothing", plain, "its certificate is none");
	refuses("", plain, "there is no certificate with its key");
	EVP_PKEY_free(key);
	EVP_PKEY_free(weak);
}

static void its_end_is_told(void **state)
{
	struct kh_buf out;
	uint64_t expires_ms = 0, now_ms = (uint64_t)time(NULL) * 1000;
	(void)state;
	kh_buf_init_wiping(&out, KH_LIMIT_SECRET_BYTES);
	assert_true(kh_identity_pack(&out, kh_slice_str(one.certificate), kh_slice_str(one.key),
				     &expires_ms, NULL));
	kh_buf_fini(&out);
	assert_in_range(expires_ms, now_ms, now_ms + DAY_S * UINT64_C(1000));
}

#define T(name) cmocka_unit_test(name)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(what_does_not_belong_together_is_known_at_the_start_and_mended_by_its_file),
		T(a_certificate_that_is_renewed_for_the_same_key_is_taken),
		T(until_both_files_are_new_the_pair_before_serves),
		T(what_is_cut_off_or_gone_leaves_the_pair_before),
		T(a_reload_in_between_leaves_the_pair_before),
		T(a_reload_that_names_another_certificate_means_that_one),
		T(each_fault_is_named),
		T(its_end_is_told),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
