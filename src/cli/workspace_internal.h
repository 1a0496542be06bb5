/* workspace_internal.h - the parts of `keyhole workspace` */
#ifndef KEYHOLE_CLI_WORKSPACE_INTERNAL_H
#define KEYHOLE_CLI_WORKSPACE_INTERNAL_H

#include <stdbool.h>

#include <keyhole/sandbox/review.h>

#include "cli_internal.h"

struct kh_workspace_options {
	const char *review;    /* its id; NULL: the one of the folder */
	const char *workspace; /* the folder; NULL: the one we are in */
	bool json, stat, dry_run, ours, force;
	bool no_commits, only_commits;
	char **names; /* below the workspace; NULL at the end */
};

/* ---- workspace_diff.c ---- */

/* Return: exit status. */
int kh_workspace_diff(const struct kh_review *review, const struct kh_workspace_options *options);
/* One line of a list, for a change or a group. */
void kh_workspace_line(const struct kh_change *change);
void kh_workspace_group_line(const struct kh_change_group *group);
struct kh_workspace_kind {
	char letter;
	const char *word;
};
const struct kh_workspace_kind *kh_workspace_kind(enum kh_change_kind kind);

/* ---- workspace_json.c ---- */

/* The same as one object. `refs`: NULL: commits were not looked for. */
void kh_workspace_json(const struct kh_review *review, const struct kh_changes *changes,
		       const struct kh_review_refs *refs);

/* ---- workspace_text.c ---- */

/* What became of a regular file's lines, as a unified diff. */
void kh_workspace_text(const struct kh_review *review, const struct kh_change *change);

/* ---- workspace_commits.c ---- */

/* Does somebody ask for commits? */
bool kh_workspace_wants_commits(const struct kh_workspace_options *options);
/* May there be any? Where nothing has changed in the workspace's git folder, there are none. */
bool kh_workspace_may_have_commits(const struct kh_changes *changes);
/* kh_review_commits, and kh_review_commit_names; why they failed has been said. */
bool kh_workspace_find_commits(const struct kh_review *review, bool dry_run,
			       struct kh_review_refs *refs);
bool kh_workspace_commit_names(const struct kh_review *review, const struct kh_review_refs *refs,
			       size_t which, struct kh_changes *names);
/* What a name in a commit is not applied for as a file; NULL: nothing. */
const char *kh_workspace_commit_mark(enum kh_change_bar bar);
/* Prints the refs, and the names that each of them changes. Return: a merge brings nothing that is
 * not applied as a file, and all could be looked at. */
bool kh_workspace_show_commits(const struct kh_review *review, const struct kh_review_refs *refs,
			       bool dry_run);

/* ---- workspace_apply.c; return: exit status ---- */

/* Each name is to mean something: one that was mistyped must not look as if it were done. What does
 * not is said. */
bool kh_workspace_names_are_known(const struct kh_review *review, char *const *names,
				  const struct kh_changes *changes);

int kh_workspace_apply(const struct kh_review *review, const struct kh_workspace_options *options);
int kh_workspace_discard(struct kh_review *review, const struct kh_workspace_options *options);

/* ---- workspace_aside.c ---- */

/* Return: it is one of these commands, and *status is what came of it. */
bool kh_workspace_aside(const char *command, char *const *words, int *status);

#endif
