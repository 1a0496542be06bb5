/* workspace_commits.c - lists an agent's commits, and what they change */
#include <stdio.h>
#include <string.h>

#include <keyhole/base/cleanup.h>

#include "show_text.h"
#include "workspace_internal.h"

bool kh_workspace_wants_commits(const struct kh_workspace_options *options)
{
	return options->only_commits || (!options->no_commits && !options->names[0]);
}

/* Only a git folder at the top is the workspace's. */
bool kh_workspace_may_have_commits(const struct kh_changes *changes)
{
	for (size_t i = 0; i < changes->n_groups; i++)
		if (strcmp(changes->groups[i].path, ".git") == 0)
			return true;
	return false;
}

bool kh_workspace_find_commits(const struct kh_review *review, bool dry_run,
			       struct kh_review_refs *refs)
{
	struct kh_err err = KH_ERR_INIT;
	if (kh_review_commits(review, dry_run, refs, &err))
		return true;
	(void)kh_err_wrap(&err, "workspace: commits");
	kh_cli_complain_err(&err);
	return false;
}

bool kh_workspace_commit_names(const struct kh_review *review, const struct kh_review_refs *refs,
			       size_t which, struct kh_changes *names)
{
	struct kh_err err = KH_ERR_INIT;
	if (kh_review_commit_names(review, refs, which, names, &err))
		return true;
	(void)kh_err_wrap(&err, "workspace: what commit %.12s changes", refs->list[which].object);
	kh_cli_complain_err(&err);
	return false;
}

/* A merge brings all of them. */
const char *kh_workspace_commit_mark(enum kh_change_bar bar)
{
	switch (bar) {
	case KH_BAR_NONE:
		break;
	case KH_BAR_PROTECTED:
		return "protected";
	case KH_BAR_BULKY:
		return "in a folder of packages";
	case KH_BAR_GIT:
		return "of a git folder";
	case KH_BAR_LINK:
		return "a symbolic link that may lead out of the workspace";
	case KH_BAR_SPECIAL:
		return "no regular file: another repository";
	case KH_BAR_UNREADABLE:
		return "nested too deep";
	}
	return NULL;
}

static void show_ref(const struct kh_review_ref *ref, bool dry_run)
{
	struct kh_row line;
	FILE *row = kh_row_open(&line, stdout);
	fputs(dry_run ? "would be set  " : "set  ", row);
	kh_show_name(row, ref->name);
	fprintf(row, " %.12s", ref->object);
	kh_row_close(&line);
}

static void show_name(const struct kh_change *name)
{
	struct kh_row line;
	FILE *row = kh_row_open(&line, stdout);
	const char *mark = kh_workspace_commit_mark(name->bar);
	fprintf(row, "  %c  ", kh_workspace_kind(name->kind)->letter);
	kh_show_name(row, name->path);
	if (mark)
		fprintf(row, " [%s]", mark);
	if (name->passing)
		fputs(" [in a commit before the last]", row);
	kh_row_close(&line);
}

/* Each object once. Return: none of the names is barred, and all of them are there. */
static bool show_names(const struct kh_review *review, const struct kh_review_refs *refs)
{
	bool harmless = true;
	for (size_t i = 0; i < refs->n; i++) {
		struct kh_changes names kh_cleanup(kh_changes_fini) = { 0 };
		if (!kh_review_refs_is_first(refs, i))
			continue;
		if (!kh_workspace_commit_names(review, refs, i, &names)) {
			harmless = false;
			continue;
		}
		printf("%.12s changes %zu name%s:\n", refs->list[i].object, names.n,
		       names.n == 1 ? "" : "s");
		for (size_t k = 0; k < names.n; k++) {
			show_name(&names.list[k]);
			harmless = harmless && !names.list[k].bar;
		}
	}
	return harmless;
}

bool kh_workspace_show_commits(const struct kh_review *review, const struct kh_review_refs *refs,
			       bool dry_run)
{
	for (size_t i = 0; i < refs->n; i++)
		show_ref(&refs->list[i], dry_run);
	bool harmless = show_names(review, refs);
	if (!harmless)
		printf("merging them brings what could not be looked at, or files that are not "
		       "applied like the others, marked above: look at each first%s\n",
		       dry_run ? "" : " (`git show REF:PATH`)");
	if (dry_run && refs->n > 0)
		printf("`keyhole workspace apply --only-commits` sets these refs, and merges "
		       "nothing\n");
	return harmless;
}
