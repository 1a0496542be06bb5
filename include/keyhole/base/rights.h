/*
 * rights.h - passes descriptors over a Unix socket, with a message (SCM_RIGHTS)
 *
 * Plain C in a header, for keyhole-init too, which has nothing of the library. A receiver gets
 * exactly the descriptors that it expects, in their order, or none. Any others that came are
 * closed, so that a hostile peer can't fill the table of descriptors.
 */
#ifndef KEYHOLE_BASE_RIGHTS_H
#define KEYHOLE_BASE_RIGHTS_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <keyhole/base/limits.h>

/* Aligned room for a control message with KH_LIMIT_CHANNEL_FDS descriptors and not one more. */
union kh_rights {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int) * KH_LIMIT_CHANNEL_FDS)];
};

/* Attaches 1 to KH_LIMIT_CHANNEL_FDS descriptors to a message; `room` must live as long as it. The
 * caller keeps the descriptors. */
static inline void kh_rights_attach(struct msghdr *msg, union kh_rights *room, const int *fds,
				    size_t n)
{
	memset(room, 0, sizeof(*room));
	msg->msg_control = room->bytes;
	msg->msg_controllen = CMSG_SPACE(sizeof(int) * n);
	struct cmsghdr *header = CMSG_FIRSTHDR(msg);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int) * n);
	memcpy(CMSG_DATA(header), fds, sizeof(int) * n);
}

/* sendmsg, with more room for descriptors in flight. The kernel counts these for all processes of a
 * user, and fails with ETOOMANYREFS if the count is above the sender's soft RLIMIT_NOFILE. This
 * raises that limit for one retry. So a command, whose hard limit is lower than ours
 * (src/init/command.c), can't keep us from sending by leaving many in flight. */
static inline ssize_t kh_rights_sendmsg(int to, const struct msghdr *msg, int flags)
{
	struct rlimit was, raised;
	ssize_t sent;
	do
		sent = sendmsg(to, msg, flags | MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	if (sent >= 0 || errno != ETOOMANYREFS || getrlimit(RLIMIT_NOFILE, &was) != 0)
		return sent;
	raised = (struct rlimit){ .rlim_cur = was.rlim_max, .rlim_max = was.rlim_max };
	if (was.rlim_cur >= was.rlim_max || setrlimit(RLIMIT_NOFILE, &raised) != 0) {
		errno = ETOOMANYREFS;
		return -1;
	}
	do
		sent = sendmsg(to, msg, flags | MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	int why = errno;
	(void)setrlimit(RLIMIT_NOFILE, &was);
	errno = why;
	return sent;
}

/*
 * Sends a message with n descriptors (0: none), whole or not at all. The caller keeps the
 * descriptors. flags: as for sendmsg; MSG_NOSIGNAL is added. Return: false with errno.
 */
static inline bool kh_rights_send(int to, const void *message, size_t len, const int *fds, size_t n,
				  int flags)
{
	/* sendmsg does not write through it; the structure is shared with recvmsg, which does. */
	union {
		const void *read;
		void *write;
	} base = { .read = message };
	struct iovec iov = { .iov_base = base.write, .iov_len = len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	union kh_rights room;
	if (n > KH_LIMIT_CHANNEL_FDS) {
		errno = EINVAL;
		return false;
	}
	if (n > 0)
		kh_rights_attach(&msg, &room, fds, n);
	return kh_rights_sendmsg(to, &msg, flags) == (ssize_t)len;
}

/*
 * Takes the descriptors of a received message: the first `most` go to `fds` and are the caller's;
 * the others are closed. Return: how many came, which may be more than `most`.
 */
static inline size_t kh_rights_collect(struct msghdr *msg, int *fds, size_t most)
{
	size_t came = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		const unsigned char *data = CMSG_DATA(c);
		for (size_t i = 0; i < n; i++) {
			int fd;
			memcpy(&fd, data + i * sizeof(int), sizeof(int));
			if (came++ < most)
				fds[came - 1] = fd;
			else
				(void)close(fd);
		}
	}
	return came;
}

/* Takes exactly n descriptors. Return: false: another number came; they are closed, and all fds are
 * -1. */
static inline bool kh_rights_take(struct msghdr *msg, int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		fds[i] = -1;
	if (kh_rights_collect(msg, fds, n) == n)
		return true;
	for (size_t i = 0; i < n; i++) {
		if (fds[i] >= 0)
			(void)close(fds[i]);
		fds[i] = -1;
	}
	return false;
}

/*
 * Receives one message, with n descriptors or none (all fds are -1 then). flags: as for recvmsg
 * (MSG_CMSG_CLOEXEC, MSG_DONTWAIT). Return: as recvmsg; EINTR is retried.
 */
static inline ssize_t kh_rights_receive(int from, void *message, size_t len, int *fds, size_t n,
					int flags)
{
	struct iovec iov = { .iov_base = message, .iov_len = len };
	union kh_rights room;
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = room.bytes,
			      .msg_controllen = sizeof(room.bytes) };
	ssize_t got;
	for (size_t i = 0; i < n; i++)
		fds[i] = -1;
	do
		got = recvmsg(from, &msg, flags);
	while (got < 0 && errno == EINTR);
	if (got >= 0)
		(void)kh_rights_take(&msg, fds, n);
	return got;
}

#endif
