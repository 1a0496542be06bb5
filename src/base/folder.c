/*
 * folder.c - holds and makes folders, and sets modes, where others may create names
 *
 * Between two system calls with the same path, a user who may write to a folder of that path can
 * replace what the first call made with a link. So each step starts from a descriptor, a new folder
 * is opened without following a link, and its mode is set by that descriptor.
 */
#include <keyhole/base/file.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <linux/openat2.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/limits.h>

/* ---- what was resolved once ---- */

int kh_file_resolve(int dir, const char *path, int flags, uint64_t resolve)
{
	struct open_how how = { .flags = (unsigned)flags | O_CLOEXEC, .resolve = resolve };
	int fd, tries = KH_LIMIT_RESOLVE_TRIES;
	do
		fd = (int)syscall(SYS_openat2, dir, *path ? path : ".", &how, sizeof(how));
	while (fd < 0 && errno == EAGAIN && --tries > 0);
	return fd;
}

int kh_file_open_below(int dir, const char *path, int flags)
{
	return kh_file_resolve(dir, path + strspn(path, "/"), flags,
			       RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

int kh_file_hold(const char *path)
{
	/* With O_NOFOLLOW a link at the end would be held itself. */
	return kh_file_resolve(AT_FDCWD, path, O_PATH, RESOLVE_NO_SYMLINKS);
}

static bool is_same(int one, int other)
{
	struct stat a, b;
	return fstat(one, &a) == 0 && fstat(other, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

static void say_not_held(const char *path, int why, struct kh_err *err)
{
	if (why == ELOOP)
		kh_err_sys(err, KH_ERR_SYSTEM, why,
			   "%s: there is a symbolic link now where a folder of this path was: an "
			   "agent or a program that may write to a folder above exchanged it (what "
			   "the link leads to is not used; end the run in the folder above first)",
			   kh_esc_str(path));
	else if (why == ESTALE)
		kh_err_sys(
			err, KH_ERR_SYSTEM, why,
			"%s: another folder is there than when this began: an agent or a program "
			"that may write to a folder above exchanged it (the other one is not "
			"used; end the run in the folder above first)",
			kh_esc_str(path));
	else
		kh_err_sys(err, KH_ERR_SYSTEM, why, "%s", kh_esc_str(path));
}

int kh_file_hold_again(const char *path, const int *held, struct kh_err *err)
{
	kh_auto_close int fd = kh_file_hold(path);
	int why = fd < 0 ? errno : held && !is_same(fd, *held) ? ESTALE : 0;
	if (!why)
		return kh_steal_fd(&fd);
	say_not_held(path, why, err);
	errno = why;
	return -1;
}

char *kh_file_held_path(int held)
{
	char name[32], path[PATH_MAX];
	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", held);
	ssize_t n = readlink(name, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	if (n > 0 && path[0] == '/')
		return kh_strf("%s", path);
	errno = n > 0 ? ENOENT : errno;
	return NULL;
}

/* ---- folders that are made ---- */

bool kh_file_set_mode(int fd, mode_t mode)
{
	char path[32];
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return chmod(path, mode) == 0;
}

int kh_file_mkdirat(int at, const char *name, mode_t mode)
{
	enum { KEPT = S_ISGID }; /* as its parent has it */
	struct stat st;
	if (mkdirat(at, name, mode) != 0)
		return -1;
	kh_auto_close int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0)
		return -1;
	if (st.st_uid != geteuid()) { /* somebody put another one in its place */
		errno = EPERM;
		return -1;
	}
	/* The mode that was asked for, whatever the umask is. */
	bool has_it = (st.st_mode & 07777 & ~(mode_t)KEPT) == mode;
	return has_it || fchmod(fd, mode | (st.st_mode & KEPT)) == 0 ? kh_steal_fd(&fd) : -1;
}

bool kh_file_is_empty_folder(int fd)
{
	int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = again >= 0 ? fdopendir(again) : NULL;
	if (!dir) {
		if (again >= 0)
			(void)close(again);
		return false;
	}
	const struct dirent *entry;
	bool empty = true;
	while (empty && (errno = 0, entry = readdir(dir)))
		empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
	empty = empty && errno == 0;
	(void)closedir(dir);
	return empty;
}

bool kh_file_is_fresh(int fd)
{
	struct stat st;
	if (fstat(fd, &st) != 0)
		return false;
	bool fresh = S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 0777) == 0700 &&
		     kh_file_is_empty_folder(fd);
	errno = EBUSY;
	return fresh;
}

bool kh_file_others_may_rename(const char *folder, uid_t user)
{
	struct stat st;
	if (stat(folder, &st) != 0)
		return false;
	if (user != (uid_t)-1 && st.st_uid != user && st.st_uid != 0)
		return true;
	/* Where it is sticky, a name is its owner's alone. */
	bool group = (st.st_mode & S_IWGRP) && st.st_gid != 0 && st.st_gid != getegid();
	return !(st.st_mode & S_ISVTX) && (group || (st.st_mode & S_IWOTH));
}

/* One that is there is fine as it is, also where a link leads to it. */
static int enter(int at, const char *name, mode_t mode)
{
	int fd = openat(at, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 || errno != ENOENT)
		return fd;
	fd = kh_file_mkdirat(at, name, mode);
	return fd < 0 && errno == EEXIST ? openat(at, name, O_PATH | O_DIRECTORY | O_CLOEXEC) : fd;
}

bool kh_file_mkdirs(const char *path, mode_t mode, struct kh_err *err)
{
	struct stat st;
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return true;
	if (!path[0])
		return kh_err_sys(err, KH_ERR_SYSTEM, ENOENT, "an empty path");
	kh_auto_free char *part = kh_slice_dup(kh_slice_str(path));
	if (!part)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory for a path");
	kh_auto_close int at = open(path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char *name = part + strspn(part, "/");
	while (at >= 0 && *name) {
		char *end = name + strcspn(name, "/"), *next = end + strspn(end, "/");
		*end = '\0';
		int below = enter(at, name, *next ? 0755 : mode);
		int why = errno;
		(void)close(at);
		at = below;
		if (at < 0)
			return kh_err_sys(err, KH_ERR_SYSTEM, why, "%s: the folder can't be made",
					  kh_esc_str(part));
		if (*next)
			*end = '/';
		name = next;
	}
	return at >= 0 || kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(path));
}
