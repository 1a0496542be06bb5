/* uplink.c - answers each datagram from keyhole-init with a connected socket (uplink.h) */
#include "uplink.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/sandbox/init.h>
#include <keyhole/base/rights.h>

bool kh_uplink_make(int pair[2], int control, const int stdio[3], struct kh_err *err)
{
	const int fds[KH_INIT_GIVEN] = { control, stdio[0], stdio[1], stdio[2] };
	struct kh_init_message message = { .type = KH_INIT_MET };
	/* What has been sent and not received counts: in the smallest buffer there is room for one
	 * answer after another, and not for a third. */
	const int least = 1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "a socket pair");
	return (setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)) == 0 &&
		kh_rights_send(pair[0], &message, sizeof(message), fds, KH_INIT_GIVEN,
			       MSG_DONTWAIT)) ||
	       kh_err_sys(err, KH_ERR_SYSTEM, errno, "keyhole-init's descriptors");
}

/* Return: -1 with errno; EAGAIN where the proxy's queue is full. */
static int dial(const char *name)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	if (strlen(name) >= sizeof(addr.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(addr.sun_path, name, strlen(name));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) == 0)
		return fd;
	int why = errno;
	close(fd);
	errno = why;
	return -1;
}

static bool has_room(int uplink)
{
	struct pollfd p = { .fd = uplink, .events = POLLOUT };
	return poll(&p, 1, 0) == 1 && (p.revents & POLLOUT);
}

bool kh_uplink_answer(int uplink, const char *name, short *wants)
{
	char ignored;
	*wants = POLLOUT;
	if (!has_room(uplink))
		return true;
	*wants = POLLIN;
	/* No room for descriptors: the kernel closes what came along. */
	ssize_t n = recv(uplink, &ignored, sizeof(ignored), MSG_DONTWAIT);
	if (n <= 0)
		return n < 0 && (errno == EAGAIN || errno == EINTR);
	kh_auto_close int fd = dial(name);
	struct kh_init_message answer = { .type = KH_INIT_LINKED, .value = fd < 0 ? errno : 0 };
	if (kh_rights_send(uplink, &answer, sizeof(answer), &fd, fd >= 0, MSG_DONTWAIT))
		return true;
	/* Who asked waits for an answer, and asks no more until one comes. */
	answer.value = EAGAIN;
	return kh_rights_send(uplink, &answer, sizeof(answer), NULL, 0, MSG_DONTWAIT);
}
