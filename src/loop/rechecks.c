/*
 * rechecks.c - the slices in which what runs is decided again after a reload
 *
 * Each acceptor has a list of what waits there, and the loop has a list of such acceptors. A slice
 * goes round the acceptors until its steps are spent. An acceptor's turn ends sooner, and always
 * decides one.
 */
#include <keyhole/loop/rechecks.h>

#include <keyhole/base/clock.h>
#include <keyhole/base/limits.h>

enum {
	/* What each costs besides its decision: its records, its limits, its connections. */
	LEAST_STEPS = 50 * 1000,
	SHARE_STEPS = KH_LIMIT_RECHECK_STEPS / 8,
};

/* Return: the steps that were spent. */
static uint64_t decide_some(struct kh_acceptor *acceptor)
{
	const struct kh_loop *loop = acceptor->loop;
	uint64_t before = loop->decision_steps, least = 0, spent = 0;

	while (spent < SHARE_STEPS && !kh_list_is_empty(&acceptor->rechecks)) {
		struct kh_recheck *recheck =
			kh_container_of(acceptor->rechecks.next, struct kh_recheck, link);
		kh_list_remove(&recheck->link);
		recheck->fn(recheck);
		least += LEAST_STEPS;
		spent = least + (loop->decision_steps - before);
	}
	return spent;
}

static void on_slice(struct kh_loop_call *call)
{
	struct kh_loop *loop = kh_container_of(call, struct kh_loop, recheck);
	uint64_t spent = 0;

	loop->now_ms = kh_clock_mono_ms();
	while (spent < KH_LIMIT_RECHECK_STEPS && !kh_list_is_empty(&loop->rechecks)) {
		struct kh_acceptor *acceptor =
			kh_container_of(loop->rechecks.next, struct kh_acceptor, rechecks_link);
		spent += decide_some(acceptor);
		/* It may have ended with the last that waited there. */
		kh_list_remove(&acceptor->rechecks_link);
		if (!kh_list_is_empty(&acceptor->rechecks))
			kh_list_append(&loop->rechecks, &acceptor->rechecks_link);
	}
	if (!kh_list_is_empty(&loop->rechecks))
		kh_loop_call(loop, KH_LOOP_NEXT, call);
}

void kh_recheck_later(struct kh_acceptor *acceptor, struct kh_recheck *recheck)
{
	struct kh_loop *loop = acceptor->loop;

	if (kh_recheck_waits(recheck))
		return;
	if (!kh_list_has_node(&acceptor->rechecks_link)) {
		kh_list_init(&acceptor->rechecks);
		kh_list_append(&loop->rechecks, &acceptor->rechecks_link);
	}
	kh_list_append(&acceptor->rechecks, &recheck->link);
	kh_loop_call(loop, KH_LOOP_NEXT, &loop->recheck);
}

void kh_rechecks_init(struct kh_loop *loop)
{
	kh_list_init(&loop->rechecks);
	loop->recheck.fn = on_slice;
}
