/* keeper_internal.h - the parts of the parent process */
#ifndef KEYHOLE_KEEPER_INTERNAL_H
#define KEYHOLE_KEEPER_INTERNAL_H

#include <stdbool.h>
#include <sys/stat.h>

#include <keyhole/base/log.h>
#include <keyhole/admin/admin_facts.h>
#include <keyhole/audit/audit.h>
#include <keyhole/tls/ca.h>
#include <keyhole/base/channel.h>
#include <keyhole/config/config.h>
#include <keyhole/keeper/keeper.h>
#include <keyhole/policy/quota_slots.h>
#include <keyhole/policy/policy.h>
#include <keyhole/base/secret.h>
#include <keyhole/config/credential_ref.h>

#include "dynamic_sandboxes.h"
#include "vault_internal.h"

/* sockets.c: descriptors that stay open across workers */
struct kh_sockets {
	const struct kh_config *config;
	/* For the listeners, then for the acceptors of `admin` (kh_config_acceptor). */
	struct kh_listening {
		int fd;
		dev_t dev; /* of the Unix socket's name */
		ino_t ino;
		size_t before; /* in kh_sockets_next: the index that it is borrowed from, or
				  KH_LISTENER_NONE */
		bool down;     /* nobody can connect; this was logged */
	} * listening;
	size_t count;
	int journal;
	int journal_lock;  /* of PATH.lock, which excludes other daemons; -1: none */
	uint64_t retry_ms; /* when to call kh_sockets_revive again; 0: all of them listen */
};
#define KH_NO_JOURNAL .journal = -1, .journal_lock = -1
bool kh_sockets_open(struct kh_sockets *sockets, const struct kh_config *config,
		     struct kh_err *err);
/* Opens one listener. */
bool kh_sockets_listen(struct kh_listening *l, const struct kh_listener_config *config,
		       struct kh_err *err);
/* Prepares the sockets of the next configuration: borrows common ones from `now`, and opens the
 * rest. Then call kh_sockets_drop_next or kh_sockets_adopt. */
bool kh_sockets_next(struct kh_sockets *next, const struct kh_sockets *now,
		     const struct kh_config *config, struct kh_err *err);
/* Closes what kh_sockets_next opened. */
void kh_sockets_drop_next(struct kh_sockets *next);
/* `next` takes ownership of all borrowed ones (and of the journal, if `now` has one); the rest of
 * `now` is closed. */
void kh_sockets_adopt(struct kh_sockets *next, struct kh_sockets *now);
/* Between two workers, and at retry_ms: listens again on sockets that a worker has shut down. If
 * that fails, a dummy descriptor takes the place of the listener, so that the others are served.
 * Return: a socket listens again. */
bool kh_sockets_revive(struct kh_sockets *sockets);
/* Another process owns them now: closes them, and leaves the names. */
void kh_sockets_forget(struct kh_sockets *sockets);
/* Stops listening to sandboxes, and unlinks their sockets, if the names still lead to them. */
void kh_sockets_shut(struct kh_sockets *sockets);
void kh_sockets_close(struct kh_sockets *sockets);
/* journal_lock.c */
/* Opens or makes (0600), and locks, the journal at `path`. `name`: the file's current name, if it
 * will become the journal at `path` later; NULL: `path`. *lock: to be kept as long as the journal;
 * -1: none. Return: the journal's descriptor; -1 with `err`, which names another process that holds
 * the lock. */
int kh_journal_lock(const char *path, const char *name, int *lock, struct kh_err *err);
/* Releases *lock of the journal at `path` (-1: does nothing), after the journal was closed; removes
 * the lock file if no other daemon uses it. */
void kh_journal_unlock(const char *path, int *lock);
/* The bytes of the journal that the record locks are on. */
enum { KH_JOURNAL_KEEPER_BYTE = 0, KH_JOURNAL_WRITER_BYTE = 1 };
/* Takes the keeper's record lock, which tells others that this process has the journal. */
void kh_journal_claim(int journal);

/* journal_file.c: opens or makes the journal; refuses a file that others may write to, or that has
 * several names. Return: a non-blocking descriptor; -1 with `err`. */
int kh_journal_open_file(const char *path, struct kh_err *err);

/* journal.c */
/* Opens the journal again, for one worker. Call kh_journal_lent afterwards in any case. */
bool kh_journal_lend(int journal, struct kh_journal_files *out, struct kh_err *err);
void kh_journal_lent(int journal, struct kh_journal_files *files);

/* files.c: files that a worker reads at its start, opened for each worker. The descriptors are the
 * caller's. */
enum { KH_ROOTS_MOST = 2 };
bool kh_roots_open(const struct kh_config *config, int fds[KH_ROOTS_MOST], unsigned *n,
		   struct kh_err *err);
/* Sealed copies of resolv.conf and hosts; empty ones for absent files. */
bool kh_resolver_files(int fds[2], struct kh_err *err);

/*
 * geo.c: sealed copies of the databases of upstream.geo. Later changes of the files do not affect
 * them.
 */
enum { KH_GEO_FILES = 2 }; /* of countries, of networks */
struct kh_geo_files {
	struct kh_geo_copy {
		int fd;		  /* -1: not configured */
		struct stat was;  /* the file that was copied */
		struct stat seen; /* the file at the last check */
		struct stat bad;  /* the file that was invalid, and is not read again */
	} file[KH_GEO_FILES];
	uint64_t look_ms; /* when the files are checked next; 0: no files */
};
void kh_geo_files_init(struct kh_geo_files *files);
/* Copies and checks all databases that the configuration names. */
bool kh_geo_files_open(struct kh_geo_files *files, const struct kh_config *config,
		       struct kh_err *err);
/* Copies files that have changed and then stayed the same since the last check. An invalid one is
 * logged, and the earlier copy stays. Return: there is a new copy. */
bool kh_geo_files_look(struct kh_geo_files *files, const struct kh_config *config);
void kh_geo_files_close(struct kh_geo_files *files);

/* child_log.c: standard error of worker and fetcher, which they can only write to */
/* Opens it, once. Return: their descriptor, valid until kh_child_log_close; -1: use /dev/null. */
int kh_child_log_open(void);
/* Their descriptor, if it was opened; else -1. */
int kh_child_log_theirs(void);
/* The keeper's end, readable when there are lines to copy; -1: they write to the file directly. */
int kh_child_log_ours(void);
void kh_child_log_take(void);
/* The process has ended: completes its last line. */
void kh_child_log_end_line(void);
void kh_child_log_close(void);
/* As kh_log, for messages that a worker can cause at any rate: within the same bound. */
void kh_child_log_charged(enum kh_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* spawn.c: the worker's process */
/* `channel` is the worker's end. Return: its pid; -1 with `err`. */
pid_t kh_spawn_worker(int channel, struct kh_err *err);

/* tenant_cas.c: of authority.per_tenant, in the order of config->tenants; `list` NULL: one CA signs
 * for all. */
struct kh_tenant_cas {
	struct kh_ca **list;
	size_t n;
};
/* Appends what identifies this set of CAs. */
bool kh_ca_in_force_mark(struct kh_buf *out, const struct kh_config *config, const struct kh_ca *ca,
			 const struct kh_tenant_cas *cas);

/* signer.c: leaves */
struct kh_signer {
	struct kh_buf spki; /* the public key of the running worker */
	struct kh_signer_bucket {
		double tokens;
		uint64_t tokens_ms;
		bool said_flooded;
	} all, refusals;
};
void kh_signer_init(struct kh_signer *signer);
void kh_signer_fini(struct kh_signer *signer);
/* A new worker: the old one's key is forgotten. */
void kh_signer_reset(struct kh_signer *signer);
/* Takes the body of LEAF_KEY. Return: false: malformed; no worker sends that. */
bool kh_signer_take_key(struct kh_signer *signer, struct kh_slice body);
/* Does a rule in force allow anything at that host? */
typedef bool kh_signer_allows(const void *arg, uint16_t tenant, const struct kh_host *host,
			      uint16_t port);
/* Finds the CA by name; *tenant: its tenant, if it belongs to one. Return: NULL: there is none. */
typedef const struct kh_ca *kh_signer_ca(const void *worker_process, const char *name,
					 uint16_t *tenant);
struct kh_signer_asks {
	kh_signer_allows *allows;
	const void *rules; /* for allows */
	kh_signer_ca *ca;
	const void *worker_process; /* for ca */
};
/* Takes the body of LEAF_REQUEST and writes the body of LEAF into `reply`; an empty leaf is a
 * refusal. Return: false: malformed; no worker sends that. */
bool kh_signer_answer(struct kh_signer *signer, struct kh_slice body,
		      const struct kh_signer_asks *asks, struct kh_buf *reply);

/* worker_process.c: the running worker */
enum kh_worker_process_state {
	KH_WORKER_PROCESS_NONE = 0, /* no process */
	KH_WORKER_PROCESS_STARTING, /* the process runs; READY has not come yet */
	KH_WORKER_PROCESS_SERVING,
	KH_WORKER_PROCESS_DRAINING,  /* DRAIN was sent */
	KH_WORKER_PROCESS_CONDEMNED, /* SIGKILL was sent; waits to reap it */
};

struct kh_worker_process {
	struct kh_config *config; /* borrowed, like the next five */
	uint32_t generation;	  /* of the configuration, from 1 */
	/* Generations: the last one that this worker was told, and the last one that it confirmed
	 * by READY. */
	uint32_t told, confirmed;
	uint64_t confirm_ms;	  /* the deadline for the next READY, while they differ */
	struct kh_policy *policy; /* made of `config` when a leaf is first requested; see
				     kh_worker_process_forget_policy */
	const struct kh_ca *ca;
	struct kh_tenant_cas tenant_cas; /* borrowed too */
	struct kh_vault *vault;
	const struct kh_sockets *sockets;
	const struct kh_geo_files *geo;
	struct kh_quota_slots *quota_slots;    /* borrowed too */
	unsigned column;		       /* its column in the ledger (quota.h) */
	struct kh_admin_facts *facts;	       /* and this; NULL: there are none */
	struct kh_registry *dynamic_sandboxes; /* borrowed too */
	bool dynamic_sandboxes_fed;	       /* this worker was told about all of them */
	/* A request to the keeper by the admin socket that is not answered yet; 0: none. */
	enum kh_admin_verb verb;
	uint32_t verb_ref;
	bool verb_begun; /* it is done except for the answer */
	struct kh_signer signer;
	enum kh_worker_process_state state;
	pid_t pid;
	struct kh_channel channel;
	uint64_t serving_ms; /* when this worker first sent READY; 0: not yet */
	bool drained;
	bool torn;	   /* JOURNAL_TORN came and is not answered yet */
	bool journal_held; /* it was told to hold; before it is spawned: it will be told */
	bool retired;	   /* RETIRE was sent, DRAIN may follow */
	/* In a handover: the acceptors are not open yet; and the line that the journal
	 * continues. */
	bool acceptors_shut;
	struct kh_journal_base base;
	/* The journal continues the line `before_cut` of this segment, to which nobody writes any
	 * more
	 * (-1: none). A worker said that it wrote the `joined` record, and may have been taken
	 * over: each later one repeats it before it reads a byte of a sandbox. Owned. */
	int before;
	struct kh_journal_base before_cut;
	/* HEAD: requested, and the answer. */
	bool head_asked, head_known;
	struct kh_journal_base head;
	/* JOIN: requested, and the answer. */
	enum kh_worker_process_join {
		KH_WORKER_PROCESS_JOIN_NONE = 0,
		KH_WORKER_PROCESS_JOIN_ASKED,
		KH_WORKER_PROCESS_JOINED
	} join;
	/* Its fingerprints: when they are sent next (0: up to date), and when they were last
	 * sent. */
	uint64_t fingerprints_due_ms, fingerprints_ms, fingerprints_took_ms;
	/* The last checkpoint. Its end is 0 if the line is in an earlier segment. */
	struct kh_checkpoint checkpoint;
	/* What this worker said of the file before it was ready: the last line whose chain holds.
	 * end 0: nothing. */
	struct kh_checkpoint held;
	/* The line before the journal's first one: the lower bound of its numbers (numbers.c). */
	uint64_t base_seq;
	bool base_known;
	/* The journal's size when this worker got it. Ready, it has followed it up to there, for
	 * the next one: `since`. */
	uint64_t lent_at, since;
	bool followed; /* at least one worker has: `since` is valid */
	/* It reported an impossible number. The next worker begins a segment after the
	 * checkpoint. */
	bool doubted;
	/* Another keeper signs from now on: what is told is no longer kept. */
	bool frozen;
};

/* numbers.c */
/* Reads base_seq, before the first worker of this daemon gets the file. */
void kh_worker_process_read_base(struct kh_worker_process *worker_process);
/* Can the journal have a line `seq` that ends at offset `end` (0: anywhere in the file)? */
bool kh_worker_process_can_be_at(const struct kh_worker_process *worker_process, uint64_t seq,
				 uint64_t end);
/* The worker tells of this line of the journal: a checkpoint, or the last line that holds. */
void kh_worker_process_note_line(struct kh_worker_process *worker_process,
				 const struct kh_checkpoint *line);
/* The worker has reported an impossible line number. */
void kh_worker_process_doubt(struct kh_worker_process *worker_process, uint64_t seq);

/* Starts the process, which loads while the keeper prepares the start messages. */
bool kh_worker_process_spawn(struct kh_worker_process *worker_process, struct kh_err *err);
/* worker_process_state.c: the only assignment of its state. `err` may be NULL. */
bool kh_worker_process_set_state(struct kh_worker_process *worker_process,
				 enum kh_worker_process_state state, struct kh_err *err);
/* Sends the start messages, SNAPSHOT to GO; all borrowed members must be set. */
bool kh_worker_process_feed(struct kh_worker_process *worker_process, struct kh_err *err);
/* Call it before its configuration is freed. */
void kh_worker_process_forget_policy(struct kh_worker_process *worker_process);
/* The deadline for READY; 0: none is expected. */
uint64_t kh_worker_process_deadline(const struct kh_worker_process *worker_process);
/* Handles the worker's messages. A worker that sends a forbidden message is condemned. */
void kh_worker_process_receive(struct kh_worker_process *worker_process);
/* Sends the new configuration, which is in force when its `generation` is confirmed. If that fails,
 * the worker is condemned. */
void kh_worker_process_reload(struct kh_worker_process *worker_process);
void kh_worker_process_tell_facts(struct kh_worker_process *worker_process);
/* Tells the worker to forward nothing (`hold`), or to go on; a worker that does not serve yet is
 * told later. */
void kh_worker_process_hold_journal(struct kh_worker_process *worker_process, bool hold);
/* The answer to JOURNAL_TORN. */
void kh_worker_process_tell_journal_cut(struct kh_worker_process *worker_process, uint64_t end);
/* May values and fingerprints be sent to it? Also while it drains. */
bool kh_worker_process_can_be_told(const struct kh_worker_process *worker_process);
/* asker.c */
/* Whom a CREDENTIAL_REQUEST charges, by what the worker says (KH_ASKER_DYNAMIC).
 * KH_FAIR_SHARE_NOBODY: there is no such sandbox. */
struct kh_fair_share_asker kh_worker_process_asker(const struct kh_worker_process *worker_process,
						   uint64_t number, uint16_t tenant);
/* How many sandboxes the tenant has, of the configuration and added. */
size_t kh_worker_process_sandboxes(const struct kh_worker_process *worker_process, uint16_t tenant);

/* Answers CREDENTIAL_REQUEST; `value` NULL: there is none; `err` says why, in words for a sandbox.
 */
void kh_worker_process_answer_credential(struct kh_worker_process *worker_process,
					 const struct kh_credential_ref *ref,
					 const struct kh_value *value, struct kh_err *err);
void kh_worker_process_tell_stale(struct kh_worker_process *worker_process,
				  const struct kh_credential_ref *ref, bool whole);
/* fingerprints.c: sends FINGERPRINTS at a start or reload; and when a value has changed. */
bool kh_worker_process_feed_fingerprints(struct kh_worker_process *worker_process,
					 struct kh_err *err);
void kh_worker_process_tell_fingerprints(struct kh_worker_process *worker_process);
/* Schedules the same, at most every 250 ms, since all fingerprints are computed again. They are
 * also sent before the worker gets the next value, so that it has no value that it can't
 * recognise. */
void kh_worker_process_note_secret(struct kh_worker_process *worker_process);
void kh_worker_process_look_at_fingerprints(struct kh_worker_process *worker_process);
void kh_worker_process_drain(struct kh_worker_process *worker_process);
/* Another process accepts from now on: this worker ends when its connections have ended. */
void kh_worker_process_retire(struct kh_worker_process *worker_process);
/* The rules of another process hold: this worker ends what it has, now. */
void kh_worker_process_supersede(struct kh_worker_process *worker_process);
void kh_worker_process_condemn(struct kh_worker_process *worker_process);
/* Return: true: the process was reaped; *status is waitpid's, and the state is NONE. */
bool kh_worker_process_reap(struct kh_worker_process *worker_process, bool wait, int *status);

/* worker_process_journal.c */
/* Requests the journal's last line. Return: false: no worker serves. */
bool kh_worker_process_ask_head(struct kh_worker_process *worker_process);
/* Tells it to record how the previous segment ended; the member `join` has the progress. */
void kh_worker_process_join(struct kh_worker_process *worker_process, int segment,
			    const struct kh_journal_base *cut);
/* Take the message of this name. Return: false: it may not be sent now, or not with this body. */
bool kh_worker_process_on_checkpoint(struct kh_worker_process *worker_process,
				     const struct kh_channel_message *message);
bool kh_worker_process_on_head(struct kh_worker_process *worker_process,
			       const struct kh_channel_message *message);
bool kh_worker_process_on_joined(struct kh_worker_process *worker_process,
				 const struct kh_channel_message *message);

/* notify.c */
/* Sends one datagram ("READY=1") to $NOTIFY_SOCKET, if that is set. */
void kh_notify(const char *state);
void kh_notify_reloading(void);
/* How many listening sockets systemd passed to this process (from descriptor 3 on). */
unsigned kh_notify_passed_fds(void);
/* A duplicate of the one that listens at `path`; -1: none. */
int kh_notify_passed_take(const char *path);
/* Sets close-on-exec on all of them. */
void kh_notify_passed_seal(void);

#endif
