/*
 * machine.h - state machines: which state may follow which
 *
 * A machine is an enum that counts from 0, one member of that type, and one setter. The setter asks
 * the machine's table before it assigns; nobody else assigns (tests/house.sh). A step that the
 * table does not have is a fault of keyhole's own. The setter refuses it with KH_ERR_INTERNAL, and
 * its caller ends what the machine belongs to as it would for any other error.
 */
#ifndef KEYHOLE_BASE_MACHINE_H
#define KEYHOLE_BASE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include <keyhole/base/err.h>

struct kh_machine {
	const char *name; /* for the log: "session" */
	unsigned n;	  /* states; 32 at most */
	/* By state, n of each: its name; and those that may follow it, as a sum of KH_STATE. */
	const char *const *states;
	const uint32_t *next;
};

#define KH_STATE(state) (UINT32_C(1) << (state))

/* May `to` follow `from`? Not where either is no state. */
static inline bool kh_machine_allows(const struct kh_machine *m, unsigned from, unsigned to)
{
	return from < m->n && to < m->n && (m->next[from] & KH_STATE(to)) != 0;
}

/* A step that the table does not have: counts it, and says it in the log (the first, the second,
 * the fourth …). `err` may be NULL, and needs no initial value: requests make many steps, and few
 * faults. Return: false with KH_ERR_INTERNAL. */
bool kh_machine_fault(const struct kh_machine *m, unsigned from, unsigned to, struct kh_err *err);

/* For a setter: may the step be made? Return: false with `err` (which may be NULL), as above. Where
 * each request makes it, two calls cost less: kh_machine_allows, then kh_machine_fault. */
static inline bool kh_machine_step(const struct kh_machine *m, unsigned from, unsigned to,
				   struct kh_err *err)
{
	return kh_machine_allows(m, from, to) || kh_machine_fault(m, from, to, err);
}

/* Faults of all machines since the process began. For tests: it is 0. */
uint64_t kh_machine_faults(void);

#endif
