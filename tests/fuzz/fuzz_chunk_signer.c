/*
 * fuzz_chunk_signer.c - signed chunks: as long as they came, nothing but signatures changed
 *
 * The first byte says whether a trailer was announced, and where the content is cut into two.
 */
#include <stdlib.h>
#include <string.h>

#include <keyhole/credential/re_sign.h>

#include "sigv4_keys.h"

#define CHECK(condition) \
	do { \
		if (!(condition)) \
			abort(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct kh_secret *keys(void)
{
	return sigv4_keys(KH_SLICE("ID\nSECRET\n"));
}

/* What differs stands where a signature does: behind '=' or ':', 64 digits long. */
static void check_same(struct kh_slice in, struct kh_slice out)
{
	for (size_t i = 0; i < out.len; i++) {
		if (in.ptr[i] == out.ptr[i])
			continue;
		size_t start = i;

		while (start > 0 && kh_hex_value(out.ptr[start - 1]) >= 0)
			start--;
		CHECK(start > 0 && (out.ptr[start - 1] == '=' || out.ptr[start - 1] == ':'));
		CHECK(start + 64 <= out.len);
		for (size_t at = start; at < start + 64; at++)
			CHECK(kh_hex_value(in.ptr[at]) >= 0 && kh_hex_value(out.ptr[at]) >= 0);
		CHECK(i < start + 64);
		i = start + 63;
	}
}

static bool run(bool trailer, struct kh_slice in, size_t cut, struct kh_buf *out)
{
	static const char seed[] =
		"4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9";
	struct kh_re_sign re_sign = {
		.payload = trailer ? KH_RE_SIGN_CHUNKS_TRAILER : KH_RE_SIGN_CHUNKS,
		.time = "20130524T000000Z",
		.scope = { "20130524", "us-east-1", "s3" },
	};
	struct kh_chunk_signer *s = kh_chunk_signer_new(&re_sign, seed, keys());
	struct kh_err err = KH_ERR_INIT;

	CHECK(s);
	bool ok = kh_chunk_signer_feed(s, kh_slice_sub(in, 0, cut), out, &err) &&
		  kh_chunk_signer_feed(s, kh_slice_sub(in, cut, in.len), out, &err);
	CHECK(ok == (err.code == KH_ERR_NONE));
	if (ok)
		CHECK(kh_buf_len(out) + kh_chunk_signer_held(s) <= in.len);
	CHECK(kh_buf_len(out) <= in.len);
	ok = ok && kh_chunk_signer_end(s, NULL);
	kh_chunk_signer_free(s);
	if (ok)
		CHECK(kh_buf_len(out) == in.len);
	return ok;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	struct kh_slice in = kh_slice_of(data + 1, size - 1);
	bool trailer = data[0] & 1;
	struct kh_buf whole, parts;

	kh_buf_init(&whole, 8 << 20);
	kh_buf_init(&parts, 8 << 20);
	bool a = run(trailer, in, in.len, &whole);
	bool b = run(trailer, in, in.len * (data[0] >> 1) / 128, &parts);
	CHECK(a == b);
	CHECK(kh_slice_eq(kh_buf_view(&whole), kh_buf_view(&parts)));
	check_same(in, kh_buf_view(&whole));
	kh_buf_fini(&whole);
	kh_buf_fini(&parts);
	return 0;
}
