/* treereads.h - what git reads or runs by a relative path, in each work tree anew */
#ifndef KEYHOLE_SANDBOX_TREEREADS_H
#define KEYHOLE_SANDBOX_TREEREADS_H

#include "concern.h"

/*
 * A list of such paths: for each the git folder whose configuration says so, resolved and with a
 * NUL ("": the user's, for every repository), '/' for a folder of hooks or '-' for a file, and the
 * path with a NUL.
 */
struct kh_tree_read {
	const char *git_dir, *path;
	bool is_folder;
};
/* The next of the list from *at; false: there is none. */
bool kh_tree_reads_next(struct kh_slice list, size_t *at, struct kh_tree_read *read);
/* Does git in the work tree of this git folder read it? */
bool kh_tree_read_is_of(const struct kh_tree_read *read, const char *git_dir);
/* The git folder whose configuration git reads in `tree`, which has .git in it or is a git folder
 * itself. Resolved; NULL: there is none. Heap. */
char *kh_tree_git_dir(const char *tree);
/* Where that is, without a look at the disk; NULL: not in the workspace, or not below a folder that
 * is the tree or above it. Heap. */
char *kh_tree_read_at(const char *root, const char *tree, const struct kh_tree_read *read);
/* Of what lies there, wherever in the workspace that is: links are followed, and what they say
 * counts. Return: false where there is nothing. */
bool kh_tree_read_digest(const char *root, const char *at, const struct kh_tree_read *read,
			 unsigned char out[KH_CONCERN_DIGEST_BYTES]);

#endif
