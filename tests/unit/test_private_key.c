/* test_private_key.c - which private keys are decoded, and that none makes OpenSSL compute for long
 */
#include <keyhole/tls/private_key.h>

#include <string.h>

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include "unit.h"

enum { ROOM = 16384, MODULUS = 256 };

struct der {
	uint8_t bytes[ROOM];
	size_t len;
};

/* An element behind those that are there: `len` bytes of content. */
static void put(struct der *der, uint8_t tag, const void *content, size_t len)
{
	assert_true(der->len + len + 4 <= ROOM);
	der->bytes[der->len++] = tag;
	der->bytes[der->len++] = 0x82;
	der->bytes[der->len++] = (uint8_t)(len >> 8);
	der->bytes[der->len++] = (uint8_t)len;
	if (len > 0)
		memcpy(der->bytes + der->len, content, len);
	der->len += len;
}

/* A positive INTEGER of so many bytes, odd. */
static void put_number(struct der *der, size_t len)
{
	static uint8_t number[ROOM];

	memset(number, 0x5b, sizeof(number));
	put(der, 2, number, len);
}

static void put_zero(struct der *der)
{
	put(der, 2, "", 1);
}

static const char *to_pem(const char *label, const struct der *inner)
{
	static char text[2 * ROOM];
	static struct der whole;
	char *bytes;

	whole.len = 0;
	put(&whole, 0x30, inner->bytes, inner->len);
	BIO *bio = BIO_new(BIO_s_mem());
	assert_true(PEM_write_bio(bio, label, "", whole.bytes, (long)whole.len) > 0);
	long n = BIO_get_mem_data(bio, &bytes);
	assert_true(n > 0 && (size_t)n < sizeof(text));
	memcpy(text, bytes, (size_t)n);
	text[n] = '\0';
	BIO_free(bio);
	return text;
}

static void refuses(const char *pem, const char *says)
{
	const char *why = "";

	assert_null(kh_private_key_read(kh_slice_str(pem), &why));
	if (!strstr(why, says))
		fail_msg("\"%s\" does not say \"%s\"", why, says);
	assert_int_equal(ERR_peek_error(), 0);
}

static void takes(const char *pem, const char *kind)
{
	const char *why;
	EVP_PKEY *key = kh_private_key_read(kh_slice_str(pem), &why);

	if (!key)
		fail_msg("%s: %s", kind, why);
	assert_true(EVP_PKEY_is_a(key, kind));
	EVP_PKEY_free(key);
}

/* ---- what is taken ---- */

static const char *written(EVP_PKEY *key, bool traditional, const char *passphrase)
{
	static char text[ROOM];
	char *bytes;
	BIO *bio = BIO_new(BIO_s_mem());
	const EVP_CIPHER *cipher = passphrase ? EVP_aes_128_cbc() : NULL;
	int len = passphrase ? (int)strlen(passphrase) : 0;
	const unsigned char *word = (const unsigned char *)passphrase;

	int ok = traditional ? PEM_write_bio_PrivateKey_traditional(bio, key, cipher, word, len,
								    NULL, NULL)
			     : PEM_write_bio_PKCS8PrivateKey(bio, key, cipher, passphrase, len,
							     NULL, NULL);
	assert_int_equal(ok, 1);
	long n = BIO_get_mem_data(bio, &bytes);
	assert_true(n > 0 && (size_t)n < sizeof(text));
	memcpy(text, bytes, (size_t)n);
	text[n] = '\0';
	BIO_free(bio);
	return text;
}

static void keys_that_tls_uses_are_taken_in_each_form(void **state)
{
	EVP_PKEY *rsa = EVP_RSA_gen(2048), *ec = EVP_EC_gen("P-256");
	EVP_PKEY *ed = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");

	(void)state;
	takes(written(rsa, false, NULL), "RSA");
	takes(written(rsa, true, NULL), "RSA");
	takes(written(ec, false, NULL), "EC");
	takes(written(ec, true, NULL), "EC");
	takes(written(ed, false, NULL), "ED25519");
	EVP_PKEY_free(rsa);
	EVP_PKEY_free(ec);
	EVP_PKEY_free(ed);
}

static void what_stands_before_the_key_is_no_matter(void **state)
{
	char text[2 * ROOM];
	EVP_PKEY *ec = EVP_EC_gen("P-256");

	(void)state;
	(void)snprintf(
		text, sizeof(text),
		"a line\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
		"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
		"%s",
		written(ec, true, NULL));
	takes(text, "EC");
	EVP_PKEY_free(ec);
}

/* ---- what is not ---- */

static void a_passphrase_is_asked_of_nobody(void **state)
{
	EVP_PKEY *ec = EVP_EC_gen("P-256");

	(void)state;
	refuses(written(ec, false, "word"), "has a passphrase");
	refuses(written(ec, true, "word"), "has a passphrase");
	EVP_PKEY_free(ec);
}

static void what_is_no_key_is_named(void **state)
{
	(void)state;
	refuses("", "not a private key in PEM");
	refuses("nothing", "not a private key in PEM");
	refuses("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
		"not a private key in PEM");
}

/* OpenSSL computes g^x mod p as it decodes: with numbers of 150,000 bits, for hours. */
static void put_dsa(struct der *der, size_t bytes)
{
	static const uint8_t oid[] = { 0x2a, 0x86, 0x48, 0xce, 0x38, 0x04, 0x01 };
	static struct der numbers, kind, secret;

	numbers.len = kind.len = secret.len = der->len = 0;
	for (int i = 0; i < 3; i++)
		put_number(&numbers, bytes);
	put(&kind, 6, oid, sizeof(oid));
	put(&kind, 0x30, numbers.bytes, numbers.len);
	put_number(&secret, bytes);
	put_zero(der);
	put(der, 0x30, kind.bytes, kind.len);
	put(der, 4, secret.bytes, secret.len);
}

static void other_kinds_are_not_decoded_whatever_their_label_says(void **state)
{
	static struct der dsa;

	(void)state;
	put_dsa(&dsa, 1000);
	refuses(to_pem("PRIVATE KEY", &dsa), "of another kind");
	refuses(to_pem("RSA PRIVATE KEY", &dsa), "of another kind");
	refuses(to_pem("EC PRIVATE KEY", &dsa), "of another kind");
	refuses(to_pem("DSA PRIVATE KEY", &dsa), "of another kind");
	refuses(to_pem("ANY PRIVATE KEY", &dsa), "of another kind");
	put_dsa(&dsa, 3000);
	refuses(to_pem("PRIVATE KEY", &dsa), "of another kind");
}

/* The numbers of an RSA key; one of them longer than the modulus. */
static void put_rsa(struct der *der, size_t modulus, int which, size_t bytes)
{
	der->len = 0;
	put_zero(der);
	for (int i = 0; i < 8; i++)
		put_number(der, i == which ? bytes : i == 0 ? modulus : i < 3 ? 3 : modulus / 2);
}

static void no_number_of_an_rsa_key_is_longer_than_its_modulus(void **state)
{
	static struct der rsa;

	(void)state;
	put_rsa(&rsa, MODULUS, -1, 0);
	takes(to_pem("RSA PRIVATE KEY", &rsa), "RSA");
	for (int i = 1; i < 8; i++) {
		put_rsa(&rsa, MODULUS, i, i == 2 ? MODULUS + 1 : MODULUS / 2 + 2);
		refuses(to_pem("RSA PRIVATE KEY", &rsa), "too long");
	}
	put_rsa(&rsa, 1025, -1, 0);
	refuses(to_pem("RSA PRIVATE KEY", &rsa), "too long");
}

/* OpenSSL multiplies a point by a number of any length, if the curve's order allows it. */
static void a_curve_has_a_name(void **state)
{
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, NULL);
	EVP_PKEY *key = NULL;

	(void)state;
	assert_int_equal(EVP_PKEY_keygen_init(ctx), 1);
	assert_int_equal(EVP_PKEY_CTX_set_ec_paramgen_curve_nid(ctx, NID_X9_62_prime256v1), 1);
	assert_int_equal(EVP_PKEY_CTX_set_ec_param_enc(ctx, OPENSSL_EC_EXPLICIT_CURVE), 1);
	assert_int_equal(EVP_PKEY_keygen(ctx, &key), 1);
	refuses(written(key, false, NULL), "too long");
	refuses(written(key, true, NULL), "too long");
	EVP_PKEY_free(key);
	EVP_PKEY_CTX_free(ctx);
	key = EVP_EC_gen("P-521");
	takes(written(key, false, NULL), "EC");
	takes(written(key, true, NULL), "EC");
	EVP_PKEY_free(key);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_that_tls_uses_are_taken_in_each_form),
		cmocka_unit_test(what_stands_before_the_key_is_no_matter),
		cmocka_unit_test(a_passphrase_is_asked_of_nobody),
		cmocka_unit_test(what_is_no_key_is_named),
		cmocka_unit_test(other_kinds_are_not_decoded_whatever_their_label_says),
		cmocka_unit_test(no_number_of_an_rsa_key_is_longer_than_its_modulus),
		cmocka_unit_test(a_curve_has_a_name),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
