/* run_summary.c - the one-line summary of a run, from its journal */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>

#include "record_text.h"
#include "run_internal.h"

void kh_run_summary_begin(struct kh_run_summary *summary, const char *journal)
{
	struct stat st;
	summary->path = strdup(journal);
	/* A journal may hold earlier runs. */
	summary->start = stat(journal, &st) == 0 && S_ISREG(st.st_mode) ? st.st_size : 0;
}

/* What was allowed and failed is among the calls. */
struct counts {
	uint64_t calls, denials, failures;
};

/* keyhole's own pages in the sandbox are no requests of anybody's. */
static bool is_own_page(const char *line)
{
	return strstr(line, "\"server.address\":\"keyhole.internal\"") != NULL;
}

/* Of an end: an address, for instance, is refused only after the open record. */
static void count_end(const char *line, struct counts *out)
{
	json_t *record = strstr(line, ",\"reason\":") ? json_loads(line, 0, NULL) : NULL;
	struct kh_slice reason = kh_record_text(record, "reason");
	enum kh_err_code code = kh_err_of_reason(reason.ptr, reason.len);
	int status = (int)kh_record_number(record, "http.response.status_code");
	if (kh_err_is_refusal(code, status) && out->calls > 0) {
		out->calls--;
		out->denials++;
	} else if (kh_err_status(code) >= 500) {
		out->failures++;
	}
	json_decref(record);
}

static bool count(FILE *file, struct counts *out)
{
	static const char open_event[] = "{\"event\":\"open\"",
			  deny_event[] = "{\"event\":\"deny\"",
			  close_event[] = "{\"event\":\"close\"";
	char *line = NULL;
	size_t room = 0;
	while (getline(&line, &room, file) > 0) {
		if (is_own_page(line))
			continue;
		if (strncmp(line, open_event, sizeof(open_event) - 1) == 0)
			out->calls++;
		else if (strncmp(line, deny_event, sizeof(deny_event) - 1) == 0)
			out->denials++;
		else if (strncmp(line, close_event, sizeof(close_event) - 1) == 0)
			count_end(line, out);
	}
	free(line);
	return !ferror(file);
}

/* The daemon's, where it was one; not everybody may know where that is. */
static void print(const struct kh_run_summary *summary, const struct counts *counts)
{
	bool known = summary->counted || summary->path;
	kh_auto_free char *failed =
		counts->failures > 0 ? kh_strf(" (%" PRIu64 " failed)", counts->failures) : NULL;
	kh_auto_free char *said =
		known ? kh_strf("%" PRIu64 " request%s allowed%s, %" PRIu64 " refused",
				counts->calls, counts->calls == 1 ? "" : "s", failed ? failed : "",
				counts->denials)
		      : strdup("the daemon has ended");
	if (summary->path)
		kh_cli_complain("%s; journal %s", said ? said : "", kh_esc_str(summary->path));
	else
		kh_cli_complain("%s; the journal is the daemon's", said ? said : "");
}

void kh_run_summary_print(const struct kh_run_summary *summary)
{
	struct counts counts = { .calls = summary->calls, .denials = summary->denials };
	if (summary->counted || !summary->path) {
		print(summary, &counts);
		return;
	}
	FILE *file = summary->path ? fopen(summary->path, "re") : NULL;
	bool read = file && fseeko(file, summary->start, SEEK_SET) == 0 && count(file, &counts);
	if (file)
		fclose(file);
	if (!read) {
		kh_cli_complain("the journal %s can't be read", kh_esc_str(summary->path));
		return;
	}
	print(summary, &counts);
}
