/*
 * audit_stats.c - `keyhole audit stats`: counts by host, by tenant, and of refusals by rule
 *
 * Each table has up to ROWS_MOST rows, since a sandbox chooses the hosts; what is above that is
 * counted together. Text in a record may come from a sandbox or an upstream: all of it passes
 * kh_esc before it is a key. What does not continue the chain is counted apart.
 */
#include "audit_stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/escape.h>

#include "audit_columns.h"
#include "audit_facts.h"
#include "record_request.h"
#include "record_text.h"

enum { ROWS_MOST = 10000, WIDTH = 12, KEYS = 4, KEY_BYTES = KEYS * (KH_ESC_MAX_BYTES + 2) };
enum { TENANT, HOST, RULE, REASON };
enum { REQUESTS, DENIED, WOULD_DENY, FAILED, SENT, RECEIVED, COUNTS };

static const char *const key_names[KEYS] = { "tenant", "host", "rule", "reason" };
static const char *const count_names[COUNTS] = { "requests", "denied", "would_deny",
						 "failed",   "sent",   "received" };

struct row {
	char keys[KEYS][KH_ESC_MAX_BYTES + 1]; /* "": none is recorded */
	bool astray;
	uint64_t counts[COUNTS];
};

enum { HOSTS, DENIALS, TENANTS, TOTAL, TABLES };
static const struct {
	const char *name, *title;
	bool keys[KEYS], counts[COUNTS]; /* which ones it has */
} forms[TABLES] = {
	[HOSTS] = { "hosts",
		    "Hosts with the most requests",
		    { [HOST] = true },
		    { true, true, true, true, true, true } },
	[DENIALS] = { "denials",
		      "Refusals by tenant and rule",
		      { [TENANT] = true, [RULE] = true, [REASON] = true },
		      { [DENIED] = true } },
	[TENANTS] = { "tenants",
		      "Requests and bytes by tenant",
		      { [TENANT] = true },
		      { true, true, true, true, true, true } },
	[TOTAL] = { "total", "All requests", { false }, { true, true, true, true, true, true } },
};

struct table {
	json_t *index; /* the keys, each on a line → the row's number */
	struct row *rows;
	size_t n, room;
};

struct kh_audit_stats {
	struct table tables[TABLES];
};

struct kh_audit_stats *kh_audit_stats_new(void)
{
	struct kh_audit_stats *stats = calloc(1, sizeof(*stats));

	for (size_t i = 0; stats && i < TABLES; i++) {
		if ((stats->tables[i].index = json_object()))
			continue;
		kh_audit_stats_free(stats);
		return NULL;
	}
	return stats;
}

void kh_audit_stats_free(struct kh_audit_stats *stats)
{
	if (!stats)
		return;
	for (size_t i = 0; i < TABLES; i++) {
		json_decref(stats->tables[i].index);
		free(stats->tables[i].rows);
	}
	free(stats);
}

/* ---- counting ---- */

static struct row *make_row(struct table *t, const char *key)
{
	if (t->n == t->room) {
		size_t room = t->room ? t->room * 2 : 64;
		struct row *rows = realloc(t->rows, room * sizeof(*rows));
		if (!rows)
			return NULL;
		t->rows = rows;
		t->room = room;
	}
	if (json_object_set_new(t->index, key, json_integer((json_int_t)t->n)) != 0)
		return NULL;
	return memset(&t->rows[t->n++], 0, sizeof(*t->rows));
}

static void put_key(struct row *row, int key, struct kh_slice text)
{
	(void)snprintf(row->keys[key], sizeof(row->keys[key]), "%s", kh_esc(text));
}

/* What its table does not tell apart is left out of the row's key. */
static void add_to(struct kh_audit_stats *stats, int table, const struct row *what)
{
	struct table *t = &stats->tables[table];
	char key[KEY_BYTES];
	size_t used = 0;

	for (int i = 0; i < KEYS; i++)
		used += (size_t)snprintf(key + used, sizeof(key) - used, "%s\n",
					 forms[table].keys[i] ? what->keys[i] : "");
	(void)snprintf(key + used, sizeof(key) - used, "%d", what->astray);
	json_t *known = json_object_get(t->index, key);
	bool full = !known && t->n >= ROWS_MOST;
	if (full)
		known = json_object_get(t->index, what->astray ? "others 1" : "others 0");
	struct row *row = known	 ? &t->rows[json_integer_value(known)]
			  : full ? make_row(t, what->astray ? "others 1" : "others 0")
				 : make_row(t, key);
	if (!row)
		return;
	for (int i = 0; i < KEYS; i++)
		if (full && forms[table].keys[i])
			put_key(row, i, KH_SLICE("(others)"));
		else if (forms[table].keys[i])
			memcpy(row->keys[i], what->keys[i], sizeof(row->keys[i]));
	row->astray = what->astray;
	for (int i = 0; i < COUNTS; i++)
		if (__builtin_add_overflow(row->counts[i], what->counts[i], &row->counts[i]))
			row->counts[i] = UINT64_MAX;
}

static void add(struct kh_audit_stats *stats, const struct row *row)
{
	add_to(stats, TOTAL, row);
	add_to(stats, TENANTS, row);
	if (row->counts[DENIED] > 0)
		add_to(stats, DENIALS, row);
}

void kh_audit_stats_add(struct kh_audit_stats *stats, const struct kh_journal_exchange *exchange)
{
	const json_t *open = exchange->open, *close = exchange->close;
	struct kh_slice at = kh_record_text(open, "rule_at");
	const char *verdict = kh_audit_verdict(exchange), *outcome = kh_audit_outcome(exchange);
	struct row row = { .astray = exchange->astray, .counts = { [REQUESTS] = 1 } };

	if (!kh_record_is_request(exchange))
		return;
	put_key(&row, TENANT, kh_record_text(open, "tenant"));
	put_key(&row, HOST, kh_record_text(open, "server.address"));
	put_key(&row, RULE, at.len > 0 ? at : kh_record_text(open, "rule"));
	put_key(&row, REASON, kh_audit_reason(exchange));
	row.counts[DENIED] = strcmp(verdict, "deny") == 0;
	row.counts[WOULD_DENY] = strcmp(verdict, "would_deny") == 0;
	row.counts[FAILED] = strcmp(outcome, "failed") == 0 || strcmp(outcome, "aborted") == 0;
	row.counts[SENT] = kh_record_number(close, "http.request.body.size");
	row.counts[RECEIVED] = kh_record_number(close, "http.response.body.size");
	add(stats, &row);
	add_to(stats, HOSTS, &row);
}

void kh_audit_stats_add_counted(struct kh_audit_stats *stats, const json_t *record, bool astray)
{
	struct kh_slice rest = kh_record_text(record, "reasons"), name;
	uint64_t left = kh_record_number(record, "count"), n;
	struct row row = { .astray = astray };

	put_key(&row, TENANT, kh_record_text(record, "tenant"));
	while (kh_audit_next_reason(&rest, &left, &name, &n)) {
		put_key(&row, REASON, name);
		row.counts[REQUESTS] = row.counts[DENIED] = n;
		add(stats, &row);
	}
}

/* ---- printing ---- */

static int by_count(const void *left, const void *right)
{
	const struct row *a = left, *b = right;

	for (int i = 0; i < COUNTS; i++)
		if (a->counts[i] != b->counts[i])
			return a->counts[i] > b->counts[i] ? -1 : 1;
	for (int i = 0; i < KEYS; i++)
		if (strcmp(a->keys[i], b->keys[i]) != 0)
			return strcmp(a->keys[i], b->keys[i]);
	return a->astray - b->astray;
}

static void print_json(int table, const struct row *row)
{
	json_t *o = json_object();

	(void)json_object_set_new(o, "table", json_string(forms[table].name));
	for (int i = 0; i < KEYS; i++)
		if (forms[table].keys[i] && row->keys[i][0])
			(void)json_object_set_new(o, key_names[i], json_string(row->keys[i]));
	for (int i = 0; i < COUNTS; i++)
		if (forms[table].counts[i])
			(void)json_object_set_new(o, count_names[i],
						  json_integer((json_int_t)row->counts[i]));
	if (row->astray)
		(void)json_object_set_new(o, "not_in_chain", json_true());
	(void)json_dumpf(o, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
	(void)putchar('\n');
	json_decref(o);
}

static void print_csv(int table, const struct row *row)
{
	struct kh_buf line;

	kh_buf_init(&line, 2 * KEY_BYTES + 1024);
	(void)kh_buf_append_str(&line, forms[table].name);
	for (int i = 0; i < KEYS; i++) {
		(void)kh_buf_append_char(&line, ',');
		kh_audit_csv_quote(&line, kh_slice_str(row->keys[i]));
	}
	for (int i = 0; i < COUNTS; i++) {
		(void)kh_buf_append_char(&line, ',');
		if (forms[table].counts[i])
			(void)kh_buf_printf(&line, "%" PRIu64, row->counts[i]);
	}
	(void)kh_buf_append_str(&line, row->astray ? ",true\n" : ",\n");
	(void)fwrite(line.data + line.head, 1, kh_buf_len(&line), stdout);
	kh_buf_fini(&line);
}

static const char *key_text(const struct row *row, int key)
{
	return row->keys[key][0] ? row->keys[key] : "-";
}

static int last_key(int table)
{
	int last = -1;

	for (int i = 0; i < KEYS; i++)
		if (forms[table].keys[i])
			last = i;
	return last;
}

/* `row` NULL: their names. */
static void print_keys(int table, const struct row *row, const int widths[KEYS])
{
	for (int i = 0; i < KEYS; i++) {
		bool ends = i == last_key(table) && !(row && row->astray);
		if (forms[table].keys[i])
			printf("  %-*s", ends ? 0 : widths[i],
			       row ? key_text(row, i) : key_names[i]);
	}
}

static void print_text_row(int table, const struct row *row, const int widths[KEYS])
{
	for (int i = 0; i < COUNTS; i++)
		if (forms[table].counts[i])
			printf("%*" PRIu64, WIDTH, row->counts[i]);
	print_keys(table, row, widths);
	puts(row->astray ? "  NOT IN THE CHAIN" : "");
}

static void print_text(int table, const struct table *t, size_t n)
{
	int widths[KEYS] = { 0 };

	for (int i = 0; i < KEYS; i++) {
		widths[i] = (int)strlen(key_names[i]);
		for (size_t r = 0; r < n; r++)
			if ((int)strlen(key_text(&t->rows[r], i)) > widths[i])
				widths[i] = (int)strlen(key_text(&t->rows[r], i));
	}
	printf("%s\n", forms[table].title);
	for (int i = 0; i < COUNTS; i++)
		if (forms[table].counts[i])
			printf("%*s", WIDTH, count_names[i]);
	print_keys(table, NULL, widths);
	(void)putchar('\n');
	for (size_t r = 0; r < n; r++)
		print_text_row(table, &t->rows[r], widths);
	if (n < t->n)
		printf("(%zu more: --top shows them)\n", t->n - n);
	(void)putchar('\n');
}

static void print_heads(void)
{
	printf("table");
	for (int i = 0; i < KEYS; i++)
		printf(",%s", key_names[i]);
	for (int i = 0; i < COUNTS; i++)
		printf(",%s", count_names[i]);
	puts(",not_in_chain");
}

void kh_audit_stats_print(struct kh_audit_stats *stats, enum kh_audit_form form, size_t top)
{
	static const int order[TABLES] = { TOTAL, TENANTS, HOSTS, DENIALS };

	if (form == KH_AUDIT_CSV)
		print_heads();
	for (size_t i = 0; i < TABLES; i++) {
		struct table *t = &stats->tables[order[i]];
		size_t n = t->n < top ? t->n : top;
		if (t->n > 0)
			qsort(t->rows, t->n, sizeof(*t->rows), by_count);
		if (form == KH_AUDIT_TEXT && t->n > 0)
			print_text(order[i], t, n);
		for (size_t r = 0; form != KH_AUDIT_TEXT && r < n; r++) {
			if (form == KH_AUDIT_JSON)
				print_json(order[i], &t->rows[r]);
			else
				print_csv(order[i], &t->rows[r]);
		}
	}
}
