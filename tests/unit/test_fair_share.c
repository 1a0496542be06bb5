/* test_fair_share.c - who gives up a place when all are taken */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <keyhole/base/fair_share.h>

enum { EVIL = 1, GOOD = 2, THIRD = 3, MOST = 16 };

static struct kh_fair_share_place places[MOST];
static size_t count;

static int set_up(void **state)
{
	(void)state;
	count = 0;
	return 0;
}

static void take_of(uint32_t tenant, uint64_t whose, uint64_t used, bool fixed)
{
	places[count++] = (struct kh_fair_share_place){ tenant, whose, used, fixed, NULL };
}

static void take(uint64_t whose, uint64_t used, bool fixed)
{
	take_of(0, whose, used, fixed);
}

/* `whose` and `used` of the one that goes. */
static void gives_up(uint64_t newcomer, uint64_t whose, uint64_t used)
{
	const struct kh_fair_share_place *gone = kh_fair_share_pick(places, count, 0, newcomer);
	assert_non_null(gone);
	assert_int_equal(gone->whose, whose);
	assert_int_equal(gone->used, used);
}

static void who_has_most_gives_up_its_oldest(void **state)
{
	(void)state;
	take(GOOD, 1, false);
	take(EVIL, 3, false);
	take(EVIL, 2, false);
	take(EVIL, 4, false);
	gives_up(THIRD, EVIL, 2);
	gives_up(GOOD, EVIL, 2);
	gives_up(EVIL, EVIL, 2);
}

static void where_all_have_the_same_it_is_ones_own(void **state)
{
	(void)state;
	take(EVIL, 9, false);
	take(GOOD, 1, false);
	gives_up(EVIL, EVIL, 9);
	gives_up(GOOD, GOOD, 1);
	/* Who has none gets one. */
	gives_up(THIRD, GOOD, 1);
}

static void from_who_has_no_more_nothing_is_taken(void **state)
{
	(void)state;
	take(EVIL, 5, true);
	take(EVIL, 6, true);
	take(GOOD, 1, false);
	take(GOOD, 2, false);
	assert_null(kh_fair_share_pick(places, count, 0, EVIL));
	take(GOOD, 3, false);
	gives_up(EVIL, GOOD, 1);
}

static void what_is_waited_for_stays(void **state)
{
	(void)state;
	take(EVIL, 1, true);
	take(EVIL, 2, false);
	take(EVIL, 3, true);
	gives_up(GOOD, EVIL, 2);
	places[0].fixed = places[1].fixed = places[2].fixed = true;
	assert_null(kh_fair_share_pick(places, count, 0, GOOD));
	count = 0;
	assert_null(kh_fair_share_pick(places, count, 0, GOOD));
}

static void what_is_nobodys_goes_first(void **state)
{
	(void)state;
	take(EVIL, 1, false);
	take(EVIL, 2, false);
	take(EVIL, 3, false);
	take(KH_FAIR_SHARE_NOBODY, 8, false);
	gives_up(EVIL, KH_FAIR_SHARE_NOBODY, 8);
	gives_up(GOOD, KH_FAIR_SHARE_NOBODY, 8);
	gives_up(KH_FAIR_SHARE_NOBODY, KH_FAIR_SHARE_NOBODY, 8);
}

/* Places taken and given up one by one, by one that takes all it can get and some that take few. */
static void a_flood_leaves_the_others_theirs(void **state)
{
	(void)state;
	for (uint64_t used = 1; used < 10000; used++) {
		uint64_t newcomer = used % 100 < 3 ? GOOD + used % 100 : EVIL;
		if (count < MOST) {
			take(newcomer, used, false);
			continue;
		}
		struct kh_fair_share_place *gone = kh_fair_share_pick(places, count, 0, newcomer);
		assert_non_null(gone);
		if (newcomer == EVIL)
			assert_int_equal(gone->whose, EVIL);
		*gone = (struct kh_fair_share_place){ 0, newcomer, used, false, NULL };
	}
	size_t of_evil = 0;
	for (size_t i = 0; i < count; i++)
		of_evil += places[i].whose == EVIL;
	assert_int_equal(of_evil, MOST / 4);
}

static size_t n_of_tenant(uint32_t tenant)
{
	size_t n = 0;
	for (size_t i = 0; i < count; i++)
		n += places[i].tenant == tenant;
	return n;
}

static void who_has_many_sandboxes_gets_no_more_than_another_tenant(void **state)
{
	(void)state;
	enum { TENANT_OF_MANY = 1, TENANT_OF_ONE = 2, SANDBOXES = 1000 };
	for (uint64_t used = 1; used < 10000; used++) {
		bool many = used % 8 != 0;
		uint32_t tenant = many ? TENANT_OF_MANY : TENANT_OF_ONE;
		uint64_t newcomer = many ? 10 + used % SANDBOXES : GOOD;
		if (count < MOST) {
			take_of(tenant, newcomer, used, false);
			continue;
		}
		struct kh_fair_share_place *gone =
			kh_fair_share_pick(places, count, tenant, newcomer);
		assert_non_null(gone);
		if (many && n_of_tenant(TENANT_OF_ONE) <= MOST / 2)
			assert_int_equal(gone->tenant, TENANT_OF_MANY);
		*gone = (struct kh_fair_share_place){ tenant, newcomer, used, false, NULL };
	}
	assert_int_equal(n_of_tenant(TENANT_OF_ONE), MOST / 2);
}

static void in_the_tenant_it_is_the_sandbox_with_the_most(void **state)
{
	(void)state;
	take_of(1, GOOD, 1, false);
	take_of(1, EVIL, 2, false);
	take_of(1, EVIL, 3, false);
	take_of(2, THIRD, 0, false);
	take_of(2, THIRD, 0, false);
	const struct kh_fair_share_place *gone = kh_fair_share_pick(places, count, 3, 30);
	assert_non_null(gone);
	assert_int_equal(gone->whose, EVIL);
	assert_int_equal(gone->used, 2);
	/* The tenant's own newcomer, too, takes from its neighbour that has the most. */
	gone = kh_fair_share_pick(places, count, 1, 30);
	assert_non_null(gone);
	assert_int_equal(gone->whose, EVIL);
	/* Tenant 2 has two: with one more it has as many as tenant 1, and takes its own. */
	gone = kh_fair_share_pick(places, count, 2, 30);
	assert_non_null(gone);
	assert_int_equal(gone->whose, THIRD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(who_has_most_gives_up_its_oldest, set_up),
		cmocka_unit_test_setup(where_all_have_the_same_it_is_ones_own, set_up),
		cmocka_unit_test_setup(from_who_has_no_more_nothing_is_taken, set_up),
		cmocka_unit_test_setup(what_is_waited_for_stays, set_up),
		cmocka_unit_test_setup(what_is_nobodys_goes_first, set_up),
		cmocka_unit_test_setup(a_flood_leaves_the_others_theirs, set_up),
		cmocka_unit_test_setup(who_has_many_sandboxes_gets_no_more_than_another_tenant,
				       set_up),
		cmocka_unit_test_setup(in_the_tenant_it_is_the_sandbox_with_the_most, set_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
