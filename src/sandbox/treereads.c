/*
 * treereads.c - what git reads or runs by a relative path, in each work tree anew
 *
 * core.hooksPath = .githooks, and a filter that is ./scripts/clean.sh, are read from whichever work
 * tree git is in: each linked worktree has its own, and by the user's own configuration so has each
 * repository.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/cleanup.h>
#include <keyhole/file.h>
#include <keyhole/limits.h>

#include "leads.h"
#include "treereads.h"
#include "workspace_internal.h"

enum { ENTRIES_MOST = 1024, CONTENT_BYTES = 64 * 1024 * 1024 };

bool kh_tree_reads_next(struct kh_slice list, size_t *at, struct kh_tree_read *read)
{
	size_t middle = kh_slice_find(list, '\0', *at);
	size_t end = kh_slice_find(list, '\0', middle + 1);
	if (end >= list.len || end < middle + 3)
		return false;
	*read = (struct kh_tree_read){ list.ptr + *at, list.ptr + middle + 2,
				       list.ptr[middle + 1] == '/' };
	*at = end + 1;
	return true;
}

bool kh_tree_read_is_of(const struct kh_tree_read *read, const char *git_dir)
{
	return !*read->git_dir || (git_dir && strcmp(read->git_dir, git_dir) == 0);
}

/* What a file of one line says behind `prefix`, joined to the folder. */
static char *follow(const char *folder, const char *name, const char *prefix)
{
	kh_auto_free char *path = kh_strf("%s/%s", folder, name);
	struct stat st;
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, KH_LIMIT_SURVEY_PATH_BYTES);
	if (!path || stat(path, &st) != 0 || !S_ISREG(st.st_mode) ||
	    !kh_file_read(path, &text, NULL))
		return NULL;
	struct kh_slice line = kh_git_line(kh_buf_view(&text));
	if (!kh_slice_has_prefix(line, kh_slice_str(prefix)))
		return NULL;
	kh_auto_free char *target = kh_slice_dup(kh_slice_sub(line, strlen(prefix), line.len));
	return target && *target ? kh_path_join(folder, target) : NULL;
}

char *kh_tree_git_dir(const char *tree)
{
	kh_auto_free char *git = kh_strf("%s/.git", tree);
	struct stat st;
	if (!git)
		return NULL;
	if (stat(git, &st) != 0) {
		free(git);
		git = strdup(tree);
	} else if (S_ISREG(st.st_mode)) {
		free(git);
		git = follow(tree, ".git", "gitdir: ");
	}
	kh_auto_free char *common = git ? follow(git, "commondir", "") : NULL;
	return git ? realpath(common ? common : git, NULL) : NULL;
}

char *kh_tree_read_at(const char *root, const char *tree, const struct kh_tree_read *read)
{
	kh_auto_free char *path = kh_path_join(tree, read->path);
	size_t len = strlen(root);
	if (!path || strlen(path) >= KH_LIMIT_SURVEY_PATH_BYTES)
		return NULL;
	kh_git_normalise(path);
	kh_auto_free char *own = strdup(tree);
	size_t path_len = strlen(path);
	if (!own || strncmp(path, root, len) != 0 || path[len] != '/')
		return NULL;
	kh_git_normalise(own);
	bool above = strncmp(own, path, path_len) == 0 && (own[path_len] == '/' || !own[path_len]);
	return above ? NULL : kh_steal_ptr(&path);
}

/* What each link on the way says. */
static bool add_links(const char *root, const char *at, struct kh_buf *out)
{
	char text[KH_LIMIT_SURVEY_PATH_BYTES];
	kh_auto_free char *part = strdup(at);
	for (size_t i = strlen(root) + 1; part && i <= strlen(at); i++) {
		if (at[i] != '/' && at[i])
			continue;
		part[i] = '\0';
		ssize_t n = readlink(part, text, sizeof(text));
		if (n > 0 && !kh_buf_append(out, text, (size_t)n))
			return false;
		part[i] = at[i];
	}
	return part != NULL;
}

static bool add_file(int dir, const char *name, const char *label, struct kh_buf *out)
{
	struct stat st;
	if (fstatat(dir, name, &st, 0) != 0)
		return kh_buf_printf(out, "%s:gone;", label);
	if (!S_ISREG(st.st_mode))
		return kh_buf_printf(out, "%s:%o:%llu;", label, (unsigned)st.st_mode,
				     (unsigned long long)st.st_ino);
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, CONTENT_BYTES);
	kh_auto_close int fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	return fd >= 0 && kh_file_read_fd(fd, &text, NULL) &&
	       kh_buf_printf(out, "%s:%zu:", label, kh_buf_len(&text)) &&
	       kh_buf_append(out, kh_buf_view(&text).ptr, kh_buf_len(&text));
}

static int is_entry(const struct dirent *entry)
{
	return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static bool add_content(const char *at, struct kh_buf *out)
{
	struct stat st;
	if (stat(at, &st) != 0)
		return kh_buf_append_str(out, "nowhere");
	if (!S_ISDIR(st.st_mode))
		return add_file(AT_FDCWD, at, "", out);
	struct dirent **names = NULL;
	int n = scandir(at, &names, is_entry, alphasort);
	kh_auto_close int dir = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool ok = n >= 0 && n <= ENTRIES_MOST && dir >= 0;
	for (int i = 0; i < n; i++) {
		ok = ok && add_file(dir, names[i]->d_name, names[i]->d_name, out);
		free(names[i]);
	}
	free(names);
	return ok;
}

bool kh_tree_read_digest(const char *root, const char *at, const struct kh_tree_read *read,
			 unsigned char out[KH_CONCERN_DIGEST_BYTES])
{
	struct stat st;
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, 2u * CONTENT_BYTES);
	if (lstat(at, &st) != 0 || (!read->is_folder && S_ISDIR(st.st_mode)))
		return false;
	kh_concern_content_digest(
		read->path, add_links(root, at, &text) && add_content(at, &text) ? &text : NULL,
		out);
	return true;
}
