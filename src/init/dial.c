/*
 * dial.c - connects to a server inside, without waiting
 *
 * On Linux a connect(2) on lo usually completes before it returns, but not if the server's queue is
 * full, and gVisor's kernel does not guarantee it. So the socket is non-blocking, and its state is
 * checked whenever the descriptor is ready.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "init_internal.h"

static enum init_dialled why_not(int why, bool is_v6)
{
	bool no_address = why == EADDRNOTAVAIL || why == EAFNOSUPPORT || why == ENETUNREACH;
	return why == ECONNREFUSED || (is_v6 && no_address) ? INIT_DIAL_NOBODY : INIT_DIAL_FAILED;
}

enum init_dialled init_dial(uint16_t port, bool is_v6, int *fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} addr = { .any.sa_family = is_v6 ? AF_INET6 : AF_INET };
	socklen_t len = is_v6 ? sizeof(addr.v6) : sizeof(addr.v4);
	if (is_v6) {
		addr.v6.sin6_port = htons(port);
		addr.v6.sin6_addr = in6addr_loopback;
	} else {
		addr.v4.sin_port = htons(port);
		addr.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	}
	*fd = socket(addr.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (*fd < 0)
		return why_not(errno, is_v6);
	int on = 1;
	setsockopt(*fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (connect(*fd, &addr.any, len) == 0 || errno == EINPROGRESS)
		return INIT_DIAL_WAITS;
	enum init_dialled now = why_not(errno, is_v6);
	close(*fd);
	*fd = -1;
	return now;
}

enum init_dialled init_dial_look(int fd, bool is_v6)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	if (poll(&p, 1, 0) <= 0)
		return INIT_DIAL_WAITS;
	int why = 0;
	socklen_t len = sizeof(why);
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &len) != 0)
		return INIT_DIAL_FAILED;
	if (why == 0 && !(p.revents & (POLLERR | POLLHUP | POLLNVAL)))
		return INIT_DIAL_THERE;
	return why_not(why, is_v6);
}
