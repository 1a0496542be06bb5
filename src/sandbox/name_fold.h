/* name_fold.h - names that a file system may take for others */
#ifndef KEYHOLE_SANDBOX_NAME_FOLD_H
#define KEYHOLE_SANDBOX_NAME_FOLD_H

#include <stdbool.h>

enum { KH_NAME_FOLD_ROOM = 256 };
/*
 * The name in ASCII lower case, where a file system that folds case by Unicode's rules (ext4 and
 * f2fs with casefold, ZFS, a share of another system) may take it for one in ASCII: the letters
 * that fold to ASCII become that, and what such a file system ignores is left out. Return: `room`.
 */
const char *kh_name_fold(const char *name, char room[KH_NAME_FOLD_ROOM]);
/* May a file system take `name` for `wanted`, which is ASCII? */
bool kh_name_fold_is(const char *name, const char *wanted);

#endif
