/*
 * exchange_up.c - an exchange as the user of an upstream connection
 *
 * The functions of struct kh_up_user_ops: what connection it needs, what its head is, and where the
 * response goes.
 */

#include <stdio.h>

#include "exchange_internal.h"
#include "websocket_internal.h"
#include "signing.h"

static struct kh_exchange *exchange_of(struct kh_up_user *user)
{
	return kh_container_of(user, struct kh_exchange, up);
}

static const struct kh_exchange *exchange_of_const(const struct kh_up_user *user)
{
	return (const void *)((const char *)user - offsetof(struct kh_exchange, up));
}

/* ---- what it asks for ---- */

/* The client certificate. */
static struct kh_secret *identity_of(const struct kh_exchange *x)
{
	for (size_t i = 0; i < x->injection.count; i++) {
		const struct kh_placement *placement = x->injection.list[i].credential->placement;

		if (placement && placement->kind == KH_PLACEMENT_MTLS)
			return x->injection.list[i].secret;
	}
	return NULL;
}

static void wish(const struct kh_up_user *user, struct kh_up_wish *out)
{
	const struct kh_exchange *x = exchange_of_const(user);
	const struct kh_acceptor *acceptor = x->side->acceptor;
	struct kh_up_key *key = &out->key;

	*key = (struct kh_up_key){
		.host = x->authority.host,
		.port = x->authority.port,
		.scheme = x->tunnel ? KH_SCHEME_TCP : x->scheme,
		.generation = x->gen->number,
		.tenant = x->tenant,
		.identity = identity_of(x),
		.session_acceptor = kh_decision_passes_auth(&x->decision) ? acceptor->number : -1,
		.geo = x->geo,
	};
	for (size_t i = 0; i < x->injection.count; i++)
		key->credentials[key->n_credentials++] = x->injection.list[i].index;
	out->acceptor = acceptor->number;
	out->whose = acceptor->listener_stats->number;
	/* Without TLS of ours nothing says what the other side speaks. */
	out->may_be_h2 =
		!x->tunnel && x->scheme == KH_SCHEME_HTTPS && x->gen->config->upstream_http2;
	out->gen = x->gen;
	out->geo_gen = x->ruling.at.gen;
}

static bool may_go_to(struct kh_up_user *user, const struct kh_sockaddr *addr, struct kh_err *err)
{
	return kh_request_may_go_to(exchange_of(user), addr, err);
}

/* ---- its head ---- */

static void describe(const struct kh_up_user *user, struct kh_up_request *out)
{
	const struct kh_exchange *x = exchange_of_const(user);

	*out = (struct kh_up_request){
		.scheme = x->scheme,
		.target = x->target.raw,
		.is_secret = x->injection.count > 0,
		.target_is_secret = kh_request_target_is_secret(x),
		.content_is_secret = x->body != NULL,
		.close_after_content = x->decision.rule->closes_after_content,
		.continued = x->continued,
		.has_more = !kh_exchange_has_request(x) || kh_body_buffer_has(x),
	};
	out->framing = kh_content_framing(x, &out->length);
}

static bool put_target(const struct kh_up_user *user, struct kh_buf *out, struct kh_err *err)
{
	return kh_request_put_target(exchange_of_const(user), out, err);
}

static bool put_authority(const struct kh_up_user *user, struct kh_buf *out)
{
	return kh_request_put_authority(exchange_of_const(user), out);
}

static bool forwards(const struct kh_up_user *user, const struct kh_field *field)
{
	return kh_request_forwards(exchange_of_const(user), field);
}

static bool put_credentials(const struct kh_up_user *user, struct kh_buf *out, struct kh_err *err)
{
	return kh_request_put_credentials(exchange_of_const(user), out, err);
}

static size_t upgrade_fields(const struct kh_up_user *user, bool h2,
			     struct kh_field fields[KH_UP_UPGRADE_FIELDS])
{
	return kh_websocket_request_fields(exchange_of_const(user), h2, fields);
}

/* ---- the connection ---- */

/* Where a rule denied the address that the host's name resolves into, that rule decided. */
static void fail_by_rule(struct kh_exchange *x, const struct kh_err *err)
{
	if (err->code == KH_ERR_DENIED_BY_RULE && x->denied_there.rule)
		x->decision = x->denied_there;
	kh_exchange_fail(x, err);
}

static void leave_connection(struct kh_exchange *x)
{
	if (x->up.stream)
		x->up.stream->ops->release(x->up.stream, false);
	x->up.stream = NULL;
}

static void failed(struct kh_up_user *user, const struct kh_err *err)
{
	struct kh_exchange *x = exchange_of(user);

	leave_connection(x);
	if (kh_err_is_policy(err->code) && kh_exchange_observe_there(x))
		kh_exchange_connect(x, false);
	else
		fail_by_rule(x, err);
}

/* What went on the connection before, once more behind the head. */
static bool repeat_content(struct kh_exchange *x, struct kh_err *err)
{
	if (kh_buf_len(&x->held) > 0 && !kh_content_put(x, kh_buf_view(&x->held), err))
		return false;
	return !kh_exchange_has_request(x) || x->message->framing == KH_FRAMING_NONE ||
	       kh_body_buffer_has(x) || kh_content_end(x, NULL, 0, err);
}

static void ready(struct kh_up_user *user, const struct kh_up_facts *facts)
{
	struct kh_exchange *x = exchange_of(user);
	struct kh_err err = KH_ERR_INIT;

	if (!kh_exchange_set_state(x, KH_EXCHANGE_RELAY, &err)) {
		kh_exchange_fail(x, &err);
		return;
	}
	snprintf(x->peer, sizeof(x->peer), "%s", facts->peer);
	x->place = *facts->place;
	x->tls = facts->tls;
	/* The connection may have been made for another request. */
	bool may_go = kh_request_may_go_to(x, facts->address, &err);
	if (!may_go && (may_go = kh_exchange_observe_there(x)) && x->withheld) {
		leave_connection(x); /* which was made for the credential */
		kh_exchange_connect(x, false);
		return;
	}
	if (may_go)
		kh_exchange_mark_there(x);
	if (!may_go || !kh_signing_make(x, &err) || !kh_content_begin(x, &err) ||
	    !user->stream->ops->put_head(user->stream, &err) ||
	    (x->heads++ > 0 && !repeat_content(x, &err)))
		fail_by_rule(x, &err);
}

/* What was sent under other rules is not sent once more. */
static bool is_decided_by_rules_in_force(const struct kh_exchange *x)
{
	return x->gen == x->side->acceptor->gen;
}

static bool may_retry(const struct kh_up_user *user)
{
	const struct kh_exchange *x = exchange_of_const(user);
	static const char *const safe[] = { "GET", "HEAD", "OPTIONS" };

	if (!is_decided_by_rules_in_force(x) || x->settled || x->up.moves > 0 || x->up_bytes > 0 ||
	    !kh_exchange_has_request(x))
		return false;
	for (size_t i = 0; i < sizeof(safe) / sizeof(*safe); i++)
		if (kh_slice_eq(x->message->method, kh_slice_str(safe[i])))
			return true;
	return false;
}

static bool may_repeat(const struct kh_up_user *user)
{
	const struct kh_exchange *x = exchange_of_const(user);

	return is_decided_by_rules_in_force(x) && !x->settled && x->up.moves < KH_LIMIT_MOVES;
}

static void retry(struct kh_up_user *user)
{
	struct kh_exchange *x = exchange_of(user);

	x->up.moves++;
	leave_connection(x);
	kh_exchange_connect(x, true);
}

/* ---- the answer ---- */

static bool head(struct kh_up_user *user, const struct kh_message *response)
{
	return kh_response_head(exchange_of(user), response);
}

static bool body(struct kh_up_user *user, struct kh_slice piece)
{
	return kh_response_body(exchange_of(user), piece);
}

/* The upstream's side has ended; it is over when both have. */
static void end_tunnel(struct kh_exchange *x)
{
	struct kh_err err; /* set where the step can't be made */

	if (!kh_exchange_set_answer(x, KH_ANSWER_DONE, &err))
		kh_exchange_fail(x, &err);
}

static void end(struct kh_up_user *user, const struct kh_field *trailers, size_t n)
{
	struct kh_exchange *x = exchange_of(user);

	if (x->tunnel)
		end_tunnel(x);
	else
		kh_response_end(x, trailers, n);
}

/* A tunnel that nobody reads. */
static bool connected(struct kh_up_user *user, struct kh_slice said, struct kh_err *err)
{
	static const struct kh_message established = { .status = 200 };
	struct kh_exchange *x = exchange_of(user);

	if (kh_exchange_spend(x, KH_QUOTA_BYTES_DOWN, said.len, err) < said.len)
		return false;
	if (!x->down->ops->put_head(x->down, &established) ||
	    !x->down->ops->put_content(x->down, said))
		return kh_err_set(err, KH_ERR_DOWN_CLOSED, "the sandbox closed the connection");
	x->status = established.status;
	x->first_byte_ms = x->side->loop->now_ms;
	kh_exchange_moved_down(x, said.len);
	return kh_exchange_set_answer(x, KH_ANSWER_BEGUN, err);
}

static void lost(struct kh_up_user *user, const struct kh_err *err)
{
	kh_websocket_up_ended(exchange_of(user), err);
}

static void broken(struct kh_up_user *user, const struct kh_err *err)
{
	kh_exchange_fail(exchange_of(user), err);
}

/* ---- the sandbox's side ---- */

static bool is_full(void *side)
{
	struct kh_down_stream *down = side;

	return (down->exchange && kh_exchange_stands_still(down->exchange)) ||
	       down->ops->is_full(down);
}

static void turn(void *side)
{
	struct kh_down_stream *down = side;

	down->ops->turn(down);
}

static void touch(void *side)
{
	struct kh_down_stream *down = side;

	down->ops->touch(down);
}

static const struct kh_up_user_ops user_ops = {
	.wish = wish,
	.may_go_to = may_go_to,
	.describe = describe,
	.put_target = put_target,
	.put_authority = put_authority,
	.forwards = forwards,
	.put_credentials = put_credentials,
	.upgrade_fields = upgrade_fields,
	.ready = ready,
	.failed = failed,
	.head = head,
	.body = body,
	.end = end,
	.connected = connected,
	.lost = lost,
	.broken = broken,
	.may_retry = may_retry,
	.may_repeat = may_repeat,
	.retry = retry,
	.is_full = is_full,
	.turn = turn,
	.touch = touch,
};

void kh_exchange_connect(struct kh_exchange *x, bool fresh)
{
	struct kh_err err; /* set where the step can't be made */

	if (kh_exchange_set_state(x, KH_EXCHANGE_CONNECT, &err))
		kh_up_acquire(&x->up, fresh);
	else
		kh_exchange_fail(x, &err);
}

void kh_exchange_up_init(struct kh_exchange *x)
{
	x->up = (struct kh_up_user){
		.ops = &user_ops,
		.side = x->down,
		.loop = x->side->loop,
		.account = x->side->account,
		.work = &x->side->acceptor->work,
		.message = x->message,
		.progress_ms = &x->progress_ms,
	};
}
