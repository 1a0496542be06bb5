/*
 * credential_presence.c - does a credential have a value? Set by the keeper, read by rules and
 * pages
 */
#include <stdlib.h>

#include "value_internal.h"

static int by_index(const void *a, const void *b)
{
	const struct kh_tenant_presence *one = a, *other = b;

	return one->tenant < other->tenant ? -1 : one->tenant > other->tenant;
}

bool kh_credential_make_presence(struct kh_credential_config *credential)
{
	for (size_t i = 0; credential->by_tenant && i < credential->n_sources; i++) {
		struct kh_tenant_presence *one =
			kh_list_add(&credential->tenants, &credential->n_tenants, sizeof(*one));

		if (!one)
			return false;
		one->tenant = credential->sources[i].whose;
	}
	if (credential->n_tenants > 0)
		qsort(credential->tenants, credential->n_tenants, sizeof(*credential->tenants),
		      by_index);
	return true;
}

static struct kh_tenant_presence *find(const struct kh_credential_config *credential,
				       uint16_t tenant)
{
	const struct kh_tenant_presence wanted = { .tenant = tenant };

	return credential->n_tenants == 0
		       ? NULL
		       : bsearch(&wanted, credential->tenants, credential->n_tenants,
				 sizeof(wanted), by_index);
}

bool kh_credential_is_present(const struct kh_credential_config *credential, uint16_t tenant)
{
	if (!credential->by_tenant)
		return credential->present;

	const struct kh_tenant_presence *own = find(credential, tenant);

	return own && own->present;
}

bool kh_credential_is_for(const struct kh_credential_config *credential, uint16_t tenant)
{
	return !credential->by_tenant || find(credential, tenant);
}

bool kh_credential_is_present_for_any(const struct kh_credential_config *credential)
{
	for (size_t i = 0; credential->by_tenant && i < credential->n_tenants; i++)
		if (credential->tenants[i].present)
			return true;
	return !credential->by_tenant && credential->present;
}

bool kh_credential_set_present(struct kh_credential_config *credential, uint16_t tenant,
			       bool present)
{
	struct kh_tenant_presence *own = find(credential, tenant);
	bool *slot = !credential->by_tenant ? &credential->present : own ? &own->present : NULL;

	if (!slot || *slot == present)
		return false;
	*slot = present;
	return true;
}
