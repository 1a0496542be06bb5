/*
 * exchange_end.c - how an exchange ends, and how it is freed
 *
 * Every failure and refusal comes to kh_exchange_fail: it sends an answer if none was begun, else
 * it cuts the response. In either case the journal gets a record of the end, except for refusals
 * beyond their budget, which are only counted (loop/refusals.c).
 */

#include <keyhole/base/block.h>

#include "exchange_internal.h"
#include "placeholder_check.h"
#include "websocket_internal.h"
#include "signing.h"

/* The exchange is over on both sides but for its memory. Return: false: it was already, and whoever
 * ended it frees it. */
static bool let_go(struct kh_exchange *x)
{
	bool clean = kh_exchange_has_answer(x) && kh_exchange_has_request(x) &&
		     !kh_body_buffer_has(x) && x->reason == KH_ERR_NONE;

	if (!kh_exchange_set_state(x, KH_EXCHANGE_ENDED, NULL))
		return false;
	kh_exchange_ask_leave(x);
	/* That of a denied one is in the work of its head. */
	if (x->record_state != KH_RECORD_NONE)
		kh_work_share_charge(&x->side->acceptor->work, KH_LIMIT_WORK_PER_END);
	kh_exchange_record_end(x);
	kh_exchange_leave_limits(x);
	kh_charge_release(&x->descriptor);
	if (x->up.stream)
		x->up.stream->ops->release(x->up.stream, clean);
	x->up.stream = NULL;
	x->down->exchange = NULL;
	kh_list_remove(&x->member.link);
	kh_list_remove(&x->recorded.link);
	kh_list_remove(&x->recheck.link);
	return true;
}

static void free_exchange(struct kh_exchange *x)
{
	kh_exchange_count_gone(x);
	kh_signing_free(x);
	kh_injection_fini(&x->injection);
	kh_content_fini(x);
	kh_target_fini(&x->target);
	kh_generation_unref(x->gen);
	kh_ruling_leave(&x->ruling);
	kh_websocket_free(x->websocket);
	kh_content_look_free(x->content_look);
	kh_buf_fini(&x->held);
	kh_body_buffer_fini(x);
	kh_block_give(x);
}

void kh_exchange_gone(struct kh_exchange *x, enum kh_err_code reason, const char *detail)
{
	kh_exchange_note(x, reason, detail);
	if (let_go(x))
		free_exchange(x);
}

void kh_exchange_end(struct kh_exchange *x, enum kh_down_end end)
{
	struct kh_down_stream *down = x->down;

	if (!let_go(x))
		return;
	down->ops->over(down, x, end);
	free_exchange(x);
}

void kh_exchange_fail(struct kh_exchange *x, const struct kh_err *err)
{
	bool can_say = kh_err_status(err->code) != 0;

	if (x->record_state == KH_RECORD_NONE)
		kh_recognise_even_out(x);
	if (kh_exchange_is_websocket(x)) {
		kh_websocket_fail(x, err);
		return;
	}
	kh_exchange_note(x, err->code, err->text);
	/* A response that turns out to be broken in the turn in which it began has not left yet. */
	if (kh_exchange_has_answered(x) && x->down->ops->take_back(x->down))
		(void)kh_exchange_set_answer(x, KH_ANSWER_NONE, NULL);
	if (kh_exchange_has_answered(x)) {
		/* The sandbox must see that this response is not whole. */
		kh_exchange_end(x, can_say ? KH_DOWN_CUT : KH_DOWN_LOST);
		return;
	}
	if (can_say)
		x->status = (uint16_t)kh_err_status(err->code);
	can_say = can_say && kh_denial_put(x->down, x->side, x, err);
	kh_exchange_end(x, can_say ? KH_DOWN_WHOLE : KH_DOWN_LOST);
}

void kh_exchange_refuse_asked(struct kh_exchange *x, const char *why)
{
	struct kh_err err = KH_ERR_INIT;

	kh_err_set(&err, KH_ERR_NO_RULE, "no rule allows it, and %s", why);
	kh_exchange_fail(x, &err);
}

void kh_exchange_settle(struct kh_exchange *x)
{
	x->settled = true;
	kh_buf_fini(&x->held);
}
