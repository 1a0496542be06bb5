/* test_between.c - what the keeper believes of a worker that has ended */
#include "unit.h"

#include <stdlib.h>

#include <keeper/daemon_internal.h>
#include <keyhole/worker/worker.h>

static struct kh_keeper *after(int exit_status, uint64_t serving_ms)
{
	struct kh_keeper *k = calloc(1, sizeof(*k));
	assert_non_null(k);
	k->worker_process.serving_ms = serving_ms;
	kh_keeper_note_journal(k, exit_status << 8);
	return k;
}

/* It may have been taken over: it would have all lines since its own start protected by nothing. */
static void a_worker_that_has_served_does_not_say_how_far_the_chain_holds(void **state)
{
	(void)state;
	struct kh_keeper *k = after(KH_WORKER_EXIT_SPOILED, 1000);
	assert_false(k->journal_spoiled);
	assert_true(k->journal_bad); /* but it is looked at, from the last checkpoint on */
	free(k);
	k = after(KH_WORKER_EXIT_TOO_LONG, 1000);
	assert_false(k->journal_long);
	assert_true(k->journal_bad);
	free(k);
}

static void a_worker_that_has_just_followed_it_says_how_far_the_chain_holds(void **state)
{
	(void)state;
	struct kh_keeper *k = after(KH_WORKER_EXIT_SPOILED, 0);
	assert_true(k->journal_spoiled);
	assert_false(k->journal_bad);
	free(k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_worker_that_has_served_does_not_say_how_far_the_chain_holds),
		cmocka_unit_test(a_worker_that_has_just_followed_it_says_how_far_the_chain_holds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
