/* encode.h - the only place that encodes hex, base64, base32 (RFC 4648) and percent-encoding (RFC
 * 3986) */
#ifndef KEYHOLE_BASE_ENCODE_H
#define KEYHOLE_BASE_ENCODE_H

#include <stdbool.h>
#include <stddef.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/slice.h>

/*
 * Nothing here runs in constant time; secret.h compares in constant time. If the input is a secret,
 * the output goes only to the caller's memory, which must be a wiping buffer or an array that the
 * caller wipes.
 */

/* The digits by their value, with a terminating NUL. kh_hex_digits and kh_base32_digits are in
 * lower case. */
extern const char kh_hex_digits[16 + 1];
extern const char kh_hex_digits_upper[16 + 1];
extern const char kh_base32_digits[32 + 1];
extern const char kh_base64_digits[64 + 1];
extern const char kh_base64url_digits[64 + 1];

/* ---- hex ---- */

/* Writes 2 * len lower-case digits and a NUL. */
void kh_hex_encode(const void *bytes, size_t len, char *out);
/* Decodes digits of either case into `len` bytes. Return: false: `text` is not 2 * len digits; then
 * `out` must not be used. */
bool kh_hex_decode(struct kh_slice text, void *out, size_t len);
/* Is it lower-case hex digits and nothing else? */
bool kh_hex_is_valid(struct kh_slice text);

/* ---- base64 ---- */

enum kh_base64_form {
	KH_BASE64,	/* RFC 4648 section 4, padded */
	KH_BASE64URL,	/* section 5, without padding */
	KH_BASE64_LOOSE /* decoding only: digits of both alphabets; padding, and bits that are left
			   over at the end, are ignored. For keys that people type. */
};

/* How many characters `len` bytes take in KH_BASE64, without a NUL. */
#define KH_BASE64_LEN(len) (((len) + 2) / 3 * 4)
/* Writes KH_BASE64_LEN(len) characters of KH_BASE64 and a NUL. */
void kh_base64_encode(const void *bytes, size_t len, char *out);
/* Appends the encoding of the parts joined together ("user", ":", "password"), without a copy of
 * the joined text in memory. Return: false as kh_buf_append. */
bool kh_base64_put(struct kh_buf *out, const struct kh_slice *parts, size_t n,
		   enum kh_base64_form form);
/* The value of a digit of either alphabet, 0 to 63; -1: not a digit. */
int kh_base64_value(char c);
/* Decodes into `out`, which has room for text.len / 4 * 3 + 2 bytes (KH_BASE64: without the 2).
 * Except with KH_BASE64_LOOSE, only the one canonical spelling is accepted. An empty text gives 0
 * bytes. Return: false: the text is not in this form. */
bool kh_base64_decode(struct kh_slice text, enum kh_base64_form form, void *out, size_t *len);

/* ---- percent-encoding ---- */

/* RFC 3986 section 2.3. */
static inline bool kh_is_unreserved(char c)
{
	return kh_is_alpha(c) || kh_is_digit(c) || c == '-' || c == '.' || c == '_' || c == '~';
}

/* Writes "%2F" and the like. */
static inline void kh_percent_escape(unsigned char byte, char out[3])
{
	out[0] = '%';
	out[1] = kh_hex_digits_upper[byte >> 4];
	out[2] = kh_hex_digits_upper[byte & 15];
}

/* Appends the text; bytes that are unreserved or in `keep` stay as they are. Return: false as
 * kh_buf_append, but a part may have been appended. */
bool kh_percent_encode(struct kh_buf *out, struct kh_slice text, const char *keep);

/* The byte that the escape at `at` stands for; the '%' itself is not checked. Return: -1: no two
 * hex digits follow. */
static inline int kh_percent_byte(struct kh_slice text, size_t at)
{
	int high = text.len - at > 2 ? kh_hex_value(text.ptr[at + 1]) : -1;
	int low = text.len - at > 2 ? kh_hex_value(text.ptr[at + 2]) : -1;

	return high < 0 || low < 0 ? -1 : high << 4 | low;
}

#endif
