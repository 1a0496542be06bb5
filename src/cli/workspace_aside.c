/* workspace_aside.c - `keyhole workspace set-aside`, `restore` and `survey` */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/sandbox/workspace.h>

#include "show_text.h"
#include "workspace_internal.h"

static int set_aside(const char *state, char *const *words)
{
	size_t n = 0;
	if (*words) {
		kh_cli_complain("workspace set-aside: takes no argument, got %s",
				kh_esc_str(*words));
		return KH_EXIT_USAGE;
	}
	struct kh_set_aside *all = kh_workspace_set_aside(state, &n);
	for (size_t i = 0; i < n; i++) {
		struct kh_row line;
		FILE *row = kh_row_open(&line, stdout);
		fprintf(row, "%s  ", all[i].id);
		kh_show_name(row, all[i].path);
		fprintf(row, "  %s", kh_esc_str(all[i].reason));
		kh_row_close(&line);
	}
	kh_workspace_set_aside_free(all, n);
	if (kh_workspace_is_unsurveyed(state))
		kh_cli_complain("a run was killed before its workspace was looked through: run "
				"`keyhole workspace survey`");
	else if (n == 0)
		kh_cli_complain("nothing is set aside");
	return fflush(stdout) == 0 ? 0 : KH_EXIT_FAILED;
}

/* RUN/N itself, or RUN. */
static bool is_meant(const char *id, const char *word)
{
	size_t len = strlen(word);
	return strcmp(id, word) == 0 || (strncmp(id, word, len) == 0 && id[len] == '/');
}

static bool restore_one(const char *state, const struct kh_set_aside *one)
{
	struct kh_err err = KH_ERR_INIT;
	if (kh_workspace_restore(state, one->id, &err)) {
		struct kh_row line;
		kh_show_name(kh_row_open(&line, stdout), one->path);
		kh_row_close(&line);
		return true;
	}
	kh_cli_complain_err(&err);
	return false;
}

static int restore(const char *state, char *const *words)
{
	if (!*words) {
		kh_cli_complain("workspace restore: which? (`keyhole workspace set-aside` "
				"shows them)");
		return KH_EXIT_USAGE;
	}
	size_t n = 0;
	bool ok = true;
	struct kh_set_aside *all = kh_workspace_set_aside(state, &n);
	for (; *words; words++) {
		bool found = false;
		for (size_t i = 0; i < n; i++) {
			if (!is_meant(all[i].id, *words))
				continue;
			found = true;
			ok = restore_one(state, &all[i]) && ok;
		}
		if (!found)
			kh_cli_complain("%s: nothing of that name was set aside (`keyhole "
					"workspace set-aside` shows what was)",
					kh_esc_str(*words));
		ok = ok && found;
	}
	kh_workspace_set_aside_free(all, n);
	return ok && fflush(stdout) == 0 ? 0 : KH_EXIT_FAILED;
}

static int survey(const char *state, char *const *words)
{
	struct kh_err err = KH_ERR_INIT;
	if (*words) {
		kh_cli_complain("workspace survey: takes no argument, got %s", kh_esc_str(*words));
		return KH_EXIT_USAGE;
	}
	if (kh_workspace_survey(state, &err))
		return 0;
	kh_cli_complain_err(&err);
	return KH_EXIT_FAILED;
}

static const struct {
	const char *name;
	int (*run)(const char *state, char *const *words);
} commands[] = {
	{ "set-aside", set_aside },
	{ "restore", restore },
	{ "survey", survey },
};

bool kh_workspace_aside(const char *command, char *const *words, int *status)
{
	kh_auto_free char *state = kh_workspace_state();
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(command, commands[i].name) != 0)
			continue;
		*status = state ? commands[i].run(state, words) : KH_EXIT_FAILED;
		if (!state)
			kh_cli_complain("workspace: there is no folder of notes (set HOME or "
					"XDG_STATE_HOME)");
		return true;
	}
	return false;
}
