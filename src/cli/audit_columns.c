/*
 * audit_columns.c - records as columns: a table, CSV, or JSON
 *
 * Each cell is made as a JSON value first, and then written in one of the three forms. A table has
 * fixed widths, so that it is aligned without reading ahead; a cell that is longer moves its row.
 */
#include "audit_columns.h"

#include <inttypes.h>
#include <string.h>

#include <keyhole/base/escape.h>

#include "audit_facts.h"
#include "cli_internal.h"
#include "record_text.h"

enum { ROW_BYTES = 16 * 1024 };

struct row {
	const struct kh_journal_exchange *exchange;
	bool counted;
};

static json_t *text_of(struct kh_slice text)
{
	return text.len > 0 ? json_stringn_nocheck(text.ptr, text.len) : NULL;
}

static json_t *make_verdict(const struct row *row)
{
	return json_string(row->counted ? "deny" : kh_audit_verdict(row->exchange));
}

static json_t *make_outcome(const struct row *row)
{
	return json_string(row->counted ? "denied" : kh_audit_outcome(row->exchange));
}

static json_t *make_reason(const struct row *row)
{
	return text_of(row->counted ? kh_record_text(row->exchange->open, "reasons")
				    : kh_audit_reason(row->exchange));
}

static json_t *make_would_deny(const struct row *row)
{
	return text_of(kh_audit_would_deny(row->exchange));
}

/* Its place says more than its text, which a keyhole of another version may lack. */
static json_t *make_rule(const struct row *row)
{
	struct kh_slice at = kh_record_text(row->exchange->open, "rule_at");

	return text_of(at.len > 0 ? at : kh_record_text(row->exchange->open, "rule"));
}

static json_t *make_rule_text(const struct row *row)
{
	return text_of(kh_record_text(row->exchange->open, "rule"));
}

static json_t *make_count(const struct row *row)
{
	return json_integer(
		row->counted ? (json_int_t)kh_record_number(row->exchange->open, "count") : 1);
}

static json_t *make_end(const struct row *row)
{
	return row->counted ? NULL : text_of(kh_record_text(row->exchange->close, "time"));
}

static json_t *make_astray(const struct row *row)
{
	return row->exchange->astray ? json_true() : NULL;
}

static json_t *make_url(const struct row *row)
{
	struct kh_buf url;

	kh_buf_init(&url, ROW_BYTES);
	if (!row->counted)
		kh_record_put_url(&url, row->exchange->open);
	json_t *value = text_of(kh_buf_view(&url));
	kh_buf_fini(&url);
	return value;
}

/* `width` is negative for numbers, which are aligned to the right. */
static const struct column {
	const char *name, *field;
	int width;
	json_t *(*make)(const struct row *row); /* NULL: the field's value */
	bool escaped;				/* already */
} known[] = {
	{ "time", "time", 24, NULL, false },
	{ "end", "end", 24, make_end, false },
	{ "event", "event", 7, NULL, false },
	{ "id", "id", 17, NULL, false },
	{ "tenant", "tenant", 12, NULL, false },
	{ "sandbox", "sandbox", 12, NULL, false },
	{ "verdict", "verdict", 10, make_verdict, false },
	{ "outcome", "outcome", 7, make_outcome, false },
	{ "count", "count", -5, make_count, false },
	{ "status", "http.response.status_code", -6, NULL, false },
	{ "method", "http.request.method", 7, NULL, false },
	{ "scheme", "url.scheme", 6, NULL, false },
	{ "host", "server.address", 28, NULL, false },
	{ "port", "server.port", -5, NULL, false },
	{ "path", "url.path", 28, NULL, false },
	{ "query", "url.query.names", 12, NULL, false },
	{ "url", "url", 40, make_url, true },
	{ "model", "gen_ai.request.model", 20, NULL, false },
	{ "rule", "rule", 20, make_rule, false },
	{ "rule_at", "rule_at", 20, NULL, false },
	{ "rule_text", "rule_text", 28, make_rule_text, false },
	{ "denied_by", "denied_by", 9, NULL, false },
	{ "limit", "limit", 20, NULL, false },
	{ "would_deny", "would_deny", 12, make_would_deny, false },
	{ "credential", "credential", 12, NULL, false },
	{ "stripped", "stripped", 12, NULL, false },
	{ "placeholders", "placeholders", 12, NULL, false },
	{ "answer", "answer", 6, NULL, false },
	{ "answer_uid", "answer.uid", -10, NULL, false },
	{ "reason", "reason", 18, make_reason, false },
	{ "detail", "detail", 40, NULL, false },
	{ "sent", "http.request.body.size", -9, NULL, false },
	{ "received", "http.response.body.size", -9, NULL, false },
	{ "ms", "duration_ms", -7, NULL, false },
	{ "first_byte_ms", "first_byte_ms", -13, NULL, false },
	{ "address", "network.peer.address", 15, NULL, false },
	{ "country", "geo.country.iso_code", 7, NULL, false },
	{ "as", "as.number", -6, NULL, false },
	{ "tls", "tls.protocol.version", 3, NULL, false },
	{ "reused", "reused", 6, NULL, false },
	{ "retries", "retries", -7, NULL, false },
	{ "complete", "complete", 8, NULL, false },
	{ "via", "via", 8, NULL, false },
	{ "tunnel", "tunnel", 11, NULL, false },
	{ "pid", "peer.pid", -7, NULL, false },
	{ "uid", "peer.uid", -6, NULL, false },
	{ "client", "client.address", 21, NULL, false },
	{ "not_in_chain", "not_in_chain", 12, make_astray, false },
};
enum { N_COLUMNS = sizeof(known) / sizeof(known[0]) };

const char *kh_audit_column_name(size_t i)
{
	return i < N_COLUMNS ? known[i].name : NULL;
}

static int find(struct kh_slice name)
{
	for (int i = 0; i < N_COLUMNS; i++)
		if (kh_slice_eq(name, kh_slice_str(known[i].name)) ||
		    kh_slice_eq(name, kh_slice_str(known[i].field)))
			return i;
	return -1;
}

static bool refuse(const char *command, struct kh_slice name)
{
	const char *names[N_COLUMNS], *near;
	char typed[64], all[512] = "";

	for (size_t i = 0; i < N_COLUMNS; i++) {
		size_t used = strlen(all);
		names[i] = known[i].name;
		(void)snprintf(all + used, sizeof(all) - used, "%s%s", used ? ", " : "", names[i]);
	}
	(void)snprintf(typed, sizeof(typed), "%.*s", (int)(name.len < 63 ? name.len : 63),
		       name.ptr);
	near = kh_cli_nearest(typed, names, N_COLUMNS);
	kh_cli_complain("%s: --columns: no such column: %s%s%s%s (there is: %s)", command,
			kh_esc(name), near ? "; did you mean " : "", near ? near : "",
			near ? "?" : "", all);
	return false;
}

bool kh_audit_columns_read(struct kh_audit_columns *out, const char *command, const char *text)
{
	struct kh_slice all = kh_slice_str(text);

	out->n = 0;
	for (size_t at = 0, end; at <= all.len; at = end + 1) {
		end = kh_slice_find(all, ',', at);
		struct kh_slice name = kh_slice_trim(kh_slice_sub(all, at, end));
		int column = find(name);
		if (column < 0)
			return refuse(command, name);
		if (out->n == KH_COLUMNS_MOST) {
			kh_cli_complain("%s: --columns: %d columns at most", command,
					KH_COLUMNS_MOST);
			return false;
		}
		out->list[out->n++] = column;
	}
	return true;
}

#define USUAL \
	"time,tenant,sandbox,verdict,outcome,count,status,sent,received,ms,method,host,port," \
	"credential,rule,reason"

void kh_audit_columns_usual(struct kh_audit_columns *out, bool csv)
{
	(void)kh_audit_columns_read(out, "", csv ? USUAL ",not_in_chain" : USUAL);
}

static json_t *make(const struct column *column, const struct row *row)
{
	const json_t *value;

	if (column->make)
		return column->make(row);
	value = kh_audit_member(row->exchange, column->field);
	return value && !json_is_null(value) ? json_incref((json_t *)(uintptr_t)value) : NULL;
}

/* ---- the forms ---- */

/* Appends a value as people read it: escaped, the elements of a list joined by commas. */
static void put_value(struct kh_buf *out, const json_t *value, bool escaped)
{
	if (json_is_string(value)) {
		struct kh_slice text =
			kh_slice_of(json_string_value(value), json_string_length(value));
		if (escaped)
			(void)kh_buf_append_slice(out, text);
		else
			kh_record_put_whole(out, "", text);
	} else if (json_is_integer(value)) {
		(void)kh_buf_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	} else if (json_is_boolean(value)) {
		(void)kh_buf_append_str(out, json_is_true(value) ? "true" : "false");
	}
	for (size_t i = 0; i < json_array_size(value); i++) {
		const json_t *one = json_array_get(value, i);
		if (i > 0)
			(void)kh_buf_append_char(out, ',');
		kh_record_put_whole(out, "",
				    kh_slice_of(json_string_value(one), json_string_length(one)));
	}
}

void kh_audit_csv_quote(struct kh_buf *row, struct kh_slice text)
{
	bool formula = text.len > 0 && strchr("=+-@", text.ptr[0]);
	bool plain =
		kh_slice_find(text, ',', 0) == text.len && kh_slice_find(text, '"', 0) == text.len;

	if (!plain)
		(void)kh_buf_append_char(row, '"');
	if (formula)
		(void)kh_buf_append_char(row, '\'');
	for (size_t i = 0; i < text.len; i++) {
		if (text.ptr[i] == '"')
			(void)kh_buf_append_char(row, '"');
		(void)kh_buf_append_char(row, text.ptr[i]);
	}
	if (!plain)
		(void)kh_buf_append_char(row, '"');
}

static void put_padded(struct kh_buf *row, struct kh_slice cell, int width, bool last)
{
	bool right = width < 0;
	int blanks = (right ? -width : width) - (int)cell.len;

	if (right && blanks > 0)
		(void)kh_buf_printf(row, "%*s", blanks, "");
	(void)kh_buf_append_slice(row, cell);
	if (!right && !last && blanks > 0)
		(void)kh_buf_printf(row, "%*s", blanks, "");
}

static bool has_astray(const struct kh_audit_columns *chosen)
{
	for (size_t i = 0; i < chosen->n; i++)
		if (known[chosen->list[i]].make == make_astray)
			return true;
	return false;
}

/* `row` NULL: the heads. */
static void put_row(const struct kh_audit_columns *chosen, bool csv, const struct row *row,
		    struct kh_buf *out)
{
	struct kh_buf cell;

	kh_buf_init(&cell, ROW_BYTES);
	for (size_t i = 0; i < chosen->n; i++) {
		const struct column *column = &known[chosen->list[i]];
		json_t *value = row ? make(column, row) : json_string(column->name);
		kh_buf_clear(&cell);
		put_value(&cell, value, row && column->escaped);
		json_decref(value);
		if (i > 0)
			(void)kh_buf_append_str(out, csv ? "," : "  ");
		if (csv) {
			kh_audit_csv_quote(out, kh_buf_view(&cell));
			continue;
		}
		if (kh_buf_len(&cell) == 0)
			(void)kh_buf_append_char(&cell, '-');
		put_padded(out, kh_buf_view(&cell), column->width, i + 1 == chosen->n);
	}
	/* Somebody else may have written it: never left out of a table. */
	if (row && row->exchange->astray && !csv && !has_astray(chosen))
		(void)kh_buf_append_str(out, "  NOT IN THE CHAIN");
	(void)kh_buf_append_char(out, '\n');
	kh_buf_fini(&cell);
}

void kh_audit_columns_put_heads(const struct kh_audit_columns *columns, bool csv,
				struct kh_buf *row)
{
	put_row(columns, csv, NULL, row);
}

void kh_audit_columns_put(const struct kh_audit_columns *columns, bool csv,
			  const struct kh_journal_exchange *exchange, bool counted,
			  struct kh_buf *out)
{
	const struct row row = { exchange, counted };

	put_row(columns, csv, &row, out);
}

json_t *kh_audit_columns_json(const struct kh_audit_columns *columns,
			      const struct kh_journal_exchange *exchange, bool counted)
{
	const struct row row = { exchange, counted };
	json_t *object = json_object();

	for (size_t i = 0; object && i < columns->n; i++) {
		const struct column *column = &known[columns->list[i]];
		json_t *value = make(column, &row);
		if (value)
			(void)json_object_set_new(object, column->name, value);
	}
	/* Whatever was asked for: somebody else may have written it. */
	if (object && exchange->astray)
		(void)json_object_set_new(object, "not_in_chain", json_true());
	return object;
}
