/* machine.c - reports a step that a machine's table does not have */

#include <keyhole/base/machine.h>

#include <stdatomic.h>

#include <keyhole/base/log.h>

static atomic_uint_fast64_t faults;

static const char *name_of(const struct kh_machine *m, unsigned state)
{
	return state < m->n && m->states[state] ? m->states[state] : "no state";
}

bool kh_machine_fault(const struct kh_machine *m, unsigned from, unsigned to, struct kh_err *err)
{
	uint64_t n = atomic_fetch_add(&faults, 1) + 1;
	const char *before = name_of(m, from), *after = name_of(m, to);

	/* Whoever finds out how to make one can make many. */
	if ((n & (n - 1)) == 0)
		kh_log_error("fault in keyhole: %s: %s can't follow %s (%llu such faults so far); "
			     "please report it",
			     m->name, after, before, (unsigned long long)n);
	return kh_err_set(err, KH_ERR_INTERNAL, "fault in keyhole: %s: %s can't follow %s", m->name,
			  after, before);
}

uint64_t kh_machine_faults(void)
{
	return atomic_load(&faults);
}
