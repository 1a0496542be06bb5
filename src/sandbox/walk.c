/*
 * walk.c - a bounded walk through a folder that an agent may have written
 *
 * Each folder is opened by its path from the root, with a call that follows no symbolic link and
 * does not leave the root. All of its entries are read before it is visited, so the visitor may
 * move them. The walk is breadth-first: entries near the top come first. What it keeps meanwhile is
 * bounded: names of the folders that wait (folder_queue.h), and the entries of one folder.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <linux/openat2.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>

#include "folder_queue.h"
#include "name_fold.h"
#include "walk.h"

enum { ENTRY_BYTES = 16 /* that an allocation takes besides what was asked for */ };

struct walking {
	struct kh_walk *walk;
	const char *root;
	int root_fd;
	struct kh_folder_queue queue;
	size_t entry_bytes; /* of the folder that is visited */
	unsigned long entries;
	struct kh_deadline own, *deadline;
	bool full; /* it would take too much memory */
	bool over; /* a bound has ended it */
};

static void folder_fini(struct kh_walk_folder *folder)
{
	for (size_t i = 0; i < folder->n; i++)
		free(folder->list[i].name);
	free(folder->list);
	if (folder->fd >= 0)
		close(folder->fd);
}

static void walking_fini(struct walking *w)
{
	kh_folder_queue_fini(&w->queue);
	if (w->root_fd >= 0)
		close(w->root_fd);
}

static bool no_memory(struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_NO_MEMORY, "the survey of the workspace: no memory");
}

/* The first reason is kept. */
static bool miss(struct walking *w, const char *path, const char *why, struct kh_err *err)
{
	if (!w->walk->missed)
		w->walk->missed = kh_strf("%s: %s", kh_esc_str(path), why);
	return w->walk->missed || no_memory(err);
}

static bool is_full(struct walking *w)
{
	size_t most = w->walk->most_bytes ? w->walk->most_bytes : KH_LIMIT_SURVEY_MEMORY_BYTES;
	w->full = w->full || w->queue.bytes + w->entry_bytes > most;
	return w->full;
}

static int open_folder(const struct walking *w, const char *path)
{
	if (!*path)
		return fcntl(w->root_fd, F_DUPFD_CLOEXEC, 0);
	return kh_file_open_below(w->root_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

static bool add_entry(struct walking *w, struct kh_walk_folder *folder, size_t *alloc,
		      const char *name, struct kh_err *err)
{
	struct stat st;
	/* Gone meanwhile: there is nothing to look at. Whatever else it is, it is there. */
	if (fstatat(folder->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT ||
		       miss(w, folder->path, "what is in it can't be looked at", err);
	if (folder->n == *alloc) {
		size_t more = *alloc ? *alloc * 2 : 32;
		struct kh_walk_entry *list = reallocarray(folder->list, more, sizeof(*list));
		if (!list)
			return no_memory(err);
		folder->list = list;
		w->entry_bytes += (more - *alloc) * sizeof(*list);
		*alloc = more;
	}
	char *copy = strdup(name);
	if (!copy)
		return no_memory(err);
	w->entry_bytes += strlen(copy) + 1 + ENTRY_BYTES;
	folder->list[folder->n++] = (struct kh_walk_entry){ .name = copy,
							    .mode = st.st_mode,
							    .dev = st.st_dev,
							    .ino = st.st_ino,
							    .uid = st.st_uid,
							    .links = st.st_nlink,
							    .changed = st.st_ctim,
							    .mark = folder->mark };
	return true;
}

static bool read_entries(struct walking *w, struct kh_walk_folder *folder, struct kh_err *err)
{
	int fd = fcntl(folder->fd, F_DUPFD_CLOEXEC, 0);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	if (!dir) {
		if (fd >= 0)
			close(fd);
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(folder->path));
	}
	size_t alloc = 0;
	w->entry_bytes = 0;
	bool ok = true;
	const struct dirent *entry;
	while (ok && !w->over && (errno = 0, entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		w->over = ++w->entries > KH_LIMIT_SURVEY_ENTRIES || is_full(w) ||
			  kh_deadline_passed(w->deadline);
		ok = add_entry(w, folder, &alloc, entry->d_name, err);
	}
	if (ok && !w->over && errno != 0)
		ok = miss(w, folder->path, "it can't be read to its end", err);
	closedir(dir);
	return ok;
}

static bool miss_rest(struct walking *w, const char *path, struct kh_err *err)
{
	w->over = true;
	return miss(w, path,
		    w->deadline->signalled ? "a signal ended it"
		    : w->full ? "there are too many files, which would take too much memory"
			      : "there are too many files, or looking took too long",
		    err);
}

static bool push_below(struct walking *w, const struct kh_walk_folder *folder,
		       struct kh_queued_folder *at, struct kh_err *err)
{
	for (size_t i = 0; i < folder->n; i++) {
		const struct kh_walk_entry *entry = &folder->list[i];
		if (!S_ISDIR(entry->mode) || entry->skip)
			continue;
		if (at->depth + 1 >= KH_LIMIT_SURVEY_DEPTH ||
		    strlen(folder->path) + 1 + strlen(entry->name) + 1 >
			    KH_LIMIT_SURVEY_PATH_BYTES) {
			if (!miss(w, folder->path, "folders that are nested too deep", err))
				return false;
			continue;
		}
		if (is_full(w))
			return miss_rest(w, folder->path, err);
		struct kh_queued_folder *below = kh_folder_queue_add(&w->queue, at, entry->name);
		if (!below)
			return no_memory(err);
		below->mark = entry->mark;
	}
	return true;
}

/* Who may read a folder and not search it sees the names in it, and nothing of what they are. */
static bool is_searchable(int fd)
{
	struct stat st;
	return fstatat(fd, ".", &st, 0) == 0;
}

/* Another user's folder that we can't read is closed to the agent too, which is who we are. */
static bool cannot_open(struct walking *w, const char *path, const char *full, struct kh_err *err)
{
	int why = errno;
	if (!*path)
		return miss(w, full, "it can't be read (chmod u+rx it)", err);
	kh_auto_close int fd = kh_file_open_below(w->root_fd, path, O_PATH | O_NOFOLLOW);
	struct stat st;
	/* Gone, or no folder any more. */
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
		return true;
	bool known = fd >= 0 && fstat(fd, &st) == 0;
	if (known && (!S_ISDIR(st.st_mode) || (why == EACCES && st.st_uid != geteuid())))
		return true;
	return miss(w, full,
		    why == EACCES ? "it can't be read (chmod u+rx it)" : "it can't be opened", err);
}

static bool visit_one(struct walking *w, struct kh_queued_folder *at, struct kh_err *err)
{
	kh_auto_free char *path = kh_folder_queue_path(at);
	kh_auto_free char *full = path ? kh_strf("%s%s%s", w->root, *path ? "/" : "", path) : NULL;
	struct kh_walk_folder folder kh_cleanup(folder_fini) = { .path = full,
								 .fd = -1,
								 .mark = at->mark,
								 .top = !path || !*path,
								 .deadline = w->deadline };
	if (!full)
		return no_memory(err);
	folder.fd = open_folder(w, path);
	if (folder.fd < 0 || !is_searchable(folder.fd))
		return cannot_open(w, path, full, err);
	if (!read_entries(w, &folder, err))
		return false;
	if (w->over)
		return miss_rest(w, full, err);
	if (!w->walk->visit(w->walk->arg, &folder, err))
		return false;
	/* The visit itself may have ended early. */
	return kh_deadline_passed(w->deadline) ? miss_rest(w, full, err)
					       : push_below(w, &folder, at, err);
}

bool kh_walk_run_at(struct kh_walk *walk, int root_fd, const char *root, struct kh_err *err)
{
	struct walking w kh_cleanup(walking_fini) = { .walk = walk, .root = root };
	kh_deadline_start(&w.own, KH_LIMIT_SURVEY_MS, false);
	w.deadline = walk->deadline ? walk->deadline : &w.own;
	w.root_fd = openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (w.root_fd < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(root));
	if (walk->n_from == 0 && !kh_folder_queue_add(&w.queue, NULL, ""))
		return no_memory(err);
	for (size_t i = 0; i < walk->n_from; i++)
		if (!kh_folder_queue_add(&w.queue, NULL, walk->from[i]))
			return no_memory(err);
	struct kh_queued_folder *at;
	while (!w.over && (at = kh_folder_queue_take(&w.queue))) {
		bool ok = visit_one(&w, at, err);
		kh_folder_queue_release(&w.queue, at);
		if (!ok)
			return false;
	}
	return true;
}

bool kh_walk_run(struct kh_walk *walk, const char *root, struct kh_err *err)
{
	kh_auto_close int fd =
		kh_file_resolve(AT_FDCWD, root, O_PATH | O_DIRECTORY, RESOLVE_NO_SYMLINKS);
	if (fd < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(root));
	return kh_walk_run_at(walk, fd, root, err);
}

const struct kh_walk_entry *kh_walk_find(const struct kh_walk_folder *folder, const char *name)
{
	for (size_t i = 0; i < folder->n; i++)
		if (kh_name_fold_is(folder->list[i].name, name))
			return &folder->list[i];
	return NULL;
}
