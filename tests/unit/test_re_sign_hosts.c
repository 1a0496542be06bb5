/* test_re_sign_hosts.c - which service and region a host is, and the keys that sign for it */
#include "re_sign_request.h"

static const char id[] = "AKIAIOSFODNN7EXAMPLE";
static const char secret_key[] = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

/* ---- hosts ---- */

static void test_a_host_says_its_service_and_region(void **state)
{
	static const struct {
		const char *host, *service, *region;
	} rows[] = {
		{ "s3.eu-west-1.amazonaws.com", "s3", "eu-west-1" },
		{ "my.bucket.s3.eu-west-1.amazonaws.com", "s3", "eu-west-1" },
		{ "lambda.s3.eu-west-1.amazonaws.com", "s3", "eu-west-1" },
		{ "us-east-1.s3.eu-west-1.amazonaws.com", "s3", "eu-west-1" },
		{ "bucket.s3.dualstack.us-west-2.amazonaws.com", "s3", "us-west-2" },
		{ "bucket.s3-fips.us-gov-west-1.amazonaws.com", "s3", "us-gov-west-1" },
		{ "s3-us-west-2.amazonaws.com", "s3", "us-west-2" },
		{ "bucket.s3.amazonaws.com", "s3", "" },
		{ "bucket.s3-accelerate.amazonaws.com", "s3", "" },
		{ "bucket.s3-accelerate.dualstack.amazonaws.com", "s3", "" },
		{ "123456789012.s3-control.us-east-1.amazonaws.com", "s3", "us-east-1" },
		{ "x.s3-outposts.us-east-1.amazonaws.com", "s3-outposts", "us-east-1" },
		{ "bedrock-runtime.us-east-1.amazonaws.com", "bedrock", "us-east-1" },
		{ "bedrock-runtime-fips.us-east-1.amazonaws.com", "bedrock", "us-east-1" },
		{ "bedrock-runtime.us-east-1.api.aws", "bedrock", "us-east-1" },
		{ "dynamodb.eusc-de-east-1.amazonaws.eu", "dynamodb", "eusc-de-east-1" },
		{ "dynamodb-fips.us-east-2.amazonaws.com", "dynamodb", "us-east-2" },
		{ "streams.dynamodb.us-east-2.amazonaws.com", "dynamodb", "us-east-2" },
		{ "api.ecr.ap-southeast-3.amazonaws.com", "ecr", "ap-southeast-3" },
		{ "search-logs-x.us-east-1.es.amazonaws.com", "es", "us-east-1" },
		{ "x.us-east-1.aoss.amazonaws.com", "aoss", "us-east-1" },
		{ "abc.execute-api.eu-central-1.amazonaws.com", "execute-api", "eu-central-1" },
		{ "abc.lambda-url.eu-central-1.on.aws", "lambda", "eu-central-1" },
		{ "email.us-east-1.amazonaws.com", "ses", "us-east-1" },
		{ "sts.amazonaws.com", "sts", "" },
		{ "iam.amazonaws.com", "iam", "" },
		{ "ec2.cn-north-1.amazonaws.com.cn", "ec2", "cn-north-1" },
		{ "vpce-1.sqs.us-east-1.vpce.amazonaws.com", "sqs", "us-east-1" },
		{ "s3.example.com", "", "" },
		{ "amazonaws.com", "", "" },
		{ "s3.us-east-1.amazonaws.com.example.com", "", "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct kh_slice host = kh_slice_str(rows[i].host);
		struct kh_slice service = kh_sigv4_host_service(host),
				region = kh_sigv4_host_region(host);

		if (!kh_slice_eq(service, kh_slice_str(rows[i].service)) ||
		    !kh_slice_eq(region, kh_slice_str(rows[i].region)))
			fail_msg("%s: service \"%.*s\", region \"%.*s\"", rows[i].host,
				 KH_FMT(service), KH_FMT(region));
		assert_int_equal(kh_sigv4_host_is_known(host), rows[i].service[0] != '\0');
		assert_int_equal(kh_sigv4_host_fits_service(host, service), service.len > 0);
	}
}

static bool fits(const char *host, const char *region, const char *service)
{
	return kh_sigv4_host_fits_service(kh_slice_str(host), kh_slice_str(service)) &&
	       kh_sigv4_host_fits_region(kh_slice_str(host), kh_slice_str(region));
}

static void test_a_host_takes_its_own_service_and_no_other(void **state)
{
	(void)state;
	assert_true(fits("data.iot.us-east-1.amazonaws.com", "us-east-1", "iotdata"));
	assert_true(fits("iot.us-east-1.amazonaws.com", "us-east-1", "iot"));
	assert_true(fits("s3.amazonaws.com", "eu-west-3", "s3"));
	assert_false(fits("lambda.s3.eu-west-1.amazonaws.com", "eu-west-1", "lambda"));
	assert_false(fits("s3.eu-west-1.amazonaws.com", "eu-west-1", "iam"));
	assert_false(fits("s3.eu-west-1.amazonaws.com", "us-east-1", "s3"));
	assert_false(fits("s3.example.com", "us-east-1", "s3"));
	assert_false(fits("s3.eu-west-1.amazonaws.com", "eu-west-1", ""));
	assert_false(fits("amazonaws.com", "eu-west-1", "amazonaws"));
}

static void test_no_beginning_of_a_label_is_a_service(void **state)
{
	static const struct {
		const char *host, *service;
	} bad[] = {
		{ "x.vpc-lattice-svcs.eu-west-1.on.aws", "vpc-lattice" },
		{ "x.vpc-lattice-svcs.eu-west-1.on.aws", "vpc" },
		{ "x.s3-object-lambda.eu-west-1.amazonaws.com", "s3" },
		{ "x.s3-outposts.eu-west-1.amazonaws.com", "s3" },
		{ "abc.execute-api.eu-west-1.amazonaws.com", "execute" },
		{ "redshift-serverless.eu-west-1.amazonaws.com", "redshift" },
		{ "s3-fips-x.eu-west-1.amazonaws.com", "s3" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (fits(bad[i].host, "eu-west-1", bad[i].service))
			fail_msg("%s is signed for %s", bad[i].host, bad[i].service);
	assert_true(fits("x.vpc-lattice-svcs.eu-west-1.on.aws", "eu-west-1", "vpc-lattice-svcs"));
	assert_true(fits("b.s3-object-lambda.eu-west-1.amazonaws.com", "eu-west-1",
			 "s3-object-lambda"));
	assert_true(fits("bedrock-agent-runtime.eu-west-1.amazonaws.com", "eu-west-1", "bedrock"));
	assert_true(fits("email-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1", "ses"));
}

/* ---- the keys ---- */

static bool packs(const char *value, uint64_t *expires, struct kh_err *err)
{
	struct kh_sigv4_scope scope;
	struct kh_buf packed;
	struct kh_sigv4_keys keys;

	assert_true(kh_sigv4_scope_parse(&scope, KH_SLICE("20130524/us-east-1/s3")));
	kh_buf_init_wiping(&packed, KH_LIMIT_SECRET_BYTES);
	*err = (struct kh_err)KH_ERR_INIT;
	bool ok = kh_sigv4_pack(&packed, kh_slice_str(value), &scope, expires, err);
	if (ok) {
		assert_true(kh_sigv4_unpack(&keys, kh_buf_view(&packed)));
		assert_true(kh_slice_eq(keys.id, kh_slice_str(id)));
		assert_int_equal(keys.key.len, 32);
		assert_null(memmem(packed.data, packed.tail, secret_key, strlen(secret_key)));
	} else {
		assert_null(strstr(err->text, "wJalr"));
	}
	kh_buf_fini(&packed);
	return ok;
}

static void test_the_forms_in_which_aws_gives_keys_are_taken(void **state)
{
	uint64_t expires;
	struct kh_err err;

	(void)state;
	assert_true(packs("AKIAIOSFODNN7EXAMPLE\nwJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\n",
			  &expires, &err));
	assert_int_equal(expires, 0);
	assert_true(packs("AKIAIOSFODNN7EXAMPLE\nwJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\ntok",
			  &expires, &err));
	assert_true(packs("{\"Version\":1," KEYS "}\n", &expires, &err));
	assert_int_equal(expires, 0);
	assert_true(packs("{\"Version\":1," KEYS ",\"SessionToken\":\"t\",\"Expiration\":"
			  "\"2026-11-22T13:00:00+00:00\"}",
			  &expires, &err));
	assert_int_equal(expires, 1795352400000);
	assert_true(packs("{\"RoleArn\":\"arn\"," KEYS ",\"Token\":\"t\",\"Expiration\":"
			  "\"2026-11-22T13:00:00.123Z\"}",
			  &expires, &err));
	assert_int_equal(expires, 1795352400000);
	assert_true(packs("{\"Credentials\":{" KEYS ",\"SessionToken\":\"t\"}}", &expires, &err));
}

static void test_keys_that_are_none_are_refused_and_not_shown(void **state)
{
	static const char *const bad[] = {
		"",
		"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
		"{" KEYS,
		"{\"AccessKeyId\":\"AKIA\"}",
		"{\"SecretAccessKey\":\"wJalrXUtnFEMI\"}",
		"{\"AccessKeyId\":5,\"SecretAccessKey\":\"wJalrXUtnFEMI\"}",
		"{\"AccessKeyId\":\"\",\"SecretAccessKey\":\"wJalrXUtnFEMI\"}",
		"{\"AccessKeyId\":\"A/B\",\"SecretAccessKey\":\"wJalrXUtnFEMI\"}",
		"{\"AccessKeyId\":\"A\\r\\nB\",\"SecretAccessKey\":\"wJalrXUtnFEMI\"}",
		"{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"wJalr XUtnFEMI\"}",
		"{" KEYS ",\"Expiration\":\"tomorrow\"}",
		"{" KEYS ",\"Expiration\":\"2026-11-22T13:00:00\"}",
		"{" KEYS ",\"SessionToken\":\"a\\nb\"}",
		"A\nwJalrXUtnFEMI\ntoken\nmore",
	};
	uint64_t expires;
	struct kh_err err;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		if (packs(bad[i], &expires, &err))
			fail_msg("%s was taken", bad[i]);
		assert_int_equal(err.code, KH_ERR_CREDENTIAL_UNAVAILABLE);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_host_says_its_service_and_region),
		cmocka_unit_test(test_a_host_takes_its_own_service_and_no_other),
		cmocka_unit_test(test_no_beginning_of_a_label_is_a_service),
		cmocka_unit_test(test_the_forms_in_which_aws_gives_keys_are_taken),
		cmocka_unit_test(test_keys_that_are_none_are_refused_and_not_shown),
	};

	kh_secret_prepare();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
