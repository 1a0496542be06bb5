/* git_state.h - the files in which git keeps an operation in progress */
#ifndef KEYHOLE_SANDBOX_GIT_STATE_H
#define KEYHOLE_SANDBOX_GIT_STATE_H

#include <keyhole/base/slice.h>

/* Is it the name of a folder in a git folder with the state of a rebase, am, cherry-pick or
 * revert? */
bool kh_git_state_is_folder(const char *name);
/*
 * Does a file of such a folder have git's own form, so that git, and shell prompts that read it,
 * run nothing and access no other files because of it? A file with an unknown name is not harmless.
 * `text`: its whole content.
 */
bool kh_git_state_is_harmless(const char *folder, const char *name, struct kh_slice text);
/* The same for a file directly in the git folder; a file without state is harmless. */
bool kh_git_state_is_harmless_at_top(const char *name, struct kh_slice text);
/* Does the function above check this file? */
bool kh_git_state_is_at_top(const char *name);

#endif
