/*
 * reload.c - replaces the configuration in force atomically
 *
 * Everything that can fail comes first: settings that a running daemon can't change are compared,
 * the CA and values are read, new sockets are opened beside the old ones. Then the worker gets the
 * new configuration, and only after that the old parts are freed. Listeners that both
 * configurations have stay open, with the connections in their queues. If the worker can't be told,
 * it is replaced, and the next one begins with the new configuration.
 *
 * The configuration is in force once the worker, or the next worker, has sent READY for its
 * generation, and the process before, if there was a handover, has ended what it still had: after
 * that no request is decided by the old rules. Only then it is reported to the
 * log, to systemd and to whoever asked. Of several reloads in quick succession, only the last one
 * is reported.
 */

#include "daemon_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

/* What is opened once for a daemon's life. */
static bool check_fixed(const struct kh_config *now, const struct kh_config *next,
			struct kh_err *err)
{
	const char *what = NULL;

	if (!same_text(now->ca_certificate_path, next->ca_certificate_path) ||
	    !same_text(now->ca_key_path, next->ca_key_path) ||
	    now->ca_per_tenant != next->ca_per_tenant)
		what = "authority";
	else if (!same_text(now->audit_path, next->audit_path) ||
		 now->durability != next->durability)
		what = "audit.file or audit.durability";
	else if (!same_text(now->upstream_ca_file, next->upstream_ca_file) ||
		 now->upstream_system_roots != next->upstream_system_roots)
		what = "upstream.ca_file or upstream.system_roots";
	else if (now->threads != next->threads || !same_text(now->worker_user, next->worker_user))
		what = "worker";
	return !what ||
	       kh_err_set(err, KH_ERR_CONFIG,
			  "%s can't change while the daemon runs (restart it for that)", what);
}

/* All that the next configuration needs, opened beside what there is. */
struct opened {
	struct kh_ca *ca; /* NULL: that in force */
	struct kh_tenant_cas tenant_cas;
	struct kh_geo_files databases;
	struct kh_vault values;
	struct kh_sockets sockets;
};

/* What was opened and is not used. */
static void drop(struct opened *o)
{
	kh_sockets_drop_next(&o->sockets);
	kh_vault_close(&o->values);
	kh_geo_files_close(&o->databases);
	kh_ca_free(o->ca);
	kh_tenant_cas_free(&o->tenant_cas);
}

static bool open_next(struct opened *o, struct kh_keeper *k, struct kh_config *next,
		      struct kh_err *err)
{
	*o = (struct opened){ .sockets = { KH_NO_JOURNAL } };
	kh_geo_files_init(&o->databases);
	return check_fixed(k->config, next, err) &&
	       kh_ca_in_force_next(k->config, next, &o->ca, &o->tenant_cas, err) &&
	       kh_geo_files_open(&o->databases, next, err) &&
	       kh_vault_reopen(&o->values, &k->vault, next, err) &&
	       kh_sockets_next(&o->sockets, &k->sockets, next, err);
}

/* Sandboxes that were added while the daemon runs are in no file: they end with their tenants. */
static void say_pruned(const struct kh_registry *reg, const struct kh_config *next,
		       struct kh_buf *said)
{
	const struct kh_registry_entry *first = NULL;
	size_t n = 0;

	for (struct kh_node *node = reg->list.next; node != &reg->list; node = node->next) {
		const struct kh_registry_entry *entry =
			kh_container_of(node, struct kh_registry_entry, link);
		if (kh_config_tenant(next, entry->wish.tenant) >= 0)
			continue;
		first = first ? first : entry;
		n++;
	}
	if (n)
		(void)kh_buf_printf(said,
				    "%zu sandbox%s ended, because the file no longer has %s "
				    "(the first: %s of tenant %s)\n",
				    n, n == 1 ? "" : "es", n == 1 ? "its tenant" : "their tenants",
				    kh_esc_str(first->wish.id), kh_esc_str(first->wish.tenant));
}

/* On success `next` is the configuration and the old one is freed; else nothing has changed. */
static bool change(struct kh_keeper *k, struct kh_config *next, struct kh_buf *said,
		   struct kh_err *err)
{
	struct kh_config *before = k->config;
	struct opened o;

	if (!open_next(&o, k, next, err)) {
		drop(&o);
		return false;
	}
	/* With the old configuration's limits nothing can go wrong: they have their slots. */
	if (!kh_quota_slots_assign(k->quota_slots, next, kh_clock_mono_ms(), err)) {
		(void)kh_quota_slots_assign(k->quota_slots, before, kh_clock_mono_ms(), NULL);
		drop(&o);
		k->worker_process.generation++;
		kh_worker_process_reload(&k->worker_process);
		return false;
	}
	kh_ca_in_force_adopt(k, o.ca, &o.tenant_cas, next, said);
	kh_geo_files_close(&k->geo);
	k->geo = o.databases;
	kh_sockets_adopt(&o.sockets, &k->sockets);
	k->sockets = o.sockets;
	kh_vault_adopt(&k->vault, &o.values);
	/* Before the worker gets a configuration that does not have them. */
	say_pruned(&k->dynamic_sandboxes, next, said);
	kh_registry_prune(&k->dynamic_sandboxes, &k->worker_process, next);
	kh_worker_process_forget_policy(&k->worker_process);
	k->config = k->worker_process.config = next;
	k->worker_process.generation++;
	kh_config_free(before);
	kh_log_set_level(next->log_level);
	kh_worker_process_reload(&k->worker_process);
	kh_handover_new_supersede(&k->handover_new);
	return true;
}

/* --- what is said of it ----------------------------------------------------------------------- */

void kh_keeper_tell_ready(const struct kh_keeper *k)
{
	if (!k->reload.generation && !k->drain_ms)
		kh_notify("READY=1");
}

/* The file's first error and how many more there are, or what stands in the error. */
static void note_failure(struct kh_keeper *k, struct kh_buf *said, const struct kh_err *err)
{
	static const char MARK[] = ": error: ";
	char text[KH_ERR_TEXT_BYTES];
	(void)snprintf(text, sizeof(text), "%s", err->text);
	struct kh_slice rest = kh_buf_view(said);
	size_t errors = 0;
	while (rest.len > 0) {
		const char *end = memchr(rest.ptr, '\n', rest.len);
		size_t len = end ? (size_t)(end - rest.ptr) : rest.len;
		bool found = memmem(rest.ptr, len, MARK, sizeof(MARK) - 1) != NULL;
		if (found && errors++ == 0)
			(void)snprintf(text, sizeof(text), "%.*s", (int)len, rest.ptr);
		rest = kh_slice_sub(rest, len + (end != NULL), rest.len);
	}
	if (errors == 0)
		(void)kh_buf_printf(said, "%s\n", err->text);
	size_t used = strlen(text);
	if (errors > 1)
		(void)snprintf(text + used, sizeof(text) - used,
			       " (and %zu more: keyhole check -c FILE shows all)", errors - 1);
	kh_keeper_note_failed_reload(k, text);
}

/* A bad file changes nothing, and is said loudly. */
bool kh_keeper_reload(struct kh_keeper *k, struct kh_buf *said)
{
	struct kh_err err = KH_ERR_INIT;
	kh_cleanup(kh_buf_fini) struct kh_buf own;
	kh_buf_init(&own, KH_LIMIT_CHANNEL_BYTES / 4);
	if (!k->options->reload || k->drain_ms) {
		kh_log_warn("reload: not %s", k->drain_ms ? "while draining" : "here");
		if (said)
			(void)kh_buf_printf(said, "not %s\n",
					    k->drain_ms ? "while draining" : "here");
		return false;
	}
	if (!said)
		said = &own;
	kh_notify_reloading();
	struct kh_config *next = k->options->reload(k->options->reload_arg, said);
	if (!next)
		kh_err_set(&err, KH_ERR_CONFIG, "the configuration has errors");
	else if (!change(k, next, said, &err))
		kh_config_free(next);
	kh_keeper_credential_changed(k);
	if (!err.code) {
		k->reload = (struct kh_reload){ .generation = k->worker_process.generation,
						.count = k->reload.count + 1 };
		return true;
	}
	kh_log_error("reload: %s: nothing changes, the configuration in force stays", err.text);
	k->reload.another_failed = true;
	kh_keeper_tell_ready(k);
	note_failure(k, said, &err);
	return false;
}

bool kh_keeper_is_reloading(const struct kh_keeper *k)
{
	return k->reload.generation && k->worker_process.state == KH_WORKER_PROCESS_SERVING;
}

void kh_keeper_look_at_reload(struct kh_keeper *k)
{
	struct kh_reload done = k->reload;

	if (!done.generation || k->worker_process.confirmed < done.generation ||
	    !kh_handover_new_is_gone(&k->handover_new))
		return;
	k->reload = (struct kh_reload){ .generation = 0 };
	kh_log_info("reload: the new configuration is in force");
	kh_keeper_tell_ready(k);
	kh_keeper_note_reloads(k, &done);
	kh_keeper_answer_reload(k);
	if (k->handover_later)
		kh_keeper_hand_over(k);
}
