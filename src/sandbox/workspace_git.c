/*
 * workspace_git.c - protects what git on the host runs or reads as configuration
 *
 * Hooks and configuration of each git folder in the workspace are read-only; git folders are
 * recognised by their content. So is any other file in the workspace that git runs or reads
 * configuration from (git_reads.c). A repository that the agent makes is checked after the run
 * (after.c).
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>

#include "concern.h"
#include "git_path.h"
#include "git_reads.h"
#include "leads.h"
#include "tree_reads.h"
#include "runs.h"
#include "workspace_internal.h"

/* An agent makes as many as it likes; each costs half a dozen mounts, and a descriptor for each. */
enum { REPOSITORIES_MOST = 64 /* with their submodules and worktrees */ };

/* Under another git folder's worktrees/: git reads one file of configuration here, and the rest
 * there. Not so where `commondir` leads back to the folder itself, however it is spelt. */
static bool is_linked(const char *git_dir)
{
	kh_auto_free char *file = kh_strf("%s/commondir", git_dir);
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, KH_LIMIT_SURVEY_FILE_BYTES);
	if (!file || !kh_file_read(file, &text, NULL))
		return false;
	kh_auto_free char *target = kh_git_pointed(kh_buf_view(&text), "");
	kh_auto_free char *joined = target ? kh_path_join(git_dir, target) : NULL;
	kh_auto_free char *common = joined ? realpath(joined, NULL) : NULL;
	kh_auto_free char *own = realpath(git_dir, NULL);
	return common && own && strcmp(common, own) != 0;
}

static bool note_protected(struct kh_work *w, struct kh_survey *survey, const char *path)
{
	unsigned char digest[KH_CONCERN_DIGEST_BYTES];
	kh_concern_protected_digest(path, digest);
	return kh_buf_append(&survey->before, digest, sizeof(digest)) || kh_work_no_memory(w);
}

/* Only what has a mount is noted: the survey after the run looks at the rest. */
static bool protect_one(struct kh_work *w, struct kh_survey *survey, const char *git_dir,
			const char *name, bool if_there)
{
	kh_auto_free char *path = kh_strf("%s/%s", git_dir, name);
	struct stat st;
	if (!path)
		return kh_work_no_memory(w);
	if (if_there && lstat(path, &st) != 0)
		return true;
	/* git looks for its configuration where this file says; "." is where it looks anyway. */
	bool ok = strcmp(name, "commondir") == 0 ? kh_work_protect_file(w, path, ".\n")
						 : kh_work_protect(w, path);
	return ok && note_protected(w, survey, path);
}

static bool protect_folder(struct kh_work *w, struct kh_survey *survey, const char *git_dir)
{
	bool linked = is_linked(git_dir);
	return kh_work_pin(w, git_dir) && protect_one(w, survey, git_dir, "hooks", linked) &&
	       protect_one(w, survey, git_dir, "config", linked) &&
	       protect_one(w, survey, git_dir, "config.worktree", false) &&
	       protect_one(w, survey, git_dir, "commondir", false);
}

static bool is_empty(const struct kh_work *w)
{
	DIR *dir = opendir(w->root);
	bool empty = dir != NULL;
	const struct dirent *entry;
	while (empty && (entry = readdir(dir))) {
		kh_auto_free char *path = kh_strf("%s/%s", w->root, entry->d_name);
		empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
			(path && kh_run_record_is_stub(w->record, path));
	}
	if (dir)
		closedir(dir);
	return empty;
}

/* At the top, where the host's own git is most likely at work: a repository can't be made, but in
 * an empty workspace, where one is about to begin. */
static bool protect_top(struct kh_work *w, const struct kh_survey *survey)
{
	kh_auto_free char *git = kh_strf("%s/.git", w->root);
	struct stat st;
	if (!git)
		return kh_work_no_memory(w);
	bool there = lstat(git, &st) == 0;
	for (size_t i = 0; i < survey->git_folders.n; i++)
		if (strcmp(survey->git_folders.list[i], git) == 0)
			return true;
	return (!there && is_empty(w)) || kh_work_protect(w, git);
}

/* The topmost part of a path that does not exist. Cuts it there. */
static void cut_at_absent(const char *root, char *path)
{
	struct stat st;
	for (size_t i = strlen(root) + 1; path[i]; i++) {
		if (path[i] != '/')
			continue;
		path[i] = '\0';
		if (lstat(path, &st) != 0)
			return;
		path[i] = '/';
	}
}

/* husky's hooks are in a folder `_`, and each runs a script of its name in the folder above. */
static bool protect_above(struct kh_work *w, const char *path)
{
	size_t len = strlen(path), root = strlen(w->root);
	if (len < 2 || strcmp(path + len - 2, "/_") != 0 || len - 2 <= root)
		return true;
	kh_auto_free char *above = strndup(path, len - 2);
	struct stat st;
	if (!above)
		return kh_work_no_memory(w);
	return lstat(above, &st) != 0 || kh_work_protect(w, above);
}

static bool protect_read(struct kh_work *w, const struct kh_git_read *read)
{
	struct stat st;
	if (!protect_above(w, read->path))
		return false;
	if (lstat(read->path, &st) == 0 || read->kind == KH_GIT_READ_THERE)
		return kh_work_protect(w, read->path);
	kh_auto_free char *path = strdup(read->path);
	if (!path)
		return kh_work_no_memory(w);
	cut_at_absent(w->root, path);
	if (read->kind == KH_GIT_READ_FILE && strcmp(path, read->path) == 0)
		return kh_work_protect_file(w, path, "");
	return kh_work_protect(w, path);
}

/* What a work tree has of its own, to be compared after the run. NULL: what has an absolute path.
 */
static bool note_tree(struct kh_work *w, struct kh_survey *survey, const char *tree)
{
	kh_auto_free char *git_dir = tree ? kh_tree_git_dir(tree) : NULL;
	unsigned char digest[KH_CONCERN_DIGEST_BYTES];
	struct kh_tree_read read;
	for (size_t at = 0; kh_tree_reads_next(kh_buf_view(&survey->reads), &at, &read);) {
		kh_auto_free char *path = kh_tree_read_is_of(&read, git_dir)
						  ? kh_tree_read_at(w->root, tree, &read)
						  : NULL;
		if (path && kh_tree_read_digest(w->root, path, &read, digest) &&
		    !kh_buf_append(&survey->before, digest, sizeof(digest)))
			return kh_work_no_memory(w);
	}
	return true;
}

static void warn(const struct kh_work *w, struct kh_git_reads *reads)
{
	const char *unknown = kh_buf_cstr(&reads->unknown);
	if (unknown && *unknown)
		kh_log_warn("git runs %s with words that only a shell can expand; what they name "
			    "is not known, and is not protected where it is in %s",
			    kh_esc_str(unknown), kh_esc_str(w->root));
	if (reads->unknown_owner)
		kh_log_warn("%s belongs to user %u, who is not known here: what git runs by that "
			    "user's own configuration is not protected in it",
			    kh_esc_str(w->root), (unsigned)reads->unknown_owner);
}

static bool protect_reads(struct kh_work *w, struct kh_survey *survey)
{
	struct stat st;
	struct kh_git_reads reads kh_cleanup(kh_git_reads_fini);
	kh_git_reads_init(&reads, &survey->reads);
	bool ok = kh_git_reads_find(&reads, w->root, survey, w->err);
	for (size_t i = 0; ok && i < reads.n; i++)
		ok = protect_read(w, &reads.list[i]) &&
		     (lstat(reads.list[i].path, &st) != 0 ||
		      note_protected(w, survey, reads.list[i].path));
	for (size_t i = 0; ok && i < survey->trees.n; i++)
		ok = kh_deadline_passed(&w->deadline)
			     ? kh_err_set(
				       w->err, KH_ERR_CONFIG,
				       "--workspace %s: comparing what git runs in each work tree "
				       "takes too long (take a smaller folder)",
				       kh_esc_str(w->root))
			     : note_tree(w, survey, survey->trees.list[i]);
	if (ok)
		warn(w, &reads);
	return ok && note_tree(w, survey, NULL);
}

static bool is_dot_git(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash && strcmp(slash + 1, ".git") == 0;
}

/* Of those that are named .git, or of the others. */
static bool protect_folders(struct kh_work *w, struct kh_survey *survey, bool named)
{
	const struct kh_paths *folders = &survey->git_folders;
	bool ok = true;
	for (size_t i = 0; ok && i < folders->n; i++)
		if (is_dot_git(folders->list[i]) == named)
			ok = protect_folder(w, survey, folders->list[i]);
	return ok;
}

/* What is not protected is the agent's to change while git on the host is at work there. */
static bool are_few(struct kh_work *w, const struct kh_paths *paths)
{
	if (paths->n <= REPOSITORIES_MOST)
		return true;
	const char *last = paths->list[paths->n - 1];
	return kh_err_set(w->err, KH_ERR_CONFIG,
			  "--workspace %s: more than %d repositories, submodules and worktrees in "
			  "it, which is more than can be protected; %s is one of them (remove what "
			  "an agent made, take a smaller folder, or use --workspace DIR:review)",
			  kh_esc_str(w->root), REPOSITORIES_MOST, kh_esc_str(last));
}

bool kh_work_protect_git(struct kh_work *w, struct kh_survey *survey)
{
	const struct kh_paths *files = &survey->git_files;
	bool ok = are_few(w, &survey->git_folders) && are_few(w, files) && protect_top(w, survey) &&
		  protect_folders(w, survey, true) && protect_folders(w, survey, false);
	for (size_t i = 0; ok && i < files->n; i++)
		ok = kh_work_protect(w, files->list[i]);
	return ok && protect_reads(w, survey);
}
