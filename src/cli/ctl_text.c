/* ctl_text.c - formats a daemon's status as lines and tables
 *
 * The daemon may have another version: members that its answer lacks are skipped. */
#include "ctl_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/config/config.h>
#include <keyhole/base/escape.h>

#include "cli_internal.h"

enum { COLUMNS_MOST = 4, HASH_SHOWN = 12 };

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* One line, whatever stands in it. */
static void say(const char *fmt, ...)
{
	char *line = NULL;
	va_list args;
	va_start(args, fmt);
	int n = vasprintf(&line, fmt, args);
	va_end(args);
	if (n < 0)
		return;
	kh_esc_clean(line);
	(void)puts(line);
	free(line);
}

static const char *text(const json_t *object, const char *name)
{
	const char *value = json_string_value(json_object_get(object, name));
	return value ? value : "";
}

static long long number(const json_t *object, const char *name)
{
	return (long long)json_integer_value(json_object_get(object, name));
}

/* "2026-01-02 03:04:05" of "2026-01-02T03:04:05.678Z". */
static const char *when(const json_t *object, const char *name, char out[32])
{
	(void)snprintf(out, 32, "%.19s", text(object, name));
	if (strlen(out) > 10)
		out[10] = ' ';
	return out;
}

/* --- tables ----------------------------------------------------------------------------------- */

struct table {
	const char *heads[COLUMNS_MOST]; /* fewer: NULL */
	/* A cell of a row; may use `room`. */
	const char *(*cell)(const json_t *row, int column, char room[64]);
};

static void print_rows(const struct table *table, const json_t *rows)
{
	size_t widths[COLUMNS_MOST] = { 0 };
	char room[64];
	for (int c = 0; c < COLUMNS_MOST && table->heads[c]; c++) {
		widths[c] = strlen(table->heads[c]);
		for (size_t i = 0; i < json_array_size(rows); i++) {
			size_t len = strlen(table->cell(json_array_get(rows, i), c, room));
			widths[c] = len > widths[c] ? len : widths[c];
		}
	}
	for (size_t i = 0; i <= json_array_size(rows); i++) {
		char *line = NULL;
		size_t size;
		FILE *out = open_memstream(&line, &size);
		if (!out)
			return;
		for (int c = 0; c < COLUMNS_MOST && table->heads[c]; c++) {
			bool last = c + 1 == COLUMNS_MOST || !table->heads[c + 1];
			const char *cell =
				i == 0 ? table->heads[c]
				       : table->cell(json_array_get(rows, i - 1), c, room);
			fprintf(out, "%s%-*s", c ? "  " : "", last ? 0 : (int)widths[c], cell);
		}
		if (fclose(out) == 0)
			say("%s", line);
		free(line);
	}
}

static const char *sandbox_cell(const json_t *row, int column, char room[64])
{
	static const char *const names[] = { "id", "tenant", NULL, "listener" };
	if (names[column])
		return text(row, names[column]);
	(void)snprintf(room, 64, "%lld", number(row, "connections"));
	return room;
}

static void say_suspects(const json_t *rows)
{
	size_t i, n = 0;
	const json_t *row;
	json_array_foreach(rows, i, row) if (json_is_true(json_object_get(row, "suspect")))
	{
		if (n++ == 0)
			(void)putchar('\n');
		say("SUSPECT      %s of tenant %s: the worker that had it added ended "
		    "unexpectedly; remove it if you do not know it",
		    text(row, "id"), text(row, "tenant"));
	}
}

static const struct table sandboxes = { { "SANDBOX", "TENANT", "CONNECTIONS", "LISTENER" },
					sandbox_cell };

static const char *credential_cell(const json_t *row, int column, char room[64])
{
	(void)room;
	static const char *const names[] = { "name", NULL, "kind", "binding" };
	if (names[column])
		return text(row, names[column]);
	return json_is_true(json_object_get(row, "ready")) ? "ready" : "has no value";
}

static const struct table credentials = { { "CREDENTIAL", "STATE", "KIND", "BINDING" },
					  credential_cell };

static const char *limit_cell(const json_t *row, int column, char room[64])
{
	long long used = number(row, "used"), most = number(row, "most");
	static const char *const names[] = { "of", "name", "limit" };
	if (column < 3)
		return text(row, names[column]);
	(void)snprintf(room, 64, "%lld of %lld (%lld %%)", used, most,
		       most > 0 ? used * 100 / most : 0);
	return room;
}

static const struct table limits = { { "LIMIT OF", "NAME", "LIMIT", "IN USE" }, limit_cell };

static void show_table(const struct table *table, const json_t *rows)
{
	if (json_array_size(rows) == 0)
		return;
	(void)putchar('\n');
	print_rows(table, rows);
}

/* --- status ----------------------------------------------------------------------------------- */

static const char *show_span(long long seconds, char out[64])
{
	if (seconds < 60)
		(void)snprintf(out, 64, "%lld s", seconds);
	else if (seconds < 3600)
		(void)snprintf(out, 64, "%lld min", seconds / 60);
	else if (seconds < 48 * 3600LL)
		(void)snprintf(out, 64, "%lld h %lld min", seconds / 3600, seconds / 60 % 60);
	else
		(void)snprintf(out, 64, "%lld days", seconds / 86400);
	return out;
}

static void show_policy(const json_t *status)
{
	const json_t *policy = json_object_get(status, "policy"),
		     *reloads = json_object_get(status, "reloads"),
		     *failure = json_object_get(reloads, "last_failure");
	char at[32];
	if (policy)
		say("policy       %s, in force since %s UTC (sha256 %.*s)", text(policy, "file"),
		    when(policy, "loaded", at), HASH_SHOWN, text(policy, "sha256"));
	if (json_is_object(failure)) {
		say("last reload  FAILED at %s UTC, nothing changed:", when(failure, "time", at));
		say("             %s", text(failure, "error"));
	}
}

static void show_journal(const json_t *status)
{
	const json_t *journal = json_object_get(status, "journal");
	if (journal)
		say("journal      %s, %lld records%s", text(journal, "file"),
		    number(journal, "records"),
		    json_is_false(json_object_get(journal, "writable")) ? ", CAN'T BE WRITTEN"
									: "");
}

/* Each credential whose last try failed, with the reason. */
static void show_failures(const json_t *states)
{
	size_t i;
	const json_t *state;
	char at[32];
	json_array_foreach(states, i, state)
	{
		if (!text(state, "last_error")[0])
			continue;
		say("credential   %s%s%s FAILED at %s UTC (%s%s%s):", text(state, "name"),
		    text(state, "tenant")[0] ? " of " : "", text(state, "tenant"),
		    when(state, "failed", at), text(state, "source"),
		    text(state, "made")[0] ? ", " : "", text(state, "made"));
		say("             %s", text(state, "last_error"));
	}
}

void kh_ctl_show_status(const json_t *status)
{
	char at[32], span[64], pid[32] = "";
	long long starts = number(status, "worker_starts");
	if (json_object_get(status, "pid"))
		(void)snprintf(pid, sizeof(pid), ", process %lld", number(status, "pid"));
	say("keyhole %s %s since %s UTC (%s)%s", text(status, "version"), text(status, "state"),
	    when(status, "started", at), show_span(number(status, "uptime_seconds"), span), pid);
	if (text(status, "why")[0])
		say("             %s", text(status, "why"));
	if (starts > 1)
		say("workers      %lld were started: it has been replaced %lld time%s", starts,
		    starts - 1, starts == 2 ? "" : "s");
	show_policy(status);
	show_journal(status);
	show_table(&credentials, json_object_get(status, "credentials"));
	show_failures(json_object_get(status, "credential_states"));
	if (number(status, "credential_states_left_out") > 0)
		say("credential   of %lld more it is not known here whether they fare well (the "
		    "log "
		    "has what failed)",
		    number(status, "credential_states_left_out"));
	show_table(&sandboxes, json_object_get(status, "sandboxes"));
	say_suspects(json_object_get(status, "sandboxes"));
	show_table(&limits, json_object_get(status, "limits"));
}

void kh_ctl_show_sandboxes(const json_t *answer)
{
	const json_t *rows = json_object_get(answer, "sandboxes");
	if (json_array_size(rows) > 0)
		print_rows(&sandboxes, rows);
	else
		kh_cli_complain("ctl: there are no sandboxes");
	say_suspects(rows);
}
