/* keeper.c - the parent process: it holds the keys, starts the worker, and keeps one running */

/*
 * The start: harden this process and start the worker's process; while that loads, open the CA,
 * read the secrets, lock the journal, listen; then send the worker what it needs, and tell the
 * launcher. One loop waits for signals and for the worker's messages:
 *
 * - The worker ends: a new one is started at once. If workers repeatedly die young, the next one is
 *   started after 100 ms, doubling up to 700 ms, without end. Only if the very first worker ends
 *   with the status "can't start", the daemon itself fails to start.
 * - SIGTERM, SIGINT: DRAIN, at most timeouts.drain, then SIGKILL. A second one: at once.
 * - SIGHUP: reloads the configuration atomically (reload.c). It is in force once the worker has
 *   confirmed it.
 * - SIGUSR2: hands over to another binary (handover_internal.h); a failed handover changes nothing.
 *   After it, this process drains, for at most timeouts.handover.
 *
 * Listeners and journal stay open here all the time, so connections queue while there is no worker.
 */

#include "daemon_internal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <openssl/crypto.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/hidden.h>
#include <keyhole/base/log.h>
#include <keyhole/worker/worker.h>

enum {
	/* Lived that long after READY: it was no failed start. */
	PROVEN_MS = 500,
	PAUSE_FIRST_MS = 100,
	/* With a start behind it still within a second. */
	PAUSE_MOST_MS = 700,
	/* Until somebody has put the journal right. */
	PAUSE_JOURNAL_MS = 5000,
};

/* --- start ------------------------------------------------------------------------------------ */

static bool harden(const struct kh_keeper_options *options, struct kh_err *err)
{
	struct rlimit none = { 0, 0 };
	(void)umask(077);
	kh_notify_passed_seal();
	kh_spawn_raise_descriptors();
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 || setrlimit(RLIMIT_CORE, &none) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "hardening the keeper");
	if (!options->one_run)
		return true;
	/* A ^C in the terminal is the command's, and this daemon is the launcher's: its end ends
	 * it. */
	(void)setsid();
	if (prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "tying the keeper to its parent");
	return true;
}

static bool open_signals(struct kh_keeper *k, struct kh_err *err)
{
	sigset_t set;
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	(void)sigaddset(&set, SIGUSR2);
	(void)sigaddset(&set, SIGCHLD);
	(void)signal(SIGPIPE, SIG_IGN);
	/* An ignored SIGCHLD, which exec would pass on, makes zombies vanish with their status. */
	(void)signal(SIGCHLD, SIG_DFL);
	if (sigprocmask(SIG_BLOCK, &set, NULL) == 0)
		k->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return k->signals >= 0 || kh_err_sys(err, KH_ERR_SYSTEM, errno, "signals");
}

static void own_sockets(struct kh_keeper *k)
{
	const struct kh_keeper_options *options = k->options;
	for (size_t i = 0; options->socket_uid != (uid_t)-1 && i < k->config->n_listeners; i++) {
		k->config->listeners[i].owner = options->socket_uid;
		k->config->listeners[i].group = options->socket_gid;
	}
}

static bool open_limits(struct kh_keeper *k, struct kh_err *err)
{
	k->quota_slots = kh_quota_slots_new(err);
	k->worker_process.quota_slots = k->quota_slots;
	return k->quota_slots && kh_quota_state_open(k, err) && kh_quota_state_read(k, err) &&
	       kh_quota_slots_assign(k->quota_slots, k->config, kh_clock_mono_ms(), err);
}

static bool open_all(struct kh_keeper *k, struct kh_err *err)
{
	if (k->options->heir)
		return kh_quota_state_open(k, err) && kh_keeper_open_handover_new(k, err);
	if (!open_limits(k, err) || !kh_vault_open(&k->vault, k->config, k->options->one_run, err))
		return false;
	/* Those that its rules do not name were not read. */
	if (k->options->one_run)
		kh_keeper_forget_sources(k->config);
	if (!kh_keeper_open_ca(k, err) || !kh_sockets_open(&k->sockets, k->config, err))
		return false;
	kh_keeper_find_before(k);
	/* Behind the journal's lock: there is no other daemon of this configuration. */
	if (k->config->admin.sandboxes)
		kh_dynamic_sandbox_folder_sweep(k->config->admin.sandboxes);
	return true;
}

static bool start(struct kh_keeper *k, struct kh_err *err)
{
	struct kh_config *config = k->config;
	if (k->options->one_run && config->log_level == KH_LOG_INFO)
		config->log_level = KH_LOG_WARN;
	kh_log_set_level(config->log_level);
	own_sockets(k);
	if (!harden(k->options, err) || !open_signals(k, err) ||
	    !kh_registry_open(&k->dynamic_sandboxes, err) ||
	    (k->options->heir && !kh_handover_new_take(&k->handover_new, err)) ||
	    !kh_worker_process_spawn(&k->worker_process, err))
		return false;
	/* No openssl.cnf: what this program does is not for a file to change, and it costs time. */
	(void)OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
	if (!kh_geo_files_open(&k->geo, k->config, err) || !open_all(k, err))
		return false;
	kh_keeper_listen_to_vault(k);
	kh_keeper_describe_credentials(k);
	return kh_worker_process_feed(&k->worker_process, err);
}

static bool tell_ready(struct kh_keeper *k, struct kh_err *err)
{
	if (k->options->ready_fd < 0)
		return true;
	kh_cleanup(kh_ready_fini) struct kh_ready ready = { .ok = true };
	/* Of the launcher's sandbox; a daemon has nobody to tell. */
	const struct kh_ca *ca = kh_ca_in_force_of_first(k);
	ready.ca_pem = kh_slice_dup(kh_ca_trusted_pem(ca));
	ready.audit_path = strdup(k->config->audit_path);
	if (!ready.ca_pem || !ready.audit_path)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "readiness: no memory");
	return kh_vault_placeholders(&k->vault, &ready, err) &&
	       kh_ready_write(k->options->ready_fd, &ready, err);
}

/* To the launcher where there is one; it says it to its user. */
static void tell_failure(struct kh_keeper *k, const struct kh_err *why)
{
	struct kh_ready ready = { .ok = false, .error = strdup(why->text) };
	kh_handover_new_refuse(&k->handover_new, why->text);
	if (k->options->ready_fd < 0 || !ready.error ||
	    !kh_ready_write(k->options->ready_fd, &ready, NULL))
		kh_log_error("%s", why->text);
	kh_ready_fini(&ready);
}

static void close_option(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

/* --- the worker's life ------------------------------------------------------------------------ */

static void say_how_it_ended(const struct kh_keeper *k, pid_t pid, int status)
{
	const char *then = k->drain_ms ? "" : "; a new one is started";
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
		kh_log_error("worker %ld made a system call that it may not make, and was killed "
			     "for it%s",
			     (long)pid, then);
	else if (WIFSIGNALED(status))
		kh_log_error("worker %ld was killed by signal %d (%s)%s", (long)pid,
			     WTERMSIG(status), strsignal(WTERMSIG(status)), then);
	else
		kh_log_error("worker %ld ended with status %d%s", (long)pid, WEXITSTATUS(status),
			     then);
}

static uint64_t pause_before_next(const struct kh_keeper *k)
{
	if (k->failures < 2)
		return 0;
	unsigned doublings = k->failures - 2;
	uint64_t pause = doublings < 8 ? (uint64_t)PAUSE_FIRST_MS << doublings : PAUSE_MOST_MS;
	return pause < PAUSE_MOST_MS ? pause : PAUSE_MOST_MS;
}

void kh_keeper_stop(struct kh_keeper *k, int status)
{
	k->over = true;
	k->status = status;
}

static void on_worker_end(struct kh_keeper *k, pid_t pid, int status)
{
	uint64_t now = kh_clock_mono_ms();
	if (k->drain_ms) {
		/* Its last message may be unread behind its end, which says the same. */
		bool drained = WIFEXITED(status) && WEXITSTATUS(status) == KH_WORKER_EXIT_DRAINED;
		if (!k->worker_process.drained && !drained)
			say_how_it_ended(k, pid, status);
		kh_keeper_after_drain(k);
		return;
	}
	if (kh_handover_new_is_pending(&k->handover_new)) {
		say_how_it_ended(k, pid, status);
		kh_handover_new_refuse(&k->handover_new, "its worker could not start");
		kh_keeper_stop(k, 1);
		return;
	}
	if (kh_keeper_is_hopeless(k, status)) {
		kh_log_error("the worker can't start (status %d); giving up", WEXITSTATUS(status));
		kh_keeper_stop(k, 1);
		return;
	}
	say_how_it_ended(k, pid, status);
	(void)kh_registry_distrust(&k->dynamic_sandboxes, pid);
	/* SIGKILL comes from outside: it says nothing about the worker. */
	bool proven = k->worker_process.serving_ms &&
		      (now - k->worker_process.serving_ms >= PROVEN_MS ||
		       (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
	k->failures = proven ? 0 : k->failures + 1;
	kh_keeper_note_journal(k, status);
	k->restart_ms = now + pause_before_next(k);
}

static void start_next(struct kh_keeper *k)
{
	struct kh_err err = KH_ERR_INIT;
	k->restart_ms = 0;
	if (!kh_keeper_between_workers(k, &err)) {
		kh_log_error("no worker is started: %s", err.text);
		k->restart_ms = kh_clock_mono_ms() + PAUSE_JOURNAL_MS;
		return;
	}
	kh_keeper_look_before_start(k);
	if (kh_worker_process_spawn(&k->worker_process, &err)) {
		if (kh_worker_process_feed(&k->worker_process, &err))
			return;
		kh_worker_process_condemn(&k->worker_process); /* its end brings the next try */
		kh_log_error("%s", err.text);
		return;
	}
	k->failures++;
	k->restart_ms = kh_clock_mono_ms() + PAUSE_MOST_MS;
	kh_log_error("%s", err.text);
}

static void reap(struct kh_keeper *k)
{
	int status;
	pid_t pid = k->worker_process.pid;
	if (!kh_worker_process_reap(&k->worker_process, false, &status))
		return;
	kh_keeper_end_counting(k);
	on_worker_end(k, pid, status);
}

static void note_serving(struct kh_keeper *k)
{
	if (k->has_served || !k->worker_process.serving_ms)
		return;
	k->has_served = true;
	if (k->handover_new.state == KH_HANDOVER_NEW_OFFERED) {
		(void)kh_handover_new_set_state(&k->handover_new, KH_HANDOVER_NEW_PREPARED, NULL);
		(void)kh_handover_new_say(&k->handover_new, KH_HANDOVER_MSG_PREPARED, NULL);
		return;
	}
	kh_keeper_tell_ready(k);
	kh_log_info("serving (worker %ld, secrets in %s)", (long)k->worker_process.pid,
		    kh_secret_backing());
	if (k->options->serving_fd >= 0)
		(void)!write(k->options->serving_fd, "\n", 1);
	close_option(&k->options->serving_fd);
}

/* --- signals and time ------------------------------------------------------------------------- */

static void read_signals(struct kh_keeper *k)
{
	struct signalfd_siginfo info;
	while (read(k->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
		kh_keeper_on_signal(k, info.ssi_signo);
}

/* When time alone makes something happen to the worker; 0: never. */
static uint64_t next_deadline(const struct kh_keeper *k)
{
	if (k->worker_process.state == KH_WORKER_PROCESS_NONE)
		return k->drain_ms ? k->drain_ms : k->restart_ms;
	/* A condemned worker has none: its SIGCHLD comes. */
	if (k->worker_process.state == KH_WORKER_PROCESS_CONDEMNED)
		return 0;
	return k->drain_ms ? k->drain_ms : kh_worker_process_deadline(&k->worker_process);
}

static void on_deadline(struct kh_keeper *k)
{
	if (k->worker_process.state == KH_WORKER_PROCESS_NONE && k->drain_ms) {
		kh_keeper_end_now(k);
		return;
	}
	if (k->worker_process.state == KH_WORKER_PROCESS_NONE) {
		start_next(k);
		return;
	}
	k->late = k->worker_process.state == KH_WORKER_PROCESS_STARTING;
	if (k->late)
		kh_log_error("worker %ld does not get ready: it is killed",
			     (long)k->worker_process.pid);
	else if (!k->drain_ms)
		kh_log_error("worker %ld does not take the new configuration: it is killed",
			     (long)k->worker_process.pid);
	else if (k->worker_process.state == KH_WORKER_PROCESS_DRAINING)
		kh_log_warn("what still ran at the end of %s is cut off",
			    k->superseded ? "the moment after a change of the rules"
			    : k->handover.state == KH_HANDOVER_OVER && !k->asked_ms
				    ? "timeouts.handover"
				    : "timeouts.drain");
	kh_worker_process_condemn(&k->worker_process);
}

static int poll_timeout(uint64_t deadline)
{
	if (deadline == 0)
		return -1;
	uint64_t now = kh_clock_mono_ms();
	return deadline > now ? (int)(deadline - now) : 0;
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a && (!b || a < b) ? a : b;
}

static uint64_t first_deadline(const struct kh_keeper *k)
{
	bool joins = k->handover_new.state == KH_HANDOVER_NEW_ENDING &&
		     k->worker_process.state == KH_WORKER_PROCESS_SERVING &&
		     k->worker_process.join == KH_WORKER_PROCESS_JOIN_NONE;
	uint64_t first = sooner(sooner(next_deadline(k), k->handover.deadline_ms),
				joins ? k->handover_new.join_ms : 0);
	bool looks = !k->drain_ms && !kh_handover_is_under_way(&k->handover) &&
		     !kh_handover_new_is_pending(&k->handover_new);
	first = sooner(first, kh_keeper_verb_deadline(k));
	first = sooner(first, kh_handover_new_deadline(&k->handover_new));
	first = sooner(first, kh_registry_deadline(&k->dynamic_sandboxes));
	first = sooner(first, kh_vault_deadline(&k->vault));
	first = sooner(sooner(first, k->credential_status_due_ms),
		       k->worker_process.fingerprints_due_ms);
	first = sooner(first, kh_keeper_journal_deadline(k));
	first = sooner(first, kh_keeper_listeners_deadline(k));
	return sooner(sooner(first, looks ? k->geo.look_ms : 0), kh_quota_state_deadline(k));
}

static void turn(struct kh_keeper *k)
{
	k->dynamic_sandboxes.busy = kh_keeper_busy(k);
	bool listening = k->worker_process.state != KH_WORKER_PROCESS_NONE &&
			 k->worker_process.state != KH_WORKER_PROCESS_CONDEMNED;
	struct pollfd fds[7] = {
		{ .fd = k->signals, .events = POLLIN },
		{ .fd = listening ? k->worker_process.channel.fd : -1, .events = POLLIN },
		{ .fd = k->handover.channel.fd, .events = POLLIN },
		{ .fd = k->handover_new.channel.fd, .events = POLLIN },
		{ .fd = k->dynamic_sandboxes.busy ? -1 : k->dynamic_sandboxes.watch,
		  .events = POLLIN },
		{ .fd = kh_vault_fd(&k->vault), .events = POLLIN },
		{ .fd = kh_child_log_ours(), .events = POLLIN },
	};
	uint64_t deadline = next_deadline(k);
	int n = poll(fds, 7, poll_timeout(first_deadline(k)));
	if (n < 0 && errno != EINTR) {
		kh_log_error("poll: %s", strerror(errno));
		kh_keeper_stop(k, 1);
		return;
	}
	kh_child_log_take();
	if (n > 0 && fds[1].revents)
		kh_worker_process_receive(&k->worker_process);
	note_serving(k);
	kh_keeper_look_at_reload(k);
	kh_registry_turn(&k->dynamic_sandboxes, &k->worker_process);
	kh_vault_turn(&k->vault);
	kh_worker_process_look_at_fingerprints(&k->worker_process);
	if (k->credential_status_due_ms && kh_clock_mono_ms() >= k->credential_status_due_ms) {
		kh_keeper_describe_credentials(k);
		kh_worker_process_tell_facts(&k->worker_process);
	}
	kh_keeper_on_verb(k);
	if (n > 0 && fds[0].revents)
		read_signals(k);
	kh_keeper_on_handover(k);
	kh_keeper_on_handover_new(k);
	kh_keeper_look_at_geo(k);
	kh_keeper_cut_journal(k);
	kh_keeper_look_at_journal(k);
	kh_keeper_look_at_listeners(k);
	kh_keeper_choose_anew(k);
	reap(k);
	kh_quota_state_turn(k);
	if (!k->over && deadline && kh_clock_mono_ms() >= deadline && deadline == next_deadline(k))
		on_deadline(k);
}

static void close_sockets(struct kh_keeper *k)
{
	/* What is another process's is left as it is. */
	if (k->handover.state >= KH_HANDOVER_OPENING)
		kh_sockets_forget(&k->sockets);
	if (!kh_handover_new_is_pending(&k->handover_new)) {
		kh_sockets_close(&k->sockets);
		return;
	}
	if (k->sockets.listening)
		kh_sockets_drop_next(&k->sockets);
}

static void close_dynamic_sandboxes(struct kh_keeper *k)
{
	/* Likewise. */
	if (k->handover.state >= KH_HANDOVER_OPENING ||
	    kh_handover_new_is_pending(&k->handover_new))
		kh_registry_forget(&k->dynamic_sandboxes);
	kh_registry_close(&k->dynamic_sandboxes);
}

static void finish(struct kh_keeper *k)
{
	int status;
	kh_worker_process_condemn(&k->worker_process);
	if (kh_worker_process_reap(&k->worker_process, true, &status) && k->quota_slots)
		kh_keeper_end_counting(k);
	kh_quota_state_end(k);
	kh_handover_fini(&k->handover);
	close_dynamic_sandboxes(k);
	close_sockets(k);
	kh_handover_new_fini(&k->handover_new);
	kh_keeper_forget_before(k);
	kh_vault_finish(&k->vault, k->signals, kh_keeper_hurries, k);
	kh_vault_close(&k->vault);
	kh_orphans_finish();
	kh_geo_files_close(&k->geo);
	kh_signer_fini(&k->worker_process.signer);
	kh_worker_process_forget_policy(&k->worker_process);
	kh_ca_free(k->ca);
	kh_tenant_cas_free(&k->tenant_cas);
	kh_quota_slots_free(k->quota_slots);
	kh_child_log_close();
	close_option(&k->signals);
	close_option(&k->options->serving_fd);
	kh_keeper_end_facts(k);
	kh_buf_fini(&k->verb_said);
	kh_config_free(k->config);
}

int kh_keeper_run(struct kh_keeper_options *options)
{
	struct kh_keeper k = { .options = options, .config = options->config, .signals = -1 };
	k.dynamic_sandboxes.watch = k.before_lock = -1;
	struct kh_err err = KH_ERR_INIT;
	kh_log_set_role("keeper");
	/* A run is no service: what it would say there is read as the words of whoever started it.
	 */
	if (options->one_run)
		(void)unsetenv("NOTIFY_SOCKET");
	kh_secret_prepare();
	if (!kh_hidden_suffices(&err)) {
		kh_log_warn("%s", err.text);
		err = (struct kh_err)KH_ERR_INIT;
	}
	k.worker_process = (struct kh_worker_process){ .config = k.config,
						       .vault = &k.vault,
						       .sockets = &k.sockets,
						       .geo = &k.geo,
						       .dynamic_sandboxes = &k.dynamic_sandboxes,
						       .generation = 1,
						       .before = -1,
						       .pid = -1,
						       .channel = { .fd = -1 } };
	k.handover = (struct kh_handover){ .argv = options->one_run ? NULL : options->argv,
					   .worker_process = &k.worker_process,
					   .vault = &k.vault,
					   .sockets = &k.sockets,
					   .pid = -1,
					   .channel = { .fd = -1 } };
	k.handover_new = (struct kh_handover_new){ .channel = { .fd = -1 },
						   .sockets = { KH_NO_JOURNAL },
						   .dynamic_sandboxes = &k.dynamic_sandboxes,
						   .segment = -1 };
	k.vault.config = k.config;
	kh_geo_files_init(&k.geo);
	k.sockets = (struct kh_sockets){ .config = k.config, KH_NO_JOURNAL };
	kh_keeper_begin_facts(&k);
	if (!start(&k, &err) || !tell_ready(&k, &err)) {
		tell_failure(&k, &err);
		kh_keeper_stop(&k, 1);
	}
	close_option(&options->ready_fd);
	while (!k.over)
		turn(&k);
	finish(&k);
	return k.status;
}
