/*
 * reload.c - another configuration takes the place of the one in force, whole or not at all
 *
 * Everything that can fail comes first: what a running daemon can't change is compared, values are
 * read, new sockets are opened beside the old ones. Then the worker is told, and only then the old
 * parts go. Listeners that both configurations name stay as they are, with whoever waits in their
 * queue. A worker that can't be told is replaced: the next one begins with the new configuration.
 */

#include "keeper_internal.h"

#include <stdlib.h>
#include <string.h>

#include <keyhole/clock.h>
#include <keyhole/log.h>

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
	    !same_text(now->ca_key_path, next->ca_key_path))
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

bool kh_reload(struct kh_ward *ward, struct kh_vault *vault, struct kh_sockets *sockets,
	       struct kh_geo_files *geo, struct kh_config *next, struct kh_err *err)
{
	struct kh_config *before = ward->config;
	struct kh_vault values;
	struct kh_sockets opened;
	struct kh_geo_files databases;

	memcpy(next->stand_in_keys, before->stand_in_keys, sizeof(next->stand_in_keys));
	if (!check_fixed(before, next, err) || !kh_geo_files_open(&databases, next, err))
		return false;
	if (!kh_vault_reopen(&values, vault, next, err)) {
		kh_vault_close(&values);
		kh_geo_files_close(&databases);
		return false;
	}
	if (!kh_sockets_next(&opened, sockets, next, err)) {
		kh_sockets_drop_next(&opened);
		kh_vault_close(&values);
		kh_geo_files_close(&databases);
		return false;
	}
	/* With the old configuration's limits nothing can go wrong: they have their slots. */
	if (!kh_book_assign(ward->book, next, kh_clock_mono_ms(), err)) {
		(void)kh_book_assign(ward->book, before, kh_clock_mono_ms(), NULL);
		kh_sockets_drop_next(&opened);
		kh_vault_close(&values);
		kh_geo_files_close(&databases);
		ward->generation++;
		kh_ward_reload(ward);
		return false;
	}
	kh_geo_files_close(geo);
	*geo = databases;
	kh_sockets_adopt(&opened, sockets);
	*sockets = opened;
	kh_vault_adopt(vault, &values);
	/* Before the worker gets a configuration that does not have them. */
	kh_register_prune(ward->guests, ward, next);
	ward->config = next;
	ward->generation++;
	kh_config_free(before);
	kh_log_set_level(next->log_level);
	kh_ward_reload(ward);
	return true;
}
