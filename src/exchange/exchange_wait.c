/* exchange_wait.c - how long an exchange waits, for what, and what comes of it when that is over */

#include "exchange_internal.h"
#include "websocket_internal.h"

/* The keeper answers sooner: what it starts for a value has an end of its own (timeout), a command
 * and a fetcher one after the other. */
enum { SECRET_MS = 60 * 1000 };

uint64_t kh_exchange_last_ms(const struct kh_exchange *x)
{
	return x->started_ms + x->side->loop->gen->config->timeouts.total;
}

uint64_t kh_exchange_deadline(const struct kh_exchange *x)
{
	const struct kh_timeouts *t = &x->side->loop->gen->config->timeouts;

	if (x->state == KH_EXCHANGE_SECRET)
		return x->progress_ms + SECRET_MS;
	if (x->state != KH_EXCHANGE_RELAY && x->state != KH_EXCHANGE_HOLD)
		return 0;
	if (kh_exchange_is_websocket(x))
		return kh_websocket_deadline(x);
	if (x->tunnel) {
		uint64_t idle = x->progress_ms + t->tunnel_idle, end = x->started_ms + t->tunnel;
		uint64_t life = kh_exchange_lifetime_ends(x);
		end = life < end ? life : end;
		return idle < end ? idle : end;
	}
	bool thinks = x->request_done && !kh_hold_has(x) && !x->response_begun;
	uint64_t rest = x->progress_ms + (thinks ? t->response : t->stall);
	return rest < kh_exchange_last_ms(x) ? rest : kh_exchange_last_ms(x);
}

void kh_exchange_timed_out(struct kh_exchange *x)
{
	struct kh_err err = KH_ERR_INIT;

	if (kh_exchange_is_websocket(x)) {
		kh_websocket_timed_out(x);
		return;
	}
	if (x->state == KH_EXCHANGE_SECRET)
		kh_err_set(&err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			   "the credential was not handed out in time");
	else if (x->tunnel && x->side->loop->now_ms >= kh_exchange_lifetime_ends(x))
		kh_exchange_lifetime_over(x, &err);
	else if (x->tunnel)
		kh_err_set(&err, KH_ERR_RESPONSE_TIMEOUT,
			   "the tunnel was silent, or lasted, for too long");
	else if (x->side->loop->now_ms >= kh_exchange_last_ms(x))
		kh_err_set(&err, KH_ERR_RESPONSE_TIMEOUT, "it lasted longer than timeouts.total");
	else if (x->response_begun)
		kh_err_set(&err, KH_ERR_RESPONSE_TIMEOUT, "the response stalled");
	else if (x->request_done)
		kh_err_set(&err, KH_ERR_RESPONSE_TIMEOUT, "the upstream did not answer in time");
	else
		kh_err_set(&err, KH_ERR_REQUEST_TIMEOUT, "the request's content stalled");
	kh_exchange_fail(x, &err);
}
