/* test_quota.c - limits being used up: exact, by one thread and by eight */
#include "unit.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <keyhole/base/clock.h>
#include <keyhole/policy/quota.h>

enum { THREADS = 8, SLOTS = 64, SECOND = 1000, MINUTE = 60 * SECOND, DAY = 24 * 3600 * SECOND };

static _Atomic uint64_t memory[SLOTS];

static struct kh_quota_ledger quota_ledger_of(unsigned column)
{
	return (struct kh_quota_ledger){ .slots = memory, .n_slots = SLOTS, .column = column };
}

static struct kh_quota_ledger fresh(void)
{
	for (int i = 0; i < SLOTS; i++)
		memory[i] = 0;
	return quota_ledger_of(0);
}

static struct kh_rate rate_of(enum kh_quota_kind kind, uint64_t amount, uint32_t period_ms,
			      uint64_t burst, uint32_t slot)
{
	return (struct kh_rate){
		.kind = kind, .amount = amount, .period_ms = period_ms, .burst = burst, .slot = slot
	};
}

static struct kh_quota quota_of(const struct kh_limits *site, const struct kh_limits *tenant)
{
	struct kh_quota quota = { .is_any = false };
	kh_quota_set(&quota, KH_OF_SITE, site);
	kh_quota_set(&quota, KH_OF_TENANT, tenant);
	return quota;
}

static bool begin(const struct kh_quota *quota, struct kh_quota_ledger *quota_ledger,
		  uint64_t now_ms)
{
	struct kh_verdict reached = { .kind = KH_QUOTA_NONE };
	return kh_quota_begin(quota, quota_ledger, now_ms, 0, &reached);
}

static unsigned begin_many(const struct kh_quota *quota, struct kh_quota_ledger *quota_ledger,
			   uint64_t now_ms, unsigned tries)
{
	unsigned got = 0;
	for (unsigned i = 0; i < tries; i++)
		got += begin(quota, quota_ledger, now_ms);
	return got;
}

/* ---- one bucket ---- */

static void a_bucket_lets_its_burst_through_and_fills_at_its_speed(void **state)
{
	static const uint64_t amounts[] = { 1, 7, 60, 600, 99991 };
	(void)state;
	for (size_t i = 0; i < sizeof(amounts) / sizeof(amounts[0]); i++) {
		struct kh_quota_ledger quota_ledger = fresh();
		struct kh_rate rate = rate_of(KH_QUOTA_REQUESTS, amounts[i], MINUTE, amounts[i], 8);
		struct kh_limits limits = { .rates = &rate, .n_rates = 1 };
		struct kh_quota quota = quota_of(NULL, &limits);
		uint64_t now = kh_clock_mono_ms() + DAY;
		unsigned most = (unsigned)amounts[i];
		assert_int_equal(begin_many(&quota, &quota_ledger, now, most + 5), most);
		/* A whole period later all of it is there again, a moment before not quite. */
		assert_int_equal(begin_many(&quota, &quota_ledger, now + MINUTE, most + 5), most);
		unsigned later = 0;
		for (uint64_t ms = 1; ms <= MINUTE; ms++)
			later += begin_many(&quota, &quota_ledger, now + MINUTE + ms, 3);
		assert_in_range(later, most - 1, most);
	}
}

static void over_a_long_time_exactly_the_amount_goes_through(void **state)
{
	struct kh_quota_ledger quota_ledger = fresh();
	/* 7 a minute does not divide evenly into anything. */
	struct kh_rate rate = rate_of(KH_QUOTA_REQUESTS, 7, MINUTE, 1, 8);
	struct kh_limits limits = { .rates = &rate, .n_rates = 1 };
	struct kh_quota quota = quota_of(NULL, &limits);
	uint64_t now = kh_clock_mono_ms() + DAY;
	unsigned got = 0;
	(void)state;
	for (uint64_t ms = 0; ms < 1000 * MINUTE; ms += 100)
		got += begin(&quota, &quota_ledger, now + ms);
	/* Tries every 100 ms come up to that late for each. */
	assert_in_range(got, 6900, 7001);
	got = 0;
	fresh();
	for (uint64_t ms = 0; ms < 1000 * MINUTE; ms++)
		got += begin(&quota, &quota_ledger, now + ms);
	assert_in_range(got, 6999, 7001);
}

static void a_wait_is_exactly_as_long_as_it_says(void **state)
{
	struct kh_rate rate = rate_of(KH_QUOTA_REQUESTS, 7, MINUTE, 3, 8);
	uint64_t upto, now = kh_clock_mono_ms();
	struct kh_quota_ledger quota_ledger = fresh();
	(void)state;
	assert_int_equal(kh_bucket_wait_ms(memory[8], &rate, now, 3), 0);
	assert_int_equal(kh_bucket_wait_ms(memory[8], &rate, now, 4), UINT64_MAX);
	assert_int_equal(kh_bucket_take(&quota_ledger.slots[8], &rate, now, 9, false, &upto), 3);
	assert_int_equal(kh_bucket_used(memory[8], &rate, now), 3);
	for (uint64_t n = 1; n <= 3; n++) {
		uint64_t wait = kh_bucket_wait_ms(memory[8], &rate, now, n);
		_Atomic uint64_t copy = memory[8];
		assert_in_range(wait, n * MINUTE / 7 - 2, n * MINUTE / 7 + 2);
		assert_int_equal(kh_bucket_take(&copy, &rate, now + wait - 1, n, true, &upto), 0);
		assert_int_equal(kh_bucket_take(&copy, &rate, now + wait, n, true, &upto), n);
	}
}

static void bytes_go_up_to_the_last_one(void **state)
{
	struct kh_quota_ledger quota_ledger = fresh();
	struct kh_rate rates[] = { rate_of(KH_QUOTA_BYTES_DOWN, 1000, DAY, 1000, 8),
				   rate_of(KH_QUOTA_BYTES_DOWN, 700, DAY, 700, 9) };
	struct kh_limits tenant = { .rates = &rates[0], .n_rates = 1 };
	struct kh_limits site = { .rates = &rates[1], .n_rates = 1 };
	struct kh_quota quota = quota_of(&site, &tenant);
	struct kh_verdict reached = { .kind = KH_QUOTA_NONE };
	uint64_t now = kh_clock_mono_ms();
	(void)state;
	assert_int_equal(
		kh_quota_take_bytes(&quota, &quota_ledger, KH_QUOTA_BYTES_DOWN, now, 600, &reached),
		600);
	assert_int_equal(reached.kind, KH_QUOTA_NONE);
	assert_int_equal(
		kh_quota_take_bytes(&quota, &quota_ledger, KH_QUOTA_BYTES_DOWN, now, 600, &reached),
		100);
	assert_int_equal(reached.owner, KH_OF_SITE);
	/* Of the tenant's nothing was used up that did not go. */
	assert_int_equal(kh_bucket_used(memory[8], &rates[0], now), 700);
	assert_int_equal(kh_bucket_used(memory[9], &rates[1], now), 700);
	assert_int_equal(
		kh_quota_take_bytes(&quota, &quota_ledger, KH_QUOTA_BYTES_UP, now, 600, &reached),
		600);
}

/* ---- all or nothing ---- */

static void what_fails_on_one_limit_uses_up_no_other(void **state)
{
	struct kh_quota_ledger quota_ledger = fresh();
	struct kh_rate many = rate_of(KH_QUOTA_REQUESTS, 1000, DAY, 1000, 8);
	struct kh_rate few = rate_of(KH_QUOTA_REQUESTS, 3, DAY, 3, 9);
	struct kh_limits site = {
		.rates = &many, .n_rates = 1, .concurrency = 100, .concurrency_slot = 10
	};
	struct kh_limits tenant = {
		.rates = &few, .n_rates = 1, .concurrency = 2, .concurrency_slot = 11
	};
	struct kh_quota quota = quota_of(&site, &tenant);
	struct kh_verdict reached = { .kind = KH_QUOTA_NONE };
	uint64_t now = kh_clock_mono_ms();
	(void)state;
	assert_true(begin(&quota, &quota_ledger, now));
	assert_true(begin(&quota, &quota_ledger, now));
	/* No place: the request is not used up. */
	assert_false(kh_quota_begin(&quota, &quota_ledger, now, 0, &reached));
	assert_int_equal(reached.kind, KH_QUOTA_CONCURRENCY);
	assert_int_equal(reached.owner, KH_OF_TENANT);
	assert_int_equal(reached.most, 2);
	assert_int_equal(kh_verdict_code(&reached), KH_ERR_LIMIT);
	assert_int_equal(kh_bucket_used(memory[8], &many, now), 2);
	assert_int_equal(kh_bucket_used(memory[9], &few, now), 2);
	assert_int_equal(kh_places_taken(memory[10]), 2);
	kh_quota_end(&quota, &quota_ledger);
	assert_true(begin(&quota, &quota_ledger, now));
	kh_quota_end(&quota, &quota_ledger);
	kh_quota_end(&quota, &quota_ledger);
	/* No request: no place is kept. */
	reached.kind = KH_QUOTA_NONE;
	assert_false(kh_quota_begin(&quota, &quota_ledger, now, 0, &reached));
	assert_int_equal(reached.kind, KH_QUOTA_REQUESTS);
	assert_int_equal(kh_verdict_code(&reached), KH_ERR_LIMIT_SPENT);
	assert_int_equal(kh_bucket_used(memory[8], &many, now), 3);
	assert_int_equal(kh_places_taken(memory[10]), 0);
	assert_int_equal(kh_places_taken(memory[11]), 0);
}

static void what_filled_itself_again_is_not_given_back_twice(void **state)
{
	struct kh_rate rate = rate_of(KH_QUOTA_REQUESTS, 60, MINUTE, 1, 8);
	uint64_t upto, other, now = kh_clock_mono_ms();
	(void)state;
	fresh();
	assert_int_equal(kh_bucket_take(&memory[8], &rate, now, 1, true, &upto), 1);
	/* Two seconds later another takes the one that is there again. */
	assert_int_equal(kh_bucket_take(&memory[8], &rate, now + 2000, 1, true, &other), 1);
	kh_bucket_give(&memory[8], &rate, now + 2000, 1, upto);
	assert_int_equal(kh_bucket_take(&memory[8], &rate, now + 2000, 1, true, &other), 0);
	kh_bucket_give(&memory[8], &rate, now + 2000, 1, other);
	assert_int_equal(kh_bucket_used(memory[8], &rate, now + 2000), 0);
}

static void an_announced_body_needs_its_bytes(void **state)
{
	struct kh_quota_ledger quota_ledger = fresh();
	struct kh_rate up = rate_of(KH_QUOTA_BYTES_UP, 1000, MINUTE, 1000, 8);
	struct kh_limits tenant = { .rates = &up, .n_rates = 1 };
	struct kh_quota quota = quota_of(NULL, &tenant);
	struct kh_verdict reached = { .kind = KH_QUOTA_NONE };
	uint64_t now = kh_clock_mono_ms();
	(void)state;
	assert_false(kh_quota_begin(&quota, &quota_ledger, now, 1001, &reached));
	assert_int_equal(kh_verdict_code(&reached), KH_ERR_LIMIT_SPENT);
	assert_int_equal(reached.wait_ms, UINT64_MAX);
	assert_true(kh_quota_begin(&quota, &quota_ledger, now, 1000, &reached));
	assert_int_equal(
		kh_quota_take_bytes(&quota, &quota_ledger, KH_QUOTA_BYTES_UP, now, 900, &reached),
		900);
	reached.kind = KH_QUOTA_NONE;
	assert_false(kh_quota_begin(&quota, &quota_ledger, now, 101, &reached));
	assert_in_range(reached.wait_ms, 1, 60);
	assert_true(kh_quota_begin(&quota, &quota_ledger, now, 100, &reached));
	assert_true(kh_quota_begin(&quota, &quota_ledger, now, 0, &reached));
}

static void what_is_only_observed_goes_through_and_is_told(void **state)
{
	struct kh_quota_ledger quota_ledger = fresh();
	struct kh_rate one = rate_of(KH_QUOTA_REQUESTS, 1, DAY, 1, 8);
	struct kh_rate two = rate_of(KH_QUOTA_REQUESTS, 2, DAY, 2, 9);
	struct kh_limits tenant = {
		.rates = &one, .n_rates = 1, .concurrency = 1, .concurrency_slot = 10
	};
	struct kh_limits site = { .rates = &two, .n_rates = 1 };
	struct kh_quota quota = quota_of(&site, &tenant);
	struct kh_verdict reached = { .kind = KH_QUOTA_NONE };
	uint64_t now = kh_clock_mono_ms();
	(void)state;
	quota.observes = true;
	assert_true(kh_quota_begin(&quota, &quota_ledger, now, 0, &reached));
	assert_int_equal(reached.kind, KH_QUOTA_NONE);
	assert_true(kh_quota_begin(&quota, &quota_ledger, now, 0, &reached));
	assert_int_equal(reached.kind, KH_QUOTA_REQUESTS);
	assert_int_equal(kh_places_taken(memory[10]), 2);
	kh_quota_end(&quota, &quota_ledger);
	kh_quota_end(&quota, &quota_ledger);
	assert_int_equal(kh_places_taken(memory[10]), 0);
	/* The site's is not. */
	reached.kind = KH_QUOTA_NONE;
	assert_false(kh_quota_begin(&quota, &quota_ledger, now, 0, &reached));
}

/* ---- places ---- */

static void a_worker_that_ended_leaves_its_places(void **state)
{
	struct kh_limits tenant = { .connections = 3, .connections_slot = 8 };
	struct kh_quota quota = quota_of(NULL, &tenant);
	struct kh_verdict reached = { .kind = KH_QUOTA_NONE };
	struct kh_quota_ledger old = fresh(), next = quota_ledger_of(1);
	(void)state;
	assert_true(kh_quota_connect(&quota, &old, &reached));
	assert_true(kh_quota_connect(&quota, &old, &reached));
	assert_true(kh_quota_connect(&quota, &next, &reached));
	/* One limit for both. */
	assert_false(kh_quota_connect(&quota, &next, &reached));
	assert_false(kh_quota_connect(&quota, &old, &reached));
	kh_places_clear(&memory[8], 0);
	assert_int_equal(kh_places_taken(memory[8]), 1);
	/* What it gave back behind that changes nothing. */
	kh_quota_disconnect(&quota, &old);
	assert_int_equal(kh_places_taken(memory[8]), 1);
	assert_true(kh_quota_connect(&quota, &next, &reached));
	assert_true(kh_quota_connect(&quota, &next, &reached));
	assert_false(kh_quota_connect(&quota, &next, &reached));
}

static void a_slot_that_is_not_there_is_not_counted(void **state)
{
	struct kh_quota_ledger none = { .slots = NULL };
	struct kh_quota_ledger quota_ledger = fresh();
	struct kh_rate one = rate_of(KH_QUOTA_REQUESTS, 1, DAY, 1, SLOTS);
	struct kh_limits tenant = {
		.rates = &one, .n_rates = 1, .concurrency = 1, .concurrency_slot = 3
	};
	struct kh_quota quota = quota_of(NULL, &tenant);
	(void)state;
	assert_int_equal(begin_many(&quota, &none, 5, 3), 3);
	assert_int_equal(begin_many(&quota, &quota_ledger, 5, 3), 3);
	for (int i = 0; i < SLOTS; i++)
		assert_int_equal(memory[i], 0);
}

/* ---- eight threads ---- */

struct shared {
	struct kh_quota quota[2];
	struct kh_quota_ledger quota_ledger;
	uint64_t now_ms;
	pthread_barrier_t barrier;
	_Atomic unsigned got, running, most_running;
	_Atomic uint64_t bytes;
	unsigned tries;
};

static void run_threads(struct shared *s, void *(*body)(void *))
{
	pthread_t threads[THREADS];
	pthread_barrier_init(&s->barrier, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, body, s), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	pthread_barrier_destroy(&s->barrier);
}

static void *ask_for_requests(void *arg)
{
	struct shared *s = arg;
	pthread_barrier_wait(&s->barrier);
	for (unsigned i = 0; i < s->tries; i++)
		if (begin(&s->quota[i & 1], &s->quota_ledger, s->now_ms))
			atomic_fetch_add(&s->got, 1);
	return NULL;
}

/* Half of all fails on another limit, while the others take: of this one none is lost, none made.
 */
static void eight_threads_get_exactly_what_there_is(void **state)
{
	enum { MOST = 20011 };
	struct kh_rate many = rate_of(KH_QUOTA_REQUESTS, MOST, DAY, MOST, 8);
	struct kh_rate none = rate_of(KH_QUOTA_REQUESTS, 1, DAY, 1, 9);
	struct kh_limits site = { .rates = &many, .n_rates = 1 };
	struct kh_limits full = { .rates = &none, .n_rates = 1 };
	struct shared s = { .quota_ledger = fresh(),
			    .now_ms = kh_clock_mono_ms() + 1000,
			    .tries = 12000 };
	(void)state;
	s.quota[0] = quota_of(&site, NULL);
	s.quota[1] = quota_of(&site, &full);
	memory[9] = kh_bucket_value(&none, s.now_ms, 1);
	run_threads(&s, ask_for_requests);
	assert_int_equal(s.got, MOST);
	assert_int_equal(kh_bucket_used(memory[8], &many, s.now_ms), MOST);
}

static void *ask_alone(void *arg)
{
	struct shared *s = arg;
	pthread_barrier_wait(&s->barrier);
	for (unsigned i = 0; i < s->tries; i++)
		if (begin(&s->quota[0], &s->quota_ledger, s->now_ms))
			atomic_fetch_add(&s->got, 1);
	return NULL;
}

static void eight_threads_get_no_request_too_many_and_none_too_few(void **state)
{
	enum { MOST = 30011 };
	struct kh_rate tenants = rate_of(KH_QUOTA_REQUESTS, MOST, DAY, MOST, 8);
	struct kh_rate sites = rate_of(KH_QUOTA_REQUESTS, 2 * MOST, DAY, 2 * MOST, 9);
	struct kh_limits tenant = { .rates = &tenants, .n_rates = 1 };
	struct kh_limits site = { .rates = &sites, .n_rates = 1 };
	(void)state;
	for (int round = 0; round < 5; round++) {
		struct shared s = { .quota_ledger = fresh(),
				    .now_ms = kh_clock_mono_ms(),
				    .tries = 6000 };
		s.quota[0] = quota_of(&site, &tenant);
		run_threads(&s, ask_alone);
		assert_int_equal(s.got, MOST);
		assert_int_equal(kh_bucket_used(memory[9], &sites, s.now_ms), MOST);
	}
}

static void *go_in_and_out(void *arg)
{
	struct shared *s = arg;
	pthread_barrier_wait(&s->barrier);
	for (unsigned i = 0; i < s->tries; i++) {
		if (!begin(&s->quota[0], &s->quota_ledger, s->now_ms))
			continue;
		unsigned running = atomic_fetch_add(&s->running, 1) + 1;
		unsigned most = atomic_load(&s->most_running);
		while (running > most &&
		       !atomic_compare_exchange_weak(&s->most_running, &most, running))
			continue;
		atomic_fetch_add(&s->got, 1);
		atomic_fetch_sub(&s->running, 1);
		kh_quota_end(&s->quota[0], &s->quota_ledger);
	}
	return NULL;
}

static void no_more_run_at_a_time_than_there_are_places(void **state)
{
	struct kh_limits site = { .concurrency = 5, .concurrency_slot = 8 };
	struct kh_limits tenant = { .concurrency = 3, .concurrency_slot = 9 };
	struct shared s = { .quota_ledger = fresh(), .now_ms = 1, .tries = 20000 };
	(void)state;
	s.quota[0] = quota_of(&site, &tenant);
	run_threads(&s, go_in_and_out);
	assert_in_range(s.most_running, 1, 3);
	assert_true(s.got > 0);
	assert_int_equal(kh_places_taken(memory[8]), 0);
	assert_int_equal(kh_places_taken(memory[9]), 0);
	assert_int_equal(begin_many(&s.quota[0], &s.quota_ledger, 1, 5), 3);
}

static void *spend_bytes(void *arg)
{
	struct shared *s = arg;
	pthread_barrier_wait(&s->barrier);
	for (unsigned i = 0; i < s->tries; i++) {
		struct kh_verdict reached = { .kind = KH_QUOTA_NONE };
		atomic_fetch_add(&s->bytes, kh_quota_take_bytes(&s->quota[0], &s->quota_ledger,
								KH_QUOTA_BYTES_UP, s->now_ms,
								1 + i % 977, &reached));
	}
	return NULL;
}

static void eight_threads_spend_every_byte_and_no_more(void **state)
{
	enum { MOST = 9999991 };
	struct kh_rate rate = rate_of(KH_QUOTA_BYTES_UP, MOST, DAY, MOST, 8);
	struct kh_limits tenant = { .rates = &rate, .n_rates = 1 };
	struct shared s = { .quota_ledger = fresh(), .now_ms = kh_clock_mono_ms(), .tries = 6000 };
	(void)state;
	s.quota[0] = quota_of(NULL, &tenant);
	run_threads(&s, spend_bytes);
	assert_int_equal(s.bytes, MOST);
}

/* ---- words ---- */

static void a_verdict_says_whose_limit_and_until_when(void **state)
{
	struct kh_rate rate = rate_of(KH_QUOTA_REQUESTS, 600, MINUTE, 20, 8);
	struct kh_verdict v = { .kind = KH_QUOTA_REQUESTS,
				.owner = KH_OF_TENANT,
				.rate = rate,
				.most = 20,
				.used = 20,
				.wait_ms = 1501,
				.reset_ms = 2000 };
	struct kh_err err = KH_ERR_INIT;
	char text[KH_VERDICT_LIMIT_BYTES];
	(void)state;
	kh_verdict_text(&v, "acme", &err);
	assert_int_equal(err.code, KH_ERR_LIMIT);
	assert_int_equal(err.retry_after_s, 2);
	assert_string_equal(err.text,
			    "the limit of tenant 'acme' is used up: requests 600/min, burst 20 (20 "
			    "of 20 used, some of it again in 2s, all of it in 2s)");
	v.wait_ms = 3600 * 1000 + 1;
	kh_verdict_text(&v, "acme", &err);
	assert_int_equal(err.code, KH_ERR_LIMIT_SPENT);
	assert_int_equal(err.retry_after_s, 0);
	v = (struct kh_verdict){ .kind = KH_QUOTA_CONCURRENCY,
				 .owner = KH_OF_SITE,
				 .most = 64,
				 .used = 64,
				 .wait_ms = 1000 };
	kh_verdict_text(&v, "", &err);
	assert_string_equal(err.text,
			    "the limit of the site is reached: concurrency 64 (64 at this moment)");
	assert_int_equal(err.retry_after_s, 1);
	v = (struct kh_verdict){ .kind = KH_QUOTA_MAX_BODY, .owner = KH_OF_RULE, .most = 1 << 20 };
	kh_verdict_text(&v, "POST https://a.example/**", &err);
	assert_int_equal(kh_err_status(err.code), 413);
	assert_string_equal(kh_verdict_limit(&v, text), "max_body 1MiB");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bucket_lets_its_burst_through_and_fills_at_its_speed),
		cmocka_unit_test(over_a_long_time_exactly_the_amount_goes_through),
		cmocka_unit_test(a_wait_is_exactly_as_long_as_it_says),
		cmocka_unit_test(bytes_go_up_to_the_last_one),
		cmocka_unit_test(what_fails_on_one_limit_uses_up_no_other),
		cmocka_unit_test(what_filled_itself_again_is_not_given_back_twice),
		cmocka_unit_test(an_announced_body_needs_its_bytes),
		cmocka_unit_test(what_is_only_observed_goes_through_and_is_told),
		cmocka_unit_test(a_worker_that_ended_leaves_its_places),
		cmocka_unit_test(a_slot_that_is_not_there_is_not_counted),
		cmocka_unit_test(eight_threads_get_exactly_what_there_is),
		cmocka_unit_test(eight_threads_get_no_request_too_many_and_none_too_few),
		cmocka_unit_test(no_more_run_at_a_time_than_there_are_places),
		cmocka_unit_test(eight_threads_spend_every_byte_and_no_more),
		cmocka_unit_test(a_verdict_says_whose_limit_and_until_when),
	};
	return cmocka_run_group_tests_name("quota", tests, NULL, NULL);
}
