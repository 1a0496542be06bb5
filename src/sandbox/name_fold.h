/* name_fold.h - names that a case-insensitive file system treats as equal */
#ifndef KEYHOLE_SANDBOX_NAME_FOLD_H
#define KEYHOLE_SANDBOX_NAME_FOLD_H

#include <stdbool.h>

enum { KH_NAME_FOLD_ROOM = 256 };
/*
 * Folds a name as a file system with Unicode case folding may do (ext4 and f2fs with casefold, ZFS,
 * network shares): ASCII letters become lower case, letters that fold to ASCII become ASCII, and
 * ignorable characters are removed. So is what file systems of Windows ignore: dots and blanks at
 * the end, and a colon with what follows; git~1 becomes .git. Nothing is left of "." and "..".
 * Return: `room`.
 */
const char *kh_name_fold(const char *name, char room[KH_NAME_FOLD_ROOM]);
/* Folds each name of a path, except one of which nothing would be left. Heap; NULL without memory.
 */
char *kh_name_fold_path(const char *path);
/* May a file system treat `name` as equal to `wanted`, which is ASCII? */
bool kh_name_fold_is(const char *name, const char *wanted);

#endif
