/* worker_process_state.c - the states of a worker's process, and of a handover at either end */

#include <keyhole/base/machine.h>

#include "handover_internal.h"

bool kh_worker_process_set_state(struct kh_worker_process *worker_process,
				 enum kh_worker_process_state state, struct kh_err *err)
{
	static const char *const names[] = {
		[KH_WORKER_PROCESS_NONE] = "none",
		[KH_WORKER_PROCESS_STARTING] = "starting",
		[KH_WORKER_PROCESS_SERVING] = "serving",
		[KH_WORKER_PROCESS_DRAINING] = "draining",
		[KH_WORKER_PROCESS_CONDEMNED] = "condemned",
	};
	/* It may end, or be killed, at any time. */
	enum { END = KH_STATE(KH_WORKER_PROCESS_CONDEMNED) | KH_STATE(KH_WORKER_PROCESS_NONE) };
	static const uint32_t next[] = {
		[KH_WORKER_PROCESS_NONE] = KH_STATE(KH_WORKER_PROCESS_STARTING),
		[KH_WORKER_PROCESS_STARTING] = KH_STATE(KH_WORKER_PROCESS_SERVING) |
					       KH_STATE(KH_WORKER_PROCESS_DRAINING) | END,
		[KH_WORKER_PROCESS_SERVING] = KH_STATE(KH_WORKER_PROCESS_DRAINING) | END,
		/* RETIRE, then DRAIN or SUPERSEDED. */
		[KH_WORKER_PROCESS_DRAINING] = KH_STATE(KH_WORKER_PROCESS_DRAINING) | END,
		[KH_WORKER_PROCESS_CONDEMNED] = KH_STATE(KH_WORKER_PROCESS_NONE),
	};
	static const struct kh_machine machine = { "worker process",
						   KH_WORKER_PROCESS_CONDEMNED + 1, names, next };

	if (!kh_machine_step(&machine, worker_process->state, state, err))
		return false;
	worker_process->state = state;
	return true;
}

bool kh_handover_set_state(struct kh_handover *h, enum kh_handover_state state, struct kh_err *err)
{
	static const char *const names[] = {
		[KH_HANDOVER_NONE] = "none",	   [KH_HANDOVER_ASKED] = "asked",
		[KH_HANDOVER_STARTED] = "started", [KH_HANDOVER_OFFERED] = "offered",
		[KH_HANDOVER_MOVING] = "moving",   [KH_HANDOVER_OPENING] = "opening",
		[KH_HANDOVER_OVER] = "over",
	};
	/* It is called off, which may be once too often. */
	enum { OFF = KH_STATE(KH_HANDOVER_NONE) };
	static const uint32_t next[] = {
		[KH_HANDOVER_NONE] = KH_STATE(KH_HANDOVER_ASKED) | OFF,
		[KH_HANDOVER_ASKED] = KH_STATE(KH_HANDOVER_STARTED) | OFF,
		[KH_HANDOVER_STARTED] = KH_STATE(KH_HANDOVER_OFFERED) | OFF,
		[KH_HANDOVER_OFFERED] = KH_STATE(KH_HANDOVER_MOVING) | OFF,
		[KH_HANDOVER_MOVING] = KH_STATE(KH_HANDOVER_OPENING) | OFF,
		/* The new process may be the daemon already, or may have died as it. */
		[KH_HANDOVER_OPENING] = KH_STATE(KH_HANDOVER_OVER),
		[KH_HANDOVER_OVER] = 0,
	};
	static const struct kh_machine machine = { "handover", KH_HANDOVER_OVER + 1, names, next };

	if (!kh_machine_step(&machine, h->state, state, err))
		return false;
	h->state = state;
	return true;
}

bool kh_handover_new_set_state(struct kh_handover_new *handover_new,
			       enum kh_handover_new_state state, struct kh_err *err)
{
	static const char *const names[] = {
		[KH_HANDOVER_NEW_NONE] = "none",	 [KH_HANDOVER_NEW_OFFERED] = "offered",
		[KH_HANDOVER_NEW_PREPARED] = "prepared", [KH_HANDOVER_NEW_MOVED] = "moved",
		[KH_HANDOVER_NEW_OURS] = "ours",	 [KH_HANDOVER_NEW_ENDING] = "ending",
	};
	/* It is given up, or all of it is done. */
	enum { DONE = KH_STATE(KH_HANDOVER_NEW_NONE) };
	static const uint32_t next[] = {
		[KH_HANDOVER_NEW_NONE] = KH_STATE(KH_HANDOVER_NEW_OFFERED) | DONE,
		[KH_HANDOVER_NEW_OFFERED] = KH_STATE(KH_HANDOVER_NEW_PREPARED) | DONE,
		[KH_HANDOVER_NEW_PREPARED] = KH_STATE(KH_HANDOVER_NEW_MOVED) | DONE,
		[KH_HANDOVER_NEW_MOVED] = KH_STATE(KH_HANDOVER_NEW_OURS) | DONE,
		[KH_HANDOVER_NEW_OURS] = KH_STATE(KH_HANDOVER_NEW_ENDING) | DONE,
		[KH_HANDOVER_NEW_ENDING] = DONE,
	};
	static const struct kh_machine machine = { "handover from another process",
						   KH_HANDOVER_NEW_ENDING + 1, names, next };

	if (!kh_machine_step(&machine, handover_new->state, state, err))
		return false;
	handover_new->state = state;
	return true;
}
