/* git_path.h - resolves a path in git's configuration */
#ifndef KEYHOLE_SANDBOX_GIT_PATH_H
#define KEYHOLE_SANDBOX_GIT_PATH_H

#include <stdbool.h>

/* Removes "." and ".." from the text of a path, in place. */
void kh_git_normalise(char *path);
/* Resolves the symbolic links of an absolute path; the part that does not exist is normalised as
 * text. Heap. Return: NULL: no memory, or too long. */
char *kh_git_resolve(const char *path);
/* Is the path below the folder? Both must be normalised. */
bool kh_git_is_inside(const char *path, const char *folder);
/* Is it the folder, or one above it? */
bool kh_git_holds(const char *path, const char *folder);

#endif
