/* workspace_apply.c - `keyhole workspace apply` and `discard` */
#include <stdio.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>

#include "show_text.h"
#include "workspace_internal.h"

static bool look(const struct kh_review *review, const struct kh_workspace_options *options,
		 struct kh_changes *changes)
{
	struct kh_err err = KH_ERR_INIT;
	if (kh_review_look(review, options->names, changes, &err))
		return true;
	kh_cli_complain_err(&err);
	return false;
}

/* In folders that are one line each, nothing tells them apart but another look. */
static bool is_known(const struct kh_review *review, char *name, const struct kh_changes *changes)
{
	char *const one[] = { name, NULL };
	for (size_t i = 0; i < changes->n; i++)
		if (kh_change_is_named(&changes->list[i], one))
			return true;
	struct kh_changes again kh_cleanup(kh_changes_fini) = { 0 };
	return changes->n_groups > 0 && kh_review_look(review, one, &again, NULL) &&
	       again.n + again.n_groups > 0;
}

bool kh_workspace_names_are_known(const struct kh_review *review, char *const *names,
				  const struct kh_changes *changes)
{
	bool ok = true;
	for (; *names; names++) {
		if (is_known(review, *names, changes))
			continue;
		ok = false;
		kh_cli_complain("workspace: %s: nothing has changed there (`keyhole workspace diff "
				"--stat` lists what has)",
				kh_esc_str(*names));
	}
	return ok;
}

struct work {
	const struct kh_review *review;
	const struct kh_workspace_options *options;
	const struct kh_changes *changes;
	size_t done, failed, left;
};

static bool is_wanted(const struct work *w, const struct kh_change *change)
{
	return kh_change_is_wanted(change, w->options->names) &&
	       !(change->conflict && w->options->ours);
}

/* Nothing is done where one of them can't be. */
static bool has_conflict(const struct work *w)
{
	bool any = false;
	for (size_t i = 0; !w->options->force && i < w->changes->n; i++) {
		const struct kh_change *c = &w->changes->list[i];
		if (!is_wanted(w, c) || !c->conflict)
			continue;
		any = true;
		kh_cli_complain("workspace: %s: the workspace's own has changed since the run "
				"began",
				kh_esc_str(c->path));
	}
	if (any)
		kh_cli_complain(
			"workspace: nothing was applied (--ours leaves these as they are "
			"and applies the others, --force replaces them; if it was your merge "
			"of the agent's commits that changed them, --force takes the agent's "
			"later version)");
	return any;
}

static void apply_one(struct work *w, const struct kh_change *change)
{
	struct kh_err err = KH_ERR_INIT;
	if (!is_wanted(w, change))
		return;
	if (!w->options->dry_run && !kh_review_apply(w->review, change, w->options->force, &err)) {
		kh_cli_complain_err(&err);
		w->failed++;
		return;
	}
	kh_workspace_line(change);
	w->done++;
}

/* What is to go goes first, the innermost before what it is in. */
static void apply_all(struct work *w)
{
	const struct kh_changes *c = w->changes;
	for (size_t i = c->n; i > 0; i--)
		if (c->list[i - 1].kind == KH_CHANGE_DELETED)
			apply_one(w, &c->list[i - 1]);
	for (size_t i = 0; i < c->n; i++)
		if (c->list[i].kind != KH_CHANGE_DELETED)
			apply_one(w, &c->list[i]);
}

/* What is in the workspace's own git folder comes as commits, or was not asked for. */
static bool is_of_commits(const struct work *w, const struct kh_change_group *group)
{
	return !w->options->names[0] && strcmp(group->path, ".git") == 0;
}

static void show_left(struct work *w)
{
	bool any = false;
	for (size_t i = 0; i < w->changes->n; i++) {
		const struct kh_change *c = &w->changes->list[i];
		if (is_wanted(w, c) || !kh_change_is_named(c, w->options->names))
			continue;
		if (!any)
			printf("not applied:\n");
		any = true;
		kh_workspace_line(c);
		w->left++;
	}
	for (size_t i = 0; i < w->changes->n_groups; i++) {
		if (is_of_commits(w, &w->changes->groups[i]))
			continue;
		if (!any)
			printf("not applied:\n");
		any = true;
		kh_workspace_group_line(&w->changes->groups[i]);
		w->left++;
	}
}

/* Commits that were not asked for may be left, and `discard` would remove them. */
static void say_done(const struct kh_changes *changes, const struct kh_workspace_options *options)
{
	if (options->no_commits && kh_workspace_may_have_commits(changes))
		printf("no file is left to apply (`keyhole workspace diff --only-commits` lists "
		       "the commits that are left)\n");
	else
		printf("no file is left to apply (`keyhole workspace discard` removes the "
		       "review)\n");
}

static int apply_files(const struct kh_review *review, const struct kh_workspace_options *options,
		       struct work *w)
{
	struct kh_changes changes kh_cleanup(kh_changes_fini) = { 0 };
	*w = (struct work){ .review = review, .options = options, .changes = &changes };
	if (!look(review, options, &changes) ||
	    !kh_workspace_names_are_known(review, options->names, &changes) || has_conflict(w)) {
		w->failed++;
		return KH_EXIT_FAILED;
	}
	apply_all(w);
	show_left(w);
	w->changes = NULL;
	printf("%zu %s%s\n", w->done, options->dry_run ? "would be applied" : "applied",
	       w->failed ? "; the others can be tried again" : "");
	if (!w->failed && !w->left && !options->names[0] && !options->dry_run)
		say_done(&changes, options);
	return w->failed || w->left || fflush(stdout) != 0 ? KH_EXIT_FAILED : 0;
}

/* What the agent had checked out; its other names are for nobody to paste into a shell. */
static void recommend_merge(const struct kh_review *review, const struct kh_review_refs *refs)
{
	kh_auto_free char *own = kh_strf("refs/keyhole/%s/HEAD", review->id);
	bool head = false;
	for (size_t i = 0; i < refs->n; i++)
		head = head || (own && strcmp(refs->list[i].name, own) == 0);
	printf("`git merge refs/keyhole/%s/%s` merges them\n", review->id,
	       head ? "HEAD" : "heads/BRANCH");
}

/* *n: how many refs there are, or would be. Return: exit status. */
static int apply_commits(const struct kh_review *review, const struct kh_workspace_options *options,
			 bool files, size_t *n)
{
	struct kh_review_refs refs kh_cleanup(kh_review_refs_fini) = { 0 };
	if (!kh_workspace_find_commits(review, options->dry_run, &refs))
		return KH_EXIT_FAILED;
	*n = refs.n;
	if (kh_workspace_show_commits(review, &refs, options->dry_run) && refs.n > 0 &&
	    !options->dry_run)
		recommend_merge(review, &refs);
	if (refs.n > 0 && files)
		printf("files wait, since git merges over none that differ:\n"
		       "  1. merge\n"
		       "  2. `keyhole workspace apply --no-commits` takes over what the agent did "
		       "not commit (without a merge, all files)\n"
		       "  3. `keyhole workspace discard` ends the review\n");
	if (refs.n == 0 && options->only_commits)
		printf("no new commits\n");
	return fflush(stdout) == 0 ? 0 : KH_EXIT_FAILED;
}

/* Where nobody can tell, git is asked. */
static bool may_have_commits(const struct kh_review *review)
{
	struct kh_changes changes kh_cleanup(kh_changes_fini) = { 0 };
	return !kh_review_look(review, NULL, &changes, NULL) ||
	       kh_workspace_may_have_commits(&changes);
}

/* Files that an `apply` without a path would take over. */
static bool has_files(const struct kh_review *review, const struct kh_workspace_options *options)
{
	struct kh_changes changes kh_cleanup(kh_changes_fini) = { 0 };
	const struct work w = { .options = options };
	bool any = false;
	if (options->only_commits || !kh_review_look(review, NULL, &changes, NULL))
		return false;
	for (size_t i = 0; i < changes.n; i++)
		any = any || is_wanted(&w, &changes.list[i]);
	return any;
}

static void say_not_applied(const struct kh_workspace_options *options)
{
	if (!options->only_commits)
		kh_cli_complain("workspace: nothing was applied; --no-commits takes the files "
				"only");
}

/* New commits come before files, which wait until they are merged: git merges over no file that
 * differs from its own. */
int kh_workspace_apply(const struct kh_review *review, const struct kh_workspace_options *options)
{
	struct work w = { 0 };
	size_t n = 0;
	int status = 0;
	if (kh_workspace_wants_commits(options) && may_have_commits(review)) {
		bool files = has_files(review, options);
		status = apply_commits(review, options, files, &n);
		if (status != 0)
			say_not_applied(options);
		if (status != 0 || (n > 0 && files))
			return KH_EXIT_FAILED;
	} else if (options->only_commits) {
		printf("no new commits\n");
	}
	if (!options->only_commits && apply_files(review, options, &w) != 0)
		status = KH_EXIT_FAILED;
	return status;
}

/* ---- discard ---- */

static void drop_one(struct work *w, const struct kh_change *change)
{
	struct kh_err err = KH_ERR_INIT;
	if (!w->options->dry_run && !kh_review_drop(w->review, change, &err)) {
		kh_cli_complain_err(&err);
		w->failed++;
		return;
	}
	kh_workspace_line(change);
	w->done++;
}

/* Whole, where the whole is named. */
static void drop_group(struct work *w, const struct kh_change_group *group)
{
	struct kh_err err = KH_ERR_INIT;
	const struct kh_change whole = { .path = group->path };
	if (!kh_change_is_named(&whole, w->options->names)) {
		kh_cli_complain("workspace: %s/: a part of a git folder is discarded only with the "
				"review",
				kh_esc_str(group->path));
		w->failed++;
	} else if (!kh_review_drop_group(w->review, group, w->options->dry_run, &err)) {
		kh_cli_complain_err(&err);
		w->failed++;
	} else {
		kh_workspace_group_line(group);
		w->done++;
	}
}

/* What is new goes first, the innermost before what it is in; then what was there comes back. */
static void drop_all(struct work *w)
{
	const struct kh_changes *c = w->changes;
	for (size_t i = 0; i < c->n_groups; i++)
		drop_group(w, &c->groups[i]);
	for (size_t i = c->n; i > 0; i--)
		if (!c->list[i - 1].was.st_mode)
			drop_one(w, &c->list[i - 1]);
	for (size_t i = 0; i < c->n; i++)
		if (c->list[i].was.st_mode)
			drop_one(w, &c->list[i]);
}

static int drop_named(const struct kh_review *review, const struct kh_workspace_options *options)
{
	struct kh_changes changes kh_cleanup(kh_changes_fini) = { 0 };
	struct work w = { .review = review, .options = options, .changes = &changes };
	if (!look(review, options, &changes) ||
	    !kh_workspace_names_are_known(review, options->names, &changes))
		return KH_EXIT_FAILED;
	drop_all(&w);
	printf("%zu %s\n", w.done, options->dry_run ? "would be discarded" : "discarded");
	return w.failed == 0 && fflush(stdout) == 0 ? 0 : KH_EXIT_FAILED;
}

/* Somebody may not have merged them yet, so they are nobody's to delete here. */
static void say_refs(const struct kh_review *review)
{
	size_t n = 0;
	if (!review->workspace || !kh_review_count_refs(review, &n, NULL) || n == 0)
		return;
	printf("%zu ref%s of its commits stay%s in the repository; to delete %s:\n"
	       "git for-each-ref --format='delete %%(refname)' refs/keyhole/%s | git update-ref "
	       "--stdin\n",
	       n, n == 1 ? "" : "s", n == 1 ? "s" : "", n == 1 ? "it" : "them", review->id);
}

int kh_workspace_discard(struct kh_review *review, const struct kh_workspace_options *options)
{
	struct kh_err err = KH_ERR_INIT;
	if (options->names[0])
		return drop_named(review, options);
	if (!options->dry_run && !kh_review_remove(review, &err)) {
		kh_cli_complain_err(&err);
		return KH_EXIT_FAILED;
	}
	printf("review %s %s\n", review->id, options->dry_run ? "would be removed" : "is removed");
	say_refs(review);
	return fflush(stdout) == 0 ? 0 : KH_EXIT_FAILED;
}
