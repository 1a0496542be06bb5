/* snapshot_limits.c - limits in a snapshot, and back: with the slots by which the worker counts
 * them
 */
#include <stdlib.h>

#include <keyhole/limits.h>

#include "snapshot_internal.h"

enum { RATES = 3 * 4 }; /* kinds with periods */

bool kh_put_limits(struct kh_buf *out, const struct kh_limits *limits)
{
	bool ok = kh_wire_put_u8(out, limits != NULL);
	if (!ok || !limits)
		return ok;
	ok = kh_wire_put_u32(out, limits->concurrency) &&
	     kh_wire_put_u32(out, limits->concurrency_slot) &&
	     kh_wire_put_u32(out, limits->connections) &&
	     kh_wire_put_u32(out, limits->connections_slot) &&
	     kh_wire_put_u32(out, limits->tunnel_lifetime_ms) &&
	     kh_wire_put_u64(out, limits->max_body) &&
	     kh_wire_put_u32(out, (uint32_t)limits->n_rates);
	for (size_t i = 0; ok && i < limits->n_rates; i++) {
		const struct kh_rate *rate = &limits->rates[i];
		ok = kh_wire_put_u8(out, (uint8_t)rate->kind) &&
		     kh_wire_put_u32(out, rate->period_ms) && kh_wire_put_u64(out, rate->amount) &&
		     kh_wire_put_u64(out, rate->burst) && kh_wire_put_u32(out, rate->slot);
	}
	return ok;
}

/* What is limited without being counted anywhere would be no limit. */
static void check_slot(struct kh_snapshot_in *in, bool counted, uint32_t slot)
{
	if (slot >= KH_LIMIT_QUOTA_SLOTS || (slot != 0 && !counted))
		in->r.bad = true;
}

static void read_rate(struct kh_snapshot_in *in, struct kh_rate *rate)
{
	uint8_t kind = kh_wire_u8(&in->r);
	rate->period_ms = kh_wire_u32(&in->r);
	rate->amount = kh_wire_u64(&in->r);
	rate->burst = kh_wire_u64(&in->r);
	rate->slot = kh_wire_u32(&in->r);
	rate->kind = (enum kh_quota_kind)kind;
	if (kind < KH_QUOTA_REQUESTS || kind > KH_QUOTA_BYTES_DOWN || rate->period_ms < 1000 ||
	    kh_rate_fault(rate))
		in->r.bad = true;
	check_slot(in, true, rate->slot);
}

struct kh_limits *kh_in_limits(struct kh_snapshot_in *in)
{
	if (!kh_in_flag(in))
		return NULL;
	struct kh_limits *limits = calloc(1, sizeof(*limits));
	if (!limits) {
		in->r.bad = true;
		return NULL;
	}
	limits->concurrency = kh_wire_u32(&in->r);
	limits->concurrency_slot = kh_wire_u32(&in->r);
	limits->connections = kh_wire_u32(&in->r);
	limits->connections_slot = kh_wire_u32(&in->r);
	limits->tunnel_lifetime_ms = kh_wire_u32(&in->r);
	limits->max_body = kh_wire_u64(&in->r);
	check_slot(in, limits->concurrency > 0, limits->concurrency_slot);
	check_slot(in, limits->connections > 0, limits->connections_slot);
	uint32_t n = kh_wire_count(&in->r, RATES);
	for (uint32_t i = 0; i < n && !in->r.bad; i++) {
		struct kh_rate *rate =
			kh_in_add(in, &limits->rates, &limits->n_rates, sizeof(*rate));
		if (rate)
			read_rate(in, rate);
	}
	if (limits->concurrency > KH_LIMIT_QUOTA_PLACES ||
	    limits->connections > KH_LIMIT_QUOTA_PLACES ||
	    limits->tunnel_lifetime_ms > KH_LIMIT_LIFETIME_MOST_MS)
		in->r.bad = true;
	return limits;
}
