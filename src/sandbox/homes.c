/*
 * homes.c - mounts the home, and refuses home folders of users as workspaces
 *
 * .bashrc, .profile, .ssh/rc, .config/autostart, .local/bin: no list of what is run from a home
 * folder is complete. So neither a home folder nor a folder above one can be a writable workspace.
 * $HOME alone does not decide: a new login may have another home, and root may work in another
 * user's.
 */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>

#include "git_path.h"
#include "homes.h"
#include "outlets.h"
#include "sandbox_internal.h"

/* Is the folder this home, or above it, by whatever mount? The home is followed through links. */
static bool holds(const char *folder, int held, const char *home)
{
	kh_auto_free char *real = home && home[0] == '/' ? realpath(home, NULL) : NULL;
	kh_auto_free char *source = strdup(folder);
	if (!real)
		return false;
	struct kh_mount only = {
		.kind = KH_MOUNT_READ, .source = source, .fd = held, .tree = KH_TREE_AS_IS
	};
	const struct kh_view view = { .list = &only, .n = 1 };
	const char *const path = real;
	return !source || kh_git_holds(folder, real) || !kh_forbidden_check(&view, &path, 1, NULL);
}

static bool holds_home_of(const char *folder, int held, uid_t uid)
{
	/* cppcheck-suppress getpwuidCalled ; one thread */
	const struct passwd *user = getpwuid(uid);
	return user && holds(folder, held, user->pw_dir);
}

bool kh_homes_check(const char *option, const char *path, const char *instead, struct kh_err *err)
{
	struct stat st;
	struct kh_err why = KH_ERR_INIT;
	kh_auto_close int fd = kh_file_hold_again(path, NULL, &why);
	/* What is absent is refused elsewhere. */
	if (fd < 0 && errno != ELOOP)
		return true;
	if (fd < 0 || fstat(fd, &st) != 0)
		return kh_err_set(err, KH_ERR_USAGE, "%s %s", option, why.text);
	if (!holds(path, fd, getenv("HOME")) && !holds_home_of(path, fd, geteuid()) &&
	    !holds_home_of(path, fd, st.st_uid))
		return true;
	return kh_err_set(
		err, KH_ERR_USAGE,
		"%s %s: is a home folder, or has one in it. What shells, logins and ssh "
		"start there (.bashrc, .profile, .ssh …) could not be kept from the agent "
		"(%s)",
		option, kh_esc_str(path), instead);
}

/* A file that is called .git names the repository. An empty folder is a mountpoint of keyhole's. */
static bool is_tree(int folder)
{
	struct stat st;
	return fstatat(folder, ".git", &st, 0) == 0 &&
	       (S_ISREG(st.st_mode) || fstatat(folder, ".git/HEAD", &st, AT_SYMLINK_NOFOLLOW) == 0);
}

/* Cuts the path to the nearest folder that is the top of a repository, or to "" where none is.
 * Return: false with `err`: that can't be told. */
static bool find_tree(char *at, bool *found, struct kh_err *err)
{
	for (*found = false;; *strrchr(at, '/') = '\0') {
		kh_auto_close int fd = kh_file_hold_again(*at ? at : "/", NULL, err);
		if (fd < 0)
			return kh_err_wrap(err, "--home");
		*found = is_tree(fd);
		if (*found || !*at)
			return true;
	}
}

/* No survey looks through a home: git, editors and prompts on the host would find what is in there.
 * A repository at its top is the agent's own if a run has had this home before. */
static bool check_repository(const struct kh_sandbox_spec *spec, struct kh_err *err)
{
	bool found = false;
	kh_auto_free char *tree = strdup(spec->home);
	if (!tree)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "--home: no memory");
	if (kh_outlets_was_home(spec->state, tree))
		*strrchr(tree, '/') = '\0';
	if (!find_tree(tree, &found, err))
		return false;
	return !found ||
	       kh_err_set(
		       err, KH_ERR_USAGE,
		       "--home %s: is in the git repository %s. No run looks through a home "
		       "afterwards, so that git and editors there would run what the agent leaves "
		       "in it (name a folder outside of any repository)",
		       kh_esc_str(spec->home), *tree ? kh_esc_str(tree) : "/");
}

bool kh_homes_plan(struct kh_view *view, const struct kh_sandbox_spec *spec, struct kh_err *err)
{
	if (!spec->home) {
		kh_view_over(view, KH_MOUNT_TMPFS, KH_SANDBOX_HOME, 0755);
		return true;
	}
	struct stat st;
	kh_auto_close int fd = kh_file_hold_again(spec->home, spec->home_held, err);
	if (fd < 0 || fstat(fd, &st) != 0)
		return kh_err_wrap(err, "--home");
	if (!S_ISDIR(st.st_mode) || strcmp(spec->home, "/") == 0)
		return kh_err_set(err, KH_ERR_USAGE, "--home %s: must be a folder of its own",
				  kh_esc_str(spec->home));
	bool overlap = false;
	if (spec->workspace && !kh_forbidden_overlap(spec->home, spec->workspace, &overlap, err))
		return false;
	if (overlap)
		return kh_err_set(err, KH_ERR_USAGE,
				  "--home %s: one of it and the workspace is in the other, so that "
				  "what is protected there could be written to by its other name "
				  "(name a folder outside of the workspace)",
				  kh_esc_str(spec->home));
	if (!kh_homes_check("--home", spec->home,
			    "name a folder that is made for the agent, such as ~/agent-home",
			    err) ||
	    !check_repository(spec, err))
		return false;
	kh_view_bind_fd(view, KH_MOUNT_WRITE, spec->home, KH_SANDBOX_HOME, KH_TREE_AS_OWNER,
			kh_steal_fd(&fd));
	return true;
}
