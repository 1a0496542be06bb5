/* clock.c - the two clocks, and a timestamp that needs no time zone file */
#include <keyhole/base/clock.h>

#include <string.h>
#include <time.h>

static uint64_t read_us(clockid_t id)
{
	struct timespec now;
	if (clock_gettime(id, &now) != 0)
		return 0; /* only for a clock that does not exist */
	return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

uint64_t kh_clock_mono_ms(void)
{
	return read_us(CLOCK_MONOTONIC) / 1000;
}

uint64_t kh_clock_mono_us(void)
{
	return read_us(CLOCK_MONOTONIC);
}

uint64_t kh_clock_thread_ns(void)
{
	struct timespec now;
	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) != 0)
		return 0; /* as above */
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t kh_clock_wall_ms(void)
{
	return read_us(CLOCK_REALTIME) / 1000;
}

/*
 * The proleptic Gregorian calendar, counted in years that begin on March 1st, so that the leap day
 * is a year's last day and the lengths of months follow one line.
 */
static void civil_date(uint64_t days, unsigned *year, unsigned *month, unsigned *day)
{
	uint64_t z = days + 719468; /* days from 0000-03-01 */
	uint64_t era = z / 146097;  /* of 400 years */
	uint64_t doe = z % 146097;
	uint64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	uint64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	uint64_t mp = (5 * doy + 2) / 153;
	*day = (unsigned)(doy - (153 * mp + 2) / 5 + 1);
	*month = (unsigned)(mp < 10 ? mp + 3 : mp - 9);
	*year = (unsigned)(yoe + era * 400 + (*month <= 2));
}

/* `width` digits and what follows them; printf took a microsecond of each request. */
static char *put(char *at, unsigned number, size_t width, char behind)
{
	for (size_t i = width; i > 0; i--) {
		at[i - 1] = (char)('0' + number % 10);
		number /= 10;
	}
	at[width] = behind;
	return at + width + 1;
}

enum { SECOND_BYTES = sizeof("2026-01-01T00:00:00.") - 1 };

static void format_second(uint64_t s, char out[SECOND_BYTES])
{
	unsigned in_day = (unsigned)(s % 86400);
	unsigned year, month, day;
	civil_date(s / 86400, &year, &month, &day);
	char *at = put(out, year, 4, '-');
	at = put(at, month, 2, '-');
	at = put(at, day, 2, 'T');
	at = put(at, in_day / 3600, 2, ':');
	at = put(at, in_day / 60 % 60, 2, ':');
	(void)put(at, in_day % 60, 2, '.');
}

void kh_clock_format(uint64_t wall_ms, char out[KH_TIME_BYTES])
{
	/* Most of what is written comes from the second of the one before. */
	static _Thread_local char last_text[SECOND_BYTES];
	static _Thread_local uint64_t last_second = UINT64_MAX;
	const uint64_t last = 253402300799999; /* 9999-12-31T23:59:59.999Z: four digits of year */
	if (wall_ms > last)
		wall_ms = last;
	uint64_t s = wall_ms / 1000;
	if (s != last_second) {
		format_second(s, last_text);
		last_second = s;
	}
	memcpy(out, last_text, SECOND_BYTES);
	*put(out + SECOND_BYTES, (unsigned)(wall_ms % 1000), 3, 'Z') = '\0';
}
