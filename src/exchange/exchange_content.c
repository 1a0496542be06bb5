/*
 * exchange_content.c - the content of a request on its way through an exchange
 *
 *   down codec ─▶ held (body_buffer.c), signed in chunks (signing.c), or searched, counted and put
 *   upstream
 *
 * What was sent is kept as long as the upstream may still say that it did not process the request.
 */
#include "exchange_internal.h"
#include "signing.h"
#include "placeholder_check.h"
#include "websocket_internal.h"

/* Of what was held, at a time. */
enum { PIECE_BYTES = 16 * 1024 };

bool kh_exchange_takes_body(const struct kh_exchange *x)
{
	if (kh_exchange_stands_still(x))
		return false;
	if (kh_exchange_is_websocket(x))
		return !x->up.stream->ops->is_full(x->up.stream);
	if (kh_exchange_has_request(x))
		return false;
	if (x->message->framing == KH_FRAMING_NONE)
		return true;
	if (x->state == KH_EXCHANGE_BUFFER)
		return true;
	return x->state == KH_EXCHANGE_RELAY && !kh_body_buffer_has(x) &&
	       !x->up.stream->ops->is_full(x->up.stream);
}

/* For another try. An upstream that speaks HTTP/1 never says that it has not looked at it. */
static void hold(struct kh_exchange *x, struct kh_slice piece)
{
	if (!x->settled &&
	    (!x->up.stream->ops->says_unread || !kh_buf_append_slice(&x->held, piece)))
		kh_exchange_settle(x);
}

/* One piece of content, to the upstream. Return: false: the exchange is over. */
static bool forward(struct kh_exchange *x, struct kh_slice piece)
{
	struct kh_err err = KH_ERR_INIT;

	/* What is signed in chunks was asked about before it was. */
	if (!kh_signing_has_chunks(x) && !kh_exchange_is_within_max_body(x, piece, &err)) {
		kh_exchange_fail(x, &err);
		return false;
	}
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

bool kh_exchange_send_held(struct kh_exchange *x)
{
	while (kh_buf_len(&x->content) > 0 && !x->up.stream->ops->is_full(x->up.stream)) {
		struct kh_slice piece = kh_slice_sub(kh_buf_view(&x->content), 0, PIECE_BYTES);
		if (!forward(x, piece))
			return false;
		kh_buf_consume(&x->content, piece.len);
	}
	if (kh_buf_len(&x->content) > 0)
		return true;
	kh_body_buffer_let_go(x);
	if (x->request_state != KH_REQUEST_HELD)
		return true;
	struct kh_err err = KH_ERR_INIT;
	if (kh_exchange_set_request(x, KH_REQUEST_SENT, &err) &&
	    (x->message->framing == KH_FRAMING_NONE || kh_content_end(x, NULL, 0, &err)))
		return true;
	kh_exchange_fail(x, &err);
	return false;
}

/* In BUFFER, or to be signed in chunks. */
static void take(struct kh_exchange *x, struct kh_slice piece)
{
	struct kh_err err = KH_ERR_INIT;

	if (x->state == KH_EXCHANGE_BUFFER) {
		if (!kh_body_buffer_take(x, piece, &err))
			kh_exchange_fail(x, &err);
		return;
	}
	if (!kh_signing_take_content(x, piece, &err))
		kh_exchange_fail(x, &err);
	else
		(void)kh_exchange_send_held(x);
}

void kh_exchange_body(struct kh_exchange *x, struct kh_slice piece)
{
	if (kh_exchange_is_websocket(x))
		(void)kh_websocket_from_down(x, piece);
	else if (x->state == KH_EXCHANGE_BUFFER || kh_signing_has_chunks(x))
		take(x, piece);
	else
		(void)forward(x, piece);
}

/* By what it began under, and by what is in force if that is another generation. */
static bool passes_auth(const struct kh_exchange *x)
{
	return kh_decision_passes_auth(&x->decision) &&
	       (x->ruling.at.gen == x->gen || kh_decision_passes_auth(&x->ruling.decision));
}

/* What may not stand in the head does not come in behind the content. */
static bool may_trail(const struct kh_exchange *x, struct kh_slice name)
{
	if (kh_content_drops_field(x, name))
		return false;
	if (x->injection.count > 0)
		return !kh_carrier_is_field(name) && !kh_injection_sets_field(&x->injection, name);
	return !kh_carrier_is_field(name) || passes_auth(x);
}

/* A rule that looks at a field does so in the head: some servers put both together. */
static bool is_looked_at(const struct kh_exchange *x, struct kh_slice name, uint64_t *steps)
{
	const struct kh_request_view view = { .scheme = x->scheme,
					      .host = &x->authority.host,
					      .port = x->authority.port };

	const struct kh_standing *now = &x->ruling.at;

	return kh_policy_looks_at_field(now->gen->policy, now->tenant, now->narrowing, &view, name,
					steps);
}

static bool refuse_trailer(struct kh_slice name, uint64_t steps, struct kh_err *err)
{
	if (steps > KH_LIMIT_DECISION_STEPS)
		return kh_err_set(err, KH_ERR_REQUEST_TOO_COMPLEX,
				  "there are too many fields after the content for the rules of "
				  "this host");
	return kh_err_set(err, KH_ERR_REQUEST_MALFORMED,
			  "the field %s is after the content, and a rule looks at it: send it in "
			  "the head",
			  kh_esc(name));
}

/* Those of the fields behind the content that go upstream. Return: false with `err`: one of them
 * may not, and so nothing of the request does. */
static bool choose_trailers(const struct kh_exchange *x, const struct kh_field *trailers, size_t n,
			    struct kh_field kept[KH_LIMIT_FIELDS], size_t *n_kept,
			    struct kh_err *err)
{
	uint64_t steps = 0;
	bool good = true;

	*n_kept = 0;
	for (size_t i = 0; i < n && good && *n_kept < KH_LIMIT_FIELDS; i++) {
		if (!may_trail(x, trailers[i].name))
			continue;
		if (is_looked_at(x, trailers[i].name, &steps))
			good = refuse_trailer(trailers[i].name, steps, err);
		else if (!kh_placeholder_trailer_may_go(x, &trailers[i], err))
			good = false;
		else
			kept[(*n_kept)++] = trailers[i];
	}
	kh_work_share_charge_steps(&x->side->acceptor->work, steps);
	return good;
}

void kh_exchange_end_content(struct kh_exchange *x, const struct kh_field *trailers, size_t n)
{
	struct kh_field kept[KH_LIMIT_FIELDS];
	size_t n_kept = 0;
	struct kh_err err = KH_ERR_INIT;

	if (x->state == KH_EXCHANGE_BUFFER) {
		bool good = x->holds_for_credential ? kh_body_buffer_end_for_credential(x, n, &err)
						    : kh_body_buffer_read(x, n, &err);
		if (good)
			kh_exchange_decide(x);
		else
			kh_exchange_fail(x, &err);
		return;
	}
	if (kh_signing_has_chunks(x)) {
		if (!kh_signing_end_content(x, &err))
			kh_exchange_fail(x, &err);
		else
			(void)kh_exchange_send_held(x);
		return;
	}
	if (!choose_trailers(x, trailers, n, kept, &n_kept, &err)) {
		kh_exchange_fail(x, &err);
		return;
	}
	if (n_kept > 0)
		kh_exchange_settle(x); /* they are not held */
	if (!kh_content_end(x, kept, n_kept, &err))
		kh_exchange_fail(x, &err);
}

void kh_exchange_request_end(struct kh_exchange *x, const struct kh_field *trailers, size_t n)
{
	struct kh_err err; /* set where the step can't be made */

	if (kh_exchange_is_websocket(x))
		kh_websocket_down_ended(x);
	/* A CONNECT that asks for a WebSocket is whole with its head. */
	else if (!kh_exchange_has_request(x) && !kh_exchange_set_request(x, KH_REQUEST_DONE, &err))
		kh_exchange_fail(x, &err);
	else if (x->state == KH_EXCHANGE_BUFFER || x->message->framing != KH_FRAMING_NONE)
		kh_exchange_end_content(x, trailers, n);
}

size_t kh_exchange_kept_bytes(const struct kh_exchange *x)
{
	return KH_LIMIT_KEPT_EXCHANGE + x->held.alloc + x->content.alloc + kh_signing_share(x) +
	       kh_websocket_kept_bytes(x->websocket) + kh_content_look_kept_bytes(x->content_look) +
	       kh_up_kept_bytes(&x->up);
}
