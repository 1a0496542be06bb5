/*
 * link_end.c - resolves a symbolic link as the host would
 *
 * A folder has many spellings (//a, /a/../a, out of the workspace and back), so the path is walked,
 * not parsed: each step is a descriptor, and the kernel tells where the last one is. A step is
 * opened with O_PATH and follows no link, so that no link can trigger an automount. A link through
 * /proc means something else to each process, so its target is unknown.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <linux/magic.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/link_end.h>

enum { HOPS_MOST = 40 /* as the kernel */, PROC_ROOT_INODE = 1 };

struct way {
	int at;
	char *rest; /* heap: what is still to be gone */
	int hops;
};

/* How a step ended. */
enum step { GO_ON, ARRIVED, NOBODY, UNKNOWN };

static void way_fini(struct way *way)
{
	free(way->rest);
	if (way->at >= 0)
		close(way->at);
}

static void move_to(struct way *way, int fd)
{
	if (way->at >= 0)
		close(way->at);
	way->at = fd;
}

static bool is_in_proc(int fd)
{
	struct statfs fs;
	return fstatfs(fd, &fs) != 0 || fs.f_type == PROC_SUPER_MAGIC;
}

/* Another user's folder that is closed to us is closed to the agent too, which is who we are. */
static bool is_closed_by_another(int fd)
{
	struct stat st;
	return errno == EACCES && fstat(fd, &st) == 0 && st.st_uid != geteuid();
}

/* The next process may find something where there is nothing now: in /proc. */
static enum step stuck(const struct way *way)
{
	if (is_closed_by_another(way->at))
		return NOBODY;
	bool absent = errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG;
	return absent && !is_in_proc(way->at) ? NOBODY : UNKNOWN;
}

/* /proc/self and its like say what they mean; what is below leads where the process has it. */
static enum step enter_magic(const struct way *way, const char *part, const char *rest)
{
	struct stat st;
	if (fstat(way->at, &st) == 0 && st.st_ino == PROC_ROOT_INODE)
		return GO_ON;
	/* A terminal or a pipe, /dev/stdin. */
	bool is_end = !rest[strspn(rest, "/")];
	return is_end && fstatat(way->at, part, &st, 0) == 0 && !S_ISDIR(st.st_mode) ? NOBODY
										     : UNKNOWN;
}

static enum step enter_link(struct way *way, int link, const char *part, const char *rest)
{
	char text[PATH_MAX];
	enum step magic = is_in_proc(link) ? enter_magic(way, part, rest) : GO_ON;
	if (magic != GO_ON)
		return magic;
	if (++way->hops > HOPS_MOST)
		return NOBODY;
	ssize_t n = readlinkat(link, "", text, sizeof(text) - 1);
	if (n <= 0)
		return UNKNOWN;
	text[n] = '\0';
	char *joined = kh_strf("%s/%s", text, rest);
	if (!joined)
		return UNKNOWN;
	free(way->rest);
	way->rest = joined;
	if (text[0] == '/')
		move_to(way, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
	return way->at >= 0 ? GO_ON : UNKNOWN;
}

static enum step step(struct way *way)
{
	const char *start = way->rest + strspn(way->rest, "/");
	size_t len = strcspn(start, "/");
	struct stat st;
	if (len == 0)
		return ARRIVED;
	kh_auto_free char *part = strndup(start, len);
	kh_auto_free char *rest = strdup(start + len);
	if (!part || !rest)
		return UNKNOWN;
	kh_auto_close int fd = openat(way->at, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return stuck(way);
	if (fstat(fd, &st) != 0)
		return UNKNOWN;
	if (S_ISLNK(st.st_mode))
		return enter_link(way, fd, part, rest);
	if (!S_ISDIR(st.st_mode))
		return NOBODY;
	move_to(way, kh_steal_fd(&fd));
	free(way->rest);
	way->rest = kh_steal_ptr(&rest);
	return GO_ON;
}

static enum step set_out(struct way *way, int dir, const char *name)
{
	*way = (struct way){ .at = fcntl(dir, F_DUPFD_CLOEXEC, 0), .rest = strdup(name) };
	return way->at >= 0 && way->rest ? GO_ON : UNKNOWN;
}

/* ---- where that is ---- */

static bool path_of(int fd, char path[static PATH_MAX])
{
	char name[48];
	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(name, path, PATH_MAX - 1);
	path[n > 0 ? n : 0] = '\0';
	return n > 0 && n < PATH_MAX - 1 && path[0] == '/';
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* How far above the folder is the root, whichever mount either was reached by? */
static enum kh_link_end climb(int root, int fd, size_t *steps)
{
	struct stat top, here, above;
	kh_auto_close int at = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (at < 0 || fstat(root, &top) != 0 || fstat(at, &here) != 0)
		return KH_LINK_UNKNOWN;
	for (*steps = 0; !is_same(&here, &top); ++*steps, here = above) {
		int next = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (next < 0)
			return is_closed_by_another(at) ? KH_LINK_OUTSIDE : KH_LINK_UNKNOWN;
		close(at);
		at = next;
		if (*steps > PATH_MAX || fstat(at, &above) != 0)
			return KH_LINK_UNKNOWN;
		if (is_same(&here, &above))
			return KH_LINK_OUTSIDE;
	}
	return KH_LINK_INSIDE;
}

static enum kh_link_end place(int root, int fd, char **path)
{
	char text[PATH_MAX];
	size_t steps = 0;
	enum kh_link_end end = climb(root, fd, &steps);
	if (end != KH_LINK_INSIDE)
		return end;
	if (!path_of(fd, text))
		return KH_LINK_UNKNOWN;
	char *at = text + strlen(text);
	for (size_t i = 0; i < steps; i++)
		while (at > text && *--at != '/')
			;
	*path = strdup(at + (steps > 0));
	return *path ? KH_LINK_INSIDE : KH_LINK_UNKNOWN;
}

enum kh_link_end kh_link_end(int root, int dir, const char *name, char **path)
{
	struct way way;
	enum step how = set_out(&way, dir, name);
	*path = NULL;
	while (how == GO_ON)
		how = step(&way);
	enum kh_link_end end = how == NOBODY ? KH_LINK_NO_FOLDER : KH_LINK_UNKNOWN;
	if (how == ARRIVED)
		end = place(root, way.at, path);
	way_fini(&way);
	return end;
}

bool kh_link_end_each(int dir, const char *name, void (*met)(void *arg, const struct stat *folder),
		      void *arg)
{
	struct way way;
	struct stat st;
	enum step how = set_out(&way, dir, name);
	while (how == GO_ON) {
		how = step(&way);
		if (way.at >= 0 && fstat(way.at, &st) == 0)
			met(arg, &st);
		else
			how = UNKNOWN;
	}
	way_fini(&way);
	return how != UNKNOWN;
}
