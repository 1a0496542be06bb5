/*
 * git_names.c - finds the paths in the workspace that a variable of git's configuration names
 *
 * Each path that leads into the workspace, however it is spelled, is noted. Existing ones are
 * protected, and all are compared after the run.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>

#include "git_names.h"
#include "git_path.h"
#include "git_words.h"
#include "tree_reads.h"

enum { READS_MOST = 1024, HOOKS_MOST = 4096 };

/* What is not known in full is not to be relied on; the first reason counts. */
void kh_git_names_fail(struct kh_git_reads *out, const char *what, const char *why)
{
	if (!out->failed)
		(void)kh_err_set(&out->err, KH_ERR_CONFIG,
				 "%s: %s, so that what git on the host reads and runs there could "
				 "not be kept from the agent",
				 kh_esc_str(what), why);
	out->failed = true;
}

void kh_git_names_no_memory(struct kh_git_reads *out)
{
	kh_git_names_fail(out, "git's configuration", "no memory");
}

/* Takes `path` over. */
static void add(struct kh_git_reads *out, char *path, enum kh_git_read_kind kind)
{
	for (size_t i = 0; path && i < out->n; i++)
		if (strcmp(out->list[i].path, path) == 0) {
			free(path);
			return;
		}
	if (path && out->n >= READS_MOST)
		kh_git_names_fail(out, path, "git reads more than 1024 paths besides it");
	struct kh_git_read *list = path && out->n < READS_MOST
					   ? reallocarray(out->list, out->n + 1, sizeof(*list))
					   : NULL;
	if (!list) {
		kh_git_names_no_memory(out);
		free(path);
		return;
	}
	out->list = list;
	list[out->n].path = path;
	list[out->n++].kind = kind;
}

/* As git reads a path in its configuration. Heap. */
char *kh_git_names_expand(const struct kh_git_finding *f, const char *base, const char *value)
{
	kh_auto_free char *text = kh_git_words_expand(f->home, value);
	return text ? kh_path_join(base, text) : NULL;
}

/* ---- what is noted ---- */

static void note(const struct kh_git_finding *f, const char *git_dir, const char *word, char kind)
{
	struct kh_buf *all = f->out->compared;
	struct kh_tree_read read;
	for (size_t at = 0; kh_tree_reads_next(kh_buf_view(all), &at, &read);)
		if (strcmp(read.git_dir, git_dir) == 0 && strcmp(read.path, word) == 0 &&
		    read.kind == kind)
			return;
	if (!kh_buf_append(all, git_dir, strlen(git_dir) + 1) || !kh_buf_append_char(all, kind) ||
	    !kh_buf_append(all, word, strlen(word) + 1))
		kh_git_names_fail(f->out, "git's configuration", "it names too many paths");
}

/* Each work tree has its own; and the one that is meant here may be around the workspace. */
static void note_compared(const struct kh_git_finding *f, const char *base, const char *word,
			  char kind)
{
	kh_auto_free char *path = kh_git_names_expand(f, base, word);
	kh_auto_free char *leads = path ? kh_git_resolve(path) : NULL;
	if (!path) {
		kh_git_names_no_memory(f->out);
		return;
	}
	kh_git_normalise(path);
	if (f->git_dir && *word != '/' && *word != '~' && *word != '-' && *word)
		note(f, f->git_dir, word, kind);
	if (kh_git_is_inside(path, f->root) && !kh_git_holds(path, f->tree))
		note(f, "", path, kind);
	if (leads && strcmp(leads, path) != 0 && kh_git_is_inside(leads, f->root) &&
	    !kh_git_holds(leads, f->tree))
		note(f, "", leads, kind);
}

/* A place that git will look at, whether it exists or not: by the name, and where that leads. Of
 * one that exists, the name counts where a link is on the way, which could lead elsewhere. */
void kh_git_names_look(struct kh_git_finding *f, const char *base, const char *value,
		       enum kh_git_read_kind kind)
{
	kh_auto_free char *path = kh_git_names_expand(f, base, value);
	struct stat st;
	if (!path || strlen(path) >= KH_LIMIT_SURVEY_PATH_BYTES) {
		if (!path)
			kh_git_names_no_memory(f->out);
		return;
	}
	char *resolved = kh_git_resolve(path);
	bool there = stat(path, &st) == 0;
	if (!there && kind == KH_GIT_READ_THERE) {
		free(resolved);
		return;
	}
	kh_git_normalise(path);
	bool by_name = kind != KH_GIT_READ_THERE || (resolved && strcmp(resolved, path) != 0);
	if (resolved && kh_git_is_inside(resolved, f->root))
		add(f->out, kh_steal_ptr(&resolved), kind);
	free(resolved);
	if (by_name && kh_git_is_inside(path, f->root))
		add(f->out, kh_steal_ptr(&path), kind);
}

/* ---- the words of a command ---- */

struct naming {
	struct kh_git_finding *f;
	struct kh_git_words *words;
	bool is_command; /* git runs it without being asked for it by name */
	bool is_whole;	 /* the value itself, and none of its words */
};

/* May the folder be read-only in the run? Not with the work tree in it. */
static bool is_named_folder(const struct naming *n, const char *path, const char *word,
			    unsigned how)
{
	kh_auto_free char *own = kh_git_resolve(n->f->tree);
	kh_auto_free char *leads = kh_git_resolve(path);
	if (!own || !leads || kh_git_holds(leads, own))
		return false;
	bool meant = n->is_whole ||
		     (n->is_command &&
		      (strchr(word, '/') || (how & (KH_GIT_WORD_OPTION | KH_GIT_WORD_PART))));
	return meant || kh_tree_is_program(path);
}

/* Without a slash: "clean.sh", any that is a file, and what a program is given to run. */
static bool is_file(const struct naming *n, const char *word, unsigned how)
{
	kh_auto_free char *path = kh_path_join(n->f->tree, word);
	struct stat st;
	return strchr(word, '.') || (n->is_command && !(how & KH_GIT_WORD_PROGRAM)) ||
	       (path && stat(path, &st) == 0 && S_ISREG(st.st_mode));
}

static void take_word(void *arg, const char *word, unsigned how)
{
	struct naming *n = arg;
	struct kh_git_finding *f = n->f;
	bool slash = strchr(word, '/') || (how & KH_GIT_WORD_PART);
	/* One word without a slash is a program of PATH, a branch or the like. */
	bool several = n->words->is_several || (how & KH_GIT_WORD_OPTION);
	if (*word == '-' || !(several || slash) || strlen(word) >= KH_LIMIT_SURVEY_PATH_BYTES)
		return;
	kh_auto_free char *path = kh_path_join(f->tree, word);
	struct stat st;
	if (!path) {
		kh_git_names_no_memory(f->out);
		return;
	}
	bool there = stat(path, &st) == 0;
	if (there && S_ISDIR(st.st_mode) && is_named_folder(n, path, word, how))
		kh_git_names_look(f, f->tree, word, KH_GIT_READ_FOLDER);
	if (there && S_ISREG(st.st_mode))
		kh_git_names_look(f, f->tree, word, KH_GIT_READ_THERE);
	bool named = n->is_whole || (n->is_command && slash);
	if (slash || is_file(n, word, how))
		note_compared(f, f->tree, word, named ? KH_TREE_NAMED : KH_TREE_PROGRAM);
}

static bool is_one_of(const char *name, const char *const *list)
{
	for (; *list; list++)
		if (strcmp(name, *list) == 0)
			return true;
	return false;
}

static bool ends_in(const char *name, const char *end)
{
	return kh_slice_has_suffix(kh_slice_str(name), kh_slice_str(end));
}

/* Those that are known. A variable of another name may be one as well, so its words count too. */
static bool is_command(const struct kh_git_config_entry *e)
{
	static const char *const names[] = {
		"fsmonitor",   "editor",	  "pager",	 "askpass",    "external",
		"textconv",    "driver",	  "clean",	 "smudge",     "process",
		"helper",      "program",	  "gitproxy",	 "difffilter", "uploadpack",
		"receivepack", "packobjectshook", "procreceive", NULL
	};
	return e->value[0] == '!' || strcmp(e->section, "pager") == 0 ||
	       is_one_of(e->name, names) || ends_in(e->name, "command") || ends_in(e->name, "cmd");
}

/* Folders and files that hold data, and where repositories are. */
static bool is_data(const struct kh_git_config_entry *e)
{
	static const char *const names[] = {
		"safe.directory",	  "maintenance.repo", "scalar.repo",   "gui.recentrepo",
		"format.outputdirectory", "lfs.storage",      "core.worktree", NULL
	};
	kh_auto_free char *key = kh_strf("%s.%s", e->section, e->name);
	return key && is_one_of(key, names);
}

/* A command may hold what only the shell knows. An alias is run by who calls it. */
static void note_unknown(struct kh_git_finding *f, const struct kh_git_config_entry *e)
{
	struct kh_buf *out = &f->out->unknown;
	kh_auto_free char *key = kh_strf("%s%s%s.%s", e->section, e->subsection ? "." : "",
					 e->subsection ? e->subsection : "", e->name);
	if (!key || strstr(kh_buf_cstr(out) ? kh_buf_cstr(out) : "", key))
		return;
	/* It is a warning: of many the first will do. */
	(void)kh_buf_printf(out, "%s%s", kh_buf_len(out) > 0 ? ", " : "", key);
}

void kh_git_names_words(struct kh_git_finding *f, const struct kh_git_config_entry *e)
{
	if (is_data(e))
		return;
	bool alias = strcmp(e->section, "alias") == 0;
	struct kh_git_words words = { .home = f->home, .each = take_word };
	struct naming n = { f, &words, is_command(e) && !alias, true };
	const char *value = e->value + (e->value[0] == '!');
	words.arg = &n;
	if (strchr(value, '/') && !alias) {
		kh_auto_free char *whole = kh_git_words_expand(f->home, value);
		if (whole)
			take_word(&n, whole, 0);
		else
			kh_git_names_no_memory(f->out);
	}
	n.is_whole = false;
	kh_git_words_each(&words, e->value);
	if (words.failed)
		kh_git_names_no_memory(f->out);
	if (words.is_unknown && n.is_command)
		note_unknown(f, e);
}

/* Outside of the workspace: a hook may be a link to a script in it. */
void kh_git_names_links(struct kh_git_finding *f, const char *folder)
{
	kh_auto_free char *own = kh_git_resolve(folder);
	DIR *dir = own && !kh_git_is_inside(own, f->root) && strcmp(own, f->root) != 0
			   ? opendir(own)
			   : NULL;
	const struct dirent *entry;
	for (int i = 0; dir && (entry = readdir(dir)); i++) {
		kh_auto_free char *path = kh_strf("%s/%s", own, entry->d_name);
		struct stat st;
		if (i >= HOOKS_MOST)
			kh_git_names_fail(f->out, own, "too many files are in it");
		if (!path || i >= HOOKS_MOST)
			break;
		if (lstat(path, &st) != 0 || !S_ISLNK(st.st_mode))
			continue;
		kh_git_names_look(f, own, path, KH_GIT_READ_THERE);
		note_compared(f, own, path, KH_TREE_NAMED);
	}
	if (dir)
		closedir(dir);
}

void kh_git_names_hooks(struct kh_git_finding *f, const char *value)
{
	kh_auto_free char *path = kh_git_names_expand(f, f->tree, value);
	kh_git_names_look(f, f->tree, value, KH_GIT_READ_FOLDER);
	note_compared(f, f->tree, value, KH_TREE_HOOKS);
	if (path)
		kh_git_names_links(f, path);
}
