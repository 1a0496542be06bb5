/* workspace_internal.h - the parts of `keyhole workspace` */
#ifndef KEYHOLE_CLI_WORKSPACE_INTERNAL_H
#define KEYHOLE_CLI_WORKSPACE_INTERNAL_H

#include <stdbool.h>

#include <keyhole/sandbox/review.h>

#include "cli_internal.h"

struct kh_workspace_options {
	const char *review;    /* its id; NULL: the only review of the folder */
	const char *workspace; /* the folder; NULL: the current folder */
	bool json, stat, dry_run, ours, force;
	bool no_commits, only_commits;
	char **names; /* paths below the workspace; NULL-terminated */
};

/* ---- workspace_diff.c ---- */

/* Return: exit status. */
int kh_workspace_diff(const struct kh_review *review, const struct kh_workspace_options *options);
/* Print one line of a list, for a change or a group. */
void kh_workspace_line(const struct kh_change *change);
void kh_workspace_group_line(const struct kh_change_group *group);
struct kh_workspace_kind {
	char letter;
	const char *word;
};
const struct kh_workspace_kind *kh_workspace_kind(enum kh_change_kind kind);

/* ---- workspace_json.c ---- */

/* Prints the same as one JSON object. `refs` NULL: commits were not looked for. */
void kh_workspace_json(const struct kh_review *review, const struct kh_changes *changes,
		       const struct kh_review_refs *refs);

/* ---- workspace_text.c ---- */

/* Prints the changed lines of a regular file, as a unified diff. */
void kh_workspace_text(const struct kh_review *review, const struct kh_change *change);

/* ---- workspace_commits.c ---- */

/* Do the options ask for commits? */
bool kh_workspace_wants_commits(const struct kh_workspace_options *options);
/* May there be new commits? False if nothing has changed in the workspace's git folder. */
bool kh_workspace_may_have_commits(const struct kh_changes *changes);
/* Call kh_review_commits and kh_review_commit_names, and print the error. */
bool kh_workspace_find_commits(const struct kh_review *review, bool dry_run,
			       struct kh_review_refs *refs);
bool kh_workspace_commit_names(const struct kh_review *review, const struct kh_review_refs *refs,
			       size_t which, struct kh_changes *names);
/* Why a file with such a name in a commit is not applied; NULL: it is. */
const char *kh_workspace_commit_mark(enum kh_change_bar bar);
/* Prints the refs, and the names that each of them changes. Return: true if everything could be
 * checked, and a merge would bring nothing that `apply` would not apply as a file. */
bool kh_workspace_show_commits(const struct kh_review *review, const struct kh_review_refs *refs,
			       bool dry_run);

/* ---- workspace_apply.c; return: exit status ---- */

/* Does each name match a change? A mistyped name must not look as if it were applied. Prints those
 * that do not. */
bool kh_workspace_names_are_known(const struct kh_review *review, char *const *names,
				  const struct kh_changes *changes);

int kh_workspace_apply(const struct kh_review *review, const struct kh_workspace_options *options);
int kh_workspace_discard(struct kh_review *review, const struct kh_workspace_options *options);

/* ---- workspace_aside.c ---- */

/* Return: true if it is one of these commands; *status is its exit status. */
bool kh_workspace_aside(const char *command, char *const *words, int *status);

#endif
