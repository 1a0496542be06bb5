/* git_path.h - resolves a path in git's configuration */
#ifndef KEYHOLE_SANDBOX_GIT_PATH_H
#define KEYHOLE_SANDBOX_GIT_PATH_H

#include <stdbool.h>

#include <keyhole/base/slice.h>

/* Removes "." and ".." from the text of a path, in place. */
void kh_git_normalise(char *path);
/* Resolves the symbolic links of an absolute path; the part that does not exist is normalised as
 * text. Heap. Return: NULL: no memory, or too long. */
char *kh_git_resolve(const char *path);
/* The path that a file of git says after `prefix` (a .git file, a commondir), as git reads it:
 * each CR and LF at the end of the file is dropped, and then a NUL ends the path. git takes a .git
 * file of up to a mebibyte (KH_LIMIT_SURVEY_FILE_BYTES). Heap. Return: NULL: none, or no memory. */
char *kh_git_pointed(struct kh_slice text, const char *prefix);
/* Is the path below the folder? Both must be normalised. */
bool kh_git_is_inside(const char *path, const char *folder);
/* Is it the folder, or one above it? */
bool kh_git_holds(const char *path, const char *folder);

#endif
