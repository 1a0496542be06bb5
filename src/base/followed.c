/*
 * followed.c - opens a file without following other users' links to files that are not theirs
 *
 * Who may write to the folder of one tenant's file can put a symbolic link in its place. We can
 * read files that he can't, such as another tenant's, so he would have them read for him. A link is
 * followed only if it belongs to root or to this user, or if it leads to a file of its own owner
 * that is in the same folder or below. The owner alone says too little: two tenants' containers may
 * have one user, and see different folders.
 */
#include <keyhole/base/file.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>

enum { LINKS_MOST = 40 }; /* as the kernel */

struct walk {
	int dir;    /* what `rest` is relative to */
	char *rest; /* heap */
	int flags;  /* for the file itself */
	int links;
};

static void walk_fini(struct walk *w)
{
	if (w->dir >= 0)
		(void)close(w->dir);
	free(w->rest);
}

static bool go_to(struct walk *w, int dir)
{
	if (dir < 0)
		return false;
	if (w->dir >= 0)
		(void)close(w->dir);
	w->dir = dir;
	return true;
}

/* From the root if it is absolute. */
static bool begin_path(struct walk *w, char *path)
{
	free(w->rest);
	w->rest = path;
	return path && (path[0] != '/' || go_to(w, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)));
}

/* The kernel leads some links of /proc to files that have no path (a shell's process substitution).
 */
static bool is_of_proc(int fd)
{
	struct statfs fs;
	return fstatfs(fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

static bool read_link(int link, char target[PATH_MAX])
{
	ssize_t n = readlinkat(link, "", target, PATH_MAX);
	if (n <= 0 || n == PATH_MAX) {
		errno = n < 0 ? errno : n == 0 ? ENOENT : ENAMETOOLONG;
		return false;
	}
	target[n] = '\0';
	return true;
}

static bool is_ours(const struct stat *st)
{
	return st->st_uid == 0 || st->st_uid == geteuid();
}

/* What another user's link and `rest` lead to, if that is his, and within the link's folder: where
 * he may put a link he may put a file. Return: -1 with errno. */
static int open_theirs(const struct walk *w, int link, const struct stat *its, const char *rest)
{
	char target[PATH_MAX];
	struct stat st;
	if (!read_link(link, target))
		return -1;
	kh_auto_free char *path = kh_strf("%s/%s", target, rest);
	kh_auto_close int fd = path ? kh_file_resolve(w->dir, *rest ? path : target, w->flags,
						      RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)
				    : -1;
	if (fd < 0) {
		errno = errno == EXDEV ? ELOOP : errno;
		return -1;
	}
	if (fstat(fd, &st) == 0 && st.st_uid == its->st_uid)
		return kh_steal_fd(&fd);
	errno = ELOOP;
	return -1;
}

/* Continues with what the link says, and after it with `rest`. */
static bool follow(struct walk *w, int link, const char *rest)
{
	char target[PATH_MAX];
	if (++w->links > LINKS_MOST) {
		errno = ELOOP;
		return false;
	}
	return read_link(link, target) && begin_path(w, kh_strf("%s/%s", target, rest));
}

/* Opens the next name. Return: -1 with errno; errno 0: the walk goes on. */
static int step(struct walk *w)
{
	char *name = w->rest + strspn(w->rest, "/");
	size_t len = strcspn(name, "/");
	const char *rest = name + len + strspn(name + len, "/");
	bool last = *rest == '\0';
	name[len] = '\0';
	kh_auto_close int fd = openat(w->dir, *name ? name : ".", O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) != 0)
		return -1;
	bool link = S_ISLNK(st.st_mode), magic = link && is_of_proc(fd);
	if (link && !is_ours(&st))
		return open_theirs(w, fd, &st, rest);
	if (link && !magic) {
		errno = follow(w, fd, rest) ? 0 : errno;
		return -1;
	}
	if (last)
		return openat(w->dir, *name ? name : ".", w->flags | (magic ? 0 : O_NOFOLLOW));
	bool went = go_to(w, magic ? openat(w->dir, name, O_PATH | O_CLOEXEC) : kh_steal_fd(&fd)) &&
		    begin_path(w, strdup(rest));
	errno = went ? 0 : errno;
	return -1;
}

static int walk_path(const char *path, int flags)
{
	kh_cleanup(walk_fini) struct walk w = { .dir = -1, .flags = flags };
	if (!go_to(&w, open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)) ||
	    !begin_path(&w, strdup(path)))
		return -1;
	for (unsigned names = 0; names < PATH_MAX; names++) {
		int fd = step(&w);
		if (fd >= 0 || errno != 0)
			return fd;
	}
	errno = ENAMETOOLONG;
	return -1;
}

int kh_file_open_followed(const char *path, int flags)
{
	int fd = kh_file_resolve(AT_FDCWD, path, flags, RESOLVE_NO_SYMLINKS);
	return fd >= 0 ? fd : walk_path(path, flags | O_CLOEXEC);
}
