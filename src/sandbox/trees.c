/* trees.c - searches the mounted trees of the host for sockets and set-ID files (trees.h) */
#include "trees.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/base/slice.h>

#include "folder_queue.h"
#include "sandbox_internal.h"

struct walk {
	struct kh_view *view;
	size_t n_before;	     /* of the view: what was laid before */
	const char *source, *target; /* the tree, on the host and inside */
	int root;		     /* the tree: nothing in it is opened by its whole path */
	bool writable;
	struct kh_folder_queue queue;
	unsigned entries, covers;
	struct kh_err *err;
};

static bool no_memory(const struct walk *w)
{
	return kh_err_set(w->err, KH_ERR_NO_MEMORY, "looking through %s: no memory",
			  kh_esc_str(w->source));
}

static bool push(struct walk *w, struct kh_queued_folder *above, const char *name)
{
	if (w->queue.bytes > KH_LIMIT_SURVEY_MEMORY_BYTES)
		return kh_err_set(
			w->err, KH_ERR_USAGE,
			"%s: too many folders to be looked at for sockets and set-ID files "
			"in %d MiB of memory (name a smaller folder)",
			kh_esc_str(w->source), KH_LIMIT_SURVEY_MEMORY_BYTES >> 20);
	return kh_folder_queue_add(&w->queue, above, name) || no_memory(w);
}

static bool is_at_or_below(const char *path, const char *folder)
{
	size_t len = strlen(folder);
	return strncmp(path, folder, len) == 0 && (path[len] == '/' || !path[len]);
}

/* Something else is there inside, which is looked at by itself or has nothing of the host. */
static bool is_covered(const struct walk *w, const char *target)
{
	for (size_t i = 0; i < w->n_before; i++) {
		const struct kh_mount *m = &w->view->list[i];
		bool covers = m->kind == KH_MOUNT_BLANK || m->kind == KH_MOUNT_EMPTY ||
			      m->kind == KH_MOUNT_TMPFS || m->kind == KH_MOUNT_FILE;
		if (covers && strlen(m->target) > strlen(w->target) &&
		    is_at_or_below(target, m->target))
			return true;
	}
	return false;
}

/* The path inside of what has this path on the host. */
static char *inside(const struct walk *w, const char *path)
{
	return kh_strf("%s%s", w->target, path + strlen(w->source));
}

static bool count_cover(struct walk *w, const char *path)
{
	return ++w->covers <= KH_LIMIT_SANDBOX_TREE_COVERS ||
	       kh_err_set(
		       w->err, KH_ERR_USAGE,
		       "%s: more than %d sockets and set-ID files in what the sandbox would see; "
		       "%s is one of them (remove them: `find DIR -type s -delete`, `find DIR "
		       "-perm /6000 -exec chmod a-s {} +`)",
		       kh_esc_str(w->source), KH_LIMIT_SANDBOX_TREE_COVERS, kh_esc_str(path));
}

static bool cover_socket(struct walk *w, const char *path)
{
	kh_auto_free char *target = inside(w, path);
	if (!target)
		return no_memory(w);
	if (!count_cover(w, path))
		return false;
	if (kh_view_has(w->view, target) || is_covered(w, target))
		return true;
	kh_log_warn("%s is a socket of the host; the sandbox sees an empty file in its place",
		    kh_esc_str(path));
	if (!kh_view_file(w->view, target, 0444, KH_SLICE(""), w->err))
		return false;
	if (!w->view->failed)
		w->view->list[w->view->n - 1].kind = KH_MOUNT_EMPTY;
	return true;
}

static bool cover_set_id(struct walk *w, const char *path)
{
	kh_auto_free char *target = inside(w, path);
	if (!target)
		return no_memory(w);
	if (kh_view_has(w->view, target) || is_covered(w, target))
		return true;
	kh_log_warn("%s is a set-ID file; it can't be written to in the sandbox", kh_esc_str(path));
	return count_cover(w, path) &&
	       kh_view_bind_held(w->view, KH_MOUNT_READ, path, target, KH_TREE_HOST, w->err);
}

/* What has this path in the tree, by no link. Return: -1 with errno. */
static int open_in_tree(const struct walk *w, const char *path, int flags)
{
	return kh_file_open_below(w->root, path + strlen(w->source), flags | O_NOFOLLOW);
}

/* A file of which nobody can tell counts as one that has. */
static bool has_privilege(int dir, const char *name)
{
	struct stat st;
	char path[32 + NAME_MAX];
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return errno != ENOENT;
	if (!S_ISREG(st.st_mode))
		return false;
	if (st.st_mode & (S_ISUID | S_ISGID))
		return true;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir, name);
	return (st.st_mode & 0111) && (lgetxattr(path, "security.capability", NULL, 0) >= 0 ||
				       (errno != ENODATA && errno != ENOTSUP && errno != ENOENT));
}

/* The file system may not say what an entry is. -1: nor can we; DT_UNKNOWN: it is gone. */
static int type_of(int dir, const struct dirent *entry)
{
	struct stat st;
	if (entry->d_type != DT_UNKNOWN)
		return entry->d_type;
	if (fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT ? DT_UNKNOWN : -1;
	return (int)IFTODT(st.st_mode);
}

static bool cant_look(const struct walk *w, int why, const char *folder)
{
	return kh_err_sys(w->err, KH_ERR_USAGE, why, "looking for sockets and set-ID files in %s",
			  kh_esc_str(folder));
}

/* The folder, which has this path. */
struct at {
	struct kh_queued_folder *folder;
	const char *path;
};

static bool look(struct walk *w, int dir, const struct at *at, const struct dirent *entry)
{
	int type = type_of(dir, entry);
	if (type < 0)
		return cant_look(w, errno, at->path);
	if (type == DT_DIR)
		return push(w, at->folder, entry->d_name);
	if (type != DT_SOCK && (type != DT_REG || !w->writable))
		return true;
	kh_auto_free char *path = kh_strf("%s/%s", at->path, entry->d_name);
	if (!path)
		return no_memory(w);
	if (type == DT_SOCK)
		return cover_socket(w, path);
	return !has_privilege(dir, entry->d_name) || cover_set_id(w, path);
}

/* Who can't be told what is in a folder of theirs could let themselves in from inside. */
static bool cant_read(const struct walk *w, const char *folder)
{
	int why = errno;
	struct stat st;
	if (why == ENOENT || why == ENOTDIR || why == ELOOP)
		return true;
	kh_auto_close int fd = open_in_tree(w, folder, O_PATH);
	if (fd < 0 || fstat(fd, &st) != 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ||
		       cant_look(w, errno, folder);
	return (geteuid() != 0 && st.st_uid != geteuid()) || cant_look(w, why, folder);
}

static bool read_folder(struct walk *w, const struct at *at)
{
	const char *folder = at->path;
	int fd = open_in_tree(w, folder, O_RDONLY | O_DIRECTORY);
	struct stat st;
	/* Who may read a folder and not search it sees names alone. */
	if (fd < 0 || fstatat(fd, ".", &st, 0) != 0) {
		bool pass = cant_read(w, folder);
		if (fd >= 0)
			close(fd);
		return pass;
	}
	DIR *dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return no_memory(w);
	}
	bool ok = true;
	const struct dirent *entry;
	while (ok && (errno = 0, entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (++w->entries > KH_LIMIT_SANDBOX_TREE_ENTRIES)
			ok = kh_err_set(w->err, KH_ERR_USAGE,
					"%s: more than %d files, which can't all be looked at for "
					"sockets and set-ID files (name a smaller folder)",
					kh_esc_str(w->source), KH_LIMIT_SANDBOX_TREE_ENTRIES);
		else
			ok = look(w, dirfd(dir), at, entry);
	}
	if (ok && errno != 0)
		ok = cant_look(w, errno, folder);
	closedir(dir);
	return ok;
}

static bool walk_tree(struct walk *w)
{
	bool ok = push(w, NULL, w->source);
	struct kh_queued_folder *folder;
	while (ok && (folder = kh_folder_queue_take(&w->queue))) {
		kh_auto_free char *path = kh_folder_queue_path(folder);
		ok = path ? read_folder(w, &(struct at){ folder, path }) : no_memory(w);
		kh_folder_queue_release(&w->queue, folder);
	}
	kh_folder_queue_fini(&w->queue);
	return ok;
}

bool kh_trees_cover(struct kh_view *view, struct kh_err *err)
{
	struct walk w = { .view = view, .n_before = view->n, .err = err };
	bool ok = true;
	for (size_t i = 0; ok && !view->failed && i < w.n_before; i++) {
		const struct kh_mount *m = &view->list[i];
		struct stat st;
		/* What is in a layer is another file there, which nobody listens at. */
		if ((m->kind != KH_MOUNT_READ && m->kind != KH_MOUNT_WRITE) ||
		    m->tree == KH_TREE_HOST || m->fd < 0 || fstat(m->fd, &st) != 0 ||
		    !S_ISDIR(st.st_mode))
			continue;
		/* The view grows, and its list may move. */
		kh_auto_free char *source = kh_file_held_path(m->fd), *target = strdup(m->target);
		w.root = m->fd;
		w.source = source;
		w.target = target;
		w.writable = m->kind == KH_MOUNT_WRITE;
		ok = source && target ? walk_tree(&w) : no_memory(&w);
	}
	return ok;
}
