/*
 * exchange.c - one request and its response
 *
 * begin ─▶ (HOLD) ─▶ (SECRET) ─▶ COMMIT ─▶ CONNECT ─▶ RELAY ─▶ ENDED
 *
 * Nothing is resolved, dialled or sent before the open record stands in the journal (COMMIT).
 * Whatever fails comes to kh_exchange_fail: an answer where none was begun, else the end of the
 * connection; a close record in any case.
 */

#include <keyhole/block.h>

#include "proxy_internal.h"
#include "signing.h"
#include "values.h"

/* Return: the exchange is over on both sides but for its memory. */
static void let_go(struct kh_exchange *x)
{
	bool clean =
		x->response_done && x->request_done && !kh_hold_has(x) && x->reason == KH_ERR_NONE;

	kh_exchange_record_end(x);
	kh_exchange_leave_limits(x);
	if (x->up)
		x->up->ops->release(x->up, clean);
	x->up = NULL;
	x->down->exchange = NULL;
	kh_list_remove(&x->link);
	kh_list_remove(&x->commit_link);
}

static void free_exchange(struct kh_exchange *x)
{
	kh_exchange_count_gone(x);
	kh_signing_free(x);
	kh_injection_fini(&x->injection);
	kh_content_fini(x);
	kh_target_fini(&x->target);
	kh_generation_unref(x->gen);
	kh_generation_unref(x->geo_gen);
	kh_websocket_free(x->websocket);
	kh_content_look_free(x->content_look);
	kh_buf_fini(&x->held);
	kh_hold_fini(x);
	kh_block_give(x);
}

void kh_exchange_gone(struct kh_exchange *x, enum kh_err_code reason, const char *detail)
{
	kh_exchange_note(x, reason, detail);
	let_go(x);
	free_exchange(x);
}

void kh_exchange_end(struct kh_exchange *x, enum kh_down_end end)
{
	struct kh_down_stream *down = x->down;

	let_go(x);
	down->ops->over(down, x, end);
	free_exchange(x);
}

void kh_exchange_fail(struct kh_exchange *x, const struct kh_err *err)
{
	bool can_say = kh_err_status(err->code) != 0;

	if (kh_exchange_is_websocket(x)) {
		kh_websocket_fail(x, err);
		return;
	}
	kh_exchange_note(x, err->code, err->text);
	/* A response that turns out to be broken in the turn in which it began has not left yet. */
	if (x->response_begun && x->down->ops->take_back(x->down))
		x->response_begun = false;
	if (x->response_begun) {
		/* The sandbox must see that this response is not whole. */
		kh_exchange_end(x, can_say ? KH_DOWN_CUT : KH_DOWN_LOST);
		return;
	}
	if (can_say)
		x->status = (uint16_t)kh_err_status(err->code);
	can_say = can_say && kh_denial_put(x->down, x, err);
	kh_exchange_end(x, can_say ? KH_DOWN_WHOLE : KH_DOWN_LOST);
}

static void go_commit(struct kh_exchange *x)
{
	struct kh_exchange_texts texts;
	struct kh_audit_open record;
	struct kh_err err = KH_ERR_INIT;

	kh_exchange_describe(x, &record, &texts);
	x->state = KH_EXCHANGE_COMMIT;
	if (!kh_loop_make_room(x->session->loop) ||
	    !kh_audit_open(&x->session->loop->batch, &record)) {
		kh_err_set(&err, KH_ERR_AUDIT_UNAVAILABLE,
			   "the journal does not take records, so nothing is forwarded");
		kh_exchange_fail(x, &err);
		return;
	}
	kh_loop_show(x->session->loop, record.tenant, record.sandbox, &x->session->loop->batch);
	x->opened = true;
	x->would_opened = x->would_reach.kind != KH_QUOTA_NONE;
	kh_loop_commit(x->session->loop, x);
}

/* One after the other; without all of them nothing goes. */
static void get_secrets(struct kh_exchange *x)
{
	struct kh_err err = KH_ERR_INIT;

	for (size_t i = 0; i < x->injection.count; i++) {
		struct kh_injected *one = &x->injection.list[i];
		if (one->secret)
			continue;
		if (!kh_exchange_find_repository(x, one, &err)) {
			kh_exchange_fail(x, &err);
			return;
		}
		const struct kh_want want = { one->index, x->tenant, kh_slice_str(one->scope) };
		switch (kh_worker_secret(x->session->loop->worker, x->gen, &want,
					 x->session->door->gate, &one->secret, &err)) {
		case KH_SLOT_FULL:
			continue;
		case KH_SLOT_ASKED:
			x->state = KH_EXCHANGE_SECRET;
			kh_exchange_rest(x);
			return;
		case KH_SLOT_EMPTY:
		case KH_SLOT_MISSING:
			break;
		}
		kh_exchange_fail(x, &err);
		return;
	}
	go_commit(x);
}

bool kh_exchange_waits_for(const struct kh_exchange *x, uint32_t generation, uint16_t index)
{
	bool found = false;

	for (size_t i = 0; i < x->injection.count; i++)
		found = found ||
			(x->injection.list[i].index == index && !x->injection.list[i].secret);
	return found && x->state == KH_EXCHANGE_SECRET && x->gen->number == generation;
}

void kh_exchange_secret_came(struct kh_exchange *x)
{
	struct kh_down_stream *down = x->down;

	kh_exchange_go_on(x);
	get_secrets(x);
	down->ops->turn(down);
}

void kh_exchange_decide(struct kh_exchange *x)
{
	struct kh_err err = KH_ERR_INIT;

	if (kh_request_decide(x, &err)) {
		get_secrets(x);
		return;
	}
	bool waits = x->holds_for_credential ? kh_hold_begin_for_credential(x, &err)
					     : x->decision.asks_model && kh_hold_begin(x, &err);
	if (!waits)
		kh_exchange_fail(x, &err);
}

static void decide_anew(struct kh_exchange *x)
{
	kh_generation_unref(x->gen);
	x->gen = kh_generation_ref(x->session->loop->gen);
	x->tenant = x->session->door->config->tenant;
	kh_exchange_count_anew(x);
	kh_injection_fini(&x->injection);
	x->stripped[0] = '\0';
	kh_exchange_decide(x);
}

void kh_exchange_recheck(struct kh_exchange *x)
{
	static const char why[] = "the rules changed while it ran, and no longer allow it";
	struct kh_down_stream *down = x->down;
	struct kh_geo_levels before = x->geo;
	struct kh_err err = KH_ERR_INIT;

	if (x->page)
		return; /* no rule speaks of it */
	if (x->state == KH_EXCHANGE_SECRET || x->state == KH_EXCHANGE_HOLD) {
		decide_anew(x);
	} else if (kh_request_is_allowed(x, x->session->loop->gen)) {
		kh_up_recheck(x, &before);
	} else if (kh_exchange_is_websocket(x)) {
		(void)kh_websocket_leave(x, KH_ERR_NO_RULE, why);
	} else {
		kh_err_set(&err, KH_ERR_NO_RULE, "%s", why);
		kh_exchange_fail(x, &err);
	}
	down->ops->turn(down);
}

void kh_exchange_drain(struct kh_exchange *x)
{
	struct kh_down_stream *down = x->down;

	if (!kh_exchange_is_websocket(x))
		return;
	(void)kh_websocket_leave(x, KH_ERR_DRAINING, "the daemon ends");
	down->ops->turn(down);
}

static struct kh_exchange *new_exchange(struct kh_down_stream *down,
					const struct kh_message *message)
{
	struct kh_session *session = down->session;
	struct kh_exchange *x = kh_block_new(sizeof(*x));

	if (!x)
		return NULL;
	down->exchange = x;
	x->down = down;
	x->session = session;
	x->message = message;
	x->gen = kh_generation_ref(session->loop->gen);
	x->tenant = session->door->config->tenant;
	x->started_ms = x->progress_ms = session->loop->now_ms;
	kh_exchange_count_begin(x);
	kh_buf_init(&x->held, KH_LIMIT_HELD_BYTES);
	kh_buf_init(&x->content, 0);
	kh_list_append(&session->loop->exchanges, &x->link);
	kh_exchange_id(x->id);
	return x;
}

bool kh_exchange_begin(struct kh_down_stream *down, const struct kh_message *message)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_exchange *x = new_exchange(down, message);

	if (!x)
		return false;
	bool resolved = kh_request_resolve(x, &err);
	if (!kh_request_holds_no_secret(x, &err) || !resolved)
		kh_exchange_fail(x, &err);
	else if (x->page)
		go_commit(x);
	else
		kh_exchange_decide(x);
	return true;
}

bool kh_exchange_begin_tunnel(struct kh_down_stream *down, enum kh_tunnel_kind kind,
			      const struct kh_decision *decision)
{
	/* What CONNECT would say, whatever it came by; content in both directions until the end. */
	static const struct kh_message connect = {
		.method = KH_SLICE_INIT("CONNECT"),
		.minor = 1,
		.framing = KH_FRAMING_CLOSE,
	};
	struct kh_err err = KH_ERR_INIT;
	struct kh_exchange *x = new_exchange(down, &connect);

	if (!x)
		return false;
	x->tunnel = kind;
	x->scheme = kind == KH_TUNNEL_PASS ? KH_SCHEME_HTTPS : KH_SCHEME_TCP;
	x->authority = down->session->authority;
	x->decision = *decision;
	kh_request_settle_geo(x, x->gen, decision);
	if (kh_exchange_take_limits(x, &err))
		go_commit(x);
	else
		kh_exchange_fail(x, &err);
	return true;
}

void kh_exchange_committed(struct kh_exchange *x, bool written)
{
	struct kh_down_stream *down = x->down;
	struct kh_err err = KH_ERR_INIT;

	if (written && x->page) {
		kh_page_answer(x);
	} else if (written) {
		kh_exchange_rest(x);
		x->state = KH_EXCHANGE_CONNECT;
		kh_up_acquire(x, false);
	} else {
		kh_err_set(&err, KH_ERR_AUDIT_UNAVAILABLE,
			   "the journal can't be written, so nothing is forwarded");
		kh_exchange_fail(x, &err);
	}
	down->ops->turn(down);
}

void kh_exchange_up_failed(struct kh_exchange *x, const struct kh_err *err)
{
	if (x->up)
		x->up->ops->release(x->up, false);
	x->up = NULL;
	kh_exchange_fail(x, err);
}

/* What went on the connection before, once more behind the head. */
static bool repeat_content(struct kh_exchange *x, struct kh_err *err)
{
	if (kh_buf_len(&x->held) > 0 && !kh_content_put(x, kh_buf_view(&x->held), err))
		return false;
	return !x->request_done || x->message->framing == KH_FRAMING_NONE || kh_hold_has(x) ||
	       kh_content_end(x, NULL, 0, err);
}

void kh_exchange_up_ready(struct kh_exchange *x)
{
	const struct kh_up *conn = x->up->conn;
	struct kh_err err = KH_ERR_INIT;
	const char *version = kh_stream_tls_version(conn->leg.stream);

	x->state = KH_EXCHANGE_RELAY;
	x->reused = conn->reused;
	kh_count(x->session->loop, conn->reused ? KH_COUNT_UP_REUSED : KH_COUNT_UP_NEW);
	x->progress_ms = x->session->loop->now_ms;
	memcpy(x->peer, conn->peer, sizeof(x->peer));
	x->place = conn->place;
	x->tls = version;
	if (!kh_signing_make(x, &err) || !kh_content_begin(x, &err) ||
	    !x->up->ops->put_head(x->up, &err) || (x->heads++ > 0 && !repeat_content(x, &err)))
		kh_exchange_fail(x, &err);
}

bool kh_exchange_may_retry(const struct kh_exchange *x)
{
	static const char *const safe[] = { "GET", "HEAD", "OPTIONS" };

	if (x->settled || x->moves > 0 || x->up_bytes > 0 || !x->request_done)
		return false;
	for (size_t i = 0; i < sizeof(safe) / sizeof(*safe); i++)
		if (kh_slice_eq(x->message->method, kh_slice_str(safe[i])))
			return true;
	return false;
}

bool kh_exchange_may_repeat(const struct kh_exchange *x)
{
	return !x->settled && x->moves < KH_LIMIT_MOVES;
}

void kh_exchange_retry(struct kh_exchange *x)
{
	x->moves++;
	x->up->ops->release(x->up, false);
	x->up = NULL;
	x->state = KH_EXCHANGE_CONNECT;
	kh_up_acquire(x, true);
}

void kh_exchange_settle(struct kh_exchange *x)
{
	x->settled = true;
	kh_buf_fini(&x->held);
}

/* ---- the turn ---- */

void kh_exchange_flush(struct kh_exchange *x)
{
	if (x->state != KH_EXCHANGE_RELAY)
		return;
	/* What was written may have made room for more. */
	do {
		if (kh_hold_has(x) && !kh_hold_send(x))
			return;
		x->up->ops->flush(x->up);
	} while (kh_hold_has(x) && !x->up->ops->is_full(x->up));
}

void kh_exchange_update(struct kh_exchange *x)
{
	if (x->state == KH_EXCHANGE_RELAY)
		x->up->ops->update(x->up, !x->down->ops->is_full(x->down));
}
