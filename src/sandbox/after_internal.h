/* after_internal.h - what the files of the survey after a run share */
#ifndef KEYHOLE_SANDBOX_AFTER_INTERNAL_H
#define KEYHOLE_SANDBOX_AFTER_INTERNAL_H

#include <keyhole/base/slice.h>

#include "aside.h"
#include "concern.h"
#include "gitlinks.h"
#include "inlets.h"
#include "outlets.h"
#include "stores.h"

struct kh_after {
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

bool kh_after_was_there(const struct kh_after *after, const unsigned char *digest);
/* Does `target`, read from `folder`, lead to a folder in the workspace, and there through no link?
 * `arg`: the survey. */
bool kh_after_leads_inside(void *arg, const char *folder, struct kh_slice target);
/* Sets aside what git reads by a relative path in this work tree and was not there before. `tree`
 * NULL: what has an absolute path. */
void kh_after_judge_tree(struct kh_after *after, const char *tree, const char *git_dir);
/* after_config.c: `only_leads`: it says what it said before, and may say it; the folders that it
 * names may have changed. Return: true. */
bool kh_after_judge_config(struct kh_after *after, const struct kh_concern *c, bool only_leads);

#endif
