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
 * Each entry has a folder BASE/TENANT/ID with the socket `s`, which the keeper holds open across
 * workers. They are removed when the dynamic sandbox is removed or expires, when the process that
 * holds it ends, when a reload removes its tenant, and when the daemon drains. A killed daemon
 * leaves folders behind, which the next one removes. An entry is marked as suspect if the worker
 * that added it ended unexpectedly.
 */
struct kh_registry_entry {
	struct kh_node link; /* in the registry's list */
	struct kh_dynamic_sandbox_wish wish;
	uint64_t number;
	char *path;
	int fd;	   /* listening */
	dev_t dev; /* of the socket's name; ino 0: not ours to remove */
	ino_t ino;
	int pidfd;	     /* of the process that holds it; -1: none */
	int watch;	     /* the registry's epoll, if it watches pidfd; -1: it does not */
	uint64_t ends_ms;    /* monotonic clock; 0: never */
	uint64_t expires_ms; /* the same by the wall clock */
	bool of_this_worker; /* the running worker added it */
	bool suspect;	     /* an earlier worker added it and ended unexpectedly */
};

/* The counts of one tenant. */
struct kh_registry_share {
	size_t count, narrow_bytes;
	size_t held; /* those with a pidfd */
};

struct kh_registry {
	struct kh_lru *by_name;	  /* owns the entries */
	struct kh_lru *by_tenant; /* struct kh_registry_share of each */
	struct kh_lru *by_number; /* the same */
	struct kh_node list;
	size_t count, held; /* held: those with a pidfd */
	size_t narrow_bytes;
	size_t peak; /* the most of `count` since memory was last trimmed */
	size_t most; /* the most entries, by RLIMIT_NOFILE */
	uint64_t last_number;
	uint64_t next_end_ms;	   /* no entry expires before; 0: none expires */
	int watch;		   /* epoll of pidfds, by number; -1: there are none */
	struct kh_channel *before; /* to the previous keeper in a handover, whose worker may still
				      have their connections; NULL: none */
	const char *busy;	   /* why nothing can be added or removed now; NULL: it can */
};

bool kh_registry_open(struct kh_registry *reg, struct kh_err *err);
/* Removes all entries with their folders, without telling the worker. */
void kh_registry_shut(struct kh_registry *reg);
/* Another process owns them now: closes them, and leaves the folders. */
void kh_registry_forget(struct kh_registry *reg);
void kh_registry_close(struct kh_registry *reg);

/* Handles DYNAMIC_SANDBOX_ADD and DYNAMIC_SANDBOX_REMOVE. Return: false: malformed; no worker sends
 * that. */
bool kh_registry_take(struct kh_registry *reg, struct kh_worker_process *worker_process,
		      const struct kh_channel_message *message);
/* Between two workers: repairs sockets that the last one has shut down. */
void kh_registry_revive(struct kh_registry *reg);
/* While another process still has them: a flag of the open file, which it shares. It can't shut
 * them down. */
void kh_registry_unblock(struct kh_registry *reg);
/* The worker has ended unexpectedly: marks its entries as suspect. Return: how many. */
size_t kh_registry_distrust(struct kh_registry *reg, pid_t worker);
/* Tells a worker about all entries. */
bool kh_registry_feed(struct kh_registry *reg, struct kh_worker_process *worker_process,
		      struct kh_err *err);
/* Removes entries whose tenant is not in this configuration. */
void kh_registry_prune(struct kh_registry *reg, struct kh_worker_process *worker_process,
		       const struct kh_config *config);
/* Removes entries that have expired, or whose holder has ended. */
void kh_registry_turn(struct kh_registry *reg, struct kh_worker_process *worker_process);
/* When the next one expires; 0: never. */
uint64_t kh_registry_deadline(const struct kh_registry *reg);

/* Adds an entry of another keeper. Takes ownership; frees it on failure, for which
 * `err` has the reason (a duplicate, too many, no memory). */
bool kh_registry_adopt(struct kh_registry *reg, struct kh_registry_entry *entry,
		       struct kh_err *err);
void kh_registry_entry_free(struct kh_registry_entry *entry);

/* dynamic_sandbox_check.c */
/* Return: OK: it may be added, and there is room for it. */
enum kh_dynamic_sandbox_result kh_dynamic_sandbox_check(struct kh_registry *reg,
							const struct kh_config *config,
							const struct kh_dynamic_sandbox_wish *wish,
							struct kh_err *err);
/* Does the configuration have a sandbox with this name? */
bool kh_dynamic_sandbox_is_configured(const struct kh_config *config, size_t tenant,
				      const char *id);
/* Log an addition, a removal, an end. */
void kh_dynamic_sandbox_say_added(const struct kh_registry_entry *entry, pid_t worker);
void kh_dynamic_sandbox_say_removed(const struct kh_registry_entry *entry, uid_t uid, uint32_t pid,
				    pid_t worker);
void kh_dynamic_sandbox_say_ended(const struct kh_registry_entry *entry, const char *why);

/* dynamic_sandbox_hold.c: those that end with a process */
bool kh_dynamic_sandbox_holds_open(struct kh_registry *reg);
/* Opens the pidfd of wish.pid. */
bool kh_dynamic_sandbox_hold(struct kh_registry_entry *entry, struct kh_err *err);
/* Puts it into the table by number, and watches its pidfd if it has one. On error it is not
 * watched; kh_dynamic_sandbox_hold_forget is due all the same. */
bool kh_dynamic_sandbox_hold_watch(struct kh_registry *reg, struct kh_registry_entry *entry,
				   struct kh_err *err);
/* Removes it from the table by number. */
void kh_dynamic_sandbox_hold_forget(struct kh_registry *reg, const struct kh_registry_entry *entry);
/* Ends the watch, even if another process has the same pidfd open, and closes the pidfd. */
void kh_dynamic_sandbox_hold_end(struct kh_registry_entry *entry);
/* Returns an entry whose process has ended; NULL: none. */
struct kh_registry_entry *kh_dynamic_sandbox_hold_ended(struct kh_registry *reg);

/* dynamic_sandbox_offer.c: at a handover. */
bool kh_registry_offer(const struct kh_registry *reg, struct kh_channel *to, struct kh_err *err);
/* Takes an OFFER_DYNAMIC_SANDBOX, with its descriptors. */
bool kh_registry_take_offer(struct kh_registry *reg, struct kh_channel_message *message,
			    struct kh_err *err);

/* dynamic_sandbox_folder.c */
/* Makes BASE/TENANT/ID/s and listens; sets path, fd, dev, ino. On error nothing is left. */
bool kh_dynamic_sandbox_folder_make(struct kh_registry_entry *entry, const char *base,
				    struct kh_err *err);
/* Closes the socket, and removes our files. */
void kh_dynamic_sandbox_folder_remove(struct kh_registry_entry *entry);
/* Between two workers: listens again if the last one has shut the socket down. */
void kh_dynamic_sandbox_folder_revive(struct kh_registry_entry *entry);
/* Removes what a killed daemon left there. Anything else stays, and is logged. */
void kh_dynamic_sandbox_folder_sweep(const char *base);

#endif
