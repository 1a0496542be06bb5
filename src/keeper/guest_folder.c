/*
 * guest_folder.c - where a guest's socket stands: BASE/TENANT/ID/s
 *
 * BASE and the tenants' folders are the daemon's and open to be passed through, not to be read: who
 * may not use a tenant does not learn who its sandboxes are. A sandbox's own folder can be read, so
 * that whoever starts it may show it inside; the socket alone is its user's. Nobody but the daemon
 * can make or take away anything in these folders.
 */

#include "guests.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <keyhole/cleanup.h>
#include <keyhole/escape.h>
#include <keyhole/file.h>
#include <keyhole/listener.h>
#include <keyhole/log.h>

enum { PASS_ONLY = 0711, READABLE = 0755 };

/* Others who may write there could lay a trap in our way. */
static bool check_base(const char *base, struct kh_err *err)
{
	struct stat st;
	if (lstat(base, &st) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "admin.sandboxes: %s",
				  kh_esc_str(base));
	if (!S_ISDIR(st.st_mode) || (st.st_uid != geteuid() && st.st_uid != 0) ||
	    (st.st_mode & 0022))
		return kh_err_set(err, KH_ERR_CONFIG,
				  "admin.sandboxes: %s is not a folder that the daemon alone may "
				  "write to (chmod go-w, or name another one)",
				  kh_esc_str(base));
	return true;
}

static bool make_folder(const char *path, mode_t mode, bool may_be_there, struct kh_err *err)
{
	if (mkdir(path, 0700) == 0) {
		if (chmod(path, mode) == 0)
			return true;
		int why = errno;
		(void)rmdir(path);
		return kh_err_sys(err, KH_ERR_SYSTEM, why, "%s", kh_esc_str(path));
	}
	struct stat st;
	if (errno == EEXIST && may_be_there && lstat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
	    (st.st_uid == geteuid() || st.st_uid == 0) && !(st.st_mode & 0022))
		return true;
	return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s: the folder can't be made",
			  kh_esc_str(path));
}

static bool listen_there(struct kh_entry *entry, struct kh_err *err)
{
	const struct kh_listener_config config = { .kind = KH_LISTEN_UNIX,
						   .name = entry->path,
						   .unix_path = entry->path,
						   .token = -1,
						   .mode = entry->wish.mode,
						   .owner = entry->wish.owner,
						   .group = (gid_t)-1 };
	struct stat st;
	entry->fd = kh_listener_open(&config, err);
	if (entry->fd < 0)
		return false;
	if (lstat(entry->path, &st) != 0) {
		kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(entry->path));
		(void)unlink(entry->path);
		return false;
	}
	entry->dev = st.st_dev;
	entry->ino = st.st_ino;
	return true;
}

bool kh_guest_folder_make(struct kh_entry *entry, const char *base, struct kh_err *err)
{
	const size_t most = sizeof(((struct sockaddr_un *)0)->sun_path) - 1;
	kh_auto_free char *tenant = kh_strf("%s/%s", base, entry->wish.tenant);
	kh_auto_free char *folder = tenant ? kh_strf("%s/%s", tenant, entry->wish.id) : NULL;
	entry->path = folder ? kh_strf("%s/s", folder) : NULL;
	if (!entry->path)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
	if (strlen(entry->path) > most)
		return kh_err_set(err, KH_ERR_USAGE,
				  "%s: %zu bytes are too long for a Unix socket's path (%zu at "
				  "most: take a shorter id, or a shorter admin.sandboxes)",
				  kh_esc_str(entry->path), strlen(entry->path), most);
	if (!kh_file_mkdirs(base, PASS_ONLY, err) || !check_base(base, err) ||
	    !make_folder(tenant, PASS_ONLY, true, err))
		return false;
	if (make_folder(folder, READABLE, false, err)) {
		if (listen_there(entry, err))
			return true;
		(void)rmdir(folder);
	}
	(void)rmdir(tenant); /* if it was the first of its tenant */
	return false;
}

void kh_guest_folder_revive(struct kh_entry *entry)
{
	struct kh_err err = KH_ERR_INIT;
	int old = entry->fd;
	if (old >= 0 && !kh_listener_is_dead(old) && kh_fd_set_nonblock(old, true))
		return;
	if (!listen_there(entry, &err)) {
		kh_log_error("%s was shut down by a worker, and: %s", kh_esc_str(entry->path),
			     err.text);
		entry->fd = old;
		return;
	}
	kh_log_warn("%s was shut down by a worker: it is listened on anew",
		    kh_esc_str(entry->path));
	if (old >= 0)
		(void)close(old);
}

void kh_guest_folder_remove(struct kh_entry *entry)
{
	struct stat st;
	if (entry->path && entry->ino != 0 && lstat(entry->path, &st) == 0 &&
	    st.st_dev == entry->dev && st.st_ino == entry->ino) {
		kh_auto_free char *folder = strdup(entry->path);
		(void)unlink(entry->path);
		for (int i = 0; folder && i < 2; i++) { /* its own, and its tenant's when empty */
			char *slash = strrchr(folder, '/');
			if (!slash)
				break;
			*slash = '\0';
			if (rmdir(folder) != 0)
				break;
		}
	}
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

/* A sandbox's folder: the socket, or one that had not got its name yet. */
static bool sweep_socket(int folder, const char *name, void *arg)
{
	bool ours = strcmp(name, "s") == 0 || strncmp(name, ".keyhole-", 9) == 0;
	return ours && is_dead(folder, name, arg) && unlinkat(folder, name, 0) == 0;
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

static bool sweep_folder(int at, const char *name, bool (*visit)(int, const char *, void *),
			 void *arg)
{
	DIR *dir = kh_guest_check_id(kh_slice_str(name)) ? NULL : open_folder(at, name);
	bool all = dir && sweep(dir, visit, arg);
	if (dir)
		(void)closedir(dir);
	return all && unlinkat(at, name, AT_REMOVEDIR) == 0;
}

static bool sweep_sandbox(int at, const char *name, void *arg)
{
	struct swept *swept = arg;
	bool gone = sweep_folder(at, name, sweep_socket, swept);
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
	struct stat st;
	DIR *dir = lstat(base, &st) == 0 && check_base(base, &err) ? open_folder(AT_FDCWD, base)
								   : NULL;
	swept->left = swept->alive = 0;
	if (!dir)
		return false;
	(void)sweep(dir, sweep_tenant, swept);
	(void)closedir(dir);
	return true;
}

void kh_guest_folder_sweep(const char *base)
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
