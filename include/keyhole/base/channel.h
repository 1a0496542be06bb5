/* channel.h - the closed set of messages between keeper and worker, and from keeper to keeper */
#ifndef KEYHOLE_BASE_CHANNEL_H
#define KEYHOLE_BASE_CHANNEL_H

#include <pthread.h>
#include <stdint.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>

/*
 * A SOCK_SEQPACKET socketpair: one message a datagram: a u32 type, a u32 `ref`, then the body in
 * the encoding of wire.h; descriptors ride along by SCM_RIGHTS. X(name, value, direction, body):
 *
 * keeper → worker, in this order at start: SNAPSHOT, LISTENERS, GEO, ADMIN, FACTS, JOURNAL, ROOTS,
 * RESOLVER, ISSUER, GO
 */
#define KH_CHANNEL_TABLE(X) \
	X(SNAPSHOT, 1) /* K→W fds: sealed memfd of kh_config_encode, and the limits' ledger; u32 \
			  slots in it, u8 column (quota.h). Also at a reload */ \
	X(LISTENERS, 2) /* K→W u32 count of fds in this message, u32 index of the first; fds in \
			   the order of config.listeners, in as many messages as it takes */ \
	X(JOURNAL, \
	  3)	    /* K→W fds: the journal, opened anew for this worker, O_WRONLY|O_APPEND and \
		       O_RDONLY; u64 seq, bytes hash of the line that this segment \
		       continues (seq 0: none), u8 as of JOURNAL_HELD; u64 seq, bytes hash, u64 end \
		       of the last line that the keeper was told of in this file (end 0: none) */ \
	X(ROOTS, 4) /* K→W fds: PEM files of trust roots (system's, then the configuration's) */ \
	X(RESOLVER, \
	  5) /* K→W fds: sealed copies of resolv.conf and hosts (an empty one if absent) */ \
	X(ISSUER, 6) /* K→W u16 tenant whose sandboxes it is for (KH_NO_TENANT: all; otherwise one \
			message each); bytes: the CA certificate, DER (goes into the chain that is \
			sent); bytes: all that a sandbox is to trust, PEM. Also at a reload */ \
	X(GO, 7)     /* K→W everything is there: lock in and serve */ \
	X(READY, 8) /* W→K locked in, all threads accept */ \
	X(LEAF_KEY, \
	  9) /* W→K bytes: the worker's leaf public key, SubjectPublicKeyInfo DER; once */ \
	X(LEAF_WANT, \
	  10) /* W→K ref: the generation; str host, u16 tenant, u16 port, str the tenant whose CA \
	       is to sign (empty: there is one for all): a leaf for it, please. The keeper checks \
	       the name anew, and whether a rule allows it there */ \
	X(LEAF, 11) /* K→W ref, str host, bytes: certificate DER (empty: refused), str \
		       tenant as it was asked for */ \
	X(CREDENTIAL_WANT, \
	  12) /* W→K ref: the generation; a kh_credential_ref (want.h), u64 whose share it \
		 is (share.h). Once a value: the answer is for all who wait */ \
	X(CREDENTIAL, \
	  13) /* K→W ref, the kh_credential_ref; u32 length of the secret (0: none), u64 until \
		 when it is good (wall clock in ms; 0: for ever), str why there is none (for a \
		 sandbox to read); fd of the secret. May come long after the question */ \
	X(DRAIN, 14)   /* K→W stop accepting, finish what runs, then say DRAINED and exit 0 */ \
	X(DRAINED, 15) /* W→K */ \
	X(CHECKPOINT, 16) /* W→K u64 seq, bytes head, u64 offset behind that line: it must \
			     be there when the next worker starts */ \
	/* A handover to another binary (SIGUSR2; keeper/handover_internal.h): */ \
	X(HEAD_WANT, 17) /* K→W what is the journal's last line now? */ \
	X(HEAD, 18)	 /* W→K u64 seq, bytes hash: once a question */ \
	X(RETIRE, 19) /* K→W another process accepts: end as connections end, then as after DRAIN, \
			 which may follow */ \
	X(JOIN, 20) /* K→W u64 cut, fds as of JOURNAL: the segment before, which nobody writes to \
		       any more */ \
	X(JOINED, 21) /* W→K str why not; NULL: the journal says how it ended */ \
	X(GEO, 22) /* K→W fds: sealed copies of upstream.geo's databases, that of countries first; \
		      behind LISTENERS, none where none is named. Also at a reload */ \
	X(ADMIN, 23) /* K→W behind GEO, also at a reload: u32 uid of the daemon, then as many \
			kinds (u8) as there are fds: the doors of `admin` that are open */ \
	X(FACTS, 24) /* K→W what only the keeper knows (admin.h); behind ADMIN, and whenever it \
			changes. fd, where there are any: states of credentials */ \
	X(VERB, 25)  /* W→K ref, u8 verb (admin.h): somebody who may asked for it */ \
	X(VERB_DONE, 26) /* K→W ref, u8 it was done, str what there is to say */ \
	/* Sandboxes that come and go meanwhile (guest.h): */ \
	X(DYNAMIC_SANDBOX_ADD, 27) /* W→K ref, kh_dynamic_sandbox_wish_put: make it */ \
	X(DYNAMIC_SANDBOX_REMOVE, \
	  28)		       /* W→K ref (0: nobody waits), str tenant, str id, u64 number (0: \
				  whichever), u32 uid and u32 pid of who asks (uid -1: this worker, of \
				  one that it had added): end it. What comes of it says DYNAMIC_SANDBOX_GONE */ \
	X(DYNAMIC_SANDBOX, 29) /* K→W kh_dynamic_sandbox_card_put, fd: there is one. Also behind \
			each GO that opens doors to a new worker */ \
	X(DYNAMIC_SANDBOX_GONE, \
	  30) /* K→W ref (0: nobody asked), str tenant, str id: it is no more */ \
	X(DYNAMIC_SANDBOX_DONE, 31) /* K→W ref, u8 result (guest.h), str text; str tenant, str id, \
			     str path, u64 expires, u64 number: of an ADD, behind its \
			     DYNAMIC_SANDBOX; of a REMOVE only what failed */ \
	X(PRINTS, 62) /* K→W u8 lists, u32 length of each; fds: prints of all values (prints.h). \
			 Behind FACTS, also at a reload, and whenever a value is another one */ \
	/* Between two keepers, old and new (ref of HELLO and OFFER: the protocol's version): */ \
	X(HELLO, 32) /* N→O str version of the binary */ \
	X(OFFER, 33) /* O→N u32 listeners, u32 secrets, u32 guests, u64 seq, bytes hash of the \
			line to be continued, bytes CA certificate (where each tenant has one: a \
			digest of all); fd: the journal */ \
	X(OFFER_SOCKET, 34) /* O→N str path, u64 device, u64 inode of the name (0, 0: not ours to \
			      remove); fd. As many as OFFER says, then */ \
	X(OFFER_SECRET, 35) /* O→N str variable, u32 length; fd of the secret */ \
	X(PREPARED, 36)	    /* N→O its worker is locked in and waits with its doors shut */ \
	X(MOVE, 37)	    /* O→N the journal goes on in the new segment */ \
	X(MOVED, 38)	    /* N→O names are exchanged */ \
	X(OPEN, 39)	    /* O→N from here on it is yours: open the doors */ \
	X(OPENED, 40)	    /* N→O done */ \
	X(FAILED, 41)	    /* N→O str why; before OPEN only */ \
	X(HURRY, 42)	    /* N→O SIGTERM came: timeouts.drain holds for you too */ \
	X(END, 43)	    /* N→O a second one: at once */ \
	X(GONE, 44) /* O→N my worker has ended; nobody writes to the old segment any more */ \
	X(OFFER_QUOTA_LEDGER, 45) /* O→N behind the secrets: u8 column for the new worker; fd: the \
			       ledger, which both go on counting in */ \
	X(OFFER_QUOTA_SLOTS, 46) /* O→N fd: sealed memfd of kh_quota_slots_offer */ \
	X(OFFER_DYNAMIC_SANDBOX, \
	  50) /* O→N behind the book, one each (keeper/guest_offer.c); fds: its \
       socket, and the process that holds it where one does. Once \
       doors are open, DYNAMIC_SANDBOX_GONE says N→O that one is no more */ \
	/* Credentials: */ \
	X(CREDENTIAL_REFUSED, 64) /* W→K ref: the generation; a kh_credential_ref: an upstream \
				     answered 401 to the token, or the command's value, that it \
				     gave. It is renewed, but not often */ \
	X(JOURNAL_HELD, 65)	  /* K→W u8: nothing is forwarded (1), since the journal is no \
				     longer where its name leads; it is back there (0) */ \
	X(JOURNAL_TORN, 66)	/* W→K bytes at the journal's end are no record, since it could \
				   not be written; nothing is until JOURNAL_CUT comes */ \
	X(JOURNAL_CUT, 67)	/* K→W u64 where the file ends now: they were cut off, or not */ \
	X(FETCH, 61)		/* to the fetcher: an order (fetch.h); fds: its files */ \
	X(FETCHED, 63)		/* and what came of it */ \
	X(CREDENTIAL_STALE, 60) /* K→W ref: the generation; u8 all of the credential's (1), or \
				   this one (0); a kh_credential_ref: what was told is replaced by \
				   another. Who needs it asks for it anew */

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
	/* Of one whose peer is not trusted: how long sending may still block, in all. 0: see
	   kh_channel_patience. */
	uint32_t patience_most_ms, patience_ms;
	uint64_t patience_at_ms; /* it was right then */
};

bool kh_channel_pair(int fds[2], struct kh_err *err);
bool kh_channel_init(struct kh_channel *channel, int fd, struct kh_err *err);
/*
 * From now on all messages together have `most_ms` to block for, which come back as time passes, a
 * tenth of it; without this call each message has ten seconds. Once SIGTERM or SIGINT is pending
 * (the process blocks them), it is KH_LIMIT_CHANNEL_ENDING_MS at most.
 */
bool kh_channel_patience(struct kh_channel *channel, uint32_t most_ms, struct kh_err *err);
void kh_channel_fini(struct kh_channel *channel);
/* Blocks only while the peer's buffer is full. The descriptors stay the caller's. A process that
 * sends ignores SIGPIPE: without descriptors the message goes by a plain write. */
bool kh_channel_send(struct kh_channel *channel, enum kh_channel_type type, uint32_t ref,
		     struct kh_slice body, const int *fds, unsigned n_fds, struct kh_err *err);

enum kh_channel_status { KH_CHANNEL_GOT = 1, KH_CHANNEL_AGAIN, KH_CHANNEL_CLOSED, KH_CHANNEL_BAD };
/* BAD: an unknown type, a truncated or over-long message: the peer is not to be trusted further.
 * With `wait` false it never blocks. */
enum kh_channel_status kh_channel_receive(struct kh_channel *channel, bool wait,
					  struct kh_channel_message *out);
void kh_channel_message_close(struct kh_channel_message *message);

#endif
