/* placeholders.c - the placeholders that a sandbox gets instead of the values of its rules */

#include "keeper_internal.h"

#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/credential/credential.h>

/* Of values of several tenants only the shape that all have, and no length: no tenant learns more
 * of another's. */
static void see_of_tenants(const struct kh_vault_slot *slot, struct kh_placeholder *placeholder)
{
	for (size_t i = 0; i < slot->n_holdings; i++) {
		struct kh_placeholder one = { .seen = KH_SHAPE_NONE };
		kh_placeholder_see(&one, slot->holdings[i].raw.secret);
		if (i == 0)
			placeholder->seen = one.seen;
		else if (placeholder->seen != one.seen)
			placeholder->seen = KH_SHAPE_GENERIC;
	}
	placeholder->seen_len = 0;
}

/* A token that is made of the value looks like itself and not like the value. */
void kh_vault_see(const struct kh_vault *vault)
{
	for (size_t i = 0; vault->slots && i < vault->config->n_credentials; i++) {
		const struct kh_vault_slot *slot = &vault->slots[i];
		struct kh_credential_config *credential = &vault->config->credentials[i];
		if (credential->mint || slot->n_holdings == 0)
			continue;
		if (credential->by_tenant)
			see_of_tenants(slot, &credential->placeholder);
		else
			kh_placeholder_see(&credential->placeholder, slot->holdings[0].raw.secret);
	}
}

static bool add_placeholder(const char *variable, const char *value, void *arg)
{
	struct kh_ready *ready = arg;
	struct kh_ready_placeholder *p = &ready->placeholders[ready->n_placeholders];
	p->env_name = strdup(variable);
	p->value = strdup(value);
	ready->n_placeholders++;
	return p->env_name && p->value;
}

bool kh_vault_placeholders(const struct kh_vault *vault, struct kh_ready *ready, struct kh_err *err)
{
	const struct kh_config *config = vault->config;
	if (config->n_credentials == 0 || config->n_listeners == 0)
		return true;
	kh_vault_see(vault);
	/* One may have two. */
	ready->placeholders = calloc(2 * config->n_credentials, sizeof(*ready->placeholders));
	const struct kh_listener_config *sandbox = &config->listeners[0];
	if (!ready->placeholders)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "placeholders: no memory");
	return kh_placeholders_each(config, sandbox->tenant, kh_listener_placeholder_name(sandbox),
				    add_placeholder, ready, err) ||
	       (err && err->code != KH_ERR_NONE
			? false
			: kh_err_set(err, KH_ERR_NO_MEMORY, "placeholders: no memory"));
}
