/* handover_internal.h - another binary takes the daemon over, while it serves */
#ifndef KEYHOLE_KEEPER_HANDOVER_INTERNAL_H
#define KEYHOLE_KEEPER_HANDOVER_INTERNAL_H

#include <keyhole/audit/audit.h>

#include "handover_messages.h"
#include "keeper_internal.h"

/*
 * SIGUSR2. Two keepers, old and new, talk over a channel (handover_messages.h). The new one is a
 * child that the old one execs by the path that it was itself started by, with the same arguments
 * (and `--handover`) and environment, in which the values of secrets are overwritten.
 *
 *	old                                        new
 *	asks its worker for the journal's line N
 *	forks, execs                               reads its configuration
 *	                                  ◀─HELLO─ hardened, ready to hold secrets
 *	OFFER, OFFER_SOCKET…, OFFER_SECRET…,
 *	OFFER_QUOTA_LEDGER, OFFER_QUOTA_SLOTS,
 *	OFFER_DYNAMIC_SANDBOX…             ──────▶ opens all else; begins the new segment beside the
 *	                                           old one, after line N; starts its worker, whose
 *	                                           acceptors are shut
 *	                               ◀─PREPARED─ that one is locked in and its threads run
 *	MOVE                               ──────▶ JOURNAL gets the name JOURNAL.N, the segment's
 *	                                           is JOURNAL
 *	                                  ◀─MOVED─
 *	OPEN                               ──────▶ opens the acceptors
 *	                                 ◀─OPENED─ serves
 *	MAINPID= to systemd; RETIRE to its
 *	worker, which ends as its connections do
 *	GONE                               ──────▶ its worker writes how the old segment ended
 *	                                           (joined)
 *
 * Whatever goes wrong before OPEN (it exits, hangs, refuses, has another protocol) leaves the old
 * one as it was: its worker never stopped accepting, and the names are put back. From OPEN on the
 * new one is the daemon. Listening sockets are open in one of them at any moment, so a connection
 * is never refused; what queues is accepted by whoever is there.
 *
 * What signals do meanwhile:
 * - SIGUSR2 to either, while a handover is under way or the process before still finishes its
 *   exchanges: nothing, said in the log. So there are never more than two.
 * - SIGUSR2 during a reload: after it. While no worker serves, or while draining: nothing, said.
 * - SIGHUP to the old one: kept. The new one gets it once it is the daemon; if the handover fails,
 *   the old one reloads then. After the handover: nothing, said.
 * - SIGTERM to the old one: before OPEN the handover is called off, and it drains as ever. Between
 *   OPEN and OPENED it is passed on. After that it means the old one alone: timeouts.drain holds
 *   from then on; a second one: at once.
 * - SIGTERM to the new one: before OPEN it ends, and the handover has failed. After that it drains,
 *   and the old one is told to hurry: timeouts.drain holds for both; a second one ends both.
 */

/* handover_old.c: the old one */
enum kh_handover_state {
	KH_HANDOVER_NONE = 0,
	KH_HANDOVER_ASKED,   /* the worker, for its journal's last line */
	KH_HANDOVER_STARTED, /* the process runs */
	KH_HANDOVER_OFFERED,
	KH_HANDOVER_MOVING,
	KH_HANDOVER_OPENING,
	KH_HANDOVER_OVER, /* the other one is the daemon */
};

struct kh_handover {
	enum kh_handover_state state;
	char **argv; /* of main; NULL: this daemon is not one that can be handed over */
	/* borrowed */
	struct kh_worker_process *worker_process;
	const struct kh_vault *vault;
	const struct kh_sockets *sockets;
	pid_t pid; /* -1: none */
	struct kh_channel channel;
	uint64_t deadline_ms;
	struct kh_journal_base cut;
};

enum kh_handover_news {
	KH_HANDOVER_NO_NEWS = 0,
	KH_HANDOVER_FAILED, /* and undone; the error says why */
	KH_HANDOVER_DONE,
	KH_HANDOVER_LOST, /* the new one ended between OPEN and OPENED */
	KH_HANDOVER_HURRY,
	KH_HANDOVER_END,
};

/* Return: false when it can't be done now; the error says why. */
bool kh_handover_begin(struct kh_handover *h, struct kh_err *err);
/* A step, whenever its channel is readable, a child has ended, or time has passed. Never blocks for
 * long on a process that does not read (channel.h). */
enum kh_handover_news kh_handover_turn(struct kh_handover *h, struct kh_err *err);
/* It may still be called off. */
bool kh_handover_is_under_way(const struct kh_handover *h);
/* Ends the other process and puts the journal's name back. Before OPEN only. */
void kh_handover_call_off(struct kh_handover *h);
/* The worker has been reaped: says GONE, and lets go. */
void kh_handover_fini(struct kh_handover *h);
/* By the path that this process was executed by. Return: its pid, -1 on error. */
pid_t kh_spawn_heir(int channel, char **argv, struct kh_err *err);

/* handover_new.c: the new one */
enum kh_legacy_state {
	KH_LEGACY_NONE = 0, /* started as ever */
	KH_LEGACY_OFFERED,
	KH_LEGACY_PREPARED, /* said */
	KH_LEGACY_MOVED,
	KH_LEGACY_OURS,	  /* OPEN came; the process before may still run */
	KH_LEGACY_ENDING, /* that one is gone, its segment is to be joined */
};

struct kh_legacy {
	enum kh_legacy_state state;
	struct kh_channel channel;
	struct kh_config *config;  /* the listeners and variables of what is offered, no more */
	struct kh_vault vault;	   /* what comes from variables */
	struct kh_sockets sockets; /* its `journal` is -1 */
	struct kh_journal_base cut;
	struct kh_buf ca_mark;
	struct kh_quota_slots *quota_slots;    /* until it is taken */
	struct kh_registry *dynamic_sandboxes; /* borrowed: what is offered goes there */
	unsigned column;		       /* of our workers */
	int segment;	  /* the segment before, locked; -1: joined, or never there */
	uint64_t join_ms; /* when to ask for that; 0: not yet */
	unsigned join_tries;
};

enum kh_legacy_news {
	KH_LEGACY_NO_NEWS = 0,
	KH_LEGACY_MOVE,
	KH_LEGACY_OPEN,
	KH_LEGACY_CALLED_OFF, /* the old one is gone, or not to be understood, before OPEN */
};

/* HELLO, and all that is offered. */
bool kh_legacy_take(struct kh_legacy *legacy, struct kh_err *err);
/* The CA is the one that sandboxes trust already. */
bool kh_legacy_check_ca(const struct kh_legacy *legacy,
			const struct kh_worker_process *worker_process, struct kh_err *err);
bool kh_legacy_is_pending(const struct kh_legacy *legacy);
bool kh_legacy_say(struct kh_legacy *legacy, enum kh_handover_msg_to_old type, struct kh_err *err);
/* FAILED, with the reason. */
void kh_legacy_refuse(struct kh_legacy *legacy, const char *why);
enum kh_legacy_news kh_legacy_turn(struct kh_legacy *legacy);
/* Closes what was offered and not taken; names stay. */
void kh_legacy_fini(struct kh_legacy *legacy);

/* segment.c: the journal's names */
/* PATH.handover, empty, locked, with the mode and owner of the journal `before`, which must be the
 * one at `path`. *lock: as kh_journal_lock's. Return: -1 on error. */
int kh_segment_open(const char *path, int before, int *lock, struct kh_err *err);
/* PATH.<cut>, the caller's. Return: NULL without memory. */
char *kh_segment_name(const char *path, uint64_t cut);
/* PATH becomes PATH.<cut> (12 digits at least), PATH.handover becomes PATH; at every moment there
 * is a PATH. On error nothing has changed. */
bool kh_segment_move(const char *path, int before, uint64_t cut, struct kh_err *err);
/* The same without a process that waits for it; where that name is taken, PATH.<cut>.2 and so on.
 */
bool kh_segment_set_aside(const char *path, int before, uint64_t cut, struct kh_err *err);
/* `before` is at PATH, and nothing else is left, however far the other process came. */
void kh_segment_restore(const char *path, int before, uint64_t cut);

#endif
