/* dynamic_sandboxes.h - the keeper's registry of dynamic sandboxes: sandboxes that come and go
 * while the daemon runs */
#ifndef KEYHOLE_KEEPER_DYNAMIC_SANDBOXES_H
#define KEYHOLE_KEEPER_DYNAMIC_SANDBOXES_H

#include <keyhole/base/channel.h>
#include <keyhole/config/config.h>
#include <keyhole/config/dynamic_sandbox.h>
#include <keyhole/base/list.h>

struct kh_worker_process;

/*
 * Who is registered has a folder BASE/TENANT/ID with the socket `s` in it, which the keeper holds
 * open, whatever becomes of the worker. All of it goes when the dynamic sandbox is removed, when
 * its time is over, when the process ends that holds it, when its tenant goes with a reload, and
 * when the daemon drains. A daemon that was killed leaves folders behind; the next one clears them
 * away. A dynamic sandbox outlives its worker; one that was added by a worker that ended
 * unexpectedly is marked.
 */
struct kh_registry_entry {
	struct kh_node link; /* in the registry's list */
	struct kh_dynamic_sandbox_wish wish;
	uint64_t number;
	char *path;
	int fd;	   /* listening */
	dev_t dev; /* of the socket's name; ino 0: it is not ours to take away */
	ino_t ino;
	int pidfd;	     /* of the process that holds it; -1: none */
	int watch;	     /* the registry's epoll, where it has pidfd; -1: it has not */
	uint64_t ends_ms;    /* by the clock that only goes on; 0: never */
	uint64_t expires_ms; /* the same by the wall's */
	bool of_this_worker; /* the worker that runs had it added */
	bool suspect;	     /* a worker had, and ended unexpectedly */
};

/* What one tenant has. */
struct kh_registry_share {
	size_t count, narrow_bytes;
	size_t held; /* those with a pidfd */
};

struct kh_registry {
	struct kh_lru *by_name;	  /* owns the entries */
	struct kh_lru *by_tenant; /* struct kh_registry_share of each */
	struct kh_lru *by_number; /* of by_name's, those with a pidfd */
	struct kh_node list;
	size_t count, held; /* held: those with a pidfd */
	size_t narrow_bytes;
	size_t peak; /* of count, since memory was given back */
	size_t most; /* by RLIMIT_NOFILE */
	uint64_t last_number;
	uint64_t next_end_ms;	   /* no entry ends before; 0: none ends */
	int watch;		   /* epoll of pidfds, by number; -1: there are none */
	struct kh_channel *before; /* to the keeper that handed over, whose worker may still have
				      their connections; NULL: there is none */
	const char *busy;	   /* why nothing can be added or removed just now; NULL: it can */
};

bool kh_registry_open(struct kh_registry *reg, struct kh_err *err);
/* All of them go, with their folders; nobody is told. */
void kh_registry_shut(struct kh_registry *reg);
/* They are another process's: names stay. */
void kh_registry_forget(struct kh_registry *reg);
void kh_registry_close(struct kh_registry *reg);

/* DYNAMIC_SANDBOX_ADD, DYNAMIC_SANDBOX_REMOVE. Return: false when it is not what a worker sends. */
bool kh_registry_take(struct kh_registry *reg, struct kh_worker_process *worker_process,
		      const struct kh_channel_message *message);
/* Between two workers: sockets that the last one has shut down. */
void kh_registry_revive(struct kh_registry *reg);
/* While another process still has them: a flag of the open file, which it shares. It can't shut
 * them down. */
void kh_registry_unblock(struct kh_registry *reg);
/* The worker has ended, and nobody had asked it to. Return: how many are marked for that. */
size_t kh_registry_distrust(struct kh_registry *reg, pid_t worker);
/* A worker is told of all. */
bool kh_registry_feed(struct kh_registry *reg, struct kh_worker_process *worker_process,
		      struct kh_err *err);
/* Those whose tenant this configuration does not have go. */
void kh_registry_prune(struct kh_registry *reg, struct kh_worker_process *worker_process,
		       const struct kh_config *config);
/* Those whose time is over, or whose holder has ended, go. */
void kh_registry_turn(struct kh_registry *reg, struct kh_worker_process *worker_process);
/* When the next one's time is over; 0: never. */
uint64_t kh_registry_deadline(const struct kh_registry *reg);

/* What another keeper has made: taken over, or freed when there is no memory. */
bool kh_registry_adopt(struct kh_registry *reg, struct kh_registry_entry *entry,
		       struct kh_err *err);
void kh_registry_entry_free(struct kh_registry_entry *entry);

/* dynamic_sandbox_check.c */
/* Return: OK: there is room for it, and it may be. */
enum kh_dynamic_sandbox_result kh_dynamic_sandbox_check(struct kh_registry *reg,
							const struct kh_config *config,
							const struct kh_dynamic_sandbox_wish *wish,
							struct kh_err *err);
/* The configuration has a sandbox of that name. */
bool kh_dynamic_sandbox_is_configured(const struct kh_config *config, size_t tenant,
				      const char *id);
/* To the log. */
void kh_dynamic_sandbox_say_added(const struct kh_registry_entry *entry, pid_t worker);
void kh_dynamic_sandbox_say_removed(const struct kh_registry_entry *entry, uid_t uid, uint32_t pid,
				    pid_t worker);
void kh_dynamic_sandbox_say_ended(const struct kh_registry_entry *entry, const char *why);

/* dynamic_sandbox_hold.c: those that end with a process */
bool kh_dynamic_sandbox_holds_open(struct kh_registry *reg);
/* Opens the pidfd of wish.pid. */
bool kh_dynamic_sandbox_hold(struct kh_registry_entry *entry, struct kh_err *err);
/* An entry with a pidfd. On error it is not watched; kh_dynamic_sandbox_hold_forget is due all the
 * same. */
bool kh_dynamic_sandbox_hold_watch(struct kh_registry *reg, struct kh_registry_entry *entry,
				   struct kh_err *err);
/* It is found by its number no more. */
void kh_dynamic_sandbox_hold_forget(struct kh_registry *reg, const struct kh_registry_entry *entry);
/* Ends the watching, whoever else has the process's descriptor, and closes it. */
void kh_dynamic_sandbox_hold_end(struct kh_registry_entry *entry);
/* One whose process has ended; NULL: none. */
struct kh_registry_entry *kh_dynamic_sandbox_hold_ended(struct kh_registry *reg);

/* dynamic_sandbox_offer.c: at a handover. */
bool kh_registry_offer(const struct kh_registry *reg, struct kh_channel *to, struct kh_err *err);
/* An OFFER_DYNAMIC_SANDBOX. Its descriptors are taken. */
bool kh_registry_take_offer(struct kh_registry *reg, struct kh_channel_message *message,
			    struct kh_err *err);

/* dynamic_sandbox_folder.c */
/* Makes BASE/TENANT/ID/s and listens; sets path, fd, dev, ino. On error nothing is left. */
bool kh_dynamic_sandbox_folder_make(struct kh_registry_entry *entry, const char *base,
				    struct kh_err *err);
/* Closes, and takes away what is ours. */
void kh_dynamic_sandbox_folder_remove(struct kh_registry_entry *entry);
/* Between two workers: where the last one has shut it down it is listened on anew. */
void kh_dynamic_sandbox_folder_revive(struct kh_registry_entry *entry);
/* What a daemon that was killed has left there. Anything else stays, and is said. */
void kh_dynamic_sandbox_folder_sweep(const char *base);

#endif
