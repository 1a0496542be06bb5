/*
 * after.c - surveys a workspace after a run, and sets aside what could run on the host
 *
 * All processes of the sandbox have ended by now. Whatever is unchanged, or was read-only, stays.
 * Of the rest, a repository stays if it is harmless: its configuration only has settings that
 * git_config.c knows to be harmless, it has no hooks, and nothing in it leads outside of the
 * workspace. Otherwise only the harmful files are set aside.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>

#include "aside.h"
#include "concern.h"
#include "git_config.h"
#include "git_path.h"
#include "git_remote.h"
#include "gitlinks.h"
#include "inlets.h"
#include "leads.h"
#include "outlets.h"
#include "doubted.h"
#include "runs.h"
#include "shut.h"
#include "stores.h"
#include "tree_reads.h"

struct after {
	struct kh_aside aside;
	const char *root;
	int root_fd;
	const unsigned char *before; /* sorted */
	size_t n_before;
	struct kh_slice reads; /* tree_reads.h */
	bool *doubted_judged;
	struct kh_slice doubted; /* doubted.h */
	struct kh_stores stores;
	struct kh_inlets inlets;
	struct kh_gitlinks gitlinks;
	const struct kh_outlets *outlets;
	struct kh_deadline *deadline;
};

static int compare(const void *a, const void *b)
{
	return memcmp(a, b, KH_CONCERN_DIGEST_BYTES);
}

static bool was_there(const struct after *after, const unsigned char *digest)
{
	return after->n_before > 0 && bsearch(digest, after->before, after->n_before,
					      KH_CONCERN_DIGEST_BYTES, compare) != NULL;
}

static bool was_protected(const struct after *after, const char *path)
{
	unsigned char digest[KH_CONCERN_DIGEST_BYTES];
	kh_concern_protected_digest(path, digest);
	return was_there(after, digest) && !kh_doubted_has(after->doubted, path);
}

/* Does `target`, read from `folder`, lead to a folder in the workspace, and there through no link?
 * Each folder of the workspace is surveyed by itself. */
static bool leads_inside(void *arg, const char *folder, struct kh_slice target)
{
	const struct after *after = arg;
	kh_auto_free char *text = kh_slice_dup(target);
	kh_auto_free char *joined = text && *text ? kh_path_join(folder, text) : NULL;
	size_t len = strlen(after->root);
	if (!joined || strncmp(joined, after->root, len) != 0 ||
	    (joined[len] != '/' && joined[len]))
		return false;
	kh_auto_close int fd =
		kh_file_open_below(after->root_fd, joined + len, O_PATH | O_DIRECTORY);
	return fd >= 0;
}

/* ---- what git runs in each work tree ---- */

/* What git reads by that path: the first link on the way, or the thing itself. */
static void take_read(struct after *after, const char *path)
{
	static const char why[] = "git would run it, by a path in a configuration that was there "
				  "before";
	kh_auto_free char *part = strdup(path);
	struct stat st;
	for (size_t i = strlen(after->root) + 1; part && i <= strlen(path); i++) {
		if (path[i] != '/' && path[i])
			continue;
		part[i] = '\0';
		const char *name = NULL;
		bool found = lstat(part, &st) == 0 && (S_ISLNK(st.st_mode) || !path[i]);
		kh_auto_close int dir = found ? kh_mountpoint_open_parent(part, &name) : -1;
		if (found) {
			kh_aside_take(&after->aside, dir, name ? name : "", part, why, NULL);
			return;
		}
		part[i] = path[i];
	}
}

/* `tree` NULL: what has an absolute path. */
static void judge_tree(struct after *after, const char *tree, const char *git_dir)
{
	unsigned char digest[KH_CONCERN_DIGEST_BYTES];
	struct kh_tree_read read;
	for (size_t at = 0; !kh_deadline_passed(after->deadline) &&
			    kh_tree_reads_next(after->reads, &at, &read);) {
		kh_auto_free char *path = kh_tree_read_is_of(&read, git_dir)
						  ? kh_tree_read_at(after->root, tree, &read)
						  : NULL;
		if (path && kh_tree_read_digest(after->root, path, &read, digest) &&
		    !was_there(after, digest) && !was_protected(after, path))
			take_read(after, path);
	}
}

/* ---- configuration ---- */

struct sifted {
	struct after *after;
	bool only_leads; /* it says what it said before, and may say it */
	const char *git_dir, *common_dir;
	unsigned worktrees;
	struct kh_buf remotes; /* that have an address which is harmless: names, each with a NUL */
	struct kh_buf kept;
	struct kh_buf first; /* the first key that is not harmless */
};

/* A remote of this file: git takes such a name for no path. */
static bool is_remote(const struct sifted *s, const char *name)
{
	struct kh_slice all = kh_buf_view(&s->remotes);
	for (size_t at = 0; at < all.len;) {
		size_t end = kh_slice_find(all, '\0', at);
		if (kh_slice_eq(kh_slice_sub(all, at, end), kh_slice_str(name)))
			return true;
		at = end + 1;
	}
	return false;
}

/* A repository on this host that is fetched from is one in the workspace, by its whole path: whence
 * git reads another depends on where somebody stands. */
static bool is_remote_inside(const struct sifted *s, const struct kh_git_config_entry *entry)
{
	const char *path = kh_git_config_local(entry);
	if (!path || strcmp(path, ".") == 0)
		return true;
	if (strcmp(entry->section, "branch") == 0 && is_remote(s, path))
		return true;
	return kh_git_remote_is_inside(s->after->root, s->after->root_fd, path);
}

/* One that was there before, and may name what it likes: does it name a place in the workspace
 * where the agent put a link? */
static bool is_remote_as_before(const struct sifted *s, const struct kh_git_config_entry *entry)
{
	const char *root = s->after->root;
	kh_auto_free char *path = kh_leads_remote(s->git_dir, entry);
	return !path || !kh_git_holds(root, path) ||
	       kh_git_remote_is_inside(root, s->after->root_fd, path) ||
	       kh_git_remote_is_absent(path);
}

static bool note_remote(void *arg, const struct kh_git_config_entry *entry)
{
	struct sifted *s = arg;
	bool good = strcmp(entry->section, "remote") == 0 && entry->subsection &&
		    strcmp(entry->name, "url") == 0 && kh_git_config_is_harmless(entry) &&
		    is_remote_inside(s, entry);
	return !good ||
	       kh_buf_append(&s->remotes, entry->subsection, strlen(entry->subsection) + 1);
}

/* Does the file in the work tree lead back to the git folder? git writes one for a submodule. In
 * any other folder, above all in a git folder, a checkout would write what git runs. */
static bool is_gits_worktree(const struct sifted *s, const char *tree)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	struct stat there, here;
	kh_buf_init(&text, KH_LIMIT_SURVEY_FILE_BYTES);
	kh_auto_close int dir = open(tree, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || !kh_concern_read(dir, ".git", &text) ||
	    kh_concern_is_in_git_folder(s->after->root, tree))
		return false;
	kh_auto_free char *back = kh_git_pointed(kh_buf_view(&text), "gitdir: ");
	return back && leads_inside(s->after, tree, kh_slice_str(back)) &&
	       fstatat(dir, back, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	       stat(s->git_dir, &here) == 0 && there.st_dev == here.st_dev &&
	       there.st_ino == here.st_ino;
}

static bool is_worktree_harmless(struct sifted *s, const char *value)
{
	kh_auto_free char *tree = kh_path_join(s->git_dir, value);
	/* More than are followed are not: git takes the last one. */
	return tree && ++s->worktrees <= KH_LIMIT_SURVEY_LEADS &&
	       leads_inside(s->after, s->git_dir, kh_slice_str(value)) &&
	       (s->only_leads || is_gits_worktree(s, tree));
}

static bool sift(void *arg, const struct kh_git_config_entry *entry)
{
	struct sifted *s = arg;
	bool harmless = kh_git_config_is_worktree(entry) ? is_worktree_harmless(s, entry->value)
			: s->only_leads
				? is_remote_as_before(s, entry)
				: kh_git_config_is_harmless(entry) && is_remote_inside(s, entry);
	if (harmless && kh_git_config_is_worktree(entry)) {
		kh_auto_free char *tree = kh_path_join(s->git_dir, entry->value);
		if (tree && s->after->reads.len > 0)
			judge_tree(s->after, tree, s->common_dir);
	}
	/* What is not judged stays, and the walk says so. */
	if (kh_deadline_passed(s->after->deadline))
		return false;
	if (harmless) {
		size_t was = kh_buf_len(&s->kept);
		if (kh_git_config_write(&s->kept, entry))
			return true;
		kh_buf_truncate(&s->kept, was);
		return false;
	}
	if (kh_buf_len(&s->first) == 0)
		(void)kh_buf_printf(&s->first, "%s%s%s.%s", entry->section,
				    entry->subsection ? "." : "",
				    entry->subsection ? entry->subsection : "", entry->name);
	return true;
}

static bool judge_config(struct after *after, const struct kh_concern *c, bool only_leads)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	struct sifted s = { .after = after, .only_leads = only_leads, .git_dir = c->folder->path };
	kh_auto_free char *common = kh_tree_git_dir(c->folder->path);
	s.common_dir = common;
	kh_buf_init(&text, KH_LIMIT_SURVEY_FILE_BYTES);
	/* It is read before the next run. */
	kh_buf_init(&s.kept, KH_LIMIT_SURVEY_FILE_BYTES);
	kh_buf_init(&s.first, 512);
	kh_buf_init(&s.remotes, KH_LIMIT_SURVEY_FILE_BYTES);
	bool readable = kh_concern_read(c->folder->fd, c->entry->name, &text);
	if (readable)
		(void)kh_git_config_read(kh_buf_view(&text), note_remote, &s);
	readable = readable && kh_git_config_read(kh_buf_view(&text), sift, &s);
	bool judged = !kh_deadline_passed(after->deadline);
	if (judged && ((!readable && !only_leads) || kh_buf_len(&s.first) > 0)) {
		struct kh_slice kept = kh_buf_view(&s.kept);
		const char *first = kh_buf_cstr(&s.first);
		kh_auto_free char *why = kh_strf(
			readable
				? "a git configuration with %s, which is not known to be harmless; "
				  "its harmless part stays"
				: "a git configuration that git may read otherwise than keyhole%s; "
				  "what was read of it and is harmless stays",
			readable && first ? kh_esc_str(first) : "");
		kh_aside_take(&after->aside, c->folder->fd, c->entry->name, c->path,
			      why ? why : "a git configuration", &kept);
	}
	kh_buf_fini(&s.kept);
	kh_buf_fini(&s.first);
	kh_buf_fini(&s.remotes);
	return true;
}

/* ---- what leads elsewhere ---- */

/* keyhole's own says ".", as nothing would. */
static bool is_good_commondir(const struct kh_concern *c)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, KH_LIMIT_SURVEY_PATH_BYTES);
	return kh_concern_is_gits_commondir(c->folder) ||
	       (kh_concern_read(c->folder->fd, c->entry->name, &text) &&
		kh_slice_eq(kh_slice_chomp(kh_buf_view(&text)), KH_SLICE(".")));
}

/* ---- the verdict ---- */

/* Why it is to be set aside; NULL: it is harmless. */
static const char *verdict(struct after *after, const struct kh_concern *c)
{
	bool leads_in = kh_leads_each(c, leads_inside, after);
	switch (c->kind) {
	case KH_CONCERN_LINK:
		return "a symbolic link in a git folder, through which git may write anywhere";
	case KH_CONCERN_GITLINK:
		return "a symbolic link in the place of a submodule: git would enter the "
		       "repository that it leads to, and run what is configured there";
	case KH_CONCERN_SPECIAL:
		return S_ISSOCK(c->entry->mode) ? "a socket" : "a device or named pipe";
	case KH_CONCERN_SETID:
		return "a file that runs with its owner's or group's rights";
	case KH_CONCERN_HOOK:
		return "a hook that git would run";
	case KH_CONCERN_COMMONDIR:
		return is_good_commondir(c) && leads_in
			       ? NULL
			       : "it sends git to the configuration of another folder";
	case KH_CONCERN_GITFILE:
		return leads_in ? NULL : "it sends git to a folder that is not in the workspace";
	case KH_CONCERN_ALTERNATES:
		return leads_in ? NULL : "it sends git to objects outside of the workspace";
	case KH_CONCERN_STATE:
		return "the state of an operation in progress that is not in git's own form: git "
		       "may run a command, or read or write files elsewhere";
	case KH_CONCERN_COPIES:
		return "a list of files that git would copy to where the next run reads them";
	case KH_CONCERN_INDEX:
		return "an index with names that are not of files in the work tree: git would read "
		       "and write there (`git reset` makes a new one)";
	case KH_CONCERN_REMOTE:
		return "an address that git would fetch from, which may name a program";
	case KH_CONCERN_NAME:
		return "editors, agents or other tools run what it says";
	case KH_CONCERN_CONFIG: /* judge_config */
		break;
	}
	return NULL;
}

/* Read-only while the sandbox ran; what changed there was changed on the host. */
static bool is_covered(const struct after *after, const struct kh_concern *c)
{
	return c->kind == KH_CONCERN_HOOK
		       ? was_protected(after, c->folder->path)
		       : (c->kind == KH_CONCERN_CONFIG || c->kind == KH_CONCERN_COMMONDIR) &&
				 was_protected(after, c->path);
}

/* By its path: it is not what is being looked at. */
static void take_path(struct after *after, const char *path, const char *why)
{
	const char *name = NULL;
	struct stat st;
	kh_auto_close int dir = lstat(path, &st) == 0 ? kh_mountpoint_open_parent(path, &name) : -1;
	if (dir >= 0)
		kh_aside_take(&after->aside, dir, name, path, why, NULL);
}

/* In a folder that a list of alternates names: a new list is set aside for what is in there, and of
 * one that was there before the folder's new links are. */
static bool judge_stored(void *arg, size_t store, const struct kh_concern *c)
{
	static const char why[] =
		"it sends git to objects outside of the workspace, through a link";
	struct after *after = arg;
	bool same = was_there(after, c->digest);
	bool is_list = c->kind == KH_CONCERN_ALTERNATES;
	if (same && was_there(after, c->leads)) {
		(void)kh_stores_add(&after->stores, c, true);
		return true;
	}
	bool taken = !is_list || verdict(after, c) || !kh_stores_add(&after->stores, c, same);
	if (kh_deadline_passed(after->deadline))
		return true;
	const struct kh_store *s = &after->stores.list[store];
	if (taken)
		take_path(after, s->is_old || is_list ? c->path : s->origin, why);
	return true;
}

static bool judge(void *arg, const struct kh_concern *c, struct kh_err *err)
{
	struct after *after = arg;
	(void)err;
	bool is_doubted = kh_doubted_mark(after->doubted, c->path, after->doubted_judged);
	bool same = !is_doubted && (was_there(after, c->digest) || is_covered(after, c));
	/* The folders that it names may have changed meanwhile. */
	if (same && (c->kind == KH_CONCERN_HOOK || was_there(after, c->leads))) {
		(void)kh_stores_add(&after->stores, c, true);
		return true;
	}
	if (c->kind == KH_CONCERN_CONFIG)
		return judge_config(after, c, same);
	const char *why = verdict(after, c);
	if (is_doubted && c->kind == KH_CONCERN_NAME) {
		/* It says nothing, and may be the launcher's. */
		if (kh_doubted_is_empty(c->folder->fd, c->entry->name))
			return true;
		why = kh_doubted_why;
	}
	if (!why && !kh_stores_add(&after->stores, c, same))
		why = "it sends git to more folders of objects than can be looked through";
	/* What led nowhere for want of time is judged the next time. */
	if (kh_deadline_passed(after->deadline))
		return true;
	if (why) {
		if (c->kind == KH_CONCERN_SPECIAL)
			kh_aside_drop(&after->aside, c->folder->fd, c->entry->name, c->path, why);
		else
			kh_aside_take_entry(&after->aside, c->folder->fd, c->entry, c->path, why);
	}
	return true;
}

static bool was_noted(void *arg, const unsigned char *digest)
{
	return was_there(arg, digest);
}

/* A link that is in a place of another kind was judged before, and may be gone. */
static bool judge_outlets(struct after *after, const struct kh_walk_folder *folder)
{
	bool ok = true;
	for (size_t i = 0; ok && after->outlets->n > 0 && i < folder->n; i++) {
		struct kh_walk_entry *entry = &folder->list[i];
		unsigned char digest[KH_CONCERN_DIGEST_BYTES];
		if (kh_deadline_passed(folder->deadline))
			return true;
		if (!S_ISLNK(entry->mode))
			continue;
		const char *why = kh_outlets_why(after->outlets, folder->fd, entry->name);
		kh_auto_free char *path = why ? kh_strf("%s/%s", folder->path, entry->name) : NULL;
		ok = !why || path;
		if (path && kh_outlets_digest(path, folder->fd, entry->name, digest) &&
		    !was_there(after, digest))
			kh_aside_take_entry(&after->aside, folder->fd, entry, path, why);
	}
	return ok;
}

static bool visit(void *arg, const struct kh_walk_folder *folder, struct kh_err *err)
{
	struct after *after = arg;
	after->aside.failed += !kh_shut_folder(folder, was_noted, after);
	if (!kh_concern_find(folder, judge, arg, err) ||
	    !(judge_outlets(after, folder) ||
	      kh_err_set(err, KH_ERR_NO_MEMORY, "the survey of the workspace: no memory")) ||
	    !kh_inlets_note(&after->inlets, after->root_fd, after->root, folder, err) ||
	    !kh_gitlinks_note(&after->gitlinks, folder, err))
		return false;
	/* A .git that was set aside is none. */
	if (after->reads.len > 0 && kh_concern_is_tree(folder)) {
		kh_auto_free char *git_dir = kh_tree_git_dir(folder->path);
		judge_tree(after, folder->path, git_dir);
	}
	return true;
}

bool kh_survey_after(const char *state, const char *id, const char *workspace, int folder,
		     const struct kh_survey_notes *notes, const struct kh_outlets *outlets,
		     struct kh_deadline *deadline)
{
	struct kh_slice before = notes->before;
	struct kh_err err = KH_ERR_INIT;
	size_t n = before.len / KH_CONCERN_DIGEST_BYTES;
	kh_auto_free unsigned char *sorted = malloc(before.len + 1);
	kh_auto_close int root = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct after after = { .aside = { .state = state, .run = id },
			       .root = workspace,
			       .root_fd = root,
			       .before = sorted,
			       .n_before = n,
			       .reads = notes->reads,
			       .doubted = notes->doubted,
			       .stores = { .root = workspace },
			       .outlets = outlets,
			       .deadline = deadline };
	struct kh_walk walk = { .visit = visit, .arg = &after, .deadline = deadline };
	kh_auto_free bool *judged = calloc(kh_doubted_count(notes->doubted) + 1, sizeof(*judged));
	after.doubted_judged = judged;
	bool opened = root >= 0 && sorted && judged, ok = opened;
	if (ok) {
		memcpy(sorted, before.ptr, before.len);
		qsort(sorted, n, KH_CONCERN_DIGEST_BYTES, compare);
		ok = kh_walk_run_at(&walk, root, workspace, &err) &&
		     kh_inlets_find(&after.inlets, root, workspace, judge, &after, deadline,
				    &walk.missed, &err) &&
		     kh_stores_walk(&after.stores, deadline, judge_stored, &after, &err);
		judge_tree(&after, NULL, NULL);
		if (ok)
			kh_doubted_take(notes->doubted, judged, workspace, &after.aside);
		/* Last: an agent can make it as long as it likes. */
		ok = ok && kh_gitlinks_find(&after.gitlinks, root, workspace, judge, &after,
					    deadline, &walk.missed, &err);
		ok = ok && !kh_deadline_passed(deadline);
	}
	kh_inlets_fini(&after.inlets);
	kh_gitlinks_fini(&after.gitlinks);
	kh_stores_fini(&after.stores);
	kh_aside_end(&after.aside);
	if (!ok || walk.missed)
		kh_log_error("%s was not surveyed completely after the sandbox (%s). Use neither "
			     "git nor an editor there before you have put that right and `keyhole "
			     "workspace survey` says nothing",
			     kh_esc_str(workspace),
			     walk.missed ? walk.missed
			     : err.code	 ? err.text
			     : opened	 ? "looking took too long"
					 : "it can't be opened");
	ok = ok && !walk.missed && after.aside.failed == 0;
	free(walk.missed);
	return ok;
}
