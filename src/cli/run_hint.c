/* run_hint.c - a hint what to do if the command could not be executed */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>

#include "run_internal.h"

/* A tool that is on the host's PATH only. Heap, or NULL. */
static char *find_outside(const char *name)
{
	const char *path = strchr(name, '/') ? NULL : getenv("PATH");
	while (path && *path) {
		size_t len = strcspn(path, ":");
		kh_auto_free char *candidate = kh_strf("%.*s/%s", (int)len, path, name);
		if (candidate && candidate[0] == '/' && access(candidate, X_OK) == 0)
			return realpath(candidate, NULL);
		path += len + (path[len] == ':');
	}
	return NULL;
}

/* Behind the kernel's words. */
static void append(struct kh_err *err, const char *hint)
{
	const struct kh_err cause = *err;
	kh_err_set(err, cause.code, "%s (%s)", cause.text, hint);
	err->sys = cause.sys;
}

static void absent_everywhere(const char *command, struct kh_err *err)
{
	size_t n = 0;
	char **names = kh_agent_profile_names(&n);
	const char *near = names ? kh_cli_nearest(command, (const char *const *)names, n) : NULL;
	kh_auto_free char *hint =
		near ? kh_strf("no such program on the PATH, here or in the sandbox: did you mean "
			       "%s?",
			       near)
		     : NULL;
	append(err,
	       hint ? hint : "no such program on the PATH, here or in the sandbox: install it");
	for (size_t i = 0; names && i < n; i++)
		free(names[i]);
	free(names);
}

static void absent(const char *command, bool own_root, struct kh_err *err)
{
	if (own_root) {
		append(err, "the root of --image or --rootfs has no such program, or not the "
			    "interpreter of its first line");
		return;
	}
	kh_auto_free char *outside = find_outside(command);
	if (outside)
		kh_err_set(
			err, KH_ERR_USAGE,
			"%s: is not in the sandbox (on the host it is %s: show the folder that it "
			"is installed in with --ro, and call it by that path)",
			kh_esc_str(command), kh_esc_str(outside));
	else if (strchr(command, '/'))
		append(err, "no such file in the sandbox, or not the interpreter of its first "
			    "line: --workspace and --ro show folders of the host");
	else
		absent_everywhere(command, err);
}

/* Of the working folder: "notes.txt", "src/main.c", or its whole path. */
static bool is_of_the_folder(const char *name)
{
	kh_auto_free char *folder = getcwd(NULL, 0);
	size_t len = folder ? strlen(folder) : 0;
	if (!name[0] || name[0] == '-' || len < 2)
		return false;
	if (name[0] == '/' && (strncmp(name, folder, len) != 0 || name[len] != '/'))
		return false;
	return access(name, F_OK) == 0;
}

void kh_run_hint_workspace(const struct kh_run_options *options, int status)
{
	/* A profile has said why there is none. */
	if (status == 0 || status >= KH_EXIT_KEYHOLE || options->workspace || options->profile)
		return;
	for (char **word = options->command; *word && word[1]; word++)
		if (is_of_the_folder(word[1])) {
			kh_cli_complain("run: %s is on the host, and this run has no workspace: "
					"--workspace . shows the current folder to the command",
					kh_esc_str(word[1]));
			return;
		}
}

void kh_run_hint(const struct kh_run_options *options, const struct kh_run_image *image, int status,
		 struct kh_err *err)
{
	const char *command = image->is_open ? image->argv[0] : options->command[0];
	if (!command)
		return;
	if (status == KH_EXIT_NOT_FOUND)
		absent(command, image->is_open || options->rootfs, err);
	else if (status == KH_EXIT_NOT_EXECUTABLE && err->sys == EACCES)
		append(err, "it wants to be a file with the right to execute: chmod +x");
	else if (status == KH_EXIT_NOT_EXECUTABLE && err->sys == ENOEXEC)
		append(err, "it is no program for this machine");
}
