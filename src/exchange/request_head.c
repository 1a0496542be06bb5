/*
 * request_head.c - the head that goes upstream, as it was decided
 *
 * It chooses which fields are forwarded and where the credential goes. The connection's codec
 * writes them.
 */

#include <keyhole/credential/re_sign.h>

#include "exchange_internal.h"
#include "websocket_internal.h"
#include "signing.h"

bool kh_request_put_target(const struct kh_exchange *x, struct kh_buf *out, struct kh_err *err)
{
	if (x->signing)
		return kh_signing_put_target(x, out) ||
		       kh_err_set(err, KH_ERR_REQUEST_URI_TOO_LONG,
				  "the target does not fit into what may be sent upstream");
	return kh_injection_put_target(&x->injection, x->target.raw, out, err);
}

bool kh_request_target_is_secret(const struct kh_exchange *x)
{
	return kh_injection_sets_target(&x->injection) || kh_signing_sets_target(x);
}

bool kh_request_put_credentials(const struct kh_exchange *x, struct kh_buf *out, struct kh_err *err)
{
	return kh_injection_put_fields(&x->injection, out, err) &&
	       (kh_signing_put_fields(x, out) ||
		kh_err_set(err, KH_ERR_REQUEST_HEAD_TOO_LARGE,
			   "the head does not fit into what may be sent upstream"));
}

bool kh_request_put_authority(const struct kh_exchange *x, struct kh_buf *out)
{
	return kh_authority_format(out, &x->authority, kh_scheme_port(x->scheme));
}

bool kh_request_forwards(const struct kh_exchange *x, const struct kh_field *field)
{
	if (kh_message_is_hop_field(x->message, field) ||
	    kh_slice_eq_nocase(field->name, KH_SLICE("host")) || /* written from the authority */
	    kh_ws_is_handshake_field(field->name))		 /* written by us where it is due */
		return false;
	if (x->continued && kh_slice_eq_nocase(field->name, KH_SLICE("expect")))
		return false;
	if (kh_content_drops_field(x, field->name))
		return false;
	return x->injection.count == 0 ||
	       (!kh_carrier_is_field(field->name) && !kh_carrier_is_in_path_field(field) &&
		!kh_injection_sets_field(&x->injection, field->name));
}

bool kh_request_drops_parameter(const struct kh_exchange *x, struct kh_slice name)
{
	bool re_signed = false;

	for (size_t i = 0; i < x->injection.count; i++) {
		const struct kh_placement *placement = x->injection.list[i].credential->placement;
		re_signed = re_signed || (placement && placement->kind == KH_PLACEMENT_SIGV4);
	}
	return re_signed ? kh_re_sign_drops_parameter(name)
			 : x->injection.count > 0 && kh_carrier_is_query(name);
}
