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
	const char *value; /* NULL: the name alone, which git takes for true */
};

/*
 * Reads a file in the grammar of git-config(1), which includes no other file. Return: false where
 * git would refuse the file, where it holds a NUL or too many variables, or where `each` said so;
 * what came before has been given to `each`.
 */
bool kh_git_config_read(struct kh_slice bytes,
			bool (*each)(void *arg, const struct kh_git_config_entry *entry),
			void *arg);
/* Does it hold a NUL, or more variables than are read? git may read it otherwise. */
bool kh_git_config_is_beyond(struct kh_slice bytes);
/* Can git run nothing and write nowhere else because of this variable? The list is one of what is
 * known to be harmless; whatever it does not name is not. core.worktree is not judged here. */
bool kh_git_config_is_harmless(const struct kh_git_config_entry *entry);
/* The path, from the work tree, where the entry names a repository on this host; NULL: it doesn't.
 * Of a branch without a slash it may be a remote's name, which git prefers.
 * That is harmless where it leads to a place in the workspace: a fetch copies what is there. */
const char *kh_git_config_local(const struct kh_git_config_entry *entry);
/* core.worktree, which is harmless where it leads to a place in the workspace. */
bool kh_git_config_is_worktree(const struct kh_git_config_entry *entry);
/* Appends it in git's form. Return: false as kh_buf_append. */
bool kh_git_config_write(struct kh_buf *out, const struct kh_git_config_entry *entry);

#endif
