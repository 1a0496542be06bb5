/* trust.c - `keyhole trust`: which configurations in workspaces `keyhole run` may use */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/slice.h>
#include <keyhole/base/writable.h>
#include <keyhole/config/config.h>
#include <keyhole/config/trusted_file.h>
#include <keyhole/sandbox/run_uses.h>
#include <keyhole/sandbox/workspace.h>

#include "cli_internal.h"

static const char usage[] =
	"usage: keyhole trust [FILE|DIR]\n"
	"       keyhole trust --list\n"
	"       keyhole trust --remove FILE|DIR\n"
	"Trusts the configuration of a project, keyhole.yaml or .keyhole/keyhole.yaml, as it is\n"
	"now. Then `keyhole run` uses it if its folder is the workspace. An agent may have\n"
	"written it, so read it first. The default is the current folder's.\n\n"
	"      --list    list what is trusted: the file, and whether it has changed since\n"
	"      --remove  trust it no longer\n"
	"  -h, --help    show this\n\n"
	"Exit status: 0 success, 1 failure, 2 wrong usage. The manual: keyhole-trust(1).\n";

static int fail(const struct kh_err *err)
{
	kh_cli_complain("trust: %s", err->text);
	return KH_EXIT_FAILED;
}

static bool ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), most = strlen(end);

	return len > most && strcmp(text + len - most, end) == 0;
}

/* The project's folder, without links, of what was typed: that folder, or the file. On the heap;
 * NULL: it was said why. */
static char *folder_of(const char *typed)
{
	struct stat st;
	char *folder = NULL;

	if (stat(typed, &st) == 0 && S_ISDIR(st.st_mode)) {
		folder = realpath(typed, NULL);
	} else {
		kh_auto_free char *copy = kh_slice_dup(kh_slice_str(typed));
		char *slash = copy ? strrchr(copy, '/') : NULL;
		if (slash)
			*slash = '\0';
		folder = copy ? realpath(slash ? (*copy ? copy : "/") : ".", NULL) : NULL;
		/* Of .keyhole/keyhole.yaml the project is the folder above. */
		if (folder && ends_with(folder, "/.keyhole"))
			*strrchr(folder, '/') = '\0';
	}
	if (!folder)
		kh_cli_complain("trust: %s: %s", kh_esc_str(typed), strerror(errno));
	return folder;
}

static bool is_typed(const char *typed, const char *path)
{
	struct stat one, other;

	return lstat(typed, &one) == 0 &&
	       (S_ISDIR(one.st_mode) || (lstat(path, &other) == 0 && one.st_dev == other.st_dev &&
					 one.st_ino == other.st_ino));
}

/* Its path, on the heap; NULL: it was said why. */
static char *find(const char *typed, char digest[KH_TRUSTED_HEX + 1])
{
	struct kh_err err = KH_ERR_INIT;
	kh_auto_free char *folder = folder_of(typed);
	kh_auto_free char *path = NULL;

	if (!folder)
		return NULL;
	if (!kh_trusted_file_find(folder, &path, digest, &err)) {
		kh_cli_complain("trust: %s", err.text);
		return NULL;
	}
	if (path && is_typed(typed, path))
		return kh_steal_ptr(&path);
	if (path)
		kh_cli_complain("trust: %s: is not what `keyhole run` would use in its folder, "
				"which is %s",
				kh_esc_str(typed), kh_esc_str(path));
	else
		kh_cli_complain("trust: %s: has neither keyhole.yaml nor .keyhole/keyhole.yaml",
				kh_esc_str(folder));
	return NULL;
}

/* ---- whether a file is at rest ---- */

static struct kh_run_uses uses = KH_RUN_USES_INIT;

static bool note_live(struct kh_err *err)
{
	kh_auto_free char *state = kh_workspace_state();

	return kh_run_uses_note_folders(&uses, state, err);
}

/* No run begins before kh_run_uses_end, so none begins between this and the note. */
static bool hold_runs(struct kh_err *err)
{
	kh_auto_free char *state = kh_workspace_state();

	return kh_run_uses_lock(&uses, state, err) && kh_run_uses_write(&uses, err) &&
	       kh_writable_renew(note_live, err);
}

/* An agent that may write there could have exchanged what the person has read. */
static bool is_at_rest(const char *path)
{
	const char *folder = NULL;

	if (!kh_writable_leads(path, &folder))
		return true;
	kh_cli_complain("trust: %s: is not trusted: the agent of a live run may write there now, "
			"and could exchange the file after you have read it%s%s%s (end that run, "
			"then read the file again)",
			kh_esc_str(path), folder ? ": it is in " : "", folder ? folder : "",
			folder ? ", or is reached through it" : "");
	return false;
}

/* ---- the three things that it does ---- */

static int add_held(const char *typed)
{
	char digest[KH_TRUSTED_HEX + 1];
	struct kh_err err = KH_ERR_INIT;
	struct kh_diagnostics diags = { 0 };
	kh_auto_free char *path = find(typed, digest);

	if (!path || !is_at_rest(path))
		return KH_EXIT_FAILED;
	struct kh_config *config = kh_config_load_as(path, digest, NULL, &diags);
	kh_diagnostics_print(&diags, config, STDERR_FILENO);
	kh_diagnostics_fini(&diags);
	bool ok = config != NULL;
	kh_config_free(config);
	if (!ok)
		return KH_EXIT_FAILED;
	if (!kh_trusted_file_add(path, digest, &err))
		return fail(&err);
	printf("%s is trusted as it is now (SHA-256 %s)\n", kh_esc_str(path), digest);
	return fflush(stdout) == 0 ? 0 : KH_EXIT_FAILED;
}

static int add(const char *typed)
{
	struct kh_err err = KH_ERR_INIT;
	int status = hold_runs(&err) ? add_held(typed) : fail(&err);

	kh_run_uses_end(&uses);
	return status;
}

static int drop(const char *typed)
{
	static const char *const names[] = { "keyhole.yaml", ".keyhole/keyhole.yaml" };
	struct kh_err err = KH_ERR_INIT;
	kh_auto_free char *folder = folder_of(typed);
	bool any = false;

	/* The file itself may be gone. */
	for (size_t i = 0; folder && i < sizeof(names) / sizeof(names[0]); i++) {
		kh_auto_free char *path = kh_strf("%s/%s", folder, names[i]);
		bool was = false;
		if (!path || !kh_trusted_file_remove(path, &was, &err))
			return fail(&err);
		if (was)
			printf("%s is trusted no longer\n", kh_esc_str(path));
		any = any || was;
	}
	if (folder && !any)
		kh_cli_complain("trust: %s: was not trusted", kh_esc_str(typed));
	return any && fflush(stdout) == 0 ? 0 : KH_EXIT_FAILED;
}

static bool print_one(void *arg, const char *path, const char *digest)
{
	char found[KH_TRUSTED_HEX + 1];
	kh_auto_free char *folder = folder_of(path);
	kh_auto_free char *there = NULL;
	struct kh_err err = KH_ERR_INIT;
	const char *state = "is gone, or another file comes before it";

	(void)arg;
	if (folder && kh_trusted_file_find(folder, &there, found, &err) && there &&
	    strcmp(there, path) == 0)
		state = strcmp(found, digest) == 0 ? "trusted" : "has changed: is not used";
	printf("%s: %s\n", kh_esc_str(path), state);
	return true;
}

static int list(void)
{
	struct kh_err err = KH_ERR_INIT;

	if (!kh_trusted_file_list(print_one, NULL, &err))
		return fail(&err);
	return fflush(stdout) == 0 ? 0 : KH_EXIT_FAILED;
}

int kh_cli_trust(int argc, char **argv)
{
	static const struct option longs[] = { { "list", no_argument, NULL, 'l' },
					       { "remove", no_argument, NULL, 'r' },
					       { "help", no_argument, NULL, 'h' },
					       { NULL, 0, NULL, 0 } };
	bool lists = false, removes = false;

	for (int option; (option = kh_cli_option(argc, argv, "h", longs)) != -1;) {
		if (option == 'h') {
			fputs(usage, stdout);
			return fflush(stdout) == 0 ? 0 : KH_EXIT_FAILED;
		}
		if (option == '?')
			return KH_EXIT_USAGE;
		lists = lists || option == 'l';
		removes = removes || option == 'r';
	}
	int n = argc - optind;
	if (n > 1 || (lists && (removes || n > 0)) || (removes && n == 0)) {
		kh_cli_complain("trust: one FILE or DIR, or --list, or --remove FILE|DIR (`keyhole "
				"trust --help`)");
		return KH_EXIT_USAGE;
	}
	if (lists)
		return list();
	const char *typed = n > 0 ? argv[optind] : ".";
	return removes ? drop(typed) : add(typed);
}
