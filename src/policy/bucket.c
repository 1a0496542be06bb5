/* bucket.c - one number of a ledger: a bucket that fills by itself, or places that are taken
 *
 * A bucket's number is a position on a line: everything up to it has been taken. The clock is at
 * now * amount / period; this is computed from the start each time, so rounding errors don't add
 * up. What is behind the clock no longer counts. */
#include <keyhole/policy/quota.h>

__extension__ typedef unsigned __int128 wide;

enum { FINE = 65536 }; /* a request in steps of the line; a byte is one */

static uint64_t scale_of(const struct kh_rate *rate)
{
	return kh_quota_is_bytes(rate->kind) ? 1 : FINE;
}

/* Where the clock stands. */
static uint64_t clock_of(const struct kh_rate *rate, uint64_t now_ms)
{
	return (uint64_t)((wide)now_ms * rate->amount * scale_of(rate) / rate->period_ms);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

uint64_t kh_bucket_take(_Atomic uint64_t *slot, const struct kh_rate *rate, uint64_t now_ms,
			uint64_t n, bool all, uint64_t *upto)
{
	uint64_t scale = scale_of(rate), clock = clock_of(rate, now_ms), full = rate->burst * scale;
	uint64_t value = atomic_load_explicit(slot, memory_order_relaxed);
	for (;;) {
		uint64_t from = larger(value, clock);
		uint64_t free = from - clock < full ? (full - (from - clock)) / scale : 0;
		uint64_t got = free < n ? (all ? 0 : free) : n;
		*upto = from + got * scale;
		if (got == 0 ||
		    atomic_compare_exchange_weak_explicit(slot, &value, *upto, memory_order_relaxed,
							  memory_order_relaxed))
			return got;
	}
}

void kh_bucket_give(_Atomic uint64_t *slot, const struct kh_rate *rate, uint64_t now_ms, uint64_t n,
		    uint64_t upto)
{
	if (n > 0 && clock_of(rate, now_ms) < upto)
		atomic_fetch_sub_explicit(slot, n * scale_of(rate), memory_order_relaxed);
}

uint64_t kh_bucket_used(uint64_t value, const struct kh_rate *rate, uint64_t now_ms)
{
	uint64_t clock = clock_of(rate, now_ms), scale = scale_of(rate);
	uint64_t used = value > clock ? (value - clock + scale - 1) / scale : 0;
	return used < rate->burst ? used : rate->burst;
}

uint64_t kh_bucket_wait_ms(uint64_t value, const struct kh_rate *rate, uint64_t now_ms, uint64_t n)
{
	uint64_t scale = scale_of(rate), clock = clock_of(rate, now_ms);
	if (n > rate->burst)
		return UINT64_MAX;
	uint64_t spare = (rate->burst - n) * scale, from = larger(value, clock);
	if (from - clock <= spare)
		return 0;
	wide speed = (wide)rate->amount * scale; /* in a period */
	uint64_t at_ms = (uint64_t)(((wide)(from - spare) * rate->period_ms + speed - 1) / speed);
	return at_ms > now_ms ? at_ms - now_ms : 0;
}

uint64_t kh_bucket_value(const struct kh_rate *rate, uint64_t now_ms, uint64_t used)
{
	if (used > rate->burst)
		used = rate->burst;
	return clock_of(rate, now_ms) + used * scale_of(rate);
}

void kh_bucket_hold(_Atomic uint64_t *slot, const struct kh_rate *rate, uint64_t now_ms)
{
	uint64_t most = kh_bucket_value(rate, now_ms, rate->burst);
	uint64_t value = atomic_load_explicit(slot, memory_order_relaxed);
	while (value > most &&
	       !atomic_compare_exchange_weak_explicit(slot, &value, most, memory_order_relaxed,
						      memory_order_relaxed))
		continue;
}

/* ---- places: the lower half is column 0's, the upper half column 1's ---- */

static uint64_t one_of(unsigned column)
{
	return column == 0 ? UINT64_C(1) : UINT64_C(1) << 32;
}

static uint64_t half_of(unsigned column)
{
	return column == 0 ? UINT64_C(0xffffffff) : UINT64_C(0xffffffff) << 32;
}

uint32_t kh_places_taken(uint64_t value)
{
	uint64_t sum = (value & UINT64_C(0xffffffff)) + (value >> 32);
	return sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
}

bool kh_place_take(_Atomic uint64_t *slot, unsigned column, uint32_t most)
{
	uint64_t value = atomic_load_explicit(slot, memory_order_relaxed);
	while (kh_places_taken(value) < most)
		if (atomic_compare_exchange_weak_explicit(slot, &value, value + one_of(column),
							  memory_order_relaxed,
							  memory_order_relaxed))
			return true;
	return false;
}

void kh_place_force(_Atomic uint64_t *slot, unsigned column)
{
	atomic_fetch_add_explicit(slot, one_of(column), memory_order_relaxed);
}

void kh_place_give(_Atomic uint64_t *slot, unsigned column)
{
	uint64_t value = atomic_load_explicit(slot, memory_order_relaxed);
	while ((value & half_of(column)) != 0 &&
	       !atomic_compare_exchange_weak_explicit(slot, &value, value - one_of(column),
						      memory_order_relaxed, memory_order_relaxed))
		continue;
}

void kh_places_clear(_Atomic uint64_t *slot, unsigned column)
{
	atomic_fetch_and_explicit(slot, ~half_of(column), memory_order_relaxed);
}

void kh_places_hold(_Atomic uint64_t *slot, unsigned column, uint32_t most)
{
	uint64_t kept = most * one_of(column);
	uint64_t value = atomic_load_explicit(slot, memory_order_relaxed);
	while ((value & half_of(column)) > kept &&
	       !atomic_compare_exchange_weak_explicit(slot, &value,
						      (value & ~half_of(column)) | kept,
						      memory_order_relaxed, memory_order_relaxed))
		continue;
}
