/*
 * git_shape.c - would git recognise this folder as a git folder?
 *
 * git recognises a git folder by its content (its is_git_directory), whatever its name, and then
 * runs what its configuration says. Here the files of the workspace, of the agent and of the
 * agent's commits count together, so that two reviews can't each bring one half of a git folder.
 *
 * Names are compared as a file system may do that ignores case or normalises (name_fold.h): on
 * such a one y/head is read as y/HEAD, and Y/HEAD and y/config are files of one folder.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>

#include "name_fold.h"
#include "review_internal.h"

enum { HEAD = 1, COMMONDIR = 2, OBJECTS = 4, REFS = 8, ALL = 15 };

static const struct {
	const char *name, *folded;
	unsigned bit;
} parts[] = {
	{ "HEAD", "head", HEAD },
	{ "commondir", "commondir", COMMONDIR },
	{ "objects", "objects", OBJECTS },
	{ "refs", "refs", REFS },
};
enum { PARTS = sizeof(parts) / sizeof(parts[0]) };

/* ---- the names of changes ---- */

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

bool kh_git_shapes_init(struct kh_git_shapes *shapes, int workspace, int upper,
			const struct kh_changes *changes)
{
	*shapes = (struct kh_git_shapes){ .workspace = workspace, .upper = upper };
	shapes->names = calloc(changes->n + 1, sizeof(*shapes->names));
	if (!shapes->names)
		return false;
	for (; shapes->n < changes->n; shapes->n++) {
		char *name = kh_name_fold_path(changes->list[shapes->n].path);
		if (!name)
			return false;
		shapes->names[shapes->n] = name;
	}
	if (shapes->n > 1)
		qsort(shapes->names, shapes->n, sizeof(*shapes->names), by_name);
	return true;
}

void kh_git_shapes_fini(struct kh_git_shapes *shapes)
{
	for (size_t i = 0; i < shapes->n; i++)
		free(shapes->names[i]);
	free(shapes->names);
	for (size_t i = 0; i < sizeof(shapes->asked) / sizeof(shapes->asked[0]); i++)
		free(shapes->asked[i].folder);
	*shapes = (struct kh_git_shapes){ 0 };
}

/* The first of the list that is not before it. */
static const char *find(const struct kh_git_shapes *shapes, const char *name)
{
	size_t low = 0, high = shapes->n;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const char *at = shapes->names[middle];
		if (at && strcmp(at, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low < shapes->n ? shapes->names[low] : NULL;
}

/* Return: ALL without memory: it may be one. */
static unsigned changed_parts(const struct kh_git_shapes *shapes, const char *folder)
{
	kh_auto_free char *folded = kh_name_fold_path(folder);
	unsigned found = 0;
	for (size_t i = 0; folded && i < PARTS; i++) {
		kh_auto_free char *name =
			kh_strf("%s%s%s/", folded, *folder ? "/" : "", parts[i].folded);
		if (!name)
			return ALL;
		size_t len = strlen(name) - 1;
		const char *below = find(shapes, name);
		bool there = below && strncmp(below, name, len + 1) == 0;
		name[len] = '\0';
		const char *same = find(shapes, name);
		if (there || (same && strcmp(same, name) == 0))
			found |= parts[i].bit;
	}
	return folded ? found : ALL;
}

/* ---- the files ---- */

static bool is_there(int folder, const char *name)
{
	struct stat st;
	return fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       !(S_ISCHR(st.st_mode) && st.st_rdev == 0);
}

static unsigned part_of(const char *name)
{
	for (size_t i = 0; i < PARTS; i++)
		if (kh_name_fold_is(name, parts[i].folded))
			return parts[i].bit;
	return 0;
}

/* By name too: a folder that can't be listed may still be searched, by git as well. */
static unsigned parts_there(int top, const char *folder)
{
	unsigned found = 0;
	size_t entries = 0;
	kh_auto_close int way = kh_review_beneath_open(top, folder, O_PATH | O_DIRECTORY);
	for (size_t i = 0; way >= 0 && i < PARTS; i++)
		if (is_there(way, parts[i].name))
			found |= parts[i].bit;
	int fd = way < 0 ? -1 : openat(way, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (fd >= 0 && !dir)
		close(fd);
	const struct dirent *entry;
	while (dir && found != ALL && (entry = readdir(dir))) {
		unsigned bit = part_of(entry->d_name);
		if (bit && is_there(way, entry->d_name))
			found |= bit;
		if (++entries > KH_LIMIT_REVIEW_ENTRIES)
			found = ALL;
	}
	if (dir)
		closedir(dir);
	return found;
}

/* ---- folders on a path ---- */

static bool ask(struct kh_git_shapes *shapes, size_t depth, const char *path, size_t len, bool *is)
{
	struct kh_git_asked *asked =
		&shapes->asked[depth % (sizeof(shapes->asked) / sizeof(shapes->asked[0]))];
	bool known = asked->folder && strlen(asked->folder) == len &&
		     strncmp(asked->folder, path, len) == 0;
	if (!known) {
		free(asked->folder);
		asked->folder = strndup(path, len);
		if (!asked->folder)
			return false;
		unsigned found = changed_parts(shapes, asked->folder) |
				 parts_there(shapes->workspace, asked->folder);
		if (shapes->upper >= 0)
			found |= parts_there(shapes->upper, asked->folder);
		asked->is = (found & HEAD) &&
			    ((found & COMMONDIR) || ((found & OBJECTS) && (found & REFS)));
	}
	*is = asked->is;
	return true;
}

bool kh_git_shapes_find(struct kh_git_shapes *shapes, const char *path, bool is_folder, bool *found,
			size_t *len)
{
	size_t total = strlen(path);
	*found = false;
	*len = 0;
	for (size_t depth = 0; !*found; depth++) {
		bool is;
		if (!ask(shapes, depth, path, *len, &is))
			return false;
		*found = is && (*len > 0 || kh_git_is_part(path));
		const char *slash = *len < total ? strchr(path + *len + 1, '/') : NULL;
		if (*found || *len == total || (!slash && !is_folder))
			break;
		*len = slash ? (size_t)(slash - path) : total;
	}
	return true;
}

bool kh_git_is_part(const char *rest)
{
	static const char *const names[] = { "HEAD",   "commondir",	  "objects", "refs",
					     "config", "config.worktree", "hooks" };
	char name[KH_NAME_FOLD_ROOM];
	size_t len = strcspn(rest, "/");
	if (len >= sizeof(name))
		return true; /* It may be one, and what it is can't be told. */
	memcpy(name, rest, len);
	name[len] = '\0';
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (kh_name_fold_is(name, names[i]))
			return true;
	return false;
}
