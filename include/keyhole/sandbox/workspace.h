/* workspace.h - keyhole's state about workspaces, kept outside of them: runs, and what was set
 * aside */
#ifndef KEYHOLE_SANDBOX_WORKSPACE_H
#define KEYHOLE_SANDBOX_WORKSPACE_H

#include <stdbool.h>
#include <stddef.h>

#include <keyhole/base/err.h>

/*
 * The folder for this state: $STATE_DIRECTORY or /var/lib/keyhole for root; $XDG_STATE_HOME/keyhole
 * or ~/.local/state/keyhole for others. No sandbox ever sees it. Heap. Return: NULL: the
 * environment names none.
 */
char *kh_workspace_state(void);

/* May a sandbox write to this folder as its workspace: neither a home nor a folder above one, nor
 * one of the system's? The path has no links in it. Return: false, and err says why. */
bool kh_workspace_may_be(const char *path, struct kh_err *err);

/* For kh_writable_renew: notes in the list of writable.h where sandboxes of other runs can write,
 * or could: the homes of all runs, and each workspace that a run has now or that has not been
 * surveyed since. */
bool kh_workspace_note_written(const char *state, struct kh_err *err);

/*
 * Surveys the workspaces of runs that ended without a survey (their launcher was killed): sets
 * aside what could run on the host, and removes the stubs of those runs. Logs what it finds.
 * Return: true: nothing is left to do; false: `err` says why.
 */
bool kh_workspace_survey(const char *state, struct kh_err *err);

/* Was a run killed whose workspace has not been surveyed since? */
bool kh_workspace_is_unsurveyed(const char *state);

/* One thing that was set aside: a hook, a configuration file, a link, a socket … */
struct kh_set_aside {
	char *id;     /* RUN/N, for kh_workspace_restore */
	char *path;   /* where it was; absolute */
	char *reason; /* "a hook that git would run" */
};
/* Everything that is set aside, oldest run first; freed with kh_workspace_set_aside_free. Return:
 * NULL (with *count 0): nothing. */
struct kh_set_aside *kh_workspace_set_aside(const char *state, size_t *count);
void kh_workspace_set_aside_free(struct kh_set_aside *list, size_t n);
/*
 * Restores one thing to its place: `id` is RUN/N. Follows no symbolic link on the path. If
 * something has been created under its name since, that is kept and this is an error, unless
 * keyhole itself put it there (the harmless part of a configuration file).
 */
bool kh_workspace_restore(const char *state, const char *id, struct kh_err *err);

#endif
