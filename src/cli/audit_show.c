/*
 * audit_show.c - `keyhole audit show`: the journal for people, one line per exchange
 *
 * Columns of a fixed width come first and the long ones last, so that lines are aligned without
 * reading ahead. Text in a record may come from a sandbox or an upstream, so all of it passes
 * kh_esc.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <keyhole/audit/audit.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/err.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>

#include "audit_columns.h"
#include "audit_last.h"
#include "audit_select.h"
#include "audit_show.h"
#include "audit_stats.h"
#include "audit_summary.h"
#include "cli_internal.h"
#include "journal_exchanges.h"
#include "record_text.h"
#include "refusal_text.h"

enum { ROW_BYTES = 64 * 1024 };

struct kh_audit_show {
	const struct kh_audit_show_options *options;
	bool colour;
	uint64_t continues;
	struct kh_buf row;
};

static bool is_event(const json_t *record, const char *event)
{
	return kh_slice_eq(kh_record_text(record, "event"), kh_slice_str(event));
}

static void put(struct kh_audit_show *s, const char *text)
{
	(void)kh_buf_append_str(&s->row, text);
}

static void put_escaped(struct kh_audit_show *s, const char *before, struct kh_slice text)
{
	kh_record_put(&s->row, before, text);
}

static void put_whole(struct kh_audit_show *s, const char *before, struct kh_slice text)
{
	kh_record_put_whole(&s->row, before, text);
}

static void paint(struct kh_audit_show *s, const char *colour)
{
	if (s->colour)
		put(s, colour);
}

#define RED "\x1b[31m"
#define GREEN "\x1b[32m"
#define YELLOW "\x1b[33m"
#define DIM "\x1b[2m"
#define PLAIN "\x1b[0m"

static void put_time(struct kh_audit_show *s, const json_t *record)
{
	paint(s, DIM);
	kh_record_put_time(&s->row, record);
	paint(s, PLAIN);
}

static void put_bytes(struct kh_audit_show *s, uint64_t bytes)
{
	static const char units[] = "KMGTPE";
	double value = (double)bytes;
	int unit = -1;

	while (value >= 999.5 && unit < 5) {
		value /= 1024;
		unit++;
	}
	if (unit < 0)
		(void)kh_buf_printf(&s->row, " %5" PRIu64, bytes);
	else
		(void)kh_buf_printf(&s->row, value < 9.95 ? " %4.1f%c" : " %4.0f%c", value,
				    units[unit]);
}

static void put_status(struct kh_audit_show *s, uint64_t status, bool refused)
{
	paint(s, status == 0 || status >= 500 ? RED : status >= 400 || refused ? YELLOW : GREEN);
	if (status > 0)
		(void)kh_buf_printf(&s->row, "  %3" PRIu64, status);
	else
		put(s, "    -");
	paint(s, PLAIN);
}

static void put_sandbox(struct kh_audit_show *s, const json_t *record)
{
	put_escaped(s, "  sandbox ", kh_record_text(record, "sandbox"));
	put_escaped(s, " of ", kh_record_text(record, "tenant"));
}

/* Somebody else may have written it, or changed it. */
static void put_astray(struct kh_audit_show *s, bool astray)
{
	if (!astray)
		return;
	paint(s, RED);
	put(s, "  NOT IN THE CHAIN");
	paint(s, PLAIN);
}

/* A row, with its end. */
static void emit(struct kh_audit_show *s, struct kh_slice row)
{
	if (!s->options->last || !kh_audit_last_add(s->options->last, row))
		(void)fwrite(row.ptr, 1, row.len, stdout);
}

static void print_row(struct kh_audit_show *s)
{
	put(s, "\n");
	emit(s, kh_buf_view(&s->row));
}

static void print_object(struct kh_audit_show *s, json_t *object)
{
	kh_auto_free char *text = json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII);
	kh_auto_free char *line = text ? kh_strf("%s\n", text) : NULL;

	if (line)
		emit(s, kh_slice_str(line));
	json_decref(object);
}

/* What is said of an exchange without an end. */
static const char *end_text(enum kh_journal_end end)
{
	switch (end) {
	case KH_END_CLOSED:
		break;
	case KH_END_ABORTED:
		return "  aborted: the worker ended first";
	case KH_END_NONE:
		return "  (no end yet)";
	case KH_END_OPENED_AGAIN:
		return "  (OPENED AGAIN under the same id)";
	case KH_END_NO_ID:
		return "  (no id in its place: no end is known)";
	}
	return "";
}

/* Of what no rule allows, and no rule alone would: the guard keeps sandboxes from the address.
 * Return: it was said. */
static bool put_guarded(struct kh_audit_show *s, const struct kh_journal_exchange *exchange)
{
	struct kh_slice reason = kh_record_text(exchange->close, "reason");
	kh_auto_free char *host = kh_slice_dup(kh_record_text(exchange->open, "server.address"));
	uint64_t port = kh_record_number(exchange->open, "server.port");
	const char *class_name = NULL;

	if (host && port <= UINT16_MAX &&
	    kh_err_of_reason(reason.ptr, reason.len) == KH_ERR_NO_RULE)
		class_name = kh_refusal_address_class(host, (uint16_t)port, KH_SLICE(""), NULL, 0);
	if (!class_name)
		return false;
	if (strcmp(class_name, "metadata") == 0)
		(void)kh_buf_printf(&s->row, ": %s", kh_refusal_address_text(class_name));
	else
		(void)kh_buf_printf(&s->row,
				    ": no rule allows it, and it is a %s address, to which no "
				    "sandbox is connected (upstream.allow_addresses opens ranges)",
				    class_name);
	return true;
}

static void show_row(struct kh_audit_show *s, const struct kh_journal_exchange *exchange)
{
	const json_t *open = exchange->open, *close = exchange->close;
	bool refused = kh_journal_exchange_is_refused(exchange);
	struct kh_slice reason = kh_record_text(close, "reason");

	put_time(s, open);
	put_status(s, kh_record_number(close, "http.response.status_code"), refused);
	(void)kh_buf_printf(&s->row, "  %-7s", kh_esc(kh_record_text(open, "http.request.method")));
	put_bytes(s, kh_record_number(close, "http.request.body.size"));
	put_bytes(s, kh_record_number(close, "http.response.body.size"));
	(void)kh_buf_printf(&s->row, " %7" PRIu64 "ms", kh_record_number(close, "duration_ms"));
	put_astray(s, exchange->astray);
	put(s, "  ");
	kh_record_put_url(&s->row, open);
	put_sandbox(s, open);
	put_escaped(s, "  in ", kh_record_text(close, "geo.country.iso_code"));
	if (kh_record_number(close, "as.number") > 0)
		(void)kh_buf_printf(&s->row, "  AS%" PRIu64, kh_record_number(close, "as.number"));
	put_escaped(s, "  credential ", kh_record_text(open, "credential"));
	if (!refused)
		put_escaped(s, "  rule ", kh_record_text(open, "rule_at"));
	put_escaped(s, "  answer ", kh_record_text(open, "answer"));
	if (kh_record_text(open, "answer").len > 0)
		(void)kh_buf_printf(&s->row, " by user %" PRIu64,
				    kh_record_number(open, "answer.uid"));
	paint(s, refused ? YELLOW : RED);
	if (refused)
		put_escaped(s, "  DENIED ", reason.len ? reason : KH_SLICE("none"));
	else
		put_escaped(s, "  ", reason);
	if (!refused || !put_guarded(s, exchange))
		put_whole(s, ": ", kh_record_text(close, "detail"));
	/* It passed because the rules were not enforced. */
	if (!refused)
		put_escaped(s, "  OBSERVED ", kh_record_text(open, "would_deny"));
	put(s, end_text(exchange->end));
	paint(s, PLAIN);
	print_row(s);
}

/* One object: what `open` and `close` say together, without their places in the chain. `astray`:
 * they have none; what the record itself says of that does not count. */
static void show_json(struct kh_audit_show *s, const json_t *open, const json_t *close, bool astray)
{
	static const char *const own[] = { "seq", "prev", "hash" };
	json_t *both = json_copy((json_t *)(uintptr_t)open);

	if (close && close != open) {
		(void)json_object_update_missing(both, (json_t *)(uintptr_t)close);
		(void)json_object_set(both, "end", json_object_get(close, "time"));
	}
	if (is_event(open, "open"))
		(void)json_object_set_new(both, "event", json_string("exchange"));
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		(void)json_object_del(both, own[i]);
	(void)json_object_del(both, "not_in_chain");
	if (astray)
		(void)json_object_set_new(both, "not_in_chain", json_true());
	print_object(s, both);
}

static void show_columns(struct kh_audit_show *s, const struct kh_journal_exchange *exchange,
			 bool counted)
{
	const struct kh_audit_show_options *options = s->options;

	if (options->form == KH_AUDIT_JSON) {
		print_object(s, kh_audit_columns_json(options->columns, exchange, counted));
		return;
	}
	kh_audit_columns_put(options->columns, options->form == KH_AUDIT_CSV, exchange, counted,
			     &s->row);
	emit(s, kh_buf_view(&s->row));
}

static void count_exchange(struct kh_audit_show *s, const struct kh_journal_exchange *exchange)
{
	if (s->options->summary)
		kh_audit_summary_add(s->options->summary, exchange);
	if (s->options->stats)
		kh_audit_stats_add(s->options->stats, exchange);
}

static void count_counted(struct kh_audit_show *s, const json_t *record, bool astray)
{
	if (s->options->summary)
		kh_audit_summary_add_counted(s->options->summary, record, astray);
	if (s->options->stats)
		kh_audit_stats_add_counted(s->options->stats, record, astray);
}

static void show_exchange(void *context, const struct kh_journal_exchange *exchange)
{
	struct kh_audit_show *s = context;
	struct kh_audit_select *select = s->options->select;

	if (!kh_audit_select_exchange(select, exchange))
		return;
	if (kh_journal_exchange_is_refused(exchange))
		select->refused++;
	else if (select->denied)
		return;
	if (s->options->summary || s->options->stats) {
		count_exchange(s, exchange);
		return;
	}
	kh_buf_clear(&s->row);
	if (s->options->columns)
		show_columns(s, exchange, false);
	else if (s->options->form == KH_AUDIT_JSON)
		show_json(s, exchange->open, exchange->close, exchange->astray);
	else
		show_row(s, exchange);
}

/* What the writer says of itself. */
static void show_writer(struct kh_audit_show *s, const json_t *record, bool astray)
{
	if (!kh_audit_select_record(s->options->select, record) || s->options->select->denied ||
	    s->options->summary || s->options->stats || s->options->columns)
		return;
	if (s->options->form == KH_AUDIT_JSON) {
		show_json(s, record, NULL, astray);
		return;
	}
	kh_buf_clear(&s->row);
	put_time(s, record);
	put_astray(s, astray);
	paint(s, DIM);
	put_escaped(s, "    -  ", kh_record_text(record, "event"));
	put_escaped(s, "  keyhole ", kh_record_text(record, "version"));
	if (kh_record_number(record, "process.pid") > 0)
		(void)kh_buf_printf(&s->row, "  pid %" PRIu64,
				    kh_record_number(record, "process.pid"));
	if (is_event(record, "recovered"))
		(void)kh_buf_printf(&s->row, "  %" PRIu64 " torn bytes at offset %" PRIu64,
				    kh_record_number(record, "bytes"),
				    kh_record_number(record, "offset"));
	if (kh_record_number(record, "count") > 0)
		(void)kh_buf_printf(&s->row, "  %" PRIu64 " exchange%s",
				    kh_record_number(record, "count"),
				    kh_record_number(record, "count") == 1 ? "" : "s");
	paint(s, PLAIN);
	print_row(s);
}

/* Refusals that were only counted. */
static void show_counted(struct kh_audit_show *s, const json_t *record, bool astray)
{
	if (!kh_audit_select_record(s->options->select, record))
		return;
	if (s->options->summary || s->options->stats) {
		count_counted(s, record, astray);
		return;
	}
	kh_buf_clear(&s->row);
	if (s->options->columns) {
		const struct kh_journal_exchange all = { .open = record,
							 .close = record,
							 .astray = astray };
		show_columns(s, &all, true);
		return;
	}
	if (s->options->form == KH_AUDIT_JSON) {
		show_json(s, record, NULL, astray);
		return;
	}
	put_time(s, record);
	put_astray(s, astray);
	paint(s, YELLOW);
	(void)kh_buf_printf(&s->row, "    -  DENIED %" PRIu64 " more, only counted",
			    kh_record_number(record, "count"));
	put_sandbox(s, record);
	put_escaped(s, "  since ", kh_record_text(record, "since"));
	put_escaped(s, " until ", kh_record_text(record, "until"));
	put_whole(s, ": ", kh_record_text(record, "reasons"));
	paint(s, PLAIN);
	print_row(s);
}

static void show_record(void *context, const json_t *record, bool astray)
{
	struct kh_audit_show *s = context;

	if (s->continues == 0)
		s->continues = kh_record_number(record, "continues");
	if (is_event(record, "denials"))
		show_counted(s, record, astray);
	else
		show_writer(s, record, astray);
}

struct kh_audit_show *kh_audit_show_new(const struct kh_audit_show_options *options)
{
	struct kh_audit_show *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->options = options;
	s->colour = kh_record_wants_colour();
	kh_buf_init(&s->row, ROW_BYTES);
	if (options->columns && options->form != KH_AUDIT_JSON) {
		kh_audit_columns_put_heads(options->columns, options->form == KH_AUDIT_CSV,
					   &s->row);
		(void)fwrite(s->row.data + s->row.head, 1, kh_buf_len(&s->row), stdout);
	}
	return s;
}

void kh_audit_show_free(struct kh_audit_show *s)
{
	if (!s)
		return;
	kh_buf_fini(&s->row);
	free(s);
}

struct kh_journal_reader kh_audit_show_reader(struct kh_audit_show *s)
{
	return (struct kh_journal_reader){ show_exchange, show_record, s };
}

uint64_t kh_audit_show_continues(struct kh_audit_show *s)
{
	uint64_t continues = s->continues;

	s->continues = 0;
	return continues;
}
