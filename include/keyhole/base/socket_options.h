/*
 * socket_options.h - the socket options that a worker may set
 *
 * The keeper and each worker share the same open listening sockets, and an accepted connection
 * inherits the options of its listener. A worker that was taken over may have changed them. So the
 * keeper resets them before the next worker starts (kh_listener_reset). The lock-in
 * (src/lockin/seccomp.c) allows exactly the options that are reset: both use this list. Each is an
 * int.
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
