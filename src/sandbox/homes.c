/*
 * homes.c - folders in which shells and logins start what they find
 *
 * .bashrc, .profile, .ssh/rc, .config/autostart, .local/bin: in a home nobody can list what is
 * started from there. So no home is a workspace that can be written to, nor is a folder with one in
 * it. $HOME may not be the home that a new login has, and root may work in somebody else's.
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
