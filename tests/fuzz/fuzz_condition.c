/*
 * fuzz_condition.c - query, headers and content_type of a rule against a slow, obvious reading
 *
 * First line: 'a' (a rule that allows) or 'd', then 'q', 'h' or 't' for the kind of condition, or
 * 'n' for a query that is not there. Second: the name. Third: patterns with tabs between them. All
 * behind it is the query, or fields a line each.
 *
 * The reference decodes everything first, pass by pass, and tries every way in which a star can
 * stand for bytes. What takes more than a few passes is left out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config_internal.h"
#include "policy/policy_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_BYTES = 2048, MOST_PATTERNS = 4 };

struct text {
	size_t len;
	unsigned char bytes[INPUT_BYTES];
};

struct input {
	bool allow;
	enum kh_condition_kind kind;
	char name[INPUT_BYTES + 1];
	char pattern[MOST_PATTERNS][INPUT_BYTES + 1];
	size_t n_patterns;
	struct kh_slice rest;
};

/* ---- the reference ---- */

static unsigned char small(unsigned char c)
{
	return c >= 'A' && c <= 'Z' ? (unsigned char)(c - 'A' + 'a') : c;
}

static int hex(unsigned char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = c ? strchr(digits, small(c)) : NULL;
	return at ? (int)(at - digits) : -1;
}

/* application/x-www-form-urlencoded, or the same where a plus is one. */
static void decode(const unsigned char *in, size_t len, bool form, struct text *out)
{
	out->len = 0;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = in[i];
		if (c == '+' && form) {
			c = ' ';
		} else if (c == '%' && i + 2 < len && hex(in[i + 1]) >= 0 && hex(in[i + 2]) >= 0) {
			c = (unsigned char)(hex(in[i + 1]) * 16 + hex(in[i + 2]));
			i += 2;
		}
		out->bytes[out->len++] = c;
	}
}

static bool too_deep;

/* The character that a library may make of a sequence of UTF-8, in the end. 0: none. */
static unsigned char seen_as(uint32_t code)
{
	static const uint32_t from[] = { 0xaa,	 0xba,	 0xb9,	 0xb2,	 0xb3,	 0x2025,
					 0xfe30, 0x130,	 0x131,	 0x17f,	 0x2024, 0x2044,
					 0x212a, 0x2215, 0x2216, 0x3000, 0xfe52, 0xfe68 };
	static const char to[] = "ao123..iis./k/\\ .\\";
	for (size_t i = 0; i < sizeof(from) / sizeof(from[0]); i++)
		if (from[i] == code)
			return (unsigned char)to[i];
	for (unsigned i = 0; i < 26; i++)
		if (code == 0x24b6 + i || code == 0x24d0 + i || code == 0x1f130 + i)
			return (unsigned char)('a' + i);
	for (uint32_t alphabet = 0; alphabet < 26; alphabet++)
		if (code >= 0x1d400 + 26 * alphabet && code < 0x1d400 + 26 * (alphabet + 1))
			return (unsigned char)('a' + code - 0x1d400 - 26 * alphabet);
	if (code >= 0x1d7ce && code < 0x1d800)
		return (unsigned char)"0123456789"[(code - 0x1d7ce) % 10];
	if (code >= 0x2460 && code < 0x2469)
		return (unsigned char)"123456789"[code - 0x2460];
	if (code > 0xff00 && code < 0xff5f)
		return (unsigned char)(code - 0xff01 + '!');
	if (code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) ||
	    code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f)
		return ' ';
	return (unsigned char)(code < 0x80 ? code : 0);
}

/* The byte or the sequence of UTF-8 at `at`, as one character. Return: bytes taken. */
static size_t seen_at(const unsigned char *in, size_t len, size_t at, unsigned char *out)
{
	unsigned char c = in[at];
	unsigned n = c < 0xc0 || c > 0xf7 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
	uint32_t code = n == 1 ? c : c & (0xffu >> (n + 1));
	bool whole = n > 1 && len - at >= n;
	for (unsigned j = 1; whole && j < n; j++) {
		whole = in[at + j] >> 6 == 2;
		code = code << 6 | (in[at + j] & 63);
	}
	unsigned char ascii = seen_as(code);
	whole = whole && (ascii || code == 0);
	*out = whole ? ascii : c;
	return whole ? n : 1;
}

/* As the most forgiving server has it. */
static void decode_deeply(const unsigned char *in, size_t len, struct text *out)
{
	enum { MOST_PASSES = 4 };
	static struct text text;
	decode(in, len, true, out);
	for (unsigned passes = 1;; passes++) {
		text = *out;
		decode(text.bytes, text.len, false, out);
		if (out->len == text.len)
			break;
		too_deep = too_deep || passes == MOST_PASSES - 1;
	}
	out->len = 0;
	for (size_t i = 0; i < text.len;) {
		i += seen_at(text.bytes, text.len, i, &out->bytes[out->len]);
		out->len++;
	}
}

static bool is_space(unsigned char c)
{
	return c == ' ' || (c > 8 && c < 14);
}

/* Without blanks around it, up to a NUL. */
static void trim(const struct text *in, struct text *out)
{
	size_t from = 0, to = 0;
	while (to < in->len && in->bytes[to])
		to++;
	while (from < to && is_space(in->bytes[from]))
		from++;
	while (to > from && is_space(in->bytes[to - 1]))
		to--;
	out->len = to - from;
	memcpy(out->bytes, in->bytes + from, out->len);
}

static void copy(const unsigned char *in, size_t len, struct text *out)
{
	memcpy(out->bytes, in, len);
	out->len = len;
}

/* ways[i]: the pattern so far may end in front of the text's byte i. */
static bool star_match(const char *pattern, const struct text *text, bool nocase)
{
	static bool ways[INPUT_BYTES + 1], next[INPUT_BYTES + 1];
	memset(ways, 0, sizeof(ways));
	ways[0] = true;
	for (; *pattern; pattern++) {
		memset(next, 0, sizeof(next));
		for (size_t i = 0; i <= text->len; i++) {
			unsigned char want = (unsigned char)*pattern;
			if (!ways[i])
				continue;
			for (size_t j = i; want == '*' && j <= text->len; j++)
				next[j] = true;
			if (want == '*' || i == text->len)
				continue;
			unsigned char have = text->bytes[i];
			if (nocase ? small(have) == small(want) : have == want)
				next[i + 1] = true;
		}
		memcpy(ways, next, sizeof(ways));
	}
	return ways[text->len];
}

static bool any_pattern(const struct input *in, const struct text *text, bool nocase)
{
	for (size_t i = 0; i < in->n_patterns; i++)
		if (star_match(in->pattern[i], text, nocase))
			return true;
	return false;
}

static bool is_name(const struct input *in, const struct text *text)
{
	return text->len == strlen(in->name) && memcmp(text->bytes, in->name, text->len) == 0;
}

static unsigned char dashed(unsigned char c)
{
	return c && strchr("_.[ ", c) ? '-' : small(c);
}

static bool is_loosely_name(const struct input *in, const unsigned char *at, size_t bytes)
{
	static struct text text;
	decode_deeply(at, bytes, &text);
	size_t from = 0, len = strlen(in->name);
	while (from < text.len && is_space(text.bytes[from]))
		from++;
	if (text.len - from < len)
		return false;
	for (size_t i = 0; i < len; i++)
		if (dashed(text.bytes[from + i]) != dashed((unsigned char)in->name[i]))
			return false;
	for (from += len; from < text.len && is_space(text.bytes[from]);)
		from++;
	return from == text.len || text.bytes[from] == '[' || text.bytes[from] == '\0';
}

static bool is_printable(const struct text *text)
{
	for (size_t i = 0; i < text->len; i++)
		if (text->bytes[i] < 0x20 || text->bytes[i] == 0x7f)
			return false;
	return true;
}

struct count {
	size_t good, bad, alike;
};

static void count_parameters(const struct input *in, const char *separators, struct count *count)
{
	static struct text name, value;
	const unsigned char *at = (const unsigned char *)in->rest.ptr;
	const unsigned char *end = at + in->rest.len;
	for (;; at++) {
		const unsigned char *stop = at, *equals;
		while (stop < end && !(*stop && strchr(separators, *stop)))
			stop++;
		equals = at;
		while (equals < stop && *equals != '=')
			equals++;
		size_t name_len = (size_t)(equals - at);
		decode(at, name_len, true, &name);
		equals += equals < stop;
		size_t value_len = (size_t)(stop - equals);
		bool exactly = is_name(in, &name), loosely = is_loosely_name(in, at, name_len);
		static struct text deep, bare;
		decode(equals, value_len, true, &value);
		decode_deeply(equals, value_len, &deep);
		trim(&deep, &bare);
		bool good = any_pattern(in, &value, !in->allow);
		if (in->allow) {
			good = good && is_printable(&deep) && any_pattern(in, &deep, false);
			count->good += exactly && good;
			count->bad += exactly && !good;
			count->alike += !exactly && loosely;
		} else {
			decode(equals, value_len, false, &value);
			good = good || any_pattern(in, &value, true) ||
			       any_pattern(in, &deep, true) || any_pattern(in, &bare, true);
			count->good += loosely && good;
		}
		if (stop == end)
			return;
		at = stop;
	}
}

static bool query_holds(const struct input *in)
{
	struct count count = { 0 };
	if (!in->rest.ptr)
		return false;
	if (in->allow && memchr(in->rest.ptr, ';', in->rest.len))
		return false;
	count_parameters(in, "&", &count);
	if (in->allow)
		return count.good > 0 && count.bad == 0 && count.alike == 0;
	count_parameters(in, "&;", &count);
	return count.good > 0;
}

/* The fields of the input, a line each. */
static bool next_line(void *head, size_t *at, struct kh_slice *name, struct kh_slice *value)
{
	const struct kh_slice all = *(struct kh_slice *)head;
	if (*at >= all.len)
		return false;
	size_t end = kh_slice_find(all, '\n', *at);
	struct kh_slice line = kh_slice_sub(all, *at, end);
	size_t colon = kh_slice_find(line, ':', 0);
	*name = kh_slice_sub(line, 0, colon);
	*value = kh_slice_sub(line, colon + 1, line.len);
	*at = end + 1;
	return true;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* As a server reads a value that takes off quotes and blanks of all kinds, and ends it at a
 * parameter, or at a blank. */
static bool matches_loosely(const struct input *in, struct kh_slice member, bool parameters,
			    bool blanks, bool nocase)
{
	static struct text text, part;
	const unsigned char *bytes = (const unsigned char *)member.ptr;
	size_t from = 0, to;
	text.len = 0;
	for (size_t at = 0; at < member.len;) {
		unsigned char c = bytes[at];
		/* An escape inside of a sequence is left to decode_deeply's tests. */
		too_deep = too_deep || (c >= 0xc0 && memchr(bytes + at, '%', member.len - at));
		if (c == '\\' && at + 1 < member.len) {
			c = bytes[at + 1];
			at += 2;
		} else if (c == 0x85 || (c >= 0xa0 && c < 0xc0 && seen_as(c))) {
			c = seen_as(c);
			at++;
		} else {
			at += seen_at(bytes, member.len, at, &c);
		}
		text.bytes[text.len++] = c;
	}
	while (from < text.len && (is_space(text.bytes[from]) || text.bytes[from] == '"'))
		from++;
	for (to = from; to < text.len; to++)
		if ((parameters && text.bytes[to] == ';') || (blanks && is_space(text.bytes[to])))
			break;
	while (to > from && (is_space(text.bytes[to - 1]) || text.bytes[to - 1] == '"'))
		to--;
	copy(text.bytes + from, to - from, &part);
	return any_pattern(in, &part, nocase);
}

static void count_values(const struct input *in, struct kh_slice value, struct count *count)
{
	static struct text member;
	bool type = in->kind == KH_CONDITION_CONTENT_TYPE;
	for (size_t from = 0; from <= value.len;) {
		size_t to = from, after;
		while (to < value.len && value.ptr[to] != ',')
			to++;
		after = to + 1;
		struct kh_slice whole = kh_slice_sub(value, from, to);
		for (size_t i = from; type && i < to; i++)
			if (value.ptr[i] == ';')
				to = i;
		while (from < to && is_blank(value.ptr[from]))
			from++;
		while (to > from && is_blank(value.ptr[to - 1]))
			to--;
		copy((const unsigned char *)value.ptr + from, to - from, &member);
		bool nocase = type || !in->allow, good = any_pattern(in, &member, nocase);
		bool loosely = matches_loosely(in, whole, true, type, nocase);
		if (in->allow ? good && (!type || loosely)
			      : good || loosely ||
					(!type && matches_loosely(in, whole, false, false, nocase)))
			count->good++;
		else
			count->bad++;
		from = after;
	}
}

static bool fields_hold(struct input *in)
{
	const char *due = in->kind == KH_CONDITION_CONTENT_TYPE ? "content-type" : in->name;
	struct kh_slice name, value;
	struct count count = { 0 };
	for (size_t at = 0; next_line(&in->rest, &at, &name, &value);) {
		bool same = name.len == strlen(due), alike = same;
		for (size_t i = 0; alike && i < name.len; i++) {
			unsigned char have = small((unsigned char)name.ptr[i]);
			unsigned char want = small((unsigned char)due[i]);
			bool plain = strchr("abcdefghijklmnopqrstuvwxyz0123456789", have) && have;
			same = same && have == want;
			alike = have == want || (!plain && want == '-') ||
				(!plain && strchr("!#$%&'*+.^_`|~", want));
		}
		if (same || (alike && !in->allow))
			count_values(in, value, &count);
		else if (alike)
			count.bad++;
	}
	return count.good > 0 && (!in->allow || count.bad == 0);
}

/* ---- what is tested ---- */

static bool holds(struct input *in)
{
	struct kh_condition condition = { .kind = in->kind, .n_patterns = in->n_patterns };
	char *patterns[MOST_PATTERNS], *name = strdup(in->name);
	for (size_t i = 0; i < in->n_patterns; i++)
		patterns[i] = strdup(in->pattern[i]);
	condition.name = in->kind == KH_CONDITION_CONTENT_TYPE ? NULL : name;
	condition.patterns = patterns;
	struct kh_rule_more more = { .conditions = &condition, .n_conditions = 1 };
	struct kh_rule rule = { .allow = in->allow, .more = &more };
	struct kh_request_view view = { .fields = { next_line, &in->rest } };
	if (in->kind == KH_CONDITION_QUERY) {
		view.query = in->rest;
		view.fields.next = NULL;
	}
	struct kh_steps steps = { .most = UINT64_MAX };
	struct kh_reading_of reading = { .steps = &steps };
	kh_reading_begin(&view, &reading);
	bool good = kh_rule_conditions_miss(&rule, &view, &reading) == KH_MATCHES;
	for (size_t i = 0; i < in->n_patterns; i++)
		free(patterns[i]);
	free(name);
	return good;
}

/* Return: false when no rule could have such a condition. */
static bool read_input(struct input *in, struct kh_slice text)
{
	size_t first = kh_slice_find(text, '\n', 0), second = kh_slice_find(text, '\n', first + 1);
	size_t third = kh_slice_find(text, '\n', second + 1);
	if (first != 2 || third >= text.len)
		return false;
	in->allow = text.ptr[0] == 'a';
	in->kind = text.ptr[1] == 'h'	? KH_CONDITION_HEADER
		   : text.ptr[1] == 't' ? KH_CONDITION_CONTENT_TYPE
					: KH_CONDITION_QUERY;
	in->rest = kh_slice_sub(text, third + 1, text.len);
	if (text.ptr[1] == 'n')
		in->rest = kh_slice_of(NULL, 0);
	struct kh_slice name = kh_slice_sub(text, first + 1, second);
	struct kh_slice list = kh_slice_sub(text, second + 1, third);
	(void)snprintf(in->name, sizeof(in->name), "%.*s", KH_FMT(name));
	in->n_patterns = 0;
	for (size_t at = 0; at <= list.len && in->n_patterns < MOST_PATTERNS;) {
		size_t tab = kh_slice_find(list, '\t', at);
		struct kh_slice one = kh_slice_sub(list, at, tab);
		char *pattern = in->pattern[in->n_patterns++];
		(void)snprintf(pattern, INPUT_BYTES + 1, "%.*s", KH_FMT(one));
		if (kh_condition_fault(in->kind,
				       in->kind == KH_CONDITION_CONTENT_TYPE ? NULL : in->name,
				       pattern))
			return false;
		at = tab + 1;
	}
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct input in;
	if (size == 0 || size > INPUT_BYTES ||
	    !read_input(&in, kh_slice_of((const char *)data, size)))
		return 0;
	too_deep = false;
	bool due = in.kind == KH_CONDITION_QUERY ? query_holds(&in) : fields_hold(&in);
	if (too_deep)
		return 0;
	if (holds(&in) != due)
		abort();
	return 0;
}
