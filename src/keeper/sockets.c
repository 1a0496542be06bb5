/* sockets.c - descriptors that the keeper holds across workers: the listeners and the journal */

#include "keeper_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/net/listener.h>
#include <keyhole/base/log.h>

enum { RETRY_MS = 1000 };

static void warn_of_folder(const char *path)
{
	const char *slash = strrchr(path, '/');
	kh_auto_free char *folder =
		slash ? kh_slice_dup(kh_slice_of(path, (size_t)(slash - path) + 1)) : NULL;
	if (folder && kh_file_others_may_rename(folder, geteuid()))
		kh_log_warn("others may write to the folder of %s, so they can put a socket of "
			    "their own in its place (chmod go-w; the folder is to be root's or "
			    "the daemon's user's)",
			    kh_esc_str(path));
}

bool kh_sockets_listen(struct kh_listening *l, const struct kh_listener_config *config,
		       struct kh_err *err)
{
	/* systemd's own: its name is not ours to take away (no inode is 0). */
	*l = (struct kh_listening){ .fd = -1 };
	if (config->kind == KH_LISTEN_UNIX)
		l->fd = kh_notify_passed_take(config->unix_path);
	if (l->fd >= 0)
		return true;
	struct stat made = { 0 };
	l->fd = kh_listener_open(config, &made, err);
	l->dev = made.st_dev;
	l->ino = made.st_ino;
	if (l->fd >= 0 && config->kind == KH_LISTEN_UNIX)
		warn_of_folder(config->unix_path);
	return l->fd >= 0;
}

static bool nothing_to_listen_on(struct kh_err *err)
{
	return kh_err_set(
		err, KH_ERR_CONFIG,
		"nothing to listen on (give `listen:` at least one entry, or `admin.unix` "
		"a path, to add sandboxes by)");
}

bool kh_sockets_open(struct kh_sockets *sockets, const struct kh_config *config, struct kh_err *err)
{
	*sockets = (struct kh_sockets){ .config = config, KH_NO_JOURNAL };
	if (config->n_listeners == 0 && !config->admin.unix_path)
		return nothing_to_listen_on(err);
	if (!config->audit_path)
		return kh_err_set(
			err, KH_ERR_CONFIG,
			"no journal (set `audit: { file: … }`; nothing is forwarded without)");
	sockets->journal = kh_journal_lock(config->audit_path, NULL, &sockets->journal_lock, err);
	if (sockets->journal < 0)
		return false;
	size_t acceptors = kh_config_acceptors(config);
	sockets->listening = calloc(acceptors, sizeof(*sockets->listening));
	if (!sockets->listening)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "listeners: no memory");
	for (; sockets->count < acceptors; sockets->count++) {
		sockets->listening[sockets->count].fd = -1;
		if (!kh_sockets_listen(&sockets->listening[sockets->count],
				       kh_config_acceptor(config, sockets->count), err)) {
			sockets->count++; /* it may have been opened */
			return false;
		}
	}
	return true;
}

/* --- what a worker has shut down ----------------------------------------------------------------
 */

/* In the place of a listener, for the worker and for another keeper: nobody ever connects. */
static int nothing_comes(void)
{
	return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

static void say_down(struct kh_listening *l, const struct kh_listener_config *config,
		     const struct kh_err *err)
{
	if (!l->down)
		kh_log_error("%s was shut down by a worker, and: %s (it is tried again every "
			     "second; the other listeners are served)",
			     kh_esc_str(config->name), err->text);
	l->down = true;
}

/* The old one of a port is closed first: it can't be bound twice. Return: it is listened on. */
static bool listen_again(struct kh_listening *l, const struct kh_listener_config *config)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_listening next;
	bool is_port = config->kind != KH_LISTEN_UNIX;
	if (is_port) {
		kh_listener_abandon(l->fd);
		l->fd = -1;
	}
	if (kh_sockets_listen(&next, config, &err)) {
		kh_log_warn("%s was shut down by a worker: it is listened on anew",
			    kh_esc_str(config->name));
		if (l->fd >= 0)
			(void)close(l->fd);
		next.before = l->before;
		*l = next;
		return true;
	}
	say_down(l, config, &err);
	if (is_port)
		l->fd = nothing_comes();
	return false;
}

/* systemd's own, which can't be made anew here. */
static bool is_lost(struct kh_listening *l, const struct kh_listener_config *config)
{
	if (config->kind != KH_LISTEN_UNIX || l->ino != 0)
		return false;
	if (!l->down)
		kh_log_error("%s was shut down by a worker, and is not this daemon's to make anew: "
			     "restart its unit",
			     kh_esc_str(config->name));
	l->down = true;
	return true;
}

bool kh_sockets_revive(struct kh_sockets *sockets)
{
	bool any = false, all = true;
	for (size_t i = 0; i < sockets->count; i++) {
		struct kh_listening *l = &sockets->listening[i];
		const struct kh_listener_config *config = kh_config_acceptor(sockets->config, i);
		kh_listener_reset(l->fd);
		/* A flag of the open file, which the worker shared; one that blocks in accept
		   would hold the next one up. */
		if ((l->fd >= 0 && !kh_listener_is_dead(l->fd) &&
		     kh_file_set_nonblock(l->fd, true)) ||
		    is_lost(l, config))
			continue;
		if (listen_again(l, config))
			any = true;
		else
			all = false;
	}
	sockets->retry_ms = all ? 0 : kh_clock_mono_ms() + RETRY_MS;
	return any;
}

static void shut(struct kh_sockets *sockets, size_t n)
{
	for (size_t i = 0; i < n && i < sockets->count; i++) {
		struct kh_listening *l = &sockets->listening[i];
		const char *path = kh_config_acceptor(sockets->config, i)->name;
		const struct stat socket = { .st_dev = l->dev, .st_ino = l->ino };
		if (l->fd < 0)
			continue;
		int folder = l->ino != 0 ? kh_listener_remove(path, &socket) : -1;
		if (folder >= 0)
			(void)close(folder);
		(void)close(l->fd);
		l->fd = -1;
	}
}

void kh_sockets_shut(struct kh_sockets *sockets)
{
	shut(sockets, sockets->config->n_listeners);
}

void kh_sockets_close(struct kh_sockets *sockets)
{
	shut(sockets, sockets->count);
	free(sockets->listening);
	sockets->listening = NULL;
	sockets->count = 0;
	if (sockets->journal >= 0)
		(void)close(sockets->journal);
	sockets->journal = -1;
	if (sockets->journal_lock >= 0)
		kh_journal_unlock(sockets->config->audit_path, &sockets->journal_lock);
}

void kh_sockets_forget(struct kh_sockets *sockets)
{
	for (size_t i = 0; i < sockets->count; i++)
		sockets->listening[i].ino = 0; /* no file has that one */
	shut(sockets, sockets->count);
}

/* --- another configuration, another process -----------------------------------------------------
 */

/* An acceptor of `admin`: in the process before it may stand among the listeners. */
static size_t find_acceptor(const struct kh_config *config, const char *name)
{
	size_t n = kh_config_acceptors(config);

	for (size_t i = 0; i < n; i++)
		if (strcmp(kh_config_acceptor(config, i)->name, name) == 0)
			return i;
	return KH_LISTENER_NONE;
}

bool kh_sockets_next(struct kh_sockets *next, const struct kh_sockets *now,
		     const struct kh_config *config, struct kh_err *err)
{
	*next = (struct kh_sockets){ .config = config, KH_NO_JOURNAL };
	if (config->n_listeners == 0 && !config->admin.unix_path)
		return nothing_to_listen_on(err);
	size_t acceptors = kh_config_acceptors(config);
	next->listening = calloc(acceptors, sizeof(*next->listening));
	kh_auto_free size_t *found = kh_config_match_listeners(config, now->config);
	if (!next->listening || !found)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "listeners: no memory");
	for (; next->count < acceptors; next->count++) {
		struct kh_listening *l = &next->listening[next->count];
		const struct kh_listener_config *listener = kh_config_acceptor(config, next->count);
		size_t before = next->count < config->n_listeners
					? found[next->count]
					: find_acceptor(now->config, listener->name);
		bool borrowed = before < now->count;
		if (borrowed)
			*l = now->listening[before];
		else if (!kh_sockets_listen(l, listener, err))
			return false;
		l->before = borrowed ? before : KH_LISTENER_NONE;
	}
	return true;
}

void kh_sockets_drop_next(struct kh_sockets *next)
{
	for (size_t i = 0; i < next->count; i++)
		if (next->listening[i].before != KH_LISTENER_NONE)
			next->listening[i].fd = -1;
	kh_sockets_close(next);
}

/* Never by the path alone: whoever may write to the folder could lead that to any file. systemd's
 * own (no inode is 0) are as its unit has them. */
static void dress(const struct kh_listening *l, const struct kh_listener_config *config)
{
	const struct stat socket = { .st_dev = l->dev, .st_ino = l->ino };
	struct kh_err err = KH_ERR_INIT;
	if (config->kind == KH_LISTEN_UNIX && l->ino != 0 &&
	    !kh_listener_dress(config, &socket, &err))
		kh_log_warn("%s", err.text);
}

void kh_sockets_adopt(struct kh_sockets *next, struct kh_sockets *now)
{
	for (size_t i = 0; i < next->count; i++) {
		const struct kh_listener_config *listener = kh_config_acceptor(next->config, i);
		if (next->listening[i].before != KH_LISTENER_NONE)
			now->listening[next->listening[i].before].fd = -1;
		dress(&next->listening[i], listener);
	}
	/* What was down stays so, and another keeper's may be: a look soon. */
	next->retry_ms = kh_clock_mono_ms();
	if (now->journal >= 0) {
		next->journal = now->journal;
		next->journal_lock = now->journal_lock;
		now->journal = now->journal_lock = -1;
	}
	kh_sockets_close(now);
}
