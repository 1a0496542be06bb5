/* workspace_diff.c - `keyhole workspace diff`: an agent's changes in a workspace under review */
#include <inttypes.h>
#include <stdio.h>

#include <keyhole/base/cleanup.h>

#include "show_text.h"
#include "workspace_internal.h"

const struct kh_workspace_kind *kh_workspace_kind(enum kh_change_kind kind)
{
	static const struct kh_workspace_kind kinds[] = {
		[KH_CHANGE_ADDED] = { 'A', "added" },
		[KH_CHANGE_CHANGED] = { 'M', "changed" },
		[KH_CHANGE_MODE] = { 'P', "mode" },
		[KH_CHANGE_DELETED] = { 'D', "deleted" },
	};
	return &kinds[kind];
}

static const struct stat *side(const struct kh_change *change)
{
	return change->is.st_mode ? &change->is : &change->was;
}

static void put_name(FILE *row, const struct kh_change *change)
{
	fprintf(row, "%c  ", kh_workspace_kind(change->kind)->letter);
	kh_show_name(row, change->path);
	if (S_ISDIR(side(change)->st_mode))
		putc('/', row);
	if (change->is_link) {
		fputs(" -> ", row);
		kh_show_name(row, change->is_link);
	}
}

static void put_mode(FILE *row, const struct kh_change *change)
{
	unsigned was = change->was.st_mode & 0777, is = kh_change_mode(change);
	if (change->was.st_mode && change->is.st_mode && was != is)
		fprintf(row, " (mode %04o, %04o before)", is, was);
	else if (change->kind == KH_CHANGE_ADDED && S_ISREG(change->is.st_mode) && (is & 0111))
		fprintf(row, " (mode %04o)", is);
}

void kh_workspace_line(const struct kh_change *change)
{
	struct kh_row line;
	FILE *row = kh_row_open(&line, stdout);
	put_name(row, change);
	put_mode(row, change);
	if (change->conflict)
		fputs(" [conflict: the workspace's own has changed since the run began]", row);
	if (change->bar)
		fprintf(row, " [%s]", kh_change_bar_text(change->bar));
	kh_row_close(&line);
}

void kh_workspace_group_line(const struct kh_change_group *group)
{
	struct kh_row line;
	FILE *row = kh_row_open(&line, stdout);
	fputs("-  ", row);
	kh_show_name(row, group->path);
	fprintf(row, "/: %" PRIu64 " change%s [%s]", group->n, group->n == 1 ? "" : "s",
		kh_change_bar_text(group->bar));
	kh_row_close(&line);
}

static void show_text(const struct kh_review *review, const struct kh_workspace_options *options,
		      const struct kh_changes *changes)
{
	for (size_t i = 0; i < changes->n; i++) {
		const struct kh_change *c = &changes->list[i];
		kh_workspace_line(c);
		bool regular = S_ISREG(c->is.st_mode) || S_ISREG(c->was.st_mode);
		if (!options->stat && regular && c->kind != KH_CHANGE_MODE &&
		    c->bar != KH_BAR_SPECIAL && c->bar != KH_BAR_UNREADABLE)
			kh_workspace_text(review, c);
	}
	for (size_t i = 0; i < changes->n_groups; i++)
		kh_workspace_group_line(&changes->groups[i]);
}

/* Nobody may write to the review meanwhile; but while somebody reads what is printed, they may. */
static bool look_for_commits(const struct kh_review *review, const struct kh_changes *changes,
			     struct kh_review_refs *refs)
{
	struct kh_err err = KH_ERR_INIT;
	if (!kh_workspace_may_have_commits(changes))
		return true;
	if (!kh_review_share(review, &err)) {
		kh_cli_complain_err(&err);
		return false;
	}
	bool ok = kh_workspace_find_commits(review, true, refs);
	kh_review_give_back(review);
	return ok;
}

static bool look(const struct kh_review *review, const struct kh_workspace_options *options,
		 struct kh_changes *changes)
{
	struct kh_err err = KH_ERR_INIT;
	if (options->only_commits ? kh_review_look(review, NULL, changes, &err)
				  : kh_review_look(review, options->names, changes, &err))
		return options->only_commits ||
		       kh_workspace_names_are_known(review, options->names, changes);
	kh_cli_complain_err(&err);
	return false;
}

/* Files first: git may take long, or for ever where the agent wants it to. */
static bool diff_text(const struct kh_review *review, const struct kh_workspace_options *options,
		      const struct kh_changes *changes, bool commits)
{
	struct kh_review_refs refs kh_cleanup(kh_review_refs_fini) = { 0 };
	if (!options->only_commits)
		show_text(review, options, changes);
	if (fflush(stdout) != 0 || (commits && !look_for_commits(review, changes, &refs)))
		return false;
	(void)kh_workspace_show_commits(review, &refs, true);
	if (refs.n == 0 && commits && options->only_commits)
		printf("no new commits\n");
	return true;
}

static bool diff_json(const struct kh_review *review, const struct kh_workspace_options *options,
		      const struct kh_changes *changes, bool commits)
{
	static const struct kh_changes none = { 0 };
	struct kh_review_refs refs kh_cleanup(kh_review_refs_fini) = { 0 };
	bool known = !commits || look_for_commits(review, changes, &refs);
	kh_workspace_json(review, options->only_commits ? &none : changes,
			  commits && known ? &refs : NULL);
	return known;
}

int kh_workspace_diff(const struct kh_review *review, const struct kh_workspace_options *options)
{
	struct kh_changes changes kh_cleanup(kh_changes_fini) = { 0 };
	if (!look(review, options, &changes))
		return KH_EXIT_FAILED;
	if (review->running)
		kh_cli_complain("workspace: a run still works on the review %s; new commits are "
				"listed when it has ended",
				review->id);
	bool commits = kh_workspace_wants_commits(options) && !review->running;
	bool ok = options->json ? diff_json(review, options, &changes, commits)
				: diff_text(review, options, &changes, commits);
	return fflush(stdout) == 0 && ok ? 0 : KH_EXIT_FAILED;
}
