/* git_state.h - the files in which git keeps an operation in progress */
#ifndef KEYHOLE_SANDBOX_GIT_STATE_H
#define KEYHOLE_SANDBOX_GIT_STATE_H

#include <keyhole/base/slice.h>

/* Is that a folder of a git folder that holds a rebase, an am, a cherry-pick or a revert? */
bool kh_git_state_is_folder(const char *name);
/*
 * Does the file of such a folder have the form that git gives it, so that git, and the shell
 * prompts that read it, run nothing and read and write nothing elsewhere because of it? A file
 * with a name that is not known has no known form. `text`: its whole content.
 */
bool kh_git_state_is_harmless(const char *folder, const char *name, struct kh_slice text);
/* The same for a file of the git folder itself; what is no state is harmless. */
bool kh_git_state_is_harmless_at_top(const char *name, struct kh_slice text);
/* Is that a file of the git folder itself which the function above judges? */
bool kh_git_state_is_at_top(const char *name);

#endif
