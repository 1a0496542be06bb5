/* trailers.c - fields behind the content of a request: what may go of them */

#include "proxy_internal.h"

/* What may not stand in the head does not come in behind the content. */
static bool may_trail(const struct kh_exchange *x, struct kh_slice name)
{
	if (kh_content_drops_field(x, name))
		return false;
	if (x->injection.count > 0)
		return !kh_carrier_is_field(name) && !kh_injection_sets_field(&x->injection, name);
	return x->decision.rule->client_auth_pass || !kh_carrier_is_field(name);
}

bool kh_exchange_trailers(const struct kh_exchange *x, const struct kh_field *trailers, size_t n,
			  struct kh_field kept[KH_LIMIT_FIELDS], size_t *n_kept, struct kh_err *err)
{
	*n_kept = 0;
	for (size_t i = 0; i < n && *n_kept < KH_LIMIT_FIELDS; i++) {
		if (!may_trail(x, trailers[i].name))
			continue;
		if (!kh_trailer_may_go(x, &trailers[i], err))
			return false;
		kept[(*n_kept)++] = trailers[i];
	}
	return true;
}
