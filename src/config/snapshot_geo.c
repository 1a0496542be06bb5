/* snapshot_geo.c - the lists of `geo` in a snapshot, and back */
#include <stdlib.h>

#include <keyhole/limits.h>

#include "snapshot_internal.h"

static bool put_numbers(struct kh_buf *out, const struct kh_numbers *numbers)
{
	bool ok = kh_wire_put_u32(out, (uint32_t)numbers->count);
	for (size_t i = 0; ok && i < numbers->count; i++)
		ok = kh_wire_put_u32(out, numbers->list[i]);
	return ok;
}

bool kh_put_geo(struct kh_buf *out, const struct kh_geo_rules *geo)
{
	if (!geo)
		return kh_wire_put_u8(out, 0);
	return kh_wire_put_u8(out, 1) && put_numbers(out, &geo->allow_countries) &&
	       put_numbers(out, &geo->deny_countries) && put_numbers(out, &geo->allow_asns) &&
	       put_numbers(out, &geo->deny_asns) &&
	       kh_wire_put_u8(out, geo->allow_unknown_country) &&
	       kh_wire_put_u8(out, geo->allow_unknown_asn) && kh_put_where(out, &geo->where);
}

static bool is_country(uint32_t number)
{
	return number >> 8 >= 'A' && number >> 8 <= 'Z' && (number & 0xff) >= 'A' &&
	       (number & 0xff) <= 'Z';
}

/* Sorted and each once, or what is sought in it would not be found. */
static void read_numbers(struct kh_snapshot_in *in, struct kh_numbers *numbers, bool of_countries)
{
	uint32_t n = kh_wire_count(&in->r, KH_LIMIT_GEO_NUMBERS), before = 0;
	for (uint32_t i = 0; i < n && !in->r.bad; i++) {
		uint32_t *slot = kh_in_add(in, &numbers->list, &numbers->count, sizeof(*slot));
		uint32_t number = kh_wire_u32(&in->r);
		if (slot)
			*slot = number;
		if (number <= before || (of_countries && !is_country(number)))
			in->r.bad = true;
		before = number;
	}
}

struct kh_geo_rules *kh_in_geo(struct kh_snapshot_in *in)
{
	if (!kh_in_flag(in))
		return NULL;
	struct kh_geo_rules *geo = calloc(1, sizeof(*geo));
	if (!geo) {
		in->r.bad = true;
		return NULL;
	}
	read_numbers(in, &geo->allow_countries, true);
	read_numbers(in, &geo->deny_countries, true);
	read_numbers(in, &geo->allow_asns, false);
	read_numbers(in, &geo->deny_asns, false);
	geo->allow_unknown_country = kh_in_flag(in);
	geo->allow_unknown_asn = kh_in_flag(in);
	geo->where = kh_in_where(in);
	const struct kh_proxy_config *proxy = &in->config->proxy;
	if (kh_geo_fault(in->config, geo) ||
	    (proxy->host.kind != KH_HOST_NONE && !proxy->resolve_locally))
		in->r.bad = true;
	return geo;
}
