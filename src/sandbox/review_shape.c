/*
 * git_shape.c - would this folder be taken for a git folder?
 *
 * git tells one by what is in it (is_git_directory of its setup.c), whatever its name is, and then
 * runs what its configuration says. Here the workspace and the agent's count together: what one
 * review brought must not wait for what the next one brings.
 */
#include <stdio.h>
#include <string.h>

#include "review_internal.h"

static bool has(int workspace, int upper, const char *folder, const char *name, bool agents)
{
	char path[KH_REVIEW_PATH_BYTES];
	struct stat st;
	int n = snprintf(path, sizeof(path), "%s%s%s", folder, *folder ? "/" : "", name);
	if (n < 0 || (size_t)n >= sizeof(path))
		return true;
	if (kh_review_beneath_stat(workspace, path, &st) == 0)
		return true;
	return agents && kh_review_beneath_stat(upper, path, &st) == 0 &&
	       !(S_ISCHR(st.st_mode) && st.st_rdev == 0);
}

bool kh_git_is_shaped(int workspace, int upper, const char *folder, bool agents)
{
	return has(workspace, upper, folder, "HEAD", agents) &&
	       (has(workspace, upper, folder, "commondir", agents) ||
		(has(workspace, upper, folder, "objects", agents) &&
		 has(workspace, upper, folder, "refs", agents)));
}

bool kh_git_is_part(const char *rest)
{
	static const char *const parts[] = { "HEAD",   "commondir",	  "objects", "refs",
					     "config", "config.worktree", "hooks" };
	size_t len = strcspn(rest, "/");
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strlen(parts[i]) == len && strncmp(parts[i], rest, len) == 0)
			return true;
	return false;
}
