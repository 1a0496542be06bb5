/*
 * audit_journals.c - reads journals with all their segments, each file once
 *
 * The segments of FILE are those of its folder that have its name with a number; they are read in
 * the order of the numbers. A shell's "audit.jsonl*" names FILE and its segments: a file that was
 * read is not read again.
 */
#include "audit_journals.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>

#include "audit_segments.h"
#include "cli_internal.h"
#include "journal_exchanges.h"

struct reading {
	const char *command;
	struct kh_audit_show *show;
	struct stat *seen; /* files that were read */
	size_t n_seen, room;
};

static bool was_read(struct reading *r, int fd)
{
	struct stat st;

	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return false;
	for (size_t i = 0; i < r->n_seen; i++)
		if (r->seen[i].st_dev == st.st_dev && r->seen[i].st_ino == st.st_ino)
			return true;
	if (r->n_seen == r->room) {
		size_t room = r->room ? r->room * 2 : 16;
		struct stat *seen = realloc(r->seen, room * sizeof(*seen));
		if (!seen)
			return false;
		r->seen = seen;
		r->room = room;
	}
	r->seen[r->n_seen++] = st;
	return false;
}

static int read_stream(struct reading *r, int fd, const char *name)
{
	const struct kh_journal_reader reader = kh_audit_show_reader(r->show);
	struct kh_journal_flaws flaws;
	struct kh_err err = KH_ERR_INIT;

	bool ok = kh_journal_exchanges(fd, &reader, &flaws, &err);
	if (!ok)
		kh_cli_complain("%s: %s: %s", r->command, kh_esc_str(name), err.text);
	ok = kh_journal_complain(r->command, name, &flaws, "shown though") && ok;
	return ok ? 0 : KH_EXIT_USAGE;
}

static int read_file(struct reading *r, const char *name)
{
	kh_auto_close int fd = kh_cli_open_journal(r->command, name);

	if (fd < 0)
		return KH_EXIT_USAGE;
	return was_read(r, fd) ? 0 : read_stream(r, fd, name);
}

static int read_journal(struct reading *r, const char *name)
{
	struct kh_audit_segments segments = { .n = 0 };
	struct kh_err err = KH_ERR_INIT;
	int worst = 0, status;

	if (!kh_audit_segments_find(name, &segments, &err))
		kh_cli_complain("%s: %s: its earlier segments can't be looked for: %s", r->command,
				kh_esc_str(name), err.text);
	for (size_t i = 0; i < segments.n; i++) {
		const char *path = segments.list[i].path;
		(void)kh_audit_show_continues(r->show);
		status = read_file(r, path);
		worst = status > worst ? status : worst;
		uint64_t before = kh_audit_show_continues(r->show);
		/* Of a segment that was named alone, the others are not looked for. */
		if (before > 0 && !kh_audit_segments_have(&segments, before) &&
		    kh_file_stem_len(kh_slice_str(name)) == strlen(name))
			kh_cli_complain("%s: %s: continues line %" PRIu64 " of a segment that is "
					"missing (%s.%012" PRIu64 ")",
					r->command, kh_esc_str(path), before, kh_esc_str(name),
					before);
	}
	kh_audit_segments_fini(&segments);
	return worst;
}

int kh_audit_read_journals(char **files, const char *command, struct kh_audit_show *show)
{
	struct reading r = { .command = command, .show = show };
	int worst = 0, status;

	for (; *files; files++) {
		status = strcmp(*files, "-") == 0 ? read_stream(&r, STDIN_FILENO, *files)
						  : read_journal(&r, *files);
		worst = status > worst ? status : worst;
	}
	free(r.seen);
	return worst;
}
