/* test_carriers.c - no authentication of the sandbox's own goes past unnoticed */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <keyhole/credential/credential.h>

static void test_fields(void **state)
{
	static const char *const carriers[] = {
		"Authorization",
		"PROXY-AUTHORIZATION",
		"cookie",
		"x-api-key",
		"X-Api-Key",
		"x_api_key",
		"api-key",
		"x-goog-api-key",
		"x-amz-security-token",
		"x-ms-copy-source-authorization",
		"private-token",
		"JOB-TOKEN",
		"x-auth-token",
		"x-github-token",
		"x-vault-token",
		"DD-API-KEY",
		"dd-application-key",
		"xi-api-key",
		"Ocp-Apim-Subscription-Key",
		"x-functions-key",
	};
	static const char *const others[] = {
		"",
		"Host",
		"Accept",
		"User-Agent",
		"anthropic-version",
		"x-api-keys",
		"x-api-ke",
		"authorizations",
		"x-request-id",
		"x-amz-date",
		"set-cookie",
		"traceparent",
		"x-stainless-lang",
		"openai-organization",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(carriers) / sizeof(*carriers); i++)
		if (!kh_carrier_is_field(kh_slice_str(carriers[i])))
			fail_msg("%s is none", carriers[i]);
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (kh_carrier_is_field(kh_slice_str(others[i])))
			fail_msg("%s is one", others[i]);
}

static void test_query_names(void **state)
{
	static const char *const carriers[] = {
		"key",
		"KEY",
		"%6bey",
		"%256bey",
		"%EF%BD%8Bey",
		"%4B%45%59",
		"api_key",
		"api-key",
		"apikey",
		"ApiKey",
		"access_token",
		"access%5ftoken",
		"access%5Ftoken",
		"token",
		"auth",
		"sig",
		"Signature",
		"X-Amz-Signature",
		"x-amz-credential",
		"X%2DAmz%2DSecurity%2DToken",
		"X-Goog-Signature",
		"[X-Amz-Signature",
		"!]%5BX-Goog-Credential]",
		"+key",
		"key+",
		"%20key%20",
		"key%00x",
		"key[]",
		"key%5B0%5D",
		"AWSAccessKeyId",
		"client_secret",
		"oauth_token",
	};
	static const char *const others[] = {
		"",
		"keys",
		"ke",
		"monkey",
		"tokens",
		"max_tokens",
		"beta",
		"alt",
		"signal",
		"q",
		"x-am",
		"author",
		"%",
		"%6",
		"key%zz",
		"[]",
		"se",
		"sv",
		"expires",
		"keykeykeykeykeykeykeykeykeykeykeykeykeykeykeykeykeykeykeykeykeykeykeykey",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(carriers) / sizeof(*carriers); i++)
		if (!kh_carrier_is_query(kh_slice_str(carriers[i])))
			fail_msg("%s is none", carriers[i]);
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (kh_carrier_is_query(kh_slice_str(others[i])))
			fail_msg("%s is one", others[i]);
}

static void strips(const char *raw, const char *wanted)
{
	struct kh_buf out;

	kh_buf_init(&out, 4096);
	assert_true(kh_buf_append_str(&out, "<"));
	assert_true(kh_carrier_strip_query(&out, kh_slice_str(raw)));
	assert_string_equal(kh_buf_cstr(&out) + 1, wanted);
	kh_buf_fini(&out);
}

static void test_a_query_without_carriers_stays_byte_for_byte(void **state)
{
	static const char *const same[] = {
		"/",
		"/a",
		"/a?",
		"/a?&",
		"/a?&&b",
		"/a?b",
		"/a?b=",
		"/a?b=c;d",
		"/a?b=%6bey",
		"/a?b=key",
		"/a/key=1",
		"/a;key=1",
		"/a?b=c?d",
		"*",
		"/a?%",
		"/a?se=1&sv=2",
		"/a?expires=1&b=2",
		"/a?beta=true&x=1;y=2&;&",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(same) / sizeof(*same); i++)
		strips(same[i], same[i]);
}

static void test_carriers_are_taken_out_of_a_query(void **state)
{
	(void)state;
	strips("/a?key=1", "/a");
	strips("/a?key", "/a");
	strips("/a?key=", "/a");
	strips("/a?KEY=1&b=2", "/a?b=2");
	strips("/a?b=2&key=1", "/a?b=2");
	strips("/a?b=2&key=1&c=3", "/a?b=2&c=3");
	strips("/a?key=1&b=2&key=3&%6b%65y=4", "/a?b=2");
	strips("/a?access_token=x&token=y&auth=z", "/a");
	strips("/a?key=1&", "/a");
	strips("/a?&key=1", "/a");
	strips("/a?key=1&&b", "/a?&b");
	strips("/a?b=%20&key=1&c=%2F;", "/a?b=%20&c=%2F;");
	strips("/a?key=a?key=b", "/a");
	strips("/a?X-Amz-Algorithm=A&X-Amz-Credential=B&list-type=2&X-Amz-Signature=C",
	       "/a?list-type=2");
}

/* A ';' parts parameters for some servers and not for others: in neither reading does one stay,
 * and no two become one. */
static void test_both_separators(void **state)
{
	(void)state;
	strips("/a?b=1;key=2", "/a?b=1");
	strips("/a?b=1;key=2&c=3", "/a?b=1&c=3");
	strips("/a?b=1&key=2;c=3", "/a?b=1&c=3");
	strips("/a?b=1;key=2;c=3", "/a?b=1;c=3");
	strips("/a?key=2;c=3", "/a?c=3");
	strips("/a?b=1;key=1&key=2;c=3", "/a?b=1&c=3");
}

static void test_companions_go_with_their_signature(void **state)
{
	(void)state;
	strips("/blob?sv=1&se=2&sp=r&sig=x&comp=list", "/blob?comp=list");
	strips("/o?Expires=1&Key-Pair-Id=2&Policy=3&Signature=4", "/o");
	strips("/o?Expires=1&b", "/o?Expires=1&b");
}

static void test_stripping_is_all_or_nothing(void **state)
{
	struct kh_buf out;

	(void)state;
	kh_buf_init(&out, 4);
	assert_true(kh_buf_append_str(&out, "x"));
	assert_false(kh_carrier_strip_query(&out, KH_SLICE("/a?key=1&bcdef")));
	assert_int_equal(kh_buf_len(&out), 1);
	kh_buf_fini(&out);
}

static void test_the_first_carrier_is_named(void **state)
{
	static struct kh_message message;
	struct kh_slice none = { NULL, 0 };

	(void)state;
	message.fields[0] = (struct kh_field){ KH_SLICE("Host"), KH_SLICE("a") };
	message.fields[1] = (struct kh_field){ KH_SLICE("X-Api-Key"), KH_SLICE("s") };
	message.n_fields = 1;
	assert_int_equal(kh_carrier_find(&message, none).len, 0);
	assert_int_equal(kh_carrier_find(&message, KH_SLICE("a=b&keys=c")).len, 0);
	assert_true(kh_slice_eq(kh_carrier_find(&message, KH_SLICE("a=b&Key=c&token")),
				KH_SLICE("Key")));
	message.n_fields = 2;
	assert_true(
		kh_slice_eq(kh_carrier_find(&message, KH_SLICE("key=c")), KH_SLICE("X-Api-Key")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_query_names),
		cmocka_unit_test(test_a_query_without_carriers_stays_byte_for_byte),
		cmocka_unit_test(test_carriers_are_taken_out_of_a_query),
		cmocka_unit_test(test_both_separators),
		cmocka_unit_test(test_companions_go_with_their_signature),
		cmocka_unit_test(test_stripping_is_all_or_nothing),
		cmocka_unit_test(test_the_first_carrier_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
