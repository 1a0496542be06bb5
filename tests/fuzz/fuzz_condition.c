/*
 * fuzz_condition.c - query, headers and content_type of a rule against a slow, obvious reading
 *
 * First line: 'a' (a rule that allows) or 'd', then 'q', 'h' or 't' for the kind of condition, or
 * 'n' for a query that is not there. Second: the name. Third: patterns with tabs between them. All
 * behind it is the query, or fields a line each.
 *
 * The reference decodes everything first, and tries every way in which a star can stand for bytes.
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

static bool is_name(const struct input *in, const struct text *text, bool loosely)
{
	size_t len = strlen(in->name);
	if (text->len < len)
		return false;
	for (size_t i = 0; i < len; i++) {
		unsigned char want = (unsigned char)in->name[i], have = text->bytes[i];
		if (loosely ? small(have) != small(want) : have != want)
			return false;
	}
	return text->len == len || (loosely && text->bytes[len] == '[');
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
		decode(at, (size_t)(equals - at), true, &name);
		equals += equals < stop;
		decode(equals, (size_t)(stop - equals), true, &value);
		bool named = is_name(in, &name, !in->allow);
		bool good =
			(!in->allow || is_printable(&value)) && any_pattern(in, &value, !in->allow);
		decode(equals, (size_t)(stop - equals), false, &value);
		if (named && (good || (!in->allow && any_pattern(in, &value, true))))
			count->good++;
		else if (named)
			count->bad++;
		else if (is_name(in, &name, true))
			count->alike++;
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
static bool next_line(const void *head, size_t *at, struct kh_slice *name, struct kh_slice *value)
{
	const struct kh_slice all = *(const struct kh_slice *)head;
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

static void count_values(const struct input *in, struct kh_slice value, struct count *count)
{
	static struct text member;
	bool type = in->kind == KH_CONDITION_CONTENT_TYPE;
	for (size_t from = 0; from <= value.len;) {
		size_t to = from, after;
		while (to < value.len && value.ptr[to] != ',')
			to++;
		after = to + 1;
		for (size_t i = from; type && i < to; i++)
			if (value.ptr[i] == ';')
				to = i;
		while (from < to && is_blank(value.ptr[from]))
			from++;
		while (to > from && is_blank(value.ptr[to - 1]))
			to--;
		copy((const unsigned char *)value.ptr + from, to - from, &member);
		if (any_pattern(in, &member, type || !in->allow))
			count->good++;
		else
			count->bad++;
		from = after;
	}
}

static bool fields_hold(const struct input *in)
{
	const char *due = in->kind == KH_CONDITION_CONTENT_TYPE ? "content-type" : in->name;
	struct kh_slice name, value;
	struct count count = { 0 };
	for (size_t at = 0; next_line(&in->rest, &at, &name, &value);) {
		bool same = name.len == strlen(due);
		for (size_t i = 0; same && i < name.len; i++)
			same = small((unsigned char)name.ptr[i]) == small((unsigned char)due[i]);
		if (same)
			count_values(in, value, &count);
	}
	return count.good > 0 && (!in->allow || count.bad == 0);
}

/* ---- what is tested ---- */

static bool holds(const struct input *in)
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
	struct kh_reading_of reading;
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
	bool due = in.kind == KH_CONDITION_QUERY ? query_holds(&in) : fields_hold(&in);
	if (holds(&in) != due)
		abort();
	return 0;
}
