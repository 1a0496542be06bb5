/*
 * homes.c - refuses home folders, from which shells and logins run files, as workspaces
 *
 * .bashrc, .profile, .ssh/rc, .config/autostart, .local/bin: no list of what is run from a home
 * folder is complete. So neither a home folder nor a folder above one can be a writable workspace.
 * $HOME alone does not decide: a new login may have another home, and root may work in another
 * user's.
 */
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>

#include "git_path.h"
#include "homes.h"

/* Is the folder this home, or above it? Both are followed through links. */
static bool holds(const char *folder, const char *home)
{
	kh_auto_free char *real = home && home[0] == '/' ? realpath(home, NULL) : NULL;
	return real && kh_git_holds(folder, real);
}

static bool holds_home_of(const char *folder, uid_t uid)
{
	/* cppcheck-suppress getpwuidCalled ; one thread */
	const struct passwd *user = getpwuid(uid);
	return user && holds(folder, user->pw_dir);
}

bool kh_homes_check(const char *option, const char *path, const char *instead, struct kh_err *err)
{
	struct stat st;
	kh_auto_free char *real = realpath(path, NULL);
	/* What is absent is refused elsewhere. */
	if (!real || stat(real, &st) != 0)
		return true;
	if (!holds(real, getenv("HOME")) && !holds_home_of(real, geteuid()) &&
	    !holds_home_of(real, st.st_uid))
		return true;
	return kh_err_set(
		err, KH_ERR_USAGE,
		"%s %s: is a home folder, or has one in it. What shells, logins and ssh "
		"start there (.bashrc, .profile, .ssh …) could not be kept from the agent "
		"(%s)",
		option, kh_esc_str(path), instead);
}
