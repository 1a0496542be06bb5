/* metrics.c - histograms, and the counters of each tenant */

#include <keyhole/loop/metrics.h>

#include <stdlib.h>
#include <string.h>

enum { MS = 1000, SECOND = 1000 * 1000, ROW_ALIGN = 64 };

/* From a kept connection nearby to a model that thinks for ten minutes. */
const struct kh_bounds kh_bounds_total = {
	.n = 18,
	.us = { MS, 5 * MS / 2, 5 * MS, 10 * MS, 25 * MS, 50 * MS, 100 * MS, 250 * MS, 500 * MS,
		SECOND, 5 * SECOND / 2, 5 * SECOND, 10 * SECOND, 30 * SECOND, 60 * SECOND,
		120 * SECOND, 300 * SECOND, 600 * SECOND },
};

const struct kh_bounds kh_bounds_own = {
	.n = 12,
	.us = { 50, 100, 250, 500, MS, 5 * MS / 2, 5 * MS, 10 * MS, 25 * MS, 50 * MS, 100 * MS,
		SECOND },
};

void kh_histogram_add(struct kh_histogram *histogram, const struct kh_bounds *bounds, uint64_t us)
{
	size_t i = 0;

	while (i < bounds->n && us > bounds->us[i])
		i++;
	kh_counter_add(&histogram->buckets[i], 1);
	kh_counter_add(&histogram->sum_us, us);
}

struct kh_tally *kh_tally_new(unsigned threads)
{
	struct kh_tally *tally = calloc(1, sizeof(*tally) + threads * sizeof(tally->rows[0]));

	if (!tally)
		return NULL;
	atomic_init(&tally->refs, 1);
	tally->n_rows = threads;
	return tally;
}

void kh_tally_unref(struct kh_tally *tally)
{
	if (!tally || atomic_fetch_sub(&tally->refs, 1) != 1)
		return;
	for (unsigned i = 0; i < tally->n_rows; i++)
		free(atomic_load(&tally->rows[i]));
	free(tally);
}

struct kh_tally_row *kh_tally_row(struct kh_tally *tally, unsigned thread)
{
	if (!tally || thread >= tally->n_rows)
		return NULL;
	struct kh_tally_row *row = atomic_load_explicit(&tally->rows[thread], memory_order_relaxed);
	if (row)
		return row;
	row = aligned_alloc(ROW_ALIGN, sizeof(*row));
	if (!row)
		return NULL;
	memset(row, 0, sizeof(*row));
	/* Only this thread writes here; who looks must find it zeroed. */
	atomic_store_explicit(&tally->rows[thread], row, memory_order_release);
	return row;
}
