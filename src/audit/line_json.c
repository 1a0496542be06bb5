/*
 * line_json.c - is a line of the journal a JSON object that every program reads alike?
 *
 * A hash says that a line is as it was written, not that it is a record. A line that jq, Python and
 * `keyhole audit show` would read differently, or not at all, is no record: bytes that are not RFC
 * 8259, invalid UTF-8, two members of one name in any object, numbers that are too large for most
 * programs. Verification reads journals of many gigabytes, so this only scans and allocates
 * nothing.
 */
#include <keyhole/base/escape.h>

#include "audit_internal.h"

enum { MOST_DEPTH = 8, MOST_MEMBERS = 64 };

struct reader {
	const unsigned char *at, *end;
	unsigned depth;
	size_t first, n_names; /* of the innermost object: from `first` on */
	uint64_t seen;	       /* a bit for each name's look, so that most need not be compared */
	struct kh_slice names[MOST_MEMBERS]; /* of all objects that are open, the outermost first */
};

static bool take_value(struct reader *r);

static bool take(struct reader *r, char c)
{
	if (r->at == r->end || *r->at != (unsigned char)c)
		return false;
	r->at++;
	return true;
}

static bool take_word(struct reader *r, struct kh_slice word)
{
	if ((size_t)(r->end - r->at) < word.len || memcmp(r->at, word.ptr, word.len) != 0)
		return false;
	r->at += word.len;
	return true;
}

static bool take_digits(struct reader *r)
{
	const unsigned char *first = r->at;

	while (r->at < r->end && kh_is_digit((char)*r->at))
		r->at++;
	return r->at > first;
}

/* Of 64 bits with a sign. */
static bool fits(struct kh_slice digits, bool negative)
{
	static const char most[] = "9223372036854775807";
	enum { MOST_DIGITS = sizeof(most) - 1 };

	if (digits.len != MOST_DIGITS)
		return digits.len < MOST_DIGITS;
	int order = memcmp(digits.ptr, most, MOST_DIGITS - 1);
	return order < 0 || (order == 0 && digits.ptr[MOST_DIGITS - 1] <= '7' + negative);
}

/* What comes after the digits in front; all of it is far below what a double takes. */
static bool take_fraction(struct reader *r)
{
	enum { EXPONENT_DIGITS = 2 };

	if (take(r, '.') && !take_digits(r))
		return false;
	if (!take(r, 'e') && !take(r, 'E'))
		return true;
	if (!take(r, '+'))
		(void)take(r, '-');
	const unsigned char *first = r->at;
	return take_digits(r) && r->at - first <= EXPONENT_DIGITS;
}

/* RFC 8259 §6. */
static bool take_number(struct reader *r)
{
	bool negative = take(r, '-');
	const unsigned char *first = r->at;

	if (!take(r, '0') && !take_digits(r))
		return false;
	return fits(kh_slice_of(first, (size_t)(r->at - first)), negative) && take_fraction(r);
}

/* Four hex digits. Return: -1 where they are none. */
static int32_t take_unit(struct reader *r)
{
	int32_t unit = 0;

	if (r->end - r->at < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		int digit = kh_hex_value((char)*r->at++);

		if (digit < 0)
			return -1;
		unit = unit << 4 | digit;
	}
	return unit;
}

/* §7; a surrogate has its other half behind it. */
static bool take_escape(struct reader *r)
{
	if (r->at == r->end)
		return false;
	char c = (char)*r->at++;
	if (c != 'u')
		return c != '\0' && strchr("\"\\/bfnrt", c) != NULL;
	int32_t unit = take_unit(r);
	if (unit < 0xd800 || unit > 0xdfff)
		return unit >= 0;
	if (unit > 0xdbff || !take(r, '\\') || !take(r, 'u'))
		return false;
	int32_t low = take_unit(r);
	return low >= 0xdc00 && low <= 0xdfff;
}

static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* Past eight plain bytes at a time, as long as there are so many. */
static const unsigned char *skip_plain(const unsigned char *at, const unsigned char *end)
{
	const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;

	while (end - at >= 8) {
		uint64_t w;

		memcpy(&w, at, sizeof(w));
		uint64_t quote = w ^ ones * '"', slash = w ^ ones * '\\';
		/* A byte's top bit: it is < 0x20, the quote, the backslash, or ≥ 0x80. */
		if (((w - ones * 0x20) | (quote - ones) | (slash - ones) | w) & tops)
			break;
		at += 8;
	}
	while (at < end && is_plain(*at))
		at++;
	return at;
}

static bool take_string(struct reader *r, struct kh_slice *out)
{
	if (!take(r, '"'))
		return false;
	const unsigned char *first = r->at;
	while ((r->at = skip_plain(r->at, r->end)) < r->end && *r->at != '"') {
		uint32_t cp;
		size_t n = 0;

		if (*r->at == '\\') {
			r->at++;
			if (!take_escape(r))
				return false;
			continue;
		}
		if (*r->at >= 0x80)
			n = kh_utf8_decode(r->at, (size_t)(r->end - r->at), &cp);
		if (n == 0)
			return false;
		r->at += n;
	}
	*out = kh_slice_of(first, (size_t)(r->at - first));
	return take(r, '"');
}

/* A name is plain, and in its object once. */
static bool note_name(struct reader *r, struct kh_slice name)
{
	if (r->n_names == MOST_MEMBERS || memchr(name.ptr, '\\', name.len))
		return false;
	/* Most names differ from all others in length, first or last byte. */
	unsigned char ends =
		name.len ? (unsigned char)(name.ptr[0] * 5 ^ name.ptr[name.len - 1]) : 0;
	uint64_t bit = UINT64_C(1) << ((ends + 11 * name.len) % 64);
	for (size_t i = r->first; r->seen & bit && i < r->n_names; i++)
		if (kh_slice_eq(r->names[i], name))
			return false;
	r->seen |= bit;
	r->names[r->n_names++] = name;
	return true;
}

static bool take_member(struct reader *r)
{
	struct kh_slice name;

	return take_string(r, &name) && note_name(r, name) && take(r, ':') && take_value(r);
}

/* Both are written without blanks. */
static bool take_list(struct reader *r, char close, bool (*item)(struct reader *r))
{
	if (++r->depth > MOST_DEPTH)
		return false;
	if (!take(r, close)) {
		do
			if (!item(r))
				return false;
		while (take(r, ','));
		if (!take(r, close))
			return false;
	}
	r->depth--;
	return true;
}

/* NOLINTNEXTLINE(misc-no-recursion): MOST_DEPTH bounds it */
static bool take_object(struct reader *r)
{
	size_t first = r->first, n_names = r->n_names;
	uint64_t seen = r->seen;

	r->first = n_names;
	r->seen = 0;
	if (!take_list(r, '}', take_member))
		return false;
	r->first = first;
	r->n_names = n_names;
	r->seen = seen;
	return true;
}

/* NOLINTNEXTLINE(misc-no-recursion): MOST_DEPTH bounds it */
static bool take_value(struct reader *r)
{
	struct kh_slice text;

	if (r->at == r->end)
		return false;
	switch (*r->at) {
	case '"':
		return take_string(r, &text);
	case '{':
		r->at++;
		return take_object(r);
	case '[':
		r->at++;
		return take_list(r, ']', take_value);
	case 't':
		return take_word(r, KH_SLICE("true"));
	case 'f':
		return take_word(r, KH_SLICE("false"));
	case 'n':
		return take_word(r, KH_SLICE("null"));
	default:
		return take_number(r);
	}
}

bool kh_line_is_json(struct kh_slice line)
{
	struct reader r;

	if (line.len == 0 || line.ptr[0] != '{')
		return false;
	r.at = (const unsigned char *)line.ptr;
	r.end = r.at + line.len;
	r.depth = 0;
	r.first = r.n_names = 0;
	r.seen = 0;
	return take_value(&r) && r.at == r.end;
}
