/* test_events.c - the ring between an event thread and those who watch */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>

#include <keyhole/loop/events.h>

static struct kh_events *events;
static struct kh_buf room;

static int begin(void **state)
{
	(void)state;
	events = kh_events_new();
	kh_buf_init(&room, KH_LIMIT_EVENTS_RING_BYTES);
	return events ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	free(events);
	kh_buf_fini(&room);
	return 0;
}

static void put(const char *tenant, const char *record)
{
	kh_events_put(events, tenant, "sb", kh_slice_str(record));
}

static void assert_next(const char *tenant, const char *record)
{
	struct kh_event event;
	assert_true(kh_events_take(events, &room, &event));
	assert_true(kh_slice_eq(event.tenant, kh_slice_str(tenant)));
	assert_true(kh_slice_eq(event.sandbox, KH_SLICE("sb")));
	assert_true(kh_slice_eq(event.record, kh_slice_str(record)));
}

static void assert_none(void)
{
	struct kh_event event;
	assert_false(kh_events_take(events, &room, &event));
}

static void test_what_is_not_published_is_not_there(void **state)
{
	(void)state;
	put("a", "one");
	assert_none();
	kh_events_publish(events);
	assert_next("a", "one");
	assert_none();
	put("", "");
	put("b", "two");
	kh_events_publish(events);
	assert_next("", "");
	assert_next("b", "two");
	assert_none();
}

static void test_nobody_watches_at_first(void **state)
{
	(void)state;
	assert_false(kh_events_is_watched(NULL));
	assert_false(kh_events_is_watched(events));
	atomic_store(&events->watched, true);
	assert_true(kh_events_is_watched(events));
}

static void test_what_finds_no_room_is_counted_and_the_rest_is_whole(void **state)
{
	char record[1000];
	size_t fit = 0;
	(void)state;
	memset(record, 'x', sizeof(record));
	record[sizeof(record) - 1] = '\0';
	for (int i = 0; i < 2000; i++)
		put("acme", record);
	kh_events_publish(events);
	for (struct kh_event event; kh_events_take(events, &room, &event); fit++)
		assert_true(kh_slice_eq(event.record, kh_slice_str(record)));
	assert_in_range(fit, 1000, 1100);
	assert_int_equal(kh_events_lost(events), 2000 - fit);
	assert_int_equal(kh_events_lost(events), 0);
	put("acme", "again");
	kh_events_publish(events);
	assert_next("acme", "again");
}

static void test_the_ring_goes_round_wherever_it_ends(void **state)
{
	char record[5000];
	(void)state;
	for (unsigned i = 0; i < 5000; i++) {
		size_t len = i * 37 % sizeof(record);
		memset(record, 'a' + (int)(i % 26), len);
		kh_events_put(events, "acme", "sb", kh_slice_of(record, len));
		kh_events_publish(events);
		struct kh_event event;
		assert_true(kh_events_take(events, &room, &event));
		assert_true(kh_slice_eq(event.record, kh_slice_of(record, len)));
	}
	assert_none();
	assert_int_equal(kh_events_lost(events), 0);
}

static void test_what_lay_there_before_is_skipped(void **state)
{
	(void)state;
	put("a", "old");
	kh_events_publish(events);
	put("a", "not yet published");
	kh_events_skip(events);
	assert_none();
	kh_events_publish(events);
	assert_next("a", "not yet published");
}

enum { MANY = 200 * 1000 };

static void *produce(void *arg)
{
	char record[64];
	(void)arg;
	for (unsigned i = 1; i <= MANY; i++) {
		(void)snprintf(record, sizeof(record), "%u", i);
		put("a", record);
		if (i % 7 == 0 || i == MANY)
			kh_events_publish(events);
	}
	return NULL;
}

static void test_two_threads_see_each_in_its_order_or_counted(void **state)
{
	pthread_t thread;
	unsigned long last = 0, seen = 0, lost = 0;
	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, produce, NULL), 0);
	for (struct kh_event event; seen + lost < MANY;) {
		lost += kh_events_lost(events);
		if (!kh_events_take(events, &room, &event)) {
			(void)sched_yield();
			continue;
		}
		char text[16] = "";
		assert_in_range(event.record.len, 1, sizeof(text) - 1);
		memcpy(text, event.record.ptr, event.record.len);
		unsigned long number = strtoul(text, NULL, 10);
		assert_true(number > last);
		last = number;
		seen++;
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_none();
	assert_int_equal(seen + lost, MANY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_what_is_not_published_is_not_there, begin,
						end),
		cmocka_unit_test_setup_teardown(test_nobody_watches_at_first, begin, end),
		cmocka_unit_test_setup_teardown(
			test_what_finds_no_room_is_counted_and_the_rest_is_whole, begin, end),
		cmocka_unit_test_setup_teardown(test_the_ring_goes_round_wherever_it_ends, begin,
						end),
		cmocka_unit_test_setup_teardown(test_what_lay_there_before_is_skipped, begin, end),
		cmocka_unit_test_setup_teardown(test_two_threads_see_each_in_its_order_or_counted,
						begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
