/*
 * review_tree.c - opens, walks and removes trees that an agent wrote, and never leaves them
 *
 * Every name is looked up below an open folder, through no symbolic link and into no other mount.
 * So a link that an agent made can't lead outside of the tree.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <linux/openat2.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>

#include "review_internal.h"

int kh_review_beneath_open(int folder, const char *path, int flags)
{
	return kh_file_resolve(folder, path, flags,
			       RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
}

int kh_review_beneath_stat(int folder, const char *path, struct stat *st)
{
	kh_auto_close int fd = kh_review_beneath_open(folder, path, O_PATH | O_NOFOLLOW);
	return fd < 0 ? -1 : fstat(fd, st);
}

int kh_review_beneath_parent(int folder, const char *path, const char **name)
{
	const char *slash = strrchr(path, '/');
	kh_auto_free char *parent = slash ? strndup(path, (size_t)(slash - path)) : strdup("");
	*name = slash ? slash + 1 : path;
	if (!parent) {
		errno = ENOMEM;
		return -1;
	}
	return kh_review_beneath_open(folder, parent, O_RDONLY | O_DIRECTORY);
}

int kh_review_open_made(int parent, const char *name, bool fresh)
{
	kh_auto_close int fd = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 || (fresh && !kh_file_is_fresh(fd)) ? -1 : kh_steal_fd(&fd);
}

char *kh_review_beneath_link(int folder, const char *path)
{
	char text[KH_REVIEW_PATH_BYTES];
	kh_auto_close int fd = kh_review_beneath_open(folder, path, O_PATH | O_NOFOLLOW);
	ssize_t n = fd < 0 ? -1 : readlinkat(fd, "", text, sizeof(text) - 1);
	if (n < 0)
		return NULL;
	text[n] = '\0';
	return strdup(text);
}

/* ---- walking ---- */

struct names {
	char **list;
	size_t n, alloc;
};

static void names_fini(struct names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->list[i]);
	free(names->list);
}

static bool names_add(struct names *names, const char *name)
{
	if (names->n == names->alloc) {
		size_t alloc = names->alloc ? names->alloc * 2 : 32;
		char **list = reallocarray(names->list, alloc, sizeof(*list));
		if (!list)
			return false;
		names->list = list;
		names->alloc = alloc;
	}
	names->list[names->n] = strdup(name);
	return names->list[names->n] && ++names->n;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

struct state {
	struct kh_tree_walker *walker;
	char path[KH_REVIEW_PATH_BYTES];
	unsigned depth;
	struct kh_err *err;
};

static bool too_many(struct state *s)
{
	return kh_err_set(s->err, KH_ERR_USAGE,
			  "more than %d files and folders: not all of them are looked at, so none "
			  "is taken for looked at",
			  KH_LIMIT_REVIEW_ENTRIES);
}

/* Takes `fd` over. */
static bool read_names(struct state *s, int fd, struct names *names)
{
	DIR *dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return kh_err_sys(s->err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(s->path));
	}
	bool ok = true;
	const struct dirent *entry;
	while (ok && (entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (++s->walker->entries > KH_LIMIT_REVIEW_ENTRIES)
			ok = too_many(s);
		else if (!names_add(names, entry->d_name))
			ok = kh_err_set(s->err, KH_ERR_NO_MEMORY, "no memory");
	}
	closedir(dir);
	if (ok && names->n > 1)
		qsort(names->list, names->n, sizeof(*names->list), by_name);
	return ok;
}

static enum kh_walk_order walk(struct state *s, int fd);

static enum kh_walk_order stop_unless(bool ok)
{
	return ok ? KH_WALK_ON : KH_WALK_STOP;
}

/* The folder that `entry` was told of: by now another user's may have its name. */
static enum kh_walk_order enter(struct state *s, int fd, const char *name, const struct stat *st)
{
	struct kh_tree_walker *w = s->walker;
	struct stat now;
	kh_auto_close int below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (below < 0 || s->depth >= KH_LIMIT_REVIEW_DEPTH)
		return w->unreadable(w->arg, s->path, below < 0 ? errno : ENAMETOOLONG);
	if (fstat(below, &now) != 0 || !kh_review_owner_is_same(st, &now))
		return w->unreadable(w->arg, s->path, ESTALE);
	s->depth++;
	enum kh_walk_order got = walk(s, below);
	s->depth--;
	return got != KH_WALK_STOP && w->leave ? w->leave(w->arg, s->path) : got;
}

static enum kh_walk_order visit(struct state *s, int fd, const char *name, size_t len)
{
	struct kh_tree_walker *w = s->walker;
	struct stat st;
	size_t add = strlen(name);
	if (len + add + 2 > sizeof(s->path))
		return w->unreadable(w->arg, s->path, ENAMETOOLONG);
	if (len)
		s->path[len] = '/';
	memcpy(s->path + len + (len != 0), name, add + 1);
	enum kh_walk_order got = KH_WALK_ON;
	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
		if (errno != ENOENT) /* else it went meanwhile */
			got = w->unreadable(w->arg, s->path, errno);
	} else {
		got = w->entry(w->arg, s->path, &st);
		if (got == KH_WALK_ON && S_ISDIR(st.st_mode))
			got = enter(s, fd, name, &st);
	}
	s->path[len] = '\0';
	return got == KH_WALK_STOP ? got : KH_WALK_ON;
}

static enum kh_walk_order walk(struct state *s, int fd)
{
	struct names names kh_cleanup(names_fini) = { 0 };
	int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (again < 0)
		return s->walker->unreadable(s->walker->arg, s->path, errno);
	enum kh_walk_order got = stop_unless(read_names(s, again, &names));
	size_t len = strlen(s->path);
	for (size_t i = 0; got == KH_WALK_ON && i < names.n; i++)
		got = visit(s, fd, names.list[i], len);
	return got;
}

bool kh_tree_walk(struct kh_tree_walker *walker, int folder, const char *path, struct kh_err *err)
{
	struct state s = { .walker = walker, .err = err };
	size_t len = strlen(path);
	if (len >= sizeof(s.path))
		return kh_err_set(err, KH_ERR_SYSTEM, "too long a path");
	memcpy(s.path, path, len + 1);
	kh_auto_close int fd = kh_review_beneath_open(folder, path, O_RDONLY | O_DIRECTORY);
	if (fd < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(path));
	return walk(&s, fd) != KH_WALK_STOP;
}

/* ---- removing ---- */

static bool could_not_remove(const char *name, struct kh_err *err)
{
	return kh_err_sys(err, KH_ERR_SYSTEM, errno, "removing %s", kh_esc_str(name));
}

/* A folder that its owner shut, too. */
static int open_for_removal(int above, const char *name)
{
	int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(above, name, flags);
	if (fd >= 0 || errno != EACCES)
		return fd;
	kh_auto_close int shut = kh_review_open_made(above, name, false);
	return shut >= 0 && kh_file_set_mode(shut, 0700) ? openat(above, name, flags) : -1;
}

/* A tree may be deeper than there are descriptors: what is deep comes up first. */
static bool raise_deep(int top, int fd, const char *name)
{
	static unsigned counter;
	char new_name[48];
	snprintf(new_name, sizeof(new_name), ".keyhole-deep-%d-%u", (int)getpid(), counter++);
	return renameat(fd, name, top, new_name) == 0;
}

static bool empty(int top, int fd, unsigned depth, struct kh_err *err);

static bool remove_entry(int top, int fd, const char *name, unsigned depth, struct kh_err *err)
{
	if (unlinkat(fd, name, 0) == 0 || errno == ENOENT)
		return true;
	if (errno != EISDIR && errno != EPERM && errno != EACCES)
		return could_not_remove(name, err);
	if (depth >= KH_LIMIT_REVIEW_DEPTH)
		return raise_deep(top, fd, name) || could_not_remove(name, err);
	kh_auto_close int below = open_for_removal(fd, name);
	if (below < 0)
		return could_not_remove(name, err);
	struct stat st;
	if (fstat(below, &st) == 0 && (st.st_mode & 0700) != 0700)
		(void)fchmod(below, 0700);
	return empty(top, below, depth + 1, err) &&
	       (unlinkat(fd, name, AT_REMOVEDIR) == 0 || could_not_remove(name, err));
}

static bool empty(int top, int fd, unsigned depth, struct kh_err *err)
{
	int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = again < 0 ? NULL : fdopendir(again);
	if (!dir)
		return could_not_remove("a folder", err);
	bool ok = true;
	const struct dirent *entry;
	while (ok && (entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			ok = remove_entry(top, fd, entry->d_name, depth, err);
	closedir(dir);
	return ok;
}

bool kh_tree_remove(int above, const char *name, struct kh_err *err)
{
	kh_auto_close int fd = open_for_removal(above, name);
	if (fd < 0) {
		if (errno == ENOENT)
			return true;
		return (errno == ENOTDIR || errno == ELOOP) && unlinkat(above, name, 0) == 0
			       ? true
			       : could_not_remove(name, err);
	}
	(void)fchmod(fd, 0700);
	/* What came up from the deep is met by a later round. */
	for (int round = 0; round < KH_LIMIT_REVIEW_DEPTH; round++) {
		if (!empty(fd, fd, 0, err))
			return false;
		if (unlinkat(above, name, AT_REMOVEDIR) == 0)
			return true;
		if (errno != ENOTEMPTY)
			break;
	}
	return could_not_remove(name, err);
}
