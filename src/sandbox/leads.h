/* leads.h - the folders that a file of git names, and where they really are */
#ifndef KEYHOLE_SANDBOX_LEADS_H
#define KEYHOLE_SANDBOX_LEADS_H

#include "concern.h"

/*
 * Calls `each` for each folder that a configuration (core.worktree), a .git file, a commondir or a
 * list of alternates names (`target`), with the folder to which it is relative. Other kinds name
 * none. Return: false: it can't be read, git may read it differently, it names more than
 * KH_LIMIT_SURVEY_LEADS, the walk's deadline has passed, or `each` returned false.
 */
bool kh_leads_each(const struct kh_concern *c,
		   bool (*each)(void *arg, const char *folder, struct kh_slice target), void *arg);
/* The absolute path, unresolved, of the repository on this host that an entry of the configuration
 * in this git folder names; NULL: it names none, or there is no memory. Heap. */
struct kh_git_config_entry;
char *kh_leads_remote(const char *git_dir, const struct kh_git_config_entry *entry);
/* Appends where it leads, with symbolic links resolved, and where git would look for the
 * repositories that a configuration names by a path, to compare before and after. Return: false:
 * no memory, or not all could be resolved; then it counts as changed. */
bool kh_leads_where(const struct kh_concern *c, struct kh_buf *out);

#endif
