/* workspace.h - what keyhole keeps about workspaces outside of them: runs, and what was set aside
 */
#ifndef KEYHOLE_SANDBOX_WORKSPACE_H
#define KEYHOLE_SANDBOX_WORKSPACE_H

#include <stdbool.h>
#include <stddef.h>

#include <keyhole/base/err.h>

/*
 * The folder for it: $STATE_DIRECTORY or /var/lib/keyhole for root; $XDG_STATE_HOME/keyhole or
 * ~/.local/state/keyhole for others. A sandbox is never shown it. Heap. Return: NULL where the
 * environment names none.
 */
char *kh_workspace_state(void);

/*
 * Looks through the workspaces of runs that have ended without doing it themselves (their launcher
 * was killed), sets aside what could run on the host, and removes what they had put there. What it
 * finds goes to the log. Return: nothing is left to do; false: err says why.
 */
bool kh_workspace_survey(const char *state, struct kh_err *err);

/* Has a run been killed whose workspace nobody has looked through since? */
bool kh_workspace_is_unsurveyed(const char *state);

/* One thing that was set aside: a hook, a configuration file, a link, a socket … */
struct kh_set_aside {
	char *id;     /* RUN/N: what kh_workspace_restore takes */
	char *path;   /* where it was; absolute */
	char *reason; /* "a hook that git would run" */
};
/* All of them, oldest run first. Return: NULL (with *count 0) where there are none. */
struct kh_set_aside *kh_workspace_set_aside(const char *state, size_t *count);
void kh_workspace_set_aside_free(struct kh_set_aside *list, size_t n);
/*
 * Puts it back where it was: `id` is RUN/N. No symbolic link is followed on the way there. What has
 * been made under its name since is kept (false), unless keyhole itself has put it there: the
 * harmless part of a configuration file.
 */
bool kh_workspace_restore(const char *state, const char *id, struct kh_err *err);

#endif
