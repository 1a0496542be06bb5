/* policy.c - `keyhole policy`: compares rules with what a journal recorded */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_internal.h"
#include "policy_diff.h"

enum { MOST_JOURNALS = 256 };

static int help(void)
{
	fputs("usage: keyhole policy diff OLD NEW --journal FILE… [--tenant NAME]\n\n"
	      "  diff    show which recorded requests the configuration NEW decides otherwise\n"
	      "          than OLD. Nothing is sent\n\n"
	      "      --journal FILE  a journal (repeat it for more; - is standard input)\n"
	      "      --tenant NAME   only this tenant's requests\n"
	      "  -h, --help          show this\n\n"
	      "Exit status: 0 all are decided alike, 1 some are or may be decided otherwise,\n"
	      "2 a file can't be read, or wrong usage. The manual: keyhole-policy(1).\n",
	      stdout);
	return ferror(stdout) ? KH_EXIT_FAILED : EXIT_SUCCESS;
}

/* A journal more. Return: there is room for it. */
static bool add(const char **journals, size_t *n, const char *name)
{
	if (*n == MOST_JOURNALS) {
		kh_cli_complain("policy diff: more than %d journals", MOST_JOURNALS);
		return false;
	}
	journals[(*n)++] = name;
	return true;
}

/* `argv` begins at the verb. */
static int diff(int argc, char **argv)
{
	static char name[] = "policy diff";
	enum { OPT_JOURNAL = 256, OPT_TENANT };
	static const struct option table[] = { { "journal", required_argument, NULL, OPT_JOURNAL },
					       { "tenant", required_argument, NULL, OPT_TENANT },
					       { "help", no_argument, NULL, 'h' },
					       { NULL, 0, NULL, 0 } };
	const char *journals[MOST_JOURNALS];
	struct kh_policy_diff_options options = { .journals = journals };

	argv[0] = name; /* for the messages */
	for (int opt; (opt = kh_cli_option(argc, argv, "h", table)) != -1;) {
		if (opt == 'h')
			return help();
		if (opt == OPT_TENANT)
			options.tenant = optarg;
		else if (opt != OPT_JOURNAL || !add(journals, &options.n_journals, optarg))
			return KH_EXIT_USAGE; /* it was said why */
	}
	/* Of `--journal *.jsonl` the shell makes one with the option and others behind OLD and NEW.
	 */
	for (int i = optind + 2; i < argc && options.n_journals > 0; i++)
		if (!add(journals, &options.n_journals, argv[i]))
			return KH_EXIT_USAGE;
	if (argc - optind < 2 || options.n_journals == 0) {
		kh_cli_complain("policy diff: expected OLD NEW --journal FILE "
				"(`keyhole policy --help`)");
		return KH_EXIT_USAGE;
	}
	options.old_path = argv[optind];
	options.new_path = argv[optind + 1];
	return kh_cli_policy_diff(&options);
}

int kh_cli_policy(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";
	static const char *const verbs[] = { "diff" };

	if (strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0)
		return help();
	if (strcmp(verb, verbs[0]) == 0)
		return diff(argc - 1, argv + 1);
	const char *near = kh_cli_nearest(verb, verbs, 1);
	kh_cli_complain("policy: %s%s%s%s (`keyhole policy --help` lists them)",
			verb[0] ? "no such command" : "a command is missing",
			near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
	return KH_EXIT_USAGE;
}
