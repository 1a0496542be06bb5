/*
 * fuzz_timestamp.c - times that somebody else wrote
 *
 * A time that is taken is one of the years 1970 to 9999 and, written anew in its form, the same
 * text (but for a 60th second); what the strict form takes, the loose one takes alike.
 */
#include <stdlib.h>
#include <time.h>

#include <keyhole/base/timestamp.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

/* `second`: where its digits stand in the text. */
static void check_fixed(struct kh_slice text, enum kh_timestamp_form form, size_t second)
{
	char again[40];
	struct tm tm;
	uint64_t ms;
	if (!kh_timestamp_read(text, form, &ms))
		return;
	time_t seconds = (time_t)(ms / 1000);
	require(gmtime_r(&seconds, &tm));
	if (form == KH_TIMESTAMP_HTTP)
		require(strftime(again, sizeof(again), "%a, %d %b %Y %H:%M:%S GMT", &tm) > 0);
	else
		require(strftime(again, sizeof(again), "%Y%m%dT%H%M%SZ", &tm) > 0);
	require(kh_slice_eq(kh_slice_str(again), text) || text.ptr[second] == '6');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kh_slice text = kh_slice_of(data, size);
	uint64_t strict, loose;
	if (kh_timestamp_read(text, KH_TIMESTAMP_RFC3339, &strict))
		require(kh_timestamp_read(text, KH_TIMESTAMP_LOOSE, &loose) && strict == loose);
	if (kh_timestamp_read(text, KH_TIMESTAMP_LOOSE, &loose))
		require(loose % 1000 == 0 && loose / 1000 < UINT64_C(253402300801) + 24 * 3600);
	check_fixed(text, KH_TIMESTAMP_HTTP, 23);
	check_fixed(text, KH_TIMESTAMP_BASIC, 13);
	return 0;
}
