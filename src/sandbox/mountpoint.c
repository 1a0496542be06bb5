/*
 * mountpoint.c - stubs: mount points that a workspace lacks, made while a sandbox runs
 *
 * Only a mount can keep an agent from creating a name that does not exist, and a mount needs a
 * mount point: an empty folder, which git ignores, or a short file. runs.c records each stub before
 * it is made, counts the runs that need it, and removes it after the last.
 *
 * Agents write to the workspace. So every step starts from a descriptor of the folder before, and
 * no symbolic link is followed.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/slice.h>

#include "aside.h"
#include "protected.h"
#include "runs.h"
#include "sandbox_internal.h"

/* Opens the folder above the last component; *name is that component, inside of `path`. */
int kh_mountpoint_open_parent(const char *path, const char **name)
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

/* By the descriptor: whoever may write to the folder can put another thing under the name. */
static void give(int fd, const struct stat *owner)
{
	if (geteuid() == 0)
		(void)!fchownat(fd, "", owner->st_uid, owner->st_gid, AT_EMPTY_PATH);
}

static bool fail(const char *path, struct kh_err *err)
{
	if (errno == EACCES || errno == EPERM || errno == EROFS)
		return kh_err_sys(
			err, KH_ERR_SYSTEM, errno,
			"%s: you may not write to this folder, and a workspace that can "
			"be written to needs that (use --workspace DIR:ro, or a folder of "
			"your own)",
			path);
	return kh_err_sys(err, KH_ERR_SYSTEM, errno,
			  "%s: it must be kept from being made in the sandbox, and an empty one "
			  "can't be put there (make it yourself, or use --workspace DIR:ro)",
			  path);
}

bool kh_mountpoint_make(const struct kh_run_record *record, const char *path,
			const struct stat *owner, struct kh_err *err)
{
	const char *name = NULL;
	kh_auto_close int parent = kh_mountpoint_open_parent(path, &name);
	if (parent < 0)
		return fail(path, err);
	if (record && !kh_run_record_stub(record, path, err))
		return false;
	kh_auto_close int fd = kh_file_mkdirat(parent, name, 0700);
	if (fd < 0 || !kh_file_is_fresh(fd))
		return fail(path, err);
	give(fd, owner);
	return fchmod(fd, 0755) == 0 || fail(path, err);
}

bool kh_mountpoint_make_file(const struct kh_run_record *record, const char *path,
			     const char *content, const struct stat *owner, struct kh_err *err)
{
	const char *name = NULL;
	kh_auto_close int parent = kh_mountpoint_open_parent(path, &name);
	if (parent < 0)
		return fail(path, err);
	if (record && !kh_run_record_stub(record, path, err))
		return false;
	kh_auto_close int fd =
		openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return fail(path, err);
	give(fd, owner);
	return kh_file_write_all(fd, kh_slice_str(content), err);
}

void kh_mountpoint_remove(const char *path)
{
	const char *name = NULL;
	kh_auto_close int parent = kh_mountpoint_open_parent(path, &name);
	struct stat st;
	if (parent < 0 || fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return;
	if (S_ISDIR(st.st_mode)) {
		(void)unlinkat(parent, name, AT_REMOVEDIR);
		return;
	}
	char content[8];
	kh_auto_close int fd = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t n = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)
			    ? read(fd, content, sizeof(content))
			    : -1;
	/* An empty one of a protected name is the user's: in its place keyhole puts a folder. */
	if ((n == 0 && !kh_protected_is_name(name)) ||
	    (n == 2 && strcmp(name, "commondir") == 0 && memcmp(content, ".\n", 2) == 0))
		(void)unlinkat(parent, name, 0);
}
