/* review_git.h - the host's git, on a workspace's own repository */
#ifndef KEYHOLE_SANDBOX_REVIEW_GIT_H
#define KEYHOLE_SANDBOX_REVIEW_GIT_H

#include <sys/types.h>

#include <keyhole/base/buf.h>

#include "review_internal.h"

struct kh_review_objects;

struct kh_host_git {
	char *program;
	const char *dir; /* the repository; NULL: the workspace has none of its own */
	int held;	 /* the same, held */
	uid_t uid;	 /* its owner */
	gid_t gid;
	/* Where new objects go, and are; NULL: into the repository. The caller's. */
	const struct kh_review_objects *objects;
};
/* Holds the repository of the workspace `folder`, whose owner git runs as. Return: false with
 * `err`, also where it belongs to another user, or to root in another user's folder. */
bool kh_host_git_open(struct kh_host_git *git, int folder, struct kh_err *err);
void kh_host_git_fini(struct kh_host_git *git);
/* Runs it with these words (NULL at the end), and `in` (-1: nothing) as its standard input. `said`
 * gets what it wrote; more than there is room for is an error. */
bool kh_host_git(const struct kh_host_git *git, const char *const *args, int in,
		 struct kh_buf *said, struct kh_err *err);
/* What it said, as one line of a message: its lines joined by "; ", as kh_esc shows them. */
const char *kh_host_git_said(struct kh_slice said);

/* ---- review_objects.c ---- */

/* A folder for objects outside of the repository, with git's variables for it. */
struct kh_review_objects {
	char *folder;
	char *own, *known, *quarantine; /* for git's environment */
	pid_t watcher;			/* removes it; 0: nobody does */
	int alive;
};
/* For the owner of the repository. Return: NULL with err. */
struct kh_review_objects *kh_review_objects_new(const struct kh_host_git *git, struct kh_err *err);
/* Removes the folder with all that is in it; NULL does nothing. */
void kh_review_objects_free(struct kh_review_objects *objects);

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
