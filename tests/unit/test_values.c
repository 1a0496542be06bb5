/* test_values.c - the worker's credential values: who asks, who waits, what is kept how long */
/* wrap: kh_clock_mono_ms kh_clock_wall_ms */
#include "values_world.h"

/* The value of all is asked for, and comes with an hour to live. */
static struct kh_credential_ref begin_hour(const char *value)
{
	const struct kh_credential_ref want = wanted(ONE, KH_NO_TENANT, "");
	expect_to_ask(want);
	answer(want, value, wall_ms + 3600 * 1000);
	return want;
}

static void one_question_serves_all_who_wait(void **state)
{
	(void)state;
	const struct kh_credential_ref of_all = wanted(ONE, KH_NO_TENANT, "");
	for (uint16_t i = 0; i < 5; i++)
		expect(wanted(ONE, i % 2, ""), KH_SLOT_ASKED, 0);
	expect_question(&of_all);
	expect_question(NULL);
	answer(of_all, "a-value", 0);
	for (uint16_t i = 0; i < 5; i++)
		expect(wanted(ONE, i % 2, ""), KH_SLOT_FULL, 'a');
	wall_ms += 1000ULL * 3600 * 24 * 365; /* without an end it has none */
	expect(of_all, KH_SLOT_FULL, 'a');
	expect_question(NULL);
}

static void tenants_have_values_of_their_own(void **state)
{
	(void)state;
	expect(wanted(BY_TENANT, 0, ""), KH_SLOT_ASKED, 0);
	expect(wanted(BY_TENANT, 1, ""), KH_SLOT_ASKED, 0);
	expect_question(&(struct kh_credential_ref){ BY_TENANT, 0, { "", 0 } });
	expect_question(&(struct kh_credential_ref){ BY_TENANT, 1, { "", 0 } });
	answer(wanted(BY_TENANT, 1, ""), "globex", 0);
	expect(wanted(BY_TENANT, 0, ""), KH_SLOT_ASKED, 0);
	expect(wanted(BY_TENANT, 1, ""), KH_SLOT_FULL, 'g');
	answer(wanted(BY_TENANT, 0, ""), "acme", 0);
	expect(wanted(BY_TENANT, 0, ""), KH_SLOT_FULL, 'a');
	expect(wanted(BY_TENANT, 1, ""), KH_SLOT_FULL, 'g');
}

static bool are_ready(void)
{
	return kh_values_are_ready(
		&gen, BY_TENANT,
		kh_credential_is_present_for_any(&gen.config->credentials[BY_TENANT]));
}

static void a_tenant_without_a_value_says_nothing_of_the_others(void **state)
{
	enum { WITH, WITHOUT };
	struct kh_credential_config *credential = &gen.config->credentials[BY_TENANT];
	const struct kh_credential_ref with = wanted(BY_TENANT, WITH, ""),
				       without = wanted(BY_TENANT, WITHOUT, "");
	(void)state;
	assert_false(are_ready());
	credential->tenants = calloc(2, sizeof(*credential->tenants));
	assert_non_null(credential->tenants);
	credential->n_tenants = 2;
	credential->tenants[WITHOUT].tenant = WITHOUT;
	assert_true(kh_credential_set_present(credential, WITH, true));
	assert_true(are_ready());
	expect_to_ask(without);
	answer(without, NULL, 0);
	expect(without, KH_SLOT_MISSING, 0);
	assert_true(are_ready());
	expect_to_ask(with);
	answer(with, NULL, 0);
	assert_false(are_ready());
	mono_ms += 1000;
	expect_to_ask(with);
	answer(with, "back", 0);
	assert_true(are_ready());
}

static void scopes_have_values_of_their_own(void **state)
{
	(void)state;
	const struct kh_credential_ref a = wanted(ONE, KH_NO_TENANT, "o/a"),
				       b = wanted(ONE, KH_NO_TENANT, "o/b");
	expect(a, KH_SLOT_ASKED, 0);
	expect(b, KH_SLOT_ASKED, 0);
	expect_question(&a);
	expect_question(&b);
	answer(b, "beta", 0);
	expect(a, KH_SLOT_ASKED, 0);
	expect(b, KH_SLOT_FULL, 'b');
}

static void a_value_ends_with_its_time_and_is_asked_for_ahead_of_it(void **state)
{
	(void)state;
	const struct kh_credential_ref want = begin_hour("first");
	wall_ms += 3500 * 1000;
	expect(want, KH_SLOT_FULL, 'f');
	expect_question(NULL);
	wall_ms += 45 * 1000; /* less than a minute is left */
	expect(want, KH_SLOT_FULL, 'f');
	expect(want, KH_SLOT_FULL, 'f');
	expect_question(&want); /* once */
	expect_question(NULL);
	answer(want, "second", wall_ms + 3600 * 1000);
	expect(want, KH_SLOT_FULL, 's');
	wall_ms += 3600 * 1000; /* its last moment is over */
	expect_to_ask(want);
}

static void a_value_that_is_not_replaced_serves_until_its_end(void **state)
{
	(void)state;
	const struct kh_credential_ref want = begin_hour("first");
	wall_ms += 3590 * 1000;
	expect(want, KH_SLOT_FULL, 'f');
	expect_question(&want);
	answer(want, NULL, 0);
	expect(want, KH_SLOT_FULL, 'f');
	expect_question(NULL); /* not at once */
	mono_ms += 1000;
	expect(want, KH_SLOT_FULL, 'f');
	expect_question(&want);
	wall_ms += 20 * 1000;
	expect(want, KH_SLOT_ASKED, 0); /* it has ended; the answer is under way */
	expect_question(NULL);
	answer(want, NULL, 0);
	expect(want, KH_SLOT_MISSING, 0);
	assert_string_equal(why, "none");
}

static void a_missing_one_is_asked_for_again_after_a_second(void **state)
{
	(void)state;
	const struct kh_credential_ref want = wanted(ONE, KH_NO_TENANT, "");
	expect_to_ask(want);
	answer(want, NULL, 0);
	expect(want, KH_SLOT_MISSING, 0);
	expect_question(NULL);
	mono_ms += 1000;
	expect_to_ask(want);
	answer(want, "late", 0);
	expect(want, KH_SLOT_FULL, 'l');
}

static void what_is_stale_is_asked_for_anew(void **state)
{
	(void)state;
	const struct kh_credential_ref want = wanted(ONE, KH_NO_TENANT, "");
	expect_to_ask(want);
	say_stale(ONE); /* the answer is still to come */
	expect(want, KH_SLOT_ASKED, 0);
	expect_question(NULL);
	answer(want, "first", 0);
	expect(want, KH_SLOT_FULL, 'f');
	say_stale(BY_TENANT);
	expect(want, KH_SLOT_FULL, 'f');
	say_stale(ONE);
	expect_to_ask(want);
	answer(want, "second", 0);
	expect(want, KH_SLOT_FULL, 's');
}

static void what_is_stale_serves_no_more_though_the_next_is_asked_for(void **state)
{
	(void)state;
	const struct kh_credential_ref want = begin_hour("first");
	wall_ms += 3590 * 1000;
	expect(want, KH_SLOT_FULL, 'f');
	expect_question(&want);
	say_stale(BY_TENANT);
	expect(want, KH_SLOT_FULL, 'f');
	say_stale(ONE);
	expect(want, KH_SLOT_ASKED, 0);
	expect_question(NULL);
	answer(want, "second", wall_ms + 3600 * 1000);
	expect(want, KH_SLOT_FULL, 's');
}

/* What the keeper is told, or (false) that it is told nothing. */
static void refuse(struct kh_credential_ref want, const struct kh_secret *token, bool told)
{
	struct kh_channel_message message;
	struct kh_credential_ref got;
	kh_values_refused(&worker, &gen, &want, token);
	enum kh_channel_status status = kh_channel_receive(&keeper, false, &message);
	assert_int_equal(status, told ? KH_CHANNEL_GOT : KH_CHANNEL_AGAIN);
	if (!told)
		return;
	assert_int_equal(message.type, KH_WORKER_MSG_CREDENTIAL_REFUSED);
	struct kh_wire_reader r = { .rest = message.body };
	assert_true(kh_credential_ref_take(&r, &got) && kh_wire_done(&r));
	assert_true(got.index == want.index && kh_slice_eq(got.scope, want.scope));
}

static void what_there_is_not_can_not_be_refused(void **state)
{
	char bytes[] = "a-token";
	struct kh_secret *token = kh_secret_new(bytes, sizeof(bytes) - 1, NULL);
	(void)state;
	assert_non_null(token);
	refuse(wanted((uint16_t)gen.config->n_credentials, KH_NO_TENANT, ""), token, false);
	refuse(wanted(UINT16_MAX, KH_NO_TENANT, ""), token, false);
	kh_secret_unref(token);
}

static struct kh_secret *token_of(struct kh_credential_ref want)
{
	struct kh_secret *secret;
	assert_int_equal(kh_worker_secret(&worker, &gen, &want, asker, &secret, NULL),
			 KH_SLOT_FULL);
	return secret;
}

static void a_token_that_was_refused_goes_once_and_not_often(void **state)
{
	(void)state;
	const struct kh_credential_ref want = wanted(ONE, KH_NO_TENANT, "");
	expect_to_ask(want);
	refuse(want, NULL, false);
	answer(want, "first", 0);
	struct kh_secret *first = token_of(want);
	refuse(want, first, true);
	refuse(want, first, false); /* by the other requests that it went with */
	expect_to_ask(want);
	answer(want, "second", 0);
	refuse(want, first, false); /* late: that is not what serves now */
	struct kh_secret *second = token_of(want);
	refuse(want, second, false); /* who says so of each is not believed at once */
	expect(want, KH_SLOT_FULL, 's');
	mono_ms += KH_LIMIT_REFUSED_AGAIN_MS;
	refuse(want, second, true);
	kh_secret_unref(first);
	kh_secret_unref(second);
}

static void a_token_that_is_refused_while_the_next_is_asked_for_waits_for_that(void **state)
{
	(void)state;
	const struct kh_credential_ref want = begin_hour("first");
	wall_ms += 3590 * 1000;
	struct kh_secret *first = token_of(want);
	expect_question(&want);
	refuse(want, first, true);
	expect(want, KH_SLOT_ASKED, 0);
	expect_question(NULL);
	answer(want, "second", wall_ms + 3600 * 1000);
	expect(want, KH_SLOT_FULL, 's');
	kh_secret_unref(first);
}

static void a_scope_that_is_none_is_not_asked_for(void **state)
{
	(void)state;
	expect(wanted(ONE, KH_NO_TENANT, "a b"), KH_SLOT_MISSING, 0);
	expect_question(NULL);
	expect(wanted(9, KH_NO_TENANT, ""), KH_SLOT_MISSING, 0);
	expect_question(NULL);
}

static void what_no_keeper_says_is_not_taken(void **state)
{
	(void)state;
	struct kh_channel_message message = { .type = KH_WORKER_MSG_CREDENTIAL,
					      .ref = GENERATION,
					      .body = KH_SLICE("\0\0\0\0") };
	assert_false(kh_values_came(&worker, &message));
	assert_false(kh_values_stale(&worker, &message));
	/* Of a credential that is not there; of another configuration. */
	message.body = (struct kh_slice){ "\1\0\7\0\0\0\0\0\0", 9 };
	assert_false(kh_values_stale(&worker, &message));
	message.ref = GENERATION - 1;
	assert_true(kh_values_stale(&worker, &message));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(one_question_serves_all_who_wait),
		TEST(what_there_is_not_can_not_be_refused),
		TEST(tenants_have_values_of_their_own),
		TEST(a_tenant_without_a_value_says_nothing_of_the_others),
		TEST(scopes_have_values_of_their_own),
		TEST(a_value_ends_with_its_time_and_is_asked_for_ahead_of_it),
		TEST(a_value_that_is_not_replaced_serves_until_its_end),
		TEST(a_missing_one_is_asked_for_again_after_a_second),
		TEST(what_is_stale_is_asked_for_anew),
		TEST(what_is_stale_serves_no_more_though_the_next_is_asked_for),
		TEST(a_token_that_was_refused_goes_once_and_not_often),
		TEST(a_token_that_is_refused_while_the_next_is_asked_for_waits_for_that),
		TEST(a_scope_that_is_none_is_not_asked_for),
		TEST(what_no_keeper_says_is_not_taken),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
