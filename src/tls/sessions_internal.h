/* sessions_internal.h - what an upstream handshake does with sessions */
#ifndef KEYHOLE_TLS_SESSIONS_INTERNAL_H
#define KEYHOLE_TLS_SESSIONS_INTERNAL_H

#include "tls_internal.h"

/* Ownership passes to the caller; NULL: no unexpired session. */
SSL_SESSION *kh_sessions_take(struct kh_sessions *sessions, struct kh_slice key);
/* Keeps a copy without the server's chain. Return: false: it is too large, or there is no memory.
 */
bool kh_sessions_put(struct kh_sessions *sessions, struct kh_slice key, SSL_SESSION *session);

#endif
