/* cli_internal.h - one function per subcommand; argv[0] is the subcommand's name */
#ifndef KEYHOLE_CLI_INTERNAL_H
#define KEYHOLE_CLI_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <keyhole/base/err.h>

/* Exit statuses of keyhole itself, not of the command of `keyhole run`. */
enum {
	KH_EXIT_FAILED = 1,	      /* the subcommand failed, or its answer is no */
	KH_EXIT_USAGE = 2,	      /* wrong usage */
	KH_EXIT_KEYHOLE = 125,	      /* `run`: keyhole itself failed */
	KH_EXIT_NOT_EXECUTABLE = 126, /* `run`: the command can't be executed, as in a shell */
	KH_EXIT_NOT_FOUND = 127,
};

int kh_cli_run(int argc, char **argv);
int kh_cli_proxy(int argc, char **argv);
int kh_cli_check(int argc, char **argv);
int kh_cli_explain(int argc, char **argv);
int kh_cli_suggest(int argc, char **argv);
int kh_cli_policy(int argc, char **argv);
int kh_cli_audit(int argc, char **argv);
int kh_cli_doctor(int argc, char **argv);
int kh_cli_ca(int argc, char **argv);
int kh_cli_ctl(int argc, char **argv);
int kh_cli_image(int argc, char **argv);
int kh_cli_init(int argc, char **argv);
int kh_cli_preset(int argc, char **argv);
int kh_cli_workspace(int argc, char **argv);
int kh_cli_trust(int argc, char **argv);
int kh_cli_ask(int argc, char **argv);
struct kh_config;
struct kh_policy;
/* load_policy.c. Reads and compiles a configuration; both are the caller's, also on failure.
 * Return: false: an error was printed. */
bool kh_cli_load_policy(const char *path, struct kh_config **config, struct kh_policy **policy);
/* As `keyhole run` does: with presets (--use) in front of the rules of that tenant (NULL: of the
 * first), and without a file (NULL) the presets alone. */
bool kh_cli_load_presets(const char *path, const char *tenant, const char *const *presets, size_t n,
			 struct kh_config **config, struct kh_policy **policy);
/* audit.c. Opens a regular file, or a stream that the caller passed as /dev/fd/N. Return: a
 * descriptor; -1: an error was printed in the name of `command`. */
int kh_cli_open_journal(const char *command, const char *name);
/* newest_journal.c. The newest journal that `keyhole run` has left in the user's state folder, and
 * says so in the name of `command`. Heap. Return: NULL: an error was printed. */
char *kh_cli_newest_journal(const char *command);
int kh_cli_version(int argc, char **argv);

/* "keyhole: what: why (what to do)", one write to standard error. */
void kh_cli_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same, but the line is never broken into rows (kh_log_line_whole). */
void kh_cli_complain_whole(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same for an error of a function. */
void kh_cli_complain_err(const struct kh_err *err);
/* avoid.c. From now on no program is found where sandboxes of other runs may write (writable.h).
 * Return: false: that can't be told, and an error was printed. */
bool kh_cli_avoid_sandboxes(void);
/* config_here.c. keyhole.yaml, or else .keyhole/keyhole.yaml, of the working folder; NULL: there is
 * none. For what only reads it: whoever lets it decide asks whether it is trusted (trust.c). */
const char *kh_cli_config_here(void);
/* The one of `names` (n of them) that is most similar to what was typed; NULL: none is similar. */
const char *kh_cli_nearest(const char *typed, const char *const *names, size_t n);
struct option;
/* option.c. getopt_long(3) for the subcommand argv[0], without the index of the option. Return: as
 * getopt_long; '?' for every error, which it has printed. */
int kh_cli_option(int argc, char **argv, const char *shorts, const struct option *longs);
/* "keyhole: run: unknown option --worspace (did you mean --workspace?)"; `names` without "--". */
void kh_cli_unknown_option(const char *where, const char *typed, const char *const *names,
			   size_t n);

#endif
