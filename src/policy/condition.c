/*
 * condition.c - what a rule asks of a request beside its text: query, fields, content type, size
 *
 * A rule that allows reads strictly: what it names must be there, each occurrence must match, and
 * what two servers may read differently (a ';' in the query, an encoded control byte) matches
 * nothing. A rule that denies reads widely: one occurrence that matches in one reading is enough.
 */
#include "policy_internal.h"

#include <string.h>

/* One character of a text: the bytes that it takes there, and the byte that it stands for. */
struct unit {
	size_t width;
	unsigned char byte;
};

/* ENCODED: as a form has it, where '+' is a blank. PLUS: as most paths have it, where it is not. */
enum spelling { AS_IS, ENCODED, PLUS };

static struct unit unit_at(struct kh_slice text, size_t at, enum spelling spelling)
{
	unsigned char c = (unsigned char)text.ptr[at];
	if (spelling == AS_IS)
		return (struct unit){ 1, c };
	if (c == '+' && spelling == ENCODED)
		return (struct unit){ 1, ' ' };
	if (c == '%' && text.len - at >= 3) {
		int high = kh_hex_value(text.ptr[at + 1]), low = kh_hex_value(text.ptr[at + 2]);
		if (high >= 0 && low >= 0)
			return (struct unit){ 3, (unsigned char)(high * 16 + low) };
	}
	return (struct unit){ 1, c };
}

static unsigned char fold(unsigned char c, bool nocase)
{
	return nocase ? (unsigned char)kh_lower((char)c) : c;
}

/* '*' stands for any bytes. The last star is enough to go back to: bounded by both lengths'
 * product. */
static bool glob(struct kh_slice pattern, struct kh_slice text, enum spelling spelling, bool nocase)
{
	size_t p = 0, t = 0, star = SIZE_MAX, retry = 0;
	for (;;) {
		if (p < pattern.len && pattern.ptr[p] == '*') {
			star = ++p;
			retry = t;
			continue;
		}
		if (t == text.len && p == pattern.len)
			return true;
		if (t < text.len && p < pattern.len) {
			struct unit unit = unit_at(text, t, spelling);
			if (fold(unit.byte, nocase) ==
			    fold((unsigned char)pattern.ptr[p], nocase)) {
				p++;
				t += unit.width;
				continue;
			}
		}
		if (star == SIZE_MAX || retry == text.len)
			return false;
		retry += unit_at(text, retry, spelling).width;
		p = star;
		t = retry;
	}
}

static bool matches_one(const struct kh_condition *condition, struct kh_slice text,
			enum spelling spelling, bool nocase)
{
	for (size_t i = 0; i < condition->n_patterns; i++)
		if (glob(kh_slice_str(condition->patterns[i]), text, spelling, nocase))
			return true;
	return false;
}

/* Equal byte for byte; a star in a name is a star. */
static bool same_name(struct kh_slice name, struct kh_slice text, bool nocase)
{
	size_t t = 0;
	for (size_t n = 0; n < name.len; n++) {
		if (t == text.len)
			return false;
		struct unit unit = unit_at(text, t, ENCODED);
		if (fold(unit.byte, nocase) != fold((unsigned char)name.ptr[n], nocase))
			return false;
		t += unit.width;
	}
	/* v[] and v[0] are v to many a server. */
	return t == text.len || (nocase && unit_at(text, t, ENCODED).byte == '[');
}

static bool has_control(struct kh_slice text)
{
	for (size_t at = 0; at < text.len;) {
		struct unit unit = unit_at(text, at, ENCODED);
		if (unit.byte < 0x20 || unit.byte == 0x7f)
			return true;
		at += unit.width;
	}
	return false;
}

static bool next_parameter(struct kh_slice *rest, const char *separators, struct kh_slice *name,
			   struct kh_slice *value)
{
	if (!rest->ptr)
		return false;
	size_t end = 0;
	/* A NUL separates nothing, though it ends the list of what does. */
	while (end < rest->len && !(rest->ptr[end] && strchr(separators, rest->ptr[end])))
		end++;
	struct kh_slice parameter = kh_slice_sub(*rest, 0, end);
	size_t equals = kh_slice_find(parameter, '=', 0);
	*name = kh_slice_sub(parameter, 0, equals);
	*value = kh_slice_sub(parameter, equals + 1, parameter.len);
	*rest = end < rest->len ? kh_slice_sub(*rest, end + 1, rest->len) : kh_slice_of(NULL, 0);
	return true;
}

static bool query_allows(const struct kh_condition *condition, struct kh_slice query)
{
	struct kh_slice rest = query, name, value;
	bool found = false;
	if (!query.ptr || kh_slice_find(query, ';', 0) < query.len)
		return false;
	while (next_parameter(&rest, "&", &name, &value)) {
		if (!same_name(kh_slice_str(condition->name), name, false)) {
			/* Another spelling that some server takes for the same. */
			if (same_name(kh_slice_str(condition->name), name, true))
				return false;
			continue;
		}
		if (has_control(value) || !matches_one(condition, value, ENCODED, false))
			return false;
		found = true;
	}
	return found;
}

static bool query_denies(const struct kh_condition *condition, struct kh_slice query)
{
	static const char *const readings[] = { "&", "&;" };
	for (unsigned i = 0; i < 2; i++) {
		struct kh_slice rest = query, name, value;
		while (next_parameter(&rest, readings[i], &name, &value))
			if (same_name(kh_slice_str(condition->name), name, true) &&
			    (matches_one(condition, value, ENCODED, true) ||
			     matches_one(condition, value, PLUS, true)))
				return true;
	}
	return false;
}

static bool is_named(const struct kh_condition *condition, struct kh_slice field)
{
	if (condition->kind == KH_CONDITION_CONTENT_TYPE)
		return kh_slice_eq_nocase(field, KH_SLICE("content-type"));
	return kh_slice_eq_nocase(field, kh_slice_str(condition->name));
}

/* What is compared of one member: a media type goes without its parameters. */
static struct kh_slice essence(const struct kh_condition *condition, struct kh_slice member)
{
	if (condition->kind == KH_CONDITION_CONTENT_TYPE)
		member = kh_slice_sub(member, 0, kh_slice_find(member, ';', 0));
	return kh_slice_trim(member);
}

/* The members of a field's line, with commas between them: how many match, and how many don't. */
static void count_members(const struct kh_condition *condition, struct kh_slice line, bool nocase,
			  size_t *good, size_t *bad)
{
	for (size_t at = 0; at <= line.len;) {
		size_t comma = kh_slice_find(line, ',', at);
		struct kh_slice member = essence(condition, kh_slice_sub(line, at, comma));
		if (matches_one(condition, member, AS_IS, nocase))
			(*good)++;
		else
			(*bad)++;
		at = comma + 1;
	}
}

static bool fields_hold(const struct kh_condition *condition, bool allow,
			const struct kh_request_fields *fields)
{
	/* Media types are compared without case (RFC 9110 §8.3.1). */
	bool nocase = !allow || condition->kind == KH_CONDITION_CONTENT_TYPE;
	struct kh_slice name, value;
	size_t good = 0, bad = 0, at = 0;
	while (fields->next && fields->next(fields->head, &at, &name, &value)) {
		if (!is_named(condition, name))
			continue;
		count_members(condition, value, nocase, &good, &bad);
	}
	return good > 0 && (bad == 0 || !allow);
}

static enum kh_mismatch miss(const struct kh_condition *condition, bool allow,
			     const struct kh_request_view *request,
			     const struct kh_reading_of *reading)
{
	bool good = false;
	switch (condition->kind) {
	case KH_CONDITION_QUERY:
		good = allow ? query_allows(condition, request->query)
			     : query_denies(condition, request->query);
		return good ? KH_MATCHES : KH_OTHER_QUERY;
	case KH_CONDITION_HEADER:
		good = fields_hold(condition, allow, &request->fields);
		return good ? KH_MATCHES : KH_OTHER_HEADERS;
	case KH_CONDITION_CONTENT_TYPE:
		good = fields_hold(condition, allow, &request->fields);
		return good ? KH_MATCHES : KH_OTHER_CONTENT_TYPE;
	case KH_CONDITION_MODEL:
		/* A path that nobody knows may name any. */
		if (reading->any_path)
			return allow ? KH_OTHER_MODEL : KH_MATCHES;
		if (request->model_state == KH_MODEL_UNREAD)
			return KH_MODEL_NOT_READ;
		good = request->model_state == KH_MODEL_NAMED &&
		       matches_one(condition, request->model, AS_IS, !allow);
		return good ? KH_MATCHES : KH_OTHER_MODEL;
	case KH_CONDITION_NONE:
		break;
	}
	/* There is no such condition: it holds for a denial and never for an allowance. */
	return allow ? KH_OTHER_HEADERS : KH_MATCHES;
}

enum kh_mismatch kh_rule_conditions_miss(const struct kh_rule *rule,
					 const struct kh_request_view *request,
					 const struct kh_reading_of *reading)
{
	const struct kh_rule_more *more = rule->more;
	enum kh_mismatch why = KH_MATCHES;
	for (size_t i = 0; more && i < more->n_conditions && why == KH_MATCHES; i++)
		why = miss(&more->conditions[i], rule->allow, request, reading);
	if ((why == KH_MATCHES || why == KH_MODEL_NOT_READ) && more && more->has_max_body &&
	    request->has_length && request->length > more->max_body)
		why = KH_BODY_TOO_LARGE;
	return why;
}
