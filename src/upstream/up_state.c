/* up_state.c - the states of a connection to an upstream: the tables, and the setters */

#include <keyhole/base/machine.h>

#include "upstream_internal.h"

bool kh_up_set_state(struct kh_up *up, enum kh_up_state state, struct kh_err *err)
{
	static const char *const names[] = {
		[KH_UP_NEW] = "new",	   [KH_UP_CONNECTING] = "connecting",
		[KH_UP_HANDSHAKE] = "TLS", [KH_UP_BUSY] = "busy",
		[KH_UP_IDLE] = "idle",	   [KH_UP_SHARED] = "shared",
		[KH_UP_DEAD] = "dead",
	};
	static const uint32_t next[] = {
		[KH_UP_NEW] = KH_STATE(KH_UP_CONNECTING) | KH_STATE(KH_UP_DEAD),
		/* Without TLS nothing follows the making. */
		[KH_UP_CONNECTING] =
			KH_STATE(KH_UP_HANDSHAKE) | KH_STATE(KH_UP_BUSY) | KH_STATE(KH_UP_DEAD),
		[KH_UP_HANDSHAKE] =
			KH_STATE(KH_UP_BUSY) | KH_STATE(KH_UP_SHARED) | KH_STATE(KH_UP_DEAD),
		[KH_UP_BUSY] = KH_STATE(KH_UP_IDLE) | KH_STATE(KH_UP_DEAD),
		[KH_UP_IDLE] = KH_STATE(KH_UP_BUSY) | KH_STATE(KH_UP_DEAD),
		[KH_UP_SHARED] = KH_STATE(KH_UP_DEAD),
		[KH_UP_DEAD] = 0,
	};
	static const struct kh_machine machine = { "upstream connection", KH_UP_DEAD + 1, names,
						   next };

	if (!kh_machine_allows(&machine, up->state, state))
		return kh_machine_fault(&machine, up->state, state, err);
	up->state = state;
	(void)kh_up_slot_place(up);
	return true;
}

bool kh_up_set_answer(struct kh_up *up, enum kh_up_answer answer, struct kh_err *err)
{
	static const char *const names[] = {
		[KH_UP_ANSWER_NONE] = "none",	[KH_UP_ANSWER_BEGUN] = "begun",
		[KH_UP_ANSWER_FINAL] = "final", [KH_UP_ANSWER_SWITCHED] = "switched",
		[KH_UP_ANSWER_ENDED] = "ended",
	};
	static const uint32_t next[] = {
		/* A connection is lent before anything was asked on it. */
		[KH_UP_ANSWER_NONE] = KH_STATE(KH_UP_ANSWER_NONE) | KH_STATE(KH_UP_ANSWER_BEGUN) |
				      KH_STATE(KH_UP_ANSWER_ENDED),
		[KH_UP_ANSWER_BEGUN] =
			KH_STATE(KH_UP_ANSWER_FINAL) | KH_STATE(KH_UP_ANSWER_SWITCHED),
		[KH_UP_ANSWER_FINAL] = KH_STATE(KH_UP_ANSWER_NONE),
		[KH_UP_ANSWER_SWITCHED] = 0,
		[KH_UP_ANSWER_ENDED] = 0,
	};
	static const struct kh_machine machine = { "upstream answer", KH_UP_ANSWER_ENDED + 1, names,
						   next };

	if (!kh_machine_allows(&machine, up->answer_state, answer))
		return kh_machine_fault(&machine, up->answer_state, answer, err);
	up->answer_state = answer;
	return true;
}

bool kh_up_set_fin(struct kh_up *up, enum kh_up_fin fin)
{
	static const char *const names[] = { "none", "wanted", "sent" };
	static const uint32_t next[] = {
		[KH_UP_FIN_NONE] = KH_STATE(KH_UP_FIN_WANTED),
		[KH_UP_FIN_WANTED] = KH_STATE(KH_UP_FIN_SENT),
		[KH_UP_FIN_SENT] = 0,
	};
	static const struct kh_machine machine = { "end towards an upstream", KH_UP_FIN_SENT + 1,
						   names, next };

	if (!kh_machine_allows(&machine, up->fin_state, fin))
		return kh_machine_fault(&machine, up->fin_state, fin, NULL);
	up->fin_state = fin;
	return true;
}
