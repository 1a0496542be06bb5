/* worker_messages.h - the messages between keeper and worker, over a channel (channel.h) */
#ifndef KEYHOLE_BASE_WORKER_MESSAGES_H
#define KEYHOLE_BASE_WORKER_MESSAGES_H

#include <keyhole/base/channel.h>

/* Both ends are the same binary, so types may be renumbered at any time. X(name, type): the comment
 * says what `ref` and the body are; the encodings are those of wire.h. */

/* From a worker, which may be taken over. No message has a descriptor. */
#define KH_WORKER_MSG_TO_KEEPER_TABLE(X) \
	X(LEAF_KEY, 1)	   /* bytes: the worker's public key for leaves, SubjectPublicKeyInfo DER; \
		       once */ \
	X(READY, 2)	   /* ref: a generation. All threads use it, and none an earlier one. Sent \
			  first when the worker is locked in and accepts, then whenever all threads \
			  have taken the generation of a later GO. It may answer several GOs. The \
			  keeper refuses one that no GO brought, or that was sent already */ \
	X(LEAF_REQUEST, 3) /* a request for a leaf. ref: the generation; str host, u16 tenant, u16 \
		   port, str the tenant whose CA is to sign (empty: one CA signs for all). The \
		   keeper checks the name again, and whether a rule allows it there */ \
	X(CREDENTIAL_REQUEST, \
	  4)			 /* ref: the generation; a kh_credential_ref (credential_ref.h), \
		      u64 (KH_ASKER_DYNAMIC) and u16: number and tenant of the sandbox that is \
		      charged for it (fair_share.h). Once per value: the answer is for all requests that wait */ \
	X(CREDENTIAL_REFUSED, 5) /* ref: the generation; a kh_credential_ref: an upstream \
		   answered 401 to this token, or to this value of a command. It is renewed, \
		   but not often */ \
	X(VERB, 6) /* ref, u8 verb (admin_facts.h): a caller who may ask for it did */ \
	X(DYNAMIC_SANDBOX_ADD, 7)    /* ref, kh_dynamic_sandbox_wish_put: add this sandbox */ \
	X(DYNAMIC_SANDBOX_REMOVE, 8) /* ref (0: no caller waits), str tenant, str id, u64 \
		   number (0: any), u32 uid and u32 pid of the caller (uid -1: this worker \
		   itself, for a sandbox that it had added): remove it. DYNAMIC_SANDBOX_GONE \
		   has the result */ \
	X(CHECKPOINT, 9)    /* u64 seq, bytes hash, u64 offset after that line of the journal: it \
		      must be there when the next worker starts */ \
	X(JOURNAL_TORN, 10) /* a failed write left bytes at the journal's end that are no \
		   record; the worker writes nothing until JOURNAL_CUT comes */ \
	X(HEAD, 11) /* u64 seq, bytes hash: the journal's last line; once for each HEAD_REQUEST */ \
	X(JOINED, 12)  /* str error; NULL: the journal now says how the segment before ended */ \
	X(DRAINED, 13) /* no request runs any more */

/*
 * From the keeper. At the start of a worker they come in this order: SNAPSHOT, LISTENERS, GEO,
 * ADMIN, FACTS, FINGERPRINTS, JOURNAL, ROOTS, RESOLVER, ISSUER, GO.
 */
#define KH_WORKER_MSG_TO_WORKER_TABLE(X) \
	X(SNAPSHOT, 14)	 /* ref: the generation, from 1; u32 slots of the ledger, u8 column in \
		    it (quota.h); fds: sealed memfd of kh_config_encode, the limits' ledger. \
		    Also at a reload */ \
	X(LISTENERS, 15) /* u32 count of fds in this message, u32 index of the first; fds in \
		   the order of config.listeners, in as many messages as needed */ \
	X(GEO, 16)	 /* fds: sealed copies of the databases of upstream.geo, countries first; \
			 none if none is configured. Also at a reload */ \
	X(ADMIN, 17)	 /* u32 uid of the daemon, then one kind (u8) per fd; fds: the open \
		       acceptors of `admin`. Also at a reload */ \
	X(FACTS, 18)	 /* what only the keeper knows (admin_facts.h); also whenever it changes. \
		       fd, if there are any: the status of credentials */ \
	X(FINGERPRINTS, 19) /* u8 count of lists, u32 length of each; fds: fingerprints of all \
		   values (fingerprints.h). Also at a reload, and whenever a value changes */ \
	X(JOURNAL, 20) /* fds: the journal, opened anew for this worker, O_WRONLY|O_APPEND and \
		   O_RDONLY; u64 seq, bytes hash of the line that this segment continues (seq \
		   0: none); u8 as of JOURNAL_HELD; u8 that line's segment was set aside; u8 it \
		   ends with that line; u8 it still has a writer; u64, bytes cut as of JOIN, \
		   with its two fds (0: none, and no fds): join it before anything is served; u8 a \
		   worker has followed the file, u64 up to there; u64 seq, bytes hash, u64 end of \
		   the last checkpoint in this file (end 0: none) */ \
	X(ROOTS, 21) /* fds: PEM files of trust roots (the system's, then the configuration's) */ \
	X(RESOLVER, 22) /* fds: sealed copies of resolv.conf and hosts (empty if absent) */ \
	X(ISSUER, 23)	/* u16 tenant whose sandboxes it is for (KH_NO_TENANT: all; otherwise one \
		     message each); bytes: the CA certificate, DER, for the chain that is sent; \
		     bytes: all that a sandbox is to trust, PEM. Also at a reload */ \
	X(GO, 24)   /* everything was sent: lock in and serve the generation of the last SNAPSHOT. \
		     Also at a reload. READY says when it is in force */ \
	X(LEAF, 25) /* ref, str host, bytes: certificate DER (empty: refused), str tenant as in \
		   the LEAF_REQUEST */ \
	X(CREDENTIAL, 26)	/* ref: the generation; the kh_credential_ref, u32 length of the \
			 secret (0: none), u64 expiry (wall clock in ms; 0: never), str why there is \
			 none (a text for the sandbox); fd of the secret. May come long after \
			 CREDENTIAL_REQUEST */ \
	X(CREDENTIAL_STALE, 27) /* ref: the generation; u8: all values of the credential (1), \
		   or this one (0); a kh_credential_ref: the value that was sent is replaced. A \
		   request that needs it asks again */ \
	X(VERB_DONE, 28)	/* ref, u8 success, str message for the caller */ \
	X(DYNAMIC_SANDBOX, 29)	/* kh_dynamic_sandbox_card_put, fd of its socket: this sandbox \
		    exists. Also after each GO that opens acceptors to a new worker */ \
	X(DYNAMIC_SANDBOX_GONE, 30) /* ref (0: no caller waits), str tenant, str id: it was \
		   removed */ \
	X(DYNAMIC_SANDBOX_DONE, 31) /* ref, u8 result (dynamic_sandbox.h), str text; str \
		   tenant, str id, str path, u64 expires, u64 number. Of an ADD, after its \
		   DYNAMIC_SANDBOX; of a REMOVE only if it failed */ \
	X(JOURNAL_HELD, 32)	    /* u8 1: forward nothing, since the name of the journal's file \
			   leads to another file or to none; 0: it is back */ \
	X(JOURNAL_CUT, 33)  /* u64 length of the journal's file now, whether torn bytes were cut \
		    off or not */ \
	X(HEAD_REQUEST, 34) /* asks for HEAD */ \
	X(RETIRE, 35) /* another process accepts: serve each connection to its end, then act as \
		   after DRAIN, which may follow */ \
	X(JOIN, 36)   /* u64 seq, bytes hash of the line that was continued, fds as of JOURNAL: \
		     the segment before, to which nobody writes any more (kh_journal_join) */ \
	X(DRAIN, 37)  /* stop accepting, finish what runs, then send DRAINED and exit 0 */ \
	X(SUPERSEDED, 38) /* the rules of another process apply from here on: nothing of a sandbox \
		     goes up any more. End what runs, with its records, then act as after DRAIN */

#define KH_WORKER_MSG_ENUM(name, value) KH_WORKER_MSG_##name = value,
enum kh_worker_msg_to_keeper { KH_WORKER_MSG_TO_KEEPER_TABLE(KH_WORKER_MSG_ENUM) };
enum kh_worker_msg_to_worker { KH_WORKER_MSG_TO_WORKER_TABLE(KH_WORKER_MSG_ENUM) };
#undef KH_WORKER_MSG_ENUM

/* The types that each end accepts. */
#define KH_WORKER_MSG_BIT(name, value) | KH_CHANNEL_BIT(value)
#define KH_WORKER_MSG_TO_KEEPER_SET (UINT64_C(0) KH_WORKER_MSG_TO_KEEPER_TABLE(KH_WORKER_MSG_BIT))
#define KH_WORKER_MSG_TO_WORKER_SET (UINT64_C(0) KH_WORKER_MSG_TO_WORKER_TABLE(KH_WORKER_MSG_BIT))

#endif
