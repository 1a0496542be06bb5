/* exchange_wait.c - what an exchange waits for, for how long, and what happens after that */

#include "exchange_internal.h"
#include "websocket_internal.h"

/* The keeper answers sooner: what it starts for a value has an end of its own (timeout), a command
 * and a fetcher one after the other. */
enum { SECRET_MS = 60 * 1000 };

uint64_t kh_exchange_last_ms(const struct kh_exchange *x)
{
	/* The time that a person takes is not the request's. */
	return x->started_ms + x->waited_ms + x->side->loop->gen->config->timeouts.total;
}

static uint64_t min_ms(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* When it ends, however busy it is and whatever it waits for. */
static uint64_t end_ms(const struct kh_exchange *x)
{
	if (!x->tunnel)
		return kh_exchange_last_ms(x);
	return min_ms(x->started_ms + x->side->loop->gen->config->timeouts.tunnel,
		      kh_exchange_lifetime_ends(x));
}

uint64_t kh_exchange_deadline(const struct kh_exchange *x)
{
	const struct kh_timeouts *t = &x->side->loop->gen->config->timeouts;

	if (kh_exchange_stands_still(x)) /* nobody could move it */
		return end_ms(x);
	switch (x->state) {
	case KH_EXCHANGE_ASK:
		return x->answer_by_ms;
	case KH_EXCHANGE_SECRET:
		return min_ms(x->progress_ms + SECRET_MS, end_ms(x));
	case KH_EXCHANGE_CONNECT: /* each step has a time of its own, and there may be many */
		return end_ms(x);
	case KH_EXCHANGE_BUFFER:
	case KH_EXCHANGE_RELAY:
		break;
	case KH_EXCHANGE_BEGUN:
	case KH_EXCHANGE_COMMIT:
	case KH_EXCHANGE_ENDED:
		return 0;
	}
	if (kh_exchange_is_websocket(x))
		return kh_websocket_deadline(x);
	if (x->tunnel)
		return min_ms(x->progress_ms + t->tunnel_idle, end_ms(x));
	bool thinks = kh_exchange_has_request(x) && !kh_body_buffer_has(x) &&
		      !kh_exchange_has_answered(x);
	return min_ms(x->progress_ms + (thinks ? t->response : t->stall), end_ms(x));
}

void kh_exchange_timed_out(struct kh_exchange *x)
{
	struct kh_err err = KH_ERR_INIT;

	if (kh_exchange_is_websocket(x)) {
		kh_websocket_timed_out(x);
		return;
	}
	if (x->state == KH_EXCHANGE_ASK) {
		kh_exchange_refuse_asked(x, "nobody answered in time");
		return;
	}
	if (x->tunnel && x->side->loop->now_ms >= kh_exchange_lifetime_ends(x))
		kh_exchange_lifetime_over(x, &err);
	else if (x->tunnel)
		kh_err_set(&err, KH_ERR_RESPONSE_TIMEOUT,
			   "the tunnel was silent, or lasted, for too long");
	else if (x->side->loop->now_ms >= kh_exchange_last_ms(x))
		kh_err_set(&err, KH_ERR_RESPONSE_TIMEOUT, "it lasted longer than timeouts.total");
	else if (x->state == KH_EXCHANGE_SECRET)
		kh_err_set(&err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			   "the credential was not handed out in time");
	else if (kh_exchange_has_answered(x))
		kh_err_set(&err, KH_ERR_RESPONSE_TIMEOUT, "the response stalled");
	else if (kh_exchange_has_request(x))
		kh_err_set(&err, KH_ERR_RESPONSE_TIMEOUT, "the upstream did not answer in time");
	else
		kh_err_set(&err, KH_ERR_REQUEST_TIMEOUT, "the request's content stalled");
	kh_exchange_fail(x, &err);
}
