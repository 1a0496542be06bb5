/* test_account.c - shares of resources: who may take how much, and who is refused first */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <keyhole/base/account.h>
#include <keyhole/base/limits.h>

enum { MOST = 6300 };

/* Two tenants with two sandboxes each. */
struct world {
	struct kh_account *whole, *tenant[2], *box[2][2];
};

static int make(void **state)
{
	static struct world w;
	w.whole = kh_account_new_whole();
	for (int i = 0; i < 2; i++) {
		w.tenant[i] = kh_account_new(w.whole);
		for (int j = 0; j < 2; j++)
			w.box[i][j] = kh_account_new(w.tenant[i]);
	}
	for (int r = 0; r < KH_RESOURCES; r++)
		kh_account_bound(w.whole, (enum kh_resource)r, MOST);
	*state = &w;
	return 0;
}

static int drop(void **state)
{
	struct world *w = *state;
	for (int i = 0; i < 2; i++) {
		for (int j = 0; j < 2; j++)
			kh_account_unref(w->box[i][j]);
		kh_account_unref(w->tenant[i]);
	}
	kh_account_unref(w->whole);
	return 0;
}

static size_t fill(struct kh_account *account, enum kh_resource resource, size_t step,
		   uint64_t now_ms)
{
	size_t n = 0;
	while (kh_account_take(account, resource, step, now_ms) && n < 100000)
		n += step;
	return n;
}

static void test_one_sandbox_leaves_its_tenant_and_the_others_a_part(void **state)
{
	struct world *w = *state;
	for (int r = 0; r < KH_RESOURCES; r++) {
		enum kh_resource resource = (enum kh_resource)r;
		size_t first = fill(w->box[0][0], resource, 1, 1000);
		assert_int_equal(first, MOST / 3);
		size_t second = fill(w->box[0][1], resource, 1, 1000);
		assert_in_range(second, MOST / 9 - 1, MOST / 9 + 1);
		/* A tenant may fill half at the most, so the other one's gets at least a quarter
		 * when it is alone. */
		assert_in_range(first + second, 1, MOST / 2);
		assert_in_range(fill(w->box[1][0], resource, 1, 1000), MOST / 9, MOST / 3);
	}
}

static void test_the_heaviest_is_refused_first(void **state)
{
	struct world *w = *state;
	assert_true(kh_account_take(w->box[0][0], KH_RESOURCE_MEMORY, 2000, 0));
	assert_true(kh_account_take(w->box[1][0], KH_RESOURCE_MEMORY, 1000, 0));
	assert_true(kh_account_take(w->box[1][1], KH_RESOURCE_MEMORY, 200, 0));
	assert_false(kh_account_take(w->box[0][0], KH_RESOURCE_MEMORY, 100, 0));
	assert_true(kh_account_take(w->box[1][1], KH_RESOURCE_MEMORY, 100, 0));
	assert_int_equal(kh_account_refused(w->box[0][0], KH_RESOURCE_MEMORY), 1);
	assert_int_equal(kh_account_refused(w->box[1][1], KH_RESOURCE_MEMORY), 0);
	assert_int_equal(kh_account_refused(w->whole, KH_RESOURCE_MEMORY), 1);
}

static void test_a_refused_amount_is_charged_to_nobody(void **state)
{
	struct world *w = *state;
	for (int r = 0; r < KH_RESOURCES; r++) {
		enum kh_resource resource = (enum kh_resource)r;
		assert_true(kh_account_take(w->box[0][0], resource, 10, 0));
		assert_false(kh_account_take(w->box[0][0], resource, MOST, 0));
		for (struct kh_account *at = w->box[0][0]; at; at = kh_account_parent(at))
			assert_int_equal(kh_account_held(at, resource, 0), 10);
	}
}

static void test_a_refusal_says_whose_share_is_used_up(void **state)
{
	struct world *w = *state;
	const enum kh_resource r = KH_RESOURCE_LOOKUPS;
	/* One sandbox by itself. */
	size_t first = fill(w->box[0][0], r, 1, 0);
	assert_int_equal(kh_account_full(w->box[0][0], r, 1, 0), KH_ACCOUNT_OF_SANDBOX);
	/* With the one beside it, the tenant has what it may. */
	kh_account_put(w->tenant[0], r, kh_account_most(w->whole, r) / 2 - first);
	assert_false(kh_account_take(w->box[0][1], r, 100, 0));
	assert_int_equal(kh_account_full(w->box[0][1], r, 100, 0), KH_ACCOUNT_OF_TENANT);
	assert_int_equal(kh_account_full(w->box[1][0], r, 1, 0), KH_ACCOUNT_OF_SANDBOX);
	kh_account_put(w->whole, r, kh_account_most(w->whole, r) / 2);
	assert_false(kh_account_take(w->box[1][0], r, 1, 0));
	assert_int_equal(kh_account_full(w->box[1][0], r, 1, 0), KH_ACCOUNT_OF_ALL);
}

static void test_everybody_has_a_floor_while_anything_is_left(void **state)
{
	struct world *w = *state;
	kh_account_put(w->tenant[0], KH_RESOURCE_DESCRIPTORS, MOST - 50);
	assert_int_equal(fill(w->box[1][0], KH_RESOURCE_DESCRIPTORS, 1, 0),
			 MOST / KH_ACCOUNT_SANDBOX_FLOOR);
	assert_int_equal(fill(w->box[1][1], KH_RESOURCE_DESCRIPTORS, 1, 0),
			 MOST / KH_ACCOUNT_SANDBOX_FLOOR);
	kh_account_put(w->tenant[0], KH_RESOURCE_DESCRIPTORS, 50);
	assert_false(kh_account_take(w->box[1][0], KH_RESOURCE_DESCRIPTORS, 1, 0));
}

static void test_of_a_few_the_last_one_is_for_who_has_none(void **state)
{
	struct world *w = *state;
	kh_account_bound(w->whole, KH_RESOURCE_LEAVES, 16);
	kh_account_put(w->tenant[0], KH_RESOURCE_LEAVES, 15);
	assert_false(kh_account_take(w->box[0][0], KH_RESOURCE_LEAVES, 1, 0));
	assert_true(kh_account_take(w->box[1][0], KH_RESOURCE_LEAVES, 1, 0));
	assert_false(kh_account_take(w->box[1][1], KH_RESOURCE_LEAVES, 1, 0));
}

static void test_a_sandbox_without_others_may_have_seven_eighths(void **state)
{
	(void)state;
	struct kh_account *whole = kh_account_new_whole(), *tenant = kh_account_new(whole);
	struct kh_account *box = kh_account_new(tenant);
	kh_account_bound(whole, KH_RESOURCE_LOOKUPS, 800);
	assert_int_equal(fill(box, KH_RESOURCE_LOOKUPS, 1, 0), 700);
	/* Who comes then finds something. */
	struct kh_account *next = kh_account_new(tenant);
	assert_int_equal(fill(next, KH_RESOURCE_LOOKUPS, 1, 0), 50);
	kh_account_unref(next);
	kh_account_unref(box);
	kh_account_unref(tenant);
	kh_account_unref(whole);
}

static void test_what_is_given_back_can_be_taken_by_others(void **state)
{
	struct world *w = *state;
	size_t held = 0;
	assert_true(kh_account_resize(w->box[0][0], KH_RESOURCE_MEMORY, &held, 2000));
	assert_false(kh_account_resize(w->box[0][0], KH_RESOURCE_MEMORY, &held, 4000));
	assert_int_equal(held, 2000);
	assert_true(kh_account_resize(w->box[0][0], KH_RESOURCE_MEMORY, &held, 100));
	assert_int_equal(kh_account_held(w->whole, KH_RESOURCE_MEMORY, 0), 100);
	assert_true(kh_account_resize(w->box[0][0], KH_RESOURCE_MEMORY, &held, 0));
	assert_int_equal(fill(w->box[1][0], KH_RESOURCE_MEMORY, 1, 0), MOST / 3);
}

static void test_what_was_spent_is_forgotten_at_one_rate_however_often_it_is_looked_at(void **state)
{
	struct world *w = *state;
	uint64_t now = 1000 * 1000;
	assert_true(kh_account_take(w->box[0][0], KH_RESOURCE_SIGNATURES, 1400, now));
	assert_true(kh_account_take(w->box[1][0], KH_RESOURCE_SIGNATURES, 1400, now));
	for (int i = 0; i < 2000; i++) /* 2 seconds, a half-life, in steps of a millisecond */
		(void)kh_account_take(w->box[0][0], KH_RESOURCE_SIGNATURES, MOST, ++now);
	size_t often = kh_account_held(w->box[0][0], KH_RESOURCE_SIGNATURES, now);
	size_t seldom = kh_account_held(w->box[1][0], KH_RESOURCE_SIGNATURES, now);
	assert_in_range(seldom, 690, 700);
	assert_in_range(often, 680, 700);
	assert_int_equal(kh_account_held(w->box[1][0], KH_RESOURCE_SIGNATURES, now + 100000), 0);
}

static void test_two_tenants_that_spend_all_they_can_spend_the_same(void **state)
{
	struct world *w = *state;
	size_t spent[2] = { 0 };
	for (uint64_t now = 1000; now < 61000; now += 10) {
		/* The first one has the first word each time, and asks ten times as often. */
		for (int i = 0; i < 10; i++)
			spent[0] += kh_account_take(w->box[0][0], KH_RESOURCE_SIGNATURES, 30, now)
					    ? 30
					    : 0;
		spent[1] += kh_account_take(w->box[1][0], KH_RESOURCE_SIGNATURES, 30, now) ? 30 : 0;
	}
	assert_in_range(spent[1], spent[0] / 2, spent[0] * 2);
}

static void test_an_account_lives_as_long_as_its_sandboxes(void **state)
{
	(void)state;
	struct kh_account *whole = kh_account_new_whole(), *tenant = kh_account_new(whole);
	struct kh_account *box = kh_account_new(tenant);
	kh_account_bound(whole, KH_RESOURCE_MEMORY, 100);
	kh_account_unref(whole);
	kh_account_unref(tenant);
	assert_true(kh_account_take(box, KH_RESOURCE_MEMORY, 1, 0));
	assert_int_equal(kh_account_most(box, KH_RESOURCE_MEMORY), 100);
	kh_account_give(box, KH_RESOURCE_MEMORY, 1);
	kh_account_unref(box);
}

static void test_no_account_means_no_bounds(void **state)
{
	(void)state;
	assert_null(kh_account_new(NULL));
	assert_true(kh_account_take(NULL, KH_RESOURCE_MEMORY, SIZE_MAX, 0));
	kh_account_give(NULL, KH_RESOURCE_MEMORY, 1);
	kh_account_unref(NULL);
}

/* Sockets to nameservers are nobody's descriptors: with all lookups that there may be they fit,
 * beside the connections that are kept, into what is not shared out. */
static void test_lookups_leave_descriptors_to_all_else(void **state)
{
	static const size_t limits[] = { 64, 256, 1024, 4096, 20000, 131072, 524288, 1 << 30 };
	(void)state;
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		size_t rest = limits[i] - kh_account_descriptors(limits[i]), before = SIZE_MAX;
		assert_int_equal(kh_account_lookups(limits[i], 0), KH_LIMIT_RESOLVES);
		for (size_t sockets = 1; sockets <= 4; sockets++) {
			size_t lookups = kh_account_lookups(limits[i], sockets);
			assert_in_range(lookups, 1, KH_LIMIT_RESOLVES);
			assert_true(lookups <= before);
			assert_true(lookups * sockets <= rest / 2);
			before = lookups;
		}
	}
	assert_int_equal(kh_account_lookups(20000, 2), 1250);
	assert_int_equal(kh_account_lookups(524288, 2), KH_LIMIT_RESOLVES);
	assert_int_equal(kh_account_lookups(0, 2), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_one_sandbox_leaves_its_tenant_and_the_others_a_part, make, drop),
		cmocka_unit_test_setup_teardown(test_the_heaviest_is_refused_first, make, drop),
		cmocka_unit_test_setup_teardown(test_a_refused_amount_is_charged_to_nobody, make,
						drop),
		cmocka_unit_test_setup_teardown(test_a_refusal_says_whose_share_is_used_up, make,
						drop),
		cmocka_unit_test_setup_teardown(test_everybody_has_a_floor_while_anything_is_left,
						make, drop),
		cmocka_unit_test_setup_teardown(test_of_a_few_the_last_one_is_for_who_has_none,
						make, drop),
		cmocka_unit_test(test_a_sandbox_without_others_may_have_seven_eighths),
		cmocka_unit_test_setup_teardown(test_what_is_given_back_can_be_taken_by_others,
						make, drop),
		cmocka_unit_test_setup_teardown(
			test_what_was_spent_is_forgotten_at_one_rate_however_often_it_is_looked_at,
			make, drop),
		cmocka_unit_test_setup_teardown(
			test_two_tenants_that_spend_all_they_can_spend_the_same, make, drop),
		cmocka_unit_test(test_an_account_lives_as_long_as_its_sandboxes),
		cmocka_unit_test(test_no_account_means_no_bounds),
		cmocka_unit_test(test_lookups_leave_descriptors_to_all_else),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
