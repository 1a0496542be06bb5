/* audit_read.c - `keyhole audit show`, `tail`, `query` and `stats`: their options */
#include "audit_read.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/escape.h>

#include "audit_columns.h"
#include "audit_follow.h"
#include "audit_journals.h"
#include "audit_last.h"
#include "audit_select.h"
#include "audit_show.h"
#include "audit_stats.h"
#include "audit_summary.h"
#include "audit_time.h"
#include "cli_internal.h"

/* Below them: the filters, by their numbers. */
enum {
	OPT_FILTER = 256,
	OPT_JSON = OPT_FILTER + KH_N_FILTERS,
	OPT_CSV,
	OPT_COLUMNS,
	OPT_DENIED,
	OPT_SINCE,
	OPT_UNTIL,
	OPT_SUMMARY,
	OPT_TOP,
};
enum { TAIL_ROWS = 10, TOP_ROWS = 10, TOP_MOST = 10000 };

static const struct option table[] = {
	{ "json", no_argument, NULL, OPT_JSON },
	{ "csv", no_argument, NULL, OPT_CSV },
	{ "columns", required_argument, NULL, OPT_COLUMNS },
	{ "last", required_argument, NULL, 'n' },
	{ "follow", no_argument, NULL, 'f' },
	{ "help", no_argument, NULL, 'h' },
	{ "denied", no_argument, NULL, OPT_DENIED },
	{ "since", required_argument, NULL, OPT_SINCE },
	{ "until", required_argument, NULL, OPT_UNTIL },
	{ "summary", no_argument, NULL, OPT_SUMMARY },
	{ "top", required_argument, NULL, OPT_TOP },
	{ "host", required_argument, NULL, OPT_FILTER + KH_FILTER_HOST },
	{ "sandbox", required_argument, NULL, OPT_FILTER + KH_FILTER_SANDBOX },
	{ "tenant", required_argument, NULL, OPT_FILTER + KH_FILTER_TENANT },
	{ "verdict", required_argument, NULL, OPT_FILTER + KH_FILTER_VERDICT },
	{ "outcome", required_argument, NULL, OPT_FILTER + KH_FILTER_OUTCOME },
	{ "rule", required_argument, NULL, OPT_FILTER + KH_FILTER_RULE },
	{ "credential", required_argument, NULL, OPT_FILTER + KH_FILTER_CREDENTIAL },
	{ "reason", required_argument, NULL, OPT_FILTER + KH_FILTER_REASON },
	{ "method", required_argument, NULL, OPT_FILTER + KH_FILTER_METHOD },
	{ "id", required_argument, NULL, OPT_FILTER + KH_FILTER_ID },
	{ NULL, 0, NULL, 0 },
};

/* What was asked for. */
struct asked {
	struct kh_audit_show_options show;
	struct kh_audit_select select;
	struct kh_audit_columns columns;
	uint64_t last, top; /* 0: not said */
	bool csv, json, summary, stats, follow;
};

static bool take_number(const struct asked *asked, const char *option, uint64_t most, uint64_t *out)
{
	if (kh_slice_to_u64(kh_slice_str(optarg), out) && *out > 0 && *out <= most)
		return true;
	kh_cli_complain("%s: %s %s: expected a number from 1 to %" PRIu64, asked->select.command,
			option, kh_esc_str(optarg), most);
	return false;
}

/* Return: false: it was said why. */
static bool take_option(int opt, struct asked *asked)
{
	struct kh_audit_select *select = &asked->select;

	switch (opt) {
	case OPT_JSON:
		return asked->json = true;
	case OPT_CSV:
		return asked->csv = true;
	case 'f':
		return asked->follow = true;
	case OPT_COLUMNS:
		return kh_audit_columns_read(&asked->columns, select->command, optarg);
	case 'n':
		return take_number(asked, "--last", KH_LAST_ROWS_MOST, &asked->last);
	case OPT_TOP:
		return take_number(asked, "--top", TOP_MOST, &asked->top);
	case OPT_DENIED:
		return select->denied = true;
	case OPT_SINCE:
		return kh_audit_time(select->command, "--since", optarg, kh_clock_wall_ms(),
				     &select->since_ms);
	case OPT_UNTIL:
		return kh_audit_time(select->command, "--until", optarg, kh_clock_wall_ms(),
				     &select->until_ms);
	case OPT_SUMMARY:
		return asked->summary = true;
	default:
		return opt >= OPT_FILTER && opt < OPT_JSON &&
		       kh_audit_select_add(select, (enum kh_audit_filter)(opt - OPT_FILTER),
					   optarg);
	}
}

static bool refuse(const struct asked *asked, const char *why)
{
	kh_cli_complain("%s: %s", asked->select.command, why);
	return false;
}

/* Do the options go together? Return: false: it was said why not. */
static bool settle(struct asked *asked, const char *verb)
{
	bool is_show = strcmp(verb, "show") == 0;

	asked->stats = strcmp(verb, "stats") == 0;
	if (asked->csv && asked->json)
		return refuse(asked, "--csv and --json: which of the two?");
	if (asked->summary && !is_show)
		return refuse(asked, "--summary is an option of `keyhole audit show`");
	if (asked->summary && (asked->csv || asked->columns.n || asked->last))
		return refuse(asked,
			      "--summary goes together with neither --csv, --columns nor --last");
	if (asked->top && !asked->stats)
		return refuse(asked, "--top is an option of `keyhole audit stats`");
	if (asked->stats && (asked->columns.n || asked->last))
		return refuse(asked, "--columns and --last are no options of it");
	if (asked->follow && (asked->stats || asked->summary || asked->select.until_ms))
		return refuse(asked, "--follow has no end: it goes together with neither --until, "
				     "--summary nor stats");
	if (strcmp(verb, "tail") == 0 && asked->last == 0)
		asked->last = TAIL_ROWS;
	if (((asked->csv && !asked->stats) || strcmp(verb, "query") == 0) && asked->columns.n == 0)
		kh_audit_columns_usual(&asked->columns, asked->csv);
	asked->show.form = asked->json ? KH_AUDIT_JSON : asked->csv ? KH_AUDIT_CSV : KH_AUDIT_TEXT;
	return true;
}

/* From now on rows are printed as they come. */
static void print_last(void *context)
{
	struct asked *asked = context;
	struct kh_audit_last *last = asked->show.last;
	uint64_t missing = last ? kh_audit_last_print(last, stdout) : 0;

	asked->show.last = NULL;
	kh_audit_last_free(last);
	if (missing > 0)
		kh_cli_complain("%s: %" PRIu64 " of the last rows are left out: they have "
				"more than %d MiB together",
				asked->select.command, missing, KH_LAST_BYTES_MOST / 1024 / 1024);
}

static int follow(const char *file, struct asked *asked, struct kh_audit_show *show)
{
	return kh_audit_follow(&(struct kh_audit_following){
		.file = file,
		.command = asked->select.command,
		.show = show,
		.caught_up = print_last,
		.context = asked,
	});
}

static int read_all(char **files, struct asked *asked, struct kh_audit_show *show)
{
	const char *command = asked->select.command;
	kh_auto_free char *newest = *files ? NULL : kh_cli_newest_journal(command);
	char *one[] = { newest, NULL };
	const char *first = *files ? *files : newest;
	int status;

	if (!first)
		return KH_EXIT_USAGE;
	/* A stream is read to its end anyway. */
	if (asked->follow && strcmp(first, "-") != 0)
		return follow(first, asked, show);
	files = *files ? files : one;
	status = kh_audit_read_journals(files, command, show);
	print_last(asked);
	if (asked->show.summary)
		kh_audit_summary_print(asked->show.summary, asked->json);
	if (asked->show.stats)
		kh_audit_stats_print(asked->show.stats, asked->show.form,
				     asked->top ? (size_t)asked->top : TOP_ROWS);
	if (status == 0)
		kh_audit_select_complain(&asked->select);
	return status;
}

static int run(char **files, struct asked *asked)
{
	struct kh_audit_show_options *options = &asked->show;
	struct kh_audit_show *show = NULL;
	int status = KH_EXIT_USAGE;

	if (asked->follow && files[0] && files[1]) {
		kh_cli_complain("%s: --follow takes one FILE", asked->select.command);
		return KH_EXIT_USAGE;
	}
	if (asked->follow)
		(void)setvbuf(stdout, NULL, _IOLBF, 0);
	options->select = &asked->select;
	options->columns = asked->columns.n > 0 ? &asked->columns : NULL;
	options->summary = asked->summary ? kh_audit_summary_new() : NULL;
	options->stats = asked->stats ? kh_audit_stats_new() : NULL;
	options->last = asked->last ? kh_audit_last_new((size_t)asked->last) : NULL;
	if ((!asked->summary || options->summary) && (!asked->stats || options->stats) &&
	    (!asked->last || options->last))
		show = kh_audit_show_new(options);
	if (!show)
		kh_cli_complain("%s: no memory", asked->select.command);
	else
		status = read_all(files, asked, show);
	kh_audit_show_free(show);
	kh_audit_last_free(options->last);
	kh_audit_stats_free(options->stats);
	kh_audit_summary_free(options->summary);
	return status;
}

int kh_cli_audit_read(int argc, char **argv, int (*help)(void))
{
	struct asked asked = { .summary = false };
	const char *verb = argv[0];
	char command[32];
	int status = 0;

	(void)snprintf(command, sizeof(command), "audit %s", verb);
	argv[0] = command; /* for the messages */
	asked.select.command = command;
	for (int opt; status == 0 && (opt = kh_cli_option(argc, argv, "fhn:", table)) != -1;) {
		if (opt == 'h')
			return help();
		if (!take_option(opt, &asked))
			status = KH_EXIT_USAGE; /* it was said why */
	}
	if (status == 0)
		status = settle(&asked, verb) ? run(argv + optind, &asked) : KH_EXIT_USAGE;
	kh_audit_select_fini(&asked.select);
	return status;
}
