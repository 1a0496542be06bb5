/* lock_file.h - files that exist to be locked */
#ifndef KEYHOLE_BASE_LOCK_FILE_H
#define KEYHOLE_BASE_LOCK_FILE_H

#include <keyhole/base/err.h>

/*
 * Opens a lock file for reading and writing, or makes it with mode 0600. flock() needs only a
 * descriptor, so whoever may open the file, even to read it, can hold its lock for ever. Therefore
 * it must be a regular file, no link, owned by this user or root, with no permission for group or
 * others. Return: the descriptor, the caller's; -1 with `err`: KH_ERR_CONFIG if the file is not to
 * be trusted, else KH_ERR_SYSTEM with open(2)'s errno in `sys`.
 */
int kh_lock_file_open(const char *path, struct kh_err *err);

#endif
