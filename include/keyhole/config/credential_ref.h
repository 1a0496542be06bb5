/* credential_ref.h - names one value of a credential, between worker and keeper */
#ifndef KEYHOLE_CONFIG_CREDENTIAL_REF_H
#define KEYHOLE_CONFIG_CREDENTIAL_REF_H

#include <keyhole/config/config.h>
#include <keyhole/base/wire.h>

/*
 * A credential may have several values: one per tenant (`value: { tenants: … }`), and one per
 * scope, if a value is made for a part of what the credential opens: "20261122/us-east-1/s3",
 * "owner/repo". The empty scope is all of it.
 */
struct kh_credential_ref {
	uint16_t index;	 /* into kh_config.credentials */
	uint16_t tenant; /* into kh_config.tenants, or KH_NO_TENANT */
	struct kh_slice scope;
};

/* The number of the sandbox that is charged for a value, between worker and keeper (0: nobody): the
 * index of its listener and one; or, with this bit, the number of a dynamic sandbox. */
#define KH_ASKER_DYNAMIC (UINT64_C(1) << 63)

/* Is it at most KH_LIMIT_SCOPE_BYTES of visible ASCII, without quote and backslash? Whether it
 * means something is checked by the code that makes the value. */
bool kh_credential_ref_scope_is_good(struct kh_slice scope);
bool kh_credential_ref_put(struct kh_buf *out, const struct kh_credential_ref *ref);
/* The scope is a view of the bytes read. Return: false: malformed, or the scope is not valid. The
 * caller checks whether index and tenant exist. */
bool kh_credential_ref_take(struct kh_wire_reader *r, struct kh_credential_ref *out);

#endif
