/* main.c - the entry point: finds and calls the subcommand */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/fetcher/fetch.h>
#include <keyhole/base/log.h>
#include <keyhole/base/secret.h>
#include <keyhole/worker/worker.h>

#include "cli_internal.h"
#include "complete.h"

static int fetcher(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return kh_fetcher_main();
}

static int worker(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return kh_worker_main();
}

static int complete(int argc, char **argv);

/* A row a subcommand; one without a summary is for keyhole itself and not shown. */
static const struct kh_cli_subcommand subcommands[] = {
	{ "run", kh_cli_run, "run a command in a sandbox whose only way out is the proxy" },
	{ "ask", kh_cli_ask, "answer for requests of `run --ask` that no rule allows" },
	{ "init", kh_cli_init, "write a first configuration for the current folder" },
	{ "proxy", kh_cli_proxy, "serve sandboxes as a daemon" },
	{ "check", kh_cli_check, "read a configuration and show every error in it" },
	{ "explain", kh_cli_explain, "show which rule decides about a request, and why" },
	{ "suggest", kh_cli_suggest, "suggest presets and rules for the requests of a journal" },
	{ "policy", kh_cli_policy,
	  "show which requests of a journal new rules would decide otherwise" },
	{ "preset", kh_cli_preset, "list the presets, and show the rules of one" },
	{ "audit", kh_cli_audit, "verify, show and query a journal" },
	{ "ca", kh_cli_ca, "make, show, export and rotate the CA that sandboxes trust" },
	{ "ctl", kh_cli_ctl, "inspect and control a running daemon" },
	{ "doctor", kh_cli_doctor,
	  "test what works on this host, and say how to repair what does not" },
	{ "image", kh_cli_image, "list and remove images that were unpacked for sandboxes" },
	{ "workspace", kh_cli_workspace,
	  "show and apply an agent's changes, restore what was set aside" },
	{ "trust", kh_cli_trust, "let `run` use the configuration of a project" },
	{ "version", kh_cli_version, "show the version" },
	{ "worker", worker, NULL },
	{ "fetcher", fetcher, NULL },
	{ "complete", complete, NULL },
};
enum { N_SUBCOMMANDS = sizeof(subcommands) / sizeof(subcommands[0]) };

static int complete(int argc, char **argv)
{
	return kh_cli_complete_of(subcommands, N_SUBCOMMANDS, argc, argv);
}

static int help(FILE *out)
{
	fputs("usage: keyhole COMMAND [OPTION…]\n"
	      "The agent sees the keyhole, never the key.\n\n",
	      out);
	for (size_t i = 0; i < N_SUBCOMMANDS; i++)
		if (subcommands[i].summary)
			fprintf(out, "  %-11s%s\n", subcommands[i].name, subcommands[i].summary);
	fputs("\n`keyhole COMMAND --help`, or `keyhole help COMMAND`, shows a command's options.\n"
	      "The manual: keyhole(1).\n"
	      "To begin, in your project: keyhole run claude\n",
	      out);
	return ferror(out) ? KH_EXIT_FAILED : 0;
}

static int unknown(const char *typed)
{
	const char *names[N_SUBCOMMANDS];
	size_t n = 0;
	for (size_t i = 0; i < N_SUBCOMMANDS; i++)
		if (subcommands[i].summary)
			names[n++] = subcommands[i].name;
	const char *near = kh_cli_nearest(typed, names, n);
	if (near)
		kh_cli_complain("%s: no such command (did you mean `keyhole %s`?)", typed, near);
	else
		kh_cli_complain("%s: no such command (`keyhole --help` lists them)", typed);
	return KH_EXIT_USAGE;
}

/* `keyhole help run` is `keyhole run --help`. */
static int help_on(char *name)
{
	char option[] = "--help", *args[] = { name, option, NULL };
	for (size_t i = 0; i < N_SUBCOMMANDS; i++)
		if (subcommands[i].summary && strcmp(name, subcommands[i].name) == 0)
			return subcommands[i].run(2, args);
	return strcmp(name, "help") == 0 ? help(stdout) : unknown(name);
}

/* A descriptor 0, 1 or 2 that the caller shut would be given to the next file that is opened, and
 * what is meant for a terminal would be written into it. */
static bool open_standard_descriptors(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", O_RDWR) != fd)
			return false;
	return true;
}

/* Those that become a keeper; the fetcher, which is told what a token endpoint is to know; and the
 * worker, which sends credentials on their way. */
static bool holds_keys(const char *name)
{
	return strcmp(name, "proxy") == 0 || strcmp(name, "run") == 0 ||
	       strcmp(name, "fetcher") == 0 || strcmp(name, "worker") == 0;
}

int main(int argc, char **argv)
{
	if (!open_standard_descriptors())
		return KH_EXIT_KEYHOLE;
	if (argc < 2) {
		help(stderr);
		return KH_EXIT_USAGE;
	}
	const char *name = argv[1];
	if (strcmp(name, "help") == 0 && argc > 2)
		return help_on(argv[2]);
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
		return help(stdout);
	if (strcmp(name, "--version") == 0)
		return kh_cli_version(argc - 1, argv + 1);
	if (holds_keys(name) && !kh_wipe_libraries(strcmp(name, "worker") == 0)) {
		(void)fprintf(stderr,
			      "keyhole: OpenSSL can't be told to overwrite what it frees\n");
		return KH_EXIT_KEYHOLE;
	}
	for (size_t i = 0; i < N_SUBCOMMANDS; i++) {
		if (strcmp(name, subcommands[i].name) != 0)
			continue;
		/* The worker's and the fetcher's filters know nothing of terminals. */
		if (subcommands[i].summary)
			kh_log_fold();
		return subcommands[i].run(argc - 1, argv + 1);
	}
	return unknown(name);
}
