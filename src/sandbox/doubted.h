/* doubted.h - protected names under which the agent may have put something while a sandbox ran */
#ifndef KEYHOLE_SANDBOX_DOUBTED_H
#define KEYHOLE_SANDBOX_DOUBTED_H

#include <stdbool.h>

#include <keyhole/base/err.h>
#include <keyhole/base/slice.h>

/*
 * Where somebody on the host removes a protected file, the mount over it is gone. Until the
 * launcher has put something in its place, the agent can take the name. What has the name
 * afterwards may be the host's (an editor, `git checkout`) or the agent's, and nothing tells which:
 * both are the same user. It is the same where the launcher was stopped, or could not protect a
 * name again. So the survey after the run does not take it for what was there before.
 */

/* Adds to the note "doubted" of a run's record. Return: false with `err`. */
bool kh_doubted_note(const char *record, const char *path, struct kh_err *err);
/* Is `path` in the list (paths, each with a NUL), or below one of it? */
bool kh_doubted_has(struct kh_slice list, const char *path);

#endif
