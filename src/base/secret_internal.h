/* secret_internal.h - for the tests of secret.c only */
#ifndef KEYHOLE_BASE_SECRET_INTERNAL_H
#define KEYHOLE_BASE_SECRET_INTERNAL_H

#include <stdbool.h>

/* Goes on as if the kernel had no memfd_secret (true), or asks it anew (false). */
void kh_secret_force_memfd(bool on);

#endif
