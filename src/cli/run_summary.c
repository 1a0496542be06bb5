/*
 * run_summary.c - a summary of a run, from its journal
 *
 * Only the open record says where a request was to go. A request can fail, or be refused for its
 * address, only after that record is written. So ends that are refusals or failures are noted; if
 * there were any, the journal is read once more for their open records.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/audit/audit.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/json_load.h>

#include "record_text.h"
#include "run_internal.h"

enum {
	LATE_MOST = 1024,	       /* ends that were noted; the others have no place */
	ANSWERED_MOST = LATE_MOST / 2, /* of them, answers of upstreams, which are many */
};
/* Of a daemon's journal, which others write to as well. */
static const off_t shared_most = 256 * 1024 * 1024;

void kh_run_summary_begin(struct kh_run_summary *summary, const char *journal)
{
	struct stat st;
	summary->path = strdup(journal);
	/* A journal may hold earlier runs. */
	summary->start = stat(journal, &st) == 0 && S_ISREG(st.st_mode) ? st.st_size : 0;
}

void kh_run_summary_note(struct kh_run_summary *summary, const struct kh_config *config)
{
	size_t tenant = config->listeners[0].tenant, n;
	const struct kh_cidr *allowed = kh_config_allowed_addresses(config, tenant, &n);
	summary->config = config;
	summary->observes = config->tenants[tenant].mode == KH_MODE_OBSERVE;
	summary->allowed = calloc(n + 1, sizeof(*allowed));
	if (!summary->allowed)
		return;
	for (; summary->n_allowed < n; summary->n_allowed++)
		summary->allowed[summary->n_allowed] = allowed[summary->n_allowed];
}

void kh_run_summary_hide(struct kh_run_summary *summary, const struct kh_ready *ready)
{
	summary->hidden = calloc(ready->n_placeholders + 1, sizeof(*summary->hidden));
	for (size_t i = 0; summary->hidden && i < ready->n_placeholders; i++) {
		summary->hidden[summary->n_hidden] = strdup(ready->placeholders[i].value);
		summary->n_hidden += summary->hidden[summary->n_hidden] != NULL;
	}
}

void kh_run_summary_fini(struct kh_run_summary *summary)
{
	for (size_t i = 0; i < summary->n_hidden; i++)
		free(summary->hidden[i]);
	free(summary->hidden);
	free(summary->allowed);
	free(summary->sandbox);
	free(summary->path);
	*summary = (struct kh_run_summary){ 0 };
}

/* What was allowed and failed is among the calls, and so is what would have been refused. */
struct tally {
	const struct kh_run_summary *summary;
	uint64_t calls, denials, failures, would;
	struct kh_run_refused refused, observed;
	struct kh_refused_places failed, answered;
	struct late {
		uint64_t id;
		enum kh_err_code reason;
		enum { LATE_REFUSED, LATE_OBSERVED, LATE_FAILED, LATE_ANSWERED } kind;
		uint16_t status; /* with LATE_ANSWERED */
		char *detail;	 /* what was said of it; NULL without memory */
	} late[LATE_MOST];
	size_t n_late, n_answered;
};

/* keyhole's own pages in the sandbox are no requests of anybody's. */
static bool is_own_page(const char *line)
{
	return strstr(line, "\"server.address\":\"keyhole.internal\"") != NULL;
}

static bool is_event(const char *line, const char *event)
{
	size_t len = strlen(event);
	return strncmp(line, "{\"event\":\"", 10) == 0 && strncmp(line + 10, event, len) == 0 &&
	       line[10 + len] == '"';
}

static bool is_ours(const struct tally *tally, const json_t *record)
{
	const char *sandbox = tally->summary->sandbox;
	return !sandbox || kh_slice_eq(kh_record_text(record, "sandbox"), kh_slice_str(sandbox));
}

static enum kh_err_code code_of(const json_t *record, const char *key)
{
	struct kh_slice reason = kh_record_text(record, key);
	return kh_err_of_reason(reason.ptr, reason.len);
}

static void note_late(struct tally *tally, const char *line, const json_t *record,
		      const struct late *one)
{
	struct late *late = &tally->late[tally->n_late];
	uint64_t id;
	if (tally->n_late == LATE_MOST || !kh_line_id(kh_slice_str(line), &id))
		return;
	*late = *one;
	late->id = id;
	late->detail = kh_slice_dup(kh_record_text(record, "detail"));
	tally->n_late++;
}

/* An address, for instance, is refused only after the open record. */
static void take_end(struct tally *tally, const char *line, const json_t *record)
{
	enum kh_err_code code = code_of(record, "reason"), would = code_of(record, "would_deny");
	int status = (int)kh_record_number(record, "http.response.status_code");
	bool refused = kh_err_is_refusal(code, status) && tally->calls > 0;
	if (refused) {
		tally->calls--;
		tally->denials++;
		note_late(tally, line, record,
			  &(struct late){ .reason = code, .kind = LATE_REFUSED });
	} else if (kh_err_status(code) >= 500) {
		tally->failures++;
		note_late(tally, line, record,
			  &(struct late){ .reason = code, .kind = LATE_FAILED });
	}
	bool answered = (status == 401 || status == 403) && code == KH_ERR_NONE &&
			!json_object_get(record, "withheld");
	if (answered && tally->n_answered < ANSWERED_MOST) {
		tally->n_answered++;
		note_late(tally, line, record,
			  &(struct late){ .kind = LATE_ANSWERED, .status = (uint16_t)status });
	}
	if (would != KH_ERR_NONE && !refused) {
		tally->would++;
		note_late(tally, line, record,
			  &(struct late){ .reason = would, .kind = LATE_OBSERVED });
	}
}

/* Whether it was refused nevertheless is known at its end: it is looked at again. */
static void take_open(struct tally *tally, const json_t *record)
{
	tally->would += code_of(record, "would_deny") != KH_ERR_NONE && is_ours(tally, record);
}

/* Most lines have nothing in them to be looked at. */
static void take(struct tally *tally, const char *line)
{
	bool open = is_event(line, "open"), deny = is_event(line, "deny"),
	     close = is_event(line, "close"), denials = is_event(line, "denials");
	bool asks = deny || denials || strstr(line, ",\"would_deny\":") ||
		    (close && (strstr(line, ",\"reason\":") ||
			       strstr(line, ",\"http.response.status_code\":40")));
	tally->calls += open;
	json_t *record = asks && (open || deny || close || denials)
				 ? kh_json_load(kh_slice_str(line), 0, NULL)
				 : NULL;
	if (deny)
		tally->denials++;
	if (record && open)
		take_open(tally, record);
	if (record && close)
		take_end(tally, line, record);
	if (record && deny && is_ours(tally, record))
		kh_run_refused_add(&tally->refused, record, code_of(record, "reason"),
				   kh_record_text(record, "detail"));
	if (record && denials && is_ours(tally, record)) {
		tally->denials += kh_record_number(record, "count");
		tally->refused.places.others += kh_record_number(record, "count");
	}
	json_decref(record);
}

/* What of these kinds became of it after its open record; NULL: nothing that was noted. One that
 * only observed rules would have refused may have failed, too. */
static const struct late *find_late(const struct tally *tally, uint64_t id, unsigned kinds)
{
	for (size_t i = 0; i < tally->n_late; i++)
		if (tally->late[i].id == id && (1u << tally->late[i].kind & kinds))
			return &tally->late[i];
	return NULL;
}

/* The open record of a request that failed, that was refused late, or that would have been refused.
 * What was refused is not named as what would have been. */
static void take_again(struct tally *tally, const char *line)
{
	uint64_t id;
	if (!is_event(line, "open") || !kh_line_id(kh_slice_str(line), &id))
		return;
	const struct late *late = find_late(tally, id, 1u << LATE_REFUSED | 1u << LATE_OBSERVED);
	const struct late *failed = find_late(tally, id, 1u << LATE_FAILED);
	const struct late *answered = find_late(tally, id, 1u << LATE_ANSWERED);
	if (!late && !failed && !answered && !strstr(line, ",\"would_deny\":"))
		return;
	json_t *record = kh_json_load(kh_slice_str(line), 0, NULL);
	enum kh_err_code would = record ? code_of(record, "would_deny") : KH_ERR_NONE;
	bool refused = late && late->kind == LATE_REFUSED;
	if (record && is_ours(tally, record)) {
		if (failed)
			kh_run_failed_add(&tally->failed, record, failed->reason,
					  kh_slice_str(failed->detail));
		if (answered)
			kh_run_answered_add(&tally->answered, record, answered->status);
		if (late)
			kh_run_refused_add(refused ? &tally->refused : &tally->observed, record,
					   late->reason, kh_slice_str(late->detail));
		else if (would != KH_ERR_NONE)
			kh_run_refused_add(&tally->observed, record, would, kh_slice_str(NULL));
		if (refused && would != KH_ERR_NONE && tally->would > 0)
			tally->would--;
	}
	json_decref(record);
}

static bool read_lines(struct tally *tally, FILE *file,
		       void (*each)(struct tally *tally, const char *line))
{
	off_t left = tally->summary->sandbox ? shared_most : INT64_MAX;
	char *line = NULL;
	size_t room = 0;
	bool ok = fseeko(file, tally->summary->start, SEEK_SET) == 0;
	for (ssize_t len; ok && left > 0 && (len = getline(&line, &room, file)) > 0; left -= len)
		if (!is_own_page(line))
			each(tally, line);
	free(line);
	return ok && !ferror(file);
}

/* A file that can't be read is a daemon's, whose word is enough. */
static bool read_journal(struct tally *tally)
{
	const char *path = tally->summary->path;
	FILE *file = path ? fopen(path, "re") : NULL;
	bool ok = file && read_lines(tally, file, take);
	if (ok && (tally->n_late > 0 || tally->would > 0))
		ok = read_lines(tally, file, take_again);
	if (file)
		fclose(file);
	return ok;
}

/* The daemon's, where it was one; not everybody may know where that is. */
static void print_counts(const struct kh_run_summary *summary, const struct tally *tally)
{
	bool known = summary->counted || summary->path;
	kh_auto_free char *failed =
		tally->failures > 0 ? kh_strf(" (%" PRIu64 " failed)", tally->failures) : NULL;
	/* Of a daemon that counts more slowly than it writes, all are refused ones. */
	uint64_t telemetry = kh_run_refused_telemetry(&tally->refused);
	telemetry = telemetry > tally->denials ? 0 : telemetry;
	kh_auto_free char *apart =
		telemetry > 0 ? kh_strf(" (and %" PRIu64 " of known telemetry)", telemetry) : NULL;
	kh_auto_free char *said =
		known ? kh_strf("%" PRIu64 " request%s allowed%s, %" PRIu64 " refused%s",
				tally->calls, tally->calls == 1 ? "" : "s", failed ? failed : "",
				tally->denials - telemetry, apart ? apart : "")
		      : strdup("the daemon has ended");
	if (summary->path)
		kh_cli_complain_whole("%s; journal %s", said ? said : "",
				      kh_esc_str(summary->path));
	else
		kh_cli_complain("%s; the daemon writes the journal", said ? said : "");
}

static void print_observed(const struct tally *tally)
{
	kh_cli_complain("NO RULE WAS ENFORCED (observe): the rules would have refused %" PRIu64
			" of the allowed requests",
			tally->would);
}

void kh_run_summary_print(const struct kh_run_summary *summary)
{
	struct tally *tally = calloc(1, sizeof(*tally));
	if (!tally) {
		kh_cli_complain("run: no memory");
		return;
	}
	tally->summary = summary;
	kh_refused_places_init(&tally->refused.places, (const char *const *)summary->hidden,
			       summary->n_hidden);
	kh_refused_places_init(&tally->observed.places, (const char *const *)summary->hidden,
			       summary->n_hidden);
	kh_refused_places_init(&tally->failed, (const char *const *)summary->hidden,
			       summary->n_hidden);
	kh_refused_places_init(&tally->answered, (const char *const *)summary->hidden,
			       summary->n_hidden);
	bool read = read_journal(tally);
	if (summary->counted || !summary->path) {
		tally->calls = summary->calls;
		tally->denials = summary->denials;
		tally->failures = 0;
		read = true;
	}
	if (read) {
		print_counts(summary, tally);
		if (summary->observes)
			print_observed(tally);
		kh_run_refused_print(&tally->refused, false, summary);
		kh_run_refused_print(&tally->observed, true, summary);
		kh_run_failed_print(&tally->failed, &tally->answered, summary);
	} else {
		kh_cli_complain("the journal %s can't be read", kh_esc_str(summary->path));
	}
	kh_refused_places_fini(&tally->refused.places);
	kh_refused_places_fini(&tally->observed.places);
	kh_refused_places_fini(&tally->failed);
	kh_refused_places_fini(&tally->answered);
	for (size_t i = 0; i < tally->n_late; i++)
		free(tally->late[i].detail);
	free(tally);
}
