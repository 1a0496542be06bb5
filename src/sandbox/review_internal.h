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
/* Opens the folder that contains `path`; *name is the last component. Return: a descriptor for the
 * caller; -1 with errno. */
int kh_review_beneath_parent(int folder, const char *path, const char **name);
/*
 * Opens a folder with O_PATH, never through a symbolic link, so that owner and mode can be set by
 * the descriptor (kh_file_set_mode). `fresh`: it was just made with mode 0700; if somebody has
 * replaced it since, this fails. Return: -1 with errno.
 */
int kh_review_open_made(int parent, const char *name, bool fresh);
/* The text of a symbolic link. Heap; NULL with errno. */
char *kh_review_beneath_link(int folder, const char *path);

enum kh_walk_order { KH_WALK_ON, KH_WALK_SKIP, KH_WALK_STOP };
struct kh_tree_walker {
	/* Called for each entry, sorted by name, a folder before its content; SKIP: do not enter
	 * it. */
	enum kh_walk_order (*entry)(void *arg, const char *path, const struct stat *st);
	/* Called for a folder that can't be read, or is nested too deep. */
	enum kh_walk_order (*unreadable)(void *arg, const char *path, int sys);
	/* Called after the content of a folder; may be NULL. */
	enum kh_walk_order (*leave)(void *arg, const char *path);
	void *arg;
	uint64_t entries; /* so far; more than KH_LIMIT_REVIEW_ENTRIES is an error */
};
/* Walks what is below `path` of `folder` ("": all of it). */
bool kh_tree_walk(struct kh_tree_walker *walker, int folder, const char *path, struct kh_err *err);
/* Removes a tree, whatever modes its folders have. */
bool kh_tree_remove(int above, const char *name, struct kh_err *err);

/* ---- review_base.c: what the workspace held when the agent began ---- */

struct kh_base_entry {
	uint32_t mode; /* 0: nothing was there */
	uint32_t mtime_ns, ctime_ns, copy_ctime_ns;
	int64_t mtime_s, ctime_s, copy_ctime_s;
	uint64_t size, ino;
	uint64_t copy_ino; /* of the copy when it was made; 0: no copy */
};
struct kh_base {
	char *bytes;
	size_t len;
	struct kh_base_row {
		const char *path;
		size_t at; /* offset in the file: a later row replaces an earlier one */
		struct kh_base_entry entry;
	} * rows;
	size_t n;
};
/* Appends records; for a path the last one counts. */
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
/* Parses `bytes` (heap) into rows. Return: false without memory. */
bool kh_base_read(struct kh_base *base);
bool kh_base_load(struct kh_base *base, const char *path, struct kh_err *err);
void kh_base_fini(struct kh_base *base);
/* NULL: nothing was there. */
const struct kh_base_entry *kh_base_find(const struct kh_base *base, const char *path);
/* `st`: st_mode 0: absent now. */
bool kh_base_is_same(const struct kh_base_entry *entry, const struct stat *st);
/* Has nobody written to the copy since it was made? */
bool kh_base_is_copy(const struct kh_base_entry *entry, const struct stat *copy);

/* ---- review_owner.c ---- */

struct kh_review_owner {
	bool change; /* as root: files of the workspace's owner get the sandbox's uid */
	struct stat workspace;
};
struct kh_review_ids {
	bool set; /* false: whoever makes it */
	uid_t uid;
	gid_t gid;
};
/* Whose a file of the workspace is in the agent's folder: the sandbox's if it is the workspace
 * owner's, else nobody gets it. The group in the same way. */
struct kh_review_ids kh_review_owner_there(const struct kh_review_owner *owner,
					   const struct stat *ours);
/* As root: whose a file of the agent's folder is in the workspace. The sandbox's goes to the owner
 * of `place`, the file that it replaces or else the folder; another user's stays that user's. */
struct kh_review_ids kh_review_owner_back(const struct stat *place, const struct stat *theirs);
/* Is it the same thing, of the same owner and group? Under its name somebody may have put another.
 */
bool kh_review_owner_is_same(const struct stat *was, const struct stat *now);

/* ---- review_copy.c ---- */

/* Copies the content of a regular file into an empty one, by reference (reflink) if possible; holes
 * stay holes. No more than what it has at the beginning. Return: false with errno. */
bool kh_copy_content(int from, int to);
/* Where the next byte is that is in no hole, from `at` on: `end`: there is none before. */
off_t kh_copy_next_data(int fd, off_t at, off_t end);
/* Records the state of everything in the workspace. `tree`: the folder for a copy; -1: no copy.
 * Unreadable files are left out; *left_out counts them. */
bool kh_review_take(int workspace, int tree, struct kh_base_writer *base,
		    const struct kh_review_owner *owner, uint64_t *left_out, struct kh_err *err);

/* ---- review_mount.c ---- */

enum kh_upper { KH_UPPER_NOTHING, KH_UPPER_GONE, KH_UPPER_THERE };
/* What an upper folder tells about a name: nothing, deleted, or present (*st). */
enum kh_upper kh_upper_look(int upper, const char *path, struct stat *st);
/* Does this folder of the upper layer hide the lower one (opaque)? */
bool kh_upper_is_opaque(int upper, const char *path);
/* Can an overlay be mounted over the workspace with these layers? Tried by mounting one. */
bool kh_review_try_overlay(const char *workspace, const char *folder, struct kh_err *err);

/* ---- review.c ---- */

/* The files and folders of a review. */
#define KH_REVIEW_META "review.json"
#define KH_REVIEW_BASE "base"
#define KH_REVIEW_LAYERS "layers"
#define KH_REVIEW_TREE "tree"

/* ---- review_place.c ---- */

/* Opens the workspace of a review that begins, and notes which folder that is. */
bool kh_review_place_take(struct kh_review *review, struct stat *st, struct kh_err *err);

/* The workspace, and the folder that the agent wrote to: descriptors, -1 with err. The workspace is
 * the one that is held, or else it is opened as kh_review_hold does. */
int kh_review_workspace(const struct kh_review *review, struct kh_err *err);
int kh_review_upper(const struct kh_review *review, struct kh_err *err);

/* ---- git_shape.c ---- */

/*
 * Finds folders that git would recognise as git folders by what is in them, in any spelling that a
 * file system may take for it: what the workspace and the agent's folder (-1: none) have counts
 * together with the names of `changes`. Which is faster if it is asked in the order of the paths.
 */
struct kh_git_shapes {
	int workspace, upper;
	char **names; /* of the changes, folded and sorted */
	size_t n;
	struct kh_git_asked {
		char *folder;
		bool is;
	} asked[KH_LIMIT_REVIEW_DEPTH + 2]; /* the last one at each depth */
};
/* Return: false without memory. kh_git_shapes_fini also after that. */
bool kh_git_shapes_init(struct kh_git_shapes *shapes, int workspace, int upper,
			const struct kh_changes *changes);
/* Is `path` in such a folder, or (`is_folder`) one? *len: of that folder's path; 0: the top, of
 * which only git's own names are git's. Return: false without memory. */
bool kh_git_shapes_find(struct kh_git_shapes *shapes, const char *path, bool is_folder, bool *found,
			size_t *len);
void kh_git_shapes_fini(struct kh_git_shapes *shapes);
/* Is `rest`, a path in a git folder, part of what makes it one, or something that git runs? */
bool kh_git_is_part(const char *rest);

/* ---- review_bar.c: changes that are not applied like the rest ---- */

/*
 * What bars a file of the agent's, or a name in a commit: by its name, at any depth and whether it
 * exists or not, by its type (`mode`; 0: deleted), and by a link's text (NULL: unknown). The
 * content of git folders (git_shape.c) and what the host reads (kh_review_bar_reads) are checked in
 * addition.
 */
enum kh_change_bar kh_review_bar_of(int workspace, const char *path, mode_t mode, const char *link);

/* Bars changes to what git and other tools on the host run or read in the workspace
 * (review_reads.h), and sets `reach`. */
bool kh_review_bar_reads(const struct kh_review *review, struct kh_changes *changes,
			 struct kh_err *err);
/* The bulky or git folder that `path` is, or is in. Return: the length of its path; 0: none. */
size_t kh_review_bar_group(const char *path, enum kh_change_bar *bar);
/*
 * Is this folder, or the folder of this file, nested so deep, or its path so long, that no survey
 * can look into it? Nothing would start in that workspace any more.
 */
bool kh_review_bar_is_too_deep(const struct kh_review *review, const char *path, bool is_folder);
/* Is `path` one of the names, or below one? */
bool kh_review_bar_is_named(const char *path, char *const *names);
/* Does a symbolic link at `path` with this text stay in the workspace, judged by its text alone? */
bool kh_review_bar_link_stays(const char *path, const char *text);
/* For a link that passed that check: is it still true with the symbolic links that the workspace
 * has? */
bool kh_review_bar_link_stays_there(int workspace, const char *path, const char *text);

/* ---- review_groups.c ---- */

/* Finds the groups of a list of changes while that is made. Zeroed at first. */
struct kh_review_groups {
	void *tree;
	size_t alloc;
};
/* Counts one change in the folder that the first `len` bytes of `path` name. */
bool kh_review_groups_count(struct kh_review_groups *groups, struct kh_changes *changes,
			    const char *path, size_t len, enum kh_change_bar bar,
			    struct kh_err *err);
/* Before `changes` is freed, whose paths it uses. */
void kh_review_groups_fini(struct kh_review_groups *groups);

#endif
