/* proxy.c - `keyhole proxy`: the daemon */
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/config/config.h>
#include <keyhole/base/file.h>
#include <keyhole/keeper/keeper.h>
#include <keyhole/base/slice.h>

#include "check_cases.h"
#include "check_values.h"
#include "cli_internal.h"

static int help(void)
{
	fputs("usage: keyhole proxy -c FILE [--ready-fd N]\n"
	      "Serves the sandboxes whose sockets the configuration lists, until SIGTERM.\n\n"
	      "  -c, --config FILE  the configuration (keyhole.yaml)\n"
	      "      --ready-fd N   write a line to descriptor N when the daemon serves requests\n"
	      "  -h, --help         show this\n\n"
	      "SIGHUP reloads the configuration; one with errors changes nothing. SIGUSR2 hands\n"
	      "over to the binary that is installed now, without a pause. SIGTERM and SIGINT end\n"
	      "the daemon after running requests (at most timeouts.drain); a second signal ends\n"
	      "it at once.\n"
	      "Exit status: 0 after SIGTERM, 1 if it could not start, 2 wrong usage.\n"
	      "The manual: keyhole-proxy(1).\n",
	      stdout);
	return ferror(stdout) ? KH_EXIT_FAILED : 0;
}

/* An open descriptor that is not one of the standard three. */
static bool parse_ready_fd(const char *text, int *out)
{
	uint64_t fd;
	if (!kh_slice_to_u64(kh_slice_str(text), &fd) || fd <= STDERR_FILENO || fd > 1 << 20 ||
	    fcntl((int)fd, F_GETFD) < 0) {
		kh_cli_complain("--ready-fd %s: not an open descriptor above 2", text);
		return false;
	}
	*out = (int)fd;
	return kh_file_set_cloexec(*out, true);
}

/* Return: do the rules what `expect` says? */
static bool holds(const struct kh_config *config, struct kh_diagnostics *diags)
{
	struct kh_err err = KH_ERR_INIT;
	if (config->n_expectations == 0)
		return true;
	struct kh_policy *policy = kh_policy_compile(config, &err);
	if (policy)
		kh_check_cases(config, policy, diags);
	else
		kh_diagnostics_add(diags, false, (struct kh_where){ 0 }, "%s", err.text);
	kh_policy_unref(policy);
	return diags->errors == 0;
}

/* The errors go to standard error, all of them. `said`: NULL at the start; of values the keeper's
 * log says the same, so they are told only to whoever asked for a reload. */
static struct kh_config *load(const char *path, struct kh_buf *said)
{
	struct kh_diagnostics diags = { .count = 0 };
	struct kh_config *config = kh_config_load(path, NULL, &diags);
	if (config && !holds(config, &diags)) {
		kh_config_free(config);
		config = NULL;
	}
	kh_diagnostics_print(&diags, config, STDERR_FILENO);
	if (said && config) {
		kh_check_values(config, true, &diags);
		kh_diagnostics_sort(&diags);
	}
	if (said)
		kh_diagnostics_put(&diags, said);
	kh_diagnostics_fini(&diags);
	return config;
}

static struct kh_config *reload(void *arg, struct kh_buf *said)
{
	char **path = arg;
	return load(*path, said);
}

int kh_cli_proxy(int argc, char **argv)
{
	static const struct option options[] = { { "config", required_argument, NULL, 'c' },
						 { "ready-fd", required_argument, NULL, 'r' },
						 { "handover", no_argument, NULL, 'o' },
						 { "help", no_argument, NULL, 'h' },
						 { NULL, 0, NULL, 0 } };
	char *path = NULL;
	bool heir = false;
	int ready_fd = -1, option;
	while ((option = kh_cli_option(argc, argv, "c:h", options)) != -1) {
		if (option == 'h')
			return help();
		if (option == 'c')
			path = optarg;
		else if (option == 'o')
			heir = true;
		else if (option == 'r' && heir) /* it was for the first one's start */
			continue;
		else if (option != 'r' || !parse_ready_fd(optarg, &ready_fd))
			return KH_EXIT_USAGE;
	}
	if (!path || optind < argc) {
		kh_cli_complain("%s (usage: keyhole proxy -c FILE)",
				path ? "proxy takes no argument" : "which configuration?");
		return KH_EXIT_USAGE;
	}
	struct kh_keeper_options keeper = { .config = load(path, NULL),
					    .argv = argv - 1, /* with the program's name */
					    .heir = heir,
					    .reload = reload,
					    .reload_arg = &path,
					    .ready_fd = -1,
					    .serving_fd = ready_fd,
					    .socket_uid = (uid_t)-1,
					    .socket_gid = (gid_t)-1 };
	if (!keeper.config)
		return KH_EXIT_FAILED;
	return kh_keeper_run(&keeper);
}
