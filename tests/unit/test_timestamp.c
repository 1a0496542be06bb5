/* test_timestamp.c - times that somebody else wrote: each form, and what only resembles it */
#include "unit.h"

#include <time.h>

#include <keyhole/base/clock.h>
#include <keyhole/base/timestamp.h>

#define NONE UINT64_MAX
#define S(seconds) (UINT64_C(seconds) * 1000)

static uint64_t read(const char *text, enum kh_timestamp_form form)
{
	uint64_t ms = 0;

	return kh_timestamp_read(kh_slice_str(text), form, &ms) ? ms : NONE;
}

static void each_form_takes_its_own_and_no_other(void **state)
{
	static const struct {
		const char *text;
		uint64_t rfc3339, loose, http, basic;
	} rows[] = {
		{ "1970-01-01T00:00:00Z", 0, 0, NONE, NONE },
		{ "2026-11-22T13:00:00Z", S(1795352400), S(1795352400), NONE, NONE },
		{ "2026-11-22t13:00:00z", S(1795352400), S(1795352400), NONE, NONE },
		{ "2026-11-22T13:00:00.987654321Z", S(1795352400), S(1795352400), NONE, NONE },
		{ "2026-11-22T13:00:00+00:00", S(1795352400), S(1795352400), NONE, NONE },
		{ "2026-11-22T14:30:00.5+01:30", S(1795352400), S(1795352400), NONE, NONE },
		{ "2026-11-22T08:00:00-05:00", S(1795352400), S(1795352400), NONE, NONE },
		{ "2024-02-29T00:00:00Z", S(1709164800), S(1709164800), NONE, NONE },
		{ "2016-12-31T23:59:60Z", S(1483228800), S(1483228800), NONE, NONE },
		{ "9999-12-31T23:59:59Z", S(253402300799), S(253402300799), NONE, NONE },
		/* as tools print it */
		{ "2026-11-22 13:00:00Z", NONE, S(1795352400), NONE, NONE },
		{ "2026-11-22T13:00:00", NONE, S(1795352400), NONE, NONE },
		{ "2026-11-22T13:00:00.5", NONE, S(1795352400), NONE, NONE },
		{ "2026-11-22T14:00:00+0100", NONE, S(1795352400), NONE, NONE },
		/* days that the calendar has not, and clocks */
		{ "2026-02-29T00:00:00Z", NONE, NONE, NONE, NONE },
		{ "2100-02-29T00:00:00Z", NONE, NONE, NONE, NONE },
		{ "2026-04-31T00:00:00Z", NONE, NONE, NONE, NONE },
		{ "2026-00-01T00:00:00Z", NONE, NONE, NONE, NONE },
		{ "2026-13-01T00:00:00Z", NONE, NONE, NONE, NONE },
		{ "2026-01-00T00:00:00Z", NONE, NONE, NONE, NONE },
		{ "2026-01-01T24:00:00Z", NONE, NONE, NONE, NONE },
		{ "2026-01-01T00:60:00Z", NONE, NONE, NONE, NONE },
		{ "2026-01-01T00:00:61Z", NONE, NONE, NONE, NONE },
		{ "1969-12-31T23:59:59Z", NONE, NONE, NONE, NONE },
		{ "1970-01-01T00:00:00+00:01", NONE, NONE, NONE, NONE },
		/* more, less, and other characters */
		{ "", NONE, NONE, NONE, NONE },
		{ "2026-11-22", NONE, NONE, NONE, NONE },
		{ "2026-11-22T13:00Z", NONE, NONE, NONE, NONE },
		{ "2026-11-22T13:00:00.Z", NONE, NONE, NONE, NONE },
		{ "2026-11-22T13:00:00ZZ", NONE, NONE, NONE, NONE },
		{ "2026-11-22T13:00:00Z ", NONE, NONE, NONE, NONE },
		{ " 2026-11-22T13:00:00Z", NONE, NONE, NONE, NONE },
		{ "2026-11-22T13:00:00+1:00", NONE, NONE, NONE, NONE },
		{ "2026-11-22T13:00:00+24:00", NONE, NONE, NONE, NONE },
		{ "2026-11-22T13:00:00+00:60", NONE, NONE, NONE, NONE },
		{ "2026-11-2T13:00:00Z", NONE, NONE, NONE, NONE },
		{ "+026-11-22T13:00:00Z", NONE, NONE, NONE, NONE },
		{ "12026-11-22T13:00:00Z", NONE, NONE, NONE, NONE },
		/* IMF-fixdate */
		{ "Sun, 06 Nov 1994 08:49:37 GMT", NONE, NONE, S(784111777), NONE },
		{ "Thu, 01 Jan 1970 00:00:00 GMT", NONE, NONE, 0, NONE },
		{ "Thu, 29 Feb 2024 00:00:00 GMT", NONE, NONE, S(1709164800), NONE },
		{ "Mon, 06 Nov 1994 08:49:37 GMT", NONE, NONE, NONE, NONE },
		{ "sun, 06 nov 1994 08:49:37 gmt", NONE, NONE, NONE, NONE },
		{ "Sunday, 06 Nov 1994 08:49:37 GMT", NONE, NONE, NONE, NONE },
		{ "Sunday, 06-Nov-94 08:49:37 GMT", NONE, NONE, NONE, NONE },
		{ "Sun Nov  6 08:49:37 1994", NONE, NONE, NONE, NONE },
		{ "Sun, 6 Nov 1994 08:49:37 GMT", NONE, NONE, NONE, NONE },
		{ "Sun,  6 Nov 1994 08:49:37 GMT", NONE, NONE, NONE, NONE },
		{ "Sun, 06 Nov 1994 08:49:37 UTC", NONE, NONE, NONE, NONE },
		{ "Sun, 06 Nov 1994 08:49:37 GMT ", NONE, NONE, NONE, NONE },
		{ "Sun, 06 Nov 1994 08:49:37 ", NONE, NONE, NONE, NONE },
		{ "Sun, 31 Feb 2024 08:49:37 GMT", NONE, NONE, NONE, NONE },
		{ "Sun, 06 Nox 1994 08:49:37 GMT", NONE, NONE, NONE, NONE },
		/* Signature Version 4 */
		{ "20130524T000000Z", NONE, NONE, NONE, S(1369353600) },
		{ "20161231T235960Z", NONE, NONE, NONE, S(1483228800) },
		{ "20130532T000000Z", NONE, NONE, NONE, NONE },
		{ "20130524t000000z", NONE, NONE, NONE, NONE },
		{ "20130524T000000", NONE, NONE, NONE, NONE },
		{ "20130524T0000000Z", NONE, NONE, NONE, NONE },
		{ "20130524T00:00:00Z", NONE, NONE, NONE, NONE },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (read(rows[i].text, KH_TIMESTAMP_RFC3339) != rows[i].rfc3339 ||
		    read(rows[i].text, KH_TIMESTAMP_LOOSE) != rows[i].loose ||
		    read(rows[i].text, KH_TIMESTAMP_HTTP) != rows[i].http ||
		    read(rows[i].text, KH_TIMESTAMP_BASIC) != rows[i].basic)
			fail_msg("\"%s\" is read as another time", rows[i].text);
	}
}

static void a_text_that_is_cut_off_anywhere_is_no_time(void **state)
{
	static const char *const whole[] = { "2026-11-22T13:00:00Z",
					     "Sun, 06 Nov 1994 08:49:37 GMT", "20130524T000000Z" };
	static const enum kh_timestamp_form forms[] = { KH_TIMESTAMP_RFC3339, KH_TIMESTAMP_HTTP,
							KH_TIMESTAMP_BASIC };
	uint64_t ms;

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct kh_slice text = kh_slice_str(whole[i]);
		for (size_t len = 0; len < text.len; len++)
			assert_false(kh_timestamp_read(kh_slice_sub(text, 0, len), forms[i], &ms));
		char odd[40];
		memcpy(odd, text.ptr, text.len);
		for (size_t at = 0; at < text.len; at++) {
			odd[at] = '\0';
			assert_false(kh_timestamp_read(kh_slice_of(odd, text.len), forms[i], &ms));
			odd[at] = text.ptr[at];
		}
	}
}

/* kh_clock_format and strftime write what is read here. */
static void every_day_until_2400_is_read_as_it_was_written(void **state)
{
	(void)state;
	for (int64_t day = 0; day < 157000; day++) {
		time_t seconds = (time_t)(day * 86400 + day % 86400);
		char text[KH_TIME_BYTES], http[40], basic[20];
		struct tm tm;
		assert_non_null(gmtime_r(&seconds, &tm));
		kh_clock_format((uint64_t)seconds * 1000, text);
		assert_true(strftime(http, sizeof(http), "%a, %d %b %Y %H:%M:%S GMT", &tm) > 0);
		assert_true(strftime(basic, sizeof(basic), "%Y%m%dT%H%M%SZ", &tm) > 0);
		assert_int_equal(read(text, KH_TIMESTAMP_RFC3339), (uint64_t)seconds * 1000);
		assert_int_equal(read(http, KH_TIMESTAMP_HTTP), (uint64_t)seconds * 1000);
		assert_int_equal(read(basic, KH_TIMESTAMP_BASIC), (uint64_t)seconds * 1000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_form_takes_its_own_and_no_other),
		cmocka_unit_test(a_text_that_is_cut_off_anywhere_is_no_time),
		cmocka_unit_test(every_day_until_2400_is_read_as_it_was_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
