/*
 * dynamic_sandbox_folder.c - the folder of a dynamic sandbox's socket: BASE/TENANT/ID/s
 *
 * The daemon owns BASE and the tenants' folders. Others may search but not list them, so that users
 * of other tenants don't learn the names of sandboxes. A sandbox's own folder can be listed, so
 * that whoever starts the sandbox can mount it inside; only the socket belongs to the sandbox's
 * user. Only the daemon can create or remove anything in these folders.
 */

#include "dynamic_sandboxes.h"
#include "keeper_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/net/listener.h>
#include <keyhole/base/log.h>

enum { PASS_ONLY = 0711, READABLE = 0755 };

static const char socket_name[] = "s";

/* Others who may write there could lay a trap in our way. */
static bool is_ours_alone(int folder)
{
	struct stat st;
	return fstat(folder, &st) == 0 && (st.st_uid == geteuid() || st.st_uid == 0) &&
	       !(st.st_mode & 0022);
}

/* Return: open; -1 on error. */
static int open_base(const char *base, struct kh_err *err)
{
	kh_auto_close int fd = open(base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && is_ours_alone(fd))
		return kh_steal_fd(&fd);
	if (fd < 0 && errno != ENOTDIR && errno != ELOOP)
		kh_err_sys(err, KH_ERR_SYSTEM, errno, "admin.sandboxes: %s", kh_esc_str(base));
	else
		kh_err_set(err, KH_ERR_CONFIG,
			   "admin.sandboxes: %s is not a folder that the daemon alone may "
			   "write to (chmod go-w, or name another one)",
			   kh_esc_str(base));
	return -1;
}

/* Return: open; -1 on error. */
static int make_folder(int at, const char *name, mode_t mode, bool may_be_there, const char *path,
		       struct kh_err *err)
{
	kh_auto_close int fd = kh_file_mkdirat(at, name, mode);
	if (fd >= 0)
		return kh_steal_fd(&fd);
	if (errno == EEXIST && may_be_there) {
		fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0 && is_ours_alone(fd))
			return kh_steal_fd(&fd);
		errno = EEXIST;
	}
	kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s: the folder can't be made", kh_esc_str(path));
	return -1;
}

static struct kh_listener_config config_of(const struct kh_registry_entry *entry)
{
	return (struct kh_listener_config){ .kind = KH_LISTEN_UNIX,
					    .name = entry->path,
					    .unix_path = entry->path,
					    .token = -1,
					    .mode = entry->wish.mode,
					    .owner = entry->wish.owner,
					    .group = (gid_t)-1 };
}

static bool listen_in(struct kh_registry_entry *entry, int folder, struct kh_err *err)
{
	const struct kh_listener_config config = config_of(entry);
	struct stat made;
	int fd = kh_listener_open_in(folder, socket_name, &config, &made, err);
	if (fd < 0)
		return false;
	entry->fd = fd;
	entry->dev = made.st_dev;
	entry->ino = made.st_ino;
	return true;
}

static bool make_in(struct kh_registry_entry *entry, int base, const char *tenant_path,
		    struct kh_err *err)
{
	const struct kh_dynamic_sandbox_wish *wish = &entry->wish;
	kh_auto_close int tenant =
		make_folder(base, wish->tenant, PASS_ONLY, true, tenant_path, err);
	if (tenant < 0)
		return false;
	kh_auto_close int folder = make_folder(tenant, wish->id, READABLE, false, entry->path, err);
	bool ok = folder >= 0 && listen_in(entry, folder, err);
	if (!ok && folder >= 0)
		(void)unlinkat(tenant, wish->id, AT_REMOVEDIR);
	if (!ok)
		(void)unlinkat(base, wish->tenant, AT_REMOVEDIR); /* if it is its first */
	return ok;
}

bool kh_dynamic_sandbox_folder_make(struct kh_registry_entry *entry, const char *base,
				    struct kh_err *err)
{
	const size_t most = sizeof(((struct sockaddr_un *)0)->sun_path) - 1;
	kh_auto_free char *tenant = kh_strf("%s/%s", base, entry->wish.tenant);
	entry->path = tenant ? kh_strf("%s/%s/%s", tenant, entry->wish.id, socket_name) : NULL;
	if (!entry->path)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
	if (strlen(entry->path) > most)
		return kh_err_set(err, KH_ERR_USAGE,
				  "%s: %zu bytes are too long for a Unix socket's path (%zu at "
				  "most: take a shorter id, or a shorter admin.sandboxes)",
				  kh_esc_str(entry->path), strlen(entry->path), most);
	kh_auto_close int folder = kh_file_mkdirs(base, PASS_ONLY, err) ? open_base(base, err) : -1;
	return folder >= 0 && make_in(entry, folder, tenant, err);
}

/* At its path, where the last one is dead. */
static bool listen_again(struct kh_registry_entry *entry, struct kh_err *err)
{
	const struct kh_listener_config config = config_of(entry);
	struct stat made;
	int fd = kh_listener_open(&config, &made, err);
	if (fd < 0)
		return false;
	entry->fd = fd;
	entry->dev = made.st_dev;
	entry->ino = made.st_ino;
	return true;
}

void kh_dynamic_sandbox_folder_revive(struct kh_registry_entry *entry)
{
	struct kh_err err = KH_ERR_INIT;
	int old = entry->fd;
	if (old >= 0 && !kh_listener_is_dead(old) && kh_file_set_nonblock(old, true))
		return;
	if (!listen_again(entry, &err)) {
		kh_child_log_charged(KH_LOG_ERROR, "%s was shut down by a worker, and: %s",
				     kh_esc_str(entry->path), err.text);
		return;
	}
	kh_child_log_charged(KH_LOG_WARN, "%s was shut down by a worker: it is listened on anew",
			     kh_esc_str(entry->path));
	if (old >= 0)
		(void)close(old);
}

static int open_above(int folder)
{
	return openat(folder, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

void kh_dynamic_sandbox_folder_remove(struct kh_registry_entry *entry)
{
	const struct stat socket = { .st_dev = entry->dev, .st_ino = entry->ino };
	kh_auto_close int folder =
		entry->path && entry->ino != 0 ? kh_listener_remove(entry->path, &socket) : -1;
	kh_auto_close int tenant = folder < 0 ? -1 : open_above(folder);
	kh_auto_close int base = tenant < 0 ? -1 : open_above(tenant);
	/* Its own, and its tenant's when that is empty. */
	if (base >= 0 && unlinkat(tenant, entry->wish.id, AT_REMOVEDIR) == 0)
		(void)unlinkat(base, entry->wish.tenant, AT_REMOVEDIR);
	entry->ino = 0;
	if (entry->fd >= 0)
		(void)close(entry->fd);
	entry->fd = -1;
}

/* --- what was left behind ------------------------------------------------------------------------
 */

struct swept {
	size_t gone, left, alive;
};

/* Nobody listens there. */
static bool is_dead(int folder, const char *name, struct swept *swept)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct stat st;
	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISSOCK(st.st_mode))
		return false;
	int n = snprintf(un.sun_path, sizeof(un.sun_path), "/proc/self/fd/%d/%s", folder, name);
	kh_auto_close int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (n < 0 || (size_t)n >= sizeof(un.sun_path) || probe < 0)
		return false;
	if (connect(probe, (const struct sockaddr *)&un, sizeof(un)) != 0 && errno == ECONNREFUSED)
		return true;
	swept->alive++;
	return false;
}

static DIR *open_folder(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	if (fd >= 0 && !dir)
		(void)close(fd);
	return dir;
}

/* Runs `visit` on each name. Return: every one is gone now. */
static bool sweep(DIR *dir, bool (*visit)(int folder, const char *name, void *arg), void *arg)
{
	const struct dirent *one;
	bool all = true;
	while ((one = readdir(dir)))
		if (strcmp(one->d_name, ".") != 0 && strcmp(one->d_name, "..") != 0)
			all = visit(dirfd(dir), one->d_name, arg) && all;
	return all;
}

static bool sweep_socket(int folder, const char *name, void *arg)
{
	return strcmp(name, socket_name) == 0 && is_dead(folder, name, arg) &&
	       unlinkat(folder, name, 0) == 0;
}

/* A sandbox's folder: the socket, or one that had not got its name yet, in a folder of its own. */
static bool sweep_made(int folder, const char *name, void *arg)
{
	if (strncmp(name, ".keyhole-", 9) != 0)
		return sweep_socket(folder, name, arg);
	DIR *dir = open_folder(folder, name);
	bool all = dir && sweep(dir, sweep_socket, arg);
	if (dir)
		(void)closedir(dir);
	return all && unlinkat(folder, name, AT_REMOVEDIR) == 0;
}

static bool sweep_folder(int at, const char *name, bool (*visit)(int, const char *, void *),
			 void *arg)
{
	DIR *dir = kh_dynamic_sandbox_check_id(kh_slice_str(name)) ? NULL : open_folder(at, name);
	bool all = dir && sweep(dir, visit, arg);
	if (dir)
		(void)closedir(dir);
	return all && unlinkat(at, name, AT_REMOVEDIR) == 0;
}

static bool sweep_sandbox(int at, const char *name, void *arg)
{
	struct swept *swept = arg;
	bool gone = sweep_folder(at, name, sweep_made, swept);
	swept->gone += gone;
	swept->left += !gone;
	return gone;
}

static bool sweep_tenant(int at, const char *name, void *arg)
{
	return sweep_folder(at, name, sweep_sandbox, arg);
}

/* Return: false: there is nothing to be looked at. */
static bool sweep_base(const char *base, struct swept *swept)
{
	struct kh_err err = KH_ERR_INIT;
	kh_auto_close int fd = open_base(base, &err);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	swept->left = swept->alive = 0;
	if (!dir)
		return false;
	(void)kh_steal_fd(&fd); /* it is the stream's */
	(void)sweep(dir, sweep_tenant, swept);
	(void)closedir(dir);
	return true;
}

void kh_dynamic_sandbox_folder_sweep(const char *base)
{
	enum { TRIES = 10, PAUSE_US = 50 * 1000 };
	struct swept swept = { 0, 0, 0 };
	/* The worker of a daemon that was killed ends a moment after it, and listens until then. */
	for (int i = 0; i < TRIES && sweep_base(base, &swept) && swept.alive > 0; i++)
		(void)usleep(PAUSE_US);
	if (swept.gone)
		kh_log_info("%zu sandbox%s of a daemon that was killed: cleared away", swept.gone,
			    swept.gone == 1 ? "" : "es");
	if (swept.left)
		kh_log_warn("%s: %zu folder%s there that this daemon did not make, or that another "
			    "one uses: left alone",
			    kh_esc_str(base), swept.left, swept.left == 1 ? " is" : "s are");
}
