/* git_index.h - parses the names in git's index */
#ifndef KEYHOLE_SANDBOX_GIT_INDEX_H
#define KEYHOLE_SANDBOX_GIT_INDEX_H

#include <keyhole/base/slice.h>

/* Bytes of an object id: SHA-1, and SHA-256 (extensions.objectFormat). */
enum { KH_GIT_INDEX_SHA1 = 20, KH_GIT_INDEX_SHA256 = 32 };

/*
 * Is the file an index (gitformat-index(5), versions 2 to 4) in which each entry is a path in the
 * work tree? git checks names when it adds an entry, but trusts those that it reads: with
 * `../.profile` or `.git/hooks/post-checkout` in the index, `git checkout .` writes there, and `git
 * commit -a` reads there. Return: false also if it is malformed, or if git may read it in more than
 * one way.
 */
bool kh_git_index_is_harmless(struct kh_slice bytes, size_t id_bytes);

/*
 * Calls `each` with the path of each entry and whether it is a submodule's (a gitlink), up to the
 * first entry that is malformed. An entry of a split index without a name ("") replaces one of the
 * shared index, and has its name. Return: false: `each` returned false.
 */
bool kh_git_index_each(struct kh_slice bytes, size_t id_bytes,
		       bool (*each)(void *arg, const char *path, bool is_gitlink), void *arg);

#endif
