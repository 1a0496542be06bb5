/* test_machine.c - a state follows another one only where the table says so */
#include "unit.h"

#include <keyhole/base/log.h>
#include <keyhole/base/machine.h>

enum { SHUT = 0, OPEN, BROKEN };

static const char *const names[] = { "shut", "open", "broken" };
static const uint32_t next[] = {
	[SHUT] = KH_STATE(OPEN) | KH_STATE(BROKEN),
	[OPEN] = KH_STATE(SHUT) | KH_STATE(OPEN),
	[BROKEN] = 0,
};
static const struct kh_machine acceptor = { "acceptor", 3, names, next };

static void test_a_step_of_the_table_is_made(void **state)
{
	uint64_t before = kh_machine_faults();
	struct kh_err err = KH_ERR_INIT;

	(void)state;
	assert_true(kh_machine_step(&acceptor, SHUT, OPEN, &err));
	assert_true(kh_machine_step(&acceptor, OPEN, OPEN, &err));
	assert_true(kh_machine_step(&acceptor, SHUT, BROKEN, NULL));
	assert_int_equal(err.code, KH_ERR_NONE);
	assert_int_equal(kh_machine_faults(), before);
}

static void test_any_other_step_is_refused_and_counted(void **state)
{
	uint64_t before = kh_machine_faults();
	struct kh_err err = KH_ERR_INIT;

	(void)state;
	assert_false(kh_machine_step(&acceptor, BROKEN, OPEN, &err));
	assert_int_equal(err.code, KH_ERR_INTERNAL);
	assert_string_equal(err.text, "fault in keyhole: acceptor: open can't follow broken");
	assert_false(kh_machine_step(&acceptor, SHUT, SHUT, NULL));
	assert_int_equal(kh_machine_faults(), before + 2);
}

/* A number that memory was overwritten with, for instance. */
static void test_what_is_no_state_leads_nowhere(void **state)
{
	struct kh_err err = KH_ERR_INIT;

	(void)state;
	assert_false(kh_machine_step(&acceptor, 3, SHUT, &err));
	assert_string_equal(err.text, "fault in keyhole: acceptor: shut can't follow no state");
	assert_false(kh_machine_step(&acceptor, OPEN, 77, &err));
	assert_string_equal(err.text, "fault in keyhole: acceptor: no state can't follow open");
	assert_false(kh_machine_allows(&acceptor, 1000, 1000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_step_of_the_table_is_made),
		cmocka_unit_test(test_any_other_step_is_refused_and_counted),
		cmocka_unit_test(test_what_is_no_state_leads_nowhere),
	};

	kh_log_set_level(KH_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
