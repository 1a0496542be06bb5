/*
 * review.h - reviews: the agent's changes are kept beside the workspace until somebody applies them
 *
 * With `keyhole run --workspace DIR:review` the agent sees DIR, but its changes go to a folder of
 * the review. DIR stays unchanged until somebody applies changes. Nothing here runs a program on
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

/* Which folder a path stood for; all 0: it was not noted. */
struct kh_review_place {
	uint64_t dev, ino;
	int64_t born_s; /* 0, 0: the file system does not say */
	uint32_t born_ns;
};

struct kh_review {
	char *id;
	char *path;	 /* its folder, below kh_review_home */
	char *workspace; /* NULL: its creation was interrupted; it can only be discarded */
	char *engine;	 /* of its last run */
	char *why;	 /* not an overlay but a copy: the reason; else NULL */
	char *folder;	 /* for the sandbox: struct kh_sandbox_review.folder */
	bool overlay;
	bool running;	 /* a run, or another command, works on it */
	int64_t started; /* seconds since 1970, of its first run */
	int lock;	 /* the folder's descriptor, which may hold the lock; -1 */
	int top;	 /* the workspace, open since kh_review_hold; -1 */
	struct kh_review_place place;
};
void kh_review_fini(struct kh_review *review);

/* The folder of this user's reviews. Heap; NULL with `err`. */
char *kh_review_home(struct kh_err *err);
/* All reviews, the newest last; freed with kh_reviews_free. */
struct kh_review *kh_reviews(size_t *n, struct kh_err *err);
void kh_reviews_free(struct kh_review *list, size_t n);

/* Makes a review of `workspace` (absolute, without symbolic links) for this engine; locked. Records
 * the state of the workspace. If no overlay is possible, the workspace is copied, and out->why says
 * why. Of this and the next two: call kh_review_fini also after an error. */
bool kh_review_new(struct kh_review *out, const char *workspace, const char *engine,
		   struct kh_err *err);
/* Opens a review for another run, and records what has changed in its workspace since; locked. */
bool kh_review_continue(struct kh_review *out, const char *id, const char *engine,
			struct kh_err *err);
/* Opens a review by its id. `exclusive`: locked; an error while a run works on it. */
bool kh_review_open(struct kh_review *out, const char *id, bool exclusive, struct kh_err *err);
/* Opens the workspace, through no link, and keeps it open for all later calls. Return: false: it is
 * not there, or is not the folder that the review began in. */
bool kh_review_hold(struct kh_review *review, struct kh_err *err);
/* Takes a shared lock on a review that was opened without `exclusive`: nobody writes to it until
 * kh_review_give_back. Return: false with `err`: a run, or another command, works on it. */
bool kh_review_share(const struct kh_review *review, struct kh_err *err);
void kh_review_give_back(const struct kh_review *review);
/* Removes a locked review and everything in it. */
bool kh_review_remove(struct kh_review *review, struct kh_err *err);

/* ---- what the agent did ---- */

enum kh_change_kind {
	KH_CHANGE_ADDED = 1,
	KH_CHANGE_CHANGED,
	KH_CHANGE_MODE,
	KH_CHANGE_DELETED,
	KH_CHANGE_KINDS,
};

/* Why a change is not applied along with the others. */
enum kh_change_bar {
	KH_BAR_NONE = 0,
	KH_BAR_PROTECTED, /* makes something run on the host: applied only if named (reach) */
	KH_BAR_BULKY,	  /* node_modules and the like: applied only if named */
	KH_BAR_GIT,	  /* in a git folder, or would make one: never applied */
	KH_BAR_LINK,	  /* a symbolic link that may lead out of the workspace: never applied */
	KH_BAR_SPECIAL,	  /* a socket, named pipe or device: never applied */
	KH_BAR_UNREADABLE /* unreadable, or nested too deep: never applied */
};

struct kh_change {
	char *path; /* below the workspace */
	enum kh_change_kind kind;
	enum kh_change_bar bar;
	size_t reach;  /* PROTECTED, BULKY: a name must match at least so many bytes of `path` */
	bool conflict; /* the workspace's file has changed since the run began */
	bool passing;  /* of commits: an earlier commit has it, the last one does not */
	struct stat was, is;	  /* st_mode 0: absent */
	char *was_link, *is_link; /* of symbolic links */
};

/* Changes that are not listed one by one: everything in one folder. */
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
/* Lists the changes: all, or only those at or below `names` (NULL-terminated; NULL: all). Changes
 * in a bulky folder are listed one by one if named. kh_changes_fini frees them. */
bool kh_review_look(const struct kh_review *review, char *const *names, struct kh_changes *out,
		    struct kh_err *err);
void kh_changes_fini(struct kh_changes *changes);
/* Is the change at or below one of `names`? True if there are no names. */
bool kh_change_is_named(const struct kh_change *change, char *const *names);
/* The same, and nothing bars it: a protected or bulky change must itself be named. */
bool kh_change_is_wanted(const struct kh_change *change, char *const *names);
const char *kh_change_bar_text(enum kh_change_bar bar);
/* The permissions that are applied: the agent's, but write permission for others only if the
 * workspace's file has it. */
mode_t kh_change_mode(const struct kh_change *change);

/* Opens the regular file of a change for reading: the workspace's (was) or the agent's (is).
 * Return: a descriptor for the caller; -1 with errno. */
int kh_review_open_was(const struct kh_review *review, const struct kh_change *change);
int kh_review_open_is(const struct kh_review *review, const struct kh_change *change);

/* ---- applying and discarding ---- */

/* Applies one change of a locked review to the workspace, atomically. Applying it again does
 * nothing. A conflict is refused unless `force`. */
bool kh_review_apply(const struct kh_review *review, const struct kh_change *change, bool force,
		     struct kh_err *err);
/* Discards one change: the agent's file becomes what the workspace has. */
bool kh_review_drop(const struct kh_review *review, const struct kh_change *change,
		    struct kh_err *err);
/* Discards a group; only if the workspace has nothing of that name. */
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
	/* Where their commits are stored until kh_review_refs_fini; NULL: in the workspace's
	 * repository. */
	struct kh_review_objects *objects;
};
/*
 * Imports the agent's commits that the workspace's repository lacks. git makes a bundle of them in
 * a sandbox without a network, in which the review is read-only. On the host git imports the bundle
 * with all its checks, into refs/keyhole/ID/. No hook runs, and nothing is checked out. No refs:
 * there are no new commits. `dry_run`: the same commits and checks, but only for inspection;
 * nothing is written to the workspace. The caller holds a lock on the review (kh_review_share).
 * kh_review_refs_fini frees *out.
 */
bool kh_review_commits(const struct kh_review *review, bool dry_run, struct kh_review_refs *out,
		       struct kh_err *err);
/* Counts the refs in the workspace's repository that hold commits of this review. */
bool kh_review_count_refs(const struct kh_review *review, size_t *n, struct kh_err *err);
/*
 * Lists how one of these refs differs from the repository's HEAD, and what each commit in between
 * changes. Only `path`, `kind`, `bar` and `passing` are set; sorted by path. Too many commits or
 * names are an error. Call kh_changes_fini also after an error.
 */
bool kh_review_commit_names(const struct kh_review *review, const struct kh_review_refs *refs,
			    size_t which, struct kh_changes *out, struct kh_err *err);
/* Is it the first ref of its commit in the list? */
bool kh_review_refs_is_first(const struct kh_review_refs *refs, size_t which);
void kh_review_refs_fini(struct kh_review_refs *refs);

#endif
