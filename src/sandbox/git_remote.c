/* git_remote.c - which repository git takes for the path of a remote on this host */
#include "git_remote.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>

#include "git_path.h"
#include "tree_reads.h"

static const char *const endings[] = { "", "/.git", "/.git/.git", ".git", ".bundle" };
enum { N_ENDINGS = sizeof(endings) / sizeof(endings[0]) };

static bool is_kind(int dir, const char *name, mode_t kind)
{
	struct stat st;
	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && (st.st_mode & S_IFMT) == kind;
}

/* As git knows one by its contents. */
static bool is_git_folder(int fd)
{
	return is_kind(fd, "HEAD", S_IFREG) &&
	       (is_kind(fd, "commondir", S_IFREG) ||
		(is_kind(fd, "objects", S_IFDIR) && is_kind(fd, "refs", S_IFDIR)));
}

/* A file .git, or a commondir, says where the rest is: outside, where somebody made it so. */
static bool is_whole_inside(const char *root, const char *path)
{
	kh_auto_free char *own = kh_tree_own_git_dir(path);
	kh_auto_free char *resolved = own ? realpath(own, NULL) : NULL;
	kh_auto_free char *common = kh_tree_git_dir(path);
	return resolved && common && kh_git_holds(root, resolved) && kh_git_holds(root, common);
}

static bool is_repository(int fd)
{
	if (is_kind(fd, ".git", S_IFREG))
		return true;
	kh_auto_close int git = openat(fd, ".git", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return is_git_folder(git >= 0 ? git : fd);
}

static bool has_link(const char *path, bool *absent)
{
	bool link = false;
	*absent = true;
	for (size_t i = 0; i < N_ENDINGS; i++) {
		struct stat st;
		kh_auto_free char *name = kh_strf("%s%s", path, endings[i]);
		bool there = !name || lstat(name, &st) == 0;
		link = link || !name || (there && S_ISLNK(st.st_mode));
		*absent = *absent && !there;
	}
	return link;
}

static char *without_slashes(const char *path)
{
	size_t len = strlen(path);
	while (len > 1 && path[len - 1] == '/')
		len--;
	return strndup(path, len);
}

bool kh_git_remote_is_inside(const char *root, int root_fd, const char *path)
{
	kh_auto_free char *plain = without_slashes(path);
	size_t len = strlen(root);
	bool absent;
	if (!plain || strncmp(plain, root, len) != 0 || (plain[len] != '/' && plain[len]) ||
	    has_link(plain, &absent))
		return false;
	kh_auto_close int fd = kh_file_open_below(root_fd, plain + len, O_PATH | O_DIRECTORY);
	return fd >= 0 && is_repository(fd) && is_whole_inside(root, plain);
}

bool kh_git_remote_is_absent(const char *path)
{
	kh_auto_free char *plain = without_slashes(path);
	bool absent = false;
	return plain && !has_link(plain, &absent) && absent;
}

bool kh_git_remote_where(const char *path, struct kh_buf *out)
{
	kh_auto_free char *plain = without_slashes(path);
	bool ok = plain != NULL;
	for (size_t i = 0; ok && i < N_ENDINGS; i++) {
		kh_auto_free char *name = kh_strf("%s%s", plain, endings[i]);
		kh_auto_free char *there = name ? realpath(name, NULL) : NULL;
		ok = name && kh_buf_append_str(out, there ? there : "nowhere") &&
		     kh_buf_append_char(out, '\0');
	}
	return ok;
}
