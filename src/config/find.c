/* find.c - looks things up in a configuration: by name, by host, by tenant */
#include "config_internal.h"

const struct kh_cidr *kh_config_allowed_addresses(const struct kh_config *config, size_t tenant,
						  size_t *n)
{
	if (tenant < config->n_tenants && config->tenants[tenant].n_allow_addresses > 0) {
		*n = config->tenants[tenant].n_allow_addresses;
		return config->tenants[tenant].allow_addresses;
	}
	*n = config->n_allow_addresses;
	return config->allow_addresses;
}

int kh_config_tenant(const struct kh_config *config, const char *name)
{
	return kh_names_find(config, KH_NAMES_TENANTS, kh_slice_str(name));
}

int kh_config_sandbox(const struct kh_config *config, const char *id)
{
	return kh_names_find(config, KH_NAMES_SANDBOXES, kh_slice_str(id));
}

int kh_config_credential(const struct kh_config *config, struct kh_slice name)
{
	return kh_names_find(config, KH_NAMES_CREDENTIALS, name);
}

int kh_config_proxy_password(const struct kh_config *config)
{
	for (size_t i = 0; i < config->n_credentials; i++)
		if (config->credentials[i].of_proxy)
			return (int)i;
	return -1;
}

const struct kh_pin *kh_config_pin(const struct kh_config *config, uint16_t tenant,
				   const struct kh_host *host)
{
	const struct kh_pin *of_site = NULL;
	for (size_t i = 0; i < config->n_pins; i++) {
		const struct kh_pin *pin = &config->pins[i];
		if (!kh_host_eq(&pin->host, host))
			continue;
		if (pin->tenant == KH_NO_TENANT)
			of_site = pin;
		else if (pin->tenant == tenant)
			return pin;
	}
	return of_site;
}

bool kh_config_goes_by_proxy(const struct kh_config *config, uint16_t tenant,
			     const struct kh_host *host)
{
	const struct kh_proxy_config *proxy = &config->proxy;
	if (proxy->host.kind == KH_HOST_NONE || kh_config_pin(config, tenant, host))
		return false;
	for (size_t i = 0; i < proxy->n_no_proxy; i++)
		if (kh_host_pattern_matches(&proxy->no_proxy[i], host))
			return false;
	return true;
}
