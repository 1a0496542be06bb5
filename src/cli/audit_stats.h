/* audit_stats.h - `keyhole audit stats`: counts by host, by tenant, and of refusals by rule */
#ifndef KEYHOLE_CLI_AUDIT_STATS_H
#define KEYHOLE_CLI_AUDIT_STATS_H

#include "audit_show.h"
#include "journal_exchanges.h"

struct kh_audit_stats;

/* Return: NULL without memory. */
struct kh_audit_stats *kh_audit_stats_new(void);
void kh_audit_stats_free(struct kh_audit_stats *stats);
/* keyhole's own pages are not counted, nor what was decided anew: it is there again. */
void kh_audit_stats_add(struct kh_audit_stats *stats, const struct kh_journal_exchange *exchange);
/* A `denials` record: refusals of which the journal has no hosts and rules. */
void kh_audit_stats_add_counted(struct kh_audit_stats *stats, const json_t *record, bool astray);
/* The `top` largest rows of each table. */
void kh_audit_stats_print(struct kh_audit_stats *stats, enum kh_audit_form form, size_t top);

#endif
