/* test_re_sign.c - a request that its client has signed is signed anew, as the reference does it */
#include "re_sign_request.h"

static const char empty_hash[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

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
		.now_ms = UINT64_C(1369353600000) /* 2013-05-24 */,
	};

	r.message.method = kh_slice_str(method);
	return r;
}

static void field(struct request *r, const char *name, const char *value)
{
	r->message.fields[r->message.n_fields++] =
		(struct kh_field){ kh_slice_str(name), kh_slice_str(value) };
}

static bool read_it(const struct request *r, struct kh_re_sign *out, struct kh_err *err)
{
	*err = (struct kh_err)KH_ERR_INIT;
	return kh_re_sign_read(out, &r->config, &r->message, r->raw, r->host, r->now_ms, err);
}

/* As the proxy does: what is forwarded, and Host. */
static void make(const struct request *r, const struct kh_re_sign *re_sign, struct kh_secret *keys,
		 struct kh_re_signed *out)
{
	struct kh_field fields[KH_LIMIT_FIELDS];
	struct kh_err err = KH_ERR_INIT;
	size_t n = 0;

	fields[n++] = (struct kh_field){ KH_SLICE("Host"), r->host };
	for (size_t i = 0; i < r->message.n_fields; i++)
		if (!kh_carrier_is_field(r->message.fields[i].name) &&
		    !kh_re_sign_replaces(r->message.fields[i].name))
			fields[n++] = r->message.fields[i];
	const struct kh_re_sign_head head = { r->message.method, r->raw, fields, n };
	kh_re_signed_init(out);
	if (!kh_re_sign_make(out, re_sign, &head, keys, &err))
		fail_msg("%s", err.text);
}

#define OLD_SIGNATURE "Signature=0000000000000000000000000000000000000000000000000000000000000000"
#define SCOPE "Credential=AKIAPLACEHOLDER/20130524/us-east-1/s3/aws4_request"

static void expect_seed(const struct request *r, const char *seed)
{
	struct kh_re_sign re_sign;
	struct kh_re_signed out;
	struct kh_err err;
	struct kh_secret *keys = example_keys();

	if (!read_it(r, &re_sign, &err))
		fail_msg("%s", err.text);
	make(r, &re_sign, keys, &out);
	assert_string_equal(out.seed, seed);
	kh_re_signed_fini(&out);
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
	struct kh_re_sign re_sign;
	struct kh_re_signed out;
	struct kh_err err;
	struct kh_secret *keys = example_keys();

	(void)state;
	assert_true(read_it(&r, &re_sign, &err));
	assert_int_equal(re_sign.form, KH_RE_SIGN_QUERY);
	make(&r, &re_sign, keys, &out);
	assert_slice_equal(kh_buf_view(&out.target),
			   "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential="
			   "AKIAIOSFODNN7EXAMPLE%2F"
			   "20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-"
			   "Amz-Expires="
			   "86400&X-Amz-SignedHeaders=host&X-Amz-Signature="
			   "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404");
	assert_int_equal(kh_buf_len(&out.fields), 0);
	kh_re_signed_fini(&out);
	kh_secret_unref(keys);
}

static void test_nothing_of_the_clients_signature_stays(void **state)
{
	struct request r = request("PUT",
				   "/k?x-amz-acl=private&X-Amz-Credential=MINE&key=1&x-id=Put;X%"
				   "2dAmz-Signature=ab&token=t&q",
				   "b.s3.us-east-1.amazonaws.com");
	struct kh_re_sign re_sign;
	struct kh_re_signed out;
	struct kh_err err;
	struct kh_secret *keys =
		pack("{" KEYS ",\"SessionToken\":\"their+token/=\"}", "20130524/us-east-1/s3");

	(void)state;
	field(&r, "X-Amz-Security-Token", "MINE");
	field(&r, "Date", "Fri, 24 May 2013 00:00:00 GMT");
	field(&r, "X-Amz-Date", "20130524T000000Z");
	field(&r, "X-Amz-Meta-Colour", "a   b");
	assert_true(read_it(&r, &re_sign, &err));
	make(&r, &re_sign, keys, &out);
	assert_slice_equal(kh_buf_view(&out.target), "/k?x-amz-acl=private&x-id=Put&q");
	const char *fields = kh_buf_cstr(&out.fields);
	assert_null(strstr(fields, "MINE"));
	assert_non_null(strstr(fields, "X-Amz-Security-Token: their+token/=\r\n"));
	assert_non_null(strstr(fields, "X-Amz-Date: 20130524T000000Z\r\n"));
	assert_non_null(strstr(fields, empty_hash));
	assert_non_null(strstr(fields, "SignedHeaders=host;x-amz-content-sha256;x-amz-date;"
				       "x-amz-meta-colour;x-amz-security-token, Signature="));
	kh_re_signed_fini(&out);
	kh_secret_unref(keys);
}

static void test_a_signature_goes_in_every_spelling_of_its_name(void **state)
{
	static const char *const spellings[] = {
		"x_amz_signature",
		"X.Amz.Signature",
		"x%2damz%2dsignature",
		"x-amz-%2573ignature",
		"+x-amz-signature",
		"x-amz-signature%00x",
		"x-amz-security-token[]",
		"x_amz_credential",
		"x-%EF%BD%81mz-credential",
		/* Kept as the service's own only as it is written. */
		"x%2damz-meta-token",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(spellings) / sizeof(*spellings); i++)
		if (!kh_re_sign_drops_parameter(kh_slice_str(spellings[i])))
			fail_msg("%s stays", spellings[i]);
	assert_true(kh_re_sign_drops_parameter(KH_SLICE("X_Amz_Security_Token")));
	assert_false(kh_re_sign_drops_parameter(KH_SLICE("x-amz-acl")));
	assert_true(kh_re_sign_replaces(KH_SLICE("X_Amz_Security_Token")));
	assert_true(kh_re_sign_replaces(KH_SLICE("x-amz_date")));
	assert_false(kh_re_sign_replaces(KH_SLICE("x-amz-date-of-birth")));
}

static void expect_refused(const struct request *r, enum kh_err_code code, const char *what)
{
	struct kh_re_sign re_sign;
	struct kh_err err;

	assert_false(read_it(r, &re_sign, &err));
	assert_int_equal(err.code, code);
	if (!strstr(err.text, what))
		fail_msg("%s", err.text);
}

static void test_a_client_chooses_only_what_its_host_serves(void **state)
{
	struct request r = request("GET", "/", "b.s3.us-east-1.amazonaws.com");
	struct kh_re_sign re_sign;
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
	assert_true(read_it(&r, &re_sign, &err));
	assert_string_equal(re_sign.scope.service, "s3");
	assert_string_equal(re_sign.scope.region, "us-east-1");
	r.message.fields[0].value = KH_SLICE("Bearer x");
	assert_true(read_it(&r, &re_sign, &err));

	/* another host: the configuration says it, whatever the client does */
	r = request("GET", "/", "minio.example.com");
	field(&r, "authorization",
	      "AWS4-HMAC-SHA256 Credential=A/20130524/us-east-1/s3/aws4_request");
	expect_refused(&r, KH_ERR_CREDENTIAL_BINDING, "minio.example.com");
	char region[] = "auto", service[] = "s3";
	r.config.service = service;
	expect_refused(&r, KH_ERR_CREDENTIAL_BINDING, "the region");
	r.config.region = region;
	assert_true(read_it(&r, &re_sign, &err));
	assert_string_equal(re_sign.scope.region, "auto");

	/* a host without a region, and a client that does not say it */
	r = request("GET", "/", "iam.amazonaws.com");
	expect_refused(&r, KH_ERR_CREDENTIAL_BINDING, "no region");
}

static void test_what_stands_for_the_content_is_one_of_the_known(void **state)
{
	static const struct {
		const char *value;
		enum kh_re_sign_payload payload;
	} rows[] = {
		{ "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		  KH_RE_SIGN_CLAIMED },
		{ "UNSIGNED-PAYLOAD", KH_RE_SIGN_UNSIGNED },
		{ "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", KH_RE_SIGN_CHUNKS },
		{ "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", KH_RE_SIGN_CHUNKS_TRAILER },
		{ "STREAMING-UNSIGNED-PAYLOAD-TRAILER", KH_RE_SIGN_UNSIGNED_TRAILER },
	};
	struct kh_re_sign re_sign;
	struct kh_err err;
	struct request r = request("PUT", "/k", "b.s3.us-east-1.amazonaws.com");

	(void)state;
	r.message.framing = KH_FRAMING_LENGTH;
	r.message.content_length = 5;
	assert_true(read_it(&r, &re_sign, &err));
	assert_int_equal(re_sign.payload, KH_RE_SIGN_HASHED);
	assert_true(kh_re_sign_wants_content(&re_sign));
	r.message.content_length = 0;
	assert_true(read_it(&r, &re_sign, &err));
	assert_int_equal(re_sign.payload, KH_RE_SIGN_EMPTY);
	assert_false(kh_re_sign_wants_content(&re_sign));
	r.message.framing = KH_FRAMING_CHUNKED;
	assert_true(read_it(&r, &re_sign, &err));
	assert_int_equal(re_sign.payload, KH_RE_SIGN_HASHED);
	field(&r, "X-Amz-Content-Sha256", "");
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		r.message.fields[0].value = kh_slice_str(rows[i].value);
		assert_true(read_it(&r, &re_sign, &err));
		assert_int_equal(re_sign.payload, rows[i].payload);
		assert_false(kh_re_sign_wants_content(&re_sign));
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
	struct kh_re_sign re_sign;
	struct kh_err err;
	struct request r =
		request("GET", URL("20130523T235900Z", "30"), "b.s3.us-east-1.amazonaws.com");

	(void)state;
	assert_true(read_it(&r, &re_sign, &err));
	assert_int_equal(re_sign.expires_s, 30);
	r.raw = KH_SLICE(URL("20130523T235900Z", "99999999"));
	assert_true(read_it(&r, &re_sign, &err));
	assert_int_equal(re_sign.expires_s, 604800);
	r.raw = KH_SLICE(URL("20130522T000000Z", "3600"));
	expect_refused(&r, KH_ERR_CREDENTIAL_BINDING, "expired");
	r.raw = KH_SLICE(URL("20130523T235900Z", "0"));
	expect_refused(&r, KH_ERR_REQUEST_MALFORMED, "X-Amz-Expires");
	r.raw = KH_SLICE(URL("20130523T235900Z", "-1"));
	expect_refused(&r, KH_ERR_REQUEST_MALFORMED, "X-Amz-Expires");
	r.raw = KH_SLICE(URL("20139923T235900Z", "1"));
	expect_refused(&r, KH_ERR_REQUEST_MALFORMED, "X-Amz-Date");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_examples_of_the_reference_come_out_as_it_has_them),
		cmocka_unit_test(test_a_presigned_url_comes_out_as_the_reference_has_it),
		cmocka_unit_test(test_nothing_of_the_clients_signature_stays),
		cmocka_unit_test(test_a_signature_goes_in_every_spelling_of_its_name),
		cmocka_unit_test(test_a_client_chooses_only_what_its_host_serves),
		cmocka_unit_test(test_what_stands_for_the_content_is_one_of_the_known),
		cmocka_unit_test(test_a_presigned_url_lasts_no_longer_than_it_should),
	};

	kh_secret_prepare();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
