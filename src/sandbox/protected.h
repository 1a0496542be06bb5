/* protected.h - names in a workspace that tools of the host run things from */
#ifndef KEYHOLE_SANDBOX_PROTECTED_H
#define KEYHOLE_SANDBOX_PROTECTED_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Hooks, and settings of editors, agents and other tools. In every folder such a name is read-only
 * in a sandbox where it exists; one that the agent makes is set aside after the run (after.c), and
 * a review takes it over only where it is named.
 */
struct kh_protected {
	const char *pattern; /* of fnmatch(3); case does not count */
	/* At the top it can't be made either: an empty folder lies in its place, which does no harm
	 * to a project without it. Then it is no pattern but the name itself. */
	bool absent_too;
};
/* The last one has no pattern. */
extern const struct kh_protected kh_protected_names[];
bool kh_protected_is_name(const char *name);

#endif
