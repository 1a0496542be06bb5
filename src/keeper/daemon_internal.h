/* daemon_internal.h - the state of the parent process, and the parts of its loop */
#ifndef KEYHOLE_KEEPER_DAEMON_INTERNAL_H
#define KEYHOLE_KEEPER_DAEMON_INTERNAL_H

#include "handover_internal.h"

/* Reloads that are not in force yet (reload.c). */
struct kh_reload {
	uint32_t generation; /* of the last one; 0: none */
	unsigned count;
	bool another_failed; /* after the last one */
};

struct kh_keeper {
	struct kh_keeper_options *options;
	struct kh_config *config;
	struct kh_ca *ca;
	struct kh_tenant_cas tenant_cas;
	struct kh_vault vault;
	struct kh_sockets sockets;
	struct kh_geo_files geo;
	struct kh_worker_process worker_process;
	struct kh_registry dynamic_sandboxes;
	struct kh_quota_slots *quota_slots; /* what is used of limits */
	char *state_path;		    /* the file for that; NULL: none */
	uint64_t state_due_ms;		    /* not written again before this time */
	bool state_failed;
	struct kh_handover handover;	     /* to another process */
	struct kh_handover_new handover_new; /* from another process */
	int signals;
	unsigned failures;    /* workers in a row that died young */
	unsigned unready;     /* workers in a row that ended before they were ready */
	bool late;	      /* the last one was killed because it was not ready in time */
	bool journal_bad;     /* a worker reported a bad journal, or too many workers failed */
	bool journal_spoiled; /* the last worker found that nobody can go on from its last line */
	bool journal_long;    /* the last worker found it too long to be followed, and closed it */
	bool journal_gone;    /* its name no longer leads to it (journal_place.c) */
	uint64_t cut_said_ms; /* when a cut of the journal was last logged */
	uint64_t journal_look_ms; /* when that is checked again */
	int before_lock;	  /* of the segment before, if no handover gave it; -1: none */
	uint64_t restart_ms;	  /* when to start the next worker; 0: none is due */
	uint64_t asked_ms;	  /* when the daemon was told to end */
	bool at_once;		  /* told again: end at once */
	bool choose_anew;	  /* the worker has to be told (kh_keeper_choose_anew) */
	uint64_t drain_ms;	  /* when draining ends; 0: not draining */
	struct kh_reload reload;
	bool reload_later;   /* SIGHUP came during a handover */
	bool handover_later; /* SIGUSR2 came during a reload, or before the segment was joined */
	bool end_later;	     /* SIGTERM came when the handover could no longer be cancelled */
	bool last_worker;    /* it was started only to record how the previous segment ended */
	bool has_served;
	bool superseded; /* after a handover: other rules are in force */
	struct kh_admin_facts facts;
	uint64_t credential_status_due_ms; /* when the status of credentials is sent next; 0: up to
					      date */
	uint64_t verb_ms;	 /* a request by the admin socket is not handled before this time */
	struct kh_buf verb_said; /* the text of its answer */
	bool over;
	int status;
};

/* keeper.c */
/* Ends the loop after this turn; the process exits with this status. */
void kh_keeper_stop(struct kh_keeper *k, int status);

/* between.c */
/* The first worker of all could not start, and this status says that the next one could not either.
 */
bool kh_keeper_is_hopeless(const struct kh_keeper *k, int status);
/* A worker has ended with this status: notes what it says about the journal. */
void kh_keeper_note_journal(struct kh_keeper *k, int status);
/* Call it before another worker starts: repairs sockets, and checks the journal or begins a new
 * segment. Return: false with `err`: no worker may start. */
bool kh_keeper_between_workers(struct kh_keeper *k, struct kh_err *err);

/* Why sandboxes can't be added or removed now; NULL: they can. */
const char *kh_keeper_busy(const struct kh_keeper *k);
/* Tries again to open listeners that are down, and tells the worker. */
void kh_keeper_look_at_listeners(struct kh_keeper *k);
uint64_t kh_keeper_listeners_deadline(const struct kh_keeper *k); /* 0: never */
/* The worker has ended: corrects its counts (kh_quota_slots_end_worker). */
void kh_keeper_end_counting(struct kh_keeper *k);

/* before.c */
/* At a start that is no handover: looks for the segment that the journal continues. */
void kh_keeper_find_before(struct kh_keeper *k);
/* Closes that segment: no later worker joins it. */
void kh_keeper_forget_before(struct kh_keeper *k);

/* journal_place.c */
/* Tells the worker if the journal was moved or deleted, and when it is back. */
void kh_keeper_look_at_journal(struct kh_keeper *k);
void kh_keeper_look_before_start(struct kh_keeper *k);
/* Cuts off a partial record that a full disk left at the journal's end, while the worker waits. */
void kh_keeper_cut_journal(struct kh_keeper *k);
uint64_t kh_keeper_journal_deadline(const struct kh_keeper *k); /* 0: never */

/* ca_in_force.c */
bool kh_keeper_open_ca(struct kh_keeper *k, struct kh_err *err);
/* Reads the CAs that `next` names, and the keys of its placeholders. Changes nothing except `next`.
 * *out NULL: it names none, so the CA in force stays. */
bool kh_ca_in_force_next(const struct kh_config *now, struct kh_config *next, struct kh_ca **out,
			 struct kh_tenant_cas *of_tenants, struct kh_err *err);
/* Puts them in force (NULL: nothing changes); the caller tells the worker. `config`: the
 * configuration that they were opened for. */
void kh_ca_in_force_adopt(struct kh_keeper *k, struct kh_ca *next, struct kh_tenant_cas *of_tenants,
			  const struct kh_config *config, struct kh_buf *said);
/* Reports a change of the CA. `tenant` NULL: the shared CA. */
void kh_ca_in_force_say(const char *tenant, const struct kh_ca *now, const struct kh_ca *next,
			struct kh_buf *said);

/* tenant_cas.c */
/* Opens the tenants' CAs. `before`: the previous configuration, or NULL; a tenant that it has must
 * already have a CA. LOAD: all must have one. OF_RUN: only the first listener's tenant has a
 * sandbox. Call kh_tenant_cas_free also after an error. */
enum kh_tenant_cas_how { KH_TENANT_CAS_MAKE, KH_TENANT_CAS_LOAD, KH_TENANT_CAS_OF_RUN };
bool kh_tenant_cas_open(struct kh_tenant_cas *out, const struct kh_config *config,
			const struct kh_config *before, enum kh_tenant_cas_how how,
			struct kh_err *err);
/* Moves `next` into `now`; CAs that are only in memory stay. */
void kh_tenant_cas_adopt(struct kh_tenant_cas *now, const struct kh_config *before,
			 struct kh_tenant_cas *next, const struct kh_config *config,
			 struct kh_buf *said);
void kh_tenant_cas_free(struct kh_tenant_cas *cas);
/* The CA that signs for the first listener's sandbox. */
const struct kh_ca *kh_ca_in_force_of_first(const struct kh_keeper *k);

/* reload.c */
/* Reloads. Return: true: the worker was told; kh_keeper_look_at_reload notices when the
 * configuration is in force. `said` (may be NULL) gets errors and warnings. */
bool kh_keeper_reload(struct kh_keeper *k, struct kh_buf *said);
/* Is there a reload that the serving worker has not confirmed yet? */
bool kh_keeper_is_reloading(const struct kh_keeper *k);
/* Checks for the confirmation; then reports it, and does what waited for it. */
void kh_keeper_look_at_reload(struct kh_keeper *k);
/* Sends READY=1 to systemd, unless a reload or handover in progress will do so later. */
void kh_keeper_tell_ready(const struct kh_keeper *k);

/* credential_status.c */
/* Write the status into the facts, which the caller sends; and schedule that, however often it is
 * called. */
void kh_keeper_describe_credentials(struct kh_keeper *k);
void kh_keeper_credential_changed(struct kh_keeper *k);
/* Connects the vault's callbacks to the running worker. */
void kh_keeper_listen_to_vault(struct kh_keeper *k);

/* signals.c */
void kh_keeper_on_signal(struct kh_keeper *k, uint32_t sig);
/* When due: puts replaced databases in force. */
void kh_keeper_look_at_geo(struct kh_keeper *k);
/* Another alternative has a value now (vault_internal.h): tells the worker, when possible. */
void kh_keeper_choose_anew(struct kh_keeper *k);
/* Starts a handover: now, or once a reload is in force and the previous segment is joined. If it is
 * not possible, logs why. */
void kh_keeper_hand_over(struct kh_keeper *k);
/* After a handover: running exchanges must end within timeouts.drain. */
void kh_keeper_hurry(struct kh_keeper *k);
/* After a handover: other rules are in force, in the new process, so running exchanges end now. */
void kh_keeper_give_way(struct kh_keeper *k);
/* At the very end, when no turn reads signals: was SIGTERM sent again? `arg` is a struct
 * kh_keeper. */
bool kh_keeper_hurries(void *arg);
/* Ends all exchanges at once, also in the previous process. */
void kh_keeper_end_now(struct kh_keeper *k);

/* admin.c: facts for the worker, and requests by the admin socket */
void kh_keeper_begin_facts(struct kh_keeper *k);
void kh_keeper_note_failed_reload(struct kh_keeper *k, const char *failure);
/* Notes that these reloads are in force. */
void kh_keeper_note_reloads(struct kh_keeper *k, const struct kh_reload *reloads);
void kh_keeper_on_verb(struct kh_keeper *k);
uint64_t kh_keeper_verb_deadline(const struct kh_keeper *k); /* 0: none */
/* Answers a request for a reload by the admin socket: it is in force. */
void kh_keeper_answer_reload(struct kh_keeper *k);
void kh_keeper_end_facts(struct kh_keeper *k);

/* quota_state.c: stores how much of limits is used */
bool kh_quota_state_open(struct kh_keeper *k, struct kh_err *err);
/* Reads the file into quota_slots, which must have no entry. A damaged file is not an error, but
 * all limits count as used up. */
bool kh_quota_state_read(struct kh_keeper *k, struct kh_err *err);
uint64_t kh_quota_state_deadline(const struct kh_keeper *k); /* 0: none */
void kh_quota_state_turn(struct kh_keeper *k);
void kh_quota_state_end(struct kh_keeper *k);

/* takeover.c */
/* Opens everything for a start, but takes what the previous process offers. */
bool kh_keeper_open_handover_new(struct kh_keeper *k, struct kh_err *err);
/* Make a step of a handover: to another process, or from one. */
void kh_keeper_on_handover(struct kh_keeper *k);
void kh_keeper_on_handover_new(struct kh_keeper *k);
/* The worker has drained, or there was none: ends, unless something has to be done for the previous
 * process. */
void kh_keeper_after_drain(struct kh_keeper *k);

#endif
