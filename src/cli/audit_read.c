/* audit_read.c - `keyhole audit show`: its options, and the journals that it reads */
#include "audit_read.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>

#include "audit_select.h"
#include "audit_show.h"
#include "audit_summary.h"
#include "audit_time.h"
#include "cli_internal.h"

/* Below them: the filters, by their numbers. */
enum {
	OPT_FILTER = 256,
	OPT_JSON = OPT_FILTER + KH_N_FILTERS,
	OPT_DENIED,
	OPT_SINCE,
	OPT_UNTIL,
	OPT_SUMMARY,
};

static const struct option table[] = {
	{ "json", no_argument, NULL, OPT_JSON },
	{ "help", no_argument, NULL, 'h' },
	{ "denied", no_argument, NULL, OPT_DENIED },
	{ "since", required_argument, NULL, OPT_SINCE },
	{ "until", required_argument, NULL, OPT_UNTIL },
	{ "summary", no_argument, NULL, OPT_SUMMARY },
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
	bool summary;
};

/* Return: false: it was said why. */
static bool take_option(int opt, struct asked *asked)
{
	struct kh_audit_select *select = &asked->select;

	switch (opt) {
	case OPT_JSON:
		asked->show.json = true;
		return true;
	case OPT_DENIED:
		select->denied = true;
		return true;
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

static int read_one(const char *name, struct kh_audit_show *show, const char *command)
{
	kh_auto_close int fd = -1;

	if (strcmp(name, "-") == 0)
		return kh_audit_show_stream(show, STDIN_FILENO, name);
	fd = kh_cli_open_journal(command, name);
	return fd < 0 ? KH_EXIT_USAGE : kh_audit_show_stream(show, fd, name);
}

static int read_all(char **files, const struct asked *asked, struct kh_audit_show *show)
{
	const char *command = asked->select.command;
	kh_auto_free char *newest = *files ? NULL : kh_cli_newest_journal(command);
	int worst = *files || newest ? 0 : KH_EXIT_USAGE, status;

	if (newest)
		worst = read_one(newest, show, command);
	for (; *files; files++) {
		status = read_one(*files, show, command);
		worst = status > worst ? status : worst;
	}
	if (asked->show.summary)
		kh_audit_summary_print(asked->show.summary, asked->show.json);
	if (worst == 0)
		kh_audit_select_complain(&asked->select);
	return worst;
}

static int run(char **files, struct asked *asked)
{
	struct kh_audit_show *show = NULL;
	int status = KH_EXIT_USAGE;

	asked->show.select = &asked->select;
	asked->show.summary = asked->summary ? kh_audit_summary_new() : NULL;
	if (!asked->summary || asked->show.summary)
		show = kh_audit_show_new(&asked->show);
	if (!show)
		kh_cli_complain("%s: no memory", asked->select.command);
	else
		status = read_all(files, asked, show);
	kh_audit_show_free(show);
	kh_audit_summary_free(asked->show.summary);
	return status;
}

int kh_cli_audit_read(int argc, char **argv, int (*help)(void))
{
	struct asked asked = { .summary = false };
	char command[32];
	int status = 0;

	(void)snprintf(command, sizeof(command), "audit %s", argv[0]);
	argv[0] = command; /* for the messages */
	asked.select.command = command;
	for (int opt; status == 0 && (opt = kh_cli_option(argc, argv, "h", table)) != -1;) {
		if (opt == 'h')
			return help();
		if (!take_option(opt, &asked))
			status = KH_EXIT_USAGE; /* it was said why */
	}
	if (status == 0)
		status = run(argv + optind, &asked);
	kh_audit_select_fini(&asked.select);
	return status;
}
