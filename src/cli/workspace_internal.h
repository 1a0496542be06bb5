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

/* ---- workspace_diff.c; return: exit status ---- */

int kh_workspace_diff(const struct kh_review *review, const struct kh_workspace_options *options);
/* One line of a list, for a change or a group. */
void kh_workspace_line(const struct kh_change *change);
void kh_workspace_group_line(const struct kh_change_group *group);
/* ---- workspace_text.c ---- */

/* What became of a regular file's lines, as a unified diff. */
void kh_workspace_text(const struct kh_review *review, const struct kh_change *change);

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
