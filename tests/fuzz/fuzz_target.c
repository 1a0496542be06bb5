/*
 * fuzz_target.c - request targets
 *
 * What was taken is in its normal form for good, climbs in no decoding, and is sent as it came.
 */
#include <stdlib.h>

#include <keyhole/base/limits.h>
#include <keyhole/base/path.h>
#include <keyhole/http/target.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition) \
	do { \
		if (!(condition)) \
			abort(); \
	} while (0)

/* Decodes every escape in place. Return: whether there was one. */
static bool decode_once(char *text, size_t *len)
{
	size_t to = 0;
	bool any = false;

	for (size_t i = 0; i < *len; i++) {
		int high = *len - i > 2 ? kh_hex_value(text[i + 1]) : -1;
		int low = *len - i > 2 ? kh_hex_value(text[i + 2]) : -1;

		if (text[i] == '%' && high >= 0 && low >= 0) {
			text[to++] = (char)(high << 4 | low);
			i += 2;
			any = true;
		} else {
			text[to++] = text[i];
		}
	}
	*len = to;
	return any;
}

/* "." or "..", with or without parameters, between separators of any kind. */
static void check_no_dot_segment(const char *text, size_t len)
{
	size_t start = 0;

	for (size_t i = 0; i <= len; i++) {
		if (i < len && text[i] != '/' && text[i] != '\\')
			continue;
		size_t end = start;
		while (end < i && text[end] != ';')
			end++;
		CHECK(!(end - start == 1 && text[start] == '.'));
		CHECK(!(end - start == 2 && text[start] == '.' && text[start + 1] == '.'));
		start = i + 1;
	}
}

static void check_path(struct kh_slice path)
{
	struct kh_buf again;
	struct kh_err err = KH_ERR_INIT;

	kh_buf_init(&again, 1024 << 10);
	CHECK(kh_path_normalise(path, &again, &err));
	CHECK(kh_slice_eq(kh_buf_view(&again), path));
	kh_buf_fini(&again);

	char *text = malloc(path.len);
	size_t len = path.len;
	CHECK(text && len > 0);
	memcpy(text, path.ptr, len);
	do
		check_no_dot_segment(text, len);
	while (decode_once(text, &len));
	free(text);
}

static void check_bytes(struct kh_slice s)
{
	for (size_t i = 0; i < s.len; i++)
		CHECK(s.ptr[i] > ' ' && s.ptr[i] < 0x7f && s.ptr[i] != '#');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_target target;

	if (size == 0)
		return 0;
	struct kh_slice method = data[0] & 1 ? KH_SLICE("OPTIONS") : KH_SLICE("GET");
	struct kh_slice text = kh_slice_of(data + 1, size - 1);
	bool ok = kh_target_parse(&target, method, text, &err);

	if (!ok) {
		/* A path past the cap of a request line is out of memory, not malformed. */
		CHECK(err.code == KH_ERR_REQUEST_MALFORMED || text.len > KH_LIMIT_LINE_BYTES);
		CHECK(err.text[0]);
	} else if (kh_slice_eq(target.path, KH_SLICE("*"))) {
		CHECK(data[0] & 1);
	} else {
		check_bytes(target.raw);
		check_path(target.path);
		CHECK(target.raw.ptr[0] == '/' && target.path.len <= target.raw_path.len);
		/* "http://a?b" is sent as "/?b", and "http://a" as "/". */
		struct kh_slice behind = kh_slice_sub(target.raw, 1, target.raw.len);
		CHECK(kh_slice_has_suffix(text, target.raw) || target.raw.len == 1 ||
		      (target.absolute && behind.ptr[0] == '?' &&
		       kh_slice_has_suffix(text, behind)));
		CHECK(!target.path_slashed.ptr || target.path_slashed.len < target.path.len);
		CHECK(target.absolute == (target.scheme != KH_SCHEME_NONE));
		CHECK(!target.absolute || (target.authority.host.len > 0 && target.authority.port));
	}
	kh_target_fini(&target);
	return 0;
}
