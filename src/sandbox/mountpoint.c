/*
 * mountpoint.c - folders that a workspace lacks, made for as long as a sandbox runs
 *
 * A name that does not exist can only be kept from being made by mounting something over it, and a
 * mount needs something to lie on: an empty folder, which git does not see. It is removed at the
 * end; where the launcher is killed, the next one does it, by the record.
 *
 * A mount goes when what it lies on is removed, in every sandbox. So each run in a workspace holds
 * a shared lock on it, and only who has it alone removes anything; else it is left to a later run.
 *
 * The workspace's content was written by agents. So every step is taken from a descriptor of the
 * folder before, and no symbolic link is followed.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#include <keyhole/escape.h>
#include <keyhole/file.h>
#include <keyhole/slice.h>

#include "sandbox_internal.h"

/* Opens the folder above the last component; *name is that component, inside of `path`. */
static int open_parent(const char *path, const char **name)
{
	int at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	const char *rest = path;
	while (at >= 0) {
		rest += strspn(rest, "/");
		size_t len = strcspn(rest, "/");
		if (rest[len] == '\0')
			break;
		char component[256];
		if (len >= sizeof(component)) {
			close(at);
			errno = ENAMETOOLONG;
			return -1;
		}
		memcpy(component, rest, len);
		component[len] = '\0';
		int next = openat(at, component, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		int saved = errno;
		close(at);
		errno = saved;
		at = next;
		rest += len;
	}
	*name = rest;
	return at;
}

static bool remember(struct kh_mountpoints *made, const char *path, const struct stat *st)
{
	struct kh_mountpoint *list = reallocarray(made->list, made->n + 1, sizeof(*list));
	if (!list)
		return false;
	made->list = list;
	char *copy = strdup(path);
	if (!copy)
		return false;
	list[made->n++] = (struct kh_mountpoint){ copy, st->st_dev, st->st_ino };
	return true;
}

/* Written down before it is made. */
static bool note(struct kh_mountpoints *made, const char *path, struct kh_err *err)
{
	return made->record < 0 ||
	       kh_file_write_all(made->record, kh_slice_of(path, strlen(path) + 1), err) ||
	       kh_err_wrap(err, "the list of what is put into the workspace, in the folder of this "
				"run");
}

/* Somebody who removes at this moment is soon done; somebody who just holds it is not waited for.
 */
static bool lock_shared(int fd)
{
	enum { TRIES = 100, PAUSE_NS = 20 * 1000 * 1000 };
	for (int i = 0; i < TRIES; i++) {
		if (flock(fd, LOCK_SH | LOCK_NB) == 0)
			return true;
		if (errno != EWOULDBLOCK && errno != EINTR)
			return true; /* A file system without locks: nobody gets it alone either. */
		struct timespec pause = { .tv_nsec = PAUSE_NS };
		(void)nanosleep(&pause, NULL);
	}
	return false;
}

bool kh_mountpoints_begin(struct kh_mountpoints *made, const char *workspace, const char *record,
			  struct kh_err *err)
{
	made->lock = open(workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (made->lock < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "--workspace %s",
				  kh_esc_str(workspace));
	if (!lock_shared(made->lock))
		return kh_err_set(err, KH_ERR_SYSTEM,
				  "--workspace %s: another program holds a lock on the folder",
				  kh_esc_str(workspace));
	if (!record)
		return true;
	made->record_path = strdup(record);
	made->record = open(record, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (!made->record_path || made->record < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", record);
	return note(made, workspace, err);
}

static bool finish(struct kh_mountpoints *made, const char *path, int parent, const char *name,
		   const struct stat *owner, struct kh_err *err)
{
	struct stat st;
	if (geteuid() == 0)
		(void)!fchownat(parent, name, owner->st_uid, owner->st_gid, AT_SYMLINK_NOFOLLOW);
	if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", path);
	return remember(made, path, &st) ||
	       kh_err_set(err, KH_ERR_NO_MEMORY, "%s: no memory", path);
}

static bool fail(const char *path, struct kh_err *err)
{
	return kh_err_sys(err, KH_ERR_SYSTEM, errno,
			  "%s: it must be kept from being made in the sandbox, and an empty one "
			  "can't be put there (make it yourself, or use --workspace DIR:ro)",
			  path);
}

bool kh_mountpoint_make(struct kh_mountpoints *made, const char *path, const struct stat *owner,
			struct kh_err *err)
{
	const char *name = NULL;
	kh_auto_close int parent = open_parent(path, &name);
	if (parent < 0)
		return fail(path, err);
	if (!note(made, path, err))
		return false;
	if (mkdirat(parent, name, 0755) != 0)
		return fail(path, err);
	return finish(made, path, parent, name, owner, err);
}

bool kh_mountpoint_make_file(struct kh_mountpoints *made, const char *path, const char *content,
			     const struct stat *owner, struct kh_err *err)
{
	const char *name = NULL;
	kh_auto_close int parent = open_parent(path, &name);
	if (parent < 0)
		return fail(path, err);
	if (!note(made, path, err))
		return false;
	kh_auto_close int fd =
		openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return fail(path, err);
	return kh_file_write_all(fd, kh_slice_str(content), err) &&
	       finish(made, path, parent, name, owner, err);
}

/* An empty folder, or a file of ours as short as ours are. */
static void remove_one(const char *path, const struct kh_mountpoint *expected)
{
	const char *name = NULL;
	kh_auto_close int parent = open_parent(path, &name);
	struct stat st;
	if (parent < 0 || fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return;
	if (expected && (st.st_dev != expected->dev || st.st_ino != expected->ino))
		return;
	if (S_ISDIR(st.st_mode)) {
		(void)unlinkat(parent, name, AT_REMOVEDIR);
		return;
	}
	char content[8];
	kh_auto_close int fd = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t n = fd >= 0 && S_ISREG(st.st_mode) ? read(fd, content, sizeof(content)) : -1;
	if (n == 0 || (n == 2 && memcmp(content, ".\n", 2) == 0))
		(void)unlinkat(parent, name, 0);
}

void kh_mountpoints_end(struct kh_mountpoints *made)
{
	bool alone = made->lock >= 0 && flock(made->lock, LOCK_EX | LOCK_NB) == 0;
	for (size_t i = made->n; i > 0; i--) {
		if (alone)
			remove_one(made->list[i - 1].path, &made->list[i - 1]);
		free(made->list[i - 1].path);
	}
	if (made->record >= 0)
		close(made->record);
	if (made->record_path && (alone || made->n == 0))
		(void)unlink(made->record_path);
	if (made->lock >= 0)
		close(made->lock);
	free(made->list);
	free(made->record_path);
	*made = (struct kh_mountpoints){ .lock = -1, .record = -1 };
}

static void sweep_paths(struct kh_slice paths)
{
	/* The inner ones were made after the outer ones. */
	size_t end = paths.len;
	while (end > 0) {
		size_t start = end - 1;
		while (start > 0 && paths.ptr[start - 1] != '\0')
			start--;
		if (paths.ptr[end - 1] == '\0' && paths.ptr[start] == '/')
			remove_one(paths.ptr + start, NULL);
		end = start;
	}
}

bool kh_sandbox_sweep(const char *record)
{
	struct kh_buf content kh_cleanup(kh_buf_fini);
	kh_buf_init(&content, 1024 * 1024);
	if (!kh_file_read(record, &content, NULL))
		return access(record, F_OK) != 0;
	struct kh_slice all = kh_buf_view(&content);
	size_t first = kh_slice_find(all, '\0', 0);
	if (first < all.len) {
		kh_auto_close int lock = open(all.ptr, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) != 0)
			return false;
		sweep_paths(kh_slice_sub(all, first + 1, all.len));
	}
	return unlink(record) == 0;
}
