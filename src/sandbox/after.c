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

#include "after_internal.h"
#include "aside.h"
#include "concern.h"
#include "git_path.h"
#include "gitlinks.h"
#include "inlets.h"
#include "leads.h"
#include "outlets.h"
#include "doubted.h"
#include "runs.h"
#include "shut.h"
#include "stores.h"
#include "tree_reads.h"

static int compare(const void *a, const void *b)
{
	return memcmp(a, b, KH_CONCERN_DIGEST_BYTES);
}

bool kh_after_was_there(const struct kh_after *after, const unsigned char *digest)
{
	return after->n_before > 0 && bsearch(digest, after->before, after->n_before,
					      KH_CONCERN_DIGEST_BYTES, compare) != NULL;
}

static bool was_protected(const struct kh_after *after, const char *path)
{
	unsigned char digest[KH_CONCERN_DIGEST_BYTES];
	kh_concern_protected_digest(path, digest);
	return kh_after_was_there(after, digest) && !kh_doubted_has(after->doubted, path);
}

/* Does `target`, read from `folder`, lead to a folder in the workspace, and there through no link?
 * Each folder of the workspace is surveyed by itself. */
bool kh_after_leads_inside(void *arg, const char *folder, struct kh_slice target)
{
	const struct kh_after *after = arg;
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
static void take_read(struct kh_after *after, const char *path)
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
void kh_after_judge_tree(struct kh_after *after, const char *tree, const char *git_dir)
{
	unsigned char digest[KH_CONCERN_DIGEST_BYTES];
	struct kh_tree_read read;
	for (size_t at = 0; !kh_deadline_passed(after->deadline) &&
			    kh_tree_reads_next(after->reads, &at, &read);) {
		kh_auto_free char *path = kh_tree_read_is_of(&read, git_dir)
						  ? kh_tree_read_at(after->root, tree, &read)
						  : NULL;
		if (path && kh_tree_read_digest(after->root, path, &read, digest) &&
		    !kh_after_was_there(after, digest) && !was_protected(after, path))
			take_read(after, path);
	}
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
static const char *verdict(struct kh_after *after, const struct kh_concern *c)
{
	bool leads_in = kh_leads_each(c, kh_after_leads_inside, after);
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
static bool is_covered(const struct kh_after *after, const struct kh_concern *c)
{
	return c->kind == KH_CONCERN_HOOK
		       ? was_protected(after, c->folder->path)
		       : (c->kind == KH_CONCERN_CONFIG || c->kind == KH_CONCERN_COMMONDIR) &&
				 was_protected(after, c->path);
}

/* By its path: it is not what is being looked at. */
static void take_path(struct kh_after *after, const char *path, const char *why)
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
	struct kh_after *after = arg;
	bool same = kh_after_was_there(after, c->digest);
	bool is_list = c->kind == KH_CONCERN_ALTERNATES;
	if (same && kh_after_was_there(after, c->leads)) {
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
	struct kh_after *after = arg;
	(void)err;
	bool is_doubted = kh_doubted_mark(after->doubted, c->path, after->doubted_judged);
	bool same = !is_doubted && (kh_after_was_there(after, c->digest) || is_covered(after, c));
	/* The folders that it names may have changed meanwhile. */
	if (same && (c->kind == KH_CONCERN_HOOK || kh_after_was_there(after, c->leads))) {
		(void)kh_stores_add(&after->stores, c, true);
		return true;
	}
	if (c->kind == KH_CONCERN_CONFIG)
		return kh_after_judge_config(after, c, same);
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
	return kh_after_was_there(arg, digest);
}

/* A link that is in a place of another kind was judged before, and may be gone. */
static bool judge_outlets(struct kh_after *after, const struct kh_walk_folder *folder)
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
		    !kh_after_was_there(after, digest))
			kh_aside_take_entry(&after->aside, folder->fd, entry, path, why);
	}
	return ok;
}

static bool visit(void *arg, const struct kh_walk_folder *folder, struct kh_err *err)
{
	struct kh_after *after = arg;
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
		kh_after_judge_tree(after, folder->path, git_dir);
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
	struct kh_after after = { .aside = { .state = state, .run = id },
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
		kh_after_judge_tree(&after, NULL, NULL);
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
