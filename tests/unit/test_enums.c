/* test_enums.c - what has a word for each value of an enum has one for the last that was added */
#include "unit.h"

#include <string.h>

#include <keyhole/fetcher/fetch.h>
#include <keyhole/policy/quota.h>

static const char *quota_name(unsigned value)
{
	return kh_quota_name((enum kh_quota_kind)value);
}

static const char *owner_name(unsigned value)
{
	return kh_quota_owner_name((enum kh_quota_owner)value);
}

static const char *fetch_error_name(unsigned value)
{
	return kh_fetch_error_name((enum kh_fetch_error)value);
}

/* `first`: below it are values that have none. */
static void assert_named(const char *(*name)(unsigned value), unsigned first, unsigned n)
{
	for (unsigned i = first; i < n; i++) {
		if (!name(i) || name(i)[0] == '\0')
			fail_msg("value %u of %u has no name", i, n);
		for (unsigned j = first; j < i; j++)
			assert_string_not_equal(name(i), name(j));
	}
}

static void each_value_has_a_name_of_its_own(void **state)
{
	(void)state;
	assert_named(quota_name, KH_QUOTA_NONE + 1, KH_QUOTA_KINDS);
	assert_named(owner_name, 0, KH_QUOTA_OWNERS);
	assert_named(fetch_error_name, KH_FETCH_ERROR_NONE + 1, KH_FETCH_ERRORS);
}

static void what_is_no_value_is_named_like_none(void **state)
{
	(void)state;
	assert_string_equal(quota_name(KH_QUOTA_KINDS), "");
	assert_string_equal(owner_name(KH_QUOTA_OWNERS), "");
	assert_string_equal(fetch_error_name(KH_FETCH_ERRORS),
			    fetch_error_name(KH_FETCH_ERROR_OTHER));
}

static void count(void *arg, const struct kh_verdict *limit)
{
	unsigned *seen = arg;
	seen[limit->kind]++;
}

static void each_kind_of_limit_is_shown_once(void **state)
{
	struct kh_rate rates[] = { { .kind = KH_QUOTA_REQUESTS, .period_ms = 1000 },
				   { .kind = KH_QUOTA_BYTES_UP, .period_ms = 1000 },
				   { .kind = KH_QUOTA_BYTES_DOWN, .period_ms = 1000 } };
	const struct kh_limits limits = { .rates = rates,
					  .n_rates = 3,
					  .concurrency = 1,
					  .connections = 1,
					  .max_body = 1,
					  .tunnel_lifetime_ms = 1 };
	const struct kh_quota_ledger nothing_counted = { 0 };
	unsigned seen[KH_QUOTA_KINDS] = { 0 };
	(void)state;
	kh_quota_look(&limits, KH_OF_SITE, &nothing_counted, 0, count, seen);
	assert_int_equal(seen[KH_QUOTA_NONE], 0);
	for (enum kh_quota_kind kind = KH_QUOTA_NONE + 1; kind < KH_QUOTA_KINDS; kind++) {
		assert_int_equal(seen[kind], 1);
		assert_int_equal(kh_limits_value(&limits, kind), kh_quota_is_rate(kind) ? 0 : 1);
		assert_false(kh_quota_is_rate(kind) && kh_quota_is_places(kind));
		assert_false(kh_quota_is_bytes(kind) && kh_quota_is_places(kind));
		char text[KH_VALUE_BYTES];
		bool size = strcmp(kh_quota_show(kind, 1024, text), "1KiB") == 0;
		assert_int_equal(kh_quota_is_bytes(kind), size);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_value_has_a_name_of_its_own),
		cmocka_unit_test(what_is_no_value_is_named_like_none),
		cmocka_unit_test(each_kind_of_limit_is_shown_once),
	};
	return cmocka_run_group_tests_name("enums", tests, NULL, NULL);
}
