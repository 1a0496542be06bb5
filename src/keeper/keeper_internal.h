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

/* sockets.c: what stays open while workers come and go */
struct kh_sockets {
	const struct kh_config *config;
	/* Of the listeners, then of the acceptors of `admin` (kh_config_acceptor). */
	struct kh_listening {
		int fd;
		dev_t dev; /* of the name that leads to it */
		ino_t ino;
		size_t before; /* of the next: where it was borrowed, or KH_LISTENER_NONE */
		bool down;     /* nobody can connect, and that was said */
	} * listening;
	size_t count;
	int journal;
	int journal_lock;  /* of the file that keeps others from it; -1: there is none */
	uint64_t retry_ms; /* when to revive again; 0: all of them listen */
};
#define KH_NO_JOURNAL .journal = -1, .journal_lock = -1
bool kh_sockets_open(struct kh_sockets *sockets, const struct kh_config *config,
		     struct kh_err *err);
/* One of them. */
bool kh_sockets_listen(struct kh_listening *l, const struct kh_listener_config *config,
		       struct kh_err *err);
/* Of the next configuration: what both have is borrowed from `now`, the rest is opened beside it.
 * Then either of the other two. */
bool kh_sockets_next(struct kh_sockets *next, const struct kh_sockets *now,
		     const struct kh_config *config, struct kh_err *err);
/* Takes back what kh_sockets_next opened. */
void kh_sockets_drop_next(struct kh_sockets *next);
/* `next` owns them all (and the journal, where `now` has one); `now` is closed. */
void kh_sockets_adopt(struct kh_sockets *next, struct kh_sockets *now);
/* Between two workers, and at retry_ms: what a worker has shut down is listened on anew. Where that
 * fails, a descriptor that nothing comes from stands in its place, so that the rest is served.
 * Return: something is listened on anew. */
bool kh_sockets_revive(struct kh_sockets *sockets);
/* They are another process's: stops listening, leaves the names. */
void kh_sockets_forget(struct kh_sockets *sockets);
/* Stops listening to sandboxes and takes those names away, where they are still ours. */
void kh_sockets_shut(struct kh_sockets *sockets);
void kh_sockets_close(struct kh_sockets *sockets);
/* journal_lock.c */
/* Opens, makes (0600) and locks. `name`: the file's own where it is to be the journal at `path`
 * later; NULL: it is. *lock: to be kept as long as the journal; -1: none. Return: -1; where another
 * process holds it, the error says which. */
int kh_journal_lock(const char *path, const char *name, int *lock, struct kh_err *err);
/* Gives *lock of the journal at `path` up (-1: nothing), after the journal was closed; takes its
 * file away where no other daemon uses it. */
void kh_journal_unlock(const char *path, int *lock);
/* Bytes that record locks stand on. */
enum { KH_JOURNAL_KEEPER_BYTE = 0, KH_JOURNAL_WRITER_BYTE = 1 };
/* Says that this process has it, to whom it may concern. */
void kh_journal_claim(int journal);

/* journal_file.c: opens the journal, or makes it; refuses what others could write to or read by
 * another name. Return: -1 with `err`. Non-blocking. */
int kh_journal_open_file(const char *path, struct kh_err *err);

/* journal.c */
/* Opened anew, for one worker. Then, in any case: kh_journal_lent. */
bool kh_journal_lend(int journal, struct kh_journal_files *out, struct kh_err *err);
void kh_journal_lent(int journal, struct kh_journal_files *files);

/* files.c: what a worker reads at its start, opened anew for each. The descriptors are the
 * caller's. */
enum { KH_ROOTS_MOST = 2 };
bool kh_roots_open(const struct kh_config *config, int fds[KH_ROOTS_MOST], unsigned *n,
		   struct kh_err *err);
/* Sealed copies of resolv.conf and hosts; empty ones for absent files. */
bool kh_resolver_files(int fds[2], struct kh_err *err);

/*
 * geo.c: sealed copies of the databases of upstream.geo. They are as good as they were when they
 * were taken, whatever becomes of the files.
 */
enum { KH_GEO_FILES = 2 }; /* of countries, of networks */
struct kh_geo_files {
	struct kh_geo_copy {
		int fd;		  /* -1: none is named */
		struct stat was;  /* the file that was copied */
		struct stat seen; /* that stood there when it was looked at last */
		struct stat bad;  /* that was found bad, and is not looked into again */
	} file[KH_GEO_FILES];
	uint64_t look_ms; /* when the files are looked at next; 0: there are none */
};
void kh_geo_files_init(struct kh_geo_files *files);
/* All that the configuration names, and that they can be used. */
bool kh_geo_files_open(struct kh_geo_files *files, const struct kh_config *config,
		       struct kh_err *err);
/* Takes what has been replaced, and stayed so since the last look. What can't be used is said, and
 * the one before stays. Return: there is something new. */
bool kh_geo_files_look(struct kh_geo_files *files, const struct kh_config *config);
void kh_geo_files_close(struct kh_geo_files *files);

/* child_log.c: standard error of worker and fetcher, which they can write to and no more */
/* Opens it, once. Return: theirs, as long as this process lasts; -1: /dev/null is to stand in. */
int kh_child_log_open(void);
/* The same, where it was opened; else -1. */
int kh_child_log_theirs(void);
/* Readable when there is something to be written on; -1: they write by themselves. */
int kh_child_log_ours(void);
void kh_child_log_take(void);
/* The process is gone: what it said last is a line. */
void kh_child_log_end_line(void);
void kh_child_log_close(void);
/* As kh_log, of what a worker can have the keeper say as often as it likes: within the same bound.
 */
void kh_child_log_charged(enum kh_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* spawn.c: the worker's process */
/* `channel` is the worker's end. Return: its pid, -1 on error. */
pid_t kh_spawn_worker(int channel, struct kh_err *err);

/* tenant_cas.c: of authority.per_tenant, in the order of config->tenants; `list` NULL: one CA signs
 * for all. */
struct kh_tenant_cas {
	struct kh_ca **list;
	size_t n;
};
/* What tells one set of CAs from another, appended. */
bool kh_ca_in_force_mark(struct kh_buf *out, const struct kh_config *config, const struct kh_ca *ca,
			 const struct kh_tenant_cas *cas);

/* signer.c: leaves */
struct kh_signer {
	struct kh_buf spki; /* of the worker that runs now */
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
/* LEAF_KEY's body. Return: false when it is not what a worker sends. */
bool kh_signer_take_key(struct kh_signer *signer, struct kh_slice body);
/* Does a rule in force allow anything at that host, which the name of a leaf is to be? */
typedef bool kh_signer_allows(const void *arg, uint16_t tenant, const struct kh_host *host,
			      uint16_t port);
/* The CA of that name, and in *tenant whose it is, where it is one tenant's. Return: NULL: there is
 * none. */
typedef const struct kh_ca *kh_signer_ca(const void *worker_process, const char *name,
					 uint16_t *tenant);
struct kh_signer_asks {
	kh_signer_allows *allows;
	const void *rules; /* for allows */
	kh_signer_ca *ca;
	const void *worker_process; /* for ca */
};
/* LEAF_WANT's body; LEAF's body into `reply`. Return: false when it is not what a worker sends; a
 * leaf that is refused is an empty one. */
bool kh_signer_answer(struct kh_signer *signer, struct kh_slice body,
		      const struct kh_signer_asks *asks, struct kh_buf *reply);

/* worker_process.c: the worker that runs, as the keeper sees it */
enum kh_worker_process_state {
	KH_WORKER_PROCESS_NONE = 0, /* no process */
	KH_WORKER_PROCESS_STARTING, /* the process runs, READY has not come */
	KH_WORKER_PROCESS_SERVING,
	KH_WORKER_PROCESS_DRAINING,  /* DRAIN was sent */
	KH_WORKER_PROCESS_CONDEMNED, /* SIGKILL was sent; its end is awaited */
};

struct kh_worker_process {
	struct kh_config *config; /* borrowed, like the next five */
	uint32_t generation;	  /* of the configuration, from 1 */
	/* Of this worker: the one that it was told last, and the one that it said READY of last. */
	uint32_t told, confirmed;
	uint64_t confirm_ms; /* until when it has to say the next, while they differ */
	struct kh_policy
		*policy; /* its rules, once a leaf was asked for; kh_worker_process_forget_policy */
	const struct kh_ca *ca;
	struct kh_tenant_cas tenant_cas; /* borrowed too */
	struct kh_vault *vault;
	const struct kh_sockets *sockets;
	const struct kh_geo_files *geo;
	struct kh_quota_slots *quota_slots;    /* borrowed too */
	unsigned column;		       /* of its places in the ledger (quota.h) */
	struct kh_admin_facts *facts;	       /* and this; NULL: there are none */
	struct kh_registry *dynamic_sandboxes; /* borrowed too */
	bool dynamic_sandboxes_fed;	       /* this worker was told of all that are there */
	/* What somebody asked of the keeper, and it has not answered yet; 0: nothing. */
	enum kh_admin_verb verb;
	uint32_t verb_ref;
	bool verb_begun; /* it is done, but for its answer */
	struct kh_signer signer;
	enum kh_worker_process_state state;
	pid_t pid;
	struct kh_channel channel;
	uint64_t serving_ms; /* of this worker: when it said READY first; 0: not yet */
	bool drained;
	bool torn;	   /* JOURNAL_TORN came, and is not answered */
	bool journal_held; /* it was told so; before it is spawned: it is to be */
	bool retired;	   /* RETIRE was sent, DRAIN may follow */
	/* At a handover: the acceptors are not opened yet; what the journal continues. */
	bool acceptors_shut;
	struct kh_journal_base base;
	/* HEAD: asked for, and the answer. */
	bool head_asked, head_known;
	struct kh_journal_base head;
	/* JOIN: asked for, and the answer. */
	enum kh_worker_process_join {
		KH_WORKER_PROCESS_JOIN_NONE = 0,
		KH_WORKER_PROCESS_JOIN_ASKED,
		KH_WORKER_PROCESS_JOINED
	} join;
	/* Its fingerprints: when they are told anew (0: they are as they are to be), and were. */
	uint64_t fingerprints_due_ms, fingerprints_ms;
	/* The last one that was told. Its end is 0 where it stands in a segment before. */
	struct kh_checkpoint checkpoint;
	uint64_t first_seq; /* of the first one that was told, ever; 0: none was */
	/* The journal's size when this worker got it. Ready, it has followed it up to there, for
	 * the next one: `since`. */
	uint64_t lent_at, since;
	bool followed; /* one has, ever: `since` holds */
	/* What was told can't be. The next worker begins a segment behind the checkpoint. */
	bool doubted;
	/* Another keeper signs from now on: what is told is no longer kept. */
	bool frozen;
};

/* numbers.c */
/* Can the journal's line `seq` be there, and end at `end` (0: anywhere in the file)? */
bool kh_worker_process_can_be_at(const struct kh_worker_process *worker_process, uint64_t seq,
				 uint64_t end);
/* The worker has said of the journal what can't be. */
void kh_worker_process_doubt(struct kh_worker_process *worker_process, uint64_t seq);

/* The process alone, so that it can start while the keeper prepares what it needs. */
bool kh_worker_process_spawn(struct kh_worker_process *worker_process, struct kh_err *err);
/* The start messages, SNAPSHOT to GO; all borrowed members are set. */
bool kh_worker_process_feed(struct kh_worker_process *worker_process, struct kh_err *err);
/* Before its configuration is freed. */
void kh_worker_process_forget_policy(struct kh_worker_process *worker_process);
/* When it is late with READY; 0: nothing is awaited. */
uint64_t kh_worker_process_deadline(const struct kh_worker_process *worker_process);
/* Takes and answers what the worker sent. One that says what it may not is condemned. */
void kh_worker_process_receive(struct kh_worker_process *worker_process);
/* The configuration is another one now, in force when its `generation` is confirmed. A worker that
 * can't be told is condemned. */
void kh_worker_process_reload(struct kh_worker_process *worker_process);
void kh_worker_process_tell_facts(struct kh_worker_process *worker_process);
/* Nothing is forwarded while it holds; a worker that does not serve yet is told later. */
void kh_worker_process_hold_journal(struct kh_worker_process *worker_process, bool hold);
/* The answer to JOURNAL_TORN. */
void kh_worker_process_tell_journal_cut(struct kh_worker_process *worker_process, uint64_t end);
/* It gets values, also while it drains, and therefore hears how to recognise them. */
bool kh_worker_process_can_be_told(const struct kh_worker_process *worker_process);
/* An answer to CREDENTIAL_WANT; `value` NULL: there is none, as the error says to a sandbox. */
void kh_worker_process_answer_want(struct kh_worker_process *worker_process,
				   const struct kh_credential_ref *want,
				   const struct kh_value *value, struct kh_err *err);
void kh_worker_process_tell_stale(struct kh_worker_process *worker_process,
				  const struct kh_credential_ref *want, bool whole);
/* fingerprints.c: FINGERPRINTS, at a start or reload; and when a value has become another one. */
bool kh_worker_process_feed_fingerprints(struct kh_worker_process *worker_process,
					 struct kh_err *err);
void kh_worker_process_tell_fingerprints(struct kh_worker_process *worker_process);
/* The same soon, but not more often than every 250 ms, since all of them are made anew: when they
 * are due, or before the worker is given the next value, so that it knows no value that it does not
 * recognise. */
void kh_worker_process_note_secret(struct kh_worker_process *worker_process);
void kh_worker_process_look_at_fingerprints(struct kh_worker_process *worker_process);
void kh_worker_process_drain(struct kh_worker_process *worker_process);
/* Another process accepts from now on: it ends as its connections end. */
void kh_worker_process_retire(struct kh_worker_process *worker_process);
/* Asks for the journal's last line. Return: false when no worker serves. */
bool kh_worker_process_ask_head(struct kh_worker_process *worker_process);
/* Asks it to write how the segment before ended; `join` says how far that is. */
void kh_worker_process_join(struct kh_worker_process *worker_process, int segment, uint64_t cut);
void kh_worker_process_condemn(struct kh_worker_process *worker_process);
/* Return: true when the process has ended; *status is waitpid's, and the state is NONE. */
bool kh_worker_process_reap(struct kh_worker_process *worker_process, bool wait, int *status);

/* notify.c */
/* One datagram to $NOTIFY_SOCKET ("READY=1"); nothing where there is none. */
void kh_notify(const char *state);
void kh_notify_reloading(void);
/* How many listening sockets systemd passed (from descriptor 3 on), to this very process. */
unsigned kh_notify_passed_fds(void);
/* A duplicate of the one that listens at `path`, -1: none does. */
int kh_notify_passed_take(const char *path);
/* Close-on-exec for all of them. */
void kh_notify_passed_seal(void);

#endif
