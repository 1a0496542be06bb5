/* git_path.h - resolves a path in git's configuration */
#ifndef KEYHOLE_SANDBOX_GIT_PATH_H
#define KEYHOLE_SANDBOX_GIT_PATH_H

#include <stdbool.h>

/* Without "." and "..", by its letters. In place. */
void kh_git_normalise(char *path);
/* The absolute path through no link; the rest of one that does not exist, by its letters. Heap.
 * Return: NULL without memory, or where it is too long. */
char *kh_git_resolve(const char *path);
/* Is the path below the folder? Both are normal. */
bool kh_git_is_inside(const char *path, const char *folder);
/* Is it the folder, or one above it? */
bool kh_git_holds(const char *path, const char *folder);

#endif
