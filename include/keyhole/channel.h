/* channel.h - the closed set of messages between keeper and worker */
#ifndef KEYHOLE_CHANNEL_H
#define KEYHOLE_CHANNEL_H

#include <pthread.h>
#include <stdint.h>

#include <keyhole/buf.h>
#include <keyhole/err.h>

/*
 * A SOCK_SEQPACKET socketpair: one message a datagram: a u32 type, a u32 `ref`, then the body in
 * the encoding of wire.h; descriptors ride along by SCM_RIGHTS. X(name, value, direction, body):
 *
 * keeper → worker, in this order at start: SNAPSHOT, LISTENERS, JOURNAL, ROOTS, RESOLVER, ISSUER,
 * GO
 */
#define KH_CHANNEL_TABLE(X) \
	X(SNAPSHOT, 1)	/* K→W fd: sealed memfd of kh_config_encode. Also at a reload */ \
	X(LISTENERS, 2) /* K→W u32 count of fds in this message, u32 index of the first; fds in \
			   the order of config.listeners, in as many messages as it takes */ \
	X(JOURNAL, 3)	/* K→W fd: O_RDWR|O_APPEND, locked by the keeper */ \
	X(ROOTS, 4) /* K→W fds: PEM files of trust roots (system's, then the configuration's) */ \
	X(RESOLVER, \
	  5) /* K→W fds: sealed copies of resolv.conf and hosts (an empty one if absent) */ \
	X(ISSUER, 6) /* K→W bytes: the CA certificate, DER (goes into the chain that is sent) */ \
	X(GO, 7)     /* K→W everything is there: lock in and serve */ \
	X(READY, 8)  /* W→K locked in, all threads accept */ \
	X(LEAF_KEY, \
	  9) /* W→K bytes: the worker's leaf public key, SubjectPublicKeyInfo DER; once */ \
	X(LEAF_WANT, \
	  10) /* W→K ref, str host: a leaf for it, please. The keeper checks the name anew */ \
	X(LEAF, 11)	       /* K→W ref, str host, bytes: certificate DER (empty: refused) */ \
	X(CREDENTIAL_WANT, 12) /* W→K ref, u16 index into config.credentials */ \
	X(CREDENTIAL, \
	  13)	       /* K→W ref, u16 index, u32 length (0: none, str why), fd of the secret */ \
	X(DRAIN, 14)   /* K→W stop accepting, finish what runs, then say DRAINED and exit 0 */ \
	X(DRAINED, 15) /* W→K */ \
	X(CHECKPOINT, 16) /* W→K u64 seq, bytes head: kept for the later signing (room for it) */

enum kh_channel_type {
#define KH_CHANNEL_ENUM(name, value) KH_CHANNEL_##name = value,
	KH_CHANNEL_TABLE(KH_CHANNEL_ENUM)
#undef KH_CHANNEL_ENUM
};

struct kh_channel_message {
	enum kh_channel_type type;
	uint32_t ref;	      /* chosen by who asks, repeated by who answers */
	struct kh_slice body; /* into the channel's buffer, until the next receive */
	int fds[16]; /* owned by the receiver; kh_channel_message_close closes what was not taken
			(-1) */
	unsigned n_fds;
};

/* One end. Sending is safe from several threads; receiving is one thread's. */
struct kh_channel {
	int fd;
	pthread_mutex_t send_lock;
	char *in; /* KH_LIMIT_CHANNEL_BYTES */
};

bool kh_channel_pair(int fds[2], struct kh_err *err);
bool kh_channel_init(struct kh_channel *channel, int fd, struct kh_err *err);
void kh_channel_fini(struct kh_channel *channel);
/* Blocks only while the peer's buffer is full. The descriptors stay the caller's. */
bool kh_channel_send(struct kh_channel *channel, enum kh_channel_type type, uint32_t ref,
		     struct kh_slice body, const int *fds, unsigned n_fds, struct kh_err *err);

enum kh_channel_status { KH_CHANNEL_GOT = 1, KH_CHANNEL_AGAIN, KH_CHANNEL_CLOSED, KH_CHANNEL_BAD };
/* BAD: an unknown type, a truncated or over-long message: the peer is not to be trusted further.
 * With `wait` false it never blocks. */
enum kh_channel_status kh_channel_receive(struct kh_channel *channel, bool wait,
					  struct kh_channel_message *out);
void kh_channel_message_close(struct kh_channel_message *message);

#endif
