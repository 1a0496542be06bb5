/* git_config.h - parses git's configuration files, and tells which settings are harmless */
#ifndef KEYHOLE_SANDBOX_GIT_CONFIG_H
#define KEYHOLE_SANDBOX_GIT_CONFIG_H

#include <stdbool.h>

#include <keyhole/base/buf.h>

/* One variable. Section and name are in lower case, as git compares them. */
struct kh_git_config_entry {
	const char *section;
	const char *subsection; /* NULL: none */
	const char *name;
	const char *value; /* NULL: only the name, which means true */
};

/*
 * Parses a file in the syntax of git-config(1); does not follow includes. Return: false: git would
 * refuse the file, it has a NUL or too many variables, or `each` returned false. `each` was called
 * for the variables before that.
 */
bool kh_git_config_read(struct kh_slice bytes,
			bool (*each)(void *arg, const struct kh_git_config_entry *entry),
			void *arg);
/* Does it have a NUL, or more variables than are parsed here? git may read it differently. */
bool kh_git_config_is_beyond(struct kh_slice bytes);
/* Is this variable harmless: can't it make git run something or write elsewhere? Only variables in
 * a fixed list are harmless. core.worktree is not judged here. */
bool kh_git_config_is_harmless(const struct kh_git_config_entry *entry);
/* If the entry names a repository on this host: its path, relative to the work tree; NULL: it
 * doesn't. For a branch, a value without a slash may also be a remote's name, which git prefers.
 * The entry is harmless if the path is in the workspace, since a fetch only copies what is
 * there. */
const char *kh_git_config_local(const struct kh_git_config_entry *entry);
/* Is it core.worktree? That is harmless if it leads to a place in the workspace. */
bool kh_git_config_is_worktree(const struct kh_git_config_entry *entry);
/* Appends it in git's form. Return: false as kh_buf_append. */
bool kh_git_config_write(struct kh_buf *out, const struct kh_git_config_entry *entry);

#endif
