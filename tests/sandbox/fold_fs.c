/*
 * fold_fs.c - a FUSE file system in which a server ignores case, and the kernel does not know it
 *
 * Usage: fold_fs FOLDER MOUNTPOINT [exact]. Shows the files and folders of FOLDER; a name that is
 * not there leads to the entry that differs from it in case only, unless the third word is given.
 * test_spelling.py builds it where there is fuse3.
 */
#define _GNU_SOURCE
#define FUSE_USE_VERSION 31

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

static int top = -1;
static bool exact;

/* The entry of a folder that a name stands for. */
static void fold(int folder, char *name)
{
	struct stat st;
	if (exact || fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return;
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	while (dir && (entry = readdir(dir)))
		if (strcasecmp(entry->d_name, name) == 0)
			memcpy(name, entry->d_name, strlen(name));
	if (dir)
		closedir(dir);
}

/* What is made belongs to who made it, and not to the server. */
static bool give(int at, const char *name)
{
	const struct fuse_context *who = fuse_get_context();
	return fchownat(at, name, who->uid, who->gid, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The folder of a path, and the name in it. */
static int enter(const char *path, char name[NAME_MAX + 1])
{
	int at = openat(top, ".", O_PATH | O_DIRECTORY);
	memcpy(name, ".", sizeof("."));
	for (const char *rest = path + 1; at >= 0 && *rest;) {
		size_t len = strcspn(rest, "/");
		if (strcmp(name, ".") != 0) {
			int next = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
			close(at);
			at = next;
		}
		if (at < 0 || len > NAME_MAX)
			break;
		memcpy(name, rest, len);
		name[len] = '\0';
		fold(at, name);
		rest += len + (rest[len] == '/');
	}
	return at;
}

static int end(int at, int failed)
{
	int why = errno;
	if (at >= 0)
		close(at);
	return failed ? -why : 0;
}

static int fs_getattr(const char *path, struct stat *st, struct fuse_file_info *info)
{
	char name[NAME_MAX + 1];
	int at = enter(path, name);
	(void)info;
	return end(at, at < 0 || fstatat(at, name, st, AT_SYMLINK_NOFOLLOW) != 0);
}

static int fs_mkdir(const char *path, mode_t mode)
{
	char name[NAME_MAX + 1];
	int at = enter(path, name);
	return end(at, at < 0 || mkdirat(at, name, mode) != 0 || !give(at, name));
}

static int fs_unlink(const char *path)
{
	char name[NAME_MAX + 1];
	int at = enter(path, name);
	return end(at, at < 0 || unlinkat(at, name, 0) != 0);
}

static int fs_rmdir(const char *path)
{
	char name[NAME_MAX + 1];
	int at = enter(path, name);
	return end(at, at < 0 || unlinkat(at, name, AT_REMOVEDIR) != 0);
}

static int fs_chmod(const char *path, mode_t mode, struct fuse_file_info *info)
{
	char name[NAME_MAX + 1];
	int at = enter(path, name);
	(void)info;
	return end(at, at < 0 || fchmodat(at, name, mode, 0) != 0);
}

static int fs_chown(const char *path, uid_t uid, gid_t gid, struct fuse_file_info *info)
{
	char name[NAME_MAX + 1];
	int at = enter(path, name);
	(void)info;
	return end(at, at < 0 || fchownat(at, name, uid, gid, AT_SYMLINK_NOFOLLOW) != 0);
}

static int fs_open(const char *path, struct fuse_file_info *info)
{
	char name[NAME_MAX + 1];
	int at = enter(path, name);
	int fd = at < 0 ? -1 : openat(at, name, info->flags | O_NOFOLLOW);
	info->fh = (uint64_t)fd;
	return end(at, fd < 0);
}

static int fs_create(const char *path, mode_t mode, struct fuse_file_info *info)
{
	char name[NAME_MAX + 1];
	int at = enter(path, name);
	int fd = at < 0 ? -1 : openat(at, name, info->flags | O_CREAT | O_NOFOLLOW, mode);
	info->fh = (uint64_t)fd;
	return end(at, fd < 0 || !give(at, name));
}

static int fs_truncate(const char *path, off_t size, struct fuse_file_info *info)
{
	char name[NAME_MAX + 1];
	int at = enter(path, name);
	(void)info;
	int fd = at < 0 ? -1 : openat(at, name, O_WRONLY | O_NOFOLLOW);
	int failed = fd < 0 || ftruncate(fd, size) != 0;
	int result = end(at, failed);
	if (fd >= 0)
		close(fd);
	return result;
}

static int fs_read(const char *path, char *buf, size_t n, off_t at, struct fuse_file_info *info)
{
	ssize_t got = pread((int)info->fh, buf, n, at);
	(void)path;
	return got < 0 ? -errno : (int)got;
}

static int fs_write(const char *path, const char *buf, size_t n, off_t at,
		    struct fuse_file_info *info)
{
	ssize_t put = pwrite((int)info->fh, buf, n, at);
	(void)path;
	return put < 0 ? -errno : (int)put;
}

static int fs_release(const char *path, struct fuse_file_info *info)
{
	(void)path;
	return close((int)info->fh) == 0 ? 0 : -errno;
}

static int fs_readdir(const char *path, void *out, fuse_fill_dir_t put, off_t from,
		      struct fuse_file_info *info, enum fuse_readdir_flags flags)
{
	char name[NAME_MAX + 1];
	int at = enter(path, name);
	(void)from, (void)info, (void)flags;
	int fd = at < 0 ? -1 : openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int result = end(at, !dir);
	while (dir && (entry = readdir(dir)))
		put(out, entry->d_name, NULL, 0, 0);
	if (dir)
		closedir(dir);
	return result;
}

static void *fs_init(struct fuse_conn_info *connection, struct fuse_config *config)
{
	(void)connection;
	config->use_ino = 1;
	config->entry_timeout = config->attr_timeout = config->negative_timeout = 0;
	return NULL;
}

static const struct fuse_operations operations = {
	.init = fs_init,
	.getattr = fs_getattr,
	.mkdir = fs_mkdir,
	.unlink = fs_unlink,
	.rmdir = fs_rmdir,
	.chmod = fs_chmod,
	.chown = fs_chown,
	.create = fs_create,
	.open = fs_open,
	.truncate = fs_truncate,
	.read = fs_read,
	.write = fs_write,
	.release = fs_release,
	.readdir = fs_readdir,
};

int main(int argc, char **argv)
{
	char options[] = "-f", single[] = "-s", o[] = "-o",
	     shared[] = "allow_other,default_permissions";
	if (argc < 3)
		return 2;
	exact = argc > 3;
	top = open(argv[1], O_PATH | O_DIRECTORY);
	umask(0);
	char *args[] = { argv[0], argv[2], options, single, o, shared, NULL };
	return top < 0 ? 1 : fuse_main(6, args, &operations, NULL);
}
