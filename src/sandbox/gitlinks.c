/*
 * gitlinks.c - symbolic links in the place of submodules
 *
 * Any number of folders may have a file .git that leads to one git folder, and an agent can make
 * its index large. So the folders are recorded in the walk, and each index is read once, after all
 * else has been looked at. The index of a repository around the workspace counts as well: the agent
 * can't write it, but the place of its submodule may be in the workspace.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/slice.h>

#include "gitlinks.h"
#include "tree_reads.h"

enum { TREE_BYTES = 16 /* that an allocation takes besides what was asked for */ };

void kh_gitlinks_fini(struct kh_gitlinks *gitlinks)
{
	for (size_t i = 0; i < gitlinks->n; i++)
		free(gitlinks->list[i].path);
	free(gitlinks->list);
	*gitlinks = (struct kh_gitlinks){ 0 };
}

static bool no_memory(struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_NO_MEMORY, "the survey of the workspace: no memory");
}

static int open_git_folder(const char *tree)
{
	kh_auto_free char *path = kh_tree_own_git_dir(tree);
	return path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
}

static bool add(struct kh_gitlinks *gitlinks, const char *path, const struct stat *git,
		struct kh_err *err)
{
	gitlinks->bytes += strlen(path) + 1 + TREE_BYTES + sizeof(*gitlinks->list);
	gitlinks->too_many = gitlinks->too_many || gitlinks->bytes > KH_LIMIT_SURVEY_MEMORY_BYTES;
	if (gitlinks->too_many)
		return true;
	if (gitlinks->n == gitlinks->alloc) {
		size_t alloc = gitlinks->alloc ? gitlinks->alloc * 2 : 16;
		struct kh_gitlinks_tree *list =
			reallocarray(gitlinks->list, alloc, sizeof(*gitlinks->list));
		if (!list)
			return no_memory(err);
		gitlinks->list = list;
		gitlinks->alloc = alloc;
	}
	struct kh_gitlinks_tree tree = { strdup(path), git->st_dev, git->st_ino };
	if (!tree.path)
		return no_memory(err);
	gitlinks->list[gitlinks->n++] = tree;
	return true;
}

bool kh_gitlinks_note(struct kh_gitlinks *gitlinks, const struct kh_walk_folder *folder,
		      struct kh_err *err)
{
	struct stat st;
	kh_auto_close int git = kh_walk_find(folder, ".git") ? open_git_folder(folder->path) : -1;
	return git < 0 || fstat(git, &st) != 0 || add(gitlinks, folder->path, &st, err);
}

/* ---- one index ---- */

struct finding {
	int root_fd;
	const char *root;
	bool (*each)(void *arg, const struct kh_concern *concern, struct kh_err *err);
	void *arg;
	struct kh_deadline *deadline;
	struct kh_err *err;
	/* The folders to which the index applies. */
	const struct kh_gitlinks_tree *trees;
	size_t n_trees;
	const char
		*prefix; /* of the workspace in the one around it; NULL: it is in the workspace */
	bool is_shared;	 /* the part of a split index that is in a file beside it */
	bool some_nameless; /* gitlinks of the index that have their names in that part */
};

static bool give_link(const struct finding *f, const char *tree, int parent, const char *path,
		      char *name, size_t at, const struct stat *st)
{
	size_t above = at > 0 ? at - 1 : 0;
	kh_auto_free char *full = kh_strf("%s%s%.*s", tree, above ? "/" : "", (int)above, path);
	const struct kh_walk_folder folder = { .path = full,
					       .fd = parent,
					       .deadline = f->deadline };
	struct kh_walk_entry entry = { .name = name,
				       .mode = st->st_mode,
				       .dev = st->st_dev,
				       .ino = st->st_ino,
				       .uid = st->st_uid,
				       .links = st->st_nlink,
				       .changed = st->st_ctim };
	return full ? kh_concern_give_gitlink(&folder, &entry, f->each, f->arg, f->err)
		    : no_memory(f->err);
}

/* Through no link: what is beyond one is elsewhere. */
static int open_tree(const struct finding *f, const char *tree)
{
	return kh_file_open_below(f->root_fd, tree + strlen(f->root), O_RDONLY | O_DIRECTORY);
}

/* The first link on the way to a path. What was set aside meanwhile is none any more. */
static bool look_in_tree(const struct finding *f, const char *tree, const char *path)
{
	kh_auto_free char *part = kh_slice_dup(kh_slice_str(path));
	kh_auto_close int dir = open_tree(f, tree);
	if (!part)
		return no_memory(f->err);
	for (char *name = part; dir >= 0 && *name && !kh_deadline_passed(f->deadline);) {
		char *slash = strchr(name, '/');
		struct stat st;
		if (slash)
			*slash = '\0';
		if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
			return true;
		if (S_ISLNK(st.st_mode))
			return give_link(f, tree, dir, path, name, (size_t)(name - part), &st);
		if (!slash || !S_ISDIR(st.st_mode))
			return true;
		int below = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		close(dir);
		dir = below;
		name = slash + 1;
	}
	return true;
}

static bool look(void *arg, const char *path, bool is_gitlink)
{
	struct finding *f = arg;
	bool ok = true;
	if (is_gitlink && !*path && !f->is_shared)
		f->some_nameless = true;
	/* Which names of the shared part these have is not looked up: any of them may be one. */
	if (!*path || (!is_gitlink && !(f->is_shared && f->some_nameless)))
		return !kh_deadline_passed(f->deadline);
	size_t len = f->prefix ? strlen(f->prefix) : 0;
	if (f->prefix && (strncmp(path, f->prefix, len) != 0 || path[len] != '/'))
		return !kh_deadline_passed(f->deadline);
	path += f->prefix ? len + 1 : 0;
	for (size_t i = 0; ok && i < f->n_trees && !kh_deadline_passed(f->deadline); i++)
		ok = look_in_tree(f, f->trees[i].path, path);
	return ok && !kh_deadline_passed(f->deadline);
}

/* Return: nothing went wrong; what there was no time for is said later. */
static bool look_in_index(struct finding *f, const struct kh_walk_folder *git, const char *name)
{
	return kh_concern_each_in_index(git, name, look, f) || kh_deadline_passed(f->deadline);
}

static bool look_in_git_folder(struct finding *f, const char *tree)
{
	kh_auto_free char *path = kh_tree_own_git_dir(tree);
	kh_auto_close int fd = path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	const struct kh_walk_folder git = { .path = path, .fd = fd, .deadline = f->deadline };
	int again = fd < 0 ? -1 : openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = again < 0 ? NULL : fdopendir(again);
	const struct dirent *entry;
	f->is_shared = f->some_nameless = false;
	bool ok = fd < 0 || look_in_index(f, &git, "index");
	f->is_shared = true;
	while (ok && dir && (entry = readdir(dir)) && !kh_deadline_passed(f->deadline))
		if (strncmp(entry->d_name, "sharedindex.", 12) == 0)
			ok = look_in_index(f, &git, entry->d_name);
	if (dir)
		closedir(dir);
	return ok;
}

/* ---- all of them ---- */

static int by_git_folder(const void *a, const void *b)
{
	const struct kh_gitlinks_tree *one = a, *other = b;
	if (one->dev != other->dev)
		return one->dev < other->dev ? -1 : 1;
	return one->ino == other->ino ? 0 : one->ino < other->ino ? -1 : 1;
}

/* Each folder above the workspace that has .git in it; git takes the next one, but somebody may
 * stand in any of them. */
static bool look_above(const struct finding *all)
{
	kh_auto_free char *root = kh_slice_dup(kh_slice_str(all->root));
	kh_auto_free char *above = kh_slice_dup(kh_slice_str(all->root));
	const struct kh_gitlinks_tree top = { .path = root };
	struct finding f = *all;
	bool ok = (root && above) || no_memory(f.err);
	f.trees = &top;
	f.n_trees = 1;
	while (ok && above[1] && !kh_deadline_passed(f.deadline)) {
		struct stat st;
		char *slash = strrchr(above, '/');
		slash[slash == above] = '\0';
		size_t len = strlen(above);
		f.prefix = f.root + len + (len > 1);
		kh_auto_free char *git = kh_strf("%s/.git", above);
		ok = git ? stat(git, &st) != 0 || look_in_git_folder(&f, above) : no_memory(f.err);
	}
	return ok;
}

bool kh_gitlinks_find(struct kh_gitlinks *gitlinks, int root_fd, const char *root,
		      bool (*each)(void *arg, const struct kh_concern *concern, struct kh_err *err),
		      void *arg, struct kh_deadline *deadline, char **missed, struct kh_err *err)
{
	struct finding f = { .root_fd = root_fd,
			     .root = root,
			     .each = each,
			     .arg = arg,
			     .deadline = deadline,
			     .err = err };
	bool ok = true;
	if (gitlinks->n > 1)
		qsort(gitlinks->list, gitlinks->n, sizeof(*gitlinks->list), by_git_folder);
	for (size_t i = 0; ok && i < gitlinks->n && !kh_deadline_passed(deadline); i += f.n_trees) {
		f.trees = &gitlinks->list[i];
		for (f.n_trees = 1; i + f.n_trees < gitlinks->n &&
				    by_git_folder(f.trees, &f.trees[f.n_trees]) == 0;)
			f.n_trees++;
		ok = look_in_git_folder(&f, f.trees[0].path);
	}
	ok = ok && look_above(&f);
	if (ok && !*missed && (gitlinks->too_many || kh_deadline_passed(deadline)))
		*missed = strdup(gitlinks->too_many
					 ? "there are too many folders with .git in them"
					 : "looking for links in the place of submodules took too "
					   "long");
	return ok;
}
