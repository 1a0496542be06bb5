/*
 * observe.c - forwards a request that is only observed, without a credential
 *
 * Under a tenant's `mode: observe` a request that its rules would refuse is forwarded. But nobody
 * has said that a credential may go there. So marking the request and removing its credential are
 * one step, taken here, whatever would have refused it: a rule, a placeholder, authentication of
 * the client's own, or an address. An address is known late: the open record is written, and the
 * connection may have been made for the credential, with its client certificate. Then that
 * connection is not used.
 */
#include "exchange_internal.h"
#include "signing.h"

bool kh_exchange_observe(struct kh_exchange *x, enum kh_err_code reason, const struct kh_rule *by)
{
	if (!kh_decision_observe(x->gen->policy, x->tenant, reason, by, &x->decision))
		return false;
	kh_signing_free(x);
	kh_injection_fini(&x->injection);
	kh_content_fini(x);
	x->replaced_bytes = x->value_bytes = 0;
	x->holds_for_credential = false;
	return true;
}

bool kh_exchange_observe_there(struct kh_exchange *x)
{
	bool had = x->injection.count > 0;

	/* With the head of another try what it signed may have gone. */
	if (!x->observed_before.bare || x->decision.bare || (had && x->heads > 0) ||
	    !kh_exchange_observe(x, x->observed_before.would, x->observed_before.would_rule))
		return false;
	x->marked_there = true;
	x->withheld = had;
	return true;
}

void kh_exchange_mark_there(struct kh_exchange *x)
{
	if (kh_decision_mark_there(&x->observed_there, &x->decision))
		x->marked_there = true;
}
