/*
 * rechecks.h - after a reload, running exchanges are decided again, in slices over turns of the
 * loop
 *
 * A decision may cost KH_LIMIT_DECISION_STEPS, and a sandbox may have thousands of exchanges. So a
 * reload only makes them wait, and each turn decides some (KH_LIMIT_RECHECK_STEPS). Sandboxes take
 * turns, so one with many that are costly doesn't delay those of the others. What waits must not
 * move meanwhile: the rules that decided it are no longer in force.
 */
#ifndef KEYHOLE_LOOP_RECHECKS_H
#define KEYHOLE_LOOP_RECHECKS_H

#include <keyhole/loop/acceptor.h>

/* What waits to be decided again. The owner sets `fn` once; an owner that is freed removes the link
 * (kh_list_remove). */
struct kh_recheck {
	struct kh_node link; /* in its acceptor's `rechecks` */
	/* It waits no longer. May free its owner, and others. */
	void (*fn)(struct kh_recheck *recheck);
};

/* Decides it in this turn or a later one. Does nothing if it waits already. */
void kh_recheck_later(struct kh_acceptor *acceptor, struct kh_recheck *recheck);
static inline bool kh_recheck_waits(const struct kh_recheck *recheck)
{
	return kh_list_has_node(&recheck->link);
}

/* For the loop: nothing waits at the start. */
void kh_rechecks_init(struct kh_loop *loop);

#endif
