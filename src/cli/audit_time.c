/* audit_time.c - times of --since and --until */
#include "audit_time.h"

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/timestamp.h>
#include <keyhole/config/config.h>

#include "cli_internal.h"

/* "90s", "1h30m", "1d": numbers with a unit each. */
static bool read_duration(struct kh_slice text, uint64_t *out_ms)
{
	*out_ms = 0;
	while (text.len > 0) {
		uint64_t ms, number;
		size_t digits = 0, unit;
		while (digits < text.len && kh_is_digit(text.ptr[digits]))
			digits++;
		unit = digits;
		while (unit < text.len && !kh_is_digit(text.ptr[unit]))
			unit++;
		if (kh_slice_eq(kh_slice_sub(text, digits, unit), KH_SLICE("d"))) {
			if (!kh_slice_to_u64(kh_slice_sub(text, 0, digits), &number) ||
			    __builtin_mul_overflow(number, UINT64_C(86400000), &ms))
				return false;
		} else if (!kh_value_duration(kh_slice_sub(text, 0, unit), &ms)) {
			return false;
		}
		if (__builtin_add_overflow(*out_ms, ms, out_ms))
			return false;
		text = kh_slice_sub(text, unit, text.len);
	}
	return true;
}

bool kh_audit_time(const char *command, const char *option, const char *text, uint64_t now_ms,
		   uint64_t *ms)
{
	struct kh_slice all = kh_slice_str(text);
	kh_auto_free char *midnight = all.len == 10 ? kh_strf("%sT00:00:00Z", text) : NULL;
	uint64_t before;

	if (all.len > 0 && read_duration(all, &before)) {
		/* The times of records are read in whole seconds. One beyond the epoch is no bound.
		 */
		*ms = before < now_ms ? (now_ms - before) / 1000 * 1000 : 0;
		return true;
	}
	if (kh_timestamp_read(all, KH_TIMESTAMP_LOOSE, ms) ||
	    (midnight && kh_timestamp_read(kh_slice_str(midnight), KH_TIMESTAMP_RFC3339, ms)))
		return true;
	kh_cli_complain("%s: %s %s: expected a time such as 2026-01-02T03:04:05Z, or a "
			"duration before now such as 10m, 2h or 1d",
			command, option, kh_esc_str(text));
	return false;
}
