/*
 * ctl_events.c - `keyhole ctl events`: shows decisions as they are made, one per line
 *
 * Columns of a fixed width come first and the long ones last. When the daemon's process is
 * replaced, by a handover or after a crash, it connects to the next one. Decisions in between are
 * in the journal but not shown.
 */
#include "ctl_events.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/encode.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/json_load.h>

#include "cli_internal.h"
#include "ctl_client.h"
#include "ctl_trust.h"
#include "record_text.h"

enum { ROW_BYTES = 16 * 1024, TARGET_BYTES = 4096, AGAIN_MOST = 20, LASTED_S = 5 };
static const char heads[] =
	"TIME                 DECISION    TENANT        SANDBOX           METHOD   URL";

struct show {
	const struct kh_ctl_events *what;
	bool colour;
	bool any; /* a line since it was asked */
	bool broken;
	struct kh_buf row;
};

static void paint(struct show *s, const char *colour)
{
	if (s->colour)
		(void)kh_buf_append_str(&s->row, colour);
}

static void show_lost(struct show *s, const json_t *record)
{
	uint64_t count = kh_record_number(record, "count");

	paint(s, "\x1b[31m");
	if (count > 0)
		(void)kh_buf_printf(&s->row, "… %" PRIu64 " event%s not shown", count,
				    count == 1 ? "" : "s");
	else
		(void)kh_buf_append_str(&s->row, "… some events not shown");
	(void)kh_buf_append_str(&s->row, " (the journal has them)");
	paint(s, "\x1b[0m");
}

static void put_column(struct show *s, struct kh_slice text, size_t width)
{
	(void)kh_buf_printf(&s->row, "  %-*s", (int)width, kh_esc(text));
}

static void show_decision(struct show *s, const json_t *record)
{
	bool denied = kh_slice_eq(kh_record_text(record, "event"), KH_SLICE("deny"));
	struct kh_slice would = kh_record_text(record, "would_deny"),
			sandbox = kh_record_text(record, "sandbox");
	bool observed = would.len > 0 || kh_record_text(record, "would_deny.limit").len > 0;

	kh_record_put_time(&s->row, record);
	paint(s, denied || observed ? "\x1b[33m" : "\x1b[32m");
	put_column(s, kh_slice_str(denied ? "DENY" : observed ? "would-deny" : "allow"), 10);
	paint(s, "\x1b[0m");
	put_column(s, kh_record_text(record, "tenant"), 12);
	put_column(s, sandbox, 16);
	put_column(s, kh_record_text(record, "http.request.method"), 7);
	(void)kh_buf_append_str(&s->row, "  ");
	kh_record_put_url(&s->row, record);
	kh_record_put(&s->row, "  credential ", kh_record_text(record, "credential"));
	if (denied) {
		kh_record_put(&s->row, "  ", kh_record_text(record, "reason"));
		kh_record_put(&s->row, ": ", kh_record_text(record, "detail"));
	} else {
		kh_record_put(&s->row, "  ", would);
		kh_record_put(&s->row, "  ", kh_record_text(record, "would_deny.limit"));
		kh_record_put(&s->row, "  rule ", kh_record_text(record, "rule_at"));
	}
}

static bool take(void *arg, struct kh_slice line)
{
	struct show *s = arg;
	json_t *record = kh_json_load(line, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);

	s->any = true;
	kh_buf_clear(&s->row);
	if (!json_is_object(record))
		; /* not of this daemon's language */
	else if (s->what->json)
		s->broken = !kh_ctl_put_json(stdout, line) || putchar('\n') == EOF ||
			    fflush(stdout) != 0;
	else if (kh_slice_eq(kh_record_text(record, "event"), KH_SLICE("lost")))
		show_lost(s, record);
	else
		show_decision(s, record);
	json_decref(record);
	if (kh_buf_len(&s->row) > 0) {
		struct kh_slice row = kh_buf_view(&s->row);
		s->broken = fwrite(row.ptr, 1, row.len, stdout) != row.len ||
			    putchar('\n') == EOF || fflush(stdout) != 0;
	}
	return !s->broken;
}

/* Return: false: longer than anything that is asked for. */
static bool put_value(struct kh_buf *target, const char *name, const char *value)
{
	return kh_buf_append_char(target, strchr(target->data + target->head, '?') ? '&' : '?') &&
	       kh_buf_append_str(target, name) && kh_buf_append_char(target, '=') &&
	       kh_percent_encode(target, kh_slice_str(value), "") && kh_buf_cstr(target);
}

static bool make_target(struct kh_buf *target, const struct kh_ctl_events *what)
{
	return kh_buf_append_str(target, "/v1/events") && kh_buf_cstr(target) &&
	       (!what->tenant || put_value(target, "tenant", what->tenant)) &&
	       (!what->sandbox || put_value(target, "sandbox", what->sandbox)) &&
	       (!what->denied || put_value(target, "denied", "true"));
}

/* An answer that is no stream: why not. */
static void complain(const struct kh_ctl_answer *answer)
{
	json_t *read = kh_json_load(kh_buf_view(&answer->content), 0, NULL);
	const char *error = json_string_value(json_object_get(read, "error"));

	kh_cli_complain("ctl: %s",
			error ? kh_esc_str(error) : "the daemon's answer is not understood");
	json_decref(read);
}

static void pause_a_moment(void)
{
	const struct timespec moment = { .tv_nsec = 250L * 1000 * 1000 };
	(void)nanosleep(&moment, NULL);
}

/* Whoever serves now. Return: it may be asked again. */
static bool follow(struct show *s, const char *socket_path, const char *target, bool first)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_ctl_answer answer;
	bool again = false;

	kh_ctl_answer_init(&answer);
	bool ok = kh_ctl_follow(socket_path, target, take, s, &answer, &err);
	if (ok && answer.status == 200)
		again = !s->broken;
	else if (ok)
		complain(&answer);
	else if (first)
		kh_cli_complain_err(&err);
	else
		again = true;
	kh_ctl_answer_fini(&answer);
	return again;
}

int kh_ctl_events(const char *socket_path, const struct kh_ctl_events *what)
{
	struct show s = { .what = what, .colour = !what->json && kh_record_wants_colour() };
	kh_cleanup(kh_buf_fini) struct kh_buf target;

	kh_buf_init(&target, TARGET_BYTES);
	kh_buf_init(&s.row, ROW_BYTES);
	if (!make_target(&target, what)) {
		kh_cli_complain("ctl: no tenant and no sandbox has a name so long");
		return KH_EXIT_USAGE;
	}
	/* Nobody for five seconds: it is not being replaced, it has ended. */
	bool first = true, again = true;
	if (!what->json && puts(heads) == EOF)
		again = false;
	for (int fruitless = 0; again && fruitless < AGAIN_MOST; fruitless++) {
		time_t began = time(NULL);
		s.any = false;
		again = follow(&s, socket_path, target.data + target.head, first);
		first = false;
		if (s.any || time(NULL) - began > LASTED_S)
			fruitless = 0;
		if (again)
			pause_a_moment();
	}
	if (again)
		kh_cli_complain("ctl: the daemon has ended");
	kh_buf_fini(&s.row);
	return KH_EXIT_FAILED;
}
