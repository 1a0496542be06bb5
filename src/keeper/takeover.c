/* takeover.c - how a handover changes this process, as the old and as the new keeper */

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/log.h>

#include "daemon_internal.h"

/* --- the old side ----------------------------------------------------------------------------- */

/* From here on this process only finishes what it has. */
static void handed_over(struct kh_keeper *k)
{
	char state[128];
	uint64_t now = kh_clock_mono_ms();
	(void)snprintf(state, sizeof(state), "MAINPID=%ld\nSTATUS=serving, after a handover",
		       (long)k->handover.pid);
	kh_notify(state);
	kh_log_info("handover: process %ld has taken over", (long)k->handover.pid);
	kh_sockets_forget(&k->sockets);
	kh_registry_forget(&k->dynamic_sandboxes);
	k->drain_ms = now + k->config->timeouts.handover;
	k->restart_ms = 0;
	if (k->reload_later)
		(void)kill(k->handover.pid, SIGHUP);
	if (k->end_later)
		(void)kill(k->handover.pid, SIGTERM);
	if (k->worker_process.state == KH_WORKER_PROCESS_NONE)
		kh_keeper_stop(k, 0);
	else if (k->end_later)
		kh_keeper_hurry(k);
	else
		kh_worker_process_retire(&k->worker_process);
}

static void handover_failed(struct kh_keeper *k, const struct kh_err *why)
{
	char state[KH_ERR_TEXT_BYTES + 64];
	kh_log_error("handover failed: %s: nothing changes, this process goes on", why->text);
	(void)snprintf(state, sizeof(state), "STATUS=serving; a handover failed: %s", why->text);
	kh_notify(state);
	if (k->reload_later)
		(void)kh_keeper_reload(k, NULL);
	k->reload_later = false;
}

/* It was the daemon for a moment, and its supervisor has not heard of it. */
static void handover_lost(struct kh_keeper *k, const struct kh_err *why)
{
	kh_log_error("handover: %s, when it had just taken over: this one ends as well", why->text);
	kh_sockets_forget(&k->sockets);
	kh_registry_forget(&k->dynamic_sandboxes);
	k->status = 1;
	k->drain_ms = kh_clock_mono_ms() + k->config->timeouts.drain;
	k->restart_ms = 0;
	kh_worker_process_drain(&k->worker_process);
	if (k->worker_process.state == KH_WORKER_PROCESS_NONE)
		kh_keeper_stop(k, 1);
}

void kh_keeper_on_handover(struct kh_keeper *k)
{
	struct kh_err err = KH_ERR_INIT;
	switch (kh_handover_turn(&k->handover, &err)) {
	case KH_HANDOVER_NO_NEWS:
		break;
	case KH_HANDOVER_FAILED:
		handover_failed(k, &err);
		break;
	case KH_HANDOVER_DONE:
		handed_over(k);
		break;
	case KH_HANDOVER_LOST:
		handover_lost(k, &err);
		break;
	case KH_HANDOVER_HURRY:
		kh_keeper_hurry(k);
		break;
	case KH_HANDOVER_END:
		kh_keeper_end_now(k);
		break;
	case KH_HANDOVER_SUPERSEDED:
		kh_keeper_give_way(k);
		break;
	}
}

/* --- the new side ----------------------------------------------------------------------------- */

bool kh_keeper_open_handover_new(struct kh_keeper *k, struct kh_err *err)
{
	struct kh_handover_new *handover_new = &k->handover_new;
	if (!k->config->audit_path)
		return kh_err_set(err, KH_ERR_CONFIG, "no journal (audit.file)");
	if (!kh_vault_reopen(&k->vault, &handover_new->vault, k->config, err) ||
	    !kh_keeper_open_ca(k, err) ||
	    !kh_sockets_next(&k->sockets, &handover_new->sockets, k->config, err))
		return false;
	kh_vault_begin(&k->vault);
	k->quota_slots = k->worker_process.quota_slots = handover_new->quota_slots;
	k->worker_process.column = handover_new->column;
	handover_new->quota_slots = NULL;
	if (!kh_quota_slots_assign(k->quota_slots, k->config, kh_clock_mono_ms(), err))
		return false;
	k->sockets.journal = kh_segment_open(k->config->audit_path, handover_new->segment,
					     &k->sockets.journal_lock, err);
	k->worker_process.acceptors_shut = true;
	k->worker_process.base = handover_new->cut;
	k->worker_process.base.open = true;
	/* What was signed was signed up to there. */
	k->worker_process.checkpoint.seq = handover_new->cut.seq;
	memcpy(k->worker_process.checkpoint.hash, handover_new->cut.hash,
	       sizeof(k->worker_process.checkpoint.hash));
	return k->sockets.journal >= 0;
}

static void move_journal(struct kh_keeper *k)
{
	struct kh_err err = KH_ERR_INIT;
	if (kh_segment_move(k->config->audit_path, k->handover_new.segment, k->handover_new.cut.seq,
			    &err) &&
	    kh_handover_new_set_state(&k->handover_new, KH_HANDOVER_NEW_MOVED, &err)) {
		(void)kh_handover_new_say(&k->handover_new, KH_HANDOVER_MSG_MOVED, NULL);
		return;
	}
	kh_log_error("handover: %s", err.text);
	kh_handover_new_refuse(&k->handover_new, err.text);
	kh_keeper_stop(k, 1);
}

static void open_acceptors(struct kh_keeper *k)
{
	if (!kh_handover_new_set_state(&k->handover_new, KH_HANDOVER_NEW_OURS, NULL)) {
		kh_keeper_stop(k, 1);
		return;
	}
	kh_sockets_adopt(&k->sockets, &k->handover_new.sockets);
	k->worker_process.acceptors_shut = false;
	k->worker_process.generation++;
	kh_worker_process_reload(&k->worker_process);
	(void)kh_handover_new_say(&k->handover_new, KH_HANDOVER_MSG_OPENED, NULL);
	/* Behind that: the process before takes nothing else of us until then. */
	k->dynamic_sandboxes.before = &k->handover_new.channel;
	kh_registry_prune(&k->dynamic_sandboxes, &k->worker_process, k->config);
	kh_log_info("serving (worker %ld, secrets in %s), after a handover",
		    (long)k->worker_process.pid, kh_secret_backing());
	if (!kh_handover_new_has_config(&k->handover_new, k->config)) {
		kh_log_info("handover: the configuration is another one than that of the process "
			    "before, so what still runs there ends");
		kh_handover_new_supersede(&k->handover_new);
	}
	if (k->reload_later)
		(void)kh_keeper_reload(k, NULL);
	k->reload_later = false;
}

/* The process before has the same time, and began to count a moment later. Our own worker may have
 * ended before it; another one, with its acceptors shut, then says how that segment ended. */
void kh_keeper_after_drain(struct kh_keeper *k)
{
	enum { A_MOMENT_MS = 2000, LAST_WORKER_MS = 5000 };
	struct kh_err err = KH_ERR_INIT;
	if (k->handover_new.state == KH_HANDOVER_NEW_OURS) {
		k->drain_ms += A_MOMENT_MS;
		return;
	}
	if (k->handover_new.state != KH_HANDOVER_NEW_ENDING || k->last_worker) {
		kh_keeper_stop(k, k->status);
		return;
	}
	k->last_worker = true;
	k->drain_ms = kh_clock_mono_ms() + LAST_WORKER_MS;
	k->worker_process.acceptors_shut = true;
	if (kh_worker_process_spawn(&k->worker_process, &err) &&
	    kh_worker_process_feed(&k->worker_process, &err))
		return;
	kh_log_error("%s", err.text);
	kh_keeper_stop(k, k->status);
}

static void forget_handover_new(struct kh_keeper *k)
{
	/* It cleared what its worker left, unless it died as well. */
	kh_quota_slots_end_worker(k->quota_slots, 1 - k->worker_process.column, false,
				  kh_clock_mono_ms());
	/* Unless the segment that goes on from it was set aside meanwhile. */
	if (k->worker_process.base.open) {
		k->worker_process.before = kh_steal_fd(&k->handover_new.segment);
		k->worker_process.before_cut = k->handover_new.cut;
		k->worker_process.base.open = false;
	}
	kh_handover_new_fini(&k->handover_new);
	k->dynamic_sandboxes.before = NULL;
	k->sockets.retry_ms = kh_clock_mono_ms(); /* a last look at what its worker did to them */
	if (k->handover_later)
		kh_keeper_hand_over(k);
}

void kh_keeper_on_handover_new(struct kh_keeper *k)
{
	enum { JOIN_AGAIN_MS = 10 * 1000, JOIN_TRIES = 60 };
	struct kh_handover_new *handover_new = &k->handover_new;
	switch (kh_handover_new_turn(handover_new)) {
	case KH_HANDOVER_NEW_NO_NEWS:
		break;
	case KH_HANDOVER_NEW_MOVE:
		move_journal(k);
		break;
	case KH_HANDOVER_NEW_OPEN:
		open_acceptors(k);
		break;
	case KH_HANDOVER_NEW_CALLED_OFF:
		kh_log_error("handover: called off by the process before");
		kh_keeper_stop(k, 1);
		break;
	}
	if (handover_new->state != KH_HANDOVER_NEW_ENDING)
		return;
	kh_keeper_look_at_reload(k); /* which may have waited for that */
	if (k->drain_ms && k->worker_process.state == KH_WORKER_PROCESS_NONE && !k->over)
		kh_keeper_after_drain(k);
	if (k->worker_process.join == KH_WORKER_PROCESS_JOINED) {
		forget_handover_new(k);
		if (k->last_worker)
			kh_worker_process_drain(&k->worker_process);
	} else if (k->worker_process.join == KH_WORKER_PROCESS_JOIN_NONE &&
		   k->worker_process.state == KH_WORKER_PROCESS_SERVING &&
		   kh_clock_mono_ms() >= handover_new->join_ms) {
		if (handover_new->join_tries++ == JOIN_TRIES) {
			kh_log_error("the end of the journal's segment before is not written: "
				     "given up");
			forget_handover_new(k);
			return;
		}
		handover_new->join_ms = kh_clock_mono_ms() + JOIN_AGAIN_MS;
		kh_worker_process_join(&k->worker_process, handover_new->segment,
				       &handover_new->cut);
	}
}
