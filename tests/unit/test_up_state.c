/* test_up_state.c - a connection to an upstream makes the steps of its tables, and no others */
#include "machine_steps.h"

#include <stdlib.h>

#include "upstream/upstream_internal.h"

static bool set_state(struct kh_up *up, enum kh_up_state state)
{
	return kh_up_set_state(up, state, NULL);
}

static bool set_answer(struct kh_up *up, enum kh_up_answer answer)
{
	return kh_up_set_answer(up, answer, NULL);
}

static void test_only_the_steps_of_its_tables_are_made(void **state)
{
	/* new, connecting, TLS, busy, idle, shared, dead */
	static const char *const states[] = { ".x....x", "..xx..x", "...x.xx", "....x.x",
					      "...x..x", "......x", "......." };
	/* none, begun, final, switched, ended */
	static const char *const answers[] = { "xx..x", "..xx.", "x....", ".....", "....." };
	/* none, wanted, sent */
	static const char *const fins[] = { ".x.", "..x", "..." };
	struct kh_up *up = calloc(1, sizeof(*up));

	(void)state;
	assert_non_null(up);
	assert_steps(set_state, up, state, enum kh_up_state, states);
	assert_steps(set_answer, up, answer_state, enum kh_up_answer, answers);
	assert_steps(kh_up_set_fin, up, fin_state, enum kh_up_fin, fins);
	free(up);
}

/* kh_up_is_in_making compares places in the enum. */
static void test_it_is_in_the_making_until_it_is_lent_first(void **state)
{
	static const bool making[] = { true, true, true, false, false, false, false };

	(void)state;
	for (unsigned i = 0; i < sizeof(making) / sizeof(making[0]); i++) {
		struct kh_up *up = calloc(1, sizeof(*up));

		assert_non_null(up);
		up->state = (enum kh_up_state)i;
		assert_int_equal(kh_up_is_in_making(up), making[i]);
		free(up);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_only_the_steps_of_its_tables_are_made),
		cmocka_unit_test(test_it_is_in_the_making_until_it_is_lent_first),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
