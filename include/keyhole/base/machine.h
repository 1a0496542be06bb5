/*
 * machine.h - state machines: which state may follow which
 *
 * A machine is an enum that counts from 0, one member of that type, and one setter. The setter asks
 * the machine's table before it assigns; nobody else assigns (tests/house.sh). A step that is not
 * in the table is a bug in keyhole. The setter refuses it with KH_ERR_INTERNAL, and its caller ends
 * the object that has the machine, as for any other error.
 */
#ifndef KEYHOLE_BASE_MACHINE_H
#define KEYHOLE_BASE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include <keyhole/base/err.h>

struct kh_machine {
	const char *name; /* for the log: "session" */
	unsigned n;	  /* states; 32 at most */
	/* Arrays of n, by state: its name, and the set of states that may follow it, a sum of
	 * KH_STATE. */
	const char *const *states;
	const uint32_t *next;
};

#define KH_STATE(state) (UINT32_C(1) << (state))

/* May `to` follow `from`? False if either is no state. */
static inline bool kh_machine_allows(const struct kh_machine *m, unsigned from, unsigned to)
{
	return from < m->n && to < m->n && (m->next[from] & KH_STATE(to)) != 0;
}

/* Reports a step that is not in the table: counts it, and logs it (the first, the second, the
 * fourth …). `err` may be NULL, and need not be initialised, since requests make many steps and few
 * faults. Return: false with KH_ERR_INTERNAL. */
bool kh_machine_fault(const struct kh_machine *m, unsigned from, unsigned to, struct kh_err *err);

/* For a setter: may the step be made? Return: false with `err` (which may be NULL), as above. If
 * each request makes the step, two calls cost less: kh_machine_allows, then kh_machine_fault. */
static inline bool kh_machine_step(const struct kh_machine *m, unsigned from, unsigned to,
				   struct kh_err *err)
{
	return kh_machine_allows(m, from, to) || kh_machine_fault(m, from, to, err);
}

/* The number of faults of all machines since the process began. Tests expect 0. */
uint64_t kh_machine_faults(void);

#endif
