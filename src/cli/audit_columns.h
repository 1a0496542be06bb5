/* audit_columns.h - records as columns: a table, CSV, or JSON */
#ifndef KEYHOLE_CLI_AUDIT_COLUMNS_H
#define KEYHOLE_CLI_AUDIT_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>

#include <keyhole/base/buf.h>

#include "journal_exchanges.h"

enum { KH_COLUMNS_MOST = 64 };

/* All zeros: none. */
struct kh_audit_columns {
	int list[KH_COLUMNS_MOST]; /* which ones, in their order */
	size_t n;
};

/* The name of each column that there is, in turn; NULL: no more. */
const char *kh_audit_column_name(size_t i);
/* "time,tenant,host": names of columns, or of the journal's fields. Return: false: an error was
 * printed in the name of `command`. */
bool kh_audit_columns_read(struct kh_audit_columns *out, const char *command, const char *text);
/* What is printed for who names none; a table marks what is not in the chain by itself. */
void kh_audit_columns_usual(struct kh_audit_columns *out, bool csv);

/* Append a line with its end. All text of records passes kh_esc. `counted`: the exchange is a
 * `denials` record. */
void kh_audit_columns_put_heads(const struct kh_audit_columns *columns, bool csv,
				struct kh_buf *row);
void kh_audit_columns_put(const struct kh_audit_columns *columns, bool csv,
			  const struct kh_journal_exchange *exchange, bool counted,
			  struct kh_buf *out);
/* The same as an object, without what the journal does not say. The caller's; NULL: no memory. */
json_t *kh_audit_columns_json(const struct kh_audit_columns *columns,
			      const struct kh_journal_exchange *exchange, bool counted);
/* Appends a cell of CSV (RFC 4180) with a text that was escaped: quoted where it must be, and no
 * formula to a spreadsheet. */
void kh_audit_csv_quote(struct kh_buf *row, struct kh_slice text);

#endif
