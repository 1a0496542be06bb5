/* audit_summary.h - `keyhole audit show --summary`: how many requests by host, decision and reason
 */
#ifndef KEYHOLE_CLI_AUDIT_SUMMARY_H
#define KEYHOLE_CLI_AUDIT_SUMMARY_H

#include "journal_exchanges.h"

struct kh_audit_summary;

/* Return: NULL without memory. */
struct kh_audit_summary *kh_audit_summary_new(void);
void kh_audit_summary_free(struct kh_audit_summary *summary);
/* keyhole's own pages are not counted, nor what was decided anew: it is there again. */
void kh_audit_summary_add(struct kh_audit_summary *summary,
			  const struct kh_journal_exchange *exchange);
/* A `denials` record: refusals of which the journal has no hosts. `astray`: it does not continue
 * the chain. Such records are counted apart. */
void kh_audit_summary_add_counted(struct kh_audit_summary *summary, const json_t *record,
				  bool astray);
/* The largest count first. Text, or one JSON object per line. */
void kh_audit_summary_print(struct kh_audit_summary *summary, bool json);

#endif
