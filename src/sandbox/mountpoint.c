/*
 * mountpoint.c - folders that a workspace lacks, made for as long as a sandbox runs
 *
 * A name that does not exist can only be kept from being made by mounting something over it, and a
 * mount needs something to lie on: an empty folder, which git does not see. It is removed at the
 * end; where the launcher is killed, the next one does it, by the record.
 *
 * The workspace's content was written by agents. So every step is taken from a descriptor of the
 * folder before, and no symbolic link is followed.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

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
	       kh_file_write_all(made->record, kh_slice_of(path, strlen(path) + 1), err);
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
	if (fd >= 0 && S_ISREG(st.st_mode) && read(fd, content, sizeof(content)) == 2 &&
	    memcmp(content, ".\n", 2) == 0)
		(void)unlinkat(parent, name, 0);
}

void kh_mountpoints_remove(struct kh_mountpoints *made)
{
	for (size_t i = made->n; i > 0; i--) {
		remove_one(made->list[i - 1].path, &made->list[i - 1]);
		free(made->list[i - 1].path);
	}
	free(made->list);
	if (made->record >= 0) {
		close(made->record);
		(void)unlink(made->record_path);
	}
	free(made->record_path);
	*made = (struct kh_mountpoints){ .record = -1 };
}

void kh_sandbox_sweep(const char *record)
{
	struct kh_buf paths kh_cleanup(kh_buf_fini);
	kh_buf_init(&paths, 1024 * 1024);
	if (!kh_file_read(record, &paths, NULL))
		return;
	struct kh_slice all = kh_buf_view(&paths);
	/* The inner ones were made after the outer ones. */
	size_t end = all.len;
	while (end > 0) {
		size_t start = end - 1;
		while (start > 0 && all.ptr[start - 1] != '\0')
			start--;
		if (all.ptr[end - 1] == '\0' && all.ptr[start] == '/')
			remove_one(all.ptr + start, NULL);
		end = start;
	}
}
