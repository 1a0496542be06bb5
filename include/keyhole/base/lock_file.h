/* lock_file.h - files that exist to be locked */
#ifndef KEYHOLE_BASE_LOCK_FILE_H
#define KEYHOLE_BASE_LOCK_FILE_H

#include <keyhole/base/err.h>

/*
 * Opens the file of a lock, to read and write, or makes it with mode 0600. flock() takes no more
 * than a descriptor, so whoever may open the file, even to read it, can hold its lock for ever: it
 * has to be a regular file, no link, of this user or root, that neither a group nor others may
 * open. Return: the descriptor; -1 with `err`: KH_ERR_CONFIG where such a file is not to be
 * trusted, else KH_ERR_SYSTEM with what open(2) says in `sys`.
 */
int kh_lock_file_open(const char *path, struct kh_err *err);

#endif
