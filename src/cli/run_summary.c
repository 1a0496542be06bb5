/* run_summary.c - what a run came to, in one line, from its journal */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>

#include "run_internal.h"

void kh_run_summary_begin(struct kh_run_summary *summary, const char *journal)
{
	struct stat st;
	summary->path = strdup(journal);
	/* A journal may hold earlier runs. */
	summary->start = stat(journal, &st) == 0 && S_ISREG(st.st_mode) ? st.st_size : 0;
}

struct counts {
	uint64_t calls, denials;
};

/* keyhole's own pages in the sandbox are no requests of anybody's. */
static bool is_own_page(const char *line)
{
	return strstr(line, "\"server.address\":\"keyhole.internal\"") != NULL;
}

static bool count(FILE *file, struct counts *out)
{
	static const char open_event[] = "{\"event\":\"open\"",
			  deny_event[] = "{\"event\":\"deny\"";
	char *line = NULL;
	size_t room = 0;
	while (getline(&line, &room, file) > 0) {
		if (is_own_page(line))
			continue;
		if (strncmp(line, open_event, sizeof(open_event) - 1) == 0)
			out->calls++;
		else if (strncmp(line, deny_event, sizeof(deny_event) - 1) == 0)
			out->denials++;
	}
	free(line);
	return !ferror(file);
}

/* The daemon's, where it was one; not everybody may know where that is. */
static void print(const struct kh_run_summary *summary, const struct counts *counts)
{
	bool known = summary->counted || summary->path;
	kh_auto_free char *said =
		known ? kh_strf("%" PRIu64 " request%s allowed, %" PRIu64 " refused", counts->calls,
				counts->calls == 1 ? "" : "s", counts->denials)
		      : strdup("the daemon has ended");
	if (summary->path)
		kh_cli_complain("%s; journal %s", said ? said : "", kh_esc_str(summary->path));
	else
		kh_cli_complain("%s; the journal is the daemon's", said ? said : "");
}

void kh_run_summary_print(const struct kh_run_summary *summary)
{
	struct counts counts = { summary->calls, summary->denials };
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
