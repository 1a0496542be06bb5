/*
 * tree_reads.c - paths that git reads or runs relative to each work tree
 *
 * core.hooksPath = .githooks, or a filter ./scripts/clean.sh, is read from the current work tree.
 * Each linked worktree has its own, and if the setting is in the user's configuration, each
 * repository has. Absolute paths are in the list as well, since an absent one can't be protected by
 * a mount.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>

#include "leads.h"
#include "tree_reads.h"
#include "git_path.h"
#include "workspace_internal.h"

enum { ENTRIES_MOST = 4096, DEPTH_MOST = 16, CONTENT_BYTES = 64 * 1024 * 1024 };

bool kh_tree_reads_next(struct kh_slice list, size_t *at, struct kh_tree_read *read)
{
	size_t middle = kh_slice_find(list, '\0', *at);
	size_t end = kh_slice_find(list, '\0', middle + 1);
	if (end >= list.len || end < middle + 3)
		return false;
	*read = (struct kh_tree_read){ list.ptr + *at, list.ptr + middle + 2,
				       list.ptr[middle + 1] };
	*at = end + 1;
	return true;
}

bool kh_tree_read_is_of(const struct kh_tree_read *read, const char *git_dir)
{
	return !*read->git_dir || (git_dir && strcmp(read->git_dir, git_dir) == 0);
}

/*
 * What a name leads to, looked at by a descriptor that opens nothing (O_PATH): what is judged is
 * what is read, whatever the name leads to by then, and no device or pipe is ever opened. Return:
 * -1 with errno.
 */
static int look_at(int dir, const char *name, struct stat *st)
{
	kh_auto_close int seen = openat(dir, name, O_PATH | O_CLOEXEC);
	return seen >= 0 && fstat(seen, st) == 0 ? kh_steal_fd(&seen) : -1;
}

static bool read_seen(int seen, struct kh_buf *out)
{
	char path[48];
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", seen);
	kh_auto_close int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd >= 0 && kh_file_read_fd(fd, out, NULL);
}

/* What a file of git says after `prefix`, joined to the folder. */
static char *follow(const char *folder, const char *name, const char *prefix)
{
	kh_auto_free char *path = kh_strf("%s/%s", folder, name);
	struct stat st;
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, KH_LIMIT_SURVEY_FILE_BYTES);
	kh_auto_close int seen = path ? look_at(AT_FDCWD, path, &st) : -1;
	if (seen < 0 || !S_ISREG(st.st_mode) || !read_seen(seen, &text))
		return NULL;
	kh_auto_free char *target = kh_git_pointed(kh_buf_view(&text), prefix);
	return target ? kh_path_join(folder, target) : NULL;
}

char *kh_tree_own_git_dir(const char *tree)
{
	kh_auto_free char *git = kh_strf("%s/.git", tree);
	struct stat st;
	if (!git)
		return NULL;
	if (stat(git, &st) != 0)
		return strdup(tree);
	return S_ISREG(st.st_mode) ? follow(tree, ".git", "gitdir: ") : kh_steal_ptr(&git);
}

char *kh_tree_git_dir(const char *tree)
{
	kh_auto_free char *git = kh_tree_own_git_dir(tree);
	kh_auto_free char *common = git ? follow(git, "commondir", "") : NULL;
	return git ? realpath(common ? common : git, NULL) : NULL;
}

bool kh_tree_is_program(const char *folder)
{
	kh_auto_free char *path = kh_strf("%s/__main__.py", folder);
	struct stat st;
	return !path || lstat(path, &st) == 0;
}

char *kh_tree_read_at(const char *root, const char *tree, const struct kh_tree_read *read)
{
	if ((read->path[0] == '/') == (tree != NULL))
		return NULL;
	tree = tree ? tree : "/";
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

static bool add_seen(int seen, const struct stat *st, const char *label, struct kh_buf *out)
{
	if (!S_ISREG(st->st_mode))
		return kh_buf_printf(out, "%s:%o:%llu;", label, (unsigned)st->st_mode,
				     (unsigned long long)st->st_ino);
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, CONTENT_BYTES);
	return read_seen(seen, &text) && kh_buf_printf(out, "%s:%zu:", label, kh_buf_len(&text)) &&
	       kh_buf_append(out, kh_buf_view(&text).ptr, kh_buf_len(&text));
}

static bool add_file(int dir, const char *name, struct kh_buf *out)
{
	struct stat st;
	kh_auto_close int seen = look_at(dir, name, &st);
	return seen < 0 ? kh_buf_printf(out, "%s:gone;", name) : add_seen(seen, &st, name, out);
}

static int is_entry(const struct dirent *entry)
{
	return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

/* A folder and what is below it. What is not read in full is like no other. */
struct folder_content {
	struct kh_buf *out;
	int entries, depth;
};

static bool add_folder(struct folder_content *c, int seen);

static bool add_entry(struct folder_content *c, int dir, const char *name)
{
	struct stat st;
	kh_auto_close int seen = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (++c->entries > ENTRIES_MOST || seen < 0 || fstat(seen, &st) != 0)
		return false;
	if (S_ISLNK(st.st_mode))
		return add_file(dir, name, c->out);
	if (!S_ISDIR(st.st_mode))
		return add_seen(seen, &st, name, c->out);
	return kh_buf_printf(c->out, "%s/", name) && add_folder(c, seen) &&
	       kh_buf_append_char(c->out, '/');
}

static bool add_folder(struct folder_content *c, int seen)
{
	kh_auto_close int dir = openat(seen, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent **names = NULL;
	int n = dir >= 0 && ++c->depth <= DEPTH_MOST
			? scandirat(dir, ".", &names, is_entry, alphasort)
			: -1;
	bool ok = n >= 0;
	for (int i = 0; i < n; i++) {
		ok = ok && add_entry(c, dir, names[i]->d_name);
		free(names[i]);
	}
	free(names);
	c->depth--;
	return ok;
}

static bool add_content(const char *at, struct kh_buf *out)
{
	struct folder_content c = { .out = out };
	struct stat st;
	kh_auto_close int seen = look_at(AT_FDCWD, at, &st);
	if (seen < 0)
		return kh_buf_append_str(out, "nowhere");
	return S_ISDIR(st.st_mode) ? add_folder(&c, seen) : add_seen(seen, &st, "", out);
}

bool kh_tree_read_digest(const char *root, const char *at, const struct kh_tree_read *read,
			 unsigned char out[KH_CONCERN_DIGEST_BYTES])
{
	struct stat st;
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, 2u * CONTENT_BYTES);
	if (lstat(at, &st) != 0 ||
	    (read->kind == KH_TREE_PROGRAM && S_ISDIR(st.st_mode) && !kh_tree_is_program(at)))
		return false;
	kh_concern_content_digest(
		read->path, add_links(root, at, &text) && add_content(at, &text) ? &text : NULL,
		out);
	return true;
}
