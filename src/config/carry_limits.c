/* carry_limits.c - limits in the snapshot, with the ledger's slots for them, and the lists of `geo`
 */
#include "carry.h"

#include <keyhole/base/limits.h>

enum { RATES = 3 * 4 }; /* kinds with periods */

/* What is limited without being counted anywhere would be no limit. */
static void carry_slot(struct kh_carrier *c, bool counted, uint32_t *slot)
{
	kh_carry_u32(c, slot);
	kh_carry_demand(c, *slot < KH_LIMIT_QUOTA_SLOTS && (*slot == 0 || counted));
}

static void carry_rate(struct kh_carrier *c, void *element)
{
	struct kh_rate *rate = element;
	kh_carry_enum(c, &rate->kind, KH_QUOTA_KINDS);
	kh_carry_u32(c, &rate->period_ms);
	kh_carry_u64(c, &rate->amount);
	kh_carry_u64(c, &rate->burst);
	kh_carry_demand(c, kh_quota_is_rate(rate->kind) && rate->period_ms >= 1000 &&
				   !kh_rate_fault(rate));
	carry_slot(c, true, &rate->slot);
}

void kh_carry_rates(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	struct kh_limits *limits = base;
	(void)option;
	kh_carry_list(c, &limits->rates, &limits->n_rates, sizeof(*limits->rates), RATES,
		      carry_rate);
}

void kh_carry_concurrency(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	struct kh_limits *limits = base;
	kh_carry_number(c, option, limits);
	carry_slot(c, limits->concurrency > 0, &limits->concurrency_slot);
}

void kh_carry_connections(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	struct kh_limits *limits = base;
	kh_carry_number(c, option, limits);
	carry_slot(c, limits->connections > 0, &limits->connections_slot);
}

void kh_carry_limits(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	struct kh_limits **slot = (void *)((char *)base + option->member);
	struct kh_limits *limits = kh_carry_maybe(c, slot, sizeof(*limits));
	if (limits)
		kh_carry_rows(c, option->path, true, limits);
}

/* ---- geo ---- */

static bool is_country(uint32_t number)
{
	return number >> 8 >= 'A' && number >> 8 <= 'Z' && (number & 0xff) >= 'A' &&
	       (number & 0xff) <= 'Z';
}

/* Sorted and each once, or what is sought in it would not be found. */
static void carry_numbers(struct kh_carrier *c, struct kh_numbers *numbers, bool of_countries)
{
	kh_carry_list(c, &numbers->list, &numbers->count, sizeof(*numbers->list),
		      KH_LIMIT_GEO_NUMBERS, kh_carry_list_u32);
	for (size_t i = 0; i < numbers->count; i++)
		kh_carry_demand(c, numbers->list[i] > (i ? numbers->list[i - 1] : 0) &&
					   (!of_countries || is_country(numbers->list[i])));
}

void kh_carry_geo(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	struct kh_geo_rules **slot = (void *)((char *)base + option->member);
	struct kh_geo_rules *geo = kh_carry_maybe(c, slot, sizeof(*geo));
	if (!geo)
		return;
	carry_numbers(c, &geo->allow_countries, true);
	carry_numbers(c, &geo->deny_countries, true);
	carry_numbers(c, &geo->allow_asns, false);
	carry_numbers(c, &geo->deny_asns, false);
	kh_carry_bool(c, &geo->allow_unknown_country);
	kh_carry_bool(c, &geo->allow_unknown_asn);
	kh_carry_where(c, &geo->where);
	const struct kh_proxy_config *proxy = &c->config->proxy;
	kh_carry_demand(c, !kh_geo_fault(c->config, geo) &&
				   (proxy->host.kind == KH_HOST_NONE || proxy->resolve_locally));
}
