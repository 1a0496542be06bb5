/* review_internal.h - the parts of a workspace under review */
#ifndef KEYHOLE_SANDBOX_REVIEW_INTERNAL_H
#define KEYHOLE_SANDBOX_REVIEW_INTERNAL_H

#include <limits.h>
#include <stdio.h>

#include <keyhole/base/limits.h>
#include <keyhole/sandbox/review.h>

enum { KH_REVIEW_PATH_BYTES = PATH_MAX };

/* ---- review_tree.c: below a folder and never out of it ---- */

/* openat2 and fstatat that follow no symbolic link and leave neither the folder nor its mount.
 * `path` is below `folder`. Return: as open, stat. */
int kh_review_beneath_open(int folder, const char *path, int flags);
int kh_review_beneath_stat(int folder, const char *path, struct stat *st);
/* The folder that holds `path`, and its last part. Return: -1 with errno. */
int kh_review_beneath_parent(int folder, const char *path, const char **name);
/*
 * A folder under that name itself, never what a link there leads to: to be given an owner and a
 * mode by its descriptor (O_PATH; kh_file_set_mode). `fresh`: one that was just made, mode 0700;
 * whoever put another folder in its place gets nothing. Return: -1 with errno.
 */
int kh_review_open_made(int parent, const char *name, bool fresh);
/* chmod of what such a descriptor stands for. Return: as chmod. */
/* Heap; NULL with errno. */
char *kh_review_beneath_link(int folder, const char *path);

enum kh_walk_order { KH_WALK_ON, KH_WALK_SKIP, KH_WALK_STOP };
struct kh_tree_walker {
	/* Each entry, in the order of names, a folder before what is in it; SKIP: not into it. */
	enum kh_walk_order (*entry)(void *arg, const char *path, const struct stat *st);
	/* A folder that can't be read, or lies deeper than anybody looks. */
	enum kh_walk_order (*unreadable)(void *arg, const char *path, int sys);
	/* After all that is in a folder; may be NULL. */
	enum kh_walk_order (*leave)(void *arg, const char *path);
	void *arg;
	uint64_t entries; /* so far; more than KH_LIMIT_REVIEW_ENTRIES is refused */
};
/* Walks what is below `path` of `folder` ("": all of it). */
bool kh_tree_walk(struct kh_tree_walker *walker, int folder, const char *path, struct kh_err *err);
/* Everything in it goes, whatever modes were set, and then itself. */
bool kh_tree_remove(int above, const char *name, struct kh_err *err);

/* ---- review_base.c: what the workspace held when the agent began ---- */

struct kh_base_entry {
	uint32_t mode; /* 0: nothing was there */
	uint32_t mtime_ns, ctime_ns, copy_ctime_ns;
	int64_t mtime_s, ctime_s, copy_ctime_s;
	uint64_t size, ino;
	uint64_t copy_ino; /* of the copy as it was made; 0: none was */
};
struct kh_base {
	char *bytes;
	size_t len;
	struct kh_base_row {
		const char *path;
		size_t at; /* in the file: a later one replaces */
		struct kh_base_entry entry;
	} * rows;
	size_t n;
};
/* Notes come after each other; what is noted later counts. */
struct kh_base_writer {
	FILE *file;
};
bool kh_base_create(struct kh_base_writer *writer, const char *path, bool append,
		    struct kh_err *err);
/* `st`: NULL: nothing is there. `copy` may be NULL. */
bool kh_base_note(struct kh_base_writer *writer, const char *path, const struct stat *st,
		  const struct stat *copy);
bool kh_base_note_entry(struct kh_base_writer *writer, const char *path,
			const struct kh_base_entry *entry);
bool kh_base_finish(struct kh_base_writer *writer, struct kh_err *err);
/* The rows of what `bytes` (heap) holds. Return: false without memory. */
bool kh_base_read(struct kh_base *base);
bool kh_base_load(struct kh_base *base, const char *path, struct kh_err *err);
void kh_base_fini(struct kh_base *base);
/* NULL: nothing was there. */
const struct kh_base_entry *kh_base_find(const struct kh_base *base, const char *path);
/* `st`: st_mode 0: absent now. */
bool kh_base_is_same(const struct kh_base_entry *entry, const struct stat *st);
/* Has nobody written to the copy since it was made? */
bool kh_base_is_copy(const struct kh_base_entry *entry, const struct stat *copy);

/* ---- review_copy.c ---- */

struct kh_review_owner {
	bool change; /* as root: what is the workspace owner's becomes the sandbox's */
	struct stat workspace;
};
/* The content of one regular file into another, by reference where the file system can. */
bool kh_copy_content(int from, int to);
/* Notes all that is in the workspace; `tree` is a folder for a copy, -1: none is made. What can't
 * be read is left out; *left_out counts it. */
bool kh_review_take(int workspace, int tree, struct kh_base_writer *base,
		    const struct kh_review_owner *owner, uint64_t *left_out, struct kh_err *err);

/* ---- review_mount.c ---- */

enum kh_upper { KH_UPPER_NOTHING, KH_UPPER_GONE, KH_UPPER_THERE };
/* What an upper folder says of a name: nothing, that it is gone, or that it is there (*st). */
enum kh_upper kh_upper_look(int upper, const char *path, struct stat *st);
/* Does this folder of it hide the one below? */
bool kh_upper_is_opaque(int upper, const char *path);
/* Can an overlay be mounted over the workspace with these layers? Tried by mounting one. */
bool kh_review_try_overlay(const char *workspace, const char *folder, struct kh_err *err);

/* ---- review.c ---- */

/* The files and folders of a review. */
#define KH_REVIEW_META "review.json"
#define KH_REVIEW_BASE "base"
#define KH_REVIEW_LAYERS "layers"
#define KH_REVIEW_TREE "tree"

/* The workspace, and the folder that the agent wrote to: descriptors, -1 with err. */
int kh_review_workspace(const struct kh_review *review, struct kh_err *err);
int kh_review_upper(const struct kh_review *review, struct kh_err *err);

/* ---- git_shape.c ---- */

/* Has the folder the shape of a git folder, where `has` says which paths there are? */
bool kh_git_has_shape(bool (*has)(void *arg, const char *path), void *arg, const char *folder);
/* The same in the workspace alone, or with what the agent made? */
bool kh_git_is_shaped(int workspace, int upper, const char *folder, bool agents);
/* `rest` is below it: is that what makes it one, or runs there? */
bool kh_git_is_part(const char *rest);

/* ---- review_bar.c: what is not taken over like the rest ---- */

/*
 * What bars a name of the agent's, a file's or one in a commit: by the name, at any depth and
 * whether it is there or not, by its type (`mode`, 0: it is to go), and by a link's text (NULL: it
 * can't be told). The shapes of git folders (git_shape.c) and what the host reads
 * (kh_review_bar_reads) come to it.
 */
enum kh_change_bar kh_review_bar_of(int workspace, const char *path, mode_t mode, const char *link);

/* Bars what the host's git and other tools run or read in the workspace (review_reads.h), and sets
 * how far a name has to reach. */
bool kh_review_bar_reads(const struct kh_review *review, struct kh_changes *changes,
			 struct kh_err *err);
/* The folder of a bulky or git kind that `path` lies in or is; 0: none, else its length. */
size_t kh_review_bar_group(const char *path, enum kh_change_bar *bar);
/* Is `path` one of the names, or below one? */
bool kh_review_bar_is_named(const char *path, char *const *names);
/* Does a symbolic link at `path` with this text stay in the workspace, whatever lies there? */
bool kh_review_bar_link_stays(const char *path, const char *text);
/* The same of one that passed: is it so where the workspace has links of its own? */
bool kh_review_bar_link_stays_there(int workspace, const char *path, const char *text);

#endif
