/* credential_ref.c - encodes and decodes the name of one value of a credential */

#include <keyhole/base/limits.h>
#include <keyhole/config/credential_ref.h>

bool kh_credential_ref_scope_is_good(struct kh_slice scope)
{
	if (scope.len > KH_LIMIT_SCOPE_BYTES)
		return false;
	for (size_t i = 0; i < scope.len; i++) {
		char c = scope.ptr[i];
		if (c <= ' ' || c > '~' || c == '"' || c == '\\')
			return false;
	}
	return true;
}

bool kh_credential_ref_put(struct kh_buf *out, const struct kh_credential_ref *ref)
{
	return kh_wire_put_u16(out, ref->index) && kh_wire_put_u16(out, ref->tenant) &&
	       kh_wire_put_bytes(out, ref->scope);
}

bool kh_credential_ref_take(struct kh_wire_reader *r, struct kh_credential_ref *out)
{
	out->index = kh_wire_u16(r);
	out->tenant = kh_wire_u16(r);
	out->scope = kh_wire_bytes(r);
	return !r->bad && kh_credential_ref_scope_is_good(out->scope);
}
