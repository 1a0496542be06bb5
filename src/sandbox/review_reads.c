/*
 * review_reads.c - finds what git and other tools on the host run or read in a workspace under
 * review
 *
 * core.hooksPath may name a folder of the project, include.path a file of it, and a hook may be a
 * symbolic link to one of its scripts. No fixed list contains these names. They are found in the
 * current workspace, which the agent can't write to, by the code that protects such paths in a run
 * (git_reads.c). Links on these paths count too, since a change could redirect them.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/slice.h>

#include "protected.h"
#include "name_fold.h"
#include "review_reads.h"
#include "git_reads.h"
#include "git_path.h"
#include "tree_reads.h"
#include "workspace_internal.h"

enum { HOPS_MOST = 40 /* as the kernel */, PATH_MOST = KH_LIMIT_SURVEY_PATH_BYTES };

struct finding {
	struct kh_review_reads *out;
	const char *root;
	struct kh_err *err;
};

void kh_review_reads_fini(struct kh_review_reads *reads)
{
	for (size_t i = 0; i < reads->n; i++)
		free(reads->list[i]);
	free(reads->list);
	kh_buf_fini(&reads->relative);
	*reads = (struct kh_review_reads){ 0 };
}

static bool no_memory(const struct finding *f)
{
	return kh_err_set(f->err, KH_ERR_NO_MEMORY, "a review: no memory");
}

/* What is outside of the workspace is none of the agent's. */
static bool add(struct finding *f, const char *path)
{
	size_t root = strlen(f->root), len = strlen(path);
	bool above = strncmp(f->root, path, len) == 0 && (f->root[len] == '/' || !f->root[len]);
	if (!above && (strncmp(path, f->root, root) != 0 || path[root] != '/'))
		return true;
	const char *below = above ? "" : path + root + 1;
	for (size_t i = 0; i < f->out->n; i++)
		if (strcmp(f->out->list[i], below) == 0)
			return true;
	if (f->out->n >= KH_LIMIT_REVIEW_READS)
		return kh_err_set(f->err, KH_ERR_CONFIG,
				  "%s: git and other tools read more than %d paths in it, so that "
				  "nothing can be taken over (take a smaller folder)",
				  kh_esc_str(f->root), KH_LIMIT_REVIEW_READS);
	char **list = reallocarray(f->out->list, f->out->n + 1, sizeof(*list));
	if (!list)
		return no_memory(f);
	f->out->list = list;
	list[f->out->n] = strdup(below);
	return list[f->out->n] ? ++f->out->n : no_memory(f);
}

/* ---- where a path leads ---- */

struct way {
	char at[2 * PATH_MOST]; /* through no link */
	char rest[2 * PATH_MOST];
	int hops;
};

static bool is_too_long(const struct finding *f, const char *path)
{
	return kh_err_set(
		f->err, KH_ERR_CONFIG,
		"%s: where it leads can't be followed (put what it points to in its place)",
		kh_esc_str(path));
}

/* The way goes on by the text of the link that it is at. */
static bool enter_link(struct finding *f, struct way *way)
{
	char text[PATH_MOST + 1];
	ssize_t n = readlink(way->at, text, sizeof(text) - 1);
	kh_auto_free char *rest = strdup(way->rest);
	if (!rest)
		return no_memory(f);
	if (n <= 0 || ++way->hops > HOPS_MOST || (size_t)n + strlen(rest) >= PATH_MOST)
		return is_too_long(f, way->at);
	text[n] = '\0';
	if (!add(f, way->at))
		return false;
	*(text[0] == '/' ? way->at : strrchr(way->at, '/')) = '\0';
	snprintf(way->rest, sizeof(way->rest), "%s/%s", text, rest);
	return true;
}

/* Each link on the way, and its end. What does not exist is taken by its letters. */
static bool follow(struct finding *f, const char *path)
{
	struct way way = { .hops = 0 };
	struct stat st = { .st_mode = S_IFDIR };
	bool ok = strlen(path) < PATH_MOST || is_too_long(f, path);
	if (ok)
		memcpy(way.rest, path, strlen(path) + 1);
	while (ok && S_ISDIR(st.st_mode) && way.rest[strspn(way.rest, "/")]) {
		char *part = way.rest + strspn(way.rest, "/");
		size_t len = strcspn(part, "/"), at = strlen(way.at);
		if (len == 2 && strncmp(part, "..", 2) == 0) {
			char *slash = strrchr(way.at, '/');
			*(slash ? slash : way.at) = '\0';
		} else if (len != 1 || part[0] != '.') {
			if (at + len >= PATH_MOST)
				return is_too_long(f, path);
			way.at[at] = '/';
			memcpy(way.at + at + 1, part, len);
			way.at[at + 1 + len] = '\0';
		}
		memmove(way.rest, part + len, strlen(part + len) + 1);
		if (*way.at && lstat(way.at, &st) != 0)
			break;
		if (S_ISLNK(st.st_mode)) {
			ok = enter_link(f, &way);
			st.st_mode = S_IFDIR;
		}
	}
	kh_auto_free char *end = ok ? kh_strf("%s/%s", way.at, way.rest) : NULL;
	if (!end)
		return ok && no_memory(f);
	kh_git_normalise(end);
	return add(f, end);
}

/* ---- what is protected by its name ---- */

static bool follow_in(struct finding *f, const char *folder, const char *name)
{
	kh_auto_free char *path = kh_strf("%s/%s", folder, name);
	return path ? follow(f, path) : no_memory(f);
}

static bool follow_top(struct finding *f)
{
	DIR *dir = opendir(f->root);
	if (!dir)
		return kh_err_sys(f->err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(f->root));
	bool ok = true;
	const struct dirent *entry;
	while (ok && (entry = readdir(dir)))
		if (kh_protected_is_name(entry->d_name) ||
		    kh_name_fold_is(entry->d_name, ".cargo") ||
		    kh_name_fold_is(entry->d_name, ".hg"))
			ok = follow_in(f, f->root, entry->d_name);
	closedir(dir);
	return ok;
}

static bool follow_all(struct finding *f, const struct kh_paths *paths)
{
	bool ok = true;
	for (size_t i = 0; ok && i < paths->n; i++)
		ok = follow(f, paths->list[i]);
	return ok;
}

/* A plain file of a git folder is read by its own name, and that is never taken over. */
static bool follow_git(struct finding *f, const char *git_dir)
{
	static const char *const parts[] = { "hooks", "config", "config.worktree", "commondir" };
	bool ok = true;
	for (size_t i = 0; ok && i < sizeof(parts) / sizeof(parts[0]); i++) {
		kh_auto_free char *path = kh_strf("%s/%s", git_dir, parts[i]);
		struct stat st;
		if (!path)
			return no_memory(f);
		if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode))
			ok = follow(f, path);
	}
	return ok;
}

/* Those that are protected below a folder of another purpose. */
static bool follow_inner(struct finding *f)
{
	static const char *const names[] = { ".github/hooks", ".config/mise", ".clinerules/hooks" };
	bool ok = true;
	for (size_t i = 0; ok && i < sizeof(names) / sizeof(names[0]); i++)
		ok = follow_in(f, f->root, names[i]);
	return ok;
}

static bool follow_names(struct finding *f, const struct kh_survey *survey)
{
	bool ok = follow_top(f) && follow_inner(f) && follow_all(f, &survey->names) &&
		  follow_all(f, &survey->links) && follow_all(f, &survey->git_files);
	for (size_t i = 0; ok && i < survey->git_folders.n; i++)
		ok = follow_git(f, survey->git_folders.list[i]);
	return ok;
}

/* ---- what git says ---- */

/* husky's hooks are in a folder `_`, and each runs a script of its name in the folder above. */
static bool follow_read(struct finding *f, const char *path)
{
	size_t len = strlen(path);
	if (len < 2 || strcmp(path + len - 2, "/_") != 0 || len - 2 <= strlen(f->root))
		return follow(f, path);
	kh_auto_free char *above = strndup(path, len - 2);
	return above ? follow(f, above) && follow(f, path) : no_memory(f);
}

/* What each work tree has of its own, whether it exists or not; NULL: what has an absolute path. */
static bool follow_tree(struct finding *f, const struct kh_survey *survey, const char *tree)
{
	kh_auto_free char *git_dir = tree ? kh_tree_git_dir(tree) : NULL;
	struct kh_tree_read read;
	bool ok = true;
	for (size_t at = 0; ok && kh_tree_reads_next(kh_buf_view(&survey->reads), &at, &read);) {
		kh_auto_free char *path = kh_tree_read_is_of(&read, git_dir)
						  ? kh_tree_read_at(f->root, tree, &read)
						  : NULL;
		ok = !path || follow_read(f, path);
	}
	return ok;
}

/* A folder without a repository may get one later. */
static bool keep_relative(struct finding *f, const struct kh_survey *survey)
{
	struct kh_tree_read read;
	bool ok = true;
	for (size_t at = 0; ok && kh_tree_reads_next(kh_buf_view(&survey->reads), &at, &read);) {
		kh_auto_free char *path = kh_strf("/%s", read.path);
		if (!path)
			return no_memory(f);
		kh_git_normalise(path);
		bool counts = read.path[0] != '/' && !strstr(read.path, "..") && path[0] &&
			      (read.kind == KH_TREE_HOOKS || strchr(path + 1, '/'));
		ok = !counts || kh_buf_append(&f->out->relative, path + 1, strlen(path)) ||
		     no_memory(f);
	}
	return ok;
}

static bool ask_git(struct finding *f, struct kh_survey *survey)
{
	struct kh_git_reads reads kh_cleanup(kh_git_reads_fini);
	kh_git_reads_init(&reads, &survey->reads);
	bool ok = kh_git_reads_find(&reads, f->root, survey, f->err);
	for (size_t i = 0; ok && i < reads.n; i++)
		ok = follow_read(f, reads.list[i].path);
	for (size_t i = 0; ok && i < survey->trees.n; i++)
		ok = follow_tree(f, survey, survey->trees.list[i]);
	return ok && follow_tree(f, survey, NULL) && keep_relative(f, survey);
}

/* ---- links in all of these ---- */

static bool visit(void *arg, const struct kh_walk_folder *folder, struct kh_err *err)
{
	struct finding *f = arg;
	bool ok = true;
	(void)err;
	for (size_t i = 0; ok && i < folder->n; i++)
		if (S_ISLNK(folder->list[i].mode))
			ok = follow_in(f, folder->path, folder->list[i].name);
	return ok;
}

/* The list grows meanwhile: what is found is looked through as well. */
static bool follow_links(struct finding *f)
{
	bool ok = true;
	for (size_t i = 0; ok && i < f->out->n; i++) {
		struct stat st;
		if (!*f->out->list[i])
			continue;
		kh_auto_free char *path = kh_strf("%s/%s", f->root, f->out->list[i]);
		if (!path)
			return no_memory(f);
		if (lstat(path, &st) != 0 || !S_ISDIR(st.st_mode))
			continue;
		struct kh_walk walk = { .visit = visit, .arg = f };
		ok = kh_walk_run(&walk, path, f->err);
		if (ok && walk.missed)
			ok = kh_err_set(f->err, KH_ERR_CONFIG,
					"links in what is protected could not be followed: %s",
					walk.missed);
		free(walk.missed);
	}
	return ok;
}

/* ---- what is compared ---- */

static bool fold_relative(struct finding *f)
{
	struct kh_buf folded kh_cleanup(kh_buf_fini);
	struct kh_slice all = kh_buf_view(&f->out->relative);
	kh_buf_init(&folded, KH_LIMIT_SURVEY_FILE_BYTES);
	for (size_t at = 0; at < all.len; at += strlen(all.ptr + at) + 1) {
		kh_auto_free char *path = kh_name_fold_path(all.ptr + at);
		if (!path || !kh_buf_append(&folded, path, strlen(path) + 1))
			return no_memory(f);
	}
	kh_buf_clear(&f->out->relative);
	return kh_buf_append_slice(&f->out->relative, kh_buf_view(&folded)) || no_memory(f);
}

/* On some file systems, HK is another spelling of hk. */
static bool fold_all(struct finding *f)
{
	for (size_t i = 0; i < f->out->n; i++) {
		char *folded = kh_name_fold_path(f->out->list[i]);
		if (!folded)
			return no_memory(f);
		free(f->out->list[i]);
		f->out->list[i] = folded;
	}
	return fold_relative(f);
}

bool kh_review_reads_find(struct kh_review_reads *out, const char *workspace, struct kh_err *err)
{
	struct kh_survey survey kh_cleanup(kh_survey_fini) = { 0 };
	struct finding f = { .out = out, .root = workspace, .err = err };
	kh_buf_init(&out->relative, KH_LIMIT_SURVEY_FILE_BYTES);
	return kh_survey_take(&survey, workspace, err) && follow_names(&f, &survey) &&
	       ask_git(&f, &survey) && follow_links(&f) && fold_all(&f);
}

/* How much of the path has to be named for `read`, a path from the same folder. */
static size_t reach_of(const char *read, const char *path, bool is_folder)
{
	size_t len = strlen(path);
	size_t part = *read ? strlen(read) : strcspn(path, "/");
	bool below = part <= len && (!*read || strncmp(path, read, part) == 0) &&
		     (path[part] == '/' || !path[part]);
	bool above = part > len && strncmp(path, read, len) == 0 && read[len] == '/';
	return below ? part : above && !is_folder ? len : 0;
}

/* In whichever folder of the workspace a work tree will be. */
static size_t reach_anywhere(const char *read, const char *path, bool is_folder)
{
	size_t most = 0;
	for (const char *at = path; at; at = strchr(at, '/')) {
		at += *at == '/';
		size_t reach = *at ? reach_of(read, at, is_folder) : 0;
		if (reach > 0)
			most = reach + (size_t)(at - path);
	}
	return most;
}

static size_t reach_folded(const struct kh_review_reads *reads, const char *path, bool is_folder)
{
	size_t most = 0;
	for (size_t i = 0; i < reads->n; i++) {
		size_t reach = reach_of(reads->list[i], path, is_folder);
		most = reach > most ? reach : most;
	}
	struct kh_slice all = kh_buf_view(&reads->relative);
	for (size_t at = 0; at < all.len; at += strlen(all.ptr + at) + 1) {
		size_t reach = reach_anywhere(all.ptr + at, path, is_folder);
		most = reach > most ? reach : most;
	}
	return most;
}

size_t kh_review_reads_reach(const struct kh_review_reads *reads, const char *path, bool is_folder)
{
	kh_auto_free char *folded = kh_name_fold_path(path);
	size_t reach = folded ? reach_folded(reads, folded, is_folder) : strlen(path), at = 0;
	if (!folded || reach == 0)
		return reach;
	/* As many names of the path as it was folded. */
	for (size_t i = 0; i < reach; i++)
		if (folded[i] == '/')
			at += strcspn(path + at, "/") + 1;
	return at + strcspn(path + at, "/");
}
