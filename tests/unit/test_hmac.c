/* test_hmac.c - templates and the HMACs that come of them; the values are RFC 4231's and RFC 2202's
 */
#include <stdio.h>
#include <stdlib.h>

#include "unit.h"

#include <keyhole/credential/hmac.h>

static struct kh_secret *secret(const char *text)
{
	struct kh_err err = KH_ERR_INIT;
	char *copy = strdup(text);

	assert_non_null(copy);
	struct kh_secret *made = kh_secret_new(copy, strlen(copy), &err);
	free(copy);
	assert_non_null(made);
	return made;
}

static struct kh_hmac_request request(const char *content)
{
	return (struct kh_hmac_request){
		.method = KH_SLICE("POST"),
		.target = KH_SLICE("/v1/orders?a=1&b=%20"),
		.host = KH_SLICE("api.example.com"),
		.content = kh_slice_str(content),
		.now_ms = 1700000000123,
		.nonce = "00112233445566778899aabbccddeeff",
	};
}

/* One field "X" of the template `field`; what it comes to. */
static void expect(struct kh_hmac_config config, const char *sign, const char *field,
		   const char *key_text, const char *content, const char *want)
{
	char sign_copy[256], field_copy[256], name[] = "X", line[512];
	struct kh_hmac_field one = { name, field_copy };
	struct kh_hmac_request asked = request(content);
	struct kh_secret *key = secret(key_text);
	struct kh_err err = KH_ERR_INIT;
	struct kh_buf out;

	(void)snprintf(sign_copy, sizeof(sign_copy), "%s", sign);
	(void)snprintf(field_copy, sizeof(field_copy), "%s", field);
	config.sign = sign_copy;
	config.fields = &one;
	config.n_fields = 1;
	assert_null(kh_hmac_config_fault(&config));
	kh_buf_init_wiping(&out, 4096);
	if (!kh_hmac_make(&out, &config, &asked, key, &err))
		fail_msg("%s", err.text);
	(void)snprintf(line, sizeof(line), "X: %s\r\n", want);
	assert_string_equal(kh_buf_cstr(&out), line);
	kh_buf_fini(&out);
	kh_secret_unref(key);
}

static void test_each_algorithm_key_and_encoding_is_as_its_rfc_has_it(void **state)
{
	const struct kh_hmac_config plain = { .key = KH_HMAC_PLAIN };
	struct kh_hmac_config other = plain;
	static const char text[] = "what do ya want for nothing?";

	(void)state;
	expect(plain, "{body}", "sha256={signature}", "Jefe", text,
	       "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
	other.key = KH_HMAC_HEX;
	expect(other, "{body}", "{signature}", "4a656665", text,
	       "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
	other.key = KH_HMAC_BASE64;
	expect(other, "what do ya want for nothing?", "{signature}", "SmVmZQ==", "",
	       "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
	expect(other, "{body}", "{signature}", "SmVmZQ", text,
	       "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
	other = plain;
	other.encoding = KH_HMAC_BASE64;
	expect(other, "{body}", "{signature}", "Jefe", text,
	       "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM=");
	other = plain;
	other.algorithm = KH_HMAC_SHA1;
	expect(other, "{body}", "{signature}", "Jefe", text,
	       "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
	other.algorithm = KH_HMAC_SHA384;
	expect(other, "{body}", "{signature}", "Jefe", text,
	       "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e8e2240ca5e69e2c7"
	       "8b3239ecfab21649");
	other.algorithm = KH_HMAC_SHA512;
	expect(other, "{body}", "{signature}", "Jefe", text,
	       "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a"
	       "6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737");
}

static void test_each_word_stands_for_its_part_of_the_request(void **state)
{
	struct kh_hmac_config config = { .key = KH_HMAC_PLAIN };
	static const char all[] =
		"{timestamp} {nonce} {body_sha256} {body_sha256_base64} {signature}";

	(void)state;
	expect(config, "{method}\n{target}\n{path}?{query}\n{host}\n{timestamp}{nonce}{body}", all,
	       "key", "abc",
	       "1700000000 00112233445566778899aabbccddeeff "
	       "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad "
	       "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0= "
	       "374c026fd3162fa7a37d62d0d610125611ec7129a4b3b47f44cdf2bdb1e5628d");
}

static void test_times_are_written_as_asked_for(void **state)
{
	struct kh_hmac_config config = { .key = KH_HMAC_PLAIN, .encoding = KH_HMAC_HEX };
	static const struct {
		enum kh_hmac_time form;
		const char *want;
	} rows[] = {
		{ KH_HMAC_SECONDS, "1700000000" },
		{ KH_HMAC_MILLISECONDS, "1700000000123" },
		{ KH_HMAC_HTTP_DATE, "Tue, 14 Nov 2023 22:13:20 GMT" },
		{ KH_HMAC_ISO_8601, "2023-11-14T22:13:20.123Z" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char want[128];

		config.timestamp = rows[i].form;
		(void)snprintf(
			want, sizeof(want),
			"%s 5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
			rows[i].want);
		expect(config, "{body}", "{timestamp} {signature}", "Jefe",
		       "what do ya want for nothing?", want);
	}
}

static void test_a_template_is_one_or_says_what_it_lacks(void **state)
{
	static const struct {
		const char *text;
		bool is_field;
		const char *why; /* NULL: good */
	} rows[] = {
		{ "{method}\n{path}", false, NULL },
		{ "t={timestamp},v1={signature}", true, NULL },
		{ "my-key-id", true, NULL },
		{ "", false, "1 to 1024" },
		{ "{methd}", false, "{ begins one of" },
		{ "{method", false, "{ begins one of" },
		{ "{body}", true, "can't be used in a field" },
		{ "{signature}", false, "can be used only in a field" },
		{ "a\r\nb", false, "printable" },
		{ "a\nb", true, "printable" },
		{ " a", true, "blank" },
		{ "\xc3\xa4", true, "printable" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const char *why = kh_hmac_template_fault(rows[i].text, rows[i].is_field);

		if (!rows[i].why)
			assert_null(why);
		else if (!why || !strstr(why, rows[i].why))
			fail_msg("%s: %s", rows[i].text, why ? why : "good");
	}
}

static void test_a_key_that_is_none_is_an_error_that_does_not_show_it(void **state)
{
	static const struct {
		enum kh_hmac_text form;
		const char *key;
	} rows[] = {
		{ KH_HMAC_HEX, "abcdefgh" },
		{ KH_HMAC_HEX, "abc" },
		{ KH_HMAC_BASE64, "a#cd" },
		{ KH_HMAC_BASE64, "abcde" },
	};
	char sign[] = "{body}", name[] = "X", text[] = "{signature}";
	struct kh_hmac_field field = { name, text };

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct kh_hmac_config config = {
			.key = rows[i].form, .sign = sign, .fields = &field, .n_fields = 1
		};
		struct kh_hmac_request asked = request("x");
		struct kh_secret *key = secret(rows[i].key);
		struct kh_err err = KH_ERR_INIT;
		struct kh_buf out;

		kh_buf_init_wiping(&out, 4096);
		assert_false(kh_hmac_make(&out, &config, &asked, key, &err));
		assert_int_equal(err.code, KH_ERR_CREDENTIAL_UNAVAILABLE);
		assert_null(strstr(err.text, rows[i].key));
		assert_int_equal(kh_buf_len(&out), 0);
		kh_buf_fini(&out);
		kh_secret_unref(key);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_algorithm_key_and_encoding_is_as_its_rfc_has_it),
		cmocka_unit_test(test_each_word_stands_for_its_part_of_the_request),
		cmocka_unit_test(test_times_are_written_as_asked_for),
		cmocka_unit_test(test_a_template_is_one_or_says_what_it_lacks),
		cmocka_unit_test(test_a_key_that_is_none_is_an_error_that_does_not_show_it),
	};

	kh_secret_prepare();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
