/*
 * reading.c - the ways in which a server may read a request
 *
 * Its path with %2F as it is and as '/'; the method of its line and those that it asks to be taken
 * for; its path, or one that a field names. Nobody here knows which of them the server takes, so
 * all must be allowed, and alike.
 */
#include "policy_internal.h"

#include <string.h>

enum { AS_IT_IS, SLASHED, UNKNOWN, N_PATHS };

static bool has_path(const struct kh_request_view *request, size_t nth)
{
	return nth == AS_IT_IS || (nth == SLASHED && request->path_slashed.ptr) ||
	       (nth == UNKNOWN && request->overrides && request->overrides->path);
}

static void fill(const struct kh_request_view *request, struct kh_reading_of *r)
{
	static const enum kh_reading names[N_PATHS] = { KH_READ_PLAIN, KH_READ_SLASHED,
							KH_READ_OTHER_PATH };
	r->how = r->nth_method ? KH_READ_OTHER_METHOD : names[r->nth_path];
	r->method = r->nth_method ? kh_slice_str(request->overrides->methods[r->nth_method - 1])
				  : request->method;
	r->any_method = r->nth_method && kh_slice_eq(r->method, KH_SLICE(KH_OVERRIDING_ANY));
	r->path = r->nth_path == SLASHED ? request->path_slashed : request->path;
	r->any_path = r->nth_path == UNKNOWN;
}

void kh_reading_begin(const struct kh_request_view *request, struct kh_reading_of *out)
{
	*out = (struct kh_reading_of){ .method = request->method, .path = request->path };
}

bool kh_reading_next(const struct kh_request_view *request, struct kh_reading_of *reading)
{
	size_t n_methods = request->overrides ? request->overrides->n_methods : 0;
	do {
		if (++reading->nth_path < N_PATHS)
			continue;
		if (++reading->nth_method > n_methods)
			return false;
		reading->nth_path = AS_IT_IS;
	} while (!has_path(request, reading->nth_path));
	fill(request, reading);
	return true;
}

static bool has_limits(const struct kh_rule *rule)
{
	return rule->more && rule->more->limits;
}

static bool same_max_body(const struct kh_rule *a, const struct kh_rule *b)
{
	bool of_a = a->more && a->more->has_max_body, of_b = b->more && b->more->has_max_body;
	return of_a == of_b && (!of_a || a->more->max_body == b->more->max_body);
}

static bool same_effect(const struct kh_rule *a, const struct kh_rule *b)
{
	if (a != b && (has_limits(a) || has_limits(b)))
		return false; /* which of them would count it? */
	return kh_geo_rules_eq(kh_rule_geo(a), kh_rule_geo(b)) && same_max_body(a, b) &&
	       a->passthrough == b->passthrough && a->no_websocket == b->no_websocket &&
	       a->placeholder_refuse == b->placeholder_refuse &&
	       a->client_auth_pass == b->client_auth_pass &&
	       a->all_credentials == b->all_credentials && a->n_credentials == b->n_credentials &&
	       memcmp(a->credentials, b->credentials,
		      a->n_credentials * sizeof(a->credentials[0])) == 0;
}

const struct kh_rule *kh_both_readings(const struct kh_rule *one, const struct kh_rule *other)
{
	if (!one || !one->allow)
		return one;
	if (other && !other->allow)
		return other;
	return other && same_effect(one, other) ? one : NULL;
}

bool kh_rule_holds_for_method(const struct kh_rule *rule, const struct kh_reading_of *reading)
{
	if (reading->any_method)
		return !rule->allow || rule->n_methods == 0;
	for (size_t i = 0; i < rule->n_methods; i++)
		if (kh_slice_eq(kh_slice_str(rule->methods[i]), reading->method))
			return true;
	return rule->n_methods == 0;
}

bool kh_rule_holds_for_any_path(const struct kh_rule *rule)
{
	return !rule->allow || !rule->path || strcmp(rule->path, "/**") == 0;
}
