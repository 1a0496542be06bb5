/* machine_steps.h - every step of a machine tried through its setter, against a list made by hand
 */
#ifndef KEYHOLE_TESTS_MACHINE_STEPS_H
#define KEYHOLE_TESTS_MACHINE_STEPS_H

#include "unit.h"

#include <stdio.h>

#include <keyhole/base/machine.h>

/*
 * `steps`: the steps that may be made, "0>1 0>2 …", in order. `make`: puts a machine into the state
 * `from` and asks its setter for `to`; it tells whether the state is `to` afterwards, and fails the
 * test where it is neither that nor `from`. Each other step is refused, and counted as a fault.
 */
static inline void check_steps(const struct kh_machine *m, const char *steps,
			       bool (*make)(unsigned from, unsigned to, bool *said))
{
	char made[512] = "";
	size_t at = 0;

	for (unsigned from = 0; from < m->n; from++)
		for (unsigned to = 0; to < m->n; to++) {
			uint64_t before = kh_machine_faults();
			bool said, went = make(from, to, &said);

			assert_int_equal(said, kh_machine_allows(m, from, to));
			assert_int_equal(went, said || from == to);
			assert_int_equal(kh_machine_faults() - before, said ? 0 : 1);
			if (said)
				at += (size_t)snprintf(made + at, sizeof(made) - at, "%s%u>%u",
						       at ? " " : "", from, to);
		}
	assert_string_equal(made, steps);
}

#endif
