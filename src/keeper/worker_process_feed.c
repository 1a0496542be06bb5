/* worker_process_feed.c - what a worker is told: all of it at its start, again at a reload */

#include "keeper_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/base/wire.h>

enum { SNAPSHOT_BYTES = 512 * 1024 * 1024 };

/* A message of the start, which has no ref. */
static bool tell(struct kh_worker_process *ward, enum kh_channel_type type, struct kh_slice body,
		 const int *fds, unsigned n_fds, struct kh_err *err)
{
	return kh_channel_send(&ward->channel, type, 0, body, fds, n_fds, err);
}

static const struct kh_slice nothing = { "", 0 };

static bool feed_snapshot(struct kh_worker_process *ward, struct kh_err *err)
{
	kh_cleanup(kh_buf_fini) struct kh_buf bytes;
	kh_buf_init(&bytes, SNAPSHOT_BYTES);
	kh_vault_see(ward->vault);
	struct kh_config seen = *ward->config;
	if (ward->acceptors_shut)
		seen.n_listeners = 0;
	if (!kh_config_encode(&seen, &bytes))
		return kh_err_set(err, KH_ERR_NO_MEMORY, "the configuration's snapshot: no memory");
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, 2 * sizeof(uint32_t));
	kh_auto_close int fd = kh_file_sealed("keyhole-snapshot", kh_buf_view(&bytes), err);
	const int fds[] = { fd, kh_quota_slots_fd(ward->book) };
	return fd >= 0 && kh_wire_put_u32(&body, kh_quota_slots_slots(ward->book)) &&
	       kh_wire_put_u8(&body, (uint8_t)ward->column) &&
	       kh_channel_send(&ward->channel, KH_CHANNEL_SNAPSHOT, ward->generation,
			       kh_buf_view(&body), fds, 2, err);
}

static bool feed_listeners(struct kh_worker_process *ward, struct kh_err *err)
{
	const struct kh_sockets *sockets = ward->sockets;
	if (ward->acceptors_shut)
		return true;
	size_t count = ward->config->n_listeners;
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
		    !tell(ward, KH_CHANNEL_LISTENERS, kh_buf_view(&body), fds, n, err))
			return false;
	}
	return true;
}

static void close_all(int *fds, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		(void)close(fds[i]);
}

static bool feed_journal(struct kh_worker_process *ward, struct kh_err *err)
{
	const struct kh_journal_base *base = &ward->base;
	const struct kh_checkpoint *told = &ward->checkpoint;
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, 2 * sizeof(*base) + 3 * sizeof(*told));
	struct kh_journal_files files;
	struct stat st;
	if (fstat(ward->sockets->journal, &st) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "journal: its size is not known");
	ward->lent_at = (uint64_t)st.st_size;
	bool ok = kh_journal_lend(ward->sockets->journal, &files, err) &&
		  kh_wire_put_u64(&body, base->seq) &&
		  kh_wire_put_bytes(&body,
				    kh_slice_of((const char *)base->hash, sizeof(base->hash))) &&
		  kh_wire_put_u8(&body, ward->journal_held) &&
		  kh_wire_put_u8(&body, base->set_aside) && kh_wire_put_u8(&body, ward->followed) &&
		  kh_wire_put_u64(&body, ward->since) && kh_wire_put_u64(&body, told->seq) &&
		  kh_wire_put_bytes(&body,
				    kh_slice_of((const char *)told->hash, sizeof(told->hash))) &&
		  kh_wire_put_u64(&body, told->end) &&
		  tell(ward, KH_CHANNEL_JOURNAL, kh_buf_view(&body),
		       (int[]){ files.append, files.read }, 2, err);
	kh_journal_lent(ward->sockets->journal, &files);
	return ok;
}

static bool feed_files(struct kh_worker_process *ward, struct kh_err *err)
{
	int roots[KH_ROOTS_MOST], resolver[2];
	unsigned n;
	if (!kh_roots_open(ward->config, roots, &n, err))
		return false;
	bool sent = tell(ward, KH_CHANNEL_ROOTS, nothing, roots, n, err);
	close_all(roots, n);
	if (!sent || !kh_resolver_files(resolver, err))
		return false;
	sent = tell(ward, KH_CHANNEL_RESOLVER, nothing, resolver, 2, err);
	close_all(resolver, 2);
	return sent;
}

static bool feed_geo(struct kh_worker_process *ward, struct kh_err *err)
{
	int fds[KH_GEO_FILES];
	unsigned n = 0;
	for (unsigned i = 0; i < KH_GEO_FILES; i++)
		if (ward->geo->file[i].fd >= 0)
			fds[n++] = ward->geo->file[i].fd;
	return tell(ward, KH_CHANNEL_GEO, nothing, fds, n, err);
}

/* The doors of `admin`, behind the listeners. */
static bool feed_admin(struct kh_worker_process *ward, struct kh_err *err)
{
	const struct kh_admin_config *admin = &ward->config->admin;
	int fds[2];
	unsigned n = 0;
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, 2 * sizeof(uint32_t));
	bool ok = kh_wire_put_u32(&body, geteuid());
	for (; ok && !ward->acceptors_shut && n < admin->n_acceptors; n++) {
		fds[n] = ward->sockets->listening[ward->config->n_listeners + n].fd;
		ok = kh_wire_put_u8(&body, (uint8_t)admin->doors[n].kind);
	}
	return ok && tell(ward, KH_CHANNEL_ADMIN, kh_buf_view(&body), fds, n, err);
}

static bool feed_facts(struct kh_worker_process *ward, struct kh_err *err)
{
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	const struct kh_admin_facts none = { .pid = 0 }, *facts = ward->facts ? ward->facts : &none;
	kh_auto_close int states = -1;
	kh_buf_init(&body, KH_LIMIT_CHANNEL_BYTES / 2);
	if (facts->credentials)
		states = kh_file_sealed("keyhole-states", kh_slice_str(facts->credentials), err);
	return (states >= 0 || !facts->credentials) && kh_admin_facts_put(&body, facts) &&
	       tell(ward, KH_CHANNEL_FACTS, kh_buf_view(&body), &states, states >= 0, err);
}

static bool feed_one_issuer(struct kh_worker_process *ward, uint16_t tenant, const struct kh_ca *ca,
			    struct kh_err *err)
{
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, KH_LIMIT_CHANNEL_BYTES / 2);
	if (!kh_wire_put_u16(&body, tenant) || !kh_wire_put_bytes(&body, kh_ca_der(ca)) ||
	    !kh_wire_put_bytes(&body, kh_ca_trusted_pem(ca)))
		return kh_err_set(err, KH_ERR_INTERNAL, "the CA's certificate is too long");
	return tell(ward, KH_CHANNEL_ISSUER, kh_buf_view(&body), NULL, 0, err);
}

static bool feed_issuer(struct kh_worker_process *ward, struct kh_err *err)
{
	if (!ward->tenant_cas.list)
		return feed_one_issuer(ward, KH_NO_TENANT, ward->ca, err);
	for (size_t i = 0; i < ward->tenant_cas.n; i++)
		if (!feed_one_issuer(ward, (uint16_t)i, ward->tenant_cas.list[i], err))
			return false;
	return true;
}

/* Once a worker, behind the GO with which its doors open. */
static bool feed_dynamic_sandboxes(struct kh_worker_process *ward, struct kh_err *err)
{
	return ward->acceptors_shut || ward->dynamic_sandboxes_fed ||
	       kh_registry_feed(ward->guests, ward, err);
}

bool kh_worker_process_feed(struct kh_worker_process *ward, struct kh_err *err)
{
	return (feed_snapshot(ward, err) && feed_listeners(ward, err) && feed_geo(ward, err) &&
		feed_admin(ward, err) && feed_facts(ward, err) &&
		kh_worker_process_feed_fingerprints(ward, err) && feed_journal(ward, err) &&
		feed_files(ward, err) && feed_issuer(ward, err) &&
		tell(ward, KH_CHANNEL_GO, nothing, NULL, 0, err) &&
		feed_dynamic_sandboxes(ward, err)) ||
	       kh_err_wrap(err, "starting the worker");
}

void kh_worker_process_reload(struct kh_worker_process *ward)
{
	struct kh_err err = KH_ERR_INIT;
	if (ward->state != KH_WORKER_PROCESS_STARTING && ward->state != KH_WORKER_PROCESS_SERVING)
		return;
	if (feed_snapshot(ward, &err) && feed_listeners(ward, &err) && feed_geo(ward, &err) &&
	    feed_admin(ward, &err) && feed_facts(ward, &err) &&
	    kh_worker_process_feed_fingerprints(ward, &err) && feed_issuer(ward, &err) &&
	    tell(ward, KH_CHANNEL_GO, nothing, NULL, 0, &err) && feed_dynamic_sandboxes(ward, &err))
		return;
	kh_log_error("reload: the worker can't be told, a new one is started: %s", err.text);
	kh_worker_process_condemn(ward);
}

void kh_worker_process_hold_journal(struct kh_worker_process *ward, bool hold)
{
	struct kh_err err = KH_ERR_INIT;
	if ((ward->state != KH_WORKER_PROCESS_SERVING &&
	     ward->state != KH_WORKER_PROCESS_DRAINING) ||
	    ward->journal_held == hold)
		return;
	struct kh_slice body = hold ? KH_SLICE("\1") : KH_SLICE("\0");
	if (tell(ward, KH_CHANNEL_JOURNAL_HELD, body, NULL, 0, &err)) {
		ward->journal_held = hold;
		return;
	}
	kh_log_error("the worker can't be told of the journal, so it is ended: %s", err.text);
	kh_worker_process_condemn(ward);
}

void kh_worker_process_tell_journal_cut(struct kh_worker_process *ward, uint64_t end)
{
	struct kh_err err = KH_ERR_INIT;
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, sizeof(end));
	ward->torn = false;
	if (kh_wire_put_u64(&body, end) &&
	    tell(ward, KH_CHANNEL_JOURNAL_CUT, kh_buf_view(&body), NULL, 0, &err))
		return;
	kh_log_error("the worker can't be told of the journal, a new one is started: %s", err.text);
	kh_worker_process_condemn(ward);
}

void kh_worker_process_tell_facts(struct kh_worker_process *ward)
{
	struct kh_err err = KH_ERR_INIT;
	if ((ward->state != KH_WORKER_PROCESS_STARTING &&
	     ward->state != KH_WORKER_PROCESS_SERVING) ||
	    ward->config->admin.n_acceptors == 0)
		return;
	if (!feed_facts(ward, &err))
		kh_log_warn("the worker can't be told about the daemon: %s", err.text);
}
