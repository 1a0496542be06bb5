/*
 * reading.c - the ways in which a server may read a request
 *
 * A reading is a combination of: the path with %2F as it is, with %2F as '/', or decoded further,
 * each also cut at an escaped '?' or '#', or a path that a field names; the method of the request
 * line, or an override; the host, the address that it embeds, or a host that a field names. One
 * more reading is a GET of the copy source. keyhole can't know which reading the server takes, so
 * all must be allowed, and with the same effect.
 */
#include "policy_internal.h"

#include <string.h>

enum { AS_IT_IS, SLASHED, DECODED, CUT, SOURCE = CUT + KH_PATH_CUTS, UNKNOWN, N_PATHS };
_Static_assert((int)UNKNOWN == (int)KH_READING_PATHS, "all others are known paths");

static bool is_cut(size_t nth)
{
	return nth >= CUT && nth < SOURCE;
}

static bool has_path(const struct kh_request_view *request, const struct kh_reading_of *r)
{
	size_t nth = r->nth_path;
	/* Once: it is a request of its own. */
	if (nth == SOURCE)
		return r->nth_method == 0 && r->nth_host == 0 && request->overrides &&
		       request->overrides->source != KH_COPY_NONE;
	if (is_cut(nth))
		return request->path_cuts && nth - CUT < request->path_cuts->n;
	return nth == AS_IT_IS || (nth == SLASHED && request->path_slashed.ptr) ||
	       (nth == DECODED && request->path_decoded.ptr) ||
	       (nth == UNKNOWN && request->overrides && request->overrides->path);
}

/* The host of that number behind the request's own: what its address carries, then what fields
 * name. Return: false when there are no more. */
static bool take_host(const struct kh_request_view *request, struct kh_reading_of *r)
{
	uint8_t v4[2][4];
	const struct kh_overrides *overrides = request->overrides;
	size_t nth = r->nth_host - 1;
	size_t n = request->host->kind == KH_HOST_IPV6 ? kh_address_carried(request->host->addr, v4)
						       : 0;
	r->respelled = nth < n;
	if (nth < n) {
		kh_host_of_v4(&r->carried, v4[nth]);
		r->host = &r->carried;
		return true;
	}
	nth -= n;
	if (!overrides || nth >= overrides->n_hosts + overrides->any_host)
		return false;
	r->no_host = nth == overrides->n_hosts;
	r->host = r->no_host ? request->host : &overrides->hosts[nth].host;
	r->port = !r->no_host && overrides->hosts[nth].port ? overrides->hosts[nth].port
							    : request->port;
	return true;
}

static void fill(const struct kh_request_view *request, struct kh_reading_of *r)
{
	static const enum kh_reading names[N_PATHS] = { [SLASHED] = KH_READ_SLASHED,
							[DECODED] = KH_READ_DECODED,
							[SOURCE] = KH_READ_SOURCE,
							[UNKNOWN] = KH_READ_OTHER_PATH };
	bool carried = r->host == &r->carried;
	r->how = r->nth_host	       ? carried ? KH_READ_OTHER_ADDRESS : KH_READ_OTHER_HOST
		 : r->nth_method       ? KH_READ_OTHER_METHOD
		 : is_cut(r->nth_path) ? KH_READ_CUT
				       : names[r->nth_path];
	r->method = r->nth_method ? kh_slice_str(request->overrides->methods[r->nth_method - 1])
				  : request->method;
	r->any_method = r->nth_method && kh_slice_eq(r->method, KH_SLICE(KH_OVERRIDING_ANY));
	r->path = r->nth_path == SLASHED   ? request->path_slashed
		  : r->nth_path == DECODED ? request->path_decoded
					   : request->path;
	r->cut_query = kh_slice_of(NULL, 0);
	if (is_cut(r->nth_path)) {
		r->path = request->path_cuts->list[r->nth_path - CUT].path;
		r->cut_query = request->path_cuts->list[r->nth_path - CUT].query;
	}
	r->any_path = r->nth_path == UNKNOWN;
	r->respelled =
		carried || r->nth_path == SLASHED || r->nth_path == DECODED || is_cut(r->nth_path);
	r->source = r->nth_path == SOURCE;
	if (!r->source) {
		r->no_host = r->no_host && r->nth_host > 0;
		return;
	}
	r->method = KH_SLICE("GET");
	r->no_host = request->overrides->source != KH_COPY_READ;
	if (!r->no_host)
		r->path = kh_slice_of(request->overrides->source_path,
				      request->overrides->source_len);
}

void kh_reading_begin(const struct kh_request_view *request, struct kh_reading_of *out)
{
	/* `carried` stays as it is: it is large. */
	out->how = KH_READ_PLAIN;
	out->any_method = out->any_path = out->no_host = out->respelled = out->source = false;
	out->port = request->port;
	out->method = request->method;
	out->path = request->path;
	out->cut_query = kh_slice_of(NULL, 0);
	out->host = request->host;
	out->nth_method = out->nth_path = out->nth_host = 0;
}

bool kh_reading_next(const struct kh_request_view *request, struct kh_reading_of *reading)
{
	size_t n_methods = request->overrides ? request->overrides->n_methods : 0;
	do {
		if (++reading->nth_path < N_PATHS)
			continue;
		reading->nth_path = AS_IT_IS;
		if (++reading->nth_method <= n_methods)
			continue;
		reading->nth_method = 0;
		reading->nth_host++;
		if (!take_host(request, reading))
			return false;
	} while (!has_path(request, reading));
	fill(request, reading);
	return true;
}

const char *kh_reading_text(enum kh_reading reading)
{
	switch (reading) {
	case KH_READ_PLAIN:
		return "";
	case KH_READ_SLASHED:
		return "%2F read as /";
	case KH_READ_OTHER_METHOD:
		return "the method that a field or parameter of it asks for";
	case KH_READ_OTHER_PATH:
		return "the path that a field or parameter of it asks for";
	case KH_READ_DECODED:
		return "its path decoded further";
	case KH_READ_CUT:
		return "its path cut at an escaped ? or #";
	case KH_READ_OTHER_ADDRESS:
		return "the IPv4 address that its address carries";
	case KH_READ_OTHER_HOST:
		return "the host that a field or parameter of it names";
	case KH_READ_SOURCE:
		return "what a field or parameter of it has the server read";
	case KH_READ_METHOD_CASE:
		return "its method read without case";
	case KH_READ_PATH_SPELLING:
		return "its path read without case and escapes";
	case KH_READ_QUERY_SPELLING:
		return "its query read without case and escapes";
	case KH_READ_FIELD_SPELLING:
		return "its fields read without case, quotes and parameters, and '_' as '-'";
	case KH_READ_RESOLVED:
		return "an address that its host resolves into";
	}
	return "";
}

static bool has_method(const struct kh_rule *rule, struct kh_slice method,
		       bool same(struct kh_slice, struct kh_slice))
{
	for (size_t i = 0; i < rule->n_methods; i++)
		if (same(kh_slice_str(rule->methods[i]), method))
			return true;
	return rule->n_methods == 0;
}

static bool same_bytes(struct kh_slice a, struct kh_slice b)
{
	return kh_slice_eq(a, b);
}

static bool same_letters(struct kh_slice a, struct kh_slice b)
{
	return kh_slice_eq_nocase(a, b);
}

enum kh_reading kh_reading_of_denial(const struct kh_rule *rule,
				     const struct kh_request_view *request,
				     const struct kh_reading_of *reading)
{
	if (rule->allow || rule->exact_spelling || reading->how != KH_READ_PLAIN)
		return reading->how;
	if (!has_method(rule, reading->method, same_bytes))
		return KH_READ_METHOD_CASE;
	if (rule->path && !kh_path_matches(kh_slice_str(rule->path), reading->path))
		return KH_READ_PATH_SPELLING;
	switch (kh_rule_conditions_miss_exactly(rule, request, reading)) {
	case KH_OTHER_QUERY:
		return KH_READ_QUERY_SPELLING;
	case KH_OTHER_HEADERS:
	case KH_OTHER_CONTENT_TYPE:
		return KH_READ_FIELD_SPELLING;
	case KH_MATCHES:
	case KH_OTHER_SCHEME:
	case KH_OTHER_HOST:
	case KH_OTHER_PORT:
	case KH_OTHER_METHOD:
	case KH_OTHER_PATH:
	case KH_BODY_TOO_LARGE:
	case KH_OTHER_MODEL:
	case KH_MODEL_NOT_READ:
	case KH_OTHER_SPELLING:
		break;
	}
	return KH_READ_PLAIN;
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
	       a->closes_after_content == b->closes_after_content &&
	       a->client_auth_pass == b->client_auth_pass &&
	       a->all_credentials == b->all_credentials && a->n_credentials == b->n_credentials &&
	       memcmp(a->credentials, b->credentials,
		      a->n_credentials * sizeof(a->credentials[0])) == 0;
}

const struct kh_rule *kh_reading_both(const struct kh_rule *one, const struct kh_rule *other,
				      const struct kh_reading_of *reading)
{
	if (!one || !one->allow)
		return one;
	if (other && !other->allow)
		return other;
	if (reading->nth_host > 0 && reading->host != &reading->carried)
		return other == one && !reading->no_host ? one : NULL;
	if (reading->source && reading->no_host)
		return NULL;
	if (one->exact_spelling && reading->respelled)
		return one;
	return other && same_effect(one, other) ? one : NULL;
}

bool kh_rule_holds_for_method(const struct kh_rule *rule, const struct kh_reading_of *reading)
{
	bool common = kh_rule_has_common_methods_only(rule);
	if (reading->any_method)
		return !rule->allow || (rule->n_methods == 0 && !common);
	if (common)
		return (kh_policy_method_bit(reading->method) & KH_CREDENTIAL_METHODS) != 0;
	return has_method(rule, reading->method,
			  rule->allow || rule->exact_spelling ? same_bytes : same_letters);
}

bool kh_rule_holds_for_any_path(const struct kh_rule *rule)
{
	return !rule->allow || !rule->path || strcmp(rule->path, "/**") == 0;
}
