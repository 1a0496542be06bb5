/* credential_ref.h - which value of a credential: what the worker asks for and the keeper answers
 */
#ifndef KEYHOLE_CONFIG_CREDENTIAL_REF_H
#define KEYHOLE_CONFIG_CREDENTIAL_REF_H

#include <keyhole/config/config.h>
#include <keyhole/base/wire.h>

/*
 * A credential may have more values than one: one a tenant (`value: { tenants: … }`), and one a
 * scope, where it is made for a part of what it opens: "20261122/us-east-1/s3", "owner/repo". The
 * empty scope is all of it.
 */
struct kh_credential_ref {
	uint16_t index;	 /* into kh_config.credentials */
	uint16_t tenant; /* into kh_config.tenants, or KH_NO_TENANT */
	struct kh_slice scope;
};

/* At most KH_LIMIT_SCOPE_BYTES of visible ASCII, no quote and no backslash. What it means is looked
 * at by who makes the value. */
bool kh_credential_ref_scope_is_good(struct kh_slice scope);
bool kh_credential_ref_put(struct kh_buf *out, const struct kh_credential_ref *want);
/* The scope is a view of what is read. Return: false where it does not fit, or the scope is none;
 * whether index and tenant exist is the caller's to say. */
bool kh_credential_ref_take(struct kh_wire_reader *r, struct kh_credential_ref *out);

#endif
