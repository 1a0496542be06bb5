/*
 * admin_peer.c - has the process that connected ended?
 *
 * A connection can outlive the process that made it, in another process that has the descriptor;
 * then its pid may be another process's by now. Since Linux 6.5 the kernel tells of the process
 * itself (SO_PEERPIDFD). Before that, nothing can be known.
 */
#include "admin_internal.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include <keyhole/base/cleanup.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

bool kh_admin_peer_has_ended(int fd)
{
	int got = -1;
	socklen_t len = sizeof(got);

	/* Of one that was reaped there is no pidfd. */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &got, &len) != 0)
		return errno != ENOPROTOOPT && errno != EOPNOTSUPP;
	kh_auto_close int pidfd = got;
	struct pollfd ends = { .fd = pidfd, .events = POLLIN };
	return poll(&ends, 1, 0) != 0;
}
