/* exchange_state.c - the states of an exchange: their tables, and the only functions that assign
 * them */

#include <keyhole/base/machine.h>

#include "exchange_internal.h"

bool kh_exchange_set_state(struct kh_exchange *x, enum kh_exchange_state state, struct kh_err *err)
{
	static const char *const names[] = {
		[KH_EXCHANGE_BEGUN] = "begun",	 [KH_EXCHANGE_BUFFER] = "buffer",
		[KH_EXCHANGE_ASK] = "ask",	 [KH_EXCHANGE_SECRET] = "secret",
		[KH_EXCHANGE_COMMIT] = "commit", [KH_EXCHANGE_CONNECT] = "connect",
		[KH_EXCHANGE_RELAY] = "relay",	 [KH_EXCHANGE_ENDED] = "ended",
	};
	enum {
		/* Until something of it is sent, it may be decided anew (a reload). */
		UNDECIDED = KH_STATE(KH_EXCHANGE_BUFFER) | KH_STATE(KH_EXCHANGE_ASK) |
			    KH_STATE(KH_EXCHANGE_SECRET) | KH_STATE(KH_EXCHANGE_COMMIT) |
			    KH_STATE(KH_EXCHANGE_ENDED),
	};
	static const uint32_t next[] = {
		[KH_EXCHANGE_BEGUN] = UNDECIDED,
		[KH_EXCHANGE_BUFFER] = UNDECIDED,
		[KH_EXCHANGE_ASK] = UNDECIDED,
		[KH_EXCHANGE_SECRET] = UNDECIDED,
		/* A page is answered without a connection. */
		[KH_EXCHANGE_COMMIT] = KH_STATE(KH_EXCHANGE_CONNECT) | UNDECIDED,
		/* Another try, with another connection. */
		[KH_EXCHANGE_CONNECT] =
			KH_STATE(KH_EXCHANGE_CONNECT) | KH_STATE(KH_EXCHANGE_RELAY) | UNDECIDED,
		[KH_EXCHANGE_RELAY] = KH_STATE(KH_EXCHANGE_CONNECT) | KH_STATE(KH_EXCHANGE_ENDED),
		[KH_EXCHANGE_ENDED] = 0,
	};
	static const struct kh_machine machine = { "exchange", KH_EXCHANGE_ENDED + 1, names, next };

	if (!kh_machine_allows(&machine, x->state, state))
		return kh_machine_fault(&machine, x->state, state, err);
	x->state = state;
	return true;
}

bool kh_exchange_set_request(struct kh_exchange *x, enum kh_request_state state, struct kh_err *err)
{
	static const char *const names[] = {
		[KH_REQUEST_COMING] = "coming",
		[KH_REQUEST_DONE] = "done",
		[KH_REQUEST_HELD] = "held",
		[KH_REQUEST_SENT] = "sent",
	};
	static const uint32_t next[] = {
		[KH_REQUEST_COMING] = KH_STATE(KH_REQUEST_DONE),
		[KH_REQUEST_DONE] = KH_STATE(KH_REQUEST_HELD),
		/* Held to be decided about, and then signed in chunks. */
		[KH_REQUEST_HELD] = KH_STATE(KH_REQUEST_HELD) | KH_STATE(KH_REQUEST_SENT),
		[KH_REQUEST_SENT] = 0,
	};
	static const struct kh_machine machine = { "request", KH_REQUEST_SENT + 1, names, next };

	if (!kh_machine_allows(&machine, x->request_state, state))
		return kh_machine_fault(&machine, x->request_state, state, err);
	x->request_state = state;
	return true;
}

bool kh_exchange_set_answer(struct kh_exchange *x, enum kh_answer_state state, struct kh_err *err)
{
	static const char *const names[] = {
		[KH_ANSWER_NONE] = "none",
		[KH_ANSWER_BEGUN] = "begun",
		[KH_ANSWER_DONE] = "done",
	};
	static const uint32_t next[] = {
		/* One of our own, a page, is put as a whole. */
		[KH_ANSWER_NONE] = KH_STATE(KH_ANSWER_BEGUN) | KH_STATE(KH_ANSWER_DONE),
		/* It is taken back as long as nothing of it has left. */
		[KH_ANSWER_BEGUN] = KH_STATE(KH_ANSWER_NONE) | KH_STATE(KH_ANSWER_DONE),
		[KH_ANSWER_DONE] = 0,
	};
	static const struct kh_machine machine = { "answer", KH_ANSWER_DONE + 1, names, next };

	if (!kh_machine_allows(&machine, x->answer_state, state))
		return kh_machine_fault(&machine, x->answer_state, state, err);
	x->answer_state = state;
	return true;
}

bool kh_exchange_set_record(struct kh_exchange *x, enum kh_record_state state, struct kh_err *err)
{
	static const char *const names[] = {
		[KH_RECORD_NONE] = "none",
		[KH_RECORD_OPEN] = "open",
		[KH_RECORD_OPEN_WOULD] = "open, with a limit",
		[KH_RECORD_CLOSED] = "closed",
	};
	static const uint32_t next[] = {
		[KH_RECORD_NONE] = KH_STATE(KH_RECORD_OPEN) | KH_STATE(KH_RECORD_OPEN_WOULD) |
				   KH_STATE(KH_RECORD_CLOSED),
		[KH_RECORD_OPEN] = KH_STATE(KH_RECORD_CLOSED),
		[KH_RECORD_OPEN_WOULD] = KH_STATE(KH_RECORD_CLOSED),
		/* Decided anew, it gets records of its own. */
		[KH_RECORD_CLOSED] = KH_STATE(KH_RECORD_NONE),
	};
	static const struct kh_machine machine = { "record", KH_RECORD_CLOSED + 1, names, next };

	if (!kh_machine_allows(&machine, x->record_state, state))
		return kh_machine_fault(&machine, x->record_state, state, err);
	x->record_state = state;
	return true;
}
