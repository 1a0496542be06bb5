/* lockin_internal.h - the parts of the lock-in: Landlock and seccomp */
#ifndef KEYHOLE_LOCKIN_LOCKIN_INTERNAL_H
#define KEYHOLE_LOCKIN_LOCKIN_INTERNAL_H

#include <stdbool.h>

#include <keyhole/base/err.h>

/* Both need no_new_privs (or CAP_SYS_ADMIN), and that no other thread runs yet. */

/* Return: false only when the kernel has Landlock and still refused; *abi is 0 where it has none.
 */
bool kh_lockin_landlock(int *abi, struct kh_err *err);
bool kh_lockin_seccomp(struct kh_err *err);

/* Installs the signal handler for open and openat (lockin_open.c). Return: true if this
 * architecture has one. */
bool kh_lockin_lends(void);

#endif
