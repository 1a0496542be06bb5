/* complete.h - completions for shells */
#ifndef KEYHOLE_CLI_COMPLETE_H
#define KEYHOLE_CLI_COMPLETE_H

#include <stddef.h>

struct kh_cli_subcommand {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary; /* NULL: internal, and not shown */
};

/* Prints completions. argv[1] and so on: the words after `keyhole`, up to the one that is being
 * typed. Return: exit status. */
int kh_cli_complete_of(const struct kh_cli_subcommand *commands, size_t n_commands, int argc,
		       char **argv);

#endif
