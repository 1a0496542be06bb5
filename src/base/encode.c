/* encode.c - hex, base64, digits of base32, and percent-encoding */
#include <keyhole/base/encode.h>

#include <stdint.h>

const char kh_hex_digits[] = "0123456789abcdef";
const char kh_hex_digits_upper[] = "0123456789ABCDEF";
const char kh_base32_digits[] = "abcdefghijklmnopqrstuvwxyz234567";
const char kh_base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const char kh_base64url_digits[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* ---- hex ---- */

void kh_hex_encode(const void *bytes, size_t len, char *out)
{
	const unsigned char *from = bytes;

	for (size_t i = 0; i < len; i++) {
		*out++ = kh_hex_digits[from[i] >> 4];
		*out++ = kh_hex_digits[from[i] & 15];
	}
	*out = '\0';
}

bool kh_hex_decode(struct kh_slice text, void *out, size_t len)
{
	unsigned char *to = out;

	if (text.len % 2 != 0 || text.len / 2 != len)
		return false;
	for (size_t i = 0; i < len; i++) {
		int high = kh_hex_value(text.ptr[2 * i]), low = kh_hex_value(text.ptr[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		to[i] = (unsigned char)(high << 4 | low);
	}
	return true;
}

bool kh_hex_is_valid(struct kh_slice text)
{
	for (size_t i = 0; i < text.len; i++)
		if (kh_hex_value(text.ptr[i]) < 0 || kh_lower(text.ptr[i]) != text.ptr[i])
			return false;
	return true;
}

/* ---- base64 ---- */

/* The bytes of some parts, one behind the other. */
struct reader {
	const struct kh_slice *parts;
	size_t n, at;
};

static bool next_byte(struct reader *reader, uint32_t *byte)
{
	while (reader->n > 0 && reader->at == reader->parts->len) {
		reader->parts++;
		reader->n--;
		reader->at = 0;
	}
	*byte = reader->n > 0 ? (unsigned char)reader->parts->ptr[reader->at++] : 0;
	return reader->n > 0;
}

/* Return: characters written. */
static size_t encode(struct reader reader, const char *digits, bool padded, char *out)
{
	char *to = out;
	uint32_t first, second, third;

	while (next_byte(&reader, &first)) {
		bool two = next_byte(&reader, &second), three = next_byte(&reader, &third);
		uint32_t bits = first << 16 | second << 8 | third;

		*to++ = digits[bits >> 18];
		*to++ = digits[bits >> 12 & 63];
		if (two || padded)
			*to++ = two ? digits[bits >> 6 & 63] : '=';
		if (three || padded)
			*to++ = three ? digits[bits & 63] : '=';
	}
	return (size_t)(to - out);
}

void kh_base64_encode(const void *bytes, size_t len, char *out)
{
	struct kh_slice all = kh_slice_of(bytes, len);

	out[encode((struct reader){ &all, 1, 0 }, kh_base64_digits, true, out)] = '\0';
}

bool kh_base64_put(struct kh_buf *out, const struct kh_slice *parts, size_t n,
		   enum kh_base64_form form)
{
	bool url = form == KH_BASE64URL;
	size_t len = 0;

	for (size_t i = 0; i < n; i++)
		len += parts[i].len;
	size_t room = url ? (len * 4 + 2) / 3 : KH_BASE64_LEN(len);
	char *to = kh_buf_reserve(out, room);
	if (!to)
		return false;
	kh_buf_commit(out, encode((struct reader){ parts, n, 0 },
				  url ? kh_base64url_digits : kh_base64_digits, !url, to));
	return true;
}

int kh_base64_value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (kh_is_digit(c))
		return c - '0' + 52;
	if (c == '+' || c == '-')
		return 62;
	return c == '/' || c == '_' ? 63 : -1;
}

static bool is_of(char c, enum kh_base64_form form)
{
	if (c == '+' || c == '/')
		return form != KH_BASE64URL;
	return (c != '-' && c != '_') || form != KH_BASE64;
}

bool kh_base64_decode(struct kh_slice text, enum kh_base64_form form, void *out, size_t *len)
{
	unsigned char *to = out;
	uint32_t held = 0;
	unsigned n_held = 0;
	size_t end = text.len;

	*len = 0;
	if (form == KH_BASE64 && text.len % 4 != 0)
		return false;
	for (size_t i = 0; form != KH_BASE64URL && end > 0 && text.ptr[end - 1] == '='; i++) {
		if (form == KH_BASE64 && i == 2)
			return false;
		end--;
	}
	if (end % 4 == 1)
		return false;
	for (size_t i = 0; i < end; i++) {
		int value = kh_base64_value(text.ptr[i]);

		if (value < 0 || !is_of(text.ptr[i], form))
			return false;
		held = held << 6 | (uint32_t)value;
		n_held += 6;
		if (n_held < 8)
			continue;
		n_held -= 8;
		to[(*len)++] = (unsigned char)(held >> n_held & 0xff);
	}
	return form == KH_BASE64_LOOSE || (held & ((1U << n_held) - 1)) == 0;
}

/* ---- percent-encoding ---- */

bool kh_percent_encode(struct kh_buf *out, struct kh_slice text, const char *keep)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = text.ptr[i], escape[3];

		if (kh_is_unreserved(c) || (c != '\0' && strchr(keep, c))) {
			if (!kh_buf_append_char(out, c))
				return false;
			continue;
		}
		kh_percent_escape((unsigned char)c, escape);
		if (!kh_buf_append(out, escape, sizeof(escape)))
			return false;
	}
	return true;
}
