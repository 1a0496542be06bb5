/*
 * fuzz_encode.c - the decoders of hex and base64
 *
 * What a strict decoder takes must be the one spelling of what it gives; what a loose one gives
 * must be what a strict one gives of the proper spelling. Room is exactly what the contract asks.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/encode.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

/* On the heap, so that a byte too many is noticed. */
static unsigned char *decode(struct kh_slice text, enum kh_base64_form form, size_t *len)
{
	unsigned char *out = malloc(text.len / 4 * 3 + (form == KH_BASE64 ? 0 : 2) + 1);
	require(out != NULL);
	if (kh_base64_decode(text, form, out + 1, len))
		return out;
	free(out);
	return NULL;
}

static void check_base64(struct kh_slice text, enum kh_base64_form form)
{
	size_t len = 0, len_again = 0;
	unsigned char *bytes = decode(text, form, &len);
	if (!bytes)
		return;
	struct kh_buf again;
	struct kh_slice part = kh_slice_of(bytes + 1, len);
	kh_buf_init(&again, 2 * text.len + 8);
	require(kh_base64_put(&again, &part, 1, form));
	if (form != KH_BASE64_LOOSE)
		require(kh_slice_eq(kh_buf_view(&again), text));
	unsigned char *back = decode(kh_buf_view(&again), form, &len_again);
	require(back && len_again == len && memcmp(back + 1, bytes + 1, len) == 0);
	free(back);
	kh_buf_fini(&again);
	free(bytes);
}

static void check_hex(struct kh_slice text)
{
	size_t len = text.len / 2;
	unsigned char *bytes = malloc(len + 1);
	char *again = malloc(2 * len + 1);
	require(bytes && again);
	if (kh_hex_decode(text, bytes + 1, len)) {
		kh_hex_encode(bytes + 1, len, again);
		require(kh_slice_eq_nocase(kh_slice_str(again), text));
		require(kh_hex_is_valid(text) == kh_slice_eq(kh_slice_str(again), text));
	}
	free(bytes);
	free(again);
}

static void check_percent(struct kh_slice text)
{
	struct kh_buf out;
	kh_buf_init(&out, 3 * text.len + 1);
	require(kh_percent_encode(&out, text, ""));
	struct kh_slice escaped = kh_buf_view(&out);
	size_t at = 0;
	for (size_t i = 0; i < text.len; i++) {
		bool plain = escaped.ptr[at] != '%';
		int byte = plain ? (unsigned char)escaped.ptr[at] : kh_percent_byte(escaped, at);
		require(byte == (unsigned char)text.ptr[i]);
		at += plain ? 1 : 3;
	}
	require(at == escaped.len);
	for (size_t i = 0; i < text.len; i++)
		require(kh_percent_byte(text, i) >= -1 && kh_percent_byte(text, i) <= 0xff);
	kh_buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kh_slice text = kh_slice_of(data, size);
	check_base64(text, KH_BASE64);
	check_base64(text, KH_BASE64URL);
	check_base64(text, KH_BASE64_LOOSE);
	check_hex(text);
	check_percent(text);
	return 0;
}
