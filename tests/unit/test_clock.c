/* test_clock.c - time stamps fit the C library's calendar, and both clocks go on */
#include "unit.h"

#include <stdio.h>
#include <time.h>

#include <keyhole/base/clock.h>

static void check(uint64_t s)
{
	time_t t = (time_t)s;
	struct tm tm;
	assert_non_null(gmtime_r(&t, &tm));
	char want[64], got[KH_TIME_BYTES];
	(void)snprintf(want, sizeof(want), "%04d-%02d-%02dT%02d:%02d:%02d.%03uZ", tm.tm_year + 1900,
		       tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
		       (unsigned)(s % 1000));
	kh_clock_format(s * 1000 + s % 1000, got);
	assert_string_equal(got, want);
}

static void every_day_has_its_date(void **state)
{
	(void)state;
	/* 1970 to 2400: each day's last second, so all leap years and their exceptions. */
	for (uint64_t day = 0; day < 157000; day++)
		check(day * 86400 + 86399);
	check(0);
	check(951782400);    /* 2000-02-29 */
	check(4107542399);   /* 2100-02-28, no leap year */
	check(253402300799); /* the last second of 9999 */
}

static void a_time_past_four_digits_is_the_last_one(void **state)
{
	(void)state;
	char got[KH_TIME_BYTES];
	kh_clock_format(UINT64_MAX, got);
	assert_string_equal(got, "9999-12-31T23:59:59.999Z");
	assert_int_equal(strlen(got), KH_TIME_BYTES - 1);
}

static void clocks_go_on(void **state)
{
	(void)state;
	uint64_t us = kh_clock_mono_us(), ms = kh_clock_mono_ms();
	assert_true(ms >= us / 1000 && ms - us / 1000 < 10000);
	for (int i = 0; i < 1000; i++) {
		uint64_t now = kh_clock_mono_us();
		assert_true(now >= us);
		us = now;
	}
	uint64_t wall = kh_clock_wall_ms(), want = (uint64_t)time(NULL) * 1000;
	assert_true(wall + 2000 > want && wall < want + 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_day_has_its_date),
		cmocka_unit_test(a_time_past_four_digits_is_the_last_one),
		cmocka_unit_test(clocks_go_on),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
