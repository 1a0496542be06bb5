/* sockets.c - what stays open in the keeper while workers come and go: listeners and journal */

#include "keeper_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <keyhole/cleanup.h>
#include <keyhole/clock.h>
#include <keyhole/escape.h>
#include <keyhole/file.h>
#include <keyhole/listener.h>
#include <keyhole/log.h>

/*
 * Two locks on the journal. flock() belongs to the open file, which the worker shares: the journal
 * stays locked as long as any of the two lives. It does not say who holds it, so a record lock of
 * the keeper's own stands beside it, whose only use is to be asked about.
 */
enum { ENDING_MS = 2000, LOOK_MS = 10 };

/* Return: who has it, 0: the keeper that had it has ended, and its worker is about to. */
static long keeper_of(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	bool held = fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
	return held ? (long)lock.l_pid : 0;
}

/* A daemon that was killed and is started again finds the worker of before for a moment. Return: 0,
 * or errno. */
static int take_lock(int fd)
{
	uint64_t end = kh_clock_mono_ms() + ENDING_MS;
	while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
		int why = errno;
		if (why != EWOULDBLOCK || keeper_of(fd) != 0 || kh_clock_mono_ms() >= end)
			return why;
		(void)poll(NULL, 0, LOOK_MS);
	}
	return 0;
}

static bool lock_journal(int fd, const char *path, struct kh_err *err)
{
	struct flock mine = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int why = take_lock(fd);
	if (why == 0) {
		(void)fcntl(fd, F_SETLK, &mine);
		return true;
	}
	if (why != EWOULDBLOCK)
		return kh_err_sys(err, KH_ERR_SYSTEM, why, "journal %s: can't be locked",
				  kh_esc_str(path));
	char holder[48] = "another process";
	long keeper = keeper_of(fd);
	if (keeper > 0)
		(void)snprintf(holder, sizeof(holder), "process %ld", keeper);
	return kh_err_set(
		err, KH_ERR_CONFIG,
		"journal %s: %s writes it already (stop that one, or choose another file)",
		kh_esc_str(path), holder);
}

static bool make_folder_of(const char *path, struct kh_err *err)
{
	const char *slash = strrchr(path, '/');
	if (!slash || slash == path)
		return true;
	kh_auto_free char *folder = kh_slice_dup(kh_slice_of(path, (size_t)(slash - path)));
	if (!folder)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "journal: no memory");
	return kh_file_mkdirs(folder, 0700, err);
}

int kh_journal_lock(const char *path, struct kh_err *err)
{
	if (!make_folder_of(path, err)) {
		kh_err_wrap(err, "journal %s", kh_esc_str(path));
		return -1;
	}
	/* Not blocking: a FIFO of that name must not hold the start up. */
	kh_auto_close int fd =
		open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) != 0) {
		kh_err_sys(err, KH_ERR_SYSTEM, errno, "journal %s", kh_esc_str(path));
		return -1;
	}
	if (!S_ISREG(st.st_mode)) {
		kh_err_set(err, KH_ERR_CONFIG, "journal %s: not a regular file", kh_esc_str(path));
		return -1;
	}
	if (!kh_fd_set_nonblock(fd, false)) {
		kh_err_sys(err, KH_ERR_SYSTEM, errno, "journal %s", kh_esc_str(path));
		return -1;
	}
	return lock_journal(fd, path, err) ? kh_steal_fd(&fd) : -1;
}

bool kh_sockets_listen(struct kh_listening *l, const struct kh_listener_config *config,
		       struct kh_err *err)
{
	/* systemd's own: its name is not ours to take away (no inode is 0). */
	*l = (struct kh_listening){ .fd = -1 };
	if (config->kind == KH_LISTEN_UNIX)
		l->fd = kh_passed_take(config->unix_path);
	if (l->fd >= 0)
		return true;
	l->fd = kh_listener_open(config, err);
	if (l->fd < 0)
		return false;
	if (config->kind != KH_LISTEN_UNIX)
		return true;
	struct stat st;
	if (lstat(config->unix_path, &st) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "listen on %s",
				  kh_esc_str(config->unix_path));
	l->dev = st.st_dev;
	l->ino = st.st_ino;
	return true;
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
	*sockets = (struct kh_sockets){ .config = config, .journal = -1 };
	if (config->n_listeners == 0 && !config->admin.unix_path)
		return nothing_to_listen_on(err);
	if (!config->audit_path)
		return kh_err_set(
			err, KH_ERR_CONFIG,
			"no journal (set `audit: { file: … }`; nothing is forwarded without)");
	sockets->journal = kh_journal_lock(config->audit_path, err);
	if (sockets->journal < 0)
		return false;
	size_t doors = kh_config_doors(config);
	sockets->listening = calloc(doors, sizeof(*sockets->listening));
	if (!sockets->listening)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "listeners: no memory");
	for (; sockets->count < doors; sockets->count++) {
		sockets->listening[sockets->count].fd = -1;
		if (!kh_sockets_listen(&sockets->listening[sockets->count],
				       kh_config_door(config, sockets->count), err)) {
			sockets->count++; /* it may have been opened */
			return false;
		}
	}
	return true;
}

static void shut(struct kh_sockets *sockets, size_t n)
{
	for (size_t i = 0; i < n && i < sockets->count; i++) {
		struct kh_listening *l = &sockets->listening[i];
		const char *path = kh_config_door(sockets->config, i)->name;
		struct stat st;
		if (l->fd < 0)
			continue;
		if (l->ino != 0 && lstat(path, &st) == 0 && st.st_dev == l->dev &&
		    st.st_ino == l->ino)
			(void)unlink(path);
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
}

void kh_sockets_forget(struct kh_sockets *sockets)
{
	for (size_t i = 0; i < sockets->count; i++)
		sockets->listening[i].ino = 0; /* no file has that one */
	shut(sockets, sockets->count);
}

/* --- another configuration, another process -----------------------------------------------------
 */

/* A door of `admin`: in the process before it may stand among the listeners. */
static size_t find_door(const struct kh_config *config, const char *name)
{
	size_t n = kh_config_doors(config);

	for (size_t i = 0; i < n; i++)
		if (strcmp(kh_config_door(config, i)->name, name) == 0)
			return i;
	return KH_LISTENER_NONE;
}

bool kh_sockets_next(struct kh_sockets *next, const struct kh_sockets *now,
		     const struct kh_config *config, struct kh_err *err)
{
	*next = (struct kh_sockets){ .config = config, .journal = -1 };
	if (config->n_listeners == 0 && !config->admin.unix_path)
		return nothing_to_listen_on(err);
	size_t doors = kh_config_doors(config);
	next->listening = calloc(doors, sizeof(*next->listening));
	kh_auto_free size_t *found = kh_config_match_listeners(config, now->config);
	if (!next->listening || !found)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "listeners: no memory");
	for (; next->count < doors; next->count++) {
		struct kh_listening *l = &next->listening[next->count];
		const struct kh_listener_config *listener = kh_config_door(config, next->count);
		size_t before = next->count < config->n_listeners
					? found[next->count]
					: find_door(now->config, listener->name);
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

void kh_sockets_adopt(struct kh_sockets *next, struct kh_sockets *now)
{
	for (size_t i = 0; i < next->count; i++) {
		const struct kh_listener_config *listener = kh_config_door(next->config, i);
		if (next->listening[i].before != KH_LISTENER_NONE)
			now->listening[next->listening[i].before].fd = -1;
		if (listener->kind != KH_LISTEN_UNIX)
			continue;
		if (chmod(listener->unix_path, listener->mode) != 0 ||
		    (listener->owner != (uid_t)-1 &&
		     lchown(listener->unix_path, listener->owner, listener->group) != 0))
			kh_log_warn("mode or owner of %s could not be set",
				    kh_esc_str(listener->unix_path));
	}
	if (now->journal >= 0)
		next->journal = now->journal;
	now->journal = -1;
	kh_sockets_close(now);
}
