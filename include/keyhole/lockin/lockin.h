/* lockin.h - how a process that reads hostile bytes locks itself in */
#ifndef KEYHOLE_LOCKIN_LOCKIN_H
#define KEYHOLE_LOCKIN_LOCKIN_H

#include <stdbool.h>

#include <keyhole/base/err.h>

/* In stages; each says what must hold before and what holds after.
 */
/* `user`: config.worker_user. Must run before any thread is started; afterwards: unprivileged uid
 * and gid, no groups, no capabilities, no new privileges, not dumpable, Landlock with nothing
 * allowed, and the seccomp allowlist. */
bool kh_lockin(const char *user, struct kh_err *err);
/* Is there such a user for a worker of root's? Changes nothing. NULL is the default one. */
bool kh_lockin_user_look(const char *user, struct kh_err *err);

#endif
