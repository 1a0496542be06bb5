/* worker_process_feed.c - the messages that a worker gets at its start and at a reload */

#include "keeper_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/base/wire.h>
#include <keyhole/base/worker_messages.h>

enum { SNAPSHOT_BYTES = 512 * 1024 * 1024 };

/* A message of the start, which has no ref. */
static bool tell(struct kh_worker_process *worker_process, enum kh_worker_msg_to_worker type,
		 struct kh_slice body, const int *fds, unsigned n_fds, struct kh_err *err)
{
	return kh_channel_send(&worker_process->channel, type, 0, body, fds, n_fds, err);
}

static const struct kh_slice nothing = { "", 0 };

/* Its answer is READY. */
static bool tell_go(struct kh_worker_process *worker_process, struct kh_err *err)
{
	if (worker_process->told == worker_process->confirmed)
		worker_process->confirm_ms = kh_clock_mono_ms() + KH_LIMIT_READY_MS;
	worker_process->told = worker_process->generation;
	return tell(worker_process, KH_WORKER_MSG_GO, nothing, NULL, 0, err);
}

static bool feed_snapshot(struct kh_worker_process *worker_process, struct kh_err *err)
{
	kh_cleanup(kh_buf_fini) struct kh_buf bytes;
	kh_buf_init(&bytes, SNAPSHOT_BYTES);
	kh_vault_see(worker_process->vault);
	struct kh_config seen = *worker_process->config;
	if (worker_process->acceptors_shut)
		seen.n_listeners = 0;
	if (!kh_config_encode(&seen, &bytes))
		return kh_err_set(err, KH_ERR_NO_MEMORY, "the configuration's snapshot: no memory");
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, 2 * sizeof(uint32_t));
	kh_auto_close int fd = kh_file_sealed("keyhole-snapshot", kh_buf_view(&bytes), err);
	const int fds[] = { fd, kh_quota_slots_fd(worker_process->quota_slots) };
	return fd >= 0 &&
	       kh_wire_put_u32(&body, kh_quota_slots_slots(worker_process->quota_slots)) &&
	       kh_wire_put_u8(&body, (uint8_t)worker_process->column) &&
	       kh_channel_send(&worker_process->channel, KH_WORKER_MSG_SNAPSHOT,
			       worker_process->generation, kh_buf_view(&body), fds, 2, err);
}

static bool feed_listeners(struct kh_worker_process *worker_process, struct kh_err *err)
{
	const struct kh_sockets *sockets = worker_process->sockets;
	if (worker_process->acceptors_shut)
		return true;
	size_t count = worker_process->config->n_listeners;
	for (size_t first = 0; first < count; first += KH_LIMIT_CHANNEL_FDS) {
		int fds[KH_LIMIT_CHANNEL_FDS];
		unsigned n = 0;
		while (n < KH_LIMIT_CHANNEL_FDS && first + n < count) {
			fds[n] = sockets->listening[first + n].fd;
			n++;
		}
		kh_cleanup(kh_buf_fini) struct kh_buf body;
		kh_buf_init(&body, 2 * sizeof(uint32_t));
		if (!kh_wire_put_u32(&body, n) || !kh_wire_put_u32(&body, (uint32_t)first) ||
		    !tell(worker_process, KH_WORKER_MSG_LISTENERS, kh_buf_view(&body), fds, n, err))
			return false;
	}
	return true;
}

static void close_all(int *fds, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		(void)close(fds[i]);
}

static bool feed_journal(struct kh_worker_process *worker_process, struct kh_err *err)
{
	const struct kh_journal_base *base = &worker_process->base;
	const struct kh_checkpoint *told = &worker_process->checkpoint;
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, 3 * sizeof(*base) + 3 * sizeof(*told));
	struct kh_journal_files files, before = { -1, -1 };
	struct stat st;
	/* Without it the worker serves all the same, and `audit verify` misses its record. */
	bool joins = worker_process->before >= 0 &&
		     kh_journal_lend(worker_process->before, &before, NULL);
	if (fstat(worker_process->sockets->journal, &st) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "journal: its size is not known");
	worker_process->lent_at = (uint64_t)st.st_size;
	kh_worker_process_read_base(worker_process);
	bool ok =
		kh_journal_lend(worker_process->sockets->journal, &files, err) &&
		kh_wire_put_u64(&body, base->seq) &&
		kh_wire_put_bytes(&body,
				  kh_slice_of((const char *)base->hash, sizeof(base->hash))) &&
		kh_wire_put_u8(&body, worker_process->journal_held) &&
		kh_wire_put_u8(&body, base->set_aside) && kh_wire_put_u8(&body, base->ended) &&
		kh_wire_put_u8(&body, base->open) &&
		kh_wire_put_u64(&body, joins ? worker_process->before_cut.seq : 0) &&
		kh_wire_put_bytes(&body, kh_slice_of((const char *)worker_process->before_cut.hash,
						     sizeof(worker_process->before_cut.hash))) &&
		kh_wire_put_u8(&body, worker_process->followed) &&
		kh_wire_put_u64(&body, worker_process->since) &&
		kh_wire_put_u64(&body, told->seq) &&
		kh_wire_put_bytes(&body,
				  kh_slice_of((const char *)told->hash, sizeof(told->hash))) &&
		kh_wire_put_u64(&body, told->end) &&
		tell(worker_process, KH_WORKER_MSG_JOURNAL, kh_buf_view(&body),
		     (int[]){ files.append, files.read, before.append, before.read }, joins ? 4 : 2,
		     err);
	kh_journal_lent(worker_process->sockets->journal, &files);
	if (worker_process->before >= 0)
		kh_journal_lent(worker_process->before, &before);
	return ok;
}

static bool feed_files(struct kh_worker_process *worker_process, struct kh_err *err)
{
	int roots[KH_ROOTS_MOST], resolver[2];
	unsigned n;
	if (!kh_roots_open(worker_process->config, roots, &n, err))
		return false;
	bool sent = tell(worker_process, KH_WORKER_MSG_ROOTS, nothing, roots, n, err);
	close_all(roots, n);
	if (!sent || !kh_resolver_files(resolver, err))
		return false;
	sent = tell(worker_process, KH_WORKER_MSG_RESOLVER, nothing, resolver, 2, err);
	close_all(resolver, 2);
	return sent;
}

static bool feed_geo(struct kh_worker_process *worker_process, struct kh_err *err)
{
	int fds[KH_GEO_FILES];
	unsigned n = 0;
	for (unsigned i = 0; i < KH_GEO_FILES; i++)
		if (worker_process->geo->file[i].fd >= 0)
			fds[n++] = worker_process->geo->file[i].fd;
	return tell(worker_process, KH_WORKER_MSG_GEO, nothing, fds, n, err);
}

/* The acceptors of `admin`, behind the listeners. */
static bool feed_admin(struct kh_worker_process *worker_process, struct kh_err *err)
{
	const struct kh_admin_config *admin = &worker_process->config->admin;
	int fds[2];
	unsigned n = 0;
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, 2 * sizeof(uint32_t));
	bool ok = kh_wire_put_u32(&body, geteuid());
	for (; ok && !worker_process->acceptors_shut && n < admin->n_acceptors; n++) {
		fds[n] = worker_process->sockets->listening[worker_process->config->n_listeners + n]
				 .fd;
		ok = kh_wire_put_u8(&body, (uint8_t)admin->acceptors[n].kind);
	}
	return ok && tell(worker_process, KH_WORKER_MSG_ADMIN, kh_buf_view(&body), fds, n, err);
}

static bool feed_facts(struct kh_worker_process *worker_process, struct kh_err *err)
{
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	const struct kh_admin_facts none = { .pid = 0 },
				    *facts = worker_process->facts ? worker_process->facts : &none;
	kh_auto_close int states = -1;
	kh_buf_init(&body, KH_LIMIT_CHANNEL_BYTES / 2);
	if (facts->credentials)
		states = kh_file_sealed("keyhole-states", kh_slice_str(facts->credentials), err);
	return (states >= 0 || !facts->credentials) && kh_admin_facts_put(&body, facts) &&
	       tell(worker_process, KH_WORKER_MSG_FACTS, kh_buf_view(&body), &states, states >= 0,
		    err);
}

static bool feed_one_issuer(struct kh_worker_process *worker_process, uint16_t tenant,
			    const struct kh_ca *ca, struct kh_err *err)
{
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, KH_LIMIT_CHANNEL_BYTES / 2);
	if (!kh_wire_put_u16(&body, tenant) || !kh_wire_put_bytes(&body, kh_ca_der(ca)) ||
	    !kh_wire_put_bytes(&body, kh_ca_trusted_pem(ca)))
		return kh_err_set(err, KH_ERR_INTERNAL, "the CA's certificate is too long");
	return tell(worker_process, KH_WORKER_MSG_ISSUER, kh_buf_view(&body), NULL, 0, err);
}

static bool feed_issuer(struct kh_worker_process *worker_process, struct kh_err *err)
{
	if (!worker_process->tenant_cas.list)
		return feed_one_issuer(worker_process, KH_NO_TENANT, worker_process->ca, err);
	for (size_t i = 0; i < worker_process->tenant_cas.n; i++)
		if (!feed_one_issuer(worker_process, (uint16_t)i,
				     worker_process->tenant_cas.list[i], err))
			return false;
	return true;
}

/* Once a worker, behind the GO with which its acceptors open. */
static bool feed_dynamic_sandboxes(struct kh_worker_process *worker_process, struct kh_err *err)
{
	return worker_process->acceptors_shut || worker_process->dynamic_sandboxes_fed ||
	       kh_registry_feed(worker_process->dynamic_sandboxes, worker_process, err);
}

bool kh_worker_process_feed(struct kh_worker_process *worker_process, struct kh_err *err)
{
	return (feed_snapshot(worker_process, err) && feed_listeners(worker_process, err) &&
		feed_geo(worker_process, err) && feed_admin(worker_process, err) &&
		feed_facts(worker_process, err) &&
		kh_worker_process_feed_fingerprints(worker_process, err) &&
		feed_journal(worker_process, err) && feed_files(worker_process, err) &&
		feed_issuer(worker_process, err) && tell_go(worker_process, err) &&
		feed_dynamic_sandboxes(worker_process, err)) ||
	       kh_err_wrap(err, "starting the worker");
}

void kh_worker_process_reload(struct kh_worker_process *worker_process)
{
	struct kh_err err = KH_ERR_INIT;
	if (worker_process->state != KH_WORKER_PROCESS_STARTING &&
	    worker_process->state != KH_WORKER_PROCESS_SERVING)
		return;
	if (feed_snapshot(worker_process, &err) && feed_listeners(worker_process, &err) &&
	    feed_geo(worker_process, &err) && feed_admin(worker_process, &err) &&
	    feed_facts(worker_process, &err) &&
	    kh_worker_process_feed_fingerprints(worker_process, &err) &&
	    feed_issuer(worker_process, &err) && tell_go(worker_process, &err) &&
	    feed_dynamic_sandboxes(worker_process, &err))
		return;
	kh_log_error("reload: the worker can't be told, a new one is started: %s", err.text);
	kh_worker_process_condemn(worker_process);
}

void kh_worker_process_hold_journal(struct kh_worker_process *worker_process, bool hold)
{
	struct kh_err err = KH_ERR_INIT;
	if ((worker_process->state != KH_WORKER_PROCESS_SERVING &&
	     worker_process->state != KH_WORKER_PROCESS_DRAINING) ||
	    worker_process->journal_held == hold)
		return;
	struct kh_slice body = hold ? KH_SLICE("\1") : KH_SLICE("\0");
	if (tell(worker_process, KH_WORKER_MSG_JOURNAL_HELD, body, NULL, 0, &err)) {
		worker_process->journal_held = hold;
		return;
	}
	kh_log_error("the worker can't be told of the journal, so it is ended: %s", err.text);
	kh_worker_process_condemn(worker_process);
}

void kh_worker_process_tell_journal_cut(struct kh_worker_process *worker_process, uint64_t end)
{
	struct kh_err err = KH_ERR_INIT;
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, sizeof(end));
	worker_process->torn = false;
	if (kh_wire_put_u64(&body, end) &&
	    tell(worker_process, KH_WORKER_MSG_JOURNAL_CUT, kh_buf_view(&body), NULL, 0, &err))
		return;
	kh_log_error("the worker can't be told of the journal, a new one is started: %s", err.text);
	kh_worker_process_condemn(worker_process);
}

void kh_worker_process_tell_facts(struct kh_worker_process *worker_process)
{
	struct kh_err err = KH_ERR_INIT;
	if ((worker_process->state != KH_WORKER_PROCESS_STARTING &&
	     worker_process->state != KH_WORKER_PROCESS_SERVING) ||
	    worker_process->config->admin.n_acceptors == 0)
		return;
	if (!feed_facts(worker_process, &err))
		kh_log_warn("the worker can't be told about the daemon: %s", err.text);
}
