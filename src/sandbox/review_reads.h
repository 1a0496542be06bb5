/* review_reads.h - finds what git and other tools on the host run or read in a workspace under
 * review */
#ifndef KEYHOLE_SANDBOX_REVIEW_READS_H
#define KEYHOLE_SANDBOX_REVIEW_READS_H

#include <stdbool.h>
#include <stddef.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>

/* Paths below the workspace, folded (kh_name_fold_path); "": a protected link leads to the whole
 * workspace. */
struct kh_review_reads {
	char **list;
	size_t n;
	struct kh_buf relative; /* relative to any work tree; each with a NUL */
};
/*
 * Finds them in the workspace's own git configuration, which the agent can't change, and by
 * symbolic links in protected folders. git runs nothing for that. Return: false with `err`, also if
 * not all of the workspace could be read.
 */
bool kh_review_reads_find(struct kh_review_reads *out, const char *workspace, struct kh_err *err);
void kh_review_reads_fini(struct kh_review_reads *reads);
/*
 * How many bytes of this path a name must match at least to include what is read there
 * (kh_change.reach): the path, in any spelling, is one of these, or below one, or replaces a folder
 * above one. 0: none of these. `is_folder`: it is a folder after the change.
 */
size_t kh_review_reads_reach(const struct kh_review_reads *reads, const char *path, bool is_folder);

#endif
