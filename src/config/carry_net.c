/* carry_net.c - hosts, addresses and the settings of `upstream` in the snapshot */
#include "carry.h"

#include <string.h>

static void carry_host(struct kh_carrier *c, struct kh_host *host)
{
	if (!kh_carry_reads(c)) {
		struct kh_slice name = kh_host_view(host);
		c->in.bad = c->in.bad || !kh_wire_put_bytes(c->out, name);
		return;
	}
	struct kh_slice name = kh_wire_bytes(&c->in);
	kh_carry_demand(c,
			kh_host_parse(host, name, NULL) && kh_slice_eq(name, kh_host_view(host)));
}

static void carry_cidr(struct kh_carrier *c, struct kh_cidr *range)
{
	kh_carry_u8(c, &range->family);
	kh_carry_u8(c, &range->prefix_bits);
	kh_carry_bytes(c, range->addr, sizeof(range->addr));
	unsigned bits = range->family == 4 ? 32 : range->family == 6 ? 128 : 0;
	/* Bits after the prefix are zero, as kh_cidr_parse has it. */
	bool clean = range->prefix_bits <= bits;
	for (unsigned i = range->prefix_bits; clean && i < 128; i++)
		clean = !(range->addr[i / 8] & (0x80 >> i % 8));
	kh_carry_demand(c, clean);
}

static void carry_range(struct kh_carrier *c, void *element)
{
	struct kh_cidr *range = element;
	carry_cidr(c, range);
	kh_carry_demand(c, range->family != 0);
}

static void carry_address(struct kh_carrier *c, void *element)
{
	struct kh_sockaddr *addr = element;
	uint8_t len = (uint8_t)addr->len;
	kh_carry_u8(c, &len);
	kh_carry_demand(c, len == sizeof(addr->v4) || len == sizeof(addr->v6));
	if (c->in.bad)
		return;
	kh_carry_bytes(c, &addr->any, len);
	addr->len = len;
	kh_carry_demand(c, addr->any.sa_family == (len == sizeof(addr->v4) ? AF_INET : AF_INET6));
}

void kh_carry_pattern(struct kh_carrier *c, void *element)
{
	struct kh_host_pattern *pattern = element;
	kh_carry_enum(c, &pattern->match, KH_MATCH_KINDS);
	bool named = pattern->match == KH_MATCH_EXACT || pattern->match == KH_MATCH_SUFFIX;
	if (named)
		carry_host(c, &pattern->host);
	kh_carry_demand(c, !named || pattern->host.kind == KH_HOST_NAME);
	carry_cidr(c, &pattern->range);
	kh_carry_demand(c, (pattern->match == KH_MATCH_RANGE) == (pattern->range.family != 0) &&
				   pattern->match != KH_MATCH_NOTHING);
	if (c->in.bad && kh_carry_reads(c))
		pattern->match = KH_MATCH_NOTHING;
}

static void carry_pin(struct kh_carrier *c, void *element)
{
	struct kh_pin *pin = element;
	carry_host(c, &pin->host);
	carry_address(c, &pin->addr);
	kh_carry_u16(c, &pin->tenant); /* one that is not there has no sandbox */
}

void kh_carry_pins(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	struct kh_config *config = base;
	(void)option;
	kh_carry_list(c, &config->pins, &config->n_pins, sizeof(*config->pins), KH_CARRY_LISTED,
		      carry_pin);
}

static void carry_ranges(struct kh_carrier *c, struct kh_cidr **list, size_t *count)
{
	kh_carry_list(c, list, count, sizeof(**list), KH_CARRY_LISTED, carry_range);
}

void kh_carry_ranges(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	struct kh_config *config = base;
	(void)option;
	carry_ranges(c, &config->allow_addresses, &config->n_allow_addresses);
}

void kh_carry_tenant_ranges(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	struct kh_tenant_config *tenant = base;
	(void)option;
	carry_ranges(c, &tenant->allow_addresses, &tenant->n_allow_addresses);
}

void kh_carry_servers(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	struct kh_config *config = base;
	(void)option;
	kh_carry_list(c, &config->nameservers, &config->n_nameservers, sizeof(*config->nameservers),
		      KH_CARRY_LISTED, carry_address);
}

void kh_carry_proxy(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	struct kh_proxy_config *proxy = &((struct kh_config *)base)->proxy;
	bool there = proxy->host.kind != KH_HOST_NONE;
	(void)option;
	kh_carry_bool(c, &there);
	if (!there)
		return;
	carry_host(c, &proxy->host);
	kh_carry_u16(c, &proxy->port);
	kh_carry_demand(c, proxy->port != 0);
	kh_carry_where(c, &proxy->where);
}

void kh_carry_no_proxy(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	struct kh_proxy_config *proxy = &((struct kh_config *)base)->proxy;
	(void)option;
	kh_carry_list(c, &proxy->no_proxy, &proxy->n_no_proxy, sizeof(*proxy->no_proxy),
		      KH_CARRY_LISTED, kh_carry_pattern);
}

/* The keeper opens it: the worker needs to know that it is there. */
void kh_carry_geo_file(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	struct kh_geo_file *file = (void *)((char *)base + option->member);
	kh_carry_bool(c, &file->named);
}
