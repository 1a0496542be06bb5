/* worker_messages.h - what keeper and worker say to each other, over a channel (channel.h) */
#ifndef KEYHOLE_BASE_WORKER_MESSAGES_H
#define KEYHOLE_BASE_WORKER_MESSAGES_H

#include <keyhole/base/channel.h>

/* Both ends are the same binary, so types may be numbered anew at any time. X(name, type): body. */

/* From a worker, which may be taken over: no descriptor comes along. */
#define KH_WORKER_MSG_TO_KEEPER_TABLE(X) \
	X(LEAF_KEY, 1)	/* bytes: the worker's leaf public key, SubjectPublicKeyInfo DER; once */ \
	X(READY, 2)	/* ref: a generation. All threads work by it, and none by an earlier one: \
			   first when the worker is locked in and accepts, then whenever they \
			   have taken what another GO brought. It may stand for several GOs. The \
			   keeper refuses one that no GO brought, or that was said already */ \
	X(LEAF_WANT, 3) /* ref: the generation; str host, u16 tenant, u16 port, str the tenant \
			   whose CA is to sign (empty: there is one for all): a leaf for it, \
			   please. The keeper checks the name anew, and whether a rule allows it \
			   there */ \
	X(CREDENTIAL_WANT, 4) /* ref: the generation; a kh_credential_ref (credential_ref.h), u64 \
				 and u16 tenant: whose share it is (fair_share.h). Once a value: \
				 the answer is for all who wait */ \
	X(CREDENTIAL_REFUSED, 5) /* ref: the generation; a kh_credential_ref: an upstream answered \
				    401 to the token, or the command's value, that it gave. It is \
				    renewed, but not often */ \
	X(VERB, 6)		 /* ref, u8 verb (admin.h): somebody who may asked for it */ \
	X(DYNAMIC_SANDBOX_ADD, 7)    /* ref, kh_dynamic_sandbox_wish_put: make it */ \
	X(DYNAMIC_SANDBOX_REMOVE, 8) /* ref (0: nobody waits), str tenant, str id, u64 number (0: \
					whichever), u32 uid and u32 pid of who asks (uid -1: this \
					worker, of one that it had added): end it. What comes of \
					it says DYNAMIC_SANDBOX_GONE */ \
	X(CHECKPOINT, 9)    /* u64 seq, bytes head, u64 offset behind that line: it must be there \
			       when the next worker starts */ \
	X(JOURNAL_TORN, 10) /* bytes at the journal's end are no record, since it could not be \
			       written; nothing is until JOURNAL_CUT comes */ \
	X(HEAD, 11)	    /* u64 seq, bytes hash: the journal's last line; once a question */ \
	X(JOINED, 12)	    /* str why not; NULL: the journal says how it ended */ \
	X(DRAINED, 13)	    /* nothing runs any more */

/*
 * From the keeper. In this order at start: SNAPSHOT, LISTENERS, GEO, ADMIN, FACTS, FINGERPRINTS,
 * JOURNAL, ROOTS, RESOLVER, ISSUER, GO
 */
#define KH_WORKER_MSG_TO_WORKER_TABLE(X) \
	X(SNAPSHOT, 14) /* ref: the generation, from 1; fds: sealed memfd of kh_config_encode, and \
			   the limits' ledger; u32 slots in it, u8 column (quota.h). Also at a \
			   reload */ \
	X(LISTENERS, 15) /* u32 count of fds in this message, u32 index of the first; fds in the \
			    order of config.listeners, in as many messages as it takes */ \
	X(GEO, 16)   /* fds: sealed copies of upstream.geo's databases, that of countries first; \
			none where none is named. Also at a reload */ \
	X(ADMIN, 17) /* u32 uid of the daemon, then as many kinds (u8) as there are fds: the \
			acceptors of `admin` that are open. Also at a reload */ \
	X(FACTS, 18) /* what only the keeper knows (admin.h); also whenever it changes. fd, where \
			there are any: states of credentials */ \
	X(FINGERPRINTS, 19) /* u8 lists, u32 length of each; fds: fingerprints of all values \
			       (fingerprints.h). Also at a reload, and whenever a value is another \
			       one */ \
	X(JOURNAL, 20)	/* fds: the journal, opened anew for this worker, O_WRONLY|O_APPEND and \
			   O_RDONLY; u64 seq, bytes hash of the line that this segment continues \
			   (seq 0: none), u8 as of JOURNAL_HELD; u64 seq, bytes hash, u64 end of \
			   the last line that the keeper was told of in this file (end 0: none) */ \
	X(ROOTS, 21)	/* fds: PEM files of trust roots (system's, then the configuration's) */ \
	X(RESOLVER, 22) /* fds: sealed copies of resolv.conf and hosts (an empty one if absent) */ \
	X(ISSUER, 23)	/* u16 tenant whose sandboxes it is for (KH_NO_TENANT: all; otherwise one \
			   message each); bytes: the CA certificate, DER (goes into the chain that \
			   is sent); bytes: all that a sandbox is to trust, PEM. Also at a reload */ \
	X(GO, 24)	/* everything is there: lock in and serve. Also at a reload. READY says \
			   when it is in force */ \
	X(LEAF, 25) /* ref, str host, bytes: certificate DER (empty: refused), str tenant as it \
		       was asked for */ \
	X(CREDENTIAL, 26) /* ref, the kh_credential_ref; u32 length of the secret (0: none), u64 \
			     until when it is good (wall clock in ms; 0: for ever), str why there \
			     is none (for a sandbox to read); fd of the secret. May come long \
			     after the question */ \
	X(CREDENTIAL_STALE, 27) /* ref: the generation; u8 all of the credential's (1), or this \
				   one (0); a kh_credential_ref: what was told is replaced by \
				   another. Who needs it asks for it anew */ \
	X(VERB_DONE, 28)	/* ref, u8 it was done, str what there is to say */ \
	X(DYNAMIC_SANDBOX, 29)	/* kh_dynamic_sandbox_card_put, fd: there is one. Also behind each \
				   GO that opens acceptors to a new worker */ \
	X(DYNAMIC_SANDBOX_GONE, 30) /* ref (0: nobody asked), str tenant, str id: it is no more */ \
	X(DYNAMIC_SANDBOX_DONE, 31) /* ref, u8 result (dynamic_sandbox.h), str text; str tenant, \
				       str id, str path, u64 expires, u64 number: of an ADD, \
				       behind its DYNAMIC_SANDBOX; of a REMOVE only what failed */ \
	X(JOURNAL_HELD, 32) /* u8: nothing is forwarded (1), since the journal is no longer where \
			       its name leads; it is back there (0) */ \
	X(JOURNAL_CUT, 33)  /* u64 where the file ends now: they were cut off, or not */ \
	X(HEAD_WANT, 34)    /* what is the journal's last line now? */ \
	X(RETIRE, 35) /* another process accepts: end as connections end, then as after DRAIN, \
			 which may follow */ \
	X(JOIN, 36)   /* u64 cut, fds as of JOURNAL: the segment before, which nobody writes to \
			 any more */ \
	X(DRAIN, 37)  /* stop accepting, finish what runs, then say DRAINED and exit 0 */

#define KH_WORKER_MSG_ENUM(name, value) KH_WORKER_MSG_##name = value,
enum kh_worker_msg_to_keeper { KH_WORKER_MSG_TO_KEEPER_TABLE(KH_WORKER_MSG_ENUM) };
enum kh_worker_msg_to_worker { KH_WORKER_MSG_TO_WORKER_TABLE(KH_WORKER_MSG_ENUM) };
#undef KH_WORKER_MSG_ENUM

/* What each end takes. */
#define KH_WORKER_MSG_BIT(name, value) | KH_CHANNEL_BIT(value)
#define KH_WORKER_MSG_TO_KEEPER_SET (UINT64_C(0) KH_WORKER_MSG_TO_KEEPER_TABLE(KH_WORKER_MSG_BIT))
#define KH_WORKER_MSG_TO_WORKER_SET (UINT64_C(0) KH_WORKER_MSG_TO_WORKER_TABLE(KH_WORKER_MSG_BIT))

#endif
