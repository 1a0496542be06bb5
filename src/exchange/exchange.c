/*
 * exchange.c - one request and its response
 *
 *   begin ─▶ (BUFFER) ─▶ (ASK) ─▶ (SECRET) ─▶ COMMIT ─▶ CONNECT ─▶ RELAY ─▶ ENDED
 *
 * Nothing is resolved, dialled or sent before the open record is in the journal (COMMIT). A reload
 * before RELAY starts again after `begin`, with another id and another record. It does so when it
 * is the exchange's turn (rechecks.h): until then the exchange is paused. So is one in RELAY, which
 * the new rules may end. How an exchange ends is in exchange_end.c.
 */

#include <keyhole/base/block.h>

#include <keyhole/base/charge.h>
#include "exchange_internal.h"
#include "placeholder_check.h"
#include "websocket_internal.h"
#include "signing.h"
#include <keyhole/loop/values.h>

/* For the connection upstream, which may have to be made. */
static bool take_descriptor(struct kh_exchange *x, struct kh_err *err)
{
	if (x->page || kh_charge_holds(&x->descriptor))
		return true;
	return kh_charge_take(&x->descriptor, x->side->account, KH_RESOURCE_DESCRIPTORS, 1) ||
	       kh_charge_refuse(err, x->side->account, KH_RESOURCE_DESCRIPTORS, 1);
}

static void go_commit(struct kh_exchange *x)
{
	struct kh_exchange_texts texts;
	struct kh_audit_open record;
	struct kh_err err; /* set where it can't go on */

	if (!take_descriptor(x, &err) || !kh_exchange_set_state(x, KH_EXCHANGE_COMMIT, &err)) {
		kh_exchange_fail(x, &err);
		return;
	}
	kh_exchange_describe(x, &record, &texts);
	struct kh_loop *loop = x->side->loop;
	bool may = kh_loop_may_open(loop);
	if (!may || !kh_audit_open(&loop->batch, &record)) {
		if (may)
			kh_ends_release(&loop->ends);
		kh_err_set(&err, KH_ERR_AUDIT_UNAVAILABLE,
			   "the journal does not take records, so nothing is forwarded");
		kh_exchange_fail(x, &err);
		return;
	}
	kh_loop_show(loop, record.tenant, record.sandbox, &loop->batch);
	bool would = x->would_reach.verdict.kind != KH_QUOTA_NONE;
	if (!kh_exchange_set_record(x, would ? KH_RECORD_OPEN_WOULD : KH_RECORD_OPEN, &err)) {
		kh_exchange_fail(x, &err);
		return;
	}
	kh_loop_call(loop, KH_LOOP_RECORDED, &x->recorded);
}

/* A credential that is made for one repository gets to know which. */
static bool find_repository(const struct kh_exchange *x, struct kh_injected *one,
			    struct kh_err *err)
{
	if (!one->credential->by_repository || one->scope)
		return true;
	one->scope = kh_repository_of(x->target.path);
	return one->scope || kh_err_set(err, KH_ERR_CREDENTIAL_BINDING,
					"the credential %s is made for one repository at a time, "
					"and this request names none",
					one->credential->name);
}

/* One after the other; without all of them nothing goes. `err` is for its use, and unset. */
static void get_secrets(struct kh_exchange *x, struct kh_err *err)
{
	for (size_t i = 0; i < x->injection.count; i++) {
		struct kh_injected *one = &x->injection.list[i];
		if (one->secret)
			continue;
		if (!find_repository(x, one, err)) {
			kh_exchange_fail(x, err);
			return;
		}
		const struct kh_credential_ref ref = { one->index, x->tenant,
						       kh_slice_str(one->scope) };
		switch (kh_worker_secret(x->side->loop->worker, x->gen, &ref,
					 x->side->acceptor->listener_stats, &one->secret, err)) {
		case KH_SLOT_FULL:
			continue;
		case KH_SLOT_ASKED:
			if (!kh_exchange_set_state(x, KH_EXCHANGE_SECRET, err))
				break;
			kh_exchange_pause(x);
			return;
		case KH_SLOT_EMPTY:
		case KH_SLOT_MISSING:
			break;
		}
		kh_exchange_fail(x, err);
		return;
	}
	go_commit(x);
}

/* Is it this one's value that it waits for? */
static bool waits_for(const struct kh_exchange *x, uint32_t generation, uint16_t index)
{
	bool found = false;

	for (size_t i = 0; i < x->injection.count; i++)
		found = found ||
			(x->injection.list[i].index == index && !x->injection.list[i].secret);
	return found && x->state == KH_EXCHANGE_SECRET && x->gen->number == generation;
}

static void secret_came(struct kh_exchange *x)
{
	struct kh_down_stream *down = x->down;

	struct kh_err err = KH_ERR_INIT;

	kh_exchange_go_on(x);
	get_secrets(x, &err);
	down->ops->turn(down);
}

void kh_exchange_decide(struct kh_exchange *x)
{
	struct kh_err err = KH_ERR_INIT;

	bool allowed = kh_request_decide(x, &err);
	if (!allowed) {
		enum kh_ask asked = kh_exchange_ask(x);
		if (asked == KH_ASK_WAITS)
			return;
		if (asked == KH_ASK_ALLOWED) {
			err = (struct kh_err)KH_ERR_INIT;
			allowed = kh_request_decide(x, &err);
		}
	}
	if (allowed) {
		if (kh_recognise_may_leave(x, &err))
			get_secrets(x, &err);
		else
			kh_exchange_fail(x, &err);
		return;
	}
	bool waits = x->holds_for_credential
			     ? kh_body_buffer_begin_for_credential(x, &err)
			     : x->decision.asks_model && kh_body_buffer_begin(x, &err);
	if (!waits)
		kh_exchange_fail(x, &err);
	else if (kh_exchange_has_request(x)) /* decided anew: it has no content that could come */
		kh_exchange_end_content(x, NULL, 0);
}

/* Under the rules in force. */
static void stand(struct kh_exchange *x)
{
	const struct kh_standing now = kh_acceptor_standing(x->side->acceptor);
	struct kh_generation *before = x->gen;

	x->gen = kh_generation_ref(now.gen);
	x->tenant = now.tenant;
	x->listener = now.listener;
	x->narrowing = now.narrowing;
	x->denied_there = (struct kh_decision){ .reason = KH_ERR_NONE };
	x->steps_there = 0;
	x->observed_there = x->observed_before = x->denied_there;
	x->marked_there = x->withheld = false;
	x->answered = (struct kh_answered){ .reply = KH_REPLY_NO };
	kh_generation_unref(before);
}

/* Until the open record, and the connection, both of which were for what the old rules said. */
static void step_back(struct kh_exchange *x)
{
	kh_list_remove(&x->recorded.link);
	if (x->up.stream)
		x->up.stream->ops->release(x->up.stream, false);
	x->up.stream = NULL;
}

static void decide_tunnel_anew(struct kh_exchange *x, struct kh_err *err)
{
	if (!kh_request_decide_tunnel(x, err) || !kh_recognise_may_leave(x, err) ||
	    !kh_exchange_take_limits(x, err))
		kh_exchange_fail(x, err);
	else
		go_commit(x);
}

/* Nothing of it has gone up: what the rules in force say of it is all that counts. */
static void decide_anew(struct kh_exchange *x)
{
	struct kh_err err = KH_ERR_INIT;

	if (!kh_exchange_record_anew(x, &err)) {
		kh_exchange_fail(x, &err);
		return;
	}
	stand(x);
	kh_exchange_count_anew(x);
	kh_injection_fini(&x->injection);
	x->stripped[0] = '\0';
	if (x->tunnel)
		decide_tunnel_anew(x, &err);
	else
		kh_exchange_decide(x);
}

static bool is_outlived(const struct kh_exchange *x)
{
	return kh_acceptor_standing(x->side->acceptor).gen->number - x->gen->number >
	       KH_LIMIT_RELOADS_OUTLIVED;
}

/* What has gone up goes on if the rules in force allow it, but not for ever. */
static void keep_or_end(struct kh_exchange *x)
{
	const char *why = "the rules changed while it ran, and no longer allow it";
	enum kh_err_code code = KH_ERR_NO_RULE;
	struct kh_err err = KH_ERR_INIT;

	if (kh_request_is_allowed(x)) {
		if (!is_outlived(x))
			return;
		code = KH_ERR_TUNNEL_LIFETIME;
		why = "too many reloads since it began (begin it again)";
	}
	if (kh_exchange_is_websocket(x)) {
		(void)kh_websocket_leave(x, code, why);
	} else {
		kh_err_set(&err, code, "%s", why);
		kh_exchange_fail(x, &err);
	}
}

/* It is its turn, under the rules in force by now. */
static void recheck(struct kh_recheck *waited)
{
	struct kh_exchange *x = kh_container_of(waited, struct kh_exchange, recheck);
	struct kh_down_stream *down = x->down;

	x->progress_ms = x->side->loop->now_ms;
	if (x->heads == 0)
		decide_anew(x);
	else
		keep_or_end(x);
	down->ops->turn(down);
}

/* Other rules are in force. It stands still from here on, until it is its turn. */
static void stop(struct kh_exchange *x)
{
	struct kh_down_stream *down = x->down;
	struct kh_err err = KH_ERR_INIT;

	if (x->page)
		return; /* no rule speaks of it */
	if (x->state == KH_EXCHANGE_ASK) {
		kh_exchange_refuse_asked(x, "the rules changed while a person was asked");
		down->ops->turn(down);
		return;
	}
	if (x->heads > 0 && x->state == KH_EXCHANGE_CONNECT) {
		kh_err_set(&err, KH_ERR_UP_CLOSED,
			   "the upstream closed the connection without an answer, and the rules "
			   "changed before another one was there");
		kh_exchange_fail(x, &err);
	} else {
		if (x->heads == 0)
			step_back(x);
		kh_recheck_later(x->side->acceptor, &x->recheck);
		kh_exchange_update(x);
	}
	down->ops->turn(down);
}

/* What would go on for ever is ended, what comes to an end by itself is not. */
static void drain(struct kh_exchange *x)
{
	struct kh_down_stream *down = x->down;

	if (x->state == KH_EXCHANGE_ASK)
		kh_exchange_refuse_asked(x, "the proxy ends, so nobody is asked");
	else if (kh_exchange_is_websocket(x))
		(void)kh_websocket_leave(x, KH_ERR_DRAINING, "the daemon ends");
	else
		return;
	down->ops->turn(down);
}

static bool is_superseded(const struct kh_exchange *x, struct kh_err *err)
{
	if (x->side->loop->superseded)
		kh_err_set(err, KH_ERR_DRAINING,
			   "another process has taken over, and its rules apply now (ask again)");
	return x->side->loop->superseded;
}

/* What runs by rules that are no longer in force. */
static void supersede(struct kh_exchange *x)
{
	struct kh_down_stream *down = x->down;
	struct kh_err err = KH_ERR_INIT;

	if (!is_superseded(x, &err) || x->page)
		return;
	if (x->state == KH_EXCHANGE_ASK) {
		kh_exchange_refuse_asked(x, err.text);
	} else if (kh_exchange_is_websocket(x)) {
		(void)kh_websocket_leave(x, err.code, err.text);
	} else {
		kh_exchange_fail(x, &err);
	}
	down->ops->turn(down);
}

/* ---- what the loop says ---- */

static void on_recorded(struct kh_loop_call *call)
{
	struct kh_exchange *x = kh_container_of(call, struct kh_exchange, recorded);
	bool written = !x->side->loop->journal_failed;
	struct kh_down_stream *down = x->down;

	if (written && x->page) {
		kh_page_answer(x);
	} else if (written) {
		kh_exchange_pause(x);
		kh_exchange_connect(x, false);
	} else {
		struct kh_err err = KH_ERR_INIT;
		kh_err_set(&err, KH_ERR_AUDIT_UNAVAILABLE,
			   "the journal can't be written, so nothing is forwarded");
		kh_exchange_fail(x, &err);
	}
	down->ops->turn(down);
}

static struct kh_exchange *exchange_of(struct kh_loop_member *member)
{
	return kh_container_of(member, struct kh_exchange, member);
}

static void on_reload(struct kh_loop_member *member)
{
	stop(exchange_of(member));
}

static void on_drain(struct kh_loop_member *member)
{
	drain(exchange_of(member));
}

static void on_supersede(struct kh_loop_member *member)
{
	supersede(exchange_of(member));
}

static void on_value(struct kh_loop_member *member, uint32_t generation, uint16_t index)
{
	struct kh_exchange *x = exchange_of(member);

	if (kh_exchange_stands_still(x))
		return; /* it is decided again, and asks again */
	if (waits_for(x, generation, index))
		secret_came(x);
	else
		kh_up_value_came(&x->up, generation, index);
}

static void on_answer(struct kh_loop_member *member, uint32_t question,
		      const struct kh_answered *answered)
{
	struct kh_exchange *x = exchange_of(member);
	struct kh_down_stream *down = x->down;

	if (!kh_exchange_ask_take(x, question, answered))
		return;
	if (answered->reply != KH_REPLY_NO)
		kh_exchange_decide(x);
	else
		kh_exchange_refuse_asked(x, answered->at_ms ? "the person who was asked said no"
							    : "nobody is there to answer any more");
	down->ops->turn(down);
}

static const struct kh_loop_member_ops member_ops = {
	.reload = on_reload,
	.drain = on_drain,
	.supersede = on_supersede,
	.value_came = on_value,
	.answer_came = on_answer,
};

/* ---- its beginning ---- */

static struct kh_exchange *new_exchange(struct kh_down_stream *down, struct kh_down_side *side,
					const struct kh_message *message)
{
	struct kh_exchange *x = kh_block_new(sizeof(*x));

	if (!x)
		return NULL;
	down->exchange = x;
	x->down = down;
	x->member.ops = &member_ops;
	x->recorded.fn = on_recorded;
	x->recheck.fn = recheck;
	x->side = side;
	x->message = message;
	stand(x);
	x->started_ms = x->progress_ms = side->loop->now_ms;
	kh_exchange_up_init(x);
	kh_exchange_count_begin(x);
	kh_buf_init(&x->held, KH_LIMIT_HELD_BYTES);
	kh_buf_init(&x->content, 0);
	kh_list_append(&side->loop->exchanges, &x->member.link);
	kh_exchange_id(x->id);
	return x;
}

bool kh_exchange_begin(struct kh_down_stream *down, struct kh_down_side *side,
		       const struct kh_message *message)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_exchange *x = new_exchange(down, side, message);

	if (!x)
		return false;
	bool resolved = kh_request_resolve(x, &err);
	bool passes = kh_recognise_request(x, &err) && resolved && !is_superseded(x, &err);
	if (passes && x->page && !kh_refusals_take_place(x->side->acceptor))
		passes = kh_err_set(&err, KH_ERR_LIMIT,
				    "this sandbox asks keyhole.internal too often: wait a moment");
	if (!passes)
		kh_exchange_fail(x, &err);
	else if (x->page)
		go_commit(x);
	else
		kh_exchange_decide(x);
	return true;
}

bool kh_exchange_begin_tunnel(struct kh_down_stream *down, struct kh_down_side *side,
			      enum kh_tunnel_kind kind, const struct kh_decision *decision)
{
	/* What CONNECT would say, whatever it came by; content in both directions until the end. */
	static const struct kh_message connect = {
		.method = KH_SLICE_INIT("CONNECT"),
		.minor = 1,
		.framing = KH_FRAMING_CLOSE,
	};
	struct kh_err err = KH_ERR_INIT;
	struct kh_exchange *x = new_exchange(down, side, &connect);

	if (!x)
		return false;
	x->tunnel = kind;
	x->scheme = kind == KH_TUNNEL_PASS ? KH_SCHEME_HTTPS : KH_SCHEME_TCP;
	x->authority = side->authority;
	x->decision = *decision;
	const struct kh_standing standing = kh_exchange_standing(x);
	kh_request_settle_geo(x, &standing, decision);
	if (kh_recognise_request(x, &err) && !is_superseded(x, &err) &&
	    kh_recognise_may_leave(x, &err) && kh_exchange_take_limits(x, &err))
		go_commit(x);
	else
		kh_exchange_fail(x, &err);
	return true;
}

/* ---- the turn ---- */

void kh_exchange_flush(struct kh_exchange *x)
{
	if (x->state != KH_EXCHANGE_RELAY || kh_exchange_stands_still(x))
		return;
	/* What was written may have made room for more. */
	do {
		if (kh_body_buffer_has(x) && !kh_exchange_send_held(x))
			return;
		x->up.stream->ops->flush(x->up.stream);
	} while (kh_body_buffer_has(x) && !x->up.stream->ops->is_full(x->up.stream));
}

void kh_exchange_update(struct kh_exchange *x)
{
	if (x->state != KH_EXCHANGE_RELAY)
		return;
	if (kh_exchange_stands_still(x))
		x->up.stream->ops->hold(x->up.stream);
	else
		x->up.stream->ops->update(x->up.stream, !x->down->ops->is_full(x->down));
}
