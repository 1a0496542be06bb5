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
		append(err, "no such program on the PATH, here or in the sandbox: install it");
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
