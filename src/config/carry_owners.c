/* carry_owners.c - tenants, listeners, and who may use the admin socket in the snapshot */
#include "carry.h"

static void carry_tenant(struct kh_carrier *c, void *element)
{
	struct kh_tenant_config *tenant = element;
	kh_carry_name(c, &tenant->name);
	kh_carry_where(c, &tenant->where);
	kh_carry_rows(c, "tenants.*", false, tenant);
}

void kh_carry_tenants(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	struct kh_config *config = base;
	(void)option;
	kh_carry_list(c, &config->tenants, &config->n_tenants, sizeof(*config->tenants), UINT16_MAX,
		      carry_tenant);
	/* Credentials came before them. */
	for (size_t i = 0; i < config->n_credentials; i++) {
		const struct kh_credential_config *one = &config->credentials[i];
		kh_carry_demand(c, one->n_tenants == 0 || one->tenants[one->n_tenants - 1].tenant <
								  config->n_tenants);
	}
}

void kh_carry_listener_tenant(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	struct kh_listener_config *listener = base;
	(void)option;
	kh_carry_u16(c, &listener->tenant);
	kh_carry_demand(c, listener->tenant < c->config->n_tenants);
}

/* Never open to whoever comes by TCP, and never with another's secret. */
static void carry_token(struct kh_carrier *c, struct kh_listener_config *listener)
{
	const struct kh_config *config = c->config;
	uint32_t token = (uint32_t)(listener->token + 1);
	kh_carry_u32(c, &token);
	kh_carry_demand(c, token <= config->n_credentials &&
				   (token > 0) == (listener->kind == KH_LISTEN_TCP));
	listener->token = kh_carry_reads(c) && c->in.bad ? -1 : (int32_t)token - 1;
	kh_carry_demand(c, listener->token < 0 || config->credentials[listener->token].of_listener);
}

static void carry_listener(struct kh_carrier *c, void *element)
{
	struct kh_listener_config *listener = element;
	if (kh_carry_reads(c)) {
		listener->owner = (uid_t)-1;
		listener->group = (gid_t)-1;
		listener->mode = 0600;
	}
	/* Not to be opened: it is the listener's identity over reloads. */
	kh_carry_name(c, &listener->name);
	kh_carry_where(c, &listener->where);
	kh_carry_enum(c, &listener->kind, KH_LISTEN_KINDS);
	carry_token(c, listener);
	kh_carry_rows(c, "listen[]", false, listener);
	kh_carry_demand(c, listener->sandbox != NULL);
	kh_carry_str(c, &listener->placeholder_name);
}

void kh_carry_listeners(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	struct kh_config *config = base;
	(void)option;
	kh_carry_list(c, &config->listeners, &config->n_listeners, sizeof(*config->listeners),
		      KH_CARRY_LISTED, carry_listener);
}

static void carry_tenant_index(struct kh_carrier *c, void *element)
{
	uint16_t *index = element;
	kh_carry_u16(c, index);
	kh_carry_demand(c, *index < c->config->n_tenants);
}

static void carry_grant(struct kh_carrier *c, void *element)
{
	struct kh_admin_grant *grant = element;
	kh_carry_u32(c, &grant->uid);
	kh_carry_list(c, &grant->tenants, &grant->n_tenants, sizeof(*grant->tenants), UINT16_MAX,
		      carry_tenant_index);
}

void kh_carry_grants(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	struct kh_admin_config *admin = &((struct kh_config *)base)->admin;
	(void)option;
	kh_carry_list(c, &admin->grants, &admin->n_grants, sizeof(*admin->grants), KH_CARRY_LISTED,
		      carry_grant);
}
