/*
 * timestamp.c - a strict parser of timestamps that others wrote
 *
 * Each form is a pattern in which letters stand for digits and everything else for itself. The
 * values are then checked against the calendar.
 */
#include <keyhole/base/timestamp.h>

/* Indexes into fields. */
enum { YEAR, MONTH, DAY, HOUR, MINUTE, SECOND, FIELDS };

static const char letters[FIELDS + 1] = "YMDhms";

/* `pattern` at the front of *text; its letters' digits are added to what stands in `fields`. */
static bool take(struct kh_slice *text, const char *pattern, unsigned fields[FIELDS])
{
	size_t len = strlen(pattern);

	if (text->len < len)
		return false;
	for (size_t i = 0; i < len; i++) {
		const char *letter = strchr(letters, pattern[i]);
		char c = text->ptr[i];

		if (!letter ? c != pattern[i] : !kh_is_digit(c))
			return false;
		if (letter)
			fields[letter - letters] =
				fields[letter - letters] * 10 + (unsigned)(c - '0');
	}
	*text = kh_slice_sub(*text, len, text->len);
	return true;
}

static bool take_any_of(struct kh_slice *text, const char *characters)
{
	if (text->len == 0 || text->ptr[0] == '\0' || !strchr(characters, text->ptr[0]))
		return false;
	*text = kh_slice_sub(*text, 1, text->len);
	return true;
}

/* One of `n` names of three letters; its number from 0 on. */
static bool take_name(struct kh_slice *text, const char *names, unsigned n, unsigned *which)
{
	for (*which = 0; *which < n; ++*which) {
		if (kh_slice_has_prefix(*text, kh_slice_of(names + (size_t)3 * *which, 3))) {
			*text = kh_slice_sub(*text, 3, text->len);
			return true;
		}
	}
	return false;
}

/* Since the epoch, by the proleptic Gregorian calendar in years that begin on March 1st. */
static int64_t days_of(const unsigned fields[FIELDS])
{
	unsigned year = fields[YEAR] - (fields[MONTH] <= 2);
	unsigned in_year = (153 * ((fields[MONTH] + 9) % 12) + 2) / 5 + fields[DAY] - 1;

	return (int64_t)year * 365 + year / 4 - year / 100 + year / 400 + in_year - 719468;
}

static bool is_of_calendar(const unsigned fields[FIELDS])
{
	static const unsigned char most[] = { 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leaps = fields[YEAR] % 4 == 0 && (fields[YEAR] % 100 != 0 || fields[YEAR] % 400 == 0);

	return fields[YEAR] >= 1970 && fields[YEAR] <= 9999 && fields[MONTH] >= 1 &&
	       fields[MONTH] <= 12 && fields[DAY] >= 1 && fields[DAY] <= most[fields[MONTH] - 1] &&
	       (leaps || fields[MONTH] != 2 || fields[DAY] <= 28) && fields[HOUR] <= 23 &&
	       fields[MINUTE] <= 59 && fields[SECOND] <= 60;
}

/* "Z", "+01:00"; in seconds. */
static bool take_offset(struct kh_slice *text, bool loose, int64_t *offset)
{
	unsigned fields[FIELDS] = { 0 };

	*offset = 0;
	if ((loose && text->len == 0) || take_any_of(text, "Zz"))
		return true;
	bool west = text->len > 0 && text->ptr[0] == '-';
	if (!take_any_of(text, "+-") ||
	    !(take(text, "hh:mm", fields) || (loose && take(text, "hhmm", fields))) ||
	    fields[HOUR] > 23 || fields[MINUTE] > 59)
		return false;
	*offset = (int64_t)(fields[HOUR] * 60 + fields[MINUTE]) * 60 * (west ? -1 : 1);
	return true;
}

static bool take_internet(struct kh_slice *text, bool loose, unsigned fields[FIELDS],
			  int64_t *offset)
{
	if (!take(text, "YYYY-MM-DD", fields) || !take_any_of(text, loose ? "Tt " : "Tt") ||
	    !take(text, "hh:mm:ss", fields))
		return false;
	if (take_any_of(text, ".")) {
		size_t digits = 0;
		while (digits < text->len && kh_is_digit(text->ptr[digits]))
			digits++;
		if (digits == 0)
			return false;
		*text = kh_slice_sub(*text, digits, text->len);
	}
	return take_offset(text, loose, offset);
}

static bool take_http(struct kh_slice *text, unsigned fields[FIELDS])
{
	static const char days[] = "ThuFriSatSunMonTueWed"; /* the epoch was a Thursday */
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	unsigned day;

	if (!take_name(text, days, 7, &day) || !take(text, ", DD ", fields) ||
	    !take_name(text, months, 12, &fields[MONTH]))
		return false;
	fields[MONTH]++;
	if (!take(text, " YYYY hh:mm:ss ", fields) || !kh_slice_eq(*text, KH_SLICE("GMT")))
		return false;
	*text = KH_SLICE("");
	return is_of_calendar(fields) && days_of(fields) % 7 == day;
}

bool kh_timestamp_read(struct kh_slice text, enum kh_timestamp_form form, uint64_t *ms)
{
	unsigned fields[FIELDS] = { 0 };
	int64_t offset = 0;
	bool ok = false;

	switch (form) {
	case KH_TIMESTAMP_RFC3339:
	case KH_TIMESTAMP_LOOSE:
		ok = take_internet(&text, form == KH_TIMESTAMP_LOOSE, fields, &offset);
		break;
	case KH_TIMESTAMP_HTTP:
		ok = take_http(&text, fields);
		break;
	case KH_TIMESTAMP_BASIC:
		ok = take(&text, "YYYYMMDDThhmmssZ", fields);
		break;
	}
	if (!ok || text.len > 0 || !is_of_calendar(fields))
		return false;
	int64_t seconds = ((days_of(fields) * 24 + fields[HOUR]) * 60 + fields[MINUTE]) * 60 +
			  fields[SECOND] - offset;
	*ms = (uint64_t)seconds * 1000;
	return seconds >= 0;
}
