/* lockin.h - the lock-in of a process that reads hostile bytes */
#ifndef KEYHOLE_LOCKIN_LOCKIN_H
#define KEYHOLE_LOCKIN_LOCKIN_H

#include <stdbool.h>

#include <keyhole/base/err.h>

/* The stages are in lockin.c. */
/* Locks this process in, for good. Must run before any thread is started. Afterwards it has no
 * capability, no new privileges, is not dumpable, dies with its parent, and has the seccomp
 * allowlist; Landlock allows it to open nothing (a kernel without Landlock is only a warning). If
 * root calls it, it also becomes `user` (config.worker_user; NULL: the default one), without groups
 * and, if possible, in an empty root folder; any other user keeps its uid and root folder. Return:
 * false with `err`: the process is half locked in and must exit. */
bool kh_lockin(const char *user, struct kh_err *err);
/* Could root's worker run as this user? NULL: the default one. Changes nothing. Return: false with
 * `err`. */
bool kh_lockin_user_look(const char *user, struct kh_err *err);

#endif
