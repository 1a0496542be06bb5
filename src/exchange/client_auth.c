/*
 * client_auth.c - the authentication that a client in the sandbox sends itself
 *
 * All of it is taken out where a credential goes in (see kh_request_forwards and
 * kh_request_put_target). It is refused where none does, unless the rule lets it pass.
 */

#include "exchange_internal.h"

static void note_stripped(struct kh_exchange *x, struct kh_slice name)
{
	size_t used = strlen(x->stripped);

	snprintf(x->stripped + used, sizeof(x->stripped) - used, "%s%s", used ? "," : "",
		 kh_esc(name));
}

struct kh_slice kh_client_auth_find(const struct kh_exchange *x)
{
	struct kh_slice found =
		kh_carrier_find_but(x->message, x->target.query, kh_auth_field(x->side));

	return found.len > 0 ? found : kh_carrier_find_in_query(x->target.path_cuts.query);
}

bool kh_client_auth_settle(struct kh_exchange *x, struct kh_err *err)
{
	struct kh_slice for_us = kh_auth_field(x->side);
	struct kh_slice found = kh_client_auth_find(x);
	struct kh_slice rest = x->target.query, name, value;

	bool none = x->injection.count == 0;
	struct kh_slice in_path = kh_carrier_find_in_query(x->target.path_cuts.query);

	if (in_path.len > 0 && !none)
		return kh_err_set(err, KH_ERR_CLIENT_AUTH,
				  "the path has authentication after an escaped '?' or '#' (%s), "
				  "where it can't be taken out (remove it from the request)",
				  kh_esc(in_path));
	for (size_t i = 0; i < x->message->n_fields; i++)
		if (kh_content_drops_field(x, x->message->fields[i].name))
			note_stripped(x, x->message->fields[i].name);
	if (found.len == 0 || (none && kh_decision_passes_auth(&x->decision)))
		return true;
	if (none && kh_exchange_observe(x, KH_ERR_CLIENT_AUTH, x->decision.rule))
		return true;
	if (none)
		return kh_err_set(err, KH_ERR_CLIENT_AUTH,
				  "%s carries authentication, and the rule '%s' neither sets a "
				  "credential nor has client_auth: pass (remove it from the "
				  "request)",
				  kh_esc(found), x->decision.rule->text);
	for (size_t i = 0; i < x->message->n_fields; i++)
		if (kh_carrier_is_in_path_field(&x->message->fields[i]) ||
		    (kh_carrier_is_field(x->message->fields[i].name) &&
		     !kh_slice_eq_nocase(x->message->fields[i].name, for_us)))
			note_stripped(x, x->message->fields[i].name);
	if (kh_carrier_is_among_protocols(x->message))
		note_stripped(x, KH_SLICE("sec-websocket-protocol"));
	while (rest.ptr && kh_query_next(&rest, &name, &value))
		if (kh_request_drops_parameter(x, name))
			note_stripped(x, name);
	return true;
}
