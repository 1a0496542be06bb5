/* seccomp_internal.h - the two halves of the system call filter */
#ifndef KEYHOLE_SANDBOX_SECCOMP_INTERNAL_H
#define KEYHOLE_SANDBOX_SECCOMP_INTERNAL_H

#include <stdbool.h>

#include <seccomp.h>

/* seccomp_calls.c: allows the calls that a sandbox has. Return: false where the library refuses. */
bool kh_seccomp_allow(scmp_filter_ctx ctx);

#endif
