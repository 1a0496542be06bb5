/* test_worker_process_state.c - which state of a worker's process, and of a handover, may follow */
#include "unit.h"

#include <keyhole/base/machine.h>

#include "keeper/handover_internal.h"

static bool goes(enum kh_worker_process_state from, enum kh_worker_process_state to)
{
	struct kh_worker_process worker_process = { .state = from };
	struct kh_err err = KH_ERR_INIT;
	uint64_t before = kh_machine_faults();
	bool ok = kh_worker_process_set_state(&worker_process, to, &err);

	assert_int_equal(worker_process.state, ok ? to : from);
	assert_int_equal(kh_machine_faults() - before, ok ? 0 : 1);
	return ok;
}

static void a_worker_that_was_killed_is_only_reaped(void **state)
{
	(void)state;
	assert_true(goes(KH_WORKER_PROCESS_CONDEMNED, KH_WORKER_PROCESS_NONE));
	assert_false(goes(KH_WORKER_PROCESS_CONDEMNED, KH_WORKER_PROCESS_SERVING));
	assert_false(goes(KH_WORKER_PROCESS_CONDEMNED, KH_WORKER_PROCESS_DRAINING));
}

static void a_worker_that_drains_serves_no_more(void **state)
{
	(void)state;
	assert_true(goes(KH_WORKER_PROCESS_SERVING, KH_WORKER_PROCESS_DRAINING));
	assert_true(goes(KH_WORKER_PROCESS_DRAINING, KH_WORKER_PROCESS_DRAINING));
	assert_false(goes(KH_WORKER_PROCESS_DRAINING, KH_WORKER_PROCESS_SERVING));
	assert_false(goes(KH_WORKER_PROCESS_SERVING, KH_WORKER_PROCESS_STARTING));
	assert_false(goes(KH_WORKER_PROCESS_NONE, KH_WORKER_PROCESS_SERVING));
}

static void a_handover_that_opened_is_not_called_off(void **state)
{
	struct kh_handover h = { .state = KH_HANDOVER_NONE };

	(void)state;
	for (int step = KH_HANDOVER_ASKED; step <= KH_HANDOVER_OVER; step++) {
		bool opened = h.state >= KH_HANDOVER_OPENING;
		struct kh_handover off = h;
		assert_int_equal(kh_handover_set_state(&off, KH_HANDOVER_NONE, NULL), !opened);
		assert_true(kh_handover_set_state(&h, (enum kh_handover_state)step, NULL));
	}
	assert_false(kh_handover_set_state(&h, KH_HANDOVER_ASKED, NULL));
}

static void the_new_process_takes_no_step_twice_and_leaves_none_out(void **state)
{
	(void)state;
	for (int from = KH_HANDOVER_NEW_OFFERED; from <= KH_HANDOVER_NEW_ENDING; from++)
		for (int to = KH_HANDOVER_NEW_OFFERED; to <= KH_HANDOVER_NEW_ENDING; to++) {
			struct kh_handover_new one = { .state = (enum kh_handover_new_state)from };
			assert_int_equal(kh_handover_new_set_state(
						 &one, (enum kh_handover_new_state)to, NULL),
					 to == from + 1);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_worker_that_was_killed_is_only_reaped),
		cmocka_unit_test(a_worker_that_drains_serves_no_more),
		cmocka_unit_test(a_handover_that_opened_is_not_called_off),
		cmocka_unit_test(the_new_process_takes_no_step_twice_and_leaves_none_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
