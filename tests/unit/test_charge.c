/* test_charge.c - a charge is somebody's, or nobody's, and moves as a whole */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <keyhole/base/charge.h>

enum { MOST = 100 };

struct world {
	struct kh_account *whole, *tenant, *a, *b;
};

static int set_up(void **state)
{
	static struct world w;

	w.whole = kh_account_new_whole();
	kh_account_bound(w.whole, KH_RESOURCE_LOOKUPS, MOST);
	w.tenant = kh_account_new(w.whole);
	w.a = kh_account_new(w.tenant);
	w.b = kh_account_new(w.tenant);
	*state = &w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	kh_account_unref(w->a);
	kh_account_unref(w->b);
	kh_account_unref(w->tenant);
	kh_account_unref(w->whole);
	return 0;
}

static size_t held(const struct kh_account *account)
{
	return kh_account_held(account, KH_RESOURCE_LOOKUPS, 0);
}

static void who_takes_a_connection_over_is_charged_instead(void **state)
{
	const struct world *w = *state;
	struct kh_charge of_a = { 0 }, of_b = { 0 };

	assert_true(kh_charge_take(&of_a, w->a, KH_RESOURCE_LOOKUPS, 1));
	assert_true(kh_charge_take(&of_b, w->b, KH_RESOURCE_LOOKUPS, 1));
	kh_charge_move(&of_a, &of_b);
	assert_int_equal(held(w->a), 0);
	assert_int_equal(held(w->b), 1);
	assert_false(kh_charge_holds(&of_b));
	kh_charge_release(&of_b); /* nothing more */
	assert_int_equal(held(w->b), 1);
	kh_charge_release(&of_a);
	assert_int_equal(held(w->b), 0);
	assert_int_equal(held(w->whole), 0);
}

static void a_charge_outlives_the_sandbox(void **state)
{
	const struct world *w = *state;
	struct kh_account *gone = kh_account_new(w->tenant);
	struct kh_charge charge = { 0 };

	assert_true(kh_charge_take(&charge, gone, KH_RESOURCE_LOOKUPS, 3));
	kh_account_unref(gone);
	assert_int_equal(held(w->tenant), 3);
	kh_charge_release(&charge);
	assert_int_equal(held(w->tenant), 0);
}

static void what_is_refused_changes_nothing(void **state)
{
	const struct world *w = *state;
	struct kh_charge charge = { 0 };

	assert_false(kh_charge_take(&charge, w->a, KH_RESOURCE_LOOKUPS, MOST));
	assert_false(kh_charge_holds(&charge));
	assert_true(kh_charge_take(&charge, w->a, KH_RESOURCE_LOOKUPS, 2));
	assert_false(kh_charge_resize(&charge, MOST));
	assert_int_equal(charge.amount, 2);
	assert_int_equal(held(w->whole), 2);
	assert_true(kh_charge_resize(&charge, 5));
	assert_true(kh_charge_resize(&charge, 1));
	assert_int_equal(held(w->a), 1);
	kh_charge_release(&charge);
	assert_int_equal(held(w->whole), 0);
}

static void a_refusal_names_the_share_and_the_way_out(void **state)
{
	static const enum kh_resource resources[] = { KH_RESOURCE_MEMORY, KH_RESOURCE_DESCRIPTORS,
						      KH_RESOURCE_LOOKUPS };
	struct kh_account *whole = kh_account_new_whole(), *tenant = kh_account_new(whole);
	struct kh_account *box = kh_account_new(tenant);

	(void)state;
	for (size_t i = 0; i < sizeof(resources) / sizeof(resources[0]); i++) {
		struct kh_err err = KH_ERR_INIT;
		kh_account_bound(whole, resources[i], 0);
		assert_false(kh_account_take(box, resources[i], 1, 0));
		assert_false(kh_charge_refuse(&err, box, resources[i], 1));
		assert_int_equal(err.code, KH_ERR_LIMIT);
		assert_int_equal(kh_err_status(err.code), 429);
		assert_non_null(strstr(err.text, "all sandboxes together have all of the proxy's"));
		assert_non_null(strstr(err.text, kh_resource_name(resources[i])));
		assert_non_null(strstr(err.text, ": "));
	}
	kh_account_unref(box);
	kh_account_unref(tenant);
	kh_account_unref(whole);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(who_takes_a_connection_over_is_charged_instead,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_charge_outlives_the_sandbox, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_refused_changes_nothing, set_up, tear_down),
		cmocka_unit_test(a_refusal_names_the_share_and_the_way_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
