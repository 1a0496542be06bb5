/*
 * audit_summary.c - `keyhole audit show --summary`: how many requests by host, decision and reason
 *
 * The decisions have the words of the metric keyhole_requests_total. Text in a record may come from
 * a sandbox or an upstream: all of it passes kh_esc before it is a key or is printed.
 */
#include "audit_summary.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/slice.h>

#include "audit_facts.h"
#include "record_request.h"
#include "record_text.h"

/* A sandbox chooses the hosts: above it the requests are counted by decision alone. */
enum { ROWS_MOST = 10000, KEY_BYTES = 2 * KH_ESC_MAX_BYTES };

struct row {
	char host[KH_ESC_MAX_BYTES + 1]; /* "": none is recorded */
	uint64_t port;			 /* 0: none */
	const char *decision;
	char reason[64]; /* "": none */
	bool astray;	 /* their records do not continue the chain */
	uint64_t count;
};

struct kh_audit_summary {
	json_t *index; /* "ASTRAY DECISION REASON HOST PORT" → the row's number */
	struct row *rows;
	size_t n_rows, room;
};

struct kh_audit_summary *kh_audit_summary_new(void)
{
	struct kh_audit_summary *summary = calloc(1, sizeof(*summary));

	if (summary && !(summary->index = json_object())) {
		free(summary);
		return NULL;
	}
	return summary;
}

void kh_audit_summary_free(struct kh_audit_summary *summary)
{
	if (!summary)
		return;
	json_decref(summary->index);
	free(summary->rows);
	free(summary);
}

static struct row *make_row(struct kh_audit_summary *s, const char *key)
{
	if (s->n_rows == s->room) {
		size_t room = s->room ? s->room * 2 : 64;
		struct row *rows = realloc(s->rows, room * sizeof(*rows));
		if (!rows)
			return NULL;
		s->rows = rows;
		s->room = room;
	}
	if (json_object_set_new(s->index, key, json_integer((json_int_t)s->n_rows)) != 0)
		return NULL;
	s->rows[s->n_rows] = (struct row){ .count = 0 };
	return &s->rows[s->n_rows++];
}

static void add(struct kh_audit_summary *s, const struct row *what)
{
	static const char others[] = "(others)";
	char key[KEY_BYTES];

	(void)snprintf(key, sizeof(key), "%d %s %s %s %" PRIu64, what->astray, what->decision,
		       what->reason, what->host, what->port);
	json_t *known = json_object_get(s->index, key);
	if (!known && s->n_rows >= ROWS_MOST && strcmp(what->host, others) != 0) {
		struct row rest = { .decision = what->decision,
				    .astray = what->astray,
				    .count = what->count };
		memcpy(rest.host, others, sizeof(others));
		add(s, &rest);
		return;
	}
	struct row *row = known ? &s->rows[json_integer_value(known)] : make_row(s, key);
	if (row && !known)
		*row = *what;
	else if (row && __builtin_add_overflow(row->count, what->count, &row->count))
		row->count = UINT64_MAX;
}

static void put_text(char *out, size_t room, struct kh_slice text)
{
	(void)snprintf(out, room, "%s", kh_esc(text));
}

void kh_audit_summary_add(struct kh_audit_summary *s, const struct kh_journal_exchange *exchange)
{
	struct row row = { .decision = kh_audit_verdict(exchange),
			   .port = kh_record_number(exchange->open, "server.port"),
			   .astray = exchange->astray,
			   .count = 1 };

	if (!kh_record_is_request(exchange))
		return;
	put_text(row.host, sizeof(row.host), kh_record_text(exchange->open, "server.address"));
	put_text(row.reason, sizeof(row.reason), kh_audit_reason(exchange));
	add(s, &row);
}

void kh_audit_summary_add_counted(struct kh_audit_summary *s, const json_t *record, bool astray)
{
	struct kh_slice reasons = kh_record_text(record, "reasons"), name;
	uint64_t left = kh_record_number(record, "count"), n;

	while (kh_audit_next_reason(&reasons, &left, &name, &n)) {
		struct row row = { .decision = "deny", .astray = astray, .count = n };
		put_text(row.reason, sizeof(row.reason), name);
		add(s, &row);
	}
}

static int by_count(const void *left, const void *right)
{
	const struct row *a = left, *b = right;
	int order = strcmp(a->host, b->host);

	if (a->count != b->count)
		return a->count > b->count ? -1 : 1;
	if (order == 0)
		order = a->port < b->port ? -1 : a->port > b->port;
	if (order == 0)
		order = strcmp(a->decision, b->decision);
	if (order == 0)
		order = a->astray - b->astray;
	return order ? order : strcmp(a->reason, b->reason);
}

static void print_json(const struct row *row)
{
	json_t *o = json_object();

	(void)json_object_set_new(o, "count", json_integer((json_int_t)row->count));
	(void)json_object_set_new(o, "decision", json_string(row->decision));
	if (row->reason[0])
		(void)json_object_set_new(o, "reason", json_string(row->reason));
	if (row->host[0])
		(void)json_object_set_new(o, "server.address", json_string(row->host));
	if (row->port > 0)
		(void)json_object_set_new(o, "server.port", json_integer((json_int_t)row->port));
	if (row->astray)
		(void)json_object_set_new(o, "not_in_chain", json_true());
	(void)json_dumpf(o, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
	(void)putchar('\n');
	json_decref(o);
}

static void print_row(const struct row *row, int reason_width)
{
	bool six = strchr(row->host, ':') != NULL;

	printf("%8" PRIu64 "  %-10s  %-*s  %s%s%s", row->count, row->decision, reason_width,
	       row->reason[0] ? row->reason : "-", six ? "[" : "",
	       row->host[0] ? row->host : "(not recorded)", six ? "]" : "");
	if (row->port > 0)
		printf(":%" PRIu64, row->port);
	puts(row->astray ? "  NOT IN THE CHAIN" : "");
}

void kh_audit_summary_print(struct kh_audit_summary *s, bool json)
{
	int width = (int)strlen("REASON");

	if (s->n_rows > 0)
		qsort(s->rows, s->n_rows, sizeof(*s->rows), by_count);
	for (size_t i = 0; i < s->n_rows; i++)
		width = (int)strlen(s->rows[i].reason) > width ? (int)strlen(s->rows[i].reason)
							       : width;
	if (!json && s->n_rows > 0)
		printf("%8s  %-10s  %-*s  HOST\n", "COUNT", "DECISION", width, "REASON");
	for (size_t i = 0; i < s->n_rows; i++) {
		if (json)
			print_json(&s->rows[i]);
		else
			print_row(&s->rows[i], width);
	}
}
