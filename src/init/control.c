/* control.c - the socket to the launcher */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <keyhole/init.h>

#include "init_internal.h"

static int control_fd = -1;
static struct init_watch control_watch;

bool init_control_present(void)
{
	return control_fd >= 0;
}

void init_control_send(uint32_t type, int value, int pass)
{
	if (control_fd < 0)
		return;
	struct kh_init_message message = { .type = type, .value = value };
	struct iovec iov = { .iov_base = &message, .iov_len = sizeof(message) };
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} ancillary = { 0 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	if (pass >= 0) {
		msg.msg_control = ancillary.bytes;
		msg.msg_controllen = sizeof(ancillary.bytes);
		struct cmsghdr *header = CMSG_FIRSTHDR(&msg);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(header), &pass, sizeof(int));
	}
	while (sendmsg(control_fd, &msg, MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			return; /* A launcher that is gone shows itself in receive(). */
}

int init_control_connect(const char *path, int stdio[3])
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof(addr.sun_path))
		init_die("--connect %s: too long", path);
	memcpy(addr.sun_path, path, strlen(path));
	int door = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (door < 0 || connect(door, (const struct sockaddr *)&addr, sizeof(addr)) != 0)
		init_die("--connect %s: %s", path, strerror(errno));
	struct kh_init_message message = { 0 };
	struct iovec iov = { .iov_base = &message, .iov_len = sizeof(message) };
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(KH_INIT_GIVEN * sizeof(int))];
	} ancillary;
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = ancillary.bytes,
			      .msg_controllen = sizeof(ancillary.bytes) };
	ssize_t n;
	while ((n = recvmsg(door, &msg, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
		;
	struct cmsghdr *header = n == sizeof(message) ? CMSG_FIRSTHDR(&msg) : NULL;
	int fds[KH_INIT_GIVEN];
	if (!header || message.type != KH_INIT_MET || header->cmsg_level != SOL_SOCKET ||
	    header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof(fds)))
		init_die("--connect %s: the launcher gave nothing", path);
	memcpy(fds, CMSG_DATA(header), sizeof(fds));
	close(door);
	memcpy(stdio, fds + 1, 3 * sizeof(*stdio));
	return fds[0];
}

/* -1: none came along. */
static int take_descriptor(struct msghdr *msg)
{
	int fd = -1;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
		    c->cmsg_len == CMSG_LEN(sizeof(int)))
			memcpy(&fd, CMSG_DATA(c), sizeof(int));
	return fd;
}

static void receive(struct init_watch *watch, uint32_t events)
{
	(void)watch;
	(void)events;
	struct kh_init_message message = { 0 };
	struct iovec iov = { .iov_base = &message, .iov_len = sizeof(message) };
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} ancillary;
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = ancillary.bytes,
			      .msg_controllen = sizeof(ancillary.bytes) };
	ssize_t n = recvmsg(control_fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	/* Without a launcher there is nobody to run for. The namespace ends with this process. */
	if (n <= 0)
		_exit(KH_INIT_FAILED);
	int fd = take_descriptor(&msg);
	if (fd >= 0 && n == sizeof(message) && message.type == KH_INIT_PUBLISHED) {
		init_relay_publish(fd, (uint16_t)message.value);
		return;
	}
	if (fd >= 0)
		close(fd);
	if (n != sizeof(message))
		return;
	if (message.type == KH_INIT_GO)
		init_command_go();
	else if (message.type == KH_INIT_SIGNAL)
		init_command_signal(message.value);
	else if (message.type == KH_INIT_TYPED)
		init_command_typed(message.value);
}

static int take_three(int fd, int stdio[3])
{
	struct kh_init_message message = { 0 };
	struct iovec iov = { &message, sizeof(message) };
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(3 * sizeof(int))];
	} ancillary;
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = ancillary.bytes,
			      .msg_controllen = sizeof(ancillary.bytes) };
	ssize_t n;
	while ((n = recvmsg(fd, &msg, 0)) < 0 && errno == EINTR)
		;
	const struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	if (n != sizeof(message) || message.type != KH_INIT_STDIO || !c ||
	    c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
	    c->cmsg_len != CMSG_LEN(3 * sizeof(int)))
		return -1;
	memcpy(stdio, CMSG_DATA(c), 3 * sizeof(int));
	return 0;
}

int init_control_call(const char *path, int stdio[3])
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof(addr.sun_path))
		init_die("--call %s: too long", path);
	memcpy(addr.sun_path, path, strlen(path) + 1);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) != 0)
		init_die("--call %s: %s", path, strerror(errno));
	/* The launcher may be gone by then. */
	if (take_three(fd, stdio) != 0)
		_exit(KH_INIT_FAILED);
	return fd;
}

void init_control_hold(int fd)
{
	struct kh_init_message message = { .type = KH_INIT_READY };
	ssize_t n = send(fd, &message, sizeof(message), MSG_NOSIGNAL);
	if (n != sizeof(message))
		init_die("--hold: --control %d: %s", fd, strerror(errno));
	do
		n = recv(fd, &message, sizeof(message), 0);
	while ((n < 0 && errno == EINTR) || (n == sizeof(message) && message.type != KH_INIT_GO));
	if (n != sizeof(message))
		_exit(KH_INIT_FAILED);
}

void init_control_start(int fd)
{
	control_fd = fd;
	int flags = fcntl(fd, F_GETFD);
	if (flags < 0 || fcntl(fd, F_SETFD, flags | FD_CLOEXEC) != 0)
		init_die("--control %d: %s", fd, strerror(errno));
	control_watch.ready = receive;
	if (!init_watch_add(fd, &control_watch, EPOLLIN))
		init_die("watching the launcher: %s", strerror(errno));
}
