/*
 * review.h - a workspace under review: the agent works beside it, and what it did is looked at
 * first
 *
 * `keyhole run --workspace DIR:review` shows the agent DIR, and what it writes goes to a folder of
 * the review. DIR is as it was until somebody takes changes over. Nothing here runs a program on
 * the host in a folder that the agent could write to.
 */
#ifndef KEYHOLE_SANDBOX_REVIEW_H
#define KEYHOLE_SANDBOX_REVIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <keyhole/base/err.h>
#include <keyhole/sandbox/sandbox.h>

/* ---- reviews ---- */

struct kh_review {
	char *id;
	char *path;	 /* its folder, below kh_review_home */
	char *workspace; /* NULL: it was never finished, and can only be discarded */
	char *engine;	 /* of its last run */
	char *why;	 /* a copy and no overlay: for this reason; else NULL */
	char *folder;	 /* for the sandbox: kh_sandbox_review's */
	bool overlay;
	bool running;	 /* a run, or another command, works on it */
	int64_t started; /* seconds since 1970, of its first run */
	int lock;	 /* held by whoever opened it; -1 */
};
void kh_review_fini(struct kh_review *review);

/* The folder in which reviews lie, of this user. Heap; NULL without memory. */
char *kh_review_home(struct kh_err *err);
/* All of them, the newest last; freed with kh_reviews_free. */
struct kh_review *kh_reviews(size_t *n, struct kh_err *err);
void kh_reviews_free(struct kh_review *list, size_t n);

/* A new one of `workspace` (absolute, without links) for this engine; locked. What the workspace
 * holds now is noted; where an overlay can't be had it is copied, and `why` says so. */
bool kh_review_new(struct kh_review *out, const char *workspace, const char *engine,
		   struct kh_err *err);
/* Opens one for another run, and notes what has changed in its workspace since; locked. */
bool kh_review_continue(struct kh_review *out, const char *id, const char *engine,
			struct kh_err *err);
/* Opens one by its id. `exclusive`: locked, and refused while a run works on it. */
bool kh_review_open(struct kh_review *out, const char *id, bool exclusive, struct kh_err *err);
/* Of one that was opened without a lock: until it is given back, nobody writes to it, and others
 * may do the same. Return: false: a run, or another command, works on it. */
bool kh_review_share(const struct kh_review *review, struct kh_err *err);
void kh_review_give_back(const struct kh_review *review);
/* Removes a locked one with all that is in it. */
bool kh_review_remove(struct kh_review *review, struct kh_err *err);

/* ---- what the agent did ---- */

enum kh_change_kind {
	KH_CHANGE_ADDED = 1,
	KH_CHANGE_CHANGED,
	KH_CHANGE_MODE,
	KH_CHANGE_DELETED,
	KH_CHANGE_KINDS,
};

/* Why a change is not taken over with the others. */
enum kh_change_bar {
	KH_BAR_NONE = 0,
	KH_BAR_PROTECTED, /* makes something run on the host: only where it is named (reach) */
	KH_BAR_BULKY,	  /* node_modules and the like: only where it is named */
	KH_BAR_GIT,	  /* in a git folder, or would make one: never */
	KH_BAR_LINK,	  /* a symbolic link that may lead out of the workspace: never */
	KH_BAR_SPECIAL,	  /* a socket, named pipe or device: never */
	KH_BAR_UNREADABLE /* it can't be looked at, or lies too deep: never */
};

struct kh_change {
	char *path; /* below the workspace */
	enum kh_change_kind kind;
	enum kh_change_bar bar;
	size_t reach;		  /* PROTECTED, BULKY: a name has to hold so many bytes of path */
	bool conflict;		  /* the workspace's own has changed since the run began */
	bool passing;		  /* of commits: one of them has it, and the last has it not */
	struct stat was, is;	  /* st_mode 0: absent */
	char *was_link, *is_link; /* of symbolic links */
};

/* What is not shown one by one: all that lies in a folder of this kind. */
struct kh_change_group {
	char *path;
	enum kh_change_bar bar; /* BULKY or GIT */
	uint64_t n;
};

struct kh_changes {
	struct kh_change *list;
	size_t n, alloc;
	struct kh_change_group *groups;
	size_t n_groups;
};
/* Looks at all, or only at what is named and what lies below; `names` ends with NULL, and NULL is
 * none. What is named in a bulky folder is listed one by one. */
bool kh_review_look(const struct kh_review *review, char *const *names, struct kh_changes *out,
		    struct kh_err *err);
void kh_changes_fini(struct kh_changes *changes);
/* Is the change one of those that `names` name? All are, where there are none. */
bool kh_change_is_named(const struct kh_change *change, char *const *names);
/* The same, and nothing bars it: what is protected or bulky has to be named itself. */
bool kh_change_is_wanted(const struct kh_change *change, char *const *names);
const char *kh_change_bar_text(enum kh_change_bar bar);
/* The permissions that are applied: the agent's, but nobody is let in whom the workspace's own does
 * not let in (S_IWOTH). */
mode_t kh_change_mode(const struct kh_change *change);

/* The content of a regular file of a change, for reading: of the workspace, or of the agent's.
 * Return: -1 with errno. */
int kh_review_open_was(const struct kh_review *review, const struct kh_change *change);
int kh_review_open_is(const struct kh_review *review, const struct kh_change *change);

/* ---- taking it over, or not ---- */

/* One change of a locked review is made to the workspace, whole or not at all; done a second time
 * it does nothing. A conflict is refused unless `force`. */
bool kh_review_apply(const struct kh_review *review, const struct kh_change *change, bool force,
		     struct kh_err *err);
/* The other way: the agent's is made what the workspace has. */
bool kh_review_drop(const struct kh_review *review, const struct kh_change *change,
		    struct kh_err *err);
/* The same of a folder that is one line: only where the workspace has none of that name. */
bool kh_review_drop_group(const struct kh_review *review, const struct kh_change_group *group,
			  bool dry_run, struct kh_err *err);

/* ---- commits ---- */

struct kh_review_ref {
	char *name; /* "refs/keyhole/ID/heads/main" */
	char object[65];
};
struct kh_review_objects;
struct kh_review_refs {
	struct kh_review_ref *list;
	size_t n;
	/* Where their commits are, until kh_review_refs_fini; NULL: in the workspace's repository.
	 */
	struct kh_review_objects *objects;
};
/*
 * Commits of the agent's that the workspace's repository lacks. git makes a bundle of them in a
 * sandbox without a network, in which the review can be read only; on the host git takes it in with
 * all its checks, into refs/keyhole/ID/. No hook runs, and nothing is checked out. No refs: there
 * is nothing new. `dry_run`: the same commits, with the same checks, to be looked at alone: nothing
 * is written to the workspace. Nobody may change the review meanwhile (kh_review_share).
 */
bool kh_review_commits(const struct kh_review *review, bool dry_run, struct kh_review_refs *out,
		       struct kh_err *err);
/* How many refs of its commits the workspace's repository has. */
bool kh_review_count_refs(const struct kh_review *review, size_t *n, struct kh_err *err);
/*
 * What one of these refs has otherwise than the repository's HEAD, and what each commit on the way
 * to it changes: `path`, `kind`, `bar` and `passing` of each name are set, in the order of
 * names. An error where there are more commits or names than anybody looks at. Freed with
 * kh_changes_fini, also after an error.
 */
bool kh_review_commit_names(const struct kh_review *review, const struct kh_review_refs *refs,
			    size_t which, struct kh_changes *out, struct kh_err *err);
/* Is no ref before it one of the same commit? */
bool kh_review_refs_is_first(const struct kh_review_refs *refs, size_t which);
void kh_review_refs_fini(struct kh_review_refs *refs);

#endif
