/* handover_internal.h - the handover of a running daemon to another binary */
#ifndef KEYHOLE_KEEPER_HANDOVER_INTERNAL_H
#define KEYHOLE_KEEPER_HANDOVER_INTERNAL_H

#include <keyhole/audit/audit.h>

#include "handover_messages.h"
#include "keeper_internal.h"

/*
 * It begins with SIGUSR2. The old and the new keeper talk over a channel (handover_messages.h). The
 * new one is a child of the old one, which executes the path that it was started with, with the
 * same arguments (plus `--handover`) and environment, in which the values of secrets have been
 * overwritten.
 *
 * old                                        new asks its worker for the journal's line N forks,
 * execs                               reads its configuration
 * 	                                  ◀─HELLO─ hardened, ready to hold secrets
 * OFFER, OFFER_SOCKET…, OFFER_SECRET…, OFFER_QUOTA_LEDGER, OFFER_QUOTA_SLOTS,
 * OFFER_DYNAMIC_SANDBOX…             ──────▶ opens all else; begins the new segment beside the
 * 	                                           old one, after line N; starts its worker, whose
 * 	                                           acceptors are shut
 * 	                               ◀─PREPARED─ that one is locked in and its threads run
 * MOVE                               ──────▶ JOURNAL gets the name JOURNAL.N, the segment's
 * 	                                           is JOURNAL
 * 	                                  ◀─MOVED─
 * OPEN                               ──────▶ opens the acceptors
 * 	                                 ◀─OPENED─ serves
 * MAINPID= to systemd; RETIRE to its worker, which ends as its connections do GONE
 *              ──────▶ its worker writes how the old segment ended
 * 	                                           (joined)
 *
 * Rules: what the old one still runs, it decides by the configuration that it had. As soon as
 * another one is in force, it must not: where the new one has read another one (OFFER says which
 * one the old one has), and at each reload of the new one, SUPERSEDE follows. The old one then ends
 * all that it has within a second, and GONE follows; if not, the new one kills it. A reload is
 * reported only after that.
 *
 * If anything goes wrong before OPEN (the new one exits, hangs, refuses, or has another protocol),
 * the old one goes on: its worker never stopped accepting, and the files get their old names back.
 * From OPEN on the new one is the daemon. At least one of them always has the listening sockets
 * open, so no connection is refused; queued connections are accepted by the one that serves.
 *
 * Signals during a handover ("ignored" is always logged):
 * - SIGUSR2 to either, during a handover or while the previous process still finishes its
 *   exchanges: ignored. So there are never more than two.
 * - SIGUSR2 during a reload: handled after it. While no worker serves, or while draining: ignored.
 * - SIGHUP to the old one: deferred. The new one gets it once it is the daemon; if the handover
 *   fails, the old one reloads. After the handover: ignored.
 * - SIGTERM to the old one: before OPEN it cancels the handover, and the old one drains as usual.
 *   Between OPEN and OPENED it is passed on to the new one. After that it concerns only the old
 *   one, which ends within timeouts.drain; a second SIGTERM ends it at once.
 * - SIGTERM to the new one: before OPEN it ends, and the handover fails. After that it drains, and
 *   tells the old one to hurry: both end within timeouts.drain; a second SIGTERM ends both at once.
 */

/* handover_old.c: the old one */
enum kh_handover_state {
	KH_HANDOVER_NONE = 0,
	KH_HANDOVER_ASKED,   /* asked the worker for the journal's last line */
	KH_HANDOVER_STARTED, /* the new process runs */
	KH_HANDOVER_OFFERED,
	KH_HANDOVER_MOVING,
	KH_HANDOVER_OPENING,
	KH_HANDOVER_OVER, /* the new process is the daemon */
};

struct kh_handover {
	enum kh_handover_state state;
	char **argv; /* of main; NULL: no handover of this daemon */
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
	KH_HANDOVER_FAILED, /* failed and undone; the error says why */
	KH_HANDOVER_DONE,
	KH_HANDOVER_LOST, /* the new one ended between OPEN and OPENED */
	KH_HANDOVER_HURRY,
	KH_HANDOVER_END,
	KH_HANDOVER_SUPERSEDED, /* the new one's rules hold, and are other ones */
};

/* Return: false: not possible now; the error says why. */
bool kh_handover_begin(struct kh_handover *h, struct kh_err *err);
/* Makes a step; call it when the channel is readable, a child has ended, or time has passed. A peer
 * that does not read can't block it for long (channel.h). */
enum kh_handover_news kh_handover_turn(struct kh_handover *h, struct kh_err *err);
/* Is a handover in progress, up to OPENED? It can be cancelled only before OPEN. */
bool kh_handover_is_under_way(const struct kh_handover *h);
/* worker_process_state.c: the only assignment of its state. `err` may be NULL. */
bool kh_handover_set_state(struct kh_handover *h, enum kh_handover_state state, struct kh_err *err);
/* Cancels: ends the other process and restores the journal's name. Only before OPEN. */
void kh_handover_call_off(struct kh_handover *h);
/* The worker has been reaped: sends GONE, and closes the channel. */
void kh_handover_fini(struct kh_handover *h);
/* Starts the new keeper, by the path that this process was executed with. Return: its pid; -1 with
 * `err`. */
pid_t kh_spawn_heir(int channel, char **argv, struct kh_err *err);

/* handover_new.c: the new one */
enum kh_handover_new_state {
	KH_HANDOVER_NEW_NONE = 0, /* a normal start */
	KH_HANDOVER_NEW_OFFERED,
	KH_HANDOVER_NEW_PREPARED, /* said */
	KH_HANDOVER_NEW_MOVED,
	KH_HANDOVER_NEW_OURS,	/* OPEN came; the old process may still run */
	KH_HANDOVER_NEW_ENDING, /* the old process has ended; its segment has to be joined */
};

struct kh_handover_new {
	enum kh_handover_new_state state;
	struct kh_channel channel;
	struct kh_config *config;  /* has only the offered listeners and variables */
	struct kh_vault vault;	   /* the values that came from variables */
	struct kh_sockets sockets; /* its `journal` is -1 */
	struct kh_journal_base cut;
	struct kh_buf ca_mark;
	struct kh_buf config_mark; /* of the configuration that the old process has in force */
	struct kh_quota_slots *quota_slots;    /* until it is taken */
	struct kh_registry *dynamic_sandboxes; /* borrowed: gets the offered sandboxes */
	unsigned column;		       /* of our workers */
	int segment;	  /* the old segment, locked; -1: joined, or there is none */
	uint64_t join_ms; /* when to ask the worker to join it; 0: not yet */
	unsigned join_tries;
	pid_t parent;	  /* the old process, as long as getppid() says so */
	uint64_t kill_ms; /* it was told to end what it has: when to kill it; 0: it was not */
	uint64_t gone_ms; /* ENDING: when its worker is gone as well */
};

enum kh_handover_new_news {
	KH_HANDOVER_NEW_NO_NEWS = 0,
	KH_HANDOVER_NEW_MOVE,
	KH_HANDOVER_NEW_OPEN,
	KH_HANDOVER_NEW_CALLED_OFF, /* before OPEN the old one ended or sent a malformed message */
};

/* Sends HELLO, and receives everything that is offered. */
bool kh_handover_new_take(struct kh_handover_new *handover_new, struct kh_err *err);
/* Is the CA the one that running sandboxes trust? */
bool kh_handover_new_check_ca(const struct kh_handover_new *handover_new,
			      const struct kh_worker_process *worker_process, struct kh_err *err);
/* Is this the configuration that the old process has in force? */
bool kh_handover_new_has_config(const struct kh_handover_new *handover_new,
				const struct kh_config *config);
/* worker_process_state.c: the only assignment of its state. `err` may be NULL. */
bool kh_handover_new_set_state(struct kh_handover_new *handover_new,
			       enum kh_handover_new_state state, struct kh_err *err);
bool kh_handover_new_is_pending(const struct kh_handover_new *handover_new);
bool kh_handover_new_say(struct kh_handover_new *handover_new, enum kh_handover_msg_to_old type,
			 struct kh_err *err);
/* From OPEN on: has the old process ended, with its worker, or was there none? */
bool kh_handover_new_is_gone(const struct kh_handover_new *handover_new);
/* The rules of this process hold, and differ from the old one's. Tells it to end what it still has;
 * kh_handover_new_turn kills it if it does not. May be called again. */
void kh_handover_new_supersede(struct kh_handover_new *handover_new);
/* When to call kh_handover_new_turn in any case, or to ask kh_handover_new_is_gone again; 0: never.
 */
uint64_t kh_handover_new_deadline(const struct kh_handover_new *handover_new);
/* Sends FAILED, with the reason. */
void kh_handover_new_refuse(struct kh_handover_new *handover_new, const char *why);
enum kh_handover_new_news kh_handover_new_turn(struct kh_handover_new *handover_new);
/* Closes what was offered and not used; files keep their names. */
void kh_handover_new_fini(struct kh_handover_new *handover_new);

/* segment.c: the journal's names */
/* Makes PATH.handover: empty, locked, with the mode and owner of the journal `before`, which must
 * be the file at `path`. If somebody else has a file of that name, it gets one that nobody can
 * guess. *lock: see kh_journal_lock. Return: its descriptor; -1 with `err`. */
int kh_segment_open(const char *path, int before, int *lock, struct kh_err *err);
/* Returns "PATH.<cut>", on the heap. NULL without memory. */
char *kh_segment_name(const char *path, uint64_t cut);
/* Returns the other name of `before` since it was moved, on the heap: PATH.<cut>, or PATH.<cut>.2
 * and so on. NULL: it has none, or there is no memory. */
char *kh_segment_find(const char *path, int before, uint64_t cut);
/* Renames PATH to PATH.<cut> (at least 12 digits) and PATH.handover to PATH; PATH exists at every
 * moment. If another file has that name, it uses PATH.<cut>.2 and so on. On error nothing has
 * changed. */
bool kh_segment_move(const char *path, int before, uint64_t cut, struct kh_err *err);
/* The same outside of a handover, of a segment whose end is not known. */
bool kh_segment_set_aside(const char *path, int before, uint64_t cut, struct kh_err *err);
/* Undoes a move: `before` is at PATH again, and the other files are removed, however far the other
 * process came. */
void kh_segment_restore(const char *path, int before, uint64_t cut);

#endif
