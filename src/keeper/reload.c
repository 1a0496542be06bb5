/*
 * reload.c - another configuration takes the place of the one in force, whole or not at all
 *
 * Everything that can fail comes first: what a running daemon can't change is compared, the CA and
 * values are read, new sockets are opened beside the old ones. Then the worker is told, and only
 * then the old parts go. Listeners that both configurations name stay as they are, with whoever
 * waits in their queue. A worker that can't be told is replaced: the next one begins with the new
 * configuration.
 */

#include "daemon_internal.h"

#include <stdlib.h>
#include <string.h>

#include <keyhole/base/clock.h>
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
		what = "audit";
	else if (!same_text(now->upstream_ca_file, next->upstream_ca_file) ||
		 now->upstream_system_roots != next->upstream_system_roots)
		what = "upstream.ca_file or upstream.system_roots";
	else if (now->threads != next->threads || !same_text(now->worker_user, next->worker_user))
		what = "worker";
	return !what || kh_err_set(err, KH_ERR_CONFIG,
				   "%s can't change while it runs (restart for that)", what);
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

bool kh_reload(struct kh_keeper *k, struct kh_config *next, struct kh_buf *said, struct kh_err *err)
{
	struct kh_config *before = k->config;
	struct opened o;

	if (!open_next(&o, k, next, err)) {
		drop(&o);
		return false;
	}
	/* With the old configuration's limits nothing can go wrong: they have their slots. */
	if (!kh_quota_slots_assign(k->book, next, kh_clock_mono_ms(), err)) {
		(void)kh_quota_slots_assign(k->book, before, kh_clock_mono_ms(), NULL);
		drop(&o);
		k->ward.generation++;
		kh_worker_process_reload(&k->ward);
		return false;
	}
	kh_ca_in_force_adopt(k, o.ca, &o.tenant_cas, next, said);
	kh_geo_files_close(&k->geo);
	k->geo = o.databases;
	kh_sockets_adopt(&o.sockets, &k->sockets);
	k->sockets = o.sockets;
	kh_vault_adopt(&k->vault, &o.values);
	/* Before the worker gets a configuration that does not have them. */
	kh_registry_prune(&k->guests, &k->ward, next);
	kh_worker_process_forget_policy(&k->ward);
	k->config = k->ward.config = next;
	k->ward.generation++;
	kh_config_free(before);
	kh_log_set_level(next->log_level);
	kh_worker_process_reload(&k->ward);
	return true;
}
