/* move.c - moves a tree that an agent wrote, also to another file system */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <linux/fs.h>
#include <unistd.h>

#include <keyhole/cleanup.h>
#include <keyhole/file.h>
#include <keyhole/limits.h>

#include "move.h"

static bool copy(int from_dir, const char *from, int to_dir, const char *to, unsigned depth);

/* Each entry of an open folder but "." and "..". */
static bool each_entry(int fd, bool (*act)(int dir, const char *name, void *arg), void *arg)
{
	int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = again >= 0 ? fdopendir(again) : NULL;
	if (!dir) {
		if (again >= 0)
			close(again);
		return false;
	}
	bool ok = true;
	const struct dirent *entry;
	while (ok && (entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			ok = act(fd, entry->d_name, arg);
	int saved = errno;
	closedir(dir);
	errno = saved;
	return ok;
}

/*
 * Whoever made it may have shut its owner out too. A folder that moves gets another "..", for which
 * the kernel wants it to be writable itself; what is copied has to be read.
 */
static void make_accessible(int dir, const char *name)
{
	struct stat st;
	/* By O_PATH, which needs no right to it, and through /proc, which follows no link of it. */
	kh_auto_close int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0 || st.st_uid != geteuid())
		return;
	mode_t wanted = S_ISDIR(st.st_mode) ? S_IRWXU : S_ISREG(st.st_mode) ? S_IRUSR : 0;
	if ((st.st_mode & wanted) == wanted)
		return;
	(void)kh_file_set_mode(fd, (st.st_mode & 0777) | wanted);
}

static bool give_owner(int dir, const char *name, const struct stat *st)
{
	return geteuid() != 0 ||
	       fchownat(dir, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool copy_file(int from_dir, const char *from, int to_dir, const char *to,
		      const struct stat *st)
{
	kh_auto_close int in =
		openat(from_dir, from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	kh_auto_close int out =
		openat(to_dir, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (in < 0 || out < 0)
		return false;
	ssize_t n;
	while ((n = sendfile(out, in, NULL, 1 << 20)) > 0)
		;
	return n == 0 && give_owner(to_dir, to, st) && fchmod(out, st->st_mode & 0777) == 0;
}

static bool copy_link(int from_dir, const char *from, int to_dir, const char *to,
		      const struct stat *st)
{
	char text[KH_LIMIT_SURVEY_PATH_BYTES + 1];
	ssize_t n = readlinkat(from_dir, from, text, sizeof(text) - 1);
	if (n < 0)
		return false;
	text[n] = '\0';
	return symlinkat(text, to_dir, to) == 0 && give_owner(to_dir, to, st);
}

struct below {
	int to;
	unsigned depth;
};

static bool copy_entry(int dir, const char *name, void *arg)
{
	const struct below *below = arg;
	return copy(dir, name, below->to, name, below->depth);
}

static bool copy_folder(int from_dir, const char *from, int to_dir, const char *to,
			const struct stat *st, unsigned depth)
{
	if (depth >= KH_LIMIT_SURVEY_DEPTH) {
		errno = ELOOP;
		return false;
	}
	kh_auto_close int in =
		openat(from_dir, from, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (in < 0 || mkdirat(to_dir, to, 0700) != 0)
		return false;
	kh_auto_close int out = openat(to_dir, to, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct below below = { out, depth + 1 };
	return out >= 0 && each_entry(in, copy_entry, &below) && give_owner(to_dir, to, st) &&
	       fchmod(out, st->st_mode & 0777) == 0;
}

static bool copy(int from_dir, const char *from, int to_dir, const char *to, unsigned depth)
{
	struct stat st;
	if (fstatat(from_dir, from, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return false;
	make_accessible(from_dir, from);
	if (S_ISREG(st.st_mode))
		return copy_file(from_dir, from, to_dir, to, &st);
	if (S_ISLNK(st.st_mode))
		return copy_link(from_dir, from, to_dir, to, &st);
	if (S_ISDIR(st.st_mode))
		return copy_folder(from_dir, from, to_dir, to, &st, depth);
	return mknodat(to_dir, to, (S_ISFIFO(st.st_mode) ? S_IFIFO : S_IFREG) | 0600, 0) == 0 &&
	       give_owner(to_dir, to, &st);
}

static bool remove_entry(int dir, const char *name, void *arg)
{
	(void)arg;
	return kh_move_remove(dir, name);
}

bool kh_move_remove(int dir, const char *name)
{
	if (unlinkat(dir, name, 0) == 0)
		return true;
	if (errno != EISDIR && errno != EPERM)
		return false;
	make_accessible(dir, name);
	kh_auto_close int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd >= 0 && each_entry(fd, remove_entry, NULL) &&
	       unlinkat(dir, name, AT_REMOVEDIR) == 0;
}

/* Whoever made the folder may have made it read-only, for its owner too. */
static void make_writable(int dir)
{
	struct stat st;
	if (fstat(dir, &st) == 0 && st.st_uid == geteuid() && !(st.st_mode & S_IWUSR))
		(void)fchmod(dir, (st.st_mode & 0777) | S_IRWXU);
}

/* A file that was renamed keeps its mode: it is set-user-ID no more from here on. */
static void tame(int dir, const char *name)
{
	struct stat st;
	kh_auto_close int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 06000))
		(void)fchmod(fd, st.st_mode & 0777);
}

bool kh_move(int from_dir, const char *from, int to_dir, const char *to)
{
	make_writable(from_dir);
	struct stat st;
	if (fstatat(from_dir, from, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
		make_accessible(from_dir, from);
	if (syscall(SYS_renameat2, from_dir, from, to_dir, to, RENAME_NOREPLACE) == 0) {
		tame(to_dir, to);
		return true;
	}
	if (errno != EXDEV && errno != EINVAL && errno != ENOSYS)
		return false;
	if (fstatat(to_dir, to, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		errno = EEXIST;
		return false;
	}
	if (!copy(from_dir, from, to_dir, to, 0)) {
		int saved = errno;
		(void)kh_move_remove(to_dir, to);
		errno = saved;
		return false;
	}
	return kh_move_remove(from_dir, from);
}
