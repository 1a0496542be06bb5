/*
 * gitreads.c - what git on the host reads or runs that lies in the workspace
 *
 * Hooks may lie in a folder of the project (core.hooksPath, also from ~/.gitconfig), configuration
 * may include a file of it, and a filter may be one of its scripts. So git is asked what it reads
 * in this workspace, before the sandbox starts; `git config` reads files and runs nothing. The
 * configuration of each repository in it is read here as well, since git is asked in one place
 * alone and does not say what a condition (includeIf) will be after a change of branch.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <linux/openat2.h>
#include <unistd.h>

#include <keyhole/child.h>
#include <keyhole/cleanup.h>
#include <keyhole/file.h>
#include <keyhole/limits.h>
#include <keyhole/program.h>

#include "gitconfig.h"
#include "treereads.h"
#include "workspace_internal.h"

enum {
	ANSWER_BYTES = 1024 * 1024,
	PATIENCE_MS = 5000,
	INCLUDES_MOST = 10,
	READS_MOST = 1024,
	TREE_READS_MOST = 256
};

struct finding {
	struct kh_git_reads *out;
	const char *root;
	const char *tree;    /* where git is when it runs something */
	const char *origin;  /* the folder of the file that says so */
	const char *git_dir; /* the one that says so; "": the user; NULL: that is noted already */
	int depth;	     /* of includes */
};

void kh_git_reads_fini(struct kh_git_reads *reads)
{
	for (size_t i = 0; i < reads->n; i++)
		free(reads->list[i].path);
	free(reads->list);
	*reads = (struct kh_git_reads){ 0 };
}

static bool is_inside(const char *path, const char *root)
{
	size_t len = strlen(root);
	return strncmp(path, root, len) == 0 && path[len] == '/' && path[len + 1];
}

/* Takes `path` over. */
static void add(struct kh_git_reads *out, char *path, int kind)
{
	for (size_t i = 0; path && i < out->n; i++)
		if (strcmp(out->list[i].path, path) == 0) {
			free(path);
			return;
		}
	struct kh_git_read *list = path && out->n < READS_MOST
					   ? reallocarray(out->list, out->n + 1, sizeof(*list))
					   : NULL;
	if (!list) {
		out->failed = true;
		free(path);
		return;
	}
	out->list = list;
	list[out->n].path = path;
	list[out->n++].kind = kind;
}

/* As git reads a path in its configuration. Heap. */
static char *expand(const char *base, const char *value)
{
	const char *home = getenv("HOME");
	if (strncmp(value, "~/", 2) == 0 && home)
		return kh_strf("%s/%s", home, value + 2);
	return kh_path_join(base, value);
}

void kh_git_normalise(char *path)
{
	char *out = path;
	for (char *in = path; *in;) {
		in += strspn(in, "/");
		size_t len = strcspn(in, "/");
		if (len == 2 && in[0] == '.' && in[1] == '.') {
			while (out > path && *--out != '/')
				;
		} else if (len > 0 && !(len == 1 && in[0] == '.')) {
			*out++ = '/';
			memmove(out, in, len);
			out += len;
		}
		in += len;
	}
	*out = '\0';
}

/* A place that git will look at, whether it exists or not: by the name, and where that leads. Of
 * one that exists, the name counts where a link is on the way, which could lead elsewhere. */
static void look_at(struct finding *f, const char *base, const char *value, int kind)
{
	kh_auto_free char *path = expand(base, value);
	if (!path || strlen(path) >= KH_LIMIT_SURVEY_PATH_BYTES) {
		f->out->failed = f->out->failed || !path;
		return;
	}
	char *resolved = realpath(path, NULL);
	kh_git_normalise(path);
	bool by_name = kind != KH_GIT_READ_THERE || (resolved && strcmp(resolved, path) != 0);
	if (resolved && is_inside(resolved, f->root))
		add(f->out, kh_steal_ptr(&resolved), kind);
	free(resolved);
	if (by_name && is_inside(path, f->root))
		add(f->out, kh_steal_ptr(&path), kind);
}

/* Each work tree has its own. */
static void note_relative(const struct finding *f, const char *word, bool is_folder)
{
	struct kh_buf *all = f->out->relative;
	struct kh_tree_read read;
	if (!f->git_dir || *word == '/' || *word == '~' || *word == '-' || !*word)
		return;
	for (size_t at = 0; kh_tree_reads_next(kh_buf_view(all), &at, &read);)
		if (strcmp(read.git_dir, f->git_dir) == 0 && strcmp(read.path, word) == 0 &&
		    read.is_folder == is_folder)
			return;
	if (!kh_buf_append(all, f->git_dir, strlen(f->git_dir) + 1) ||
	    !kh_buf_append_char(all, is_folder ? '/' : '-') ||
	    !kh_buf_append(all, word, strlen(word) + 1))
		f->out->failed = true;
}

/* A file that exists and is named in a command. */
static void look_at_word(struct finding *f, const char *word)
{
	kh_auto_free char *path = *word == '-' || !*word ? NULL : expand(f->tree, word);
	struct stat st;
	if (path && strlen(path) < KH_LIMIT_SURVEY_PATH_BYTES && stat(path, &st) == 0 &&
	    S_ISREG(st.st_mode))
		look_at(f, f->tree, word, KH_GIT_READ_THERE);
}

/* A word without a slash: "clean.sh", or any that is a file. */
static bool is_file(const struct finding *f, const char *word)
{
	kh_auto_free char *path = kh_path_join(f->tree, word);
	struct stat st;
	return strchr(word, '.') || (path && stat(path, &st) == 0 && S_ISREG(st.st_mode));
}

static void look_at_words(struct finding *f, const char *value)
{
	static const char between[] = " \t\n'\"|&;()<>=!`$";
	/* One word without a slash is a program of PATH, a branch or the like. */
	bool several = value[strcspn(value, " \t\n")] != '\0';
	if (strchr(value, '/')) {
		look_at_word(f, value);
		note_relative(f, value, false);
	}
	for (const char *at = value; *at;) {
		at += strspn(at, between);
		size_t len = strcspn(at, between);
		kh_auto_free char *word = strndup(at, len);
		if (word && (several || strchr(word, '/')))
			look_at_word(f, word);
		if (word && (strchr(word, '/') || (several && is_file(f, word))))
			note_relative(f, word, false);
		at += len;
	}
}

static void read_config(const struct finding *above, const char *path);

static bool is_include(const struct kh_gitconfig_entry *e)
{
	return (strcmp(e->section, "include") == 0 || strcmp(e->section, "includeif") == 0) &&
	       strcmp(e->name, "path") == 0;
}

/* One that is for git itself: what it names are revisions and paths. With "!" it is a command. */
static bool is_plain_alias(const struct kh_gitconfig_entry *e)
{
	return strcmp(e->section, "alias") == 0 && e->value[0] != '!';
}

static bool look_at_entry(void *arg, const struct kh_gitconfig_entry *e)
{
	struct finding *f = arg;
	if (!e->value || !*e->value || is_plain_alias(e) || kh_gitconfig_is_harmless(e) ||
	    kh_gitconfig_is_worktree(e))
		return true;
	if (is_include(e)) {
		look_at(f, f->origin, e->value, KH_GIT_READ_FILE);
		kh_auto_free char *path = expand(f->origin, e->value);
		if (path && f->depth < INCLUDES_MOST)
			read_config(f, path);
		return true;
	}
	if (strcmp(e->section, "core") == 0 && strcmp(e->name, "hookspath") == 0) {
		look_at(f, f->tree, e->value, KH_GIT_READ_FOLDER);
		note_relative(f, e->value, true);
	} else {
		look_at_words(f, e->value);
	}
	return true;
}

static char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	return strndup(path, slash ? (size_t)(slash - path) : 0);
}

/* What it says up to a fault counts: git may read on. */
static void read_config(const struct finding *above, const char *path)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_auto_free char *folder = folder_of(path);
	kh_buf_init(&text, KH_LIMIT_SURVEY_FILE_BYTES);
	struct finding f = *above;
	f.origin = folder;
	f.depth++;
	if (folder && kh_file_read(path, &text, NULL))
		(void)kh_gitconfig_read(kh_buf_view(&text), look_at_entry, &f);
}

/* ---- by the configuration of each repository ---- */

static bool take_worktree(void *arg, const struct kh_gitconfig_entry *e)
{
	char **value = arg;
	if (!kh_gitconfig_is_worktree(e))
		return true;
	free(*value);
	*value = strdup(e->value);
	return true;
}

char *kh_git_worktree(const char *git_dir)
{
	kh_auto_free char *path = kh_strf("%s/config", git_dir);
	kh_auto_free char *value = NULL;
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, KH_LIMIT_SURVEY_FILE_BYTES);
	if (path && kh_file_read(path, &text, NULL))
		(void)kh_gitconfig_read(kh_buf_view(&text), take_worktree, &value);
	kh_auto_free char *joined = value ? kh_path_join(git_dir, value) : NULL;
	return joined ? realpath(joined, NULL) : NULL;
}

static void look_in(struct kh_git_reads *out, const char *root, const char *git_dir)
{
	static const char *const files[] = { "config", "config.worktree" };
	kh_auto_free char *named = kh_git_worktree(git_dir);
	kh_auto_free char *above = folder_of(git_dir);
	kh_auto_free char *common = kh_tree_git_dir(git_dir);
	for (size_t i = 0; above && i < sizeof(files) / sizeof(files[0]); i++) {
		struct finding f = { out, root, named ? named : above, git_dir, common, 0 };
		kh_auto_free char *path = kh_strf("%s/%s", git_dir, files[i]);
		if (path)
			read_config(&f, path);
	}
}

/* ---- by git itself ---- */

/* What says where git's configuration is, and what more of it there is. Nothing else of ours: the
 * environment may hold keys. */
static bool is_passed(const char *variable)
{
	static const char *const names[] = { "HOME=", "XDG_CONFIG_HOME=", "GIT_CONFIG" };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strncmp(variable, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

static bool ask(const char *git, const char *root, struct kh_buf *answer)
{
	static char words[][16] = {
		"git", "config", "--list", "-z", "--show-origin", "--includes"
	};
	char *argv[] = { words[0], words[1], words[2], words[3], words[4], words[5], NULL };
	enum { MOST = 256 };
	char *environment[MOST + 1] = { NULL };
	size_t n = 0;
	for (char **at = environ; at && *at && n < MOST; at++)
		if (is_passed(*at))
			environment[n++] = *at;
	const struct kh_child_spec spec = {
		.program = git,
		.argv = argv,
		.environment = environment,
		.folder = root,
		.input = -1,
		.most_ms = PATIENCE_MS,
		.end_when_full = true,
	};
	struct kh_child_result result;
	(void)kh_child_run(&spec, answer, NULL, &result);
	return result.end == KH_CHILD_ENDED && !result.cut;
}

/* "section.sub.section.name\nvalue", taken apart as a file would be. */
static void look_at_key(struct finding *f, struct kh_slice entry)
{
	size_t line = kh_slice_find(entry, '\n', 0);
	kh_auto_free char *key = kh_slice_dup(kh_slice_sub(entry, 0, line));
	kh_auto_free char *value = kh_slice_dup(kh_slice_sub(entry, line + 1, entry.len));
	char *first = key ? strchr(key, '.') : NULL, *last = key ? strrchr(key, '.') : NULL;
	if (!first || !value)
		return;
	struct kh_gitconfig_entry e = { .section = key, .name = last + 1, .value = value };
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

static void take_answer(struct kh_git_reads *out, const char *root, struct kh_slice all)
{
	kh_auto_free char *tree = find_tree(root);
	kh_auto_free char *git = kh_strf("%s/.git", root);
	struct stat st;
	if (!tree || !git) {
		out->failed = true;
		return;
	}
	for (size_t at = 0; at < all.len;) {
		size_t end = kh_slice_find(all, '\0', at);
		kh_auto_free char *origin = kh_slice_dup(kh_slice_sub(all, at, end));
		size_t next = kh_slice_find(all, '\0', end + 1);
		kh_auto_free char *folder = NULL;
		struct finding f = { out, root, tree, root, "", 0 };
		/* Its own configuration, which look_in reads. */
		if (origin && strncmp(origin, "file:", 5) == 0 && origin[5] != '/' &&
		    stat(git, &st) == 0 && S_ISDIR(st.st_mode))
			f.git_dir = NULL;
		if (origin && strncmp(origin, "file:", 5) == 0) {
			look_at(&f, root, origin + 5, KH_GIT_READ_THERE);
			kh_auto_free char *file = kh_path_join(root, origin + 5);
			f.origin = folder = file ? folder_of(file) : NULL;
		}
		if (f.origin)
			look_at_key(&f, kh_slice_sub(all, end + 1, next));
		at = next + 1;
	}
}

static void look_at_there(struct finding *f, const struct kh_tree_read *read)
{
	kh_auto_free char *path = kh_tree_read_at(f->root, f->tree, read);
	kh_auto_free char *git = kh_strf("%s/.git", f->tree);
	struct stat st;
	/* A folder of hooks that is absent can't be made. */
	bool there = path && git && lstat(read->is_folder ? git : path, &st) == 0;
	if (there && (read->is_folder || !S_ISDIR(st.st_mode)))
		look_at(f, f->tree, read->path, KH_GIT_READ_FOLDER);
}

/* Without those beyond the bound: they are compared after the run. */
static void look_in_tree(struct kh_git_reads *out, const char *root, const char *tree)
{
	kh_auto_free char *git_dir = kh_tree_git_dir(tree);
	struct finding f = { out, root, tree, tree, NULL, 0 };
	struct kh_tree_read read;
	for (size_t at = 0; out->n < TREE_READS_MOST &&
			    kh_tree_reads_next(kh_buf_view(out->relative), &at, &read);)
		if (kh_tree_read_is_of(&read, git_dir))
			look_at_there(&f, &read);
}

void kh_git_reads_find(struct kh_git_reads *out, const char *root, const struct kh_paths *folders,
		       const struct kh_paths *trees)
{
	struct kh_buf answer kh_cleanup(kh_buf_fini);
	kh_buf_init(&answer, ANSWER_BYTES);
	kh_auto_free char *git = kh_program_find("git");
	if (git && ask(git, root, &answer))
		take_answer(out, root, kh_buf_view(&answer));
	for (size_t i = 0; i < folders->n; i++)
		look_in(out, root, folders->list[i]);
	for (size_t i = 0; i < trees->n; i++)
		look_in_tree(out, root, trees->list[i]);
}
