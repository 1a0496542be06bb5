/* test_values_shares.c - no sandbox takes the questions, the room or the values of another */
/* wrap: kh_clock_mono_ms kh_clock_wall_ms */
#include "values_world.h"

/* Asked for, and answered with its number's first digit where `answered`. */
static void fill_scope(const char *owner, unsigned i, bool answered)
{
	char scope[32];
	(void)snprintf(scope, sizeof(scope), "%s/%u", owner, i);
	const struct kh_credential_ref want = wanted(ONE, KH_NO_TENANT, scope);
	expect_to_ask(want);
	if (answered)
		answer(want, strchr(scope, '/') + 1, 0);
	mono_ms += 1000; /* so that it may ask for the next */
}

static void a_sandbox_has_few_questions_under_way(void **state)
{
	(void)state;
	for (unsigned i = 0; i < KH_LIMIT_SCOPES_ASKED; i++)
		fill_scope("evil", i, false);
	for (unsigned i = 0; i < 3000; i++) {
		char scope[32];
		(void)snprintf(scope, sizeof(scope), "more/%u", i);
		expect(wanted(ONE, KH_NO_TENANT, scope), KH_SLOT_MISSING, 0);
		assert_non_null(strstr(why, "too many"));
	}
	expect_question(NULL);
	assert_int_equal(gen.slots[ONE].n_values, KH_LIMIT_SCOPES_ASKED);
	/* What it waits for already it may wait for with more requests. */
	expect(wanted(ONE, KH_NO_TENANT, "evil/0"), KH_SLOT_ASKED, 0);
	/* What has no scope is nobody's share; and another sandbox has its own. */
	const struct kh_credential_ref all = wanted(ONE, KH_NO_TENANT, "");
	expect_to_ask(all);
	asker = &other;
	fill_scope("good", 1, true);
	expect(wanted(ONE, KH_NO_TENANT, "good/1"), KH_SLOT_FULL, '1');
	/* An answer makes room for a question. */
	answer(wanted(ONE, KH_NO_TENANT, "evil/0"), "zero", 0);
	asker = &listener_stats;
	fill_scope("evil", 99, false);
}

static void a_sandbox_asks_few_questions_a_second(void **state)
{
	(void)state;
	char scope[32];
	for (unsigned i = 0; i < KH_LIMIT_SCOPE_QUESTIONS_BURST; i++) {
		(void)snprintf(scope, sizeof(scope), "evil/%u", i);
		const struct kh_credential_ref want = wanted(ONE, KH_NO_TENANT, scope);
		expect_to_ask(want);
		answer(want, "value", wall_ms + 100 * 1000);
	}
	expect(wanted(ONE, KH_NO_TENANT, "evil/more"), KH_SLOT_MISSING, 0);
	assert_non_null(strstr(why, "too many"));
	expect_question(NULL);
	/* It can't ask for the next of what it has either; that serves on. */
	wall_ms += 90 * 1000;
	expect(wanted(ONE, KH_NO_TENANT, "evil/0"), KH_SLOT_FULL, 'v');
	expect_question(NULL);
	asker = &other;
	fill_scope("good", 1, true);
	asker = &listener_stats;
	mono_ms += 1000;
	const struct kh_credential_ref want = wanted(ONE, KH_NO_TENANT, "evil/0");
	expect(want, KH_SLOT_FULL, 'v');
	expect_question(&want);
}

static void a_sandbox_that_floods_throws_out_its_own(void **state)
{
	(void)state;
	asker = &other;
	for (unsigned i = 0; i < 3; i++)
		fill_scope("good", i, true);
	asker = &listener_stats;
	for (unsigned i = 0; i < 2 * KH_LIMIT_SCOPES; i++) {
		fill_scope("evil", i, true);
		if (i % 100 == 99) { /* not idle, and no more than that */
			asker = &other;
			for (unsigned j = 0; j < 3; j++) {
				char scope[32];
				(void)snprintf(scope, sizeof(scope), "good/%u", j);
				expect(wanted(ONE, KH_NO_TENANT, scope), KH_SLOT_FULL,
				       (char)('0' + j));
			}
			asker = &listener_stats;
		}
	}
	size_t most = kh_secret_scoped_most_bytes() / kh_secret_locked_bytes(NULL);
	most = most < KH_LIMIT_SCOPES ? most : KH_LIMIT_SCOPES;
	assert_int_equal(gen.slots[ONE].n_values, most);
	expect_question(NULL);
	/* There is room for the other one still, and the flood's is what makes it. */
	asker = &other;
	fill_scope("good", 7, true);
	expect(wanted(ONE, KH_NO_TENANT, "good/0"), KH_SLOT_FULL, '0');
	/* The value of all of it is not a sandbox's to crowd out, nor bounded by what is. */
	expect(wanted(ONE, KH_NO_TENANT, ""), KH_SLOT_ASKED, 0);
	assert_int_equal(gen.slots[ONE].n_values, most + 1);
}

/* Each credential has its bound, and all of them together have one. */
static void the_scopes_of_all_credentials_leave_room_for_other_secrets(void **state)
{
	(void)state;
	size_t most = kh_secret_scoped_most_bytes() / kh_secret_locked_bytes(NULL);
	for (unsigned i = 0; i < 2 * KH_LIMIT_SCOPES; i++) {
		char scope[32];
		(void)snprintf(scope, sizeof(scope), "evil/%u", i);
		const struct kh_credential_ref want =
			wanted(i % 2 ? BY_TENANT : ONE, i % 2 ? 0 : KH_NO_TENANT, scope);
		expect_to_ask(want);
		answer(want, "value", 0);
		mono_ms += 1000;
	}
	assert_true(gen.slots[ONE].n_values + gen.slots[BY_TENANT].n_values <= most);
	/* One that turns out to be large takes more places than one. */
	size_t before = gen.slots[ONE].n_values + gen.slots[BY_TENANT].n_values;
	const struct kh_credential_ref large = wanted(ONE, KH_NO_TENANT, "evil/large");
	expect_to_ask(large);
	answer_of(large, 3 * kh_secret_locked_bytes(NULL));
	if (before == most)
		assert_int_equal(gen.slots[ONE].n_values + gen.slots[BY_TENANT].n_values, most - 2);
	expect(large, KH_SLOT_FULL, 'v');
}

static void one_scope_that_is_stale_leaves_the_others(void **state)
{
	(void)state;
	fill_scope("o", 1, true);
	fill_scope("o", 2, true);
	say_stale_of(wanted(ONE, KH_NO_TENANT, "o/1"), false);
	expect(wanted(ONE, KH_NO_TENANT, "o/2"), KH_SLOT_FULL, '2');
	expect(wanted(ONE, KH_NO_TENANT, "o/1"), KH_SLOT_ASKED, 0);
	say_stale_of(wanted(ONE, 0, "o/2"), false); /* another tenant's */
	expect(wanted(ONE, KH_NO_TENANT, "o/2"), KH_SLOT_FULL, '2');
	say_stale(ONE);
	expect(wanted(ONE, KH_NO_TENANT, "o/2"), KH_SLOT_ASKED, 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(a_sandbox_has_few_questions_under_way),
		TEST(a_sandbox_asks_few_questions_a_second),
		TEST(a_sandbox_that_floods_throws_out_its_own),
		TEST(the_scopes_of_all_credentials_leave_room_for_other_secrets),
		TEST(one_scope_that_is_stale_leaves_the_others),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
