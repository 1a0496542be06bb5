/* tree_reads.h - paths that git reads or runs, compared before and after a run; relative ones in
 * each work tree */
#ifndef KEYHOLE_SANDBOX_TREE_READS_H
#define KEYHOLE_SANDBOX_TREE_READS_H

#include "concern.h"

/*
 * A list of such paths: for each the git folder whose configuration says so, resolved and with a
 * NUL ("": the user's, for every repository), what is there, and the path with a NUL. A path that
 * is absolute is read from there by whoever reads it.
 */
enum kh_tree_kind {
	KH_TREE_HOOKS = '/',   /* a folder, whether it exists or not */
	KH_TREE_NAMED = '-',   /* a file, or a folder with all that is in it */
	KH_TREE_PROGRAM = '*', /* a file, or a folder that Python runs (__main__.py) */
};
struct kh_tree_read {
	const char *git_dir, *path;
	char kind;
};
/* The next of the list from *at; false: there is none. */
bool kh_tree_reads_next(struct kh_slice list, size_t *at, struct kh_tree_read *read);
/* Does git in the work tree of this git folder read it? */
bool kh_tree_read_is_of(const struct kh_tree_read *read, const char *git_dir);
/* The git folder whose configuration git reads in `tree`, which has .git in it or is a git folder
 * itself. Resolved; NULL: there is none. Heap. */
char *kh_tree_git_dir(const char *tree);
/* The same before a file `commondir` in it is followed. */
char *kh_tree_own_git_dir(const char *tree);
/* Does `python3 FOLDER` run it? */
bool kh_tree_is_program(const char *folder);
/* Where that is, without a look at the disk; NULL: not in the workspace, or not below a folder that
 * is the tree or above it. `tree` NULL: of an absolute path alone; else of a relative one. Heap. */
char *kh_tree_read_at(const char *root, const char *tree, const struct kh_tree_read *read);
/* Of what lies there, wherever in the workspace that is: links are followed, and what they say
 * counts. Return: false where there is nothing. */
bool kh_tree_read_digest(const char *root, const char *at, const struct kh_tree_read *read,
			 unsigned char out[KH_CONCERN_DIGEST_BYTES]);

#endif
