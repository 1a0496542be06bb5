/* flight_internal.h - what an upstream's messages may ask of a handshake (flight.c) */
#ifndef KEYHOLE_TLS_FLIGHT_INTERNAL_H
#define KEYHOLE_TLS_FLIGHT_INTERNAL_H

#include "stream_internal.h"

#define KH_EXCESS_OF_AUTHORITIES "it named too many authorities for a client's certificate"

/* OpenSSL's message callback towards upstreams. A message with too much in it fails, and
 * handshake->excess says why. */
void kh_stream_on_flight(int sent, int version, int kind, const void *bytes, size_t len, SSL *ssl,
			 void *arg);
/* After the verification: frees all that the server sent but its own certificate. */
void kh_stream_forget_chain(STACK_OF(X509) * sent);
/* After each step of a handshake with an upstream: frees the names that it gave of authorities.
 * Return: false: there were more than KH_LIMIT_TLS_AUTHORITIES. */
bool kh_stream_forget_flight(struct kh_stream *s);

#endif
