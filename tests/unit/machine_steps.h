/* machine_steps.h - every step of a machine tried through its setter, against a list made by hand
 */
#ifndef KEYHOLE_TESTS_MACHINE_STEPS_H
#define KEYHOLE_TESTS_MACHINE_STEPS_H

#include "unit.h"

#include <stdio.h>
#include <string.h>

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

/*
 * The same for a setter that has its table to itself; `machine_set`(object, to) tells whether the
 * step was made. `allowed`: of each state, a line of one letter a state, 'x' where that one may
 * follow.
 */
#define assert_steps(machine_set, object, member, type, allowed) \
	do { \
		const size_t n_ = sizeof(allowed) / sizeof(*(allowed)); \
		uint64_t faults_ = kh_machine_faults(), wrong_ = 0; \
		for (size_t from_ = 0; from_ < n_; from_++) { \
			assert_int_equal(strlen((allowed)[from_]), n_); \
			for (size_t to_ = 0; to_ < n_; to_++) { \
				bool may_ = (allowed)[from_][to_] == 'x'; \
				(object)->member = (type)from_; \
				if ((machine_set(object, (type)to_)) != may_) \
					fail_msg("%zu to %zu", from_, to_); \
				assert_int_equal((object)->member, may_ ? to_ : from_); \
				wrong_ += !may_; \
			} \
		} \
		assert_int_equal(kh_machine_faults() - faults_, wrong_); \
	} while (0)

#endif
