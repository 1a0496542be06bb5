/* encode.h - hex, base64, base32 (RFC 4648) and percent-encoding (RFC 3986): nobody else has digits
 */
#ifndef KEYHOLE_BASE_ENCODE_H
#define KEYHOLE_BASE_ENCODE_H

#include <stdbool.h>
#include <stddef.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/slice.h>

/*
 * Nothing here takes constant time: what is compared in constant time is compared in secret.h. What
 * is made of a secret is made in the caller's memory alone, a wiping buffer or an array that it
 * wipes.
 */

/* The digits by their value, and a NUL behind them. Those of base32 are small letters. */
extern const char kh_hex_digits[16 + 1];
extern const char kh_hex_digits_upper[16 + 1];
extern const char kh_base32_digits[32 + 1];
extern const char kh_base64_digits[64 + 1];
extern const char kh_base64url_digits[64 + 1];

/* ---- hex ---- */

/* Writes 2 * len small digits and a NUL. */
void kh_hex_encode(const void *bytes, size_t len, char *out);
/* Digits of either case into `len` bytes. Return: false: there are not 2 * len digits; what `out`
 * holds is then not to be used. */
bool kh_hex_decode(struct kh_slice text, void *out, size_t len);
/* Whether these are small hex digits and nothing else. */
bool kh_hex_is_valid(struct kh_slice text);

/* ---- base64 ---- */

enum kh_base64_form {
	KH_BASE64,	/* RFC 4648 section 4, padded */
	KH_BASE64URL,	/* section 5, without padding */
	KH_BASE64_LOOSE /* of a decoder: digits of both, and neither padding nor the bits that are
			   left over at the end are looked at. For keys that people type. */
};

/* Characters of `len` bytes in KH_BASE64, without a NUL. */
#define KH_BASE64_LEN(len) (((len) + 2) / 3 * 4)
/* Writes KH_BASE64_LEN(len) characters of KH_BASE64 and a NUL. */
void kh_base64_encode(const void *bytes, size_t len, char *out);
/* Appends what the parts are, one behind the other ("user", ":", "password"), without putting them
 * together anywhere. Return: false: no room, and nothing was appended. */
bool kh_base64_put(struct kh_buf *out, const struct kh_slice *parts, size_t n,
		   enum kh_base64_form form);
/* The value of a digit of either alphabet; -1: it is none. */
int kh_base64_value(char c);
/* Into `out`, of text.len / 4 * 3 + 2 bytes at least (without the 2 for KH_BASE64). There is one
 * spelling of some bytes and no other, but for KH_BASE64_LOOSE; nothing is no error. Return: false:
 * it is none. */
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

/* Appends it; what is unreserved, or stands in `keep`, as it is. */
bool kh_percent_encode(struct kh_buf *out, struct kh_slice text, const char *keep);

/* The byte of the escape that begins at `at`, which is a '%' (not looked at); -1: no two hex digits
 * follow. */
static inline int kh_percent_byte(struct kh_slice text, size_t at)
{
	int high = text.len - at > 2 ? kh_hex_value(text.ptr[at + 1]) : -1;
	int low = text.len - at > 2 ? kh_hex_value(text.ptr[at + 2]) : -1;

	return high < 0 || low < 0 ? -1 : high << 4 | low;
}

#endif
