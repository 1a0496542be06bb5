/*
 * ask.c - a request that no rule allows waits for a person's answer (`keyhole run --ask`)
 *
 * A person is asked last. Everything that would refuse the request if a rule allowed it is looked
 * at before: a second reading, the client's own authentication, another sandbox's placeholder, an
 * address that the guard refuses, a real credential in it. So an answer opens nothing but what is
 * refused by default. After the answer the request is decided again from the beginning, by the
 * rules then in force.
 *
 * Whether it waits tells the sandbox whether it holds a real credential, as being sent would. So
 * such a request counts against the same bound (recognise.c).
 */

#include <keyhole/net/guard.h>

#include "exchange_internal.h"
#include "placeholder_check.h"

/* Nothing of it has been held, recorded or sent, and it is a request of the kind that is shown. */
static bool is_fresh(const struct kh_exchange *x)
{
	return !x->page && !x->tunnel && !x->message->upgrade && x->heads == 0 &&
	       x->record_state == KH_RECORD_NONE && x->content_bytes == 0 &&
	       !kh_exchange_has_content(x);
}

static bool is_guarded(const struct kh_exchange *x)
{
	const struct kh_config *config = x->gen->config;
	struct kh_sockaddr addr;
	size_t n;

	if (kh_config_pin(config, x->tenant, &x->authority.host) ||
	    !kh_guard_known(&x->authority.host, x->authority.port, &addr))
		return false;
	const struct kh_cidr *allow = kh_config_allowed_addresses(config, x->tenant, &n);
	return kh_guard_refuses(&addr, allow, n) != NULL;
}

enum kh_ask kh_exchange_ask(struct kh_exchange *x)
{
	struct kh_questions *questions = x->side->loop->worker->questions;
	const struct kh_question about = {
		.sandbox = x->side->acceptor->listener_stats->number,
		.method = x->message->method,
		.scheme = x->scheme,
		.authority = &x->authority,
		.path = x->target.raw_path,
		.query = x->target.query,
	};

	if (!questions || x->gen->config->ask_ms == 0 || x->answered.at_ms != 0 || !is_fresh(x) ||
	    is_guarded(x) || !kh_request_could_be_allowed(x) ||
	    !kh_questions_may_allow(questions, &about) || !kh_recognise_may_leave(x, NULL))
		return KH_ASK_NOT;
	switch (kh_questions_ask(questions, &about, x->side->loop->now_ms, &x->question,
				 &x->answer_by_ms, &x->answered)) {
	case KH_QUESTION_ASKED:
		if (kh_exchange_set_state(x, KH_EXCHANGE_ASK, NULL)) {
			x->asked_ms = x->side->loop->now_ms;
			kh_exchange_pause(x);
			return KH_ASK_WAITS;
		}
		kh_exchange_ask_leave(x);
		break;
	case KH_QUESTION_ANSWERED:
		return KH_ASK_ALLOWED;
	case KH_QUESTION_REFUSED:
		break;
	}
	return KH_ASK_NOT;
}

bool kh_exchange_ask_take(struct kh_exchange *x, uint32_t question,
			  const struct kh_answered *answered)
{
	if (x->state != KH_EXCHANGE_ASK || x->question != question)
		return false;
	x->question = 0;
	x->answered = *answered;
	x->waited_ms += x->side->loop->now_ms - x->asked_ms;
	x->progress_ms = x->side->loop->now_ms;
	kh_exchange_go_on(x);
	return true;
}
