/* launch_message.c - receives a message on the control socket, with its descriptor and sender */
#include <string.h>
#include <sys/socket.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/sandbox/init.h>
#include <keyhole/base/rights.h>

#include "sandbox_internal.h"

ssize_t kh_launch_receive(int control, struct kh_init_message *message, int *fd, pid_t *sender)
{
	struct iovec iov = { message, sizeof(*message) };
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
	} ancillary;
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = ancillary.bytes,
			      .msg_controllen = sizeof(ancillary.bytes) };
	struct ucred who = { .pid = -1 };
	*fd = -1;
	ssize_t n = recvmsg(control, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n >= 0) {
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
			if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS &&
			    c->cmsg_len == CMSG_LEN(sizeof(who)))
				memcpy(&who, CMSG_DATA(c), sizeof(who));
		(void)kh_rights_take(&msg, fd, 1);
	}
	*sender = who.pid;
	return n;
}

/* The kernel says who sends; a process without capabilities can't say otherwise. */
void kh_launch_watch_control(int control)
{
	const int on = 1;
	if (control >= 0)
		(void)setsockopt(control, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
}
