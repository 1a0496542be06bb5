/* slice.c - views of bytes: compare, cut, read and write a number */
#include <keyhole/base/slice.h>

#include <stdlib.h>

bool kh_slice_eq_nocase_long(struct kh_slice a, struct kh_slice b)
{
	for (size_t i = 0; i < a.len; i++)
		if (kh_lower(a.ptr[i]) != kh_lower(b.ptr[i]))
			return false;
	return true;
}

bool kh_slice_has_prefix(struct kh_slice s, struct kh_slice prefix)
{
	return kh_slice_eq(kh_slice_sub(s, 0, prefix.len), prefix);
}

bool kh_slice_has_suffix(struct kh_slice s, struct kh_slice suffix)
{
	return s.len >= suffix.len &&
	       kh_slice_eq(kh_slice_sub(s, s.len - suffix.len, s.len), suffix);
}

size_t kh_slice_find(struct kh_slice s, char c, size_t from)
{
	if (from >= s.len)
		return s.len;
	const char *at = memchr(s.ptr + from, c, s.len - from);
	return at ? (size_t)(at - s.ptr) : s.len;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

struct kh_slice kh_slice_trim(struct kh_slice s)
{
	size_t from = 0, to = s.len;
	while (from < to && is_blank(s.ptr[from]))
		from++;
	while (to > from && is_blank(s.ptr[to - 1]))
		to--;
	return kh_slice_sub(s, from, to);
}

struct kh_slice kh_slice_chomp(struct kh_slice s)
{
	while (s.len > 0 && (s.ptr[s.len - 1] == '\n' || s.ptr[s.len - 1] == '\r'))
		s.len--;
	return s;
}

char *kh_slice_dup(struct kh_slice s)
{
	if (s.len && memchr(s.ptr, 0, s.len))
		return NULL;
	char *copy = malloc(s.len + 1);
	if (!copy)
		return NULL;
	if (s.len)
		memcpy(copy, s.ptr, s.len);
	copy[s.len] = 0;
	return copy;
}

struct kh_slice kh_slice_from_u64(uint64_t value, char room[KH_U64_DIGITS])
{
	size_t at = KH_U64_DIGITS;
	do {
		room[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	return kh_slice_of(room + at, KH_U64_DIGITS - at);
}

bool kh_slice_to_u64(struct kh_slice s, uint64_t *out)
{
	if (s.len == 0)
		return false;
	uint64_t value = 0;
	for (size_t i = 0; i < s.len; i++) {
		if (!kh_is_digit(s.ptr[i]))
			return false;
		unsigned digit = (unsigned)(s.ptr[i] - '0');
		if (value > (UINT64_MAX - digit) / 10)
			return false;
		value = value * 10 + digit;
	}
	*out = value;
	return true;
}
