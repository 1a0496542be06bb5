/* review_reads.h - finds what git and other tools on the host run or read in a workspace under
 * review */
#ifndef KEYHOLE_SANDBOX_REVIEW_READS_H
#define KEYHOLE_SANDBOX_REVIEW_READS_H

#include <stdbool.h>
#include <stddef.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>

/* Paths below the workspace; "": a protected link leads to all of it. */
struct kh_review_reads {
	char **list;
	size_t n;
	struct kh_buf relative; /* from whichever folder is a work tree, each with a NUL */
};
/*
 * By the workspace's own configuration of git, which the agent can't change, and by where symbolic
 * links in protected folders lead. git runs nothing for that. Return: false also where not all of
 * the workspace could be looked at.
 */
bool kh_review_reads_find(struct kh_review_reads *out, const char *workspace, struct kh_err *err);
void kh_review_reads_fini(struct kh_review_reads *reads);
/*
 * How many bytes of this path a name has to reach, so that what is read there is meant: it is such
 * a path, or lies below one, or takes the place of a folder above one. 0: it is none of these.
 * `is_folder`: it is a folder afterwards.
 */
size_t kh_review_reads_reach(const struct kh_review_reads *reads, const char *path, bool is_folder);

#endif
