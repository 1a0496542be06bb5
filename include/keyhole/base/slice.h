/* slice.h - a view of bytes that another object owns */
#ifndef KEYHOLE_BASE_SLICE_H
#define KEYHOLE_BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Pointer and length, in bytes; not terminated, may hold NUL. The owner outlives the view. */
struct kh_slice {
	const char *ptr;
	size_t len;
};

#define KH_SLICE(literal) ((struct kh_slice){ ("" literal), sizeof(literal) - 1 })
/* The same, as an initialiser in a static table. */
#define KH_SLICE_INIT(literal) \
	{ \
		"" literal, sizeof(literal) - 1 \
	}
/* For printf's "%.*s". Only for bytes that are known to be safe to show; see escape.h for others.
 */
#define KH_FMT(slice) (int)(slice).len, (slice).ptr

static inline struct kh_slice kh_slice_of(const void *ptr, size_t len)
{
	return (struct kh_slice){ ptr, len };
}

/* A view of a terminated string; NULL gives the empty view. */
static inline struct kh_slice kh_slice_str(const char *str)
{
	return (struct kh_slice){ str, str ? strlen(str) : 0 };
}

static inline bool kh_slice_eq(struct kh_slice a, struct kh_slice b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

bool kh_slice_eq_nocase_long(struct kh_slice a, struct kh_slice b); /* both have one length */

/* ASCII letters compare without case; no locale is asked. */
static inline bool kh_slice_eq_nocase(struct kh_slice a, struct kh_slice b)
{
	return a.len == b.len && kh_slice_eq_nocase_long(a, b);
}

bool kh_slice_has_prefix(struct kh_slice s, struct kh_slice prefix);
bool kh_slice_has_suffix(struct kh_slice s, struct kh_slice suffix);
/* First position of byte `c` at or after `from`; s.len when there is none. */
size_t kh_slice_find(struct kh_slice s, char c, size_t from);

/* s[from, to), both clamped to s.len. */
static inline struct kh_slice kh_slice_sub(struct kh_slice s, size_t from, size_t to)
{
	if (!s.ptr) /* not even 0 may be added to a null pointer */
		return s;
	if (to > s.len)
		to = s.len;
	if (from > to)
		from = to;
	return (struct kh_slice){ s.ptr + from, to - from };
}

/* Without leading and trailing SP and HTAB (OWS of RFC 9110). */
struct kh_slice kh_slice_trim(struct kh_slice s);
/* Without trailing CR and LF bytes. */
struct kh_slice kh_slice_chomp(struct kh_slice s);
/* A NUL-terminated copy on the heap. Return: NULL without memory, or if the view holds a NUL. */
char *kh_slice_dup(struct kh_slice s);
/* Decimal digits only, at least one, no sign, no overflow. Return: false otherwise. */
bool kh_slice_to_u64(struct kh_slice s, uint64_t *out);
/* Formats a number. Return: a view into `room`, not terminated. */
enum { KH_U64_DIGITS = 20 };
struct kh_slice kh_slice_from_u64(uint64_t value, char room[KH_U64_DIGITS]);

/* ASCII, independent of the locale. */
static inline char kh_lower(char c)
{
	return (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

static inline bool kh_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline bool kh_is_alpha(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Value of a hex digit, -1 for any other byte. */
static inline int kh_hex_value(char c)
{
	if (kh_is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

#endif
