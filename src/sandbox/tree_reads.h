/* tree_reads.h - paths that git reads or runs, compared before and after a run; relative ones in
 * each work tree */
#ifndef KEYHOLE_SANDBOX_TREE_READS_H
#define KEYHOLE_SANDBOX_TREE_READS_H

#include "concern.h"

/*
 * A list of such paths. Each entry is: the git folder whose configuration has the setting, resolved
 * and with a NUL ("": the user's configuration, for every repository); the kind; and the path with
 * a NUL, which may be absolute.
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
/* Gets the next entry of the list from *at; false: there is none. */
bool kh_tree_reads_next(struct kh_slice list, size_t *at, struct kh_tree_read *read);
/* Does git in the work tree of this git folder read it? */
bool kh_tree_read_is_of(const struct kh_tree_read *read, const char *git_dir);
/* The git folder whose configuration git uses in `tree`, which contains .git or is a git folder
 * itself. Resolved, heap; NULL: none. */
char *kh_tree_git_dir(const char *tree);
/* The same without following a file `commondir` in it. */
char *kh_tree_own_git_dir(const char *tree);
/* Would `python3 FOLDER` run it? */
bool kh_tree_is_program(const char *folder);
/* The path of an entry in the workspace, computed without accessing the disk; NULL: it is not in
 * the workspace, or not below the tree or a folder above it. `tree` NULL: for absolute paths only;
 * else for relative ones. Heap. */
char *kh_tree_read_at(const char *root, const char *tree, const struct kh_tree_read *read);
/* The digest of what is there: links within the workspace are followed, and their texts count too.
 * Return: false: there is nothing. */
bool kh_tree_read_digest(const char *root, const char *at, const struct kh_tree_read *read,
			 unsigned char out[KH_CONCERN_DIGEST_BYTES]);

#endif
