/* test_re_sign_chunks.c - chunks and trailers that are signed by themselves */
#include "re_sign_request.h"

static const char plain_seed[] = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9";

static const char trailer_seed[] =
	"106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e";

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"

static struct kh_chunk_signer *signer(enum kh_re_sign_payload payload, const char *seed)
{
	struct kh_re_sign re_sign = { .payload = payload, .time = "20130524T000000Z" };
	struct kh_secret *keys = example_keys();

	assert_true(kh_sigv4_scope_parse(&re_sign.scope, KH_SLICE("20130524/us-east-1/s3")));
	struct kh_chunk_signer *s = kh_chunk_signer_new(&re_sign, seed, keys);
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
static void check_chunks(enum kh_re_sign_payload payload, const char *seed, struct kh_buf *in,
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
	assert_int_equal(kh_chunk_signer_take_signatures(s),
			 payload == KH_RE_SIGN_CHUNKS_TRAILER ? 4 : 3);
	assert_int_equal(kh_chunk_signer_take_signatures(s), 0);
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
		check_chunks(KH_RE_SIGN_CHUNKS, plain_seed, &in, &want, steps[i]);
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
	check_chunks(KH_RE_SIGN_CHUNKS_TRAILER, trailer_seed, &in, &want, 1 << 20);
	check_chunks(KH_RE_SIGN_CHUNKS_TRAILER, trailer_seed, &in, &want, 3);
	kh_buf_fini(&in);
	kh_buf_fini(&want);
}

static void expect_bad_chunks(enum kh_re_sign_payload payload, const char *text, const char *what,
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
		{ HEAD("0") "\r\nGET / HTTP/1.1", "after its end" },
		{ HEAD("0") "a:b\r\n\r\n", "does not say so" },
		{ "5;chunk-signature=\rx", "without its LF" },
		{ "", "before its last chunk" },
	};
	char *long_line = malloc(1024);

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		expect_bad_chunks(KH_RE_SIGN_CHUNKS, rows[i].text, rows[i].what,
				  KH_ERR_REQUEST_MALFORMED);
	expect_bad_chunks(KH_RE_SIGN_CHUNKS_TRAILER, HEAD("0") "a:b\r\n\r\n",
			  "no x-amz-trailer-signature", KH_ERR_REQUEST_MALFORMED);
	expect_bad_chunks(KH_RE_SIGN_CHUNKS_TRAILER, HEAD("0") "a\r\n", "is none",
			  KH_ERR_REQUEST_MALFORMED);
	expect_bad_chunks(KH_RE_SIGN_CHUNKS_TRAILER,
			  HEAD("0") "a:b\nc:d\r\nx-amz-trailer-signature:" ZEROS "\r\n\r\n",
			  "is none", KH_ERR_REQUEST_MALFORMED);
	expect_bad_chunks(KH_RE_SIGN_CHUNKS_TRAILER,
			  HEAD("0") "x-amz-trailer-signature:" ZEROS "\r\na:b\r\n\r\n",
			  "does not say so", KH_ERR_REQUEST_MALFORMED);
	expect_bad_chunks(KH_RE_SIGN_CHUNKS, HEAD("100001"), "make smaller ones",
			  KH_ERR_CONTENT_TOO_LARGE);
	assert_non_null(long_line);
	memset(long_line, '1', 1023);
	long_line[1023] = '\0';
	expect_bad_chunks(KH_RE_SIGN_CHUNKS, long_line, "too long", KH_ERR_REQUEST_MALFORMED);
	free(long_line);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chunks_come_out_as_the_reference_has_them),
		cmocka_unit_test(test_a_trailer_comes_out_as_the_reference_has_it),
		cmocka_unit_test(test_chunks_that_are_none_are_refused),
	};

	kh_secret_prepare();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
