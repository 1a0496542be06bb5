/* snapshot_admin.c - who may use the admin socket, in the worker's snapshot */
#include "snapshot_internal.h"

enum { MOST_GRANTS = 65536 };

bool kh_put_grants(struct kh_buf *out, const struct kh_admin_config *admin)
{
	bool ok = kh_wire_put_u32(out, (uint32_t)admin->n_grants);
	for (size_t i = 0; ok && i < admin->n_grants; i++) {
		const struct kh_admin_grant *grant = &admin->grants[i];
		ok = kh_wire_put_u32(out, grant->uid) &&
		     kh_wire_put_u32(out, (uint32_t)grant->n_tenants);
		for (size_t j = 0; ok && j < grant->n_tenants; j++)
			ok = kh_wire_put_u16(out, grant->tenants[j]);
	}
	return ok;
}

void kh_in_grants(struct kh_snapshot_in *in, struct kh_admin_config *admin)
{
	uint32_t n = kh_wire_count(&in->r, MOST_GRANTS);
	for (uint32_t i = 0; i < n && !in->r.bad; i++) {
		struct kh_admin_grant *grant =
			kh_in_add(in, &admin->grants, &admin->n_grants, sizeof(*grant));
		if (!grant)
			return;
		grant->uid = kh_wire_u32(&in->r);
		uint32_t tenants = kh_wire_count(&in->r, UINT16_MAX);
		for (uint32_t j = 0; j < tenants && !in->r.bad; j++) {
			uint16_t *slot =
				kh_in_add(in, &grant->tenants, &grant->n_tenants, sizeof(*slot));
			if (slot)
				*slot = kh_wire_u16(&in->r);
			if (slot && *slot >= in->config->n_tenants)
				in->r.bad = true;
		}
	}
}
