/*
 * asker.c - the sandbox that a worker charges for a value
 *
 * Shares and rates of values for scopes are counted per sandbox and per tenant (scopes.c). A worker
 * that was taken over can charge any sandbox, but only one that exists, and always with the tenant
 * that it belongs to. What it charges to unknown sandboxes is counted together.
 */
#include "keeper_internal.h"

#include <keyhole/base/lru.h>

/* The tenant of that dynamic sandbox; -1: there is none, or the configuration has it no more. */
static int tenant_of_dynamic(const struct kh_worker_process *worker_process, uint64_t number)
{
	const struct kh_registry *reg = worker_process->dynamic_sandboxes;
	const struct kh_registry_entry *entry =
		reg ? kh_lru_get(reg->by_number, kh_slice_of((const char *)&number, sizeof(number)))
		    : NULL;
	return entry ? kh_config_tenant(worker_process->config, entry->wish.tenant) : -1;
}

struct kh_fair_share_asker kh_worker_process_asker(const struct kh_worker_process *worker_process,
						   uint64_t number, uint16_t tenant)
{
	const struct kh_config *config = worker_process->config;
	const struct kh_fair_share_asker nobody = { KH_FAIR_SHARE_NOBODY, tenant < config->n_tenants
										  ? tenant
										  : KH_NO_TENANT };

	if (number & KH_ASKER_DYNAMIC) {
		int index = tenant_of_dynamic(worker_process, number & ~KH_ASKER_DYNAMIC);
		return index < 0 ? nobody : (struct kh_fair_share_asker){ number, (uint16_t)index };
	}
	if (number == KH_FAIR_SHARE_NOBODY || number > config->n_listeners)
		return nobody;
	return (struct kh_fair_share_asker){ number, config->listeners[number - 1].tenant };
}

size_t kh_worker_process_sandboxes(const struct kh_worker_process *worker_process, uint16_t tenant)
{
	const struct kh_config *config = worker_process->config;
	size_t n = 0;

	if (tenant >= config->n_tenants)
		return 0;
	for (size_t i = 0; i < config->n_listeners; i++)
		n += config->listeners[i].tenant == tenant;
	const struct kh_registry *reg = worker_process->dynamic_sandboxes;
	const struct kh_registry_share *share =
		reg ? kh_lru_get(reg->by_tenant, kh_slice_str(config->tenants[tenant].name)) : NULL;
	return n + (share ? share->count : 0);
}
