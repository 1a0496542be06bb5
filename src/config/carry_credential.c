/* carry_credential.c - credentials in the snapshot: names, bindings, placeholders */
#include "carry.h"

#include <keyhole/base/limits.h>

void kh_carry_hosts(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	struct kh_credential_config *credential = base;
	(void)option;
	kh_carry_list(c, &credential->hosts, &credential->n_hosts, sizeof(*credential->hosts),
		      KH_CARRY_LISTED, kh_carry_pattern);
	for (size_t i = 0; i < credential->n_hosts; i++)
		kh_carry_demand(c, credential->hosts[i].match != KH_MATCH_ANY);
}

/* A binding that was lost on the way would bind to nothing: each text is looked at again. */
static bool is_path(const char *text)
{
	struct kh_buf normal;
	kh_buf_init(&normal, KH_LIMIT_LINE_BYTES);
	bool good = !kh_binding_path_fault(kh_slice_str(text), &normal) &&
		    kh_slice_eq(kh_buf_view(&normal), kh_slice_str(text));
	kh_buf_fini(&normal);
	return good;
}

void kh_carry_paths(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	struct kh_credential_config *credential = base;
	(void)option;
	kh_carry_list(c, &credential->paths, &credential->n_paths, sizeof(char *), KH_CARRY_LISTED,
		      kh_carry_list_name);
	for (size_t i = 0; kh_carry_reads(c) && i < credential->n_paths && !c->in.bad; i++)
		kh_carry_demand(c, is_path(credential->paths[i]));
}

void kh_carry_methods(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	struct kh_credential_config *credential = base;
	(void)option;
	kh_carry_list(c, &credential->methods, &credential->n_methods, sizeof(char *),
		      KH_CARRY_LISTED, kh_carry_list_name);
	for (size_t i = 0; kh_carry_reads(c) && i < credential->n_methods && !c->in.bad; i++)
		kh_carry_demand(c, !kh_binding_method_fault(kh_slice_str(credential->methods[i])));
}

static void carry_presence(struct kh_carrier *c, void *element)
{
	struct kh_tenant_presence *one = element;
	kh_carry_u16(c, &one->tenant);
	kh_carry_bool(c, &one->present);
}

/* It is searched by halves, so it has to be in order. */
static void carry_tenants(struct kh_carrier *c, struct kh_credential_config *credential)
{
	kh_carry_list(c, &credential->tenants, &credential->n_tenants, sizeof(*credential->tenants),
		      UINT16_MAX, carry_presence);
	for (size_t i = 1; i < credential->n_tenants; i++)
		kh_carry_demand(c,
				credential->tenants[i - 1].tenant < credential->tenants[i].tenant);
	kh_carry_demand(c,
			credential->by_tenant ? !credential->present : credential->n_tenants == 0);
}

/* What the keeper found out. */
static void carry_facts(struct kh_carrier *c, struct kh_credential_config *credential)
{
	struct kh_placeholder *placeholder = &credential->placeholder;
	kh_carry_enum(c, &placeholder->seen, KH_SHAPE_COUNT);
	kh_carry_u32(c, &placeholder->seen_len);
	kh_carry_demand(c, placeholder->seen_len <= KH_LIMIT_SECRET_BYTES);
	kh_carry_bool(c, &credential->by_tenant);
	kh_carry_bool(c, &credential->by_repository);
	kh_carry_bool(c, &credential->renewable);
	kh_carry_bool(c, &credential->present);
	carry_tenants(c, credential);
	kh_carry_bool(c, &credential->of_proxy);
	kh_carry_bool(c, &credential->of_listener);
}

/* One at most, of a proxy that is there, and for it alone. */
static bool is_proxy_password(const struct kh_config *config,
			      const struct kh_credential_config *credential)
{
	struct kh_host_pattern own = kh_host_pattern_of(&config->proxy.host);
	return kh_config_proxy_password(config) == credential - config->credentials &&
	       config->proxy.username && !credential->placement && credential->n_hosts == 1 &&
	       kh_host_pattern_covers(&own, &credential->hosts[0]);
}

static bool is_sound(const struct kh_config *config, const struct kh_credential_config *credential)
{
	if (credential->of_proxy)
		return is_proxy_password(config, credential);
	if (credential->of_listener)
		return credential->n_hosts == 0 && !credential->placement;
	/* Nowhere to go, or no place in a request: no such credential was ever accepted. */
	return credential->n_hosts > 0 && credential->placement;
}

static void carry_credential(struct kh_carrier *c, void *element)
{
	struct kh_credential_config *credential = element;
	kh_carry_name(c, &credential->name);
	kh_carry_where(c, &credential->where);
	kh_carry_str(c, &credential->preset);
	kh_carry_placement(c, &credential->placement);
	kh_carry_rows(c, "credentials.*", false, credential);
	carry_facts(c, credential);
	kh_carry_demand(c, is_sound(c->config, credential));
}

void kh_carry_credentials(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	struct kh_config *config = base;
	(void)option;
	kh_carry_list(c, &config->credentials, &config->n_credentials, sizeof(*config->credentials),
		      UINT16_MAX, carry_credential);
	/* One without the other would make a proxy's answer to nobody. */
	kh_carry_demand(c, config->proxy.host.kind != KH_HOST_NONE || !config->proxy.username);
	kh_carry_demand(c, !config->proxy.username == (kh_config_proxy_password(config) < 0));
}
