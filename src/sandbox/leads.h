/* leads.h - the folders that a file of git names, and where they really are */
#ifndef KEYHOLE_SANDBOX_LEADS_H
#define KEYHOLE_SANDBOX_LEADS_H

#include "concern.h"

/*
 * Gives each folder that a configuration (core.worktree), a .git file, a commondir or a list of
 * alternates names, and from which folder git reads that name. Other kinds give none. Return: false
 * where it can't be read, where git may read it otherwise, where it names more than
 * KH_LIMIT_SURVEY_LEADS, where the walk's time is over, or where `each` said so.
 */
bool kh_leads_each(const struct kh_concern *c,
		   bool (*each)(void *arg, const char *folder, struct kh_slice target), void *arg);
/* Does it lead to where it was led before? Appends where that is, links followed. Return: false
 * without memory, or where not all could be followed: it is like no other. */
bool kh_leads_where(const struct kh_concern *c, struct kh_buf *out);

#endif
