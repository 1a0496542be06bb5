/*
 * exchange_content.c - the content of a request on its way through an exchange
 *
 * down codec ─▶ held (hold.c), signed in chunks (signing.c), or looked at, counted and put upstream
 *
 * What has gone is kept as long as the upstream may still say that it has not looked at it.
 */
#include "proxy_internal.h"
#include "signing.h"

bool kh_exchange_takes_body(const struct kh_exchange *x)
{
	if (kh_exchange_is_websocket(x))
		return !x->up->ops->is_full(x->up);
	if (x->request_done)
		return false;
	if (x->message->framing == KH_FRAMING_NONE)
		return true;
	if (x->state == KH_EXCHANGE_HOLD)
		return true;
	return x->state == KH_EXCHANGE_RELAY && !kh_hold_has(x) && !x->up->ops->is_full(x->up);
}

/* What was not announced turns out larger than the max_body of a rule that allowed it. Return: that
 * rule. */
static const struct kh_rule *too_large_for(const struct kh_exchange *x, struct kh_slice piece)
{
	const struct kh_rule *rule = kh_decision_max_body(&x->decision);

	return rule && x->up_bytes + piece.len > rule->more->max_body ? rule : NULL;
}

/* For another try. An upstream that speaks HTTP/1 never says that it has not looked at it. */
static void hold(struct kh_exchange *x, struct kh_slice piece)
{
	if (!x->settled && (!x->up->conn->mux || !kh_buf_append_slice(&x->held, piece)))
		kh_exchange_settle(x);
}

bool kh_exchange_forward(struct kh_exchange *x, struct kh_slice piece)
{
	struct kh_err err = KH_ERR_INIT;

	if (!kh_content_look_at(x, piece, &err)) {
		kh_exchange_fail(x, &err);
		return false;
	}
	size_t may = kh_exchange_spend(x, KH_QUOTA_BYTES_UP, piece.len, &err);
	struct kh_slice going = kh_slice_sub(piece, 0, may);

	kh_exchange_moved_up(x, going.len);
	bool ok = may == piece.len;
	if (going.len > 0) {
		hold(x, going);
		ok = kh_content_put(x, going, &err) && ok;
	}
	if (!ok)
		kh_exchange_fail(x, &err);
	return ok;
}

void kh_exchange_body(struct kh_exchange *x, struct kh_slice piece)
{
	struct kh_err err = KH_ERR_INIT;

	if (kh_exchange_is_websocket(x)) {
		(void)kh_websocket_from_down(x, piece);
		return;
	}
	if (x->state == KH_EXCHANGE_HOLD) {
		if (!kh_hold_take(x, piece, &err))
			kh_exchange_fail(x, &err);
		return;
	}
	const struct kh_rule *rule = too_large_for(x, piece);
	if (rule) {
		kh_err_set(&err, KH_ERR_CONTENT_TOO_LARGE,
			   "the content is larger than the rule '%s' lets through (max_body: "
			   "%llu bytes)",
			   rule->text, (unsigned long long)rule->more->max_body);
		kh_exchange_fail(x, &err);
		return;
	}
	if (!kh_signing_has_chunks(x))
		(void)kh_exchange_forward(x, piece);
	else if (!kh_signing_take_content(x, piece, &err))
		kh_exchange_fail(x, &err);
	else
		(void)kh_hold_send(x);
}

void kh_exchange_request_end(struct kh_exchange *x, const struct kh_field *trailers, size_t n)
{
	struct kh_field kept[KH_LIMIT_FIELDS];
	size_t n_kept = 0;
	struct kh_err err = KH_ERR_INIT;

	if (kh_exchange_is_websocket(x)) {
		kh_websocket_down_ended(x);
		return;
	}
	x->request_done = true;
	if (x->state == KH_EXCHANGE_HOLD) {
		bool good = x->holds_for_credential ? kh_hold_end_for_credential(x, n, &err)
						    : kh_hold_read(x, n, &err);
		if (good)
			kh_exchange_decide(x);
		else
			kh_exchange_fail(x, &err);
		return;
	}
	if (x->message->framing == KH_FRAMING_NONE)
		return;
	if (kh_signing_has_chunks(x)) {
		if (!kh_signing_end_content(x, &err))
			kh_exchange_fail(x, &err);
		else
			(void)kh_hold_send(x);
		return;
	}
	if (!kh_exchange_trailers(x, trailers, n, kept, &n_kept, &err)) {
		kh_exchange_fail(x, &err);
		return;
	}
	if (n_kept > 0)
		kh_exchange_settle(x); /* they are not held */
	if (!kh_content_end(x, kept, n_kept, &err))
		kh_exchange_fail(x, &err);
}
