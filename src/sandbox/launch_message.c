/* launch_message.c - what comes along with a message over the control socket, and who calls at it
 */
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <keyhole/cleanup.h>
#include <keyhole/init.h>

#include "sandbox_internal.h"

/* What came along: a descriptor (-1: none), and who sent it. */
int kh_launch_take_ancillary(struct msghdr *msg, pid_t *sender)
{
	int fd = -1;
	struct ucred who = { .pid = -1 };
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET)
			continue;
		if (c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
			memcpy(&fd, CMSG_DATA(c), sizeof(int));
		if (c->cmsg_type == SCM_CREDENTIALS && c->cmsg_len == CMSG_LEN(sizeof(who)))
			memcpy(&who, CMSG_DATA(c), sizeof(who));
	}
	*sender = who.pid;
	return fd;
}

static bool send_stdio(int control, const int *stdio)
{
	struct kh_init_message message = { .type = KH_INIT_STDIO };
	struct iovec iov = { &message, sizeof(message) };
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(3 * sizeof(int))];
	} ancillary = { 0 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = ancillary.bytes,
			      .msg_controllen = sizeof(ancillary.bytes) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&msg);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(3 * sizeof(int));
	memcpy(CMSG_DATA(header), stdio, 3 * sizeof(int));
	return sendmsg(control, &msg, MSG_NOSIGNAL) == (ssize_t)sizeof(message);
}

/* The kernel says who sends; a process without capabilities can't say otherwise. */
void kh_launch_watch_control(int control)
{
	const int on = 1;
	if (control >= 0)
		(void)setsockopt(control, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
}

int kh_launch_take_call(int *listener, const int *stdio)
{
	struct sockaddr_un addr = { 0 };
	socklen_t len = sizeof(addr);
	kh_auto_close int control = accept4(*listener, NULL, NULL, SOCK_CLOEXEC);
	if (getsockname(*listener, (struct sockaddr *)&addr, &len) == 0)
		(void)unlink(addr.sun_path);
	kh_cleanup_close(listener);
	kh_launch_watch_control(control);
	return control >= 0 && send_stdio(control, stdio) ? kh_steal_fd(&control) : -1;
}
