/* handover_messages.h - what the old and the new keeper say to each other, over a channel
 * (channel.h)
 */
#ifndef KEYHOLE_KEEPER_HANDOVER_MESSAGES_H
#define KEYHOLE_KEEPER_HANDOVER_MESSAGES_H

#include <keyhole/base/channel.h>

/*
 * The two ends may be different binaries. HELLO comes first, and contains the protocol version of
 * the new one. Its type, ref and body never change, so that a daemon of any version understands it,
 * and can say that a restart is needed. Everything else may change; the version is raised whenever
 * a type or body changes. The ref of every message is the version.
 *
 * In versions 1 to 4 the types were numbered together with those of keeper and worker.
 */
enum { KH_HANDOVER_VERSION = 6 };

/* From the new keeper. X(name, type): body */
#define KH_HANDOVER_MSG_TO_OLD_TABLE(X) \
	X(HELLO, 32)	/* str version of the binary */ \
	X(PREPARED, 33) /* its worker is locked in and waits with its acceptors shut */ \
	X(MOVED, 34)	/* names are exchanged */ \
	X(OPENED, 35)	/* the acceptors are open */ \
	X(FAILED, 36)	/* str why; before OPEN only */ \
	X(DYNAMIC_SANDBOX_GONE, 37) /* after OPENED: str tenant, str id: it is no more */ \
	X(HURRY, 38)		    /* SIGTERM came: timeouts.drain holds for you too */ \
	X(END, 39)		    /* a second one: at once */ \
	X(SUPERSEDE, 49) /* after OPENED: other rules than yours hold: end what you still have, \
			    now */

/* From the old keeper. */
#define KH_HANDOVER_MSG_TO_NEW_TABLE(X) \
	X(OFFER, 40) /* u32 listeners, u32 secrets, u32 dynamic sandboxes, u64 seq, bytes hash of \
			the line to be continued, bytes CA certificate (where each tenant has one: \
			a digest of all), bytes kh_config_put_mark of what is in force; fd: the \
			journal */ \
	X(OFFER_SOCKET, 41) /* str path, u64 device, u64 inode of the name (0, 0: not ours to \
			       remove); fd. As many as OFFER says, then */ \
	X(OFFER_SECRET, 42) /* str variable, u32 length; fd of the secret. Likewise, then */ \
	X(OFFER_QUOTA_LEDGER, 43) /* u8 column for the new worker; fd: the ledger, which both go \
				     on counting in */ \
	X(OFFER_QUOTA_SLOTS, 44)  /* fd: sealed memfd of kh_quota_slots_offer */ \
	X(OFFER_DYNAMIC_SANDBOX, 45) /* one each (dynamic_sandbox_offer.c); fds: its socket, and \
					the process that holds it where one does */ \
	X(MOVE, 46)		     /* the journal goes on in the new segment */ \
	X(OPEN, 47)		     /* from here on it is yours: open the acceptors */ \
	X(GONE, 48) /* my worker has ended; nobody writes to the old segment any more */

#define KH_HANDOVER_MSG_ENUM(name, value) KH_HANDOVER_MSG_##name = value,
enum kh_handover_msg_to_old { KH_HANDOVER_MSG_TO_OLD_TABLE(KH_HANDOVER_MSG_ENUM) };
enum kh_handover_msg_to_new { KH_HANDOVER_MSG_TO_NEW_TABLE(KH_HANDOVER_MSG_ENUM) };
#undef KH_HANDOVER_MSG_ENUM

_Static_assert(KH_HANDOVER_MSG_HELLO == 32, "every version understands the HELLO of every other");

/* The types that each end accepts. */
#define KH_HANDOVER_MSG_BIT(name, value) | KH_CHANNEL_BIT(value)
#define KH_HANDOVER_MSG_TO_OLD_SET (UINT64_C(0) KH_HANDOVER_MSG_TO_OLD_TABLE(KH_HANDOVER_MSG_BIT))
#define KH_HANDOVER_MSG_TO_NEW_SET (UINT64_C(0) KH_HANDOVER_MSG_TO_NEW_TABLE(KH_HANDOVER_MSG_BIT))

#endif
