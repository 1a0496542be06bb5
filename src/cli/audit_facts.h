/* audit_facts.h - what became of an exchange, in one word each */
#ifndef KEYHOLE_CLI_AUDIT_FACTS_H
#define KEYHOLE_CLI_AUDIT_FACTS_H

#include <keyhole/base/slice.h>

#include "journal_exchanges.h"

/* What the rules said, in the words of the metric keyhole_requests_total: "allow", "deny",
 * "would_deny" (it passed because the rules were only observed). */
extern const char *const kh_audit_verdicts[3];
const char *kh_audit_verdict(const struct kh_journal_exchange *exchange);
/* How it ended: "ok", "failed", "denied", "aborted" (its worker died first), "open" (the journal
 * has no end of it). */
extern const char *const kh_audit_outcomes[5];
const char *kh_audit_outcome(const struct kh_journal_exchange *exchange);
/* Why it was refused or failed, or would have been refused; empty: neither. */
struct kh_slice kh_audit_reason(const struct kh_journal_exchange *exchange);
/* With mode: observe: why it would be refused. An address or a limit is known only after the open
 * record. */
struct kh_slice kh_audit_would_deny(const struct kh_journal_exchange *exchange);
/* The next reason of a `denials` record, and how many refusals had it: "no_rule 990, limit 3".
 * `left`, at first the record's count, becomes what is left of it; what the text does not explain
 * comes last, with an empty name. Return: false: there is no more. */
bool kh_audit_next_reason(struct kh_slice *reasons, uint64_t *left, struct kh_slice *name,
			  uint64_t *n);
/* A member of its open record, or else of its end; NULL: neither has it. */
const json_t *kh_audit_member(const struct kh_journal_exchange *exchange, const char *name);

#endif
