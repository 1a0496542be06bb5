/* bench.h - what the tools of this folder share: options, a field of a head, a histogram of times
 */
#ifndef KEYHOLE_TESTS_BENCH_H
#define KEYHOLE_TESTS_BENCH_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/slice.h>

__attribute__((noreturn, format(printf, 1, 2))) static inline void bench_die(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	(void)vfprintf(stderr, fmt, args);
	va_end(args);
	(void)fputc('\n', stderr);
	exit(2);
}

/* An option `--name VALUE` with its place, one of a table that ends with a NULL name. */
struct bench_option {
	const char *name;
	const char **text;
	uint64_t *number;
	bool *flag; /* takes no value */
};

static inline void bench_options(int argc, char **argv, const struct bench_option *options,
				 const char *usage)
{
	for (int i = 1; i < argc; i++) {
		const struct bench_option *o = options;

		while (o->name && strcmp(o->name, argv[i]) != 0)
			o++;
		if (o->name && o->flag) {
			*o->flag = true;
			continue;
		}
		if (!o->name || i + 1 == argc)
			bench_die("%s: %s", argv[i], usage);
		i++;
		if (o->text)
			*o->text = argv[i];
		else if (!kh_slice_to_u64(kh_slice_str(argv[i]), o->number))
			bench_die("%s %s: not a number", o->name, argv[i]);
	}
}

/*
 * Times in microseconds, exact to one part in 32: five bits behind the leading one are kept.
 */
enum { BENCH_SUB = 32, BENCH_BUCKETS = 64 * BENCH_SUB };
struct bench_times {
	uint64_t bucket[BENCH_BUCKETS];
	uint64_t count, most;
};

static inline unsigned bench_bucket(uint64_t us)
{
	unsigned high;

	if (us < BENCH_SUB)
		return (unsigned)us;
	high = 63u - (unsigned)__builtin_clzll(us);
	return (high - 4) * BENCH_SUB + (unsigned)(us >> (high - 5) & (BENCH_SUB - 1));
}

/* The least time that goes into a bucket. */
static inline uint64_t bench_bucket_us(unsigned bucket)
{
	unsigned high = bucket / BENCH_SUB + 4;

	if (bucket < BENCH_SUB)
		return bucket;
	return (uint64_t)(BENCH_SUB + bucket % BENCH_SUB) << (high - 5);
}

static inline void bench_add(struct bench_times *times, uint64_t us)
{
	times->bucket[bench_bucket(us)]++;
	times->count++;
	if (us > times->most)
		times->most = us;
}

/* The time that `part` (0 to 1) of all did not exceed. */
static inline uint64_t bench_quantile(const struct bench_times *times, double part)
{
	uint64_t left = (uint64_t)(part * (double)times->count);

	for (unsigned i = 0; i < BENCH_BUCKETS; i++) {
		if (times->bucket[i] > left)
			return bench_bucket_us(i);
		left -= times->bucket[i];
	}
	return times->most;
}

/* The value of a field of an HTTP/1 head, the empty view when it is not there. */
static inline struct kh_slice bench_field(struct kh_slice head, struct kh_slice name)
{
	size_t at = 0;

	while ((at = kh_slice_find(head, '\n', at)) < head.len) {
		struct kh_slice line = kh_slice_sub(head, at + 1, head.len);
		size_t colon = kh_slice_find(line, ':', 0);

		line = kh_slice_sub(line, 0, kh_slice_find(line, '\r', 0));
		if (colon < line.len && kh_slice_eq_nocase(kh_slice_sub(line, 0, colon), name))
			return kh_slice_trim(kh_slice_sub(line, colon + 1, line.len));
		at++;
	}
	return KH_SLICE("");
}

#endif
