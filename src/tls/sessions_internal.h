/* sessions_internal.h - what an upstream handshake does with sessions */
#ifndef KEYHOLE_TLS_SESSIONS_INTERNAL_H
#define KEYHOLE_TLS_SESSIONS_INTERNAL_H

#include "tls_internal.h"

/* The caller's own now; NULL: none that is fresh. */
SSL_SESSION *kh_sessions_take(struct kh_sessions *sessions, struct kh_slice key);
/* Takes the session over. Return: false without memory: it stays the caller's. */
bool kh_sessions_put(struct kh_sessions *sessions, struct kh_slice key, SSL_SESSION *session);

#endif
