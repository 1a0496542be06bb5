/*
 * fuzz_channel.c - a datagram of a peer that is not to be trusted, over a real socket
 *
 * The first byte says how many descriptors come along, and at which end. A message that is not
 * taken leaves none open.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <keyhole/base/channel.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/worker_messages.h>
#include <keyhole/fetcher/fetch.h>

#include "keeper/handover_messages.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static int peer = -1;
static struct kh_channel channel;

static void set_up(void)
{
	int fds[2];
	require(kh_channel_pair(fds, NULL) && kh_channel_init(&channel, fds[0], 0, NULL));
	peer = fds[1];
}

static bool send_datagram(const uint8_t *bytes, size_t len, unsigned n_fds)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * 32)];
	} control;
	memset(&control, 0, sizeof(control));
	union {
		const uint8_t *read;
		void *write;
	} base = { .read = bytes };
	struct iovec iov = { base.write, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	if (n_fds) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		int *fds = (int *)(void *)CMSG_DATA(head);
		for (unsigned i = 0; i < n_fds; i++)
			fds[i] = peer;
	}
	return sendmsg(peer, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

static int lowest_free(void)
{
	int fd = fcntl(peer, F_DUPFD_CLOEXEC, 0);
	(void)close(fd);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (peer < 0)
		set_up();
	if (size < 1)
		return 0;
	static const uint64_t ends[8] = { KH_WORKER_MSG_TO_KEEPER_SET,
					  KH_WORKER_MSG_TO_WORKER_SET,
					  KH_HANDOVER_MSG_TO_OLD_SET,
					  KH_HANDOVER_MSG_TO_NEW_SET,
					  KH_FETCH_MSG_TO_FETCHER_SET,
					  KH_FETCH_MSG_TO_KEEPER_SET,
					  UINT64_MAX };
	unsigned n_fds = data[0] % 32;
	channel.takes = ends[data[0] / 32];
	int before = lowest_free();
	if (!send_datagram(data + 1, size - 1, n_fds))
		return 0;
	struct kh_channel_message message;
	enum kh_channel_status status = kh_channel_receive(&channel, false, &message);
	require(status != KH_CHANNEL_AGAIN);
	if (status == KH_CHANNEL_GOT) {
		require(message.n_fds == n_fds && n_fds <= KH_LIMIT_CHANNEL_FDS);
		require(message.body.len + 8 == size - 1);
		require(message.type < 64 && (channel.takes >> message.type & 1));
		kh_channel_message_close(&message);
	} else {
		require(message.n_fds == 0);
	}
	require(lowest_free() == before);
	return 0;
}
