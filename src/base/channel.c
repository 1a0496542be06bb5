/*
 * channel.c - messages between two keyhole processes
 *
 * One datagram per message, so there is nothing to reassemble: a message is whole or it is bad. The
 * keeper reads what a worker sends that may be compromised. Anything unexpected ends in BAD, with
 * every received descriptor closed.
 */
#include <keyhole/base/hidden.h>
#include <keyhole/base/channel.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/rights.h>
#include <keyhole/base/secret.h>
#include <keyhole/base/wire.h>

enum {
	HEAD_BYTES = 8,
	/* A peer that has stopped reading is given up, so that it can't hold the other up. */
	SEND_TIMEOUT_S = 10,
	/* Where patience is counted, sending looks up so often; a tenth of time comes back. */
	SLICE_MS = 200,
	GIVEN_BACK = 10,
};

_Static_assert(KH_LIMIT_CHANNEL_FDS == sizeof(((struct kh_channel_message *)0)->fds) / sizeof(int),
	       "a message holds as many descriptors as the limit says");

static bool may_come(const struct kh_channel *channel, uint32_t type)
{
	return type < 64 && (channel->takes & KH_CHANNEL_BIT(type)) != 0;
}

bool kh_channel_pair(int fds[2], struct kh_err *err)
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0)
		return true;
	fds[0] = fds[1] = -1;
	return kh_err_sys(err, KH_ERR_SYSTEM, errno, "socketpair");
}

bool kh_channel_init(struct kh_channel *channel, int fd, uint64_t takes, struct kh_err *err)
{
	*channel = (struct kh_channel){ .fd = -1, .takes = takes };
	/* Blocking, with an end to it; who may not block says so to kh_channel_receive. */
	const struct timeval limit = { .tv_sec = SEND_TIMEOUT_S };
	if (!kh_file_set_nonblock(fd, false) || !kh_file_set_cloexec(fd, true) ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "the channel can't be set up");
	size_t room = KH_LIMIT_CHANNEL_BYTES;
	char *in = kh_hidden_get(&room, KH_HIDDEN_LASTING);
	if (!in || pthread_mutex_init(&channel->send_lock, NULL) != 0) {
		kh_hidden_give(in);
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory for the channel");
	}
	channel->in = in;
	channel->fd = fd;
	return true;
}

bool kh_channel_patience(struct kh_channel *channel, uint32_t most_ms, struct kh_err *err)
{
	const struct timeval slice = { .tv_usec = SLICE_MS * 1000 };
	if (setsockopt(channel->fd, SOL_SOCKET, SO_SNDTIMEO, &slice, sizeof(slice)) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "the channel can't be set up");
	channel->patience_most_ms = channel->patience_ms = most_ms;
	channel->patience_at_ms = kh_clock_mono_ms();
	return true;
}

static void give_back(struct kh_channel *channel)
{
	uint64_t now = kh_clock_mono_ms();
	uint64_t back = (now - channel->patience_at_ms) / GIVEN_BACK;
	uint64_t room = channel->patience_most_ms - channel->patience_ms;
	/* What is less than a millisecond is not lost. */
	channel->patience_at_ms = back < room ? channel->patience_at_ms + back * GIVEN_BACK : now;
	channel->patience_ms += (uint32_t)(back < room ? back : room);
}

static bool is_told_to_end(void)
{
	sigset_t pending;
	return sigpending(&pending) == 0 &&
	       (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

/* A slice went by, and there was no room. */
static bool goes_on_waiting(const struct kh_channel *channel, uint64_t began_ms)
{
	uint64_t most = channel->patience_ms;
	if (most > KH_LIMIT_CHANNEL_ENDING_MS && is_told_to_end())
		most = KH_LIMIT_CHANNEL_ENDING_MS;
	return channel->patience_most_ms && kh_clock_mono_ms() - began_ms < most;
}

/* What one message took is no longer there for the next. */
static void take_patience(struct kh_channel *channel, uint64_t began_ms)
{
	uint64_t took = kh_clock_mono_ms() - began_ms;
	if (channel->patience_ms > KH_LIMIT_CHANNEL_ENDING_MS && took && is_told_to_end())
		channel->patience_ms = KH_LIMIT_CHANNEL_ENDING_MS;
	channel->patience_ms -=
		(uint32_t)(took < channel->patience_ms ? took : channel->patience_ms);
}

void kh_channel_fini(struct kh_channel *channel)
{
	if (channel->fd < 0)
		return;
	(void)close(channel->fd);
	channel->fd = -1;
	/* The fetcher's answer was in it. */
	kh_secret_wipe(channel->in, KH_LIMIT_CHANNEL_BYTES);
	kh_hidden_give(channel->in);
	channel->in = NULL;
	(void)pthread_mutex_destroy(&channel->send_lock);
}

static void put_u32(unsigned char *out, uint32_t value)
{
	for (unsigned i = 0; i < 4; i++)
		out[i] = (unsigned char)(value >> (24 - 8 * i));
}

bool kh_channel_send(struct kh_channel *channel, uint32_t type, uint32_t ref, struct kh_slice body,
		     const int *fds, unsigned n_fds, struct kh_err *err)
{
	if (body.len > KH_LIMIT_CHANNEL_BYTES - HEAD_BYTES || n_fds > KH_LIMIT_CHANNEL_FDS)
		return kh_err_set(err, KH_ERR_INTERNAL,
				  "message %u is too large: %zu bytes, %u descriptors",
				  (unsigned)type, body.len, n_fds);
	unsigned char head[HEAD_BYTES];
	put_u32(head, type);
	put_u32(head + 4, ref);
	/* sendmsg does not write through it; the structure is shared with recvmsg, which does. */
	union {
		const char *read;
		void *write;
	} base = { .read = body.ptr };
	struct iovec iov[2] = { { head, sizeof(head) }, { base.write, body.len } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = body.len ? 2 : 1 };
	union kh_rights room;
	if (n_fds)
		kh_rights_attach(&msg, &room, fds, n_fds);

	(void)pthread_mutex_lock(&channel->send_lock);
	ssize_t sent;
	uint64_t began_ms = kh_clock_mono_ms();
	give_back(channel);
	/* With less left than a slice nothing is waited for. */
	bool waits = !channel->patience_most_ms || channel->patience_ms >= SLICE_MS;
	int flags = MSG_NOSIGNAL | (waits ? 0 : MSG_DONTWAIT);
	do
		/* The locked-in worker has no sendmsg, and no descriptor to send. */
		sent = n_fds || channel->patience_most_ms
			       ? sendmsg(channel->fd, &msg, flags)
			       : writev(channel->fd, iov, body.len ? 2 : 1);
	while (sent < 0 && (errno == EINTR ||
			    (errno == EAGAIN && waits && goes_on_waiting(channel, began_ms))));
	int why = errno;
	take_patience(channel, began_ms);
	(void)pthread_mutex_unlock(&channel->send_lock);
	if (sent < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, why == EAGAIN ? ETIMEDOUT : why,
				  "message %u can't be sent", (unsigned)type);
	/* A datagram goes whole or not at all. */
	return true;
}

/* Takes what came along into the message. Return: false when there is anything but descriptors, or
 * more of them than fit. */
static bool collect(struct msghdr *msg, struct kh_channel_message *out)
{
	bool ok = true;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c))
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			ok = false;
	size_t came = kh_rights_collect(msg, out->fds, KH_LIMIT_CHANNEL_FDS);
	bool fit = came <= KH_LIMIT_CHANNEL_FDS;
	out->n_fds = fit ? (unsigned)came : KH_LIMIT_CHANNEL_FDS;
	return ok && fit;
}

static bool decode(const struct kh_channel *channel, struct kh_slice datagram,
		   struct kh_channel_message *out)
{
	struct kh_wire_reader r = { .rest = datagram };
	out->type = kh_wire_u32(&r);
	out->ref = kh_wire_u32(&r);
	out->body = r.rest;
	return !r.bad && may_come(channel, out->type);
}

enum kh_channel_status kh_channel_receive(struct kh_channel *channel, bool wait,
					  struct kh_channel_message *out)
{
	memset(out, 0, sizeof(*out));
	for (unsigned i = 0; i < KH_LIMIT_CHANNEL_FDS; i++)
		out->fds[i] = -1;

	union kh_rights room;
	struct iovec iov = { channel->in, KH_LIMIT_CHANNEL_BYTES };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = room.bytes,
			      .msg_controllen = sizeof(room.bytes) };
	ssize_t n;
	do
		n = recvmsg(channel->fd, &msg, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
	while (n < 0 && errno == EINTR);
	if (n < 0) {
		if (errno == EAGAIN || errno == EWOULDBLOCK)
			return KH_CHANNEL_AGAIN;
		return errno == ECONNRESET ? KH_CHANNEL_CLOSED : KH_CHANNEL_BAD;
	}
	bool ok = collect(&msg, out) && !(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC));
	/* The end, or an empty datagram, which nobody sends in good faith: the end as well. */
	if (n == 0 && ok && out->n_fds == 0)
		return KH_CHANNEL_CLOSED;
	if (ok && decode(channel, kh_slice_of(channel->in, (size_t)n), out))
		return KH_CHANNEL_GOT;
	kh_channel_message_close(out);
	return KH_CHANNEL_BAD;
}

void kh_channel_message_close(struct kh_channel_message *message)
{
	for (unsigned i = 0; i < message->n_fds; i++) {
		if (message->fds[i] >= 0)
			(void)close(message->fds[i]);
		message->fds[i] = -1;
	}
	message->n_fds = 0;
}
