/* daemon_internal.h - the whole of the parent process, and the parts of its loop */
#ifndef KEYHOLE_KEEPER_DAEMON_INTERNAL_H
#define KEYHOLE_KEEPER_DAEMON_INTERNAL_H

#include "handover_internal.h"

/* Reloads that are not in force yet (reload.c). */
struct kh_reload {
	uint32_t generation; /* that of the last one; 0: there are none */
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
	char *state_path;		    /* where that is kept; NULL: nowhere */
	uint64_t state_due_ms;		    /* not written again before */
	bool state_failed;
	struct kh_handover handover; /* to another process */
	struct kh_legacy legacy;     /* from another process */
	int signals;
	unsigned failures;	  /* workers in a row that died young */
	unsigned unready;	  /* and that ended before they were ready */
	bool late;		  /* the last one was killed for that */
	bool journal_bad;	  /* one of them said so, or they were too many */
	bool journal_misnumbered; /* the last one said so, of its last line */
	bool journal_gone;	  /* its name leads elsewhere (journal_place.c) */
	uint64_t journal_look_ms; /* when that is looked at again */
	uint64_t restart_ms;	  /* 0: none is due */
	uint64_t asked_ms;	  /* when the end was asked for */
	bool at_once;		  /* and asked for again */
	bool choose_anew;	  /* the worker is still to be told */
	uint64_t drain_ms;	  /* when draining ends; 0: not draining */
	struct kh_reload reload;
	bool reload_later;   /* SIGHUP came in a handover */
	bool handover_later; /* SIGUSR2 came in a reload, or before the segment was joined */
	bool end_later;	     /* SIGTERM came when it was no longer to be called off */
	bool last_worker;    /* it was started to say how the segment before ended */
	bool has_served;
	struct kh_admin_facts facts;
	uint64_t states_due_ms;	 /* when credentials' states are told anew; 0: as they are */
	uint64_t verb_ms;	 /* not before is done what was asked for by way of the worker */
	struct kh_buf verb_said; /* what there is to say of it */
	bool over;
	int status;
};

/* keeper.c */
/* The loop ends with this turn, and the process with this status. */
void kh_keeper_stop(struct kh_keeper *k, int status);

/* between.c */
/* A worker has ended, with that status. */
void kh_keeper_note_journal(struct kh_keeper *k, int status);
/* Before another one starts: sockets listen, and the journal is as the last one left it or a new
 * segment is begun. Return: false when neither is so; no worker may start then. */
bool kh_keeper_between_workers(struct kh_keeper *k, struct kh_err *err);

/* Why sandboxes can't come and go just now; NULL: they can. */
const char *kh_keeper_busy(const struct kh_keeper *k);
/* A listener that was down is tried again; the worker is told where that helps. */
void kh_keeper_look_at_listeners(struct kh_keeper *k);
uint64_t kh_keeper_listeners_deadline(const struct kh_keeper *k); /* 0: never */
/* The worker has ended: what it counted is none of its any more, or bounded (quota_slots.h). */
void kh_keeper_end_counting(struct kh_keeper *k);

/* journal_place.c */
/* The worker is told where the journal was moved away or deleted, and where it is back. */
void kh_keeper_look_at_journal(struct kh_keeper *k);
void kh_keeper_look_before_start(struct kh_keeper *k);
/* Where a full disk has left a part of a record at its end, and the worker waits. */
void kh_keeper_cut_journal(struct kh_keeper *k);
uint64_t kh_keeper_journal_deadline(const struct kh_keeper *k); /* 0: never */

/* ca_in_force.c */
bool kh_keeper_open_authority(struct kh_keeper *k, struct kh_err *err);
/* The CAs that `next` names, read anew, and what its placeholders are drawn from. Nothing is
 * changed but `next`. *out NULL: it names none, the one in force stays. */
bool kh_ca_in_force_next(const struct kh_config *now, struct kh_config *next, struct kh_ca **out,
			 struct kh_tenant_cas *of_tenants, struct kh_err *err);
/* They sign from now on (NULL: nothing changes); the worker is to be told. `config`: what they were
 * opened for. */
void kh_ca_in_force_adopt(struct kh_keeper *k, struct kh_ca *next, struct kh_tenant_cas *of_tenants,
			  const struct kh_config *config, struct kh_buf *said);
/* `tenant` NULL: it signs for all. */
void kh_ca_in_force_say(const char *tenant, const struct kh_ca *now, const struct kh_ca *next,
			struct kh_buf *said);

/* tenant_cas.c */
/* `before`: what they were opened for until now, or NULL: a tenant that it has too must have its CA
 * already, and so must all with LOAD. OF_RUN: the first listener's tenant is the only one that has
 * a sandbox. kh_tenant_cas_free in any case. */
enum kh_tenant_cas_how { KH_TENANT_CAS_MAKE, KH_TENANT_CAS_LOAD, KH_TENANT_CAS_OF_RUN };
bool kh_tenant_cas_open(struct kh_tenant_cas *out, const struct kh_config *config,
			const struct kh_config *before, enum kh_tenant_cas_how how,
			struct kh_err *err);
/* `next` goes into `now`; what is in memory alone stays. */
void kh_tenant_cas_adopt(struct kh_tenant_cas *now, const struct kh_config *before,
			 struct kh_tenant_cas *next, const struct kh_config *config,
			 struct kh_buf *said);
void kh_tenant_cas_free(struct kh_tenant_cas *cas);
/* Who signs for the first listener's sandbox. */
const struct kh_ca *kh_ca_in_force_of_first(const struct kh_keeper *k);

/* reload.c */
/* Return: another configuration was told to the worker, and kh_keeper_look_at_reload says when it
 * is in force; `said` (may be NULL) gets what there is to say of it. */
bool kh_keeper_reload(struct kh_keeper *k, struct kh_buf *said);
/* A worker serves, and has not confirmed yet what it was told at a reload. */
bool kh_keeper_is_reloading(const struct kh_keeper *k);
/* It has: that is said and noted, and what waited for it is done. */
void kh_keeper_look_at_reload(struct kh_keeper *k);
/* READY=1 to systemd, unless something is under way of which it is told later. */
void kh_keeper_tell_ready(const struct kh_keeper *k);

/* credential_status.c */
/* Into the facts, which the caller tells; and soon, however often it is called. */
void kh_keeper_describe_credentials(struct kh_keeper *k);
void kh_keeper_credential_changed(struct kh_keeper *k);
/* What the vault has to say goes to the worker that runs. */
void kh_keeper_listen_to_vault(struct kh_keeper *k);

/* signals.c */
void kh_keeper_on_signal(struct kh_keeper *k, uint32_t sig);
/* In its time: a database that was replaced comes into force. */
void kh_keeper_look_at_geo(struct kh_keeper *k);
/* Of alternatives another one has a value (vault_internal.h): the worker is told, when it may be.
 */
void kh_keeper_choose_anew(struct kh_keeper *k);
/* Now, or as soon as a reload is in force and the segment before is joined; a reason against it is
 * logged. */
void kh_keeper_hand_over(struct kh_keeper *k);
/* After a handover: what runs has timeouts.drain from now on. */
void kh_keeper_hurry(struct kh_keeper *k);
/* At the very end, when no turn reads signals: is it asked for again? Of a struct kh_keeper. */
bool kh_keeper_hurries(void *arg);
/* What runs is cut off, also in the process before. */
void kh_keeper_end_now(struct kh_keeper *k);

/* admin.c: what is told to the worker, and asked by way of it */
void kh_keeper_begin_facts(struct kh_keeper *k);
void kh_keeper_note_failed_reload(struct kh_keeper *k, const char *failure);
/* They are in force. */
void kh_keeper_note_reloads(struct kh_keeper *k, const struct kh_reload *reloads);
void kh_keeper_on_verb(struct kh_keeper *k);
uint64_t kh_keeper_verb_deadline(const struct kh_keeper *k); /* 0: there is none to be done */
/* Whoever asked for a reload by way of the worker hears that it is in force. */
void kh_keeper_answer_reload(struct kh_keeper *k);
void kh_keeper_end_facts(struct kh_keeper *k);

/* quota_state.c: what is used of limits, in a file */
bool kh_quota_state_open(struct kh_keeper *k, struct kh_err *err);
/* Into quota_slots without an entry. A damaged file is no error: nothing is left of any limit. */
bool kh_quota_state_read(struct kh_keeper *k, struct kh_err *err);
uint64_t kh_quota_state_deadline(const struct kh_keeper *k); /* 0: none */
void kh_quota_state_turn(struct kh_keeper *k);
void kh_quota_state_end(struct kh_keeper *k);

/* takeover.c */
/* All that a start opens, with what the process before holds in the place of what it has. */
bool kh_keeper_open_legacy(struct kh_keeper *k, struct kh_err *err);
/* A step of the handover to another process, and of that from another one. */
void kh_keeper_on_handover(struct kh_keeper *k);
void kh_keeper_on_legacy(struct kh_keeper *k);
/* The worker has drained, or was never there: is this the end, or is something left to be done for
 * the process before? */
void kh_keeper_after_drain(struct kh_keeper *k);

#endif
