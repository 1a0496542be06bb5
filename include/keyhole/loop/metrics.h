/* metrics.h - counters of the event threads (admin_metrics.c shows them) */
#ifndef KEYHOLE_LOOP_METRICS_H
#define KEYHOLE_LOOP_METRICS_H

#include <stdatomic.h>
#include <stdint.h>

#include <keyhole/config/config.h>
#include <keyhole/base/err.h>

/*
 * Each thread has its own counters, and only that thread changes them: a plain addition, without a
 * lock and on a cache line that no other thread writes. A reader adds up the threads' values; they
 * are not a snapshot of one moment. A gauge is a counter that also goes down: one thread's may wrap
 * below 0, and the sum is right modulo 2^64.
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

/* Not cumulative. Bucket i counts the durations up to us[i] of its struct kh_bounds that are in no
 * bucket before it; bucket n counts the longer ones. */
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

/* The outcome of a request, as in the journal. */
enum kh_fate { KH_FATE_ALLOW = 0, KH_FATE_DENY, KH_FATE_WOULD_DENY, KH_FATES };

/* The counters of one thread. */
struct kh_counts {
	_Alignas(64) kh_counter n[KH_COUNTS];
	kh_counter denials[KH_ERR_COUNT];  /* by reason */
	kh_counter failures[KH_ERR_COUNT]; /* by reason, of allowed requests */
	kh_counter limits[KH_QUOTA_KINDS];
	struct kh_histogram total, own;
};

/* The counters of one tenant in one thread. */
struct kh_tally_row {
	_Alignas(64) kh_counter requests[KH_FATES];
	kh_counter up_bytes, down_bytes;
};

/* The counters of one tenant. A generation takes them over from the one before. */
struct kh_tally {
	atomic_uint refs;
	unsigned n_rows;
	_Atomic(struct kh_tally_row *) rows[]; /* by thread; made at the first count */
};

struct kh_tally *kh_tally_new(unsigned threads);
void kh_tally_unref(struct kh_tally *tally);
/* This thread's row; NULL without memory: then nothing is counted. */
struct kh_tally_row *kh_tally_row(struct kh_tally *tally, unsigned thread);

#endif
