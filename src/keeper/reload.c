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
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/escape.h>
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

static size_t find_listener(const struct kh_config *config, const char *path)
{
	size_t i = 0;

	while (i < config->n_listeners && strcmp(config->listeners[i].unix_path, path) != 0)
		i++;
	return i;
}

/* Sockets of the next configuration; one that stays is borrowed until `adopt`. */
static bool open_sockets(struct kh_sockets *next, const struct kh_sockets *now,
			 const struct kh_config *config, struct kh_err *err)
{
	*next = (struct kh_sockets){ .config = config, .journal = -1 };
	if (config->n_listeners == 0)
		return kh_err_set(err, KH_ERR_CONFIG,
				  "nothing to listen on (give `listen:` at least one entry)");
	next->listening = calloc(config->n_listeners, sizeof(*next->listening));
	if (!next->listening)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "listeners: no memory");
	for (; next->count < config->n_listeners; next->count++) {
		const struct kh_listener_config *listener = &config->listeners[next->count];
		size_t before = find_listener(now->config, listener->unix_path);
		if (before < now->count)
			next->listening[next->count] = now->listening[before];
		else if (!kh_sockets_listen(&next->listening[next->count], listener, err))
			return false;
	}
	return true;
}

/* Takes back what open_sockets opened. */
static void close_new(struct kh_sockets *next, const struct kh_sockets *now)
{
	for (size_t i = 0; i < next->count; i++)
		if (find_listener(now->config, next->config->listeners[i].unix_path) < now->count)
			next->listening[i].fd = -1;
	kh_sockets_close(next);
}

/* Closes what the next configuration does not name, and hands the rest and the journal over. */
static void adopt(struct kh_sockets *next, struct kh_sockets *now)
{
	for (size_t i = 0; i < now->count; i++) {
		size_t after = find_listener(next->config, now->config->listeners[i].unix_path);
		if (after < next->count)
			now->listening[i].fd = -1;
	}
	for (size_t i = 0; i < next->count; i++) {
		const struct kh_listener_config *listener = &next->config->listeners[i];
		if (chmod(listener->unix_path, listener->mode) != 0 ||
		    (listener->owner != (uid_t)-1 &&
		     lchown(listener->unix_path, listener->owner, listener->group) != 0))
			kh_log_warn("reload: mode or owner of %s could not be set",
				    kh_esc_str(listener->unix_path));
	}
	next->journal = now->journal;
	now->journal = -1;
	kh_sockets_close(now);
	*now = *next;
}

bool kh_reload(struct kh_ward *ward, struct kh_vault *vault, struct kh_sockets *sockets,
	       struct kh_config *next, struct kh_err *err)
{
	struct kh_config *before = ward->config;
	struct kh_vault values;
	struct kh_sockets opened;

	if (!check_fixed(before, next, err) || !kh_vault_reopen(&values, vault, next, err))
		return false;
	if (!open_sockets(&opened, sockets, next, err)) {
		close_new(&opened, sockets);
		kh_vault_close(&values);
		return false;
	}
	adopt(&opened, sockets);
	kh_vault_close(vault);
	*vault = values;
	ward->config = next;
	ward->generation++;
	kh_config_free(before);
	kh_log_set_level(next->log_level);
	kh_ward_reload(ward);
	return true;
}
