/* protected.h - the names of files from which tools on the host run something */
#ifndef KEYHOLE_SANDBOX_PROTECTED_H
#define KEYHOLE_SANDBOX_PROTECTED_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Hooks, and settings of editors, agents and other tools. In every folder, an existing file with
 * such a name is read-only in a sandbox. One that the agent makes is set aside after the run
 * (after.c), and a review applies it only if it is named.
 */
struct kh_protected {
	const char *pattern; /* of fnmatch(3); case does not count */
	/* At the top of the workspace it can't be created either: an empty folder is in its place,
	 * which is harmless for a project without it. Then `pattern` is the exact name. */
	bool absent_too;
};
/* The last one has no pattern. */
extern const struct kh_protected kh_protected_names[];
bool kh_protected_is_name(const char *name);

#endif
