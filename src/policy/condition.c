/*
 * condition.c - a rule's conditions on a request: query, fields, content type, model, size
 *
 * An allow rule matches strictly: what it names must be present, each occurrence must match, and
 * what two servers may read differently (a ';' in the query, an encoded control byte) never
 * matches. A deny rule matches widely: one occurrence in one reading is enough, in any spelling of
 * names and values that some server takes for the same (spelling.h).
 */
#include "policy_internal.h"

#include <string.h>

#include <keyhole/base/encode.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/spelling.h>

/* One character of a text: the bytes that it takes there, and the byte that it stands for. */
struct unit {
	size_t width;
	unsigned char byte;
};

/* ENCODED: as a form has it, where '+' is a blank. PLUS: as most paths have it, where it is not.
 * DEEP: as the most forgiving server has it. FIELD: as that has the value of a field. */
enum spelling { AS_IS, ENCODED, PLUS, DEEP, FIELD };

static struct unit unit_at(struct kh_slice text, size_t at, enum spelling spelling)
{
	unsigned char c = (unsigned char)text.ptr[at];
	if (spelling == AS_IS)
		return (struct unit){ 1, c };
	if (spelling == DEEP) {
		struct kh_character of = kh_spelling_at(text, at, KH_PLUS_IS_BLANK);
		return (struct unit){ of.width, of.byte };
	}
	if (spelling == FIELD) {
		struct kh_character of = kh_spelling_in_field(text, at);
		return (struct unit){ of.width, of.byte };
	}
	if (c == '+' && spelling == ENCODED)
		return (struct unit){ 1, ' ' };
	int byte = c == '%' ? kh_percent_byte(text, at) : -1;
	return byte < 0 ? (struct unit){ 1, c } : (struct unit){ 3, (unsigned char)byte };
}

static unsigned char fold(unsigned char c, bool nocase)
{
	return nocase ? (unsigned char)kh_lower((char)c) : c;
}

/* '*' stands for any bytes. The last star is enough to go back to: bounded by both lengths'
 * product, and by the steps that are left. A character in its most forgiving reading costs several.
 */
static bool glob(struct kh_slice pattern, struct kh_slice text, enum spelling spelling, bool nocase,
		 struct kh_steps *steps)
{
	size_t p = 0, t = 0, star = SIZE_MAX, retry = 0;
	for (; !kh_steps_are_over(steps); steps->done += spelling == AS_IS ? 1 : 4) {
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
	return false;
}

static bool matches_one(const struct kh_condition *condition, struct kh_slice text,
			enum spelling spelling, bool nocase, struct kh_steps *steps)
{
	for (size_t i = 0; i < condition->n_patterns; i++)
		if (glob(kh_slice_str(condition->patterns[i]), text, spelling, nocase, steps))
			return true;
	return false;
}

/* Equal byte for byte; a star in a name is a star. */
static bool same_name(struct kh_slice name, struct kh_slice text)
{
	size_t t = 0;
	for (size_t n = 0; n < name.len; n++) {
		if (t == text.len)
			return false;
		struct unit unit = unit_at(text, t, ENCODED);
		if (unit.byte != (unsigned char)name.ptr[n])
			return false;
		t += unit.width;
	}
	return t == text.len;
}

static bool has_control(struct kh_slice text, struct kh_steps *steps)
{
	steps->done += 4 * text.len;
	for (size_t at = 0; at < text.len;) {
		struct unit unit = unit_at(text, at, DEEP);
		if (unit.byte < 0x20 || unit.byte == 0x7f)
			return true;
		at += unit.width;
	}
	return false;
}

/* Without blanks around it, and without what follows a NUL. */
static struct kh_slice trimmed(struct kh_slice text, struct kh_steps *steps)
{
	steps->done += 4 * text.len;
	size_t from = SIZE_MAX, to = 0;
	for (size_t at = 0; at < text.len;) {
		struct unit unit = unit_at(text, at, DEEP);
		if (unit.byte == '\0')
			break;
		if (unit.byte != ' ' && !(unit.byte >= '\t' && unit.byte <= '\r')) {
			from = from == SIZE_MAX ? at : from;
			to = at + unit.width;
		}
		at += unit.width;
	}
	return from == SIZE_MAX ? kh_slice_sub(text, 0, 0) : kh_slice_sub(text, from, to);
}

static bool next_parameter(struct kh_slice *rest, const char *separators, struct kh_slice *name,
			   struct kh_slice *value, struct kh_steps *steps)
{
	if (!rest->ptr || kh_steps_are_over(steps))
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
	steps->done += 16 + end; /* for its name, too */
	return true;
}

static bool query_allows(const struct kh_condition *condition, struct kh_slice query,
			 struct kh_steps *steps)
{
	struct kh_slice rest = query, name, value;
	bool found = false;
	if (!query.ptr || kh_slice_find(query, ';', 0) < query.len)
		return false;
	while (next_parameter(&rest, "&", &name, &value, steps)) {
		if (!same_name(kh_slice_str(condition->name), name)) {
			/* Another spelling that some server takes for the same. */
			if (kh_spelling_is_parameter(name, kh_slice_str(condition->name)))
				return false;
			continue;
		}
		if (has_control(value, steps) ||
		    !matches_one(condition, value, ENCODED, false, steps) ||
		    !matches_one(condition, value, DEEP, false, steps))
			return false;
		found = true;
	}
	return found;
}

/* In one reading or another. */
static bool is_denied(const struct kh_condition *condition, struct kh_slice value,
		      struct kh_steps *steps)
{
	return matches_one(condition, value, ENCODED, true, steps) ||
	       matches_one(condition, value, PLUS, true, steps) ||
	       matches_one(condition, value, DEEP, true, steps) ||
	       matches_one(condition, trimmed(value, steps), DEEP, true, steps);
}

static bool query_denies(const struct kh_condition *condition, struct kh_slice query,
			 struct kh_steps *steps)
{
	static const char *const readings[] = { "&", "&;" };
	unsigned n = kh_slice_find(query, ';', 0) < query.len ? 2 : 1;
	for (unsigned i = 0; i < n; i++) {
		struct kh_slice rest = query, name, value;
		while (next_parameter(&rest, readings[i], &name, &value, steps))
			if (kh_spelling_is_parameter(name, kh_slice_str(condition->name)) &&
			    is_denied(condition, value, steps))
				return true;
	}
	return false;
}

static bool query_denies_exactly(const struct kh_condition *condition, struct kh_slice query,
				 struct kh_steps *steps)
{
	struct kh_slice rest = query, name, value;
	while (next_parameter(&rest, "&", &name, &value, steps))
		if (same_name(kh_slice_str(condition->name), name) &&
		    matches_one(condition, value, ENCODED, false, steps))
			return true;
	return false;
}

static struct kh_slice name_of(const struct kh_condition *condition)
{
	return condition->kind == KH_CONDITION_CONTENT_TYPE ? KH_SLICE("content-type")
							    : kh_slice_str(condition->name);
}

/* How a rule reads what it asks about. */
enum manner { ALLOWS, DENIES, DENIES_EXACTLY };

/* What a rule compares that reads the member as it is: a media type goes without its parameters. */
static struct kh_slice essence(struct kh_slice member, bool type)
{
	return kh_slice_trim(
		kh_slice_sub(member, 0, type ? kh_slice_find(member, ';', 0) : member.len));
}

/* It has one reading only. */
static bool is_plain_member(struct kh_slice member)
{
	for (size_t i = 0; i < member.len; i++)
		if ((unsigned char)member.ptr[i] >= 0x80 ||
		    (member.ptr[i] != '\0' && strchr("\"\\; \t", member.ptr[i])))
			return false;
	return true;
}

/* In one reading or another (spelling.h). */
static bool member_matches_loosely(const struct kh_condition *condition, struct kh_slice member,
				   bool type, bool nocase, struct kh_steps *steps)
{
	steps->done += 8 * member.len;
	return (!type && matches_one(condition, kh_spelling_of_value(member, KH_VALUE_WHOLE), FIELD,
				     nocase, steps)) ||
	       matches_one(condition,
			   kh_spelling_of_value(member,
						type ? KH_VALUE_TO_BLANK : KH_VALUE_TO_PARAMETERS),
			   FIELD, nocase, steps);
}

static bool member_matches(const struct kh_condition *condition, enum manner manner,
			   struct kh_slice member, struct kh_steps *steps)
{
	bool type = condition->kind == KH_CONDITION_CONTENT_TYPE;
	/* Media types are compared without case (RFC 9110 §8.3.1). */
	bool nocase = manner == DENIES || type;
	bool good = matches_one(condition, essence(member, type), AS_IS, nocase, steps);
	if (manner == DENIES_EXACTLY || is_plain_member(member))
		return good;
	if (manner == DENIES)
		return good || member_matches_loosely(condition, member, type, nocase, steps);
	/* No blank or quote is part of a media type. */
	return good && (!type || member_matches_loosely(condition, member, type, nocase, steps));
}

/* The members of a field's line, with commas between them: how many match, and how many don't. */
static void count_members(const struct kh_condition *condition, enum manner manner,
			  struct kh_slice line, size_t *good, size_t *bad, struct kh_steps *steps)
{
	for (size_t at = 0; at <= line.len && !kh_steps_are_over(steps);) {
		size_t comma = kh_slice_find(line, ',', at);
		steps->done += 16 + (comma - at);
		if (member_matches(condition, manner, kh_slice_sub(line, at, comma), steps))
			(*good)++;
		else
			(*bad)++;
		at = comma + 1;
	}
}

static bool fields_hold(const struct kh_condition *condition, enum manner manner,
			const struct kh_request_fields *fields, struct kh_steps *steps)
{
	struct kh_slice name, value, due = name_of(condition);
	size_t good = 0, bad = 0, at = 0;
	while (fields->next && !kh_steps_are_over(steps) &&
	       fields->next(fields->head, &at, &name, &value)) {
		bool exactly = kh_slice_eq_nocase(name, due);
		steps->done += 8 + (name.len == due.len ? 4 * due.len : 0);
		if (!exactly && !kh_spelling_is_field(name, due))
			continue;
		/* Some server takes it for the same, and others do not. */
		if (!exactly && manner == ALLOWS)
			return false;
		if (exactly || manner == DENIES)
			count_members(condition, manner, value, &good, &bad, steps);
	}
	return good > 0 && (bad == 0 || manner != ALLOWS);
}

static bool query_holds(const struct kh_condition *condition, enum manner manner,
			struct kh_slice query, struct kh_steps *steps)
{
	if (manner == ALLOWS)
		return query_allows(condition, query, steps);
	return manner == DENIES ? query_denies(condition, query, steps)
				: query_denies_exactly(condition, query, steps);
}

/* Of a path that a field names, nobody knows whether its own query goes with it or the request's,
 * and neither of what follows an escaped '?': both must hold for an allowance, and one is enough
 * for a denial. */
static bool queries_hold(const struct kh_condition *condition, enum manner manner,
			 const struct kh_request_view *request, const struct kh_reading_of *reading)
{
	const struct kh_overrides *named = request->overrides;
	bool allow = manner == ALLOWS;
	if (reading->any_path && (named->any_query || named->n_queries == 0))
		return !allow;
	bool holds = query_holds(condition, manner, request->query, reading->steps);
	for (size_t i = 0; reading->any_path && i < named->n_queries && holds == allow; i++)
		holds = query_holds(condition, manner, named->queries[i], reading->steps);
	if (reading->cut_query.ptr && holds == allow)
		holds = query_holds(condition, manner, reading->cut_query, reading->steps);
	if (reading->cut_query.ptr && holds == allow)
		holds = query_holds(condition, manner, request->path_cuts->query, reading->steps);
	return holds;
}

/* A parameter that stands for fields may set this one. */
static bool sets_any_field(const struct kh_request_view *request,
			   const struct kh_reading_of *reading)
{
	return reading->any_path && request->overrides->any_field;
}

static enum kh_mismatch miss(const struct kh_condition *condition, enum manner manner,
			     const struct kh_request_view *request,
			     const struct kh_reading_of *reading)
{
	bool good = false, allow = manner == ALLOWS;
	/* The server's own request, of whose query and fields nobody knows. */
	if (reading->source && condition->kind != KH_CONDITION_MODEL)
		return allow ? KH_OTHER_HEADERS : KH_MATCHES;
	switch (condition->kind) {
	case KH_CONDITION_QUERY:
		good = queries_hold(condition, manner, request, reading);
		return good ? KH_MATCHES : KH_OTHER_QUERY;
	case KH_CONDITION_HEADER:
		good = sets_any_field(request, reading)
			       ? !allow
			       : fields_hold(condition, manner, &request->fields, reading->steps);
		return good ? KH_MATCHES : KH_OTHER_HEADERS;
	case KH_CONDITION_CONTENT_TYPE:
		good = sets_any_field(request, reading)
			       ? !allow
			       : fields_hold(condition, manner, &request->fields, reading->steps);
		return good ? KH_MATCHES : KH_OTHER_CONTENT_TYPE;
	case KH_CONDITION_MODEL:
		/* A path that nobody knows may name any. */
		if (reading->any_path)
			return allow ? KH_OTHER_MODEL : KH_MATCHES;
		if (request->model_state == KH_MODEL_UNREAD)
			return KH_MODEL_NOT_READ;
		good = request->model_state == KH_MODEL_NAMED &&
		       matches_one(condition, request->model, AS_IS, !allow, reading->steps);
		return good ? KH_MATCHES : KH_OTHER_MODEL;
	case KH_CONDITION_NONE:
	case KH_CONDITION_KINDS:
		break;
	}
	/* There is no such condition: it holds for a denial and never for an allowance. */
	return allow ? KH_OTHER_HEADERS : KH_MATCHES;
}

static enum kh_mismatch conditions_miss(const struct kh_rule *rule, enum manner manner,
					const struct kh_request_view *request,
					const struct kh_reading_of *reading)
{
	const struct kh_rule_more *more = rule->more;
	enum kh_mismatch why = KH_MATCHES;
	for (size_t i = 0; more && i < more->n_conditions && why == KH_MATCHES; i++)
		why = miss(&more->conditions[i], manner, request, reading);
	if ((why == KH_MATCHES || why == KH_MODEL_NOT_READ) && more && more->has_max_body &&
	    request->has_length && request->length > more->max_body)
		why = KH_BODY_TOO_LARGE;
	return why;
}

enum kh_mismatch kh_rule_conditions_miss(const struct kh_rule *rule,
					 const struct kh_request_view *request,
					 const struct kh_reading_of *reading)
{
	enum manner manner = rule->allow ? ALLOWS : rule->exact_spelling ? DENIES_EXACTLY : DENIES;
	return conditions_miss(rule, manner, request, reading);
}

enum kh_mismatch kh_rule_conditions_miss_exactly(const struct kh_rule *rule,
						 const struct kh_request_view *request,
						 const struct kh_reading_of *reading)
{
	return conditions_miss(rule, DENIES_EXACTLY, request, reading);
}

enum { FIELD_STEPS = 8 }; /* to find a rule, or to compare a name, which mostly differs early */

static bool list_looks_at_field(const struct kh_index *index, size_t list,
				const struct kh_request_view *view, struct kh_slice name,
				struct kh_steps *steps)
{
	struct kh_host_keys keys;
	struct kh_index_walk walk;
	kh_index_find(index, view->host, &keys);
	kh_index_walk_begin(&walk, index, list, &keys);
	for (const struct kh_matcher *m; (m = kh_index_walk_next(&walk));) {
		const struct kh_rule_more *more = m->rule->more;
		steps->done += FIELD_STEPS + (more ? more->n_conditions * FIELD_STEPS : 0);
		if (kh_steps_are_over(steps))
			return true;
		if (!more || m->scheme != view->scheme || m->port != view->port)
			continue;
		for (size_t i = 0; i < more->n_conditions; i++) {
			const struct kh_condition *one = &more->conditions[i];
			if ((one->kind == KH_CONDITION_HEADER ||
			     one->kind == KH_CONDITION_CONTENT_TYPE) &&
			    kh_spelling_is_field(name, name_of(one)))
				return true;
		}
	}
	return false;
}

bool kh_policy_looks_at_field(const struct kh_policy *policy, uint16_t tenant,
			      const struct kh_narrowing *narrowing,
			      const struct kh_request_view *view, struct kh_slice name,
			      uint64_t *steps)
{
	struct kh_steps all = { *steps, KH_LIMIT_DECISION_STEPS };
	const struct kh_index *index = kh_policy_index(policy);
	if (tenant >= kh_policy_config(policy)->n_tenants) /* which of them do is not known */
		return true;
	bool looks = list_looks_at_field(index, KH_SITE_LIST, view, name, &all) ||
		     list_looks_at_field(index, kh_tenant_list(tenant), view, name, &all) ||
		     (narrowing &&
		      list_looks_at_field(narrowing->index, narrowing->list, view, name, &all));
	*steps = all.done;
	return looks;
}
