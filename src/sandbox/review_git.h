/* review_git.h - the host's git, on a workspace's own repository */
#ifndef KEYHOLE_SANDBOX_REVIEW_GIT_H
#define KEYHOLE_SANDBOX_REVIEW_GIT_H

#include <sys/types.h>

#include <keyhole/base/buf.h>

#include "review_internal.h"

struct kh_host_git {
	char *program;
	char *dir; /* the repository; NULL: the workspace has none of its own */
	uid_t uid; /* its owner */
	gid_t gid;
};
/* `folder` is the workspace, held. */
bool kh_host_git_open(struct kh_host_git *git, const char *workspace, int folder,
		      struct kh_err *err);
void kh_host_git_fini(struct kh_host_git *git);
/* Runs it with these words (NULL at the end), and `in` (-1: nothing) as its standard input. `said`
 * gets what it wrote, as far as there is room. */
bool kh_host_git(const struct kh_host_git *git, const char *const *args, int in,
		 struct kh_buf *said, struct kh_err *err);

/* ---- review_commits.c ---- */

/*
 * git's bundle-format, as hostile as whoever wrote it: a line of its version, capabilities, what it
 * needs, its refs, a blank line, the pack. `refs` gets branches, tags and HEAD, below
 * refs/keyhole/ID/, and *pack where the pack begins. Return: false: it is none, has no ref, or one
 * of another kind; what `refs` holds then is freed all the same.
 */
bool kh_review_bundle_head(struct kh_slice all, const char *id, struct kh_review_refs *refs,
			   size_t *pack);

#endif
