/* channel.h - messages between two processes of keyhole, each from a closed set */
#ifndef KEYHOLE_BASE_CHANNEL_H
#define KEYHOLE_BASE_CHANNEL_H

#include <pthread.h>
#include <stdint.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>

/*
 * A SOCK_SEQPACKET socketpair: one message a datagram: a u32 type, a u32 `ref`, then the body in
 * the encoding of wire.h; descriptors ride along by SCM_RIGHTS. Which types there are is said where
 * both ends of a channel see it: worker_messages.h, fetcher/fetch.h, and the keeper's
 * handover_messages.h. What a keeper
 * takes from one of its peers it takes from no other, and so do the processes that it starts.
 *
 * Each end takes only what the other may send it: a set of types, bit N for type N.
 */
#define KH_CHANNEL_BIT(type) (UINT64_C(1) << (type))

struct kh_channel_message {
	uint32_t type;	      /* one of those that this end takes */
	uint32_t ref;	      /* chosen by who asks, repeated by who answers */
	struct kh_slice body; /* into the channel's buffer, until the next receive */
	int fds[16]; /* owned by the receiver; kh_channel_message_close closes what was not taken
			(-1) */
	unsigned n_fds;
};

/* One end. Sending is safe from several threads; receiving is one thread's. */
struct kh_channel {
	int fd;
	uint64_t takes; /* the types that may come */
	pthread_mutex_t send_lock;
	char *in; /* KH_LIMIT_CHANNEL_BYTES */
	/* Of one whose peer is not trusted: how long sending may still block, in all. 0: see
	   kh_channel_patience. */
	uint32_t patience_most_ms, patience_ms;
	uint64_t patience_at_ms; /* it was right then */
};

bool kh_channel_pair(int fds[2], struct kh_err *err);
/* `takes`: the types that may come, which are those that the peer may send. Owns `fd` on success.
 */
bool kh_channel_init(struct kh_channel *channel, int fd, uint64_t takes, struct kh_err *err);
/*
 * From now on all messages together have `most_ms` to block for, which come back as time passes, a
 * tenth of it; without this call each message has ten seconds. Once SIGTERM or SIGINT is pending
 * (the process blocks them), it is KH_LIMIT_CHANNEL_ENDING_MS at most.
 */
bool kh_channel_patience(struct kh_channel *channel, uint32_t most_ms, struct kh_err *err);
void kh_channel_fini(struct kh_channel *channel);
/* Blocks only while the peer's buffer is full. The descriptors stay the caller's. A process that
 * sends ignores SIGPIPE: without descriptors the message goes by a plain write. */
bool kh_channel_send(struct kh_channel *channel, uint32_t type, uint32_t ref, struct kh_slice body,
		     const int *fds, unsigned n_fds, struct kh_err *err);

enum kh_channel_status { KH_CHANNEL_GOT = 1, KH_CHANNEL_AGAIN, KH_CHANNEL_CLOSED, KH_CHANNEL_BAD };
/* BAD: a type that may not come here, a truncated or over-long message: the peer is not to be
 * trusted further. With `wait` false it never blocks. */
enum kh_channel_status kh_channel_receive(struct kh_channel *channel, bool wait,
					  struct kh_channel_message *out);
void kh_channel_message_close(struct kh_channel_message *message);

#endif
