/* dynamic_sandboxes.h - the keeper's register of guests: sandboxes that come and go while the daemon runs */
#ifndef KEYHOLE_KEEPER_GUESTS_H
#define KEYHOLE_KEEPER_GUESTS_H

#include <keyhole/base/channel.h>
#include <keyhole/config/config.h>
#include <keyhole/config/dynamic_sandbox.h>
#include <keyhole/base/list.h>

struct kh_ward;

/*
 * Who is registered has a folder BASE/TENANT/ID with the socket `s` in it, which the keeper holds
 * open, whatever becomes of the worker. All of it goes when the guest is removed, when its time is
 * over, when the process ends that holds it, when its tenant goes with a reload, and when the
 * daemon drains. A daemon that was killed leaves folders behind; the next one clears them away.
 * A guest outlives its worker; one that was added by a worker that ended unexpectedly is marked.
 */
struct kh_entry {
	struct kh_node link; /* in the register's list */
	struct kh_guest_wish wish;
	uint64_t number;
	char *path;
	int fd;	   /* listening */
	dev_t dev; /* of the socket's name; ino 0: it is not ours to take away */
	ino_t ino;
	int pidfd;	     /* of the process that holds it; -1: none */
	int watch;	     /* the register's epoll, where it has pidfd; -1: it has not */
	uint64_t ends_ms;    /* by the clock that only goes on; 0: never */
	uint64_t expires_ms; /* the same by the wall's */
	bool of_this_worker; /* the worker that runs had it added */
	bool suspect;	     /* a worker had, and ended unexpectedly */
};

/* What one tenant has. */
struct kh_register_share {
	size_t count, narrow_bytes;
	size_t held; /* those with a pidfd */
};

struct kh_register {
	struct kh_lru *by_name;	  /* owns the entries */
	struct kh_lru *by_tenant; /* struct kh_register_share of each */
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

bool kh_register_open(struct kh_register *reg, struct kh_err *err);
/* All of them go, with their folders; nobody is told. */
void kh_register_shut(struct kh_register *reg);
/* They are another process's: names stay. */
void kh_register_forget(struct kh_register *reg);
void kh_register_close(struct kh_register *reg);

/* GUEST_ADD, GUEST_REMOVE. Return: false when it is not what a worker sends. */
bool kh_register_take(struct kh_register *reg, struct kh_ward *ward,
		      const struct kh_channel_message *message);
/* Between two workers: sockets that the last one has shut down. */
void kh_register_revive(struct kh_register *reg);
/* While another process still has them: a flag of the open file, which it shares. It can't shut
 * them down. */
void kh_register_unblock(struct kh_register *reg);
/* The worker has ended, and nobody had asked it to. Return: how many are marked for that. */
size_t kh_register_distrust(struct kh_register *reg, pid_t worker);
/* A worker is told of all. */
bool kh_register_feed(struct kh_register *reg, struct kh_ward *ward, struct kh_err *err);
/* Those whose tenant this configuration does not have go. */
void kh_register_prune(struct kh_register *reg, struct kh_ward *ward,
		       const struct kh_config *config);
/* Those whose time is over, or whose holder has ended, go. */
void kh_register_turn(struct kh_register *reg, struct kh_ward *ward);
/* When the next one's time is over; 0: never. */
uint64_t kh_register_deadline(const struct kh_register *reg);

/* What another keeper has made: taken over, or freed when there is no memory. */
bool kh_register_adopt(struct kh_register *reg, struct kh_entry *entry, struct kh_err *err);
void kh_entry_free(struct kh_entry *entry);

/* guest_check.c */
/* Return: OK: there is room for it, and it may be. */
enum kh_guest_result kh_guest_check(struct kh_register *reg, const struct kh_config *config,
				    const struct kh_guest_wish *wish, struct kh_err *err);
/* The configuration has a sandbox of that name. */
bool kh_guest_is_configured(const struct kh_config *config, size_t tenant, const char *id);
/* To the log. */
void kh_guest_say_added(const struct kh_entry *entry, pid_t worker);
void kh_guest_say_removed(const struct kh_entry *entry, uid_t uid, uint32_t pid, pid_t worker);
void kh_guest_say_ended(const struct kh_entry *entry, const char *why);

/* guest_hold.c: those that end with a process */
bool kh_guest_holds_open(struct kh_register *reg);
/* Opens the pidfd of wish.pid. */
bool kh_guest_hold(struct kh_entry *entry, struct kh_err *err);
/* An entry with a pidfd. On error it is not watched; kh_guest_hold_forget is due all the same. */
bool kh_guest_hold_watch(struct kh_register *reg, struct kh_entry *entry, struct kh_err *err);
/* It is found by its number no more. */
void kh_guest_hold_forget(struct kh_register *reg, const struct kh_entry *entry);
/* Ends the watching, whoever else has the process's descriptor, and closes it. */
void kh_guest_hold_end(struct kh_entry *entry);
/* One whose process has ended; NULL: none. */
struct kh_entry *kh_guest_hold_ended(struct kh_register *reg);

/* guest_offer.c: at a handover. */
bool kh_register_offer(const struct kh_register *reg, struct kh_channel *to, uint32_t version,
		       struct kh_err *err);
/* An OFFER_GUEST. Its descriptors are taken. */
bool kh_register_take_offer(struct kh_register *reg, struct kh_channel_message *message,
			    struct kh_err *err);

/* guest_folder.c */
/* Makes BASE/TENANT/ID/s and listens; sets path, fd, dev, ino. On error nothing is left. */
bool kh_guest_folder_make(struct kh_entry *entry, const char *base, struct kh_err *err);
/* Closes, and takes away what is ours. */
void kh_guest_folder_remove(struct kh_entry *entry);
/* Between two workers: where the last one has shut it down it is listened on anew. */
void kh_guest_folder_revive(struct kh_entry *entry);
/* What a daemon that was killed has left there. Anything else stays, and is said. */
void kh_guest_folder_sweep(const char *base);

#endif
