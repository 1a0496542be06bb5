/* audit_facts.c - what became of an exchange, in one word each */
#include "audit_facts.h"

#include "record_text.h"

enum { ALLOW, DENY, WOULD_DENY };
const char *const kh_audit_verdicts[3] = { "allow", "deny", "would_deny" };

enum { OK, FAILED, DENIED, ABORTED, OPEN };
const char *const kh_audit_outcomes[5] = { "ok", "failed", "denied", "aborted", "open" };

const json_t *kh_audit_member(const struct kh_journal_exchange *exchange, const char *name)
{
	const json_t *value = json_object_get(exchange->open, name);

	return value ? value : json_object_get(exchange->close, name);
}

struct kh_slice kh_audit_would_deny(const struct kh_journal_exchange *exchange)
{
	struct kh_slice would = kh_record_text(exchange->open, "would_deny");

	return would.len > 0 ? would : kh_record_text(exchange->close, "would_deny");
}

const char *kh_audit_verdict(const struct kh_journal_exchange *exchange)
{
	if (kh_journal_exchange_is_refused(exchange))
		return kh_audit_verdicts[DENY];
	return kh_audit_verdicts[kh_audit_would_deny(exchange).len > 0 ? WOULD_DENY : ALLOW];
}

const char *kh_audit_outcome(const struct kh_journal_exchange *exchange)
{
	if (kh_journal_exchange_is_refused(exchange))
		return kh_audit_outcomes[DENIED];
	if (exchange->end == KH_END_ABORTED)
		return kh_audit_outcomes[ABORTED];
	if (!exchange->close)
		return kh_audit_outcomes[OPEN];
	return kh_audit_outcomes[kh_record_text(exchange->close, "reason").len > 0 ? FAILED : OK];
}

struct kh_slice kh_audit_reason(const struct kh_journal_exchange *exchange)
{
	struct kh_slice would = kh_audit_would_deny(exchange);

	/* What it would be refused for says more than what became of it. */
	if (would.len > 0 && !kh_journal_exchange_is_refused(exchange))
		return would;
	if (exchange->end == KH_END_ABORTED)
		return KH_SLICE("aborted");
	return kh_record_text(exchange->close, "reason");
}

bool kh_audit_next_reason(struct kh_slice *reasons, uint64_t *left, struct kh_slice *name,
			  uint64_t *n)
{
	while (reasons->len > 0) {
		size_t end = kh_slice_find(*reasons, ',', 0);
		struct kh_slice part = kh_slice_trim(kh_slice_sub(*reasons, 0, end));
		size_t blank = kh_slice_find(part, ' ', 0);
		*reasons = kh_slice_sub(*reasons, end + 1, reasons->len);
		if (!kh_slice_to_u64(kh_slice_sub(part, blank + 1, part.len), n) || *n > *left)
			continue;
		*name = kh_slice_sub(part, 0, blank);
		*left -= *n;
		return true;
	}
	*name = KH_SLICE("");
	*n = *left;
	*left = 0;
	return *n > 0;
}
