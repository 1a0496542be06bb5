/* move.c - moves a tree that an agent wrote, also to another file system */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <linux/fs.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>

#include "move.h"

/* Under way: how deep, and how many bytes may still be copied. */
struct way {
	unsigned depth;
	uint64_t *left;
};

static bool copy(int from_dir, const char *from, int to_dir, const char *to, struct way way);

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

/* By the descriptor: whoever may write to the folder can put another thing under the name. */
static bool give_owner(int fd, const struct stat *st)
{
	return geteuid() != 0 || fchownat(fd, "", st->st_uid, st->st_gid, AT_EMPTY_PATH) == 0;
}

/* Of a link or a named pipe, which can't be had otherwise than by its name. */
static bool give_owner_of(int dir, const char *name, mode_t type, const struct stat *st)
{
	struct stat made;
	kh_auto_close int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &made) != 0)
		return false;
	bool same = (made.st_mode & S_IFMT) == type && made.st_uid == geteuid() &&
		    made.st_nlink == 1 && made.st_size == (type == S_IFLNK ? st->st_size : 0);
	errno = EBUSY;
	return same && give_owner(fd, st);
}

/* From `at` to `end`. */
static bool copy_part(int in, int out, off_t at, off_t end)
{
	if (lseek(out, at, SEEK_SET) < 0)
		return false;
	while (at < end) {
		size_t most = end - at < 1 << 20 ? (size_t)(end - at) : 1 << 20;
		ssize_t n = sendfile(out, in, &at, most);
		if (n < 0 && errno != EINTR)
			return false;
		if (n == 0)
			break; /* it is shorter by now */
	}
	return true;
}

/* Holes stay holes: an agent makes one of terabytes as quickly as none. */
static bool copy_data(int in, int out, off_t size, uint64_t *left)
{
	for (off_t at = 0; at < size;) {
		off_t data = lseek(in, at, SEEK_DATA);
		if (data < 0 && errno == ENXIO)
			break;
		off_t end = data < 0 ? -1 : lseek(in, data, SEEK_HOLE);
		if (end < 0)
			return false;
		if ((uint64_t)(end - data) > *left) {
			errno = EFBIG;
			return false;
		}
		*left -= (uint64_t)(end - data);
		if (!copy_part(in, out, data, end))
			return false;
		at = end;
	}
	return ftruncate(out, size) == 0;
}

static bool copy_file(int from_dir, const char *from, int to_dir, const char *to,
		      const struct stat *st, uint64_t *left)
{
	kh_auto_close int in =
		openat(from_dir, from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	kh_auto_close int out =
		openat(to_dir, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return in >= 0 && out >= 0 && copy_data(in, out, st->st_size, left) &&
	       give_owner(out, st) && fchmod(out, st->st_mode & 0777) == 0;
}

static bool copy_link(int from_dir, const char *from, int to_dir, const char *to,
		      const struct stat *st)
{
	char text[KH_LIMIT_SURVEY_PATH_BYTES + 1];
	ssize_t n = readlinkat(from_dir, from, text, sizeof(text) - 1);
	if (n < 0)
		return false;
	text[n] = '\0';
	return symlinkat(text, to_dir, to) == 0 && give_owner_of(to_dir, to, S_IFLNK, st);
}

struct below {
	int to;
	struct way way;
};

static bool copy_entry(int dir, const char *name, void *arg)
{
	const struct below *below = arg;
	return copy(dir, name, below->to, name, below->way);
}

static bool copy_folder(int from_dir, const char *from, int to_dir, const char *to,
			const struct stat *st, struct way way)
{
	if (way.depth >= KH_LIMIT_SURVEY_DEPTH) {
		errno = ELOOP;
		return false;
	}
	kh_auto_close int in =
		openat(from_dir, from, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	kh_auto_close int out = in < 0 ? -1 : kh_file_mkdirat(to_dir, to, 0700);
	if (out < 0 || !kh_file_is_fresh(out))
		return false;
	struct below below = { out, { way.depth + 1, way.left } };
	return each_entry(in, copy_entry, &below) && give_owner(out, st) &&
	       fchmod(out, st->st_mode & 0777) == 0;
}

static bool copy(int from_dir, const char *from, int to_dir, const char *to, struct way way)
{
	struct stat st;
	if (fstatat(from_dir, from, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return false;
	make_accessible(from_dir, from);
	if (S_ISREG(st.st_mode))
		return copy_file(from_dir, from, to_dir, to, &st, way.left);
	if (S_ISLNK(st.st_mode))
		return copy_link(from_dir, from, to_dir, to, &st);
	if (S_ISDIR(st.st_mode))
		return copy_folder(from_dir, from, to_dir, to, &st, way);
	mode_t type = S_ISFIFO(st.st_mode) ? S_IFIFO : S_IFREG;
	return mknodat(to_dir, to, type | 0600, 0) == 0 && give_owner_of(to_dir, to, type, &st);
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
	uint64_t left = KH_LIMIT_MOVE_BYTES;
	if (!copy(from_dir, from, to_dir, to, (struct way){ 0, &left })) {
		int saved = errno;
		(void)kh_move_remove(to_dir, to);
		errno = saved;
		return false;
	}
	return kh_move_remove(from_dir, from);
}

bool kh_move_drop(int dir, const char *name)
{
	make_writable(dir);
	return unlinkat(dir, name, 0) == 0;
}

bool kh_move_disarm(int dir, const char *name, const char *as)
{
	struct stat st;
	make_writable(dir);
	kh_auto_close int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		(void)fchmod(fd, st.st_mode & 0666);
	return renameat2(dir, name, dir, as, RENAME_NOREPLACE) == 0;
}
