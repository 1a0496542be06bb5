/*
 * audit_show.c - `keyhole audit show`: the journal for people, one line per exchange
 *
 * An `open` record is held until its `close` record and shown with it; at the end the remaining
 * ones are shown as open. Columns of a fixed width come first and the long ones last, so that lines
 * are aligned without reading ahead. The same code as for `audit verify` decides which lines belong
 * to the journal. Text in a record may come from a sandbox or an upstream, so all of it passes
 * kh_esc.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include <keyhole/audit/audit.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/err.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/limits.h>

#include "cli_internal.h"
#include "record_text.h"

enum {
	ROW_BYTES = 16 * 1024,
	ID_BYTES = 18, /* an x, 16 digits and a NUL */
	/* Exchanges that wait for their close at a time; above it the oldest is shown as it is. */
	MOST_WAITING = 65536,
	/* Bytes out of the chain that wait for the `recovered` record that explains them: as many
	 * as one can, and what was read with the last of them. */
	APART_BYTES = KH_LIMIT_TORN_BYTES + 256 * 1024,
};

struct show {
	const struct kh_audit_show_options *options;
	bool colour;
	json_t *waiting; /* id → open record, in the order of the file */
	struct kh_buf row;
	uint64_t foreign; /* lines that are no records */
	/* What does not continue the chain: torn, if a `recovered` record says so. */
	struct kh_buf apart;
	uint64_t torn;		      /* records that were left out */
	uint64_t astray, astray_line; /* that are shown and not of the chain; the first such line */
};

static bool is_event(const json_t *record, const char *event)
{
	return kh_slice_eq(kh_record_text(record, "event"), kh_slice_str(event));
}

static void put(struct show *s, const char *text)
{
	(void)kh_buf_append_str(&s->row, text);
}

static void put_escaped(struct show *s, const char *before, struct kh_slice text)
{
	kh_record_put(&s->row, before, text);
}

static void paint(struct show *s, const char *colour)
{
	if (s->colour)
		put(s, colour);
}

#define RED "\x1b[31m"
#define GREEN "\x1b[32m"
#define YELLOW "\x1b[33m"
#define DIM "\x1b[2m"
#define PLAIN "\x1b[0m"

static void put_time(struct show *s, const json_t *record)
{
	paint(s, DIM);
	kh_record_put_time(&s->row, record);
	paint(s, PLAIN);
}

static void put_bytes(struct show *s, uint64_t bytes)
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

/* A refusal by policy, also one that came after the open record (an address, for instance). */
static bool is_refusal(const json_t *open, const json_t *close)
{
	struct kh_slice reason = kh_record_text(close, "reason");
	uint64_t status = kh_record_number(close, "http.response.status_code");

	return is_event(open, "deny") ||
	       kh_err_is_refusal(kh_err_of_reason(reason.ptr, reason.len), (int)status);
}

static void put_status(struct show *s, uint64_t status, bool refused)
{
	paint(s, status == 0 || status >= 500 ? RED : status >= 400 || refused ? YELLOW : GREEN);
	if (status > 0)
		(void)kh_buf_printf(&s->row, "  %3" PRIu64, status);
	else
		put(s, "    -");
	paint(s, PLAIN);
}

static bool has(const json_t *record, const char *key, const char *wanted)
{
	return !wanted || kh_slice_eq(kh_record_text(record, key), kh_slice_str(wanted));
}

/* What names no tenant and sandbox is of none. */
static bool is_asked_for(const struct show *s, const json_t *record)
{
	return has(record, "tenant", s->options->tenant) &&
	       has(record, "sandbox", s->options->sandbox);
}

static void put_sandbox(struct show *s, const json_t *record)
{
	put_escaped(s, "  sandbox ", kh_record_text(record, "sandbox"));
	put_escaped(s, " of ", kh_record_text(record, "tenant"));
}

static void print_row(struct show *s)
{
	put(s, "\n");
	(void)fwrite(s->row.data + s->row.head, 1, kh_buf_len(&s->row), stdout);
}

/* `close` is `open` itself for a refusal, and NULL for an exchange without an end. */
static void show_row(struct show *s, const json_t *open, const json_t *close, const char *no_end)
{
	bool refused = close && is_refusal(open, close);
	struct kh_slice reason = kh_record_text(close, "reason");

	put_time(s, open);
	put_status(s, kh_record_number(close, "http.response.status_code"), refused);
	(void)kh_buf_printf(&s->row, "  %-7s", kh_esc(kh_record_text(open, "http.request.method")));
	put_bytes(s, kh_record_number(close, "http.request.body.size"));
	put_bytes(s, kh_record_number(close, "http.response.body.size"));
	(void)kh_buf_printf(&s->row, " %7" PRIu64 "ms", kh_record_number(close, "duration_ms"));
	put(s, "  ");
	kh_record_put_url(&s->row, open);
	put_sandbox(s, open);
	put_escaped(s, "  in ", kh_record_text(close, "geo.country.iso_code"));
	if (kh_record_number(close, "as.number") > 0)
		(void)kh_buf_printf(&s->row, "  AS%" PRIu64, kh_record_number(close, "as.number"));
	put_escaped(s, "  credential ", kh_record_text(open, "credential"));
	if (!refused)
		put_escaped(s, "  rule ", kh_record_text(open, "rule_at"));
	paint(s, refused ? YELLOW : RED);
	if (refused)
		put_escaped(s, "  DENIED ", reason.len ? reason : KH_SLICE("none"));
	else
		put_escaped(s, "  ", reason);
	put_escaped(s, ": ", kh_record_text(close, "detail"));
	put(s, no_end);
	paint(s, PLAIN);
	print_row(s);
}

/* One object: what `open` and `close` say together, without their places in the chain. */
static void show_json(const json_t *open, const json_t *close)
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
	(void)json_dumpf(both, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
	(void)putchar('\n');
	json_decref(both);
}

static void show_exchange(struct show *s, const json_t *open, const json_t *close,
			  const char *no_end)
{
	if (!is_asked_for(s, open) || (s->options->denied && !(close && is_refusal(open, close))))
		return;
	kh_buf_clear(&s->row);
	if (s->options->json)
		show_json(open, close);
	else
		show_row(s, open, close, no_end);
}

/* What the writer says of itself. */
static void show_writer(struct show *s, json_t *record)
{
	if (s->options->denied || !is_asked_for(s, record))
		return;
	if (s->options->json) {
		show_json(record, NULL);
		return;
	}
	kh_buf_clear(&s->row);
	put_time(s, record);
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
		(void)kh_buf_printf(&s->row, "  %" PRIu64 " exchanges",
				    kh_record_number(record, "count"));
	paint(s, PLAIN);
	print_row(s);
}

/* Refusals that were only counted. */
static void show_counted(struct show *s, const json_t *record)
{
	if (!is_asked_for(s, record))
		return;
	if (s->options->json) {
		show_json(record, NULL);
		return;
	}
	kh_buf_clear(&s->row);
	put_time(s, record);
	paint(s, YELLOW);
	(void)kh_buf_printf(&s->row, "    -  DENIED %" PRIu64 " more, only counted",
			    kh_record_number(record, "count"));
	put_sandbox(s, record);
	put_escaped(s, "  since ", kh_record_text(record, "since"));
	put_escaped(s, " until ", kh_record_text(record, "until"));
	put_escaped(s, ": ", kh_record_text(record, "reasons"));
	paint(s, PLAIN);
	print_row(s);
}

static void show_waiting(struct show *s, const char *why)
{
	void *first = json_object_iter(s->waiting);

	if (!first)
		return;
	show_exchange(s, json_object_iter_value(first), NULL, why);
	(void)json_object_del(s->waiting, json_object_iter_key(first));
}

/* Takes the record over. Which exchange it is about, the line says as it does to verification. */
static void follow(struct show *s, struct kh_slice line, json_t *record)
{
	char name[ID_BYTES];
	uint64_t number;
	const char *id = kh_line_id(line, &number) ? name : NULL;

	(void)snprintf(name, sizeof(name), "x%016" PRIx64, number);
	json_t *open = id ? json_object_get(s->waiting, id) : NULL;

	if (is_event(record, "open") && id) {
		/* Never silently in the other's place: who can write lines can hide none. */
		if (open) {
			(void)json_object_set_new(open, "opened_again", json_true());
			show_exchange(s, open, NULL, "  (OPENED AGAIN under the same id)");
			(void)json_object_del(s->waiting, id);
		}
		(void)json_object_set(s->waiting, id, record);
		if (json_object_size(s->waiting) > MOST_WAITING)
			show_waiting(s, "  (no end yet)");
	} else if (is_event(record, "close") && open) {
		show_exchange(s, open, record, "");
		(void)json_object_del(s->waiting, id);
	} else if (is_event(record, "aborted") && open) {
		show_exchange(s, open, NULL, "  aborted: the worker ended first");
		(void)json_object_del(s->waiting, id);
	} else if (is_event(record, "open")) {
		show_exchange(s, record, NULL, "  (no id in its place: no end is known)");
	} else if (is_event(record, "deny") || is_event(record, "close")) {
		show_exchange(s, record, record, "");
	} else if (is_event(record, "denials")) {
		show_counted(s, record);
	} else {
		show_writer(s, record);
	}
	json_decref(record);
}

/* Return: NULL for a line that is no record. */
static json_t *record_of(struct kh_slice line)
{
	json_t *record =
		json_loadb(line.ptr, line.len, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);

	if (json_is_object(record) && kh_record_text(record, "event").len > 0)
		return record;
	json_decref(record);
	return NULL;
}

static bool take_apart_line(struct kh_slice *rest, struct kh_slice *line)
{
	size_t newline = kh_slice_find(*rest, '\n', 0);

	if (rest->len == 0)
		return false;
	*line = kh_slice_sub(*rest, 0, newline);
	*rest = kh_slice_sub(*rest, newline + 1, rest->len);
	return true;
}

/* The journal says that they were torn. */
static void drop_apart(struct show *s)
{
	struct kh_slice rest = kh_buf_view(&s->apart), line;

	while (take_apart_line(&rest, &line)) {
		json_t *record = record_of(line);
		s->torn += record != NULL;
		json_decref(record);
	}
	kh_buf_clear(&s->apart);
	s->astray_line = 0;
}

/* They were not torn: nothing of a broken journal is left out. */
static void show_apart(struct show *s)
{
	struct kh_slice rest = kh_buf_view(&s->apart), line;

	while (take_apart_line(&rest, &line)) {
		json_t *record = record_of(line);
		s->astray += record != NULL;
		s->foreign += record == NULL;
		if (record)
			follow(s, line, record);
	}
	kh_buf_clear(&s->apart);
}

static void put_apart(struct show *s, const struct kh_journal_piece *piece)
{
	if (s->astray_line == 0)
		s->astray_line = piece->line;
	if (!kh_buf_append_slice(&s->apart, piece->bytes) ||
	    (piece->ends && !kh_buf_append_char(&s->apart, '\n')))
		show_apart(s);
	if (piece->place == KH_JOURNAL_BROKEN && piece->ends)
		show_apart(s);
}

static void take_piece(void *context, const struct kh_journal_piece *piece)
{
	struct show *s = context;
	json_t *record;

	if (piece->place == KH_JOURNAL_APART || piece->place == KH_JOURNAL_BROKEN) {
		put_apart(s, piece);
		return;
	}
	if (piece->place == KH_JOURNAL_RECOVERED)
		drop_apart(s);
	record = record_of(piece->bytes);
	s->foreign += record == NULL;
	if (record)
		follow(s, piece->bytes, record);
}

static void complain(const struct show *s, const char *name)
{
	if (s->foreign > 0)
		kh_cli_complain("audit: %s: %" PRIu64 " lines are no records (see `keyhole audit "
				"verify`)",
				kh_esc_str(name), s->foreign);
	if (s->astray > 0)
		kh_cli_complain("audit: %s: %" PRIu64 " records from line %" PRIu64 " on are shown "
				"though they do not continue the chain (see `keyhole audit "
				"verify`)",
				kh_esc_str(name), s->astray, s->astray_line);
	if (s->torn > 0)
		kh_cli_complain("audit: %s: %" PRIu64 " records are left out: the journal declares "
				"them torn",
				kh_esc_str(name), s->torn);
}

static int show_stream(int fd, const char *name, const struct kh_audit_show_options *options)
{
	struct show s = { .options = options, .colour = kh_record_wants_colour() };
	struct kh_err err = KH_ERR_INIT;
	bool ok;

	s.waiting = json_object();
	kh_buf_init(&s.row, ROW_BYTES);
	kh_buf_init(&s.apart, APART_BYTES);
	ok = s.waiting ? kh_journal_read(fd, take_piece, &s, &err)
		       : kh_err_set(&err, KH_ERR_NO_MEMORY, "no memory");
	if (s.waiting)
		show_apart(&s);
	if (!ok)
		kh_cli_complain("audit: %s: %s", kh_esc_str(name), err.text);
	while (s.waiting && json_object_size(s.waiting) > 0)
		show_waiting(&s, "  (no end yet)");
	complain(&s, name);
	json_decref(s.waiting);
	kh_buf_fini(&s.row);
	kh_buf_fini(&s.apart);
	return ok ? 0 : 2;
}

int kh_cli_audit_show(const char *name, const struct kh_audit_show_options *options)
{
	kh_auto_close int opened = -1;

	if (strcmp(name, "-") == 0)
		return show_stream(STDIN_FILENO, name, options);
	opened = kh_cli_open_journal(name);
	return opened < 0 ? 2 : show_stream(opened, name, options);
}
