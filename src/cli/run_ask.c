/* run_ask.c - `keyhole run --ask`: what no rule allows waits for a person's answer */
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include <keyhole/base/limits.h>

#include "run_internal.h"

bool kh_run_ask_check(const struct kh_run_options *options)
{
	if (options->ask_time_ms > 0 && !options->ask)
		kh_cli_complain("run: --ask-time goes with --ask only");
	else if (options->ask && options->observe)
		kh_cli_complain("run: --ask does not go with --observe, which refuses nothing that "
				"you could be asked about");
	else
		return true;
	return false;
}

/* The place of the admin socket, which this daemon does not have. It takes answers and nothing
 * else (kh_config.ask_ms). */
bool kh_run_ask_apply(const struct kh_run_options *options, const struct kh_run_folder *folder,
		      struct kh_config *config)
{
	struct kh_listener_config *one = &config->admin.acceptors[0];
	if (!options->ask)
		return true;
	config->ask_ms =
		options->ask_time_ms > 0 ? (uint32_t)options->ask_time_ms : KH_LIMIT_QUESTION_MS;
	config->admin.n_acceptors = 1;
	*one = (struct kh_listener_config){
		.kind = KH_LISTEN_UNIX,
		.name = strdup(folder->ask_path),
		.unix_path = strdup(folder->ask_path),
		.token = -1,
		.mode = 0600,
		.owner = (uid_t)-1,
		.group = (gid_t)-1,
	};
	return one->name && one->unix_path;
}

void kh_run_ask_say(const struct kh_run_options *options, const struct kh_run_folder *folder)
{
	if (options->ask)
		kh_cli_complain("run: what no rule allows is refused, unless you answer with "
				"`keyhole ask %s` in another terminal",
				folder->id);
}

const struct kh_run_asks *kh_run_asking_choose(const struct kh_run_asking *asking,
					       const char *typed)
{
	if (typed && strncmp(typed, "run-", 4) == 0)
		typed += 4;
	for (size_t i = 0; typed && i < asking->n; i++)
		if (strcmp(asking->list[i].id + 4, typed) == 0)
			return &asking->list[i];
	if (!typed && asking->n == 1)
		return &asking->list[0];
	if (asking->n == 0)
		kh_cli_complain("ask: no `keyhole run --ask` of yours is running");
	else
		kh_cli_complain("ask: %s (say which: keyhole ask RUN); there are:",
				typed ? "no such run" : "several runs ask");
	for (size_t i = 0; i < asking->n; i++)
		(void)fprintf(stderr, "  %s\n", asking->list[i].id);
	return NULL;
}

bool kh_ask_take_keys(struct termios *before)
{
	struct termios now;
	if (tcgetattr(STDIN_FILENO, before) != 0)
		return false;
	now = *before;
	now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	now.c_cc[VMIN] = 1;
	now.c_cc[VTIME] = 0;
	return tcsetattr(STDIN_FILENO, TCSANOW, &now) == 0;
}
