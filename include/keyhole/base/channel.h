/* channel.h - messages between two keyhole processes, each from a closed set */
#ifndef KEYHOLE_BASE_CHANNEL_H
#define KEYHOLE_BASE_CHANNEL_H

#include <pthread.h>
#include <stdint.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>

/*
 * A SOCK_SEQPACKET socket pair. Each datagram is one message: a u32 type, a u32 `ref`, then the
 * body in the encoding of wire.h. Descriptors come with it by SCM_RIGHTS. The types of each channel
 * are defined where both ends see them: worker_messages.h, fetcher/fetch.h, and the keeper's
 * handover_messages.h. A type that a keeper accepts from one kind of peer it accepts from no other
 * kind. Nor do two kinds of the processes that it starts accept the same type.
 *
 * Each end accepts only what the other may send: a set of types, bit N for type N.
 */
#define KH_CHANNEL_BIT(type) (UINT64_C(1) << (type))

struct kh_channel_message {
	uint32_t type;	      /* one that this end accepts */
	uint32_t ref;	      /* chosen by the process that asks, repeated in the answer */
	struct kh_slice body; /* a view, valid until the next receive */
	int fds[16]; /* the receiver's. It sets those that it keeps to -1; kh_channel_message_close
			closes the others */
	unsigned n_fds;
};

/* One end. Sending is safe from several threads; receiving is one thread's. */
struct kh_channel {
	int fd;
	uint64_t takes; /* the types that may be received */
	pthread_mutex_t send_lock;
	char *in; /* KH_LIMIT_CHANNEL_BYTES */
	/* For an untrusted peer (kh_channel_patience): the most that sending may block in all, and
	   how much of it is left. 0: no such bound. */
	uint32_t patience_most_ms, patience_ms;
	uint64_t patience_at_ms; /* when patience_ms was last computed */
};

/* Makes a socket pair, close-on-exec. The caller owns both ends. */
bool kh_channel_pair(int fds[2], struct kh_err *err);
/* `takes`: the types that may be received, which are those that the peer may send. Takes `fd` over
 * on success. */
bool kh_channel_init(struct kh_channel *channel, int fd, uint64_t takes, struct kh_err *err);
/*
 * From now on all sends together may block for at most `most_ms`. A tenth of the time that passes
 * is added back, up to `most_ms`. (Without this call each send may block for ten seconds.) Once
 * SIGTERM or SIGINT is pending, which the process must have blocked, it is at most
 * KH_LIMIT_CHANNEL_ENDING_MS. A send that runs out of time fails with ETIMEDOUT.
 */
bool kh_channel_patience(struct kh_channel *channel, uint32_t most_ms, struct kh_err *err);
void kh_channel_fini(struct kh_channel *channel);
/* Blocks only while the peer's socket buffer is full. The caller keeps the descriptors. The process
 * must ignore SIGPIPE, since a message without descriptors is sent by a plain write. Return: false
 * with `err`; nothing was sent. */
bool kh_channel_send(struct kh_channel *channel, uint32_t type, uint32_t ref, struct kh_slice body,
		     const int *fds, unsigned n_fds, struct kh_err *err);

enum kh_channel_status { KH_CHANNEL_GOT = 1, KH_CHANNEL_AGAIN, KH_CHANNEL_CLOSED, KH_CHANNEL_BAD };
/* BAD: a type that is not accepted, or a truncated or overlong message; its descriptors are closed,
 * and the peer must not be trusted further. AGAIN: only if `wait` is false, in which case it never
 * blocks. */
enum kh_channel_status kh_channel_receive(struct kh_channel *channel, bool wait,
					  struct kh_channel_message *out);
void kh_channel_message_close(struct kh_channel_message *message);

#endif
