/* signals.c - handles the keeper's signals, in every state of a drain and of a handover */

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <keyhole/base/clock.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>

#include "daemon_internal.h"

/* Who signals a process and its group (timeout(1) does) means it once. */
enum { SAME_REQUEST_MS = 250 };

static void drain(struct kh_keeper *k)
{
	k->asked_ms = kh_clock_mono_ms();
	k->drain_ms = k->asked_ms + k->config->timeouts.drain;
	k->restart_ms = 0;
	kh_notify("STOPPING=1");
	kh_log_info("draining");
	kh_worker_process_drain(&k->worker_process);
	kh_sockets_shut(&k->sockets);
	kh_registry_shut(&k->dynamic_sandboxes);
	if (k->handover_new.state == KH_HANDOVER_NEW_OURS)
		(void)kh_handover_new_say(&k->handover_new, KH_HANDOVER_MSG_HURRY, NULL);
	if (k->worker_process.state == KH_WORKER_PROCESS_NONE)
		kh_keeper_after_drain(k);
}

/* After a handover: this one only finishes what it has, from now on as after SIGTERM. */
void kh_keeper_hurry(struct kh_keeper *k)
{
	k->asked_ms = kh_clock_mono_ms();
	if (k->drain_ms > k->asked_ms + k->config->timeouts.drain)
		k->drain_ms = k->asked_ms + k->config->timeouts.drain;
	kh_log_info("draining");
	kh_worker_process_drain(&k->worker_process);
}

void kh_keeper_give_way(struct kh_keeper *k)
{
	enum { A_MOMENT_MS = 1000 };
	uint64_t end = kh_clock_mono_ms() + A_MOMENT_MS;
	k->superseded = true;
	if (k->drain_ms > end)
		k->drain_ms = end;
	kh_log_info("other rules are in force, in process %ld: what still runs here ends",
		    (long)k->handover.pid);
	kh_worker_process_supersede(&k->worker_process);
}

void kh_keeper_end_now(struct kh_keeper *k)
{
	if (k->handover_new.state == KH_HANDOVER_NEW_OURS)
		(void)kh_handover_new_say(&k->handover_new, KH_HANDOVER_MSG_END, NULL);
	kh_keeper_stop(k, k->status);
}

void kh_keeper_look_at_geo(struct kh_keeper *k)
{
	bool busy = kh_handover_is_under_way(&k->handover) ||
		    kh_handover_new_is_pending(&k->handover_new);

	if (k->drain_ms || busy || k->geo.look_ms == 0 || kh_clock_mono_ms() < k->geo.look_ms ||
	    !kh_geo_files_look(&k->geo, k->config))
		return;
	/* The same rules with other databases: a generation of its own, so that no connection is
	 * used again that was judged by those before. */
	k->worker_process.generation++;
	kh_worker_process_reload(&k->worker_process);
	kh_handover_new_supersede(&k->handover_new);
}

void kh_keeper_choose_anew(struct kh_keeper *k)
{
	bool busy = kh_handover_is_under_way(&k->handover) ||
		    kh_handover_new_is_pending(&k->handover_new);

	if (!k->choose_anew || k->drain_ms || busy)
		return;
	/* The same rules: who waits for a value is decided anew. */
	k->choose_anew = false;
	k->worker_process.generation++;
	kh_worker_process_reload(&k->worker_process);
}

static void terminate(struct kh_keeper *k)
{
	if (kh_handover_new_is_pending(&k->handover_new)) {
		kh_handover_new_refuse(&k->handover_new, "it was told to end");
		kh_keeper_stop(k, 1);
		return;
	}
	if (k->handover.state == KH_HANDOVER_OPENING) {
		k->end_later = true;
		return;
	}
	if (kh_handover_is_under_way(&k->handover)) {
		kh_handover_call_off(&k->handover);
		kh_log_warn("handover: called off by SIGTERM");
	}
	if (k->drain_ms && k->asked_ms) {
		if (kh_clock_mono_ms() - k->asked_ms >= SAME_REQUEST_MS) {
			k->at_once = true;
			kh_keeper_end_now(k);
		}
	} else if (k->drain_ms) {
		kh_keeper_hurry(k);
	} else {
		drain(k);
	}
}

bool kh_keeper_hurries(void *arg)
{
	struct kh_keeper *k = arg;
	struct signalfd_siginfo info;
	while (k->signals >= 0 && read(k->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo != SIGTERM && info.ssi_signo != SIGINT)
			continue;
		k->at_once |= k->asked_ms && kh_clock_mono_ms() - k->asked_ms >= SAME_REQUEST_MS;
		if (!k->asked_ms)
			k->asked_ms = kh_clock_mono_ms();
	}
	return k->at_once;
}

static void hang_up(struct kh_keeper *k)
{
	if (k->handover.state == KH_HANDOVER_OVER)
		kh_log_warn("reload: process %ld has taken over: ask that one",
			    (long)k->handover.pid);
	else if (kh_handover_is_under_way(&k->handover) ||
		 kh_handover_new_is_pending(&k->handover_new))
		k->reload_later = true;
	else
		(void)kh_keeper_reload(k, NULL);
}

void kh_keeper_hand_over(struct kh_keeper *k)
{
	struct kh_err err = KH_ERR_INIT;
	bool ok = false;
	k->handover_later = false;
	if (k->drain_ms && k->handover.state != KH_HANDOVER_OVER)
		kh_err_set(&err, KH_ERR_CONFIG, "not while draining");
	else if (kh_handover_new_is_pending(&k->handover_new))
		kh_err_set(&err, KH_ERR_CONFIG, "this process is taking over just now");
	else if (k->handover_new.state == KH_HANDOVER_NEW_ENDING || kh_keeper_is_reloading(k))
		ok = k->handover_later = true;
	else if (k->handover_new.state != KH_HANDOVER_NEW_NONE)
		kh_err_set(&err, KH_ERR_CONFIG,
			   "the process before this one still finishes its exchanges (wait, or "
			   "send SIGTERM to that one)");
	else
		ok = kh_handover_begin(&k->handover, &err);
	if (!ok)
		kh_log_warn("handover: not now: %s", err.text);
}

void kh_keeper_on_signal(struct kh_keeper *k, uint32_t sig)
{
	if (sig == SIGHUP)
		hang_up(k);
	else if (sig == SIGUSR2)
		kh_keeper_hand_over(k);
	else if (sig == SIGTERM || sig == SIGINT)
		terminate(k);
}
