/*
 * test_resign.c - a request that its client signed with a stand-in, signed anew
 *
 * The examples with fixed signatures are those of the S3 API Reference ("Authenticating Requests").
 * That any other request is signed as AWS checks it is for tests/integration, whose verifier is of
 * its own.
 */
#include <stdio.h>
#include <stdlib.h>

#include "unit.h"

#include <keyhole/credential.h>
#include <keyhole/resign.h>
#include <keyhole/target.h>

static const char id[] = "AKIAIOSFODNN7EXAMPLE";
static const char secret_key[] = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
static const char empty_hash[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

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

/* ---- the keys ---- */

static struct kh_secret *pack(const char *value, const char *scope_text)
{
	struct kh_sigv4_scope scope;
	struct kh_err err = KH_ERR_INIT;
	struct kh_buf packed;
	uint64_t expires;

	assert_true(kh_sigv4_scope_parse(&scope, kh_slice_str(scope_text)));
	kh_buf_init_wiping(&packed, KH_LIMIT_SECRET_BYTES);
	if (!kh_sigv4_pack(&packed, kh_slice_str(value), &scope, &expires, &err))
		fail_msg("%s", err.text);
	struct kh_secret *secret =
		kh_secret_new(packed.data + packed.head, kh_buf_len(&packed), &err);
	assert_non_null(secret);
	kh_buf_fini(&packed);
	return secret;
}

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

#define KEYS \
	"\"AccessKeyId\":\"AKIAIOSFODNN7EXAMPLE\",\"SecretAccessKey\":" \
	"\"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\""

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
		"{" KEYS ",\"Expiration\":\"2026-11-22T13:00:00+02:00\"}",
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

/* ---- requests ---- */

struct request {
	struct kh_message message;
	struct kh_slice raw, host;
	struct kh_sigv4_config config;
	uint64_t now_ms;
};

static struct request request(const char *method, const char *raw, const char *host)
{
	struct request r = {
		.raw = kh_slice_str(raw),
		.host = kh_slice_str(host),
		.now_ms = kh_sigv4_time_parse(KH_SLICE("20130524T000000Z")),
	};

	r.message.method = kh_slice_str(method);
	return r;
}

static void field(struct request *r, const char *name, const char *value)
{
	r->message.fields[r->message.n_fields++] =
		(struct kh_field){ kh_slice_str(name), kh_slice_str(value) };
}

static bool read_it(const struct request *r, struct kh_resign *out, struct kh_err *err)
{
	*err = (struct kh_err)KH_ERR_INIT;
	return kh_resign_read(out, &r->config, &r->message, r->raw, r->host, r->now_ms, err);
}

/* As the proxy does: what is forwarded, and Host. */
static void make(const struct request *r, const struct kh_resign *resign, struct kh_secret *keys,
		 struct kh_resigned *out)
{
	struct kh_field fields[KH_LIMIT_FIELDS];
	struct kh_err err = KH_ERR_INIT;
	size_t n = 0;

	fields[n++] = (struct kh_field){ KH_SLICE("Host"), r->host };
	for (size_t i = 0; i < r->message.n_fields; i++)
		if (!kh_carrier_is_field(r->message.fields[i].name) &&
		    !kh_resign_replaces(r->message.fields[i].name))
			fields[n++] = r->message.fields[i];
	const struct kh_resign_head head = { r->message.method, r->raw, fields, n };
	kh_resigned_init(out);
	if (!kh_resign_make(out, resign, &head, keys, &err))
		fail_msg("%s", err.text);
}

static struct kh_secret *example_keys(void)
{
	return pack("AKIAIOSFODNN7EXAMPLE\nwJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\n",
		    "20130524/us-east-1/s3");
}

#define OLD_SIGNATURE "Signature=0000000000000000000000000000000000000000000000000000000000000000"
#define SCOPE "Credential=AKIAPLACEHOLDER/20130524/us-east-1/s3/aws4_request"

static void expect_seed(const struct request *r, const char *seed)
{
	struct kh_resign resign;
	struct kh_resigned out;
	struct kh_err err;
	struct kh_secret *keys = example_keys();

	if (!read_it(r, &resign, &err))
		fail_msg("%s", err.text);
	make(r, &resign, keys, &out);
	assert_string_equal(out.seed, seed);
	kh_resigned_fini(&out);
	kh_secret_unref(keys);
}

static void test_the_examples_of_the_reference_come_out_as_it_has_them(void **state)
{
	struct request r = request("GET", "/test.txt", "examplebucket.s3.amazonaws.com");

	(void)state;
	field(&r, "Authorization",
	      "AWS4-HMAC-SHA256 " SCOPE
	      ",SignedHeaders=host;range;x-amz-content-sha256;x-amz-date," OLD_SIGNATURE);
	field(&r, "Range", "bytes=0-9");
	field(&r, "x-amz-content-sha256", empty_hash);
	field(&r, "x-amz-date", "20130523T120000Z");
	expect_seed(&r, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");

	r = request("GET", "/?lifecycle", "examplebucket.s3.amazonaws.com");
	field(&r, "Authorization",
	      "AWS4-HMAC-SHA256 " SCOPE
	      ", SignedHeaders=host;x-amz-content-sha256;x-amz-date, " OLD_SIGNATURE);
	field(&r, "x-amz-content-sha256", empty_hash);
	expect_seed(&r, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");

	r = request("GET", "/?max-keys=2&prefix=J", "examplebucket.s3.amazonaws.com");
	field(&r, "authorization", "AWS4-HMAC-SHA256 " SCOPE);
	expect_seed(&r, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

static void test_a_presigned_url_comes_out_as_the_reference_has_it(void **state)
{
	struct request r = request(
		"GET",
		"/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAPLACEHOLDER%"
		"2F20130524%2F"
		"us-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&"
		"X-Amz-SignedHeaders=host&X-Amz-Security-Token=theirs&X-Amz-Signature=00",
		"examplebucket.s3.amazonaws.com");
	struct kh_resign resign;
	struct kh_resigned out;
	struct kh_err err;
	struct kh_secret *keys = example_keys();

	(void)state;
	assert_true(read_it(&r, &resign, &err));
	assert_int_equal(resign.form, KH_RESIGN_QUERY);
	make(&r, &resign, keys, &out);
	assert_slice_equal(kh_buf_view(&out.target),
			   "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential="
			   "AKIAIOSFODNN7EXAMPLE%2F"
			   "20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-"
			   "Amz-Expires="
			   "86400&X-Amz-SignedHeaders=host&X-Amz-Signature="
			   "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404");
	assert_int_equal(kh_buf_len(&out.fields), 0);
	kh_resigned_fini(&out);
	kh_secret_unref(keys);
}

static void test_nothing_of_the_clients_signature_stays(void **state)
{
	struct request r = request("PUT",
				   "/k?x-amz-acl=private&X-Amz-Credential=MINE&key=1&x-id=Put;X%"
				   "2dAmz-Signature=ab&token=t&q",
				   "b.s3.us-east-1.amazonaws.com");
	struct kh_resign resign;
	struct kh_resigned out;
	struct kh_err err;
	struct kh_secret *keys =
		pack("{" KEYS ",\"SessionToken\":\"their+token/=\"}", "20130524/us-east-1/s3");

	(void)state;
	field(&r, "X-Amz-Security-Token", "MINE");
	field(&r, "Date", "Fri, 24 May 2013 00:00:00 GMT");
	field(&r, "X-Amz-Date", "20130524T000000Z");
	field(&r, "X-Amz-Meta-Colour", "a   b");
	assert_true(read_it(&r, &resign, &err));
	make(&r, &resign, keys, &out);
	assert_slice_equal(kh_buf_view(&out.target), "/k?x-amz-acl=private&x-id=Put&q");
	const char *fields = kh_buf_cstr(&out.fields);
	assert_null(strstr(fields, "MINE"));
	assert_non_null(strstr(fields, "X-Amz-Security-Token: their+token/=\r\n"));
	assert_non_null(strstr(fields, "X-Amz-Date: 20130524T000000Z\r\n"));
	assert_non_null(strstr(fields, empty_hash));
	assert_non_null(strstr(fields, "SignedHeaders=host;x-amz-content-sha256;x-amz-date;"
				       "x-amz-meta-colour;x-amz-security-token, Signature="));
	kh_resigned_fini(&out);
	kh_secret_unref(keys);
}

static void expect_refused(const struct request *r, enum kh_err_code code, const char *what)
{
	struct kh_resign resign;
	struct kh_err err;

	assert_false(read_it(r, &resign, &err));
	assert_int_equal(err.code, code);
	if (!strstr(err.text, what))
		fail_msg("%s", err.text);
}

static void test_a_client_chooses_only_what_its_host_serves(void **state)
{
	struct request r = request("GET", "/", "b.s3.us-east-1.amazonaws.com");
	struct kh_resign resign;
	struct kh_err err;

	(void)state;
	field(&r, "authorization",
	      "AWS4-HMAC-SHA256 Credential=A/20130524/us-east-1/iam/aws4_request");
	expect_refused(&r, KH_ERR_CREDENTIAL_BINDING, "iam in us-east-1");
	r.message.fields[0].value =
		KH_SLICE("AWS4-HMAC-SHA256 Credential=A/20130524/eu-west-1/s3/aws4_request");
	expect_refused(&r, KH_ERR_CREDENTIAL_BINDING, "s3 in eu-west-1");
	r.message.fields[0].value =
		KH_SLICE("AWS4-ECDSA-P256-SHA256 Credential=A/1/s3/aws4_request");
	expect_refused(&r, KH_ERR_CREDENTIAL_BINDING, "4A");

	/* what can't be read is as if it were not there: then the host says it */
	r.message.fields[0].value =
		KH_SLICE("AWS4-HMAC-SHA256 Credential=A/20130524/../s3/aws4_request");
	assert_true(read_it(&r, &resign, &err));
	assert_string_equal(resign.scope.service, "s3");
	assert_string_equal(resign.scope.region, "us-east-1");
	r.message.fields[0].value = KH_SLICE("Bearer x");
	assert_true(read_it(&r, &resign, &err));

	/* another host: the configuration says it, whatever the client does */
	r = request("GET", "/", "minio.example.com");
	field(&r, "authorization",
	      "AWS4-HMAC-SHA256 Credential=A/20130524/us-east-1/s3/aws4_request");
	expect_refused(&r, KH_ERR_CREDENTIAL_BINDING, "minio.example.com");
	char region[] = "auto", service[] = "s3";
	r.config.service = service;
	expect_refused(&r, KH_ERR_CREDENTIAL_BINDING, "the region");
	r.config.region = region;
	assert_true(read_it(&r, &resign, &err));
	assert_string_equal(resign.scope.region, "auto");

	/* a host without a region, and a client that does not say it */
	r = request("GET", "/", "iam.amazonaws.com");
	expect_refused(&r, KH_ERR_CREDENTIAL_BINDING, "no region");
}

static void test_what_stands_for_the_content_is_one_of_the_known(void **state)
{
	static const struct {
		const char *value;
		enum kh_resign_payload payload;
	} rows[] = {
		{ "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		  KH_RESIGN_CLAIMED },
		{ "UNSIGNED-PAYLOAD", KH_RESIGN_UNSIGNED },
		{ "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", KH_RESIGN_CHUNKS },
		{ "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", KH_RESIGN_CHUNKS_TRAILER },
		{ "STREAMING-UNSIGNED-PAYLOAD-TRAILER", KH_RESIGN_UNSIGNED_TRAILER },
	};
	struct kh_resign resign;
	struct kh_err err;
	struct request r = request("PUT", "/k", "b.s3.us-east-1.amazonaws.com");

	(void)state;
	r.message.framing = KH_FRAMING_LENGTH;
	r.message.content_length = 5;
	assert_true(read_it(&r, &resign, &err));
	assert_int_equal(resign.payload, KH_RESIGN_HASHED);
	assert_true(kh_resign_wants_content(&resign));
	r.message.content_length = 0;
	assert_true(read_it(&r, &resign, &err));
	assert_int_equal(resign.payload, KH_RESIGN_EMPTY);
	assert_false(kh_resign_wants_content(&resign));
	r.message.framing = KH_FRAMING_CHUNKED;
	assert_true(read_it(&r, &resign, &err));
	assert_int_equal(resign.payload, KH_RESIGN_HASHED);
	field(&r, "X-Amz-Content-Sha256", "");
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		r.message.fields[0].value = kh_slice_str(rows[i].value);
		assert_true(read_it(&r, &resign, &err));
		assert_int_equal(resign.payload, rows[i].payload);
		assert_false(kh_resign_wants_content(&resign));
	}
	r.message.fields[0].value = KH_SLICE("STREAMING-AWS4-HMAC-SHA256-EVENTS");
	expect_refused(&r, KH_ERR_REQUEST_MALFORMED, "STREAMING-AWS4-HMAC-SHA256-EVENTS");
	r.message.fields[0].value = KH_SLICE("abc");
	expect_refused(&r, KH_ERR_REQUEST_MALFORMED, "expected a SHA-256");
	r.message.framing = KH_FRAMING_NONE;
	r.message.fields[0].value = KH_SLICE("STREAMING-AWS4-HMAC-SHA256-PAYLOAD");
	expect_refused(&r, KH_ERR_REQUEST_MALFORMED, "no content");
	field(&r, "x-amz-content-sha256", "UNSIGNED-PAYLOAD");
	expect_refused(&r, KH_ERR_REQUEST_MALFORMED, "more than once");
}

static void test_a_presigned_url_lasts_no_longer_than_it_should(void **state)
{
#define URL(date, expires) \
	"/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=A%2F20130524%2Fus-east-1%2Fs3%2F" \
	"aws4_request&X-Amz-SignedHeaders=host&X-Amz-Date=" date "&X-Amz-Expires=" expires
	struct kh_resign resign;
	struct kh_err err;
	struct request r =
		request("GET", URL("20130523T235900Z", "30"), "b.s3.us-east-1.amazonaws.com");

	(void)state;
	assert_true(read_it(&r, &resign, &err));
	assert_int_equal(resign.expires_s, 30);
	r.raw = KH_SLICE(URL("20130523T235900Z", "99999999"));
	assert_true(read_it(&r, &resign, &err));
	assert_int_equal(resign.expires_s, 604800);
	r.raw = KH_SLICE(URL("20130522T000000Z", "3600"));
	expect_refused(&r, KH_ERR_CREDENTIAL_BINDING, "expired");
	r.raw = KH_SLICE(URL("20130523T235900Z", "0"));
	expect_refused(&r, KH_ERR_REQUEST_MALFORMED, "X-Amz-Expires");
	r.raw = KH_SLICE(URL("20130523T235900Z", "-1"));
	expect_refused(&r, KH_ERR_REQUEST_MALFORMED, "X-Amz-Expires");
	r.raw = KH_SLICE(URL("20139923T235900Z", "1"));
	expect_refused(&r, KH_ERR_REQUEST_MALFORMED, "X-Amz-Date");
}

/* ---- chunks ---- */

static const char plain_seed[] = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9";
static const char trailer_seed[] =
	"106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e";
#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"

static struct kh_chunk_signer *signer(enum kh_resign_payload payload, const char *seed)
{
	struct kh_resign resign = { .payload = payload, .time = "20130524T000000Z" };
	struct kh_secret *keys = example_keys();

	assert_true(kh_sigv4_scope_parse(&resign.scope, KH_SLICE("20130524/us-east-1/s3")));
	struct kh_chunk_signer *s = kh_chunk_signer_new(&resign, seed, keys);
	assert_non_null(s);
	kh_secret_unref(keys);
	return s;
}

/* The reference's object: 65 KiB of 'a' in chunks of 64 KiB and 1 KiB. */
static void put_example(struct kh_buf *out, const char *one, const char *two, const char *last,
			const char *trailer)
{
	char *room;

	kh_buf_init(out, 256 * 1024);
	kh_buf_printf(out, "10000;chunk-signature=%s\r\n", one);
	room = kh_buf_reserve(out, 65536);
	memset(room, 'a', 65536);
	kh_buf_commit(out, 65536);
	kh_buf_printf(out, "\r\n400;chunk-signature=%s\r\n", two);
	room = kh_buf_reserve(out, 1024);
	memset(room, 'a', 1024);
	kh_buf_commit(out, 1024);
	kh_buf_printf(out, "\r\n0;chunk-signature=%s\r\n%s\r\n", last, trailer);
}

/* Fed in pieces of `step` bytes. */
static void check_chunks(enum kh_resign_payload payload, const char *seed, struct kh_buf *in,
			 struct kh_buf *want, size_t step)
{
	struct kh_chunk_signer *s = signer(payload, seed);
	struct kh_slice bytes = kh_buf_view(in);
	struct kh_err err = KH_ERR_INIT;
	struct kh_buf out;

	kh_buf_init(&out, 256 * 1024);
	for (size_t at = 0; at < bytes.len; at += step) {
		assert_false(kh_chunk_signer_end(s, NULL));
		if (!kh_chunk_signer_feed(s, kh_slice_sub(bytes, at, at + step), &out, &err))
			fail_msg("%s", err.text);
	}
	assert_true(kh_chunk_signer_end(s, &err));
	assert_int_equal(kh_chunk_signer_held(s), 0);
	assert_int_equal(kh_buf_len(&out), kh_buf_len(want));
	assert_memory_equal(out.data, want->data, kh_buf_len(want));
	kh_buf_fini(&out);
	kh_chunk_signer_free(s);
}

static void test_chunks_come_out_as_the_reference_has_them(void **state)
{
	static const size_t steps[] = { 1, 7, 1000, 1 << 20 };
	struct kh_buf in, want;

	(void)state;
	put_example(&in, ZEROS, ZEROS, ZEROS, "");
	put_example(&want, "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
		    "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
		    "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9", "");
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++)
		check_chunks(KH_RESIGN_CHUNKS, plain_seed, &in, &want, steps[i]);
	kh_buf_fini(&in);
	kh_buf_fini(&want);
}

static void test_a_trailer_comes_out_as_the_reference_has_it(void **state)
{
	struct kh_buf in, want;

	(void)state;
	put_example(&in, ZEROS, ZEROS, ZEROS,
		    "x-amz-checksum-crc32c:sOO8/Q==\r\nx-amz-trailer-signature:" ZEROS "\r\n");
	put_example(&want, "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
		    "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
		    "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
		    "x-amz-checksum-crc32c:sOO8/Q==\r\nx-amz-trailer-signature:"
		    "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n");
	check_chunks(KH_RESIGN_CHUNKS_TRAILER, trailer_seed, &in, &want, 1 << 20);
	check_chunks(KH_RESIGN_CHUNKS_TRAILER, trailer_seed, &in, &want, 3);
	kh_buf_fini(&in);
	kh_buf_fini(&want);
}

static void expect_bad_chunks(enum kh_resign_payload payload, const char *text, const char *what,
			      enum kh_err_code code)
{
	struct kh_chunk_signer *s = signer(payload, plain_seed);
	struct kh_err err = KH_ERR_INIT;
	struct kh_buf out;

	kh_buf_init(&out, 64 * 1024);
	assert_false(kh_chunk_signer_feed(s, kh_slice_str(text), &out, &err) &&
		     kh_chunk_signer_end(s, &err));
	assert_int_equal(err.code, code);
	if (!strstr(err.text, what))
		fail_msg("%s: %s", text, err.text);
	kh_buf_fini(&out);
	kh_chunk_signer_free(s);
}

static void test_chunks_that_are_none_are_refused(void **state)
{
#define HEAD(size) size ";chunk-signature=" ZEROS "\r\n"
	static const struct {
		const char *text, *what;
	} rows[] = {
		{ "5\r\nhello\r\n0\r\n\r\n", "no chunk-signature" },
		{ ";chunk-signature=" ZEROS "\r\n", "no size" },
		{ HEAD("g"), "no number" },
		{ HEAD("000000001"), "too many digits" },
		{ "5;chunk-signature=00\r\n", "no chunk-signature" },
		{ "5;x=1;chunk-signature=" ZEROS "\r\n", "no chunk-signature" },
		{ HEAD("5") "hello, world", "longer than it says" },
		{ HEAD("5") "hello\r\n" HEAD("0"), "before its last chunk" },
		{ HEAD("5") "hel", "before its last chunk" },
		{ HEAD("0") "\r\nGET / HTTP/1.1", "behind its end" },
		{ HEAD("0") "a:b\r\n\r\n", "does not say so" },
		{ "5;chunk-signature=\rx", "without its LF" },
		{ "", "before its last chunk" },
	};
	char *long_line = malloc(1024);

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		expect_bad_chunks(KH_RESIGN_CHUNKS, rows[i].text, rows[i].what,
				  KH_ERR_REQUEST_MALFORMED);
	expect_bad_chunks(KH_RESIGN_CHUNKS_TRAILER, HEAD("0") "a:b\r\n\r\n",
			  "no x-amz-trailer-signature", KH_ERR_REQUEST_MALFORMED);
	expect_bad_chunks(KH_RESIGN_CHUNKS_TRAILER, HEAD("0") "a\r\n", "is none",
			  KH_ERR_REQUEST_MALFORMED);
	expect_bad_chunks(KH_RESIGN_CHUNKS_TRAILER,
			  HEAD("0") "a:b\nc:d\r\nx-amz-trailer-signature:" ZEROS "\r\n\r\n",
			  "is none", KH_ERR_REQUEST_MALFORMED);
	expect_bad_chunks(KH_RESIGN_CHUNKS_TRAILER,
			  HEAD("0") "x-amz-trailer-signature:" ZEROS "\r\na:b\r\n\r\n",
			  "does not say so", KH_ERR_REQUEST_MALFORMED);
	expect_bad_chunks(KH_RESIGN_CHUNKS, HEAD("100001"), "make smaller ones",
			  KH_ERR_CONTENT_TOO_LARGE);
	assert_non_null(long_line);
	memset(long_line, '1', 1023);
	long_line[1023] = '\0';
	expect_bad_chunks(KH_RESIGN_CHUNKS, long_line, "too long", KH_ERR_REQUEST_MALFORMED);
	free(long_line);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_host_says_its_service_and_region),
		cmocka_unit_test(test_a_host_takes_its_own_service_and_no_other),
		cmocka_unit_test(test_the_forms_in_which_aws_gives_keys_are_taken),
		cmocka_unit_test(test_keys_that_are_none_are_refused_and_not_shown),
		cmocka_unit_test(test_the_examples_of_the_reference_come_out_as_it_has_them),
		cmocka_unit_test(test_a_presigned_url_comes_out_as_the_reference_has_it),
		cmocka_unit_test(test_nothing_of_the_clients_signature_stays),
		cmocka_unit_test(test_a_client_chooses_only_what_its_host_serves),
		cmocka_unit_test(test_what_stands_for_the_content_is_one_of_the_known),
		cmocka_unit_test(test_a_presigned_url_lasts_no_longer_than_it_should),
		cmocka_unit_test(test_chunks_come_out_as_the_reference_has_them),
		cmocka_unit_test(test_a_trailer_comes_out_as_the_reference_has_it),
		cmocka_unit_test(test_chunks_that_are_none_are_refused),
	};

	kh_secret_prepare();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
