/*
 * socket_options.h - the options of a socket that a worker may set
 *
 * A listener is the same open socket in each worker and in the keeper, and a connection that is
 * accepted has the listener's options. So what the lock-in lets a worker set (src/lockin/seccomp.c)
 * is what the keeper sets back before the next one starts (kh_listener_reset): both are made from
 * this list. Each is an int.
 */
#ifndef KEYHOLE_BASE_SOCKET_OPTIONS_H
#define KEYHOLE_BASE_SOCKET_OPTIONS_H

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#define KH_WORKER_SOCKET_OPTIONS(X) \
	X(SOL_SOCKET, SO_KEEPALIVE) \
	X(IPPROTO_TCP, TCP_NODELAY) \
	X(IPPROTO_TCP, TCP_KEEPIDLE) \
	X(IPPROTO_TCP, TCP_KEEPINTVL) \
	X(IPPROTO_TCP, TCP_KEEPCNT)

#endif
