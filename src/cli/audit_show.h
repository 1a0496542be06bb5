/* audit_show.h - records of journals as rows */
#ifndef KEYHOLE_CLI_AUDIT_SHOW_H
#define KEYHOLE_CLI_AUDIT_SHOW_H

#include <stdbool.h>
#include <stdint.h>

struct kh_audit_columns;
struct kh_audit_last;
struct kh_audit_select;
struct kh_audit_stats;
struct kh_audit_summary;
struct kh_journal_reader;

enum kh_audit_form { KH_AUDIT_TEXT = 0, KH_AUDIT_JSON, KH_AUDIT_CSV };

/* The pointers stay the caller's. */
struct kh_audit_show_options {
	enum kh_audit_form form;
	struct kh_audit_select *select;
	const struct kh_audit_columns *columns; /* NULL: one line per exchange, for people, or all
						   of it as JSON */
	struct kh_audit_last *last;		/* keeps the rows; NULL: prints them */
	/* Count here, and print no exchange; both NULL: prints. */
	struct kh_audit_summary *summary;
	struct kh_audit_stats *stats;
};
struct kh_audit_show;

/* `options` outlive it, and may change between two records. Prints the heads of columns. Return:
 * NULL without memory. */
struct kh_audit_show *kh_audit_show_new(const struct kh_audit_show_options *options);
void kh_audit_show_free(struct kh_audit_show *show);
/* Shows what is handed over. */
struct kh_journal_reader kh_audit_show_reader(struct kh_audit_show *show);
/* The segment that the records since the last call continue, by the first of them that names one;
 * 0: none does. */
uint64_t kh_audit_show_continues(struct kh_audit_show *show);

#endif
