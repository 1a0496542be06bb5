/* roots_internal.h - what an upstream handshake takes from the roots */
#ifndef KEYHOLE_TLS_ROOTS_INTERNAL_H
#define KEYHOLE_TLS_ROOTS_INTERNAL_H

#include "tls_internal.h"

/* A reference for the caller and the number of this load; NULL: not loaded yet. */
X509_STORE *kh_roots_get(struct kh_roots *roots, unsigned long *generation);

#endif
