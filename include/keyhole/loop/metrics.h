/* metrics.h - what event threads count, for whoever looks at the daemon (admin_metrics.c) */
#ifndef KEYHOLE_LOOP_METRICS_H
#define KEYHOLE_LOOP_METRICS_H

#include <stdatomic.h>
#include <stdint.h>

#include <keyhole/config/config.h>
#include <keyhole/base/err.h>

/*
 * Each thread has numbers of its own, which it alone changes: a plain addition, without a lock and
 * without a line of cache that another thread writes to. Who looks adds them up, and finds each
 * number as it was at some moment of the look. Gauges are numbers that go down again; a sum of them
 * is right modulo 2^64.
 */
#define KH_COUNT_TABLE(X) \
	X(CONNECTIONS) \
	X(CONNECTIONS_REFUSED) \
	X(EXCHANGES_OPEN) \
	X(TUNNELS) \
	X(TUNNELS_OPEN) \
	X(UP_OPEN) \
	X(UP_OPENED) \
	X(UP_NEW) \
	X(UP_REUSED) \
	X(HANDSHAKES_DOWN) \
	X(HANDSHAKES_DOWN_RESUMED) \
	X(HANDSHAKES_DOWN_FAILED) \
	X(HANDSHAKES_UP) \
	X(HANDSHAKES_UP_RESUMED) \
	X(HANDSHAKES_UP_FAILED) \
	X(CLOCK_SKEWS) \
	X(JOURNAL_RECORDS) \
	X(JOURNAL_FAILURES) \
	X(JOURNAL_FAILING)

enum kh_count_index {
#define KH_COUNT_ENUM(name) KH_COUNT_##name,
	KH_COUNT_TABLE(KH_COUNT_ENUM)
#undef KH_COUNT_ENUM
		KH_COUNTS
};

typedef _Atomic uint64_t kh_counter;

static inline void kh_counter_add(kh_counter *counter, uint64_t n)
{
	uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);
	atomic_store_explicit(counter, value + n, memory_order_relaxed);
}

static inline uint64_t kh_counter_get(const kh_counter *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

/* How many were at most so long; the last of them: any. Not cumulative. */
enum { KH_HISTOGRAM_BUCKETS = 20 };
struct kh_histogram {
	kh_counter buckets[KH_HISTOGRAM_BUCKETS];
	kh_counter sum_us;
};

/* Upper bounds in microseconds, ascending. */
struct kh_bounds {
	size_t n; /* less than KH_HISTOGRAM_BUCKETS */
	uint64_t us[KH_HISTOGRAM_BUCKETS];
};
extern const struct kh_bounds kh_bounds_total, kh_bounds_own;
void kh_histogram_add(struct kh_histogram *histogram, const struct kh_bounds *bounds, uint64_t us);

/* What became of a request, as the journal has it. */
enum kh_fate { KH_FATE_ALLOW = 0, KH_FATE_DENY, KH_FATE_WOULD_DENY, KH_FATES };

/* Of one thread. */
struct kh_counts {
	_Alignas(64) kh_counter n[KH_COUNTS];
	kh_counter denials[KH_ERR_COUNT];  /* by reason */
	kh_counter failures[KH_ERR_COUNT]; /* of what was allowed */
	kh_counter limits[KH_QUOTA_KINDS];
	struct kh_histogram total, own;
};

/* Of one tenant and thread. */
struct kh_tally_row {
	_Alignas(64) kh_counter requests[KH_FATES];
	kh_counter up_bytes, down_bytes;
};

/* Of one tenant: as it goes from generation to generation, like a listener's stats. */
struct kh_tally {
	atomic_uint refs;
	unsigned n_rows;
	_Atomic(struct kh_tally_row *) rows[]; /* by thread; made when one has something to count */
};

struct kh_tally *kh_tally_new(unsigned threads);
void kh_tally_unref(struct kh_tally *tally);
/* This thread's; NULL without memory, and then nothing is counted. */
struct kh_tally_row *kh_tally_row(struct kh_tally *tally, unsigned thread);

#endif
