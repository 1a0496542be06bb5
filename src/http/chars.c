/* chars.c - which bytes are allowed where (RFC 9110 §5.5, §5.6.2) */
#include "chars.h"

/* ! # $ % & ' * + - . ^ _ ` | ~ digits letters */
const uint8_t kh_chars_tchar[256] = {
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* 00 */
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* 10 */
	0, 1, 0, 1, 1, 1, 1, 1, 0, 0, 1, 1, 0, 1, 1, 0, /* 20 */
	1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, /* 30 */
	0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, /* 40 */
	1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1, /* 50 */
	1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, /* 60 */
	1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 0, 1, 0, /* 70 */
};

bool kh_chars_are_token(struct kh_slice s)
{
	for (size_t i = 0; i < s.len; i++)
		if (!kh_is_tchar(s.ptr[i]))
			return false;
	return s.len > 0;
}

/* Has any of eight bytes a value below 0x20, or is it DEL? (No false answer either way; HTAB counts
 * as below, and is sorted out one byte at a time.) */
static bool word_has_control(const char *bytes)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	uint64_t word, del;

	memcpy(&word, bytes, sizeof(word));
	del = word ^ (ones * 0x7f);
	return ((((word - ones * 0x20) & ~word) | ((del - ones) & ~del)) & (ones * 0x80)) != 0;
}

size_t kh_chars_clean_run(const char *bytes, size_t len)
{
	size_t i = 0;

	while (i < len) {
		while (len - i >= 8 && !word_has_control(bytes + i))
			i += 8;
		size_t stop = len - i > 8 ? i + 8 : len;
		for (; i < stop; i++)
			if (!kh_is_clean(bytes[i]))
				return i;
	}
	return len;
}
