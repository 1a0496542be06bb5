/*
 * workspace_guard_mount.c - mounts a protected file again in a running sandbox
 *
 * A helper enters the mount namespace of keyhole-init: the creator of a user namespace has all
 * capabilities in it.
 *
 * In an engine with its own kernel, keyhole-init sees no mounts of the host. There a process of the
 * engine's program opens the files (opener.c), so the helper enters that process's namespace, below
 * its root folder. That process keeps open descriptors, and reopens files through them. So if
 * somebody inside accessed the new file before it was mounted again, that access bypasses the mount
 * as long as the descriptor is kept. The helper searches the process's descriptors; if it finds one
 * of the file, that counts as a failure.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <linux/nsfs.h>
#include <unistd.h>

#include <keyhole/sandbox/child.h>
#include <keyhole/base/file.h>

#include "sandbox_internal.h"

/* ---- in the helper ---- */

static int open_of(pid_t pid, const char *name, int flags)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return open(path, flags | O_CLOEXEC);
}

static bool enter(pid_t pid)
{
	int root = open_of(pid, "root", O_PATH | O_DIRECTORY);
	int mounts = open_of(pid, "ns/mnt", O_RDONLY);
	int users = mounts >= 0 ? ioctl(mounts, NS_GET_USERNS) : -1;
	return root >= 0 && users >= 0 && setns(users, CLONE_NEWUSER) == 0 &&
	       setns(mounts, CLONE_NEWNS) == 0 && fchdir(root) == 0 && chroot(".") == 0;
}

/* `from` over `path`, read-only from its first moment; no link is followed at the end of either. */
static bool mount_over(const char *from, const char *path)
{
	int tree = (int)syscall(SYS_open_tree, AT_FDCWD, from,
				OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };
	return tree >= 0 &&
	       syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) == 0 &&
	       syscall(SYS_move_mount, tree, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) == 0;
}

/* Is its mount there? An empty one also where all around it is read-only. */
static bool is_mounted(const struct kh_mount *entry)
{
	struct statvfs fs;
	struct statx st;
	if (entry->kind == KH_MOUNT_EMPTY)
		return statx(AT_FDCWD, entry->target, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &st) == 0 &&
		       (st.stx_attributes & STATX_ATTR_MOUNT_ROOT);
	return statvfs(entry->target, &fs) == 0 && (fs.f_flag & ST_RDONLY);
}

static bool mount_where_lost(const struct kh_mount *entry)
{
	struct stat st;
	if (lstat(entry->target, &st) != 0 || S_ISLNK(st.st_mode))
		return false;
	/* Nothing had happened to it, or it has been seen to already. */
	if (is_mounted(entry))
		return true;
	const char *from = entry->kind == KH_MOUNT_EMPTY ? KH_SANDBOX_EMPTY : entry->target;
	return mount_over(from, entry->target);
}

static bool is_at_or_below(const char *path, const char *target)
{
	size_t len = strlen(target);
	return strncmp(path, target, len) == 0 && (!path[len] || path[len] == '/');
}

/* Does this descriptor lead to the target by another mount than the one that is there? */
static bool is_way_around(int fds, const char *name, const char *target, uint64_t mounted)
{
	char path[PATH_MAX];
	ssize_t n = readlinkat(fds, name, path, sizeof(path) - 1);
	if (n < 0) /* shut meanwhile, or no descriptor */
		return errno != ENOENT && errno != EINVAL;
	path[n] = '\0';
	if (!is_at_or_below(path, target))
		return false;
	struct statx held;
	kh_auto_close int fd = openat(fds, name, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return errno != ENOENT;
	return statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &held) != 0 ||
	       !(held.stx_mask & STATX_MNT_ID) || held.stx_mnt_id != mounted;
}

/* `fds` is the list of a process's descriptors. */
static bool is_bypassed(int fds, const char *target)
{
	struct statx mounted;
	if (statx(AT_FDCWD, target, AT_SYMLINK_NOFOLLOW, STATX_MNT_ID, &mounted) != 0 ||
	    !(mounted.stx_mask & STATX_MNT_ID))
		return true;
	DIR *list = fdopendir(fds);
	if (!list)
		return true;
	bool found = false;
	const struct dirent *entry;
	while (!found && (entry = readdir(list)))
		found = is_way_around(fds, entry->d_name, target, mounted.stx_mnt_id);
	closedir(list);
	return found;
}

struct job {
	const struct kh_workspace_guard *guard;
	const struct kh_mount *entry;
	pid_t init;
};

static bool mount_inside(void *arg, struct kh_err *err)
{
	const struct job *job = arg;
	bool served = job->guard->served;
	int fds = served ? open_of(job->init, "fd", O_RDONLY | O_DIRECTORY) : -1;
	(void)err;
	if ((served && fds < 0) || !enter(job->init) || !kh_child_ends_with_parent() ||
	    !mount_where_lost(job->entry))
		return false;
	return !served || !is_bypassed(fds, job->entry->target);
}

/* ---- in the launcher ---- */

bool kh_workspace_guard_mount(const struct kh_workspace_guard *guard, const struct kh_mount *entry,
			      pid_t init)
{
	struct job job = { guard, entry, init };
	return init > 0 && kh_child_try(mount_inside, &job, NULL);
}
