/* test_dynamic_sandbox.c - what keeper and worker tell each other about sandboxes that come and go
 */
#include "unit.h"

#include <stdlib.h>

#include <keyhole/config/dynamic_sandbox.h>
#include <keyhole/base/limits.h>

static void ids_are_names_of_folders_and_nothing_more(void **state)
{
	(void)state;
	static const char *const good[] = { "a", "sb-1", "A.b_c-9", "0" };
	static const char *const bad[] = { "",	  ".", "..",  "-a",  "_a",
					   "a/b", "/", "a b", "a\n", "\xc3\xa4" };
	char longest[66];
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_null(kh_dynamic_sandbox_check_id(kh_slice_str(good[i])));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_non_null(kh_dynamic_sandbox_check_id(kh_slice_str(bad[i])));
	assert_non_null(kh_dynamic_sandbox_check_id(KH_SLICE("a\0b")));
	memset(longest, 'a', sizeof(longest));
	assert_null(kh_dynamic_sandbox_check_id(kh_slice_of(longest, 64)));
	assert_non_null(kh_dynamic_sandbox_check_id(kh_slice_of(longest, 65)));
}

static void a_time_to_live_has_bounds(void **state)
{
	(void)state;
	uint64_t ms = 0;
	assert_true(kh_dynamic_sandbox_parse_ttl(KH_SLICE("1s"), &ms, NULL) && ms == 1000);
	assert_true(kh_dynamic_sandbox_parse_ttl(KH_SLICE("2h"), &ms, NULL) &&
		    ms == 2 * 3600 * 1000);
	assert_true(kh_dynamic_sandbox_parse_ttl(KH_SLICE("8760h"), &ms, NULL));
	static const char *const bad[] = { "",
					   "0",
					   "0s",
					   "999ms",
					   "-1s",
					   "8761h",
					   "1",
					   "h",
					   "1s ",
					   "1e3s",
					   "18446744073709551615h" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct kh_err err = KH_ERR_INIT;
		assert_false(kh_dynamic_sandbox_parse_ttl(kh_slice_str(bad[i]), &ms, &err));
		assert_true(err.code != KH_ERR_NONE);
	}
}

static struct kh_dynamic_sandbox_wish wish_of(char *tenant, char *id)
{
	static char narrow[] = "bytes";
	return (struct kh_dynamic_sandbox_wish){ .tenant = tenant,
						 .id = id,
						 .owner = 1000,
						 .mode = 0640,
						 .ttl_ms = 5000,
						 .pid = 77,
						 .narrowed = true,
						 .narrow = narrow,
						 .narrow_len = 5 };
}

static bool takes(const struct kh_dynamic_sandbox_wish *wish)
{
	struct kh_buf body;
	struct kh_dynamic_sandbox_wish back;
	kh_buf_init(&body, 2 * KH_LIMIT_CHANNEL_BYTES);
	assert_true(kh_dynamic_sandbox_wish_put(&body, wish));
	bool ok = kh_dynamic_sandbox_wish_take(kh_buf_view(&body), &back);
	if (ok) {
		assert_string_equal(back.tenant, wish->tenant);
		assert_string_equal(back.id, wish->id);
		assert_int_equal(back.owner, wish->owner);
		assert_int_equal(back.mode, wish->mode);
		assert_true(back.ttl_ms == wish->ttl_ms && back.pid == wish->pid);
		assert_int_equal(back.narrow_len, wish->narrow_len);
		if (back.narrow_len)
			assert_memory_equal(back.narrow, wish->narrow, back.narrow_len);
	}
	kh_dynamic_sandbox_wish_fini(&back);
	/* A message that was cut is none. */
	for (size_t n = 0; ok && n < kh_buf_len(&body); n++) {
		assert_false(kh_dynamic_sandbox_wish_take(kh_slice_sub(kh_buf_view(&body), 0, n),
							  &back));
		kh_dynamic_sandbox_wish_fini(&back);
	}
	kh_buf_fini(&body);
	return ok;
}

static void a_wish_comes_over_whole_and_within_its_bounds(void **state)
{
	(void)state;
	char tenant[] = "acme", id[] = "sb-1", path[] = "../x", none[] = "";
	struct kh_dynamic_sandbox_wish wish = wish_of(tenant, id);
	assert_true(takes(&wish));
	wish.id = path;
	assert_false(takes(&wish));
	wish.id = none;
	assert_false(takes(&wish));
	wish = wish_of(path, id);
	assert_false(takes(&wish));
	wish = wish_of(tenant, id);
	wish.mode = 04755;
	assert_false(takes(&wish));
	wish = wish_of(tenant, id);
	wish.ttl_ms = 999;
	assert_false(takes(&wish));
	wish.ttl_ms = KH_LIMIT_DYNAMIC_SANDBOX_TTL_MOST_MS + 1;
	assert_false(takes(&wish));
	wish.ttl_ms = 0;
	assert_true(takes(&wish));
	wish.pid = 1U << 31;
	assert_false(takes(&wish));
	wish = wish_of(tenant, id);
	wish.narrowed = false;
	assert_false(takes(&wish));
	wish.narrow_len = 0;
	assert_true(takes(&wish));
	wish.narrowed = true;
	assert_false(takes(&wish));
	wish.narrow = calloc(1, KH_LIMIT_NARROWING_BYTES + 1);
	assert_non_null(wish.narrow);
	wish.narrow_len = KH_LIMIT_NARROWING_BYTES + 1;
	assert_false(takes(&wish));
	free(wish.narrow);
}

static void a_card_comes_over_whole(void **state)
{
	(void)state;
	char tenant[] = "acme", id[] = "sb-1", path[] = "/run/x/s";
	const struct kh_dynamic_sandbox_card card = { .number = UINT64_C(1) << 40,
						      .tenant = tenant,
						      .id = id,
						      .path = path,
						      .expires_ms = 12345,
						      .narrowed = true,
						      .narrow = KH_SLICE("bytes") };
	struct kh_dynamic_sandbox_card back;
	struct kh_buf body;
	kh_buf_init(&body, 4096);
	assert_true(kh_dynamic_sandbox_card_put(&body, &card));
	assert_true(kh_dynamic_sandbox_card_take(kh_buf_view(&body), &back));
	assert_true(back.number == card.number && back.expires_ms == 12345 && back.narrowed);
	assert_string_equal(back.path, path);
	assert_slice_equal(back.narrow, "bytes");
	kh_dynamic_sandbox_card_fini(&back);
	for (size_t n = 0; n < kh_buf_len(&body); n++) {
		assert_false(kh_dynamic_sandbox_card_take(kh_slice_sub(kh_buf_view(&body), 0, n),
							  &back));
		kh_dynamic_sandbox_card_fini(&back);
	}
	kh_buf_fini(&body);
}

static void names_of_two_are_never_the_same(void **state)
{
	(void)state;
	char one[KH_DYNAMIC_SANDBOX_NAME_BYTES], other[KH_DYNAMIC_SANDBOX_NAME_BYTES], longest[65];
	memset(longest, 'x', 64);
	longest[64] = '\0';
	assert_slice_equal(kh_dynamic_sandbox_name("a", "b", one), "a/b");
	assert_false(kh_slice_eq(kh_dynamic_sandbox_name("a", "bb", one),
				 kh_dynamic_sandbox_name("ab", "b", other)));
	assert_int_equal(kh_dynamic_sandbox_name(longest, longest, one).len, 129);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ids_are_names_of_folders_and_nothing_more),
		cmocka_unit_test(a_time_to_live_has_bounds),
		cmocka_unit_test(a_wish_comes_over_whole_and_within_its_bounds),
		cmocka_unit_test(a_card_comes_over_whole),
		cmocka_unit_test(names_of_two_are_never_the_same),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
