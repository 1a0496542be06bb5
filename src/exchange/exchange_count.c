/* exchange_count.c - adds an exchange to the counters (metrics.h) */

#include <keyhole/base/clock.h>

#include "exchange_internal.h"

static void find_tally(struct kh_exchange *x)
{
	struct kh_tally **tallies = x->gen->tallies;

	x->tally = tallies ? kh_tally_row(tallies[x->tenant], x->side->loop->index) : NULL;
}

void kh_exchange_count_begin(struct kh_exchange *x)
{
	x->began_us = x->own_from_us = kh_clock_mono_us();
	find_tally(x);
	kh_count(x->side->loop, KH_COUNT_EXCHANGES_OPEN);
}

void kh_exchange_count_anew(struct kh_exchange *x)
{
	find_tally(x);
	kh_exchange_go_on(x);
}

void kh_exchange_count_gone(struct kh_exchange *x)
{
	kh_uncount(x->side->loop, KH_COUNT_EXCHANGES_OPEN);
}

void kh_exchange_pause(struct kh_exchange *x)
{
	if (x->own_from_us)
		x->own_us += kh_clock_mono_us() - x->own_from_us;
	x->own_from_us = 0;
}

void kh_exchange_go_on(struct kh_exchange *x)
{
	if (!x->own_from_us)
		x->own_from_us = kh_clock_mono_us();
}

/* An address that is refused is known only after the open record. */
static enum kh_fate fate_of(const struct kh_exchange *x, bool opened)
{
	if (!opened || kh_err_is_refusal(x->reason, x->status))
		return KH_FATE_DENY;
	return x->decision.would != KH_ERR_NONE || x->would_reach.verdict.kind != KH_QUOTA_NONE
		       ? KH_FATE_WOULD_DENY
		       : KH_FATE_ALLOW;
}

void kh_exchange_count_end(const struct kh_exchange *x, bool opened)
{
	struct kh_counts *counts = &x->side->loop->counts;
	enum kh_fate fate = fate_of(x, opened);
	bool denied = fate == KH_FATE_DENY;

	/* A page of keyhole's own is nobody's request. */
	if (!kh_internal_page_is(&x->authority.host)) {
		if (x->tally)
			kh_counter_add(&x->tally->requests[fate], 1);
		atomic_fetch_add_explicit(&x->side->acceptor->listener_stats->fates[fate], 1,
					  memory_order_relaxed);
	}
	if (x->reason != KH_ERR_NONE)
		kh_counter_add(&(denied ? counts->denials : counts->failures)[x->reason], 1);
	if (x->reached.verdict.kind != KH_QUOTA_NONE)
		kh_counter_add(&counts->limits[x->reached.verdict.kind], 1);
	if (denied)
		return;
	kh_histogram_add(&counts->total, &kh_bounds_total, kh_clock_mono_us() - x->began_us);
	kh_histogram_add(&counts->own, &kh_bounds_own, x->own_us);
}
