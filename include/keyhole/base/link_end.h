/* link_end.h - resolves a symbolic link as the host would */
#ifndef KEYHOLE_BASE_LINK_END_H
#define KEYHOLE_BASE_LINK_END_H

#include <stdbool.h>
#include <sys/stat.h>

enum kh_link_end {
	KH_LINK_NO_FOLDER, /* its target is not a folder */
	KH_LINK_OUTSIDE,
	KH_LINK_INSIDE,
	KH_LINK_UNKNOWN, /* depends on the process, or could not be determined */
};

/* Follows the link `name` in the folder `dir` step by step, in any spelling, and triggers no
 * automount. KH_LINK_INSIDE: *path is its target below the folder `root`, without links (heap). */
enum kh_link_end kh_link_end(int root, int dir, const char *name, char **path);
/* Follows it in the same way, and calls `met` for each folder on its way: the last is where it
 * ends, or what holds the file at its end, or what would hold what is absent. Return: false: where
 * it leads depends on the process, or could not be determined. */
bool kh_link_end_each(int dir, const char *name, void (*met)(void *arg, const struct stat *folder),
		      void *arg);

#endif
