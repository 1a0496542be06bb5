/*
 * dynamic_sandboxes.c - the keeper's registry of dynamic sandboxes; it tells the worker about
 * changes
 *
 * Only the worker sees who asks, and it may have been taken over: it can claim any user that the
 * configuration allows. The keeper checks that this user may have what is asked for
 * (dynamic_sandbox_check.c), logs it, and remembers which dynamic sandboxes the running worker
 * asked for. If that worker ends unexpectedly, they go on, since a crash must not cut off running
 * sandboxes. But they are marked as suspect, since a worker that was taken over may have added them
 * for later use.
 */

#include "dynamic_sandboxes.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/base/lru.h>
#include <keyhole/base/worker_messages.h>

#include "handover_messages.h"
#include "keeper_internal.h"

/* --- the registry -------------------------------------------------------------------------------
 */

void kh_registry_entry_free(struct kh_registry_entry *entry)
{
	kh_list_remove(&entry->link);
	kh_dynamic_sandbox_folder_remove(entry);
	kh_dynamic_sandbox_hold_end(entry);
	kh_dynamic_sandbox_wish_fini(&entry->wish);
	free(entry->path);
	free(entry);
}

static bool no_memory(struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_NO_MEMORY, "sandboxes: no memory");
}

static void free_entry(void *value)
{
	kh_registry_entry_free(value);
}

bool kh_registry_open(struct kh_registry *reg, struct kh_err *err)
{
	*reg = (struct kh_registry){ .watch = -1 };
	kh_list_init(&reg->list);
	reg->by_name = kh_lru_new(KH_LIMIT_DYNAMIC_SANDBOXES, free_entry);
	reg->by_tenant = kh_lru_new(KH_LIMIT_DYNAMIC_SANDBOXES, free);
	if (kh_dynamic_sandbox_holds_open(reg) && reg->by_name && reg->by_tenant)
		return true;
	kh_lru_free(reg->by_number);
	kh_lru_free(reg->by_name);
	kh_lru_free(reg->by_tenant);
	*reg = (struct kh_registry){ .watch = -1 };
	kh_list_init(&reg->list);
	return no_memory(err);
}

void kh_registry_shut(struct kh_registry *reg)
{
	if (!reg->by_name)
		return;
	kh_lru_clear(reg->by_number);
	kh_lru_clear(reg->by_name);
	kh_lru_clear(reg->by_tenant);
	reg->count = reg->held = reg->narrow_bytes = 0;
	reg->next_end_ms = 0;
}

void kh_registry_forget(struct kh_registry *reg)
{
	if (!reg->by_name)
		return;
	for (struct kh_node *node = reg->list.next; node != &reg->list; node = node->next)
		kh_container_of(node, struct kh_registry_entry, link)->ino =
			0; /* no file has that one */
	kh_registry_shut(reg);
}

void kh_registry_revive(struct kh_registry *reg)
{
	for (struct kh_node *node = reg->list.next; node != &reg->list; node = node->next)
		kh_dynamic_sandbox_folder_revive(
			kh_container_of(node, struct kh_registry_entry, link));
}

void kh_registry_unblock(struct kh_registry *reg)
{
	for (struct kh_node *node = reg->list.next; node != &reg->list; node = node->next)
		(void)kh_file_set_nonblock(
			kh_container_of(node, struct kh_registry_entry, link)->fd, true);
}

void kh_registry_close(struct kh_registry *reg)
{
	kh_registry_shut(reg);
	kh_lru_free(reg->by_number);
	kh_lru_free(reg->by_name);
	kh_lru_free(reg->by_tenant);
	if (reg->watch >= 0)
		(void)close(reg->watch);
	*reg = (struct kh_registry){ .watch = -1 };
}

static struct kh_registry_entry *find(struct kh_registry *reg, const char *tenant, const char *id)
{
	char room[KH_DYNAMIC_SANDBOX_NAME_BYTES];
	return kh_lru_get(reg->by_name, kh_dynamic_sandbox_name(tenant, id, room));
}

/* Of that tenant; NULL without memory. */
static struct kh_registry_share *share_of(struct kh_registry *reg, const char *tenant)
{
	struct kh_slice name = kh_slice_str(tenant);
	struct kh_registry_share *share = kh_lru_get(reg->by_tenant, name);
	if (share)
		return share;
	share = calloc(1, sizeof(*share));
	if (share && !kh_lru_put(reg->by_tenant, name, share)) {
		free(share);
		return NULL;
	}
	return share;
}

/* What many that have gone had between those that stay, malloc keeps by itself. */
static void give_back(struct kh_registry *reg)
{
	enum { WORTH_IT = 512 };
	if (reg->peak < WORTH_IT || reg->count > reg->peak / 2)
		return;
	(void)malloc_trim(0);
	reg->peak = reg->count;
}

static void drop(struct kh_registry *reg, struct kh_registry_entry *entry)
{
	char room[KH_DYNAMIC_SANDBOX_NAME_BYTES];
	struct kh_registry_share *share = share_of(reg, entry->wish.tenant);
	if (share) {
		share->narrow_bytes -= entry->wish.narrow_len;
		share->held -= entry->pidfd >= 0;
	}
	if (share && --share->count == 0)
		free(kh_lru_take(reg->by_tenant, kh_slice_str(entry->wish.tenant)));
	reg->count--;
	reg->narrow_bytes -= entry->wish.narrow_len;
	reg->held -= entry->pidfd >= 0;
	kh_dynamic_sandbox_hold_forget(reg, entry);
	free_entry(kh_lru_take(reg->by_name,
			       kh_dynamic_sandbox_name(entry->wish.tenant, entry->wish.id, room)));
	give_back(reg);
}

static void note_end(struct kh_registry *reg, uint64_t ends_ms)
{
	if (ends_ms && (!reg->next_end_ms || ends_ms < reg->next_end_ms))
		reg->next_end_ms = ends_ms;
}

/* --- the worker ---------------------------------------------------------------------------------
 */

static bool hears(const struct kh_worker_process *worker_process)
{
	return worker_process->dynamic_sandboxes_fed &&
	       (worker_process->state == KH_WORKER_PROCESS_STARTING ||
		worker_process->state == KH_WORKER_PROCESS_SERVING);
}

static void lost(struct kh_worker_process *worker_process, const struct kh_err *err)
{
	kh_log_error("the worker can't be told about sandboxes, a new one is started: %s",
		     err->text);
	kh_worker_process_condemn(worker_process);
}

static bool show(struct kh_worker_process *worker_process, const struct kh_registry_entry *entry,
		 struct kh_err *err)
{
	const struct kh_dynamic_sandbox_card card = {
		.number = entry->number,
		.tenant = entry->wish.tenant,
		.id = entry->wish.id,
		.path = entry->path,
		.expires_ms = entry->expires_ms,
		.narrowed = entry->wish.narrowed,
		.suspect = entry->suspect,
		.narrow = kh_slice_of(entry->wish.narrow, entry->wish.narrow_len),
	};
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, KH_LIMIT_CHANNEL_BYTES / 8 * 7);
	return kh_dynamic_sandbox_card_put(&body, &card) &&
	       kh_channel_send(&worker_process->channel, KH_WORKER_MSG_DYNAMIC_SANDBOX, 0,
			       kh_buf_view(&body), &entry->fd, 1, err);
}

static void tell_gone(const struct kh_registry *reg, struct kh_worker_process *worker_process,
		      const struct kh_registry_entry *entry, uint32_t ref)
{
	struct kh_err err = KH_ERR_INIT;
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, KH_LIMIT_CHANNEL_BYTES / 8);
	bool ok = kh_wire_put_str(&body, entry->wish.tenant) &&
		  kh_wire_put_str(&body, entry->wish.id);
	if (ok && reg->before && reg->before->fd >= 0)
		(void)kh_channel_send(reg->before, KH_HANDOVER_MSG_DYNAMIC_SANDBOX_GONE,
				      KH_HANDOVER_VERSION, kh_buf_view(&body), NULL, 0, NULL);
	ok = ok && (!hears(worker_process) ||
		    kh_channel_send(&worker_process->channel, KH_WORKER_MSG_DYNAMIC_SANDBOX_GONE,
				    ref, kh_buf_view(&body), NULL, 0, &err));
	if (!ok)
		lost(worker_process, &err);
}

static void end(struct kh_registry *reg, struct kh_worker_process *worker_process,
		struct kh_registry_entry *entry, uint32_t ref)
{
	kh_dynamic_sandbox_folder_remove(entry); /* first: what is told may be answered at once */
	tell_gone(reg, worker_process, entry, ref);
	drop(reg, entry);
}

bool kh_registry_feed(struct kh_registry *reg, struct kh_worker_process *worker_process,
		      struct kh_err *err)
{
	worker_process->dynamic_sandboxes_fed = true;
	for (struct kh_node *node = reg->list.next; node != &reg->list; node = node->next) {
		const struct kh_registry_entry *entry =
			kh_container_of(node, struct kh_registry_entry, link);
		/* Whose tenant went with a handover is removed next: the worker knows none such. */
		if (kh_config_tenant(worker_process->config, entry->wish.tenant) >= 0 &&
		    !show(worker_process, entry, err))
			return false;
	}
	return true;
}

/* --- adding and removing ------------------------------------------------------------------------
 */

static bool put(struct kh_registry *reg, struct kh_registry_entry *entry, struct kh_err *err)
{
	char room[KH_DYNAMIC_SANDBOX_NAME_BYTES];
	struct kh_slice name = kh_dynamic_sandbox_name(entry->wish.tenant, entry->wish.id, room);
	/* What is put beyond its most would take the oldest out, which others still have. */
	if (reg->count >= KH_LIMIT_DYNAMIC_SANDBOXES)
		return kh_err_set(err, KH_ERR_LIMIT, "sandboxes: more than %d",
				  KH_LIMIT_DYNAMIC_SANDBOXES);
	if (kh_lru_get(reg->by_name, name))
		return kh_err_set(err, KH_ERR_INTERNAL,
				  "two sandboxes of the tenant \"%s\" are called \"%s\"",
				  kh_esc_str(entry->wish.tenant), kh_esc_str(entry->wish.id));
	if (!kh_dynamic_sandbox_hold_watch(reg, entry, err))
		return false;
	return kh_lru_put(reg->by_name, name, entry) || no_memory(err);
}

bool kh_registry_adopt(struct kh_registry *reg, struct kh_registry_entry *entry, struct kh_err *err)
{
	struct kh_registry_share *share = share_of(reg, entry->wish.tenant);
	if (!(share ? put(reg, entry, err) : no_memory(err))) {
		kh_dynamic_sandbox_hold_forget(reg, entry);
		if (share && share->count == 0)
			free(kh_lru_take(reg->by_tenant, kh_slice_str(entry->wish.tenant)));
		kh_registry_entry_free(entry);
		return false;
	}
	share->count++;
	share->narrow_bytes += entry->wish.narrow_len;
	share->held += entry->pidfd >= 0;
	reg->narrow_bytes += entry->wish.narrow_len;
	if (reg->last_number < entry->number)
		reg->last_number = entry->number;
	note_end(reg, entry->ends_ms);
	kh_list_append(&reg->list, &entry->link);
	reg->count++;
	if (reg->peak < reg->count)
		reg->peak = reg->count;
	reg->held += entry->pidfd >= 0;
	return true;
}

/* All of it or nothing. `wish` is taken over. */
static struct kh_registry_entry *make(struct kh_registry *reg, const char *base,
				      struct kh_dynamic_sandbox_wish *wish, struct kh_err *err)
{
	struct kh_registry_entry *entry = calloc(1, sizeof(*entry));
	if (!entry) {
		kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
		return NULL;
	}
	*entry = (struct kh_registry_entry){ .wish = *wish, .fd = -1, .pidfd = -1, .watch = -1 };
	*wish = (struct kh_dynamic_sandbox_wish){ 0 };
	if ((entry->wish.pid && !kh_dynamic_sandbox_hold(entry, err)) ||
	    !kh_dynamic_sandbox_folder_make(entry, base, err)) {
		kh_registry_entry_free(entry);
		return NULL;
	}
	entry->number = reg->last_number + 1;
	if (entry->wish.ttl_ms) {
		entry->ends_ms = kh_clock_mono_ms() + entry->wish.ttl_ms;
		entry->expires_ms = kh_clock_wall_ms() + entry->wish.ttl_ms;
	}
	if (!kh_registry_adopt(reg, entry, err))
		return NULL;
	return entry;
}

static void answer(struct kh_worker_process *worker_process, uint32_t ref,
		   enum kh_dynamic_sandbox_result result, const char *text,
		   const struct kh_registry_entry *entry)
{
	struct kh_err err = KH_ERR_INIT;
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, KH_LIMIT_CHANNEL_BYTES / 8);
	if (!(kh_wire_put_u8(&body, (uint8_t)result) && kh_wire_put_str(&body, text) &&
	      kh_wire_put_str(&body, entry ? entry->wish.tenant : NULL) &&
	      kh_wire_put_str(&body, entry ? entry->wish.id : NULL) &&
	      kh_wire_put_str(&body, entry ? entry->path : NULL) &&
	      kh_wire_put_u64(&body, entry ? entry->expires_ms : 0) &&
	      kh_wire_put_u64(&body, entry ? entry->number : 0) &&
	      kh_channel_send(&worker_process->channel, KH_WORKER_MSG_DYNAMIC_SANDBOX_DONE, ref,
			      kh_buf_view(&body), NULL, 0, &err)))
		lost(worker_process, &err);
}

static bool on_add(struct kh_registry *reg, struct kh_worker_process *worker_process,
		   const struct kh_channel_message *message)
{
	struct kh_dynamic_sandbox_wish wish;
	struct kh_err err = KH_ERR_INIT;
	if (!kh_dynamic_sandbox_wish_take(message->body, &wish)) {
		kh_dynamic_sandbox_wish_fini(&wish);
		return false;
	}
	enum kh_dynamic_sandbox_result result =
		kh_dynamic_sandbox_check(reg, worker_process->config, &wish, &err);
	struct kh_registry_entry *entry = NULL;
	if (result == KH_DYNAMIC_SANDBOX_OK) {
		entry = make(reg, worker_process->config->admin.sandboxes, &wish, &err);
		if (!entry)
			result = err.code == KH_ERR_USAGE ? KH_DYNAMIC_SANDBOX_REFUSED
							  : KH_DYNAMIC_SANDBOX_FAILED;
	}
	kh_dynamic_sandbox_wish_fini(&wish);
	if (entry) {
		entry->of_this_worker = true;
		kh_dynamic_sandbox_say_added(entry, worker_process->pid);
	}
	if (entry && !show(worker_process, entry, &err))
		lost(worker_process, &err); /* the next one is told of it */
	else
		answer(worker_process, message->ref, result, entry ? NULL : err.text, entry);
	return true;
}

static bool on_remove(struct kh_registry *reg, struct kh_worker_process *worker_process,
		      const struct kh_channel_message *message)
{
	struct kh_wire_reader r = { .rest = message->body };
	kh_auto_free char *tenant = kh_wire_str(&r);
	kh_auto_free char *id = kh_wire_str(&r);
	uint64_t number = kh_wire_u64(&r);
	uid_t asker = kh_wire_u32(&r);
	uint32_t pid = kh_wire_u32(&r);
	struct kh_err err = KH_ERR_INIT;
	enum kh_dynamic_sandbox_result result = KH_DYNAMIC_SANDBOX_UNKNOWN;
	if (!kh_wire_done(&r) || !tenant || !id ||
	    kh_dynamic_sandbox_check_id(kh_slice_str(tenant)) ||
	    kh_dynamic_sandbox_check_id(kh_slice_str(id)))
		return false;
	struct kh_registry_entry *entry = find(reg, tenant, id);
	if (entry && number && entry->number != number)
		entry = NULL; /* another one, which nobody meant */
	/* A worker takes back by itself what it has just had added, and nothing else. */
	bool may = asker == KH_DYNAMIC_SANDBOX_NO_UID
			   ? entry && entry->of_this_worker
			   : kh_dynamic_sandbox_may_use(worker_process->config, geteuid(), asker,
							tenant);
	if (entry && may && !reg->busy) {
		kh_dynamic_sandbox_say_removed(entry, asker, pid, worker_process->pid);
		end(reg, worker_process, entry, message->ref);
		return true;
	}
	int index = kh_config_tenant(worker_process->config, tenant);
	if (reg->busy) {
		kh_err_set(&err, KH_ERR_SYSTEM, "not now: %s", reg->busy);
		result = KH_DYNAMIC_SANDBOX_BUSY;
	} else if (!may) {
		kh_err_set(&err, KH_ERR_CONFIG,
			   "user %u may not do this for that tenant (admin.allow)",
			   (unsigned)asker);
		result = KH_DYNAMIC_SANDBOX_REFUSED;
	} else if (index >= 0 &&
		   kh_dynamic_sandbox_is_configured(worker_process->config, (size_t)index, id)) {
		kh_err_set(&err, KH_ERR_CONFIG,
			   "the sandbox \"%s\" is in the configuration (take it out there, and "
			   "reload)",
			   id);
		result = KH_DYNAMIC_SANDBOX_EXISTS;
	} else {
		kh_err_set(&err, KH_ERR_CONFIG, "there is no sandbox \"%s\" of the tenant \"%s\"",
			   id, tenant);
	}
	if (message->ref)
		answer(worker_process, message->ref, result, err.text, NULL);
	return true;
}

bool kh_registry_take(struct kh_registry *reg, struct kh_worker_process *worker_process,
		      const struct kh_channel_message *message)
{
	/* Without an admin socket nobody can have asked. */
	if (worker_process->config->admin.n_acceptors == 0 ||
	    !worker_process->dynamic_sandboxes_fed)
		return false;
	return message->type == KH_WORKER_MSG_DYNAMIC_SANDBOX_ADD
		       ? on_add(reg, worker_process, message)
		       : on_remove(reg, worker_process, message);
}

size_t kh_registry_distrust(struct kh_registry *reg, pid_t worker)
{
	const struct kh_registry_entry *first = NULL;
	size_t n = 0;
	for (struct kh_node *node = reg->list.next; node != &reg->list; node = node->next) {
		struct kh_registry_entry *entry =
			kh_container_of(node, struct kh_registry_entry, link);
		if (!entry->of_this_worker)
			continue;
		entry->of_this_worker = false;
		entry->suspect = true;
		first = first ? first : entry;
		n++;
	}
	if (n)
		kh_log_warn(
			"worker %ld had %zu sandbox%s added (the first: %s of tenant %s), which "
			"go on: if it was taken over, they may be nobody's (see `keyhole ctl "
			"sandbox ls`, and remove those that you do not know)",
			(long)worker, n, n == 1 ? "" : "es", kh_esc_str(first->wish.id),
			kh_esc_str(first->wish.tenant));
	return n;
}

/* --- those that end by themselves ---------------------------------------------------------------
 */

void kh_registry_prune(struct kh_registry *reg, struct kh_worker_process *worker_process,
		       const struct kh_config *config)
{
	struct kh_node *next;
	for (struct kh_node *node = reg->list.next; node != &reg->list; node = next) {
		struct kh_registry_entry *entry =
			kh_container_of(node, struct kh_registry_entry, link);
		next = node->next;
		if (kh_config_tenant(config, entry->wish.tenant) < 0) {
			kh_dynamic_sandbox_say_ended(entry, "removed with its tenant");
			end(reg, worker_process, entry, 0);
		}
	}
}

static void expire(struct kh_registry *reg, struct kh_worker_process *worker_process, uint64_t now)
{
	struct kh_node *next;
	reg->next_end_ms = 0;
	for (struct kh_node *node = reg->list.next; node != &reg->list; node = next) {
		struct kh_registry_entry *entry =
			kh_container_of(node, struct kh_registry_entry, link);
		next = node->next;
		if (!entry->ends_ms || entry->ends_ms > now) {
			note_end(reg, entry->ends_ms);
			continue;
		}
		kh_dynamic_sandbox_say_ended(entry, "removed, its time is over");
		end(reg, worker_process, entry, 0);
	}
}

void kh_registry_turn(struct kh_registry *reg, struct kh_worker_process *worker_process)
{
	enum { AT_ONCE = 64 };
	if (reg->busy)
		return;
	uint64_t now = reg->next_end_ms ? kh_clock_mono_ms() : 0;
	if (reg->next_end_ms && reg->next_end_ms <= now)
		expire(reg, worker_process, now);
	for (int i = 0; i < AT_ONCE && (reg->held || reg->watch >= 0); i++) {
		struct kh_registry_entry *entry = kh_dynamic_sandbox_hold_ended(reg);
		if (!entry)
			break;
		kh_dynamic_sandbox_say_ended(entry, "removed, the process that held it has ended");
		end(reg, worker_process, entry, 0);
	}
}

uint64_t kh_registry_deadline(const struct kh_registry *reg)
{
	return reg->busy ? 0 : reg->next_end_ms;
}
