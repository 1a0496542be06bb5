/*
 * git_reads.c - finds what git on the host reads or runs from the workspace
 *
 * Hooks may be in a folder of the project (core.hooksPath, also from ~/.gitconfig), configuration
 * may include a file of it, and a filter may be one of its scripts. So before the sandbox starts,
 * git is asked for its settings (git_ask.c), and its rules give the places of absent files
 * (git_places.c). This file reads the configuration of each repository itself: those in the
 * workspace, those outside with a work tree in it, and those around it. git is not asked for these,
 * since an agent may have written one that makes git fail, and git does not tell how a condition
 * (includeIf) would change with the branch.
 *
 * Existing files are protected. Each path is also noted for the comparison after the run
 * (tree_reads.h): a file that was absent before is set aside then.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/program.h>

#include "git_ask.h"
#include "git_config.h"
#include "git_names.h"
#include "git_path.h"
#include "git_places.h"
#include "tree_reads.h"

enum {
	ANSWER_BYTES = 1024 * 1024,
	INCLUDES_MOST = 10,
	TREE_READS_MOST = 256,
	UNKNOWN_BYTES = 4096,
};

void kh_git_reads_init(struct kh_git_reads *reads, struct kh_buf *compared)
{
	*reads = (struct kh_git_reads){ .compared = compared };
	kh_buf_init(&reads->unknown, UNKNOWN_BYTES);
}

void kh_git_reads_fini(struct kh_git_reads *reads)
{
	for (size_t i = 0; i < reads->n; i++)
		free(reads->list[i].path);
	free(reads->list);
	kh_buf_fini(&reads->unknown);
	*reads = (struct kh_git_reads){ 0 };
}

/* ---- configuration ---- */

static void read_config(const struct kh_git_finding *above, const char *path);

static bool is_include(const struct kh_git_config_entry *e)
{
	return (strcmp(e->section, "include") == 0 || strcmp(e->section, "includeif") == 0) &&
	       strcmp(e->name, "path") == 0;
}

/* One that is for git itself: what it names are revisions and paths. With "!" it is a command. */
static bool is_plain_alias(const struct kh_git_config_entry *e)
{
	return strcmp(e->section, "alias") == 0 && e->value[0] != '!';
}

/* Folders of which git copies or runs whatever is in them. */
static bool is_folder_of_hooks(const struct kh_git_config_entry *e)
{
	return (strcmp(e->section, "core") == 0 && strcmp(e->name, "hookspath") == 0) ||
	       (strcmp(e->section, "init") == 0 && strcmp(e->name, "templatedir") == 0);
}

static bool look_at_entry(void *arg, const struct kh_git_config_entry *e)
{
	struct kh_git_finding *f = arg;
	if (!e->value || !*e->value || is_plain_alias(e) || kh_git_config_is_harmless(e))
		return true;
	if (is_include(e)) {
		kh_git_names_look(f, f->origin, e->value, KH_GIT_READ_FILE);
		kh_auto_free char *path = kh_git_names_expand(f, f->origin, e->value);
		if (path && f->depth < INCLUDES_MOST)
			read_config(f, path);
	} else if (is_folder_of_hooks(e)) {
		kh_git_names_hooks(f, e->value);
	} else {
		kh_git_names_words(f, e);
	}
	return true;
}

static char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	return strndup(path, slash ? (size_t)(slash - path) : 0);
}

/* What it says up to a fault of its grammar counts: git may read on. */
static void read_config(const struct kh_git_finding *above, const char *path)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_auto_free char *folder = folder_of(path);
	struct stat st;
	kh_buf_init(&text, KH_LIMIT_SURVEY_FILE_BYTES);
	struct kh_git_finding f = *above;
	f.origin = folder;
	f.depth++;
	if (!folder || stat(path, &st) != 0 || !S_ISREG(st.st_mode) || access(path, R_OK) != 0)
		return;
	/* One outside may be a link to a file in the workspace. */
	if (!kh_git_is_inside(path, f.root))
		kh_git_names_look(&f, folder, path, KH_GIT_READ_THERE);
	if (!kh_file_read(path, &text, NULL))
		kh_git_names_fail(f.out, path, "it can't be read, or is larger than a megabyte");
	else if (!kh_git_config_read(kh_buf_view(&text), look_at_entry, &f) &&
		 kh_git_config_is_beyond(kh_buf_view(&text)))
		kh_git_names_fail(
			f.out, path,
			"git may read it otherwise than keyhole (it contains a NUL, or too much)");
}

/* ---- by the configuration of each repository ---- */

static bool take_worktree(void *arg, const struct kh_git_config_entry *e)
{
	char **value = arg;
	if (!kh_git_config_is_worktree(e))
		return true;
	free(*value);
	*value = strdup(e->value);
	return true;
}

static char *worktree_of(const char *git_dir)
{
	kh_auto_free char *path = kh_strf("%s/config", git_dir);
	kh_auto_free char *value = NULL;
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, KH_LIMIT_SURVEY_FILE_BYTES);
	if (path && kh_file_read(path, &text, NULL))
		(void)kh_git_config_read(kh_buf_view(&text), take_worktree, &value);
	kh_auto_free char *joined = value ? kh_path_join(git_dir, value) : NULL;
	return joined ? realpath(joined, NULL) : NULL;
}

static void read_configs(const struct kh_git_finding *f, const char *git_dir)
{
	static const char *const files[] = { "config", "config.worktree" };
	for (size_t i = 0; git_dir && i < sizeof(files) / sizeof(files[0]); i++) {
		kh_auto_free char *path = kh_strf("%s/%s", git_dir, files[i]);
		if (path)
			read_config(f, path);
	}
}

static void look_in(const struct kh_git_finding *in, const char *git_dir)
{
	struct kh_git_finding f = *in;
	kh_auto_free char *named = worktree_of(git_dir);
	kh_auto_free char *above = folder_of(git_dir);
	kh_auto_free char *common = kh_tree_git_dir(git_dir);
	f.tree = named ? named : above;
	f.git_dir = common;
	if (f.tree)
		read_configs(&f, git_dir);
}

/* A work tree whose git folder is outside: its pointer is the agent's to read, and what it points
 * to says what git runs in here. */
static void look_around(const struct kh_git_finding *in, const char *tree)
{
	struct kh_git_finding f = *in;
	kh_auto_free char *own = kh_tree_own_git_dir(tree);
	kh_auto_free char *git_dir = own ? realpath(own, NULL) : NULL;
	kh_auto_free char *common = kh_tree_git_dir(tree);
	if (!git_dir || !common ||
	    (kh_git_is_inside(git_dir, f.root) && kh_git_is_inside(common, f.root)))
		return;
	kh_auto_free char *named = worktree_of(git_dir);
	const char *const trees[] = { tree, named };
	for (size_t i = 0; i < 2 && trees[i]; i++) {
		f.tree = trees[i];
		f.git_dir = common;
		read_configs(&f, common);
		if (strcmp(common, git_dir) != 0)
			read_configs(&f, git_dir);
		kh_auto_free char *hooks = kh_strf("%s/hooks", common);
		if (hooks) {
			kh_git_names_look(&f, common, "hooks", KH_GIT_READ_THERE);
			kh_git_names_links(&f, hooks);
		}
	}
}

static bool is_tree(const char *folder)
{
	static const char *const parts[] = { "HEAD", "objects", "refs" };
	kh_auto_free char *git = kh_strf("%s/.git", folder);
	if (git && access(git, F_OK) == 0)
		return true;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		kh_auto_free char *path = kh_strf("%s/%s", folder, parts[i]);
		if (!path || access(path, F_OK) != 0)
			return false;
	}
	return true;
}

static void look_above(const struct kh_git_finding *f)
{
	kh_auto_free char *at = strdup(f->root);
	while (at && strrchr(at, '/')) {
		*strrchr(at, '/') = '\0';
		if (is_tree(*at ? at : "/"))
			look_around(f, *at ? at : "/");
	}
}

/* ---- by git itself ---- */

/* "section.sub.section.name\nvalue", taken apart as a file would be. */
static void look_at_key(struct kh_git_finding *f, struct kh_slice entry)
{
	size_t line = kh_slice_find(entry, '\n', 0);
	kh_auto_free char *key = kh_slice_dup(kh_slice_sub(entry, 0, line));
	kh_auto_free char *value = kh_slice_dup(kh_slice_sub(entry, line + 1, entry.len));
	char *first = key ? strchr(key, '.') : NULL, *last = key ? strrchr(key, '.') : NULL;
	if (!key || !value)
		kh_git_names_no_memory(f->out);
	if (!first || !value)
		return;
	struct kh_git_config_entry e = { .section = key, .name = last + 1, .value = value };
	if (last != first)
		e.subsection = first + 1;
	*first = *last = '\0';
	(void)look_at_entry(f, &e);
}

/* The folder in which git has its work tree: the one with .git in it, at the root or above. */
static char *find_tree(const char *root)
{
	kh_auto_free char *at = strdup(root);
	while (at && *at) {
		kh_auto_free char *git = kh_strf("%s/.git", at);
		if (git && access(git, F_OK) == 0)
			return kh_steal_ptr(&at);
		*strrchr(at, '/') = '\0';
	}
	return strdup(root);
}

static void take_answer(struct kh_git_finding *f, struct kh_slice all)
{
	for (size_t at = 0; at < all.len;) {
		size_t end = kh_slice_find(all, '\0', at);
		kh_auto_free char *origin = kh_slice_dup(kh_slice_sub(all, at, end));
		size_t next = kh_slice_find(all, '\0', end + 1);
		kh_auto_free char *folder = NULL;
		f->origin = f->root;
		if (origin && strncmp(origin, "file:", 5) == 0) {
			kh_git_names_look(f, f->root, origin + 5, KH_GIT_READ_THERE);
			kh_auto_free char *file = kh_path_join(f->root, origin + 5);
			f->origin = folder = file ? folder_of(file) : NULL;
		}
		if (origin && f->origin)
			look_at_key(f, kh_slice_sub(all, end + 1, next));
		else
			kh_git_names_no_memory(f->out);
		at = next + 1;
	}
}

/* Where there is no git that could say so: other programs read the same files. */
static void read_place(struct kh_git_finding *f, const char *path)
{
	read_config(f, path);
}

/* ---- what is there in each work tree ---- */

static void look_at_there(struct kh_git_finding *f, const struct kh_tree_read *read)
{
	kh_auto_free char *path = kh_tree_read_at(f->root, f->tree, read);
	kh_auto_free char *git = kh_strf("%s/.git", f->tree);
	struct stat st;
	if (!path || !git)
		return;
	bool hooks = read->kind == KH_TREE_HOOKS;
	/* A folder of hooks that is absent can't be made. */
	bool there = lstat(hooks ? git : path, &st) == 0;
	if (there && (hooks || !S_ISDIR(st.st_mode) || read->kind == KH_TREE_NAMED ||
		      kh_tree_is_program(path)))
		kh_git_names_look(f, f->tree, read->path, KH_GIT_READ_FOLDER);
}

/* Without those beyond the bound: they are compared after the run. */
static void look_in_tree(struct kh_git_reads *out, const char *root, const char *tree)
{
	kh_auto_free char *git_dir = kh_tree_git_dir(tree);
	struct kh_git_finding f = { .out = out, .root = root, .tree = tree, .origin = tree };
	struct kh_tree_read read;
	for (size_t at = 0; out->n < TREE_READS_MOST &&
			    kh_tree_reads_next(kh_buf_view(out->compared), &at, &read);)
		if (kh_tree_read_is_of(&read, git_dir))
			look_at_there(&f, &read);
}

/* ---- all of it ---- */

static bool ask(struct kh_git_finding *f, const struct kh_git_person *person, struct kh_err *err)
{
	struct kh_buf answer kh_cleanup(kh_buf_fini);
	kh_buf_init(&answer, ANSWER_BYTES);
	kh_auto_free char *git = kh_program_find("git");
	kh_auto_free char *tree = find_tree(f->root);
	if (!tree)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "git: no memory");
	f->tree = tree;
	f->origin = f->root;
	f->git_dir = "";
	kh_git_places_look(f, person);
	if (git && !kh_git_ask(git, person, f->root, &answer, err))
		return false;
	if (git)
		take_answer(f, kh_buf_view(&answer));
	else
		kh_git_places_each(f, person, read_place);
	return true;
}

static void look_for(const struct kh_git_finding *f, const struct kh_survey *survey)
{
	for (size_t i = 0; i < survey->git_folders.n; i++)
		look_in(f, survey->git_folders.list[i]);
	for (size_t i = 0; i < survey->git_files.n; i++) {
		kh_auto_free char *tree = folder_of(survey->git_files.list[i]);
		if (tree)
			look_around(f, tree);
		else
			kh_git_names_no_memory(f->out);
	}
	look_above(f);
}

bool kh_git_reads_find(struct kh_git_reads *out, const char *root, const struct kh_survey *survey,
		       struct kh_err *err)
{
	struct kh_git_persons persons kh_cleanup(kh_git_persons_fini) = { 0 };
	bool ok = kh_git_persons_find(&persons, root, err);
	out->unknown_owner = persons.unknown;
	for (size_t i = 0; ok && i < persons.n; i++) {
		struct kh_git_finding f = { .out = out,
					    .root = root,
					    .home = persons.list[i].home };
		ok = ask(&f, &persons.list[i], err);
		if (ok)
			look_for(&f, survey);
	}
	for (size_t i = 0; ok && i < survey->trees.n; i++)
		look_in_tree(out, root, survey->trees.list[i]);
	if (ok && out->failed)
		*err = out->err;
	return ok && !out->failed;
}
