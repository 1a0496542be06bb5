/* audit.c - `keyhole audit`: verifies the journal, and shows it */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include <keyhole/audit/audit.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>

#include "audit_read.h"
#include "cli_internal.h"

enum { EXIT_BROKEN = KH_EXIT_FAILED, EXIT_UNREADABLE = 2 };

enum { OPT_JSON = 256 };

static int help(FILE *out)
{
	fputs("usage: keyhole audit verify [--json] FILE…\n"
	      "       keyhole audit show [OPTION…] [FILE…]\n"
	      "       keyhole audit tail [-n N] [-f] [OPTION…] [FILE…]\n"
	      "       keyhole audit query [--columns LIST] [OPTION…] [FILE…]\n"
	      "       keyhole audit stats [--top N] [OPTION…] [FILE…]\n\n"
	      "  verify    check every line of a journal and the chain of hashes\n"
	      "            (also in the earlier segments, which handovers left as FILE.N)\n"
	      "  show      one line per exchange, for people\n"
	      "  tail      the last 10 of these lines\n"
	      "  query     a table of columns that you choose\n"
	      "  stats     top hosts, refusals by tenant and rule, requests and bytes by tenant\n\n"
	      "Without FILE they show the newest journal that `keyhole run` has left. The earlier\n"
	      "segments FILE.N are read first. FILE - is standard input.\n\n"
	      "What is printed:\n"
	      "      --json          print one JSON object per line\n"
	      "      --csv           print CSV, with the names of the columns first\n"
	      "      --columns LIST  print these columns: "
	      "time,tenant,host,verdict,rule,credential\n"
	      "                      and others, as keyhole-audit(1) lists them\n"
	      "  -n, --last N        print the last N rows\n"
	      "  -f, --follow        then print what comes, also in the segments that come\n"
	      "      --summary       show: count the requests by host, decision and reason\n"
	      "      --top N         stats: the N largest rows of each table (10)\n"
	      "  -h, --help          show this\n\n"
	      "Which requests. Each filter may be given several times, and one of its values must\n"
	      "fit; of different filters all must.\n"
	      "      --tenant NAME   of this tenant\n"
	      "      --sandbox ID    of this sandbox\n"
	      "      --host HOST     for this host, such as api.example.com, *.example.com (the "
	      "names\n"
	      "                      below it) or example.com:8443\n"
	      "      --verdict WORD  what the rules said: allow, deny, would_deny\n"
	      "      --denied        the same as --verdict deny\n"
	      "      --outcome WORD  how it ended: ok, failed, denied, aborted, open\n"
	      "      --rule RULE     by this rule: its text or FILE:LINE; * stands for anything\n"
	      "      --credential NAME  with this credential\n"
	      "      --reason WORD   refused or failed for this reason, such as no_rule\n"
	      "      --method METHOD with this method\n"
	      "      --id ID         the exchange with this id, which the log has too\n"
	      "      --since TIME    began at that time (2026-01-02T03:04:05Z) or later, or in "
	      "the\n"
	      "                      last 10m, 2h or 3d\n"
	      "      --until TIME    began at that time or earlier\n\n"
	      "Exit status of verify: 0 if the journal is intact, 1 if it was changed or is cut "
	      "off,\n"
	      "2 if it can't be read.\n"
	      "The manual: keyhole-audit(1).\n",
	      out);
	return ferror(out) ? KH_EXIT_FAILED : 0;
}

static size_t parts_shown(const struct kh_verify_report *r)
{
	return r->n_parts < KH_LIMIT_VERIFY_PARTS ? (size_t)r->n_parts : KH_LIMIT_VERIFY_PARTS;
}

static json_t *parts_of(const struct kh_verify_report *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < parts_shown(r); i++) {
		const struct kh_verify_part *part = &r->parts[i];

		json_array_append_new(
			list,
			json_pack("{sI sI sI sI sI ss}", "first_line", (json_int_t)part->first_line,
				  "last_line", (json_int_t)part->last_line, "lines",
				  (json_int_t)part->lines, "first_seq", (json_int_t)part->first_seq,
				  "last_seq", (json_int_t)part->last_seq, "head", part->head));
	}
	return list;
}

static void print_json(const char *name, const struct kh_verify_report *r)
{
	json_t *o = json_object();

	json_object_set_new(o, "file", json_stringn_nocheck(name, strlen(name)));
	json_object_set_new(o, "ok", json_boolean(r->ok));
	json_object_set_new(o, "lines", json_integer((json_int_t)r->lines));
	json_object_set_new(o, "starts", json_integer((json_int_t)r->starts));
	json_object_set_new(o, "opens", json_integer((json_int_t)r->opens));
	json_object_set_new(o, "closes", json_integer((json_int_t)r->closes));
	json_object_set_new(o, "denials", json_integer((json_int_t)r->denials));
	json_object_set_new(o, "counted", json_integer((json_int_t)r->counted));
	json_object_set_new(o, "recovered", json_integer((json_int_t)r->recovered));
	json_object_set_new(o, "aborted", json_integer((json_int_t)r->aborted));
	json_object_set_new(o, "unclosed", json_integer((json_int_t)r->unclosed));
	if (r->continues)
		json_object_set_new(o, "continues", json_integer((json_int_t)r->continues));
	json_object_set_new(o, "last_seq", json_integer((json_int_t)r->last_seq));
	json_object_set_new(o, "head", json_string(r->head));
	json_object_set_new(o, "reopened", json_integer((json_int_t)r->reopened));
	json_object_set_new(o, "unmatched", json_integer((json_int_t)r->unmatched));
	json_object_set_new(o, "unknown_events", json_integer((json_int_t)r->unknown));
	if (r->crowded_line)
		json_object_set_new(o, "crowded_line", json_integer((json_int_t)r->crowded_line));
	if (!r->ok) {
		json_object_set_new(o, "bad_line", json_integer((json_int_t)r->bad_line));
		json_object_set_new(o, "problem", json_string(r->problem));
		json_object_set_new(o, "parts", parts_of(r));
		if (r->n_parts > KH_LIMIT_VERIFY_PARTS)
			json_object_set_new(
				o, "parts_left_out",
				json_integer((json_int_t)(r->n_parts - KH_LIMIT_VERIFY_PARTS)));
	}
	(void)json_dumpf(o, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
	(void)putchar('\n');
	json_decref(o);
}

static void print_count_line(uint64_t n, const char *what)
{
	if (n > 0)
		printf("  %" PRIu64 " %s\n", n, what);
}

static void print_count(uint64_t n, const char *what)
{
	if (n > 0)
		printf(", %" PRIu64 " %s", n, what);
}

/* What holds by itself, for somebody who kept a head of it. */
static void print_parts(const struct kh_verify_report *r)
{
	size_t n = parts_shown(r);

	for (size_t i = 0; i < n; i++) {
		const struct kh_verify_part *part = &r->parts[i];

		if (i + 1 == n && r->n_parts > n)
			printf("  %" PRIu64 " parts are left out here\n", r->n_parts - n);
		if (part->lines == 1)
			printf("  whole by itself: 1 record in line %" PRIu64 ", seq %" PRIu64
			       ", head %s\n",
			       part->first_line, part->first_seq, part->head);
		else
			printf("  whole by itself: %" PRIu64 " records in lines %" PRIu64
			       " to %" PRIu64 ", seq %" PRIu64 " to %" PRIu64 ", head %s\n",
			       part->lines, part->first_line, part->last_line, part->first_seq,
			       part->last_seq, part->head);
	}
	print_count_line(r->reopened, "opens under an id that was open already");
	print_count_line(r->unmatched, "ends of an exchange that was not open");
}

static void print_text(const char *name, const struct kh_verify_report *r)
{
	printf("%s: ", kh_esc_str(name));
	if (!r->ok) {
		printf("BROKEN: %s\n", r->problem);
		print_parts(r);
		return;
	}
	/* In the words of the end of a run, where what was refused late was not allowed. */
	uint64_t allowed = r->opens > r->late ? r->opens - r->late : 0;
	printf("ok: %" PRIu64 " line%s, %" PRIu64 " request%s allowed", r->lines,
	       r->lines == 1 ? "" : "s", allowed, allowed == 1 ? "" : "s");
	print_count(r->denials, "refused");
	print_count(r->counted, "refused and only counted");
	print_count(r->aborted, "aborted by the end of a worker");
	print_count(r->unclosed, "still open");
	print_count(r->recovered, "torn and closed");
	if (r->continues)
		printf(", continues line %" PRIu64 " of the segment before%s", r->continues,
		       r->set_aside    ? " (which was set aside)"
		       : r->joined.seq ? ""
				       : " (whose end is not written yet)");
	printf("; seq %" PRIu64 ", head %s\n", r->last_seq, r->head);
}

/* What is no fault, and must not pass unseen. */
static void warn(const char *name, const struct kh_verify_report *r)
{
	if (r->unknown)
		kh_cli_complain("audit: %s: %" PRIu64 " records are of an event that this keyhole "
				"does not know, the first is \"%s\" in line %" PRIu64
				" (was it written by a newer keyhole? then verify with that one)",
				kh_esc_str(name), r->unknown, r->unknown_event, r->unknown_line);
	if (r->crowded_line)
		kh_cli_complain("audit: %s: from line %" PRIu64 " on more than %d exchanges were "
				"open at a time: not every end could be matched with its exchange "
				"by its id",
				kh_esc_str(name), r->crowded_line, KH_LIMIT_RECOVER_IDS);
}

/* A stream that the caller's shell opened for this very process. */
static bool is_passed(const char *name)
{
	return strncmp(name, "/dev/fd/", 8) == 0 || strcmp(name, "/dev/stdin") == 0;
}

int kh_cli_open_journal(const char *command, const char *name)
{
	/* Not blocking: whoever may write to the folder could put a FIFO there. */
	kh_auto_close int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0) {
		kh_cli_complain("%s: %s: %s", command, kh_esc_str(name), strerror(errno));
		return -1;
	}
	if (!S_ISREG(st.st_mode) && !is_passed(name)) {
		kh_cli_complain("%s: %s: not a regular file (of a stream, read standard input: "
				"FILE is -)",
				command, kh_esc_str(name));
		return -1;
	}
	(void)fcntl(fd, F_SETFL, 0);
	return kh_steal_fd(&fd);
}

/* `next`: what was found in the segment that continues this one, or NULL. Return: a status, and
 * the report where it is not EXIT_UNREADABLE. */
static int verify_one(const char *name, bool json, const struct kh_verify_report *next,
		      struct kh_verify_report *report)
{
	struct kh_err err = KH_ERR_INIT;
	kh_auto_close int opened = -1;
	int fd = STDIN_FILENO;

	if (strcmp(name, "-") != 0) {
		opened = kh_cli_open_journal("audit", name);
		if (opened < 0)
			return EXIT_UNREADABLE;
		fd = opened;
	}
	if (!kh_verify_segment(fd, next, report, &err)) {
		kh_cli_complain("audit: %s: %s", kh_esc_str(name), err.text);
		return EXIT_UNREADABLE;
	}
	if (json)
		print_json(name, report);
	else
		print_text(name, report);
	warn(name, report);
	return report->ok ? 0 : EXIT_BROKEN;
}

/* The segment whose line `base` the file of that name continues: all are named after the one that
 * is written, FILE of "FILE.000000000123" and "FILE.000000000123.2". A FILE that itself ends like
 * that is refused today, and was not always. */
static char *name_before(const char *name, uint64_t base)
{
	size_t stem = kh_file_stem_len(kh_slice_str(name));
	char *before = kh_strf("%.*s.%012" PRIu64, (int)stem, name, base);

	if (!before || !name[stem] || access(before, F_OK) == 0 || errno != ENOENT)
		return before;
	char *longer = kh_strf("%s.%012" PRIu64, name, base);
	if (longer && access(longer, F_OK) != 0) {
		free(longer);
		return before;
	}
	free(before);
	return longer;
}

/* What another segment continues, and is not there. */
static int accuse_missing(const char *name, bool json, struct kh_verify_report *report)
{
	*report = (struct kh_verify_report){ .ok = false };
	(void)snprintf(report->problem, sizeof(report->problem),
		       "the segment is missing (the one that continues it is there)");
	if (json)
		print_json(name, report);
	else
		print_text(name, report);
	return EXIT_BROKEN;
}

/* A segment, and then what it continues, back to the journal's beginning: each must hold the line
 * that the next one names. They end: each continues a line before those of the next. */
static int verify_chain(const char *name, bool json)
{
	struct kh_verify_report report = { 0 };
	int worst = verify_one(name, json, NULL, &report);
	uint64_t last = UINT64_MAX;

	while (worst != EXIT_UNREADABLE && report.continues && report.continues < last &&
	       strcmp(name, "-") != 0) {
		struct kh_verify_report next = report;
		kh_auto_free char *before = name_before(name, report.continues);
		int status;

		if (!before)
			return EXIT_UNREADABLE;
		last = report.continues;
		status = access(before, F_OK) == 0 || errno != ENOENT
				 ? verify_one(before, json, &next, &report)
				 : accuse_missing(before, json, &report);
		worst = status > worst ? status : worst;
	}
	return worst;
}

static int verify(char **files, bool json)
{
	int worst = 0;

	if (!*files) {
		/* What is verified is named: the newest one may be another than was meant. */
		kh_auto_free char *newest = kh_cli_newest_journal("audit verify");
		if (newest)
			kh_cli_complain("audit verify: which journal? Name its file (a daemon's is "
					"audit.file of its configuration)");
		return KH_EXIT_USAGE;
	}
	for (; *files; files++) {
		int status = verify_chain(*files, json);
		worst = status > worst ? status : worst;
	}
	return worst;
}

/* `argv` begins at the verb. */
static int run_verify(int argc, char **argv)
{
	static const struct option table[] = { { "json", no_argument, NULL, OPT_JSON },
					       { "help", no_argument, NULL, 'h' },
					       { NULL, 0, NULL, 0 } };
	static char name[] = "audit verify";
	bool json = false;

	argv[0] = name; /* for the messages */
	for (int opt; (opt = kh_cli_option(argc, argv, "h", table)) != -1;) {
		if (opt == 'h')
			return help(stdout);
		if (opt != OPT_JSON)
			return KH_EXIT_USAGE; /* it was said why */
		json = true;
	}
	return verify(argv + optind, json);
}

static int show_help(void)
{
	return help(stdout);
}

int kh_cli_audit(int argc, char **argv)
{
	static const char *const verbs[] = { "verify", "show", "tail", "query", "stats" };
	enum { VERIFY, N_VERBS = sizeof(verbs) / sizeof(verbs[0]) };
	const char *typed = argc > 1 ? argv[1] : "";
	size_t verb = 0;
	int status;

	if (strcmp(typed, "--help") == 0 || strcmp(typed, "-h") == 0)
		return help(stdout);
	while (verb < N_VERBS && strcmp(typed, verbs[verb]) != 0)
		verb++;
	if (verb == N_VERBS) {
		const char *near = kh_cli_nearest(typed, verbs, N_VERBS);
		kh_cli_complain("audit: %s%s%s%s (`keyhole audit --help` lists them)",
				typed[0] ? "no such command" : "a command is missing",
				near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
		return KH_EXIT_USAGE;
	}
	if (verb == VERIFY)
		status = run_verify(argc - 1, argv + 1);
	else
		status = kh_cli_audit_read(argc - 1, argv + 1, show_help);
	return fflush(stdout) == 0 ? status : EXIT_UNREADABLE;
}
